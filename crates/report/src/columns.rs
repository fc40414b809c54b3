//! Aligned columns of plain text, as many as fit in a line.

use std::io::{self, Write};

use crate::sheet::{Sheet, WIDTH};
use crate::summary::printable;

/// Space before every column.
const GAP: usize = 2;

/// Table whose first column names its rows. If the columns do not all fit, the first ones are kept.
#[derive(Debug)]
pub(crate) struct Columns {
    names: Vec<String>,
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    /// Two lines of heading: the subject, then the quantity.
    heads: [String; 2],
    cells: Vec<String>,
    is_text: bool,
}

impl Column {
    fn width(&self) -> usize {
        self.heads.iter().chain(&self.cells).map(|t| t.chars().count()).max().unwrap_or(0)
    }

    fn cell(&self, text: &str, out: &mut String) {
        let width = self.width();
        let gap = " ".repeat(GAP);
        out.push_str(&if self.is_text { format!("{gap}{text:<width$}") } else { format!("{gap}{text:>width$}") });
    }
}

impl Columns {
    /// Rows of these names, each of at most `name_max` characters.
    pub(crate) fn new(names: impl IntoIterator<Item = String>, name_max: usize) -> Self {
        let names = names.into_iter().map(|n| shorten(&printable(&n), name_max)).collect();
        Self { names, columns: Vec::new() }
    }

    /// Adds a column of numbers, unless it has none.
    pub(crate) fn number(&mut self, over: &str, head: &str, cells: impl IntoIterator<Item = Option<String>>) {
        self.add(over, head, cells, false);
    }

    /// Adds a column of texts, unless it has none.
    pub(crate) fn text(&mut self, over: &str, head: &str, cells: impl IntoIterator<Item = Option<String>>) {
        self.add(over, head, cells, true);
    }

    fn add(&mut self, over: &str, head: &str, cells: impl IntoIterator<Item = Option<String>>, is_text: bool) {
        let cells: Vec<Option<String>> = cells.into_iter().collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|c| c.map_or_else(|| "-".to_owned(), |t| printable(&t))).collect();
            let heads = [shorten(&printable(over), 24), shorten(&printable(head), 24)];
            self.columns.push(Column { heads, cells, is_text });
        }
    }

    /// Writes the columns that fit, and returns the headings of the others.
    pub(crate) fn write<W: Write>(&self, sheet: &mut Sheet<'_, W>) -> io::Result<Vec<String>> {
        let names = self.names.iter().map(|n| n.chars().count()).max().unwrap_or(0);
        let mut width = GAP + names;
        let mut shown: Vec<&Column> = Vec::new();
        for c in &self.columns {
            if width + GAP + c.width() > WIDTH {
                break;
            }
            width += GAP + c.width();
            shown.push(c);
        }
        let line = |name: &str, of: &dyn Fn(&Column) -> String| {
            let mut line = format!("  {name:<names$}");
            shown.iter().for_each(|c| c.cell(&of(c), &mut line));
            line
        };
        for k in 0..2 {
            if shown.iter().any(|c| !c.heads[k].is_empty()) {
                sheet.line(&line("", &|c| c.heads[k].clone()))?;
            }
        }
        for (row, name) in self.names.iter().enumerate() {
            sheet.line(&line(name, &|c| c.cells.get(row).cloned().unwrap_or_default()))?;
        }
        let left_out = self.columns.iter().skip(shown.len());
        Ok(left_out.map(|c| c.heads.join(" ").trim().to_owned()).collect())
    }
}

/// Truncates a text to `max` characters, with a mark.
fn shorten(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(max.saturating_sub(1)).collect();
    format!("{kept}~")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(columns: &Columns) -> (String, Vec<String>) {
        let mut out = Vec::new();
        let left_out = columns.write(&mut Sheet::new(&mut out)).unwrap();
        (String::from_utf8(out).unwrap(), left_out)
    }

    fn cells(texts: &[&str]) -> Vec<Option<String>> {
        texts.iter().map(|t| (!t.is_empty()).then(|| (*t).to_owned())).collect()
    }

    #[test]
    fn numbers_are_right_aligned_and_texts_left_aligned() {
        let mut c = Columns::new(["a".to_owned(), "longer name".to_owned()], 6);
        c.number("web", "p50", cells(&["1 ms", "100 ms"]));
        c.number("", "nothing", cells(&["", ""]));
        c.text("", "why", cells(&["", "loss"]));
        let (text, left_out) = written(&c);
        assert_eq!(text, "             web\n             p50  why\n  a         1 ms  -\n  longe~  100 ms  loss\n");
        assert!(left_out.is_empty());
    }

    #[test]
    fn columns_that_do_not_fit_are_returned() {
        let mut c = Columns::new(["a".to_owned()], 6);
        c.number("flow", "goodput", cells(&["1"]));
        c.number("wide", "one", cells(&[&"x".repeat(120)]));
        c.number("flow", "loss", cells(&["2"]));
        let (text, left_out) = written(&c);
        assert_eq!(left_out, ["wide one", "flow loss"]);
        assert!(text.contains("goodput") && text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
    }
}
