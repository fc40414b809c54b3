use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::path::Path;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::dotted;
use crate::tree::{self, Kind, Origin, Table};

/// Maximum number of problems that are listed; further ones are counted.
const LISTED_MAX: usize = 20;

/// One error in an experiment file, worded for its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, or `--set KEY=VALUE` if an override is wrong.
    pub file: String,
    /// Line in the file, from 1; `None` for an override and for the file as a whole.
    pub line: Option<usize>,
    /// Column in characters, from 1.
    pub column: Option<usize>,
    /// Dotted key; empty for the file as a whole.
    pub key: String,
    /// Description of the problem: the value and the reason.
    pub message: String,
    /// Suggested correction; may be empty.
    pub hint: String,
}

impl fmt::Display for Problem {
    /// `FILE:LINE: KEY: MESSAGE; HINT`, the form that editors and terminals turn into a link.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, "; {}", self.hint) }
    }
}

/// All errors found in an experiment file: at least one problem, at most 20, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems {
    /// The experiment file and its text.
    file: String,
    text: String,
    listed: Vec<Problem>,
    more: usize,
}

impl Problems {
    /// Problems with keys of an experiment file that was read without errors: dotted key, message and hint of each. A
    /// key that the text does not contain is reported without a position.
    pub fn with_keys(path: &Path, text: &str, all: impl IntoIterator<Item = (String, String, String)>) -> Self {
        let report = Report::new(path.display().to_string(), text.to_owned(), Vec::new());
        let root = tree::parse(text, &report).unwrap_or_default();
        for (key, message, hint) in all {
            let parts = dotted::split(&key).unwrap_or_default();
            report.add(origin_of(&root, &parts), &key, Fault { message, hint });
        }
        report.into_problems()
    }

    /// The listed problems.
    pub fn as_slice(&self) -> &[Problem] {
        &self.listed
    }

    /// Each problem with its line of the file and a mark below its key or value, for a terminal.
    pub fn annotated(&self) -> String {
        let mut all = String::new();
        for (index, problem) in self.listed.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            // Writing to a String does not fail.
            let _ = write!(all, "{separator}{problem}");
            if let Some(snippet) = self.snippet(problem) {
                all.push('\n');
                all.push_str(&snippet);
            }
        }
        if self.more > 0 {
            let _ = write!(all, "\nand {} more", self.more);
        }
        all
    }

    /// The line of a problem with a mark; `None` for an override, another file, or the file as a whole.
    fn snippet(&self, problem: &Problem) -> Option<String> {
        let (line, column) = (problem.line?, problem.column?);
        let text = self.text.lines().nth(line.checked_sub(1)?).filter(|_| problem.file == self.file)?;
        let start = text.char_indices().nth(column.checked_sub(1)?).map(|(at, _)| at)?;
        let mark = AnnotationKind::Primary.span(start..start + token_length(&text[start..]));
        let source = Snippet::source(text).line_start(line).annotation(mark);
        Some(Renderer::plain().render(&[Group::with_level(Level::ERROR).element(source)]))
    }

    /// Number of problems beyond those listed.
    pub fn more(&self) -> usize {
        self.more
    }
}

/// Position of the longest part of a dotted key that a document contains.
fn origin_of(root: &Table, parts: &[String]) -> Origin {
    let (mut table, mut origin) = (root, Origin::Whole);
    for part in parts {
        let Some(entry) = table.get(part) else { break };
        origin = entry.origin;
        let Kind::Table(next) = &entry.value.kind else { break };
        table = next;
    }
    origin
}

impl fmt::Display for Problems {
    /// One line for each problem.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.listed.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        if self.more > 0 { write!(f, "\nand {} more", self.more) } else { Ok(()) }
    }
}

/// Problem with a value, and a hint; the caller adds the position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl Fault {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

/// Collects problems and the positions that they refer to.
#[derive(Debug)]
pub(crate) struct Report {
    file: String,
    text: String,
    overrides: Vec<String>,
    found: RefCell<Vec<Problem>>,
}

impl Report {
    /// `overrides` are given as on the command line: `--set KEY=VALUE`.
    pub(crate) fn new(file: String, text: String, overrides: Vec<String>) -> Self {
        Self { file, text, overrides, found: RefCell::default() }
    }

    pub(crate) fn add(&self, origin: Origin, key: &str, fault: Fault) {
        let (file, line, column) = match origin {
            Origin::File(offset) => {
                let (line, column) = self.position(offset);
                (self.file.clone(), Some(line), Some(column))
            }
            Origin::Override(index) => (self.overrides.get(index).unwrap_or(&self.file).clone(), None, None),
            Origin::Whole => (self.file.clone(), None, None),
        };
        self.push(Problem { file, line, column, key: key.to_owned(), message: fault.message, hint: fault.hint });
    }

    /// Adds a problem once: each point of a sweep is read separately and may find the same one.
    pub(crate) fn push(&self, problem: Problem) {
        let mut found = self.found.borrow_mut();
        let same = |p: &Problem| {
            (&p.file, p.line, &p.key, &p.message) == (&problem.file, problem.line, &problem.key, &problem.message)
        };
        if !found.iter().any(same) {
            found.push(problem);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    pub(crate) fn into_problems(self) -> Problems {
        let mut listed = self.found.into_inner();
        listed.sort_by_key(|p| (p.line, p.column));
        let more = listed.len().saturating_sub(LISTED_MAX);
        listed.truncate(LISTED_MAX);
        Problems { file: self.file, text: self.text, listed, more }
    }

    fn position(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

/// Length in bytes of the key or value at the start of `text`: a quoted text, or all up to a separator; at least one
/// character.
fn token_length(text: &str) -> usize {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    let end = match quote {
        Some(quote) => text[1..].find(quote).map(|at| at + 2),
        None => text.find(|c: char| c.is_whitespace() || "=,]}#".contains(c)),
    };
    let first = text.chars().next().map_or(0, char::len_utf8);
    end.unwrap_or(text.len()).max(first)
}

/// The known name that is nearest to `name`; `None` if none is near enough to have been meant.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The edit distance of long names is expensive, and a typing error does not change hundreds of letters.
    if name.len() > 200 {
        return None;
    }
    let near = name.chars().count().div_ceil(3).max(1);
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= near)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// A hint for an unknown name: the nearest known name, and the first 24 known names.
pub(crate) fn known_names(name: &str, known: &[&str], none: &str) -> String {
    let all = || if known.len() > 24 { format!("{} ...", known[..24].join(", ")) } else { known.join(", ") };
    match nearest(name, known.iter().copied()) {
        _ if known.is_empty() => none.to_owned(),
        Some(near) => format!("did you mean `{near}`? known: {}", all()),
        None => format!("known: {}", all()),
    }
}
