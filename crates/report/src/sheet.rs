//! Labelled plain lines of bounded width.

use std::io::{self, Write};

use crate::summary::printable;

/// Maximum line width in columns, suitable for a half-screen terminal and an e-mail.
pub(crate) const WIDTH: usize = 110;

/// Width of the label column.
const LABEL_WIDTH: usize = 17;

/// Writes `label  text` lines, breaking the text between words.
#[derive(Debug)]
pub(crate) struct Sheet<'a, W> {
    out: &'a mut W,
}

impl<'a, W: Write> Sheet<'a, W> {
    pub(crate) const fn new(out: &'a mut W) -> Self {
        Self { out }
    }

    pub(crate) fn blank(&mut self) -> io::Result<()> {
        writeln!(self.out)
    }

    /// Writes a line of printable text unchanged, such as columns aligned by the caller.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", text.trim_end())
    }

    /// A heading with a rule up to the full width.
    pub(crate) fn heading(&mut self, text: &str) -> io::Result<()> {
        let text: String = printable(text).chars().take(WIDTH - 8).collect();
        let rule = "-".repeat(WIDTH.saturating_sub(text.chars().count() + 5));
        writeln!(self.out, "-- {text} {rule}-")
    }

    /// A labelled value; further lines of it are indented to the value.
    pub(crate) fn item(&mut self, label: &str, text: &str) -> io::Result<()> {
        let label = format!("  {label:<width$}", width = LABEL_WIDTH - 2);
        self.wrapped(&label, LABEL_WIDTH, text)
    }

    /// Writes a line that belongs to the item above.
    pub(crate) fn sub(&mut self, text: &str) -> io::Result<()> {
        self.wrapped(&" ".repeat(LABEL_WIDTH), LABEL_WIDTH + 2, text)
    }

    fn wrapped(&mut self, first: &str, indent: usize, text: &str) -> io::Result<()> {
        let text = printable(text);
        let mut line = first.to_owned();
        let mut width = line.chars().count();
        let mut fresh = true;
        for word in text.split(' ') {
            let chars = word.chars().count();
            if !fresh && width + 1 + chars > WIDTH {
                writeln!(self.out, "{}", line.trim_end())?;
                line = " ".repeat(indent);
                width = indent;
                fresh = true;
            }
            if !fresh {
                line.push(' ');
                width += 1;
            }
            // A single word longer than a line is truncated, so that the report stays readable whatever a peer sends.
            let kept: String = word.chars().take(WIDTH - indent.max(LABEL_WIDTH)).collect();
            width += kept.chars().count();
            line.push_str(&kept);
            fresh = false;
        }
        writeln!(self.out, "{}", line.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_the_page() {
        let mut out = Vec::new();
        let mut sheet = Sheet::new(&mut out);
        sheet.heading(&"h".repeat(300)).unwrap();
        sheet.item("note", &"word ".repeat(100)).unwrap();
        sheet.item("note", &"w".repeat(500)).unwrap();
        sheet.sub("a\nb\x1b[31m").unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
        assert!(text.ends_with("a b?[31m\n"));
    }
}
