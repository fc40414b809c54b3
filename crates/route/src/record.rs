//! What a running control was told and what it decided, line by line, and the same decided anew.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::control::{Control, Error};
use crate::{Decision, Event, Member, Metrics, Policy, PolicyError};

/// What this version writes and reads.
const VERSION: u32 = 2;

/// The first line of a record: what, together with the events, all decisions follow from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// Of the form of the record.
    #[serde(rename = "longhaul_route_record")]
    version: u32,
    /// The member that decides.
    pub own: Member,
    /// Its policy.
    pub policy: Policy,
}

/// Why a line does not begin a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BeginError {
    /// Something else.
    #[error("it is not the start of a decision log (`decision_log` in the settings)")]
    Other,
    /// Another version's.
    #[error(
        "it is a record of version {0}, and this program reads version {VERSION}; replay it with the one that wrote it"
    )]
    Version(u32),
    /// The version is right, and the rest is not.
    #[error("its first line cannot be read: {0}")]
    Contents(String),
}

impl Begin {
    /// Reads the first line of a record, JSON.
    ///
    /// # Errors
    /// See [`BeginError`].
    pub fn parse(line: &str) -> Result<Self, BeginError> {
        #[derive(Deserialize)]
        struct OfAnyVersion {
            longhaul_route_record: u32,
        }
        let version = serde_json::from_str(line).map(|b: OfAnyVersion| b.longhaul_route_record);
        match version {
            Err(_) => Err(BeginError::Other),
            Ok(VERSION) => serde_json::from_str(line).map_err(|e| BeginError::Contents(e.to_string())),
            Ok(other) => Err(BeginError::Version(other)),
        }
    }
}

/// Any further line of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
    /// What control was told.
    Input(Event),
    /// What it decided at that.
    Decision(Box<Decision>),
    /// The record has reached its greatest size: nothing more was written, whatever happened.
    Full {
        /// That size.
        bytes: u64,
    },
}

/// A control that keeps what it is told and what it decides, for a record.
///
/// What was refused is not kept, nor are timeouts before their time: neither changes anything, and a driver may call a thousand times a second.
#[derive(Debug, Clone)]
pub struct Recorder {
    control: Control,
    decisions: VecDeque<Decision>,
    /// Nothing: nobody wants them.
    records: Option<VecDeque<Record>>,
}

impl Recorder {
    /// As [`Control::new`]; whether to keep anything.
    ///
    /// # Errors
    /// The policy has no meaning.
    pub fn new(source: Member, policy: Policy, keeps: bool) -> Result<Self, PolicyError> {
        let control = Control::new(source, policy)?;
        Ok(Self { control, decisions: VecDeque::new(), records: keeps.then(VecDeque::new) })
    }

    /// The first line of the record.
    pub fn begin(&self) -> Begin {
        Begin { version: VERSION, own: self.control.source(), policy: self.control.policy().clone() }
    }

    /// The next line of the record, what was told before what was decided at it.
    pub fn poll_record(&mut self) -> Option<Record> {
        self.records.as_mut()?.pop_front()
    }

    /// As [`Control::handle`].
    ///
    /// # Errors
    /// As there.
    pub fn handle(&mut self, event: Event) -> Result<(), Error> {
        let is_early = |at| self.control.poll_timeout().is_none_or(|due| due > at);
        let changes_nothing = matches!(event, Event::Timeout { at } if is_early(at));
        self.control.handle(&event)?;
        if changes_nothing {
            return Ok(());
        }
        if let Some(records) = &mut self.records {
            records.push_back(Record::Input(event.in_text()));
        }
        while let Some(decision) = self.control.poll_decision() {
            if let Some(records) = &mut self.records {
                records.push_back(Record::Decision(Box::new(decision)));
            }
            self.decisions.push_back(decision);
        }
        Ok(())
    }

    /// As [`Control::poll_decision`].
    pub fn poll_decision(&mut self) -> Option<Decision> {
        self.decisions.pop_front()
    }

    /// What it decides by.
    pub fn inner(&self) -> &Control {
        &self.control
    }
}

impl Event {
    /// As its text gives it back: see [`Metrics::rounded`].
    fn in_text(self) -> Self {
        match self {
            Self::Link { at, from, to, metrics } => Self::Link { at, from, to, metrics: metrics.map(Metrics::rounded) },
            Self::Member { .. } | Self::Load { .. } | Self::Timeout { .. } => self,
        }
    }
}

/// The first decision that a replay makes otherwise.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Number of the event before it, from 1.
    pub event: u64,
    /// The last input.
    pub input: Option<Event>,
    /// What the record says was decided.
    pub recorded: Option<Decision>,
    /// What the replay decides.
    pub replayed: Option<Decision>,
}

/// Feeds a record to a fresh control, and holds what that decides against what the record says.
#[derive(Debug, Clone)]
pub struct Replay {
    control: Control,
    input: Option<Event>,
    /// Decided at the last event, and not yet in the record.
    ahead: VecDeque<Decision>,
    events: u64,
    same: u64,
    different: u64,
    first: Option<Difference>,
    is_full: bool,
}

impl Replay {
    /// Of the record that begins so.
    ///
    /// # Errors
    /// The policy has no meaning.
    pub fn new(begin: Begin) -> Result<Self, PolicyError> {
        let control = Control::new(begin.own, begin.policy)?;
        let (input, ahead, first) = (None, VecDeque::new(), None);
        Ok(Self { control, input, ahead, events: 0, same: 0, different: 0, first, is_full: false })
    }

    /// The next line of the record.
    pub fn handle(&mut self, record: &Record) {
        match record {
            Record::Input(event) => {
                // Whatever was decided at one event is in the record before the next one.
                while let Some(decision) = self.ahead.pop_front() {
                    self.note(None, Some(decision));
                }
                self.events += 1;
                self.input = Some(*event);
                // A record has no event that was refused; one that is refused now says itself by what follows.
                let _ = self.control.handle(event);
                self.ahead.extend(core::iter::from_fn(|| self.control.poll_decision()));
            }
            Record::Decision(decision) => {
                let replayed = self.ahead.pop_front();
                if replayed.is_some_and(|r| as_read(&r).as_ref() == Some(&**decision)) {
                    self.same += 1;
                } else {
                    self.note(Some(**decision), replayed);
                }
            }
            Record::Full { .. } => self.is_full = true,
        }
    }

    fn note(&mut self, recorded: Option<Decision>, replayed: Option<Decision>) {
        self.different += 1;
        let (event, input) = (self.events, self.input);
        self.first.get_or_insert(Difference { event, input, recorded, replayed });
    }

    /// Events until now.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Decisions that were the same.
    pub const fn same(&self) -> u64 {
        self.same
    }

    /// Decisions that are not the same, or that only one side has.
    pub const fn different(&self) -> u64 {
        self.different
    }

    /// The first of those.
    pub const fn first(&self) -> Option<&Difference> {
        self.first.as_ref()
    }

    /// Decisions at the last event that the record does not have: it may have ended there by a crash.
    pub fn ahead(&self) -> usize {
        self.ahead.len()
    }

    /// Whether the record says that it was full.
    pub const fn is_full(&self) -> bool {
        self.is_full
    }
}

/// The decision as it is read from its own line: numbers with many digits may differ from what was written in the last one.
fn as_read(decision: &Decision) -> Option<Decision> {
    serde_json::to_string(decision).ok().and_then(|text| serde_json::from_str(&text).ok())
}

#[cfg(test)]
mod tests;
