//! Removal of control characters from a peer's text, which may be printed on a terminal.

/// Whether a terminal would interpret the character instead of showing it; tab and newline are harmless.
pub(crate) fn is_hostile(c: char) -> bool {
    c.is_control() && c != '\t' && c != '\n'
}

/// `text` with every control character but tab and newline replaced by `?`.
///
/// A peer's text is printed, and a terminal would interpret escape sequences in it.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_hostile(c) || c == char::REPLACEMENT_CHARACTER { '?' } else { c }).collect()
}

/// Whether some string in the JSON text `json` contains a control character other than tab and newline.
///
/// The check covers escapes as well as raw characters, so that one pass covers every string of a message, however
/// nested. A JSON parser must have accepted `json`; on other input the answer is meaningless, but the function does
/// not panic.
pub(crate) fn json_has_control(json: &str) -> bool {
    let mut chars = json.chars();
    while let Some(c) = chars.next() {
        let hostile = match c {
            '\\' => escape_is_hostile(&mut chars),
            // Raw line ends between the tokens are JSON white space, not text.
            '\r' => false,
            other => is_hostile(other),
        };
        if hostile {
            return true;
        }
    }
    false
}

/// Checks the escape whose backslash was just read.
fn escape_is_hostile(chars: &mut core::str::Chars<'_>) -> bool {
    match chars.next() {
        Some('b' | 'f' | 'r') => true,
        Some('u') => {
            let code = chars.by_ref().take(4).try_fold(0, |code, c| Some(code * 16 + c.to_digit(16)?));
            code.and_then(char::from_u32).is_some_and(is_hostile)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_and_escaped_backslashes_are_not_escapes() {
        for hostile in [
            r#""\u001b[2J""#,
            r#"{"a\u0007":1}"#,
            r#"["\b"]"#,
            r#""\f""#,
            r#""\r""#,
            "\"\u{9b}2J\"",
            "\"\u{7f}\"",
            r#""\u009B""#,
        ] {
            assert!(json_has_control(hostile), "{hostile}");
        }
        for harmless in [r#""\\u001b""#, r#""\t\n\"\/""#, "{\r\n\t\"a\": 1}", r#""\u00e4\ud83d\ude00""#, r#""ä\\""#] {
            assert!(!json_has_control(harmless), "{harmless}");
        }
        let _answer_without_meaning = json_has_control(r#""\u00"#);
    }
}
