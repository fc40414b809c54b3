//! Building HTML so that no text of a record can become markup.

use core::fmt::Display;

/// HTML under construction: markup is constant, everything else is escaped.
#[derive(Debug, Default)]
pub(crate) struct Html(String);

impl Html {
    pub(crate) const fn new() -> Self {
        Self(String::new())
    }

    /// Adds markup. Only constants of the program fit here, so text of a record cannot slip in.
    pub(crate) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Adds text or the value of a quoted attribute.
    pub(crate) fn text(&mut self, text: impl Display) -> &mut Self {
        escape_into(&mut self.0, &typeset(&text.to_string()));
        self
    }

    /// Adds text without typesetting, such as a command.
    pub(crate) fn verbatim(&mut self, text: &str) -> &mut Self {
        escape_into(&mut self.0, text);
        self
    }

    /// Adds a number with at most three decimals, for attributes and styles.
    pub(crate) fn number(&mut self, value: f64) -> &mut Self {
        let rounded = (crate::summary::finite(value) * 1e3).round() / 1e3;
        self.0.push_str(&rounded.to_string());
        self
    }

    /// Adds `<tag>text</tag>`.
    pub(crate) fn element(&mut self, tag: &'static str, text: impl Display) -> &mut Self {
        self.raw("<").raw(tag).raw(">").text(text).raw("</").raw(tag).raw(">")
    }

    /// Adds `<tag class="...">text</tag>`.
    pub(crate) fn classed(&mut self, tag: &'static str, class: &'static str, text: impl Display) -> &mut Self {
        self.raw("<").raw(tag).raw(" class=\"").raw(class).raw("\">").text(text).raw("</").raw(tag).raw(">")
    }

    /// Starts a scrollable table with the names of its columns.
    pub(crate) fn table_head(&mut self, names: impl IntoIterator<Item = impl Display>) -> &mut Self {
        self.raw("<div class=\"scroll\"><table><thead><tr>");
        for name in names {
            self.element("th", name);
        }
        self.raw("</tr></thead><tbody>")
    }

    /// A row: its name, then its cells.
    pub(crate) fn table_row(&mut self, name: impl Display, cells: impl IntoIterator<Item = impl Display>) -> &mut Self {
        self.raw("<tr>").element("th", name);
        for cell in cells {
            self.element("td", cell);
        }
        self.raw("</tr>")
    }

    /// Ends the table.
    pub(crate) fn table_foot(&mut self) -> &mut Self {
        self.raw("</tbody></table></div>")
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Plain-text conventions of [`crate::summary`] as a page prints them: `5.00 us` with a micro sign, `+/-` and
/// `->` as one character, no line break between a number and its per cent sign.
fn typeset(text: &str) -> String {
    let mut out = text.replace(" +/- ", " \u{b1} ").replace(" -> ", " \u{2192} ");
    for (plain, set) in [(" us", " \u{b5}s"), (" %", "\u{a0}%")] {
        let mut rest = core::mem::take(&mut out);
        while let Some(at) = rest.find(plain) {
            let tail = rest.split_off(at + plain.len());
            let follows_number = rest[..at].ends_with(|c: char| c.is_ascii_digit());
            let ends_word = !tail.starts_with(char::is_alphanumeric);
            if follows_number && ends_word {
                rest.replace_range(at.., set);
            }
            out.push_str(&rest);
            rest = tail;
        }
        out.push_str(&rest);
    }
    out
}

fn escape_into(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if (c.is_control() && c != '\n') || units::is_deceptive(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

/// JSON that can stand inside a `script` element: no `<` ends it, no separator breaks a line of JavaScript, and no text
/// in it can reorder or hide other text of the page.
pub(crate) fn script_json(value: &impl serde::Serialize) -> Result<String, serde_json::Error> {
    let json = serde_json::to_string(value)?;
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c if units::is_deceptive(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_quotes() {
        let mut h = Html::new();
        h.raw("<a title=\"").text("\"><script>'&").raw("\">").number(f64::NAN).number(1.0 / 3.0);
        assert_eq!(h.as_str(), "<a title=\"&quot;&gt;&lt;script&gt;&#39;&amp;\">00.333");
    }

    #[test]
    fn text_that_reorders_or_hides_other_text_is_replaced() {
        let (reversed, hidden) = ("west\u{202e}tsae", "we\u{200b}st");
        let mut h = Html::new();
        h.text(reversed).verbatim(hidden);
        assert_eq!(h.as_str(), "west\u{fffd}tsaewe\u{fffd}st");
        assert_eq!(script_json(&[reversed, hidden]).unwrap(), "[\"west\u{fffd}tsae\",\"we\u{fffd}st\"]");
    }

    #[test]
    fn units_are_typeset_and_other_text_is_unchanged() {
        assert_eq!(typeset("5.00 us +/- 12 us, 5 %"), "5.00 \u{b5}s \u{b1} 12 \u{b5}s, 5\u{a0}%");
        assert_eq!(typeset("let us use 5 usual hosts, bus 5 % us"), "let us use 5 usual hosts, bus 5\u{a0}% us");
    }

    #[test]
    fn json_never_ends_its_script() {
        let json = script_json(&"</script><!--\u{2028}").unwrap();
        assert!(!json.contains('<') && !json.contains('\u{2028}'), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), "</script><!--\u{2028}");
    }
}
