use std::cell::RefCell;
use std::fmt;

use crate::tree::Origin;

/// Most problems that are listed; further ones are counted.
const LISTED: usize = 20;

/// One thing that is wrong with an experiment file, worded for its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, or `--set KEY=VALUE` when an override is at fault.
    pub file: String,
    /// Line in the file, from 1; `None` for an override and for the file as a whole.
    pub line: Option<usize>,
    /// Column in characters, from 1.
    pub column: Option<usize>,
    /// Dotted key; empty for the file as a whole.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it; may be empty.
    pub mend: String,
}

impl fmt::Display for Problem {
    /// `FILE:LINE: KEY: MESSAGE; MEND`, the form that editors and terminals make a link of.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)?;
        if self.mend.is_empty() { Ok(()) } else { write!(f, "; {}", self.mend) }
    }
}

/// Everything that was found wrong with an experiment file: at least one problem, at most 20, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems {
    listed: Vec<Problem>,
    more: usize,
}

impl Problems {
    /// The problems.
    pub fn as_slice(&self) -> &[Problem] {
        &self.listed
    }

    /// How many more there are.
    pub fn more(&self) -> usize {
        self.more
    }
}

impl fmt::Display for Problems {
    /// One line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.listed.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        if self.more > 0 { write!(f, "\nand {} more", self.more) } else { Ok(()) }
    }
}

/// What is wrong with a value, and the mend; where is known by who asked for the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) message: String,
    pub(crate) mend: String,
}

impl Fault {
    pub(crate) fn new(message: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { message: message.into(), mend: mend.into() }
    }
}

/// Where problems are collected, and what is needed to say where they are.
#[derive(Debug)]
pub(crate) struct Report {
    file: String,
    text: String,
    overrides: Vec<String>,
    found: RefCell<Vec<Problem>>,
}

impl Report {
    /// `overrides` are worded as the user gave them: `--set KEY=VALUE`.
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
        self.push(Problem { file, line, column, key: key.to_owned(), message: fault.message, mend: fault.mend });
    }

    /// Points of a sweep are read one by one; what is wrong with several of them is said once.
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
        let more = listed.len().saturating_sub(LISTED);
        listed.truncate(LISTED);
        Problems { listed, more }
    }

    fn position(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

/// The known name nearest to one that is not known; `None` when none is near enough to be what was meant.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Distances of long names are dear, and no one mistypes a name of thousands of letters by a few.
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

/// A mend for a name that is not known: the nearest one, and all there are when they are few.
pub(crate) fn known_names(name: &str, known: &[&str], none: &str) -> String {
    let all = || if known.len() > 24 { format!("{} ...", known[..24].join(", ")) } else { known.join(", ") };
    match nearest(name, known.iter().copied()) {
        _ if known.is_empty() => none.to_owned(),
        Some(near) => format!("did you mean `{near}`? known: {}", all()),
        None => format!("known: {}", all()),
    }
}
