# Prose of Markdown pages: prints lines of more than `max_columns` columns and sentences of more than `max_words` words.
# Tables and code blocks are left out. A list item and a paragraph each end a sentence; code in a line is one word.
# Run with LC_ALL=C, so that every awk counts bytes; continuation bytes of UTF-8 are removed before the count.

function columns(text) { gsub(/[\200-\277]/, "", text); return length(text) }

# Counts the words of each sentence of the paragraph so far, and starts the next paragraph.
function close_paragraph(    text, all, n, i, words, w, k, count) {
  text = paragraph; paragraph = ""
  gsub(/`[^`]*`/, "C", text)
  gsub(/\]\([^)]*\)/, "", text)
  # A sentence ends before a capital letter, code or markup.
  text = text " "
  while (match(text, /[.!?][)*"']* +[A-Z*["]/)) text = substr(text, 1, RSTART) "\n" substr(text, RSTART + RLENGTH - 1)
  n = split(text, all, "\n")
  for (i = 1; i <= n; i++) {
    count = 0
    w = split(all[i], words, /[ \t]+/)
    for (k = 1; k <= w; k++) if (words[k] ~ /[A-Za-z0-9]/) count++
    if (count > max_words) print first_file ":" first_line ": a sentence of " count " words: " substr(all[i], 1, 80)
  }
}

FNR == 1 { close_paragraph(); fenced = 0 }
/^ *(```|~~~)/ { close_paragraph(); fenced = !fenced; next }
fenced || /^ *\|/ { close_paragraph(); next }
# Indented code follows a blank line; a continuation of a list item does not.
paragraph == "" && !after_item && /^    / { next }
columns($0) > max_columns { print FILENAME ":" FNR ": " columns($0) " columns" }
/^[^ ]/ { after_item = 0 }
/^ *$/ || /^#/ || /^ *<[^>]*> *$/ { close_paragraph(); next }
/^ *([-*+]|[0-9]+\.) / { close_paragraph(); after_item = 1; sub(/^ *([-*+]|[0-9]+\.) /, "") }
{
  if (paragraph == "") { first_file = FILENAME; first_line = FNR }
  sub(/^ +/, ""); paragraph = paragraph " " $0
}
END { close_paragraph() }
