//! Reference pages of file formats as man pages of section 5, generated from the Markdown of the documentation.

use clap_mangen::roff::{Inline, Roff, bold, roman};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// Name, one-line description and Markdown source of each page.
pub(super) const PAGES: [(&str, &str, &str); 3] = [
    (
        "longhaul-overlay",
        "configuration, status, metrics and events of an overlay node",
        include_str!("../../../../docs/reference/overlay.md"),
    ),
    (
        "longhaul-experiment",
        "description of an emulated experiment",
        include_str!("../../../../docs/reference/experiment-file.md"),
    ),
    (
        "longhaul-policy",
        "traffic shaping policy of a device",
        include_str!("../../../../docs/reference/policy-file.md"),
    ),
];

/// Renders a page as roff.
pub(super) fn page((name, about, markdown): (&str, &str, &str)) -> String {
    let mut page = Page::default();
    let version = concat!("longhaul ", env!("CARGO_PKG_VERSION"));
    // An empty date must be quoted, or roff drops the argument.
    page.roff.control("TH", [name, "5", "\"\"", version]);
    page.roff.control("SH", ["NAME"]);
    page.roff.text([roman(format!("{name} - {about}"))]);
    page.roff.control("SH", ["DESCRIPTION"]);
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        page.take(event);
    }
    page.roff.render()
}

/// State of the conversion from Markdown to roff.
#[derive(Default)]
struct Page {
    roff: Roff,
    /// Text of the current paragraph, heading, item or cell.
    line: Vec<Inline>,
    is_strong: bool,
    /// Nesting depth of lists.
    depth: usize,
    /// Heads of the table's columns, and the cells of the current row.
    columns: Vec<String>,
    row: Vec<Vec<Inline>>,
    is_head: bool,
}

impl Page {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.is_strong => self.line.push(bold(text.into_string())),
            Event::Text(text) => self.line.push(roman(text.into_string())),
            Event::Code(text) if self.is_head => self.line.push(roman(text.into_string())),
            Event::Code(text) => self.line.push(bold(text.into_string())),
            Event::SoftBreak | Event::HardBreak => self.line.push(roman(" ")),
            Event::Rule
            | Event::Html(_)
            | Event::InlineHtml(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::TaskListMarker(_) => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most elements of Markdown need no action at their start")]
    fn start(&mut self, tag: &Tag<'_>) {
        // A nested list starts within the text of its item.
        if matches!(tag, Tag::List(_)) {
            self.flush();
        }
        match tag {
            Tag::Paragraph if self.depth == 0 => drop(self.roff.control("PP", [])),
            Tag::List(_) => {
                self.depth += 1;
                if self.depth > 1 {
                    self.roff.control("RS", []);
                }
            }
            Tag::Item => drop(self.roff.control("IP", ["-", "2"])),
            Tag::CodeBlock(_) => {
                self.flush();
                self.roff.control("PP", []).control("RS", ["4"]).control("nf", []);
            }
            Tag::Strong | Tag::Emphasis => self.is_strong = true,
            Tag::TableHead => {
                self.columns.clear();
                self.is_head = true;
            }
            _ => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most elements of Markdown need no action at their end")]
    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => self.heading(level),
            TagEnd::Paragraph | TagEnd::Item => self.flush(),
            TagEnd::List(_) => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth > 0 {
                    self.roff.control("RE", []);
                }
            }
            TagEnd::CodeBlock => {
                self.flush();
                self.roff.control("fi", []).control("RE", []);
            }
            TagEnd::Strong | TagEnd::Emphasis => self.is_strong = false,
            TagEnd::TableCell => self.row.push(std::mem::take(&mut self.line)),
            TagEnd::TableHead => {
                self.columns = self.row.drain(..).map(|cell| plain(&cell)).collect();
                self.is_head = false;
            }
            TagEnd::TableRow => self.row(),
            _ => {}
        }
    }

    fn flush(&mut self) {
        if !self.line.is_empty() {
            self.roff.text(std::mem::take(&mut self.line));
        }
    }

    /// Writes a heading; the title (level 1) is omitted, because the name section has it.
    fn heading(&mut self, level: HeadingLevel) {
        let text = plain(&std::mem::take(&mut self.line));
        if level == HeadingLevel::H2 {
            self.roff.control("SH", [text.to_uppercase().as_str()]);
        } else if level != HeadingLevel::H1 {
            self.roff.control("SS", [text.as_str()]);
        }
    }

    /// Writes a row of a table: the first cell in bold, then each further cell with the head of its column.
    fn row(&mut self) {
        let mut cells = std::mem::take(&mut self.row).into_iter();
        self.roff.control("TP", []);
        self.roff.text(cells.next().unwrap_or_default());
        let mut text = Vec::new();
        for (cell, column) in cells.zip(self.columns.iter().skip(1)).filter(|(cell, _)| !cell.is_empty()) {
            if !text.is_empty() {
                text.push(roman("; "));
            }
            if column != "meaning" && !column.is_empty() {
                text.push(roman(format!("{column}: ")));
            }
            text.extend(cell);
        }
        self.roff.text(text);
    }
}

/// Returns the text of a line without emphasis.
fn plain(line: &[Inline]) -> String {
    let text = |inline: &Inline| match inline {
        Inline::Roman(text) | Inline::Italic(text) | Inline::Bold(text) => text.clone(),
        Inline::LineBreak => String::new(),
    };
    line.iter().map(text).collect()
}
