//! Tables with one row per quantity and one column per run, direction or host.

use super::markup::Html;

/// A table under construction.
#[derive(Debug)]
pub(crate) struct Grid {
    columns: Vec<String>,
    rows: Vec<(String, Vec<Option<String>>)>,
    marks_differences: bool,
}

impl Grid {
    pub(crate) const fn new(columns: Vec<String>) -> Self {
        Self { columns, rows: Vec::new(), marks_differences: false }
    }

    /// Highlights rows whose values are not all the same.
    pub(crate) const fn marking_differences(mut self) -> Self {
        self.marks_differences = true;
        self
    }

    /// Adds a row, unless no column has a value for it.
    pub(crate) fn row(&mut self, label: impl Into<String>, cells: Vec<Option<String>>) {
        if cells.iter().any(Option::is_some) {
            self.rows.push((label.into(), cells));
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn write(&self, h: &mut Html) {
        h.raw("<div class=\"scroll\"><table class=\"grid\"><thead><tr><th></th>");
        for c in &self.columns {
            h.element("th", c);
        }
        h.raw("</tr></thead><tbody>");
        for (label, cells) in &self.rows {
            let differ = self.marks_differences && cells.iter().any(|c| c != &cells[0]);
            h.raw(if differ { "<tr class=\"differs\">" } else { "<tr>" });
            h.raw("<th>").text(label);
            if differ {
                h.raw(" <abbr title=\"values differ\">&ne;</abbr>");
            }
            h.raw("</th>");
            for cell in cells {
                match cell {
                    Some(text) => h.element("td", text),
                    None => h.raw("<td class=\"none\">&ndash;</td>"),
                };
            }
            h.raw("</tr>");
        }
        h.raw("</tbody></table></div>");
    }
}
