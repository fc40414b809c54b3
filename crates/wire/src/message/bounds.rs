//! Maximum lengths of the parts of a message: a peer decides what arrives, not how much of it is kept or printed.

use results::{HostReport, IntervalRecord, TestPlan};

use super::Message;
use crate::finished::{EndSide, Finished};
use crate::plan::STREAMS_MAX;
use crate::probe::TRAIN_PACKETS_MAX;

/// Longest filler of a hello in bytes: it exceeds any Ethernet segment and fits the maximum of a handshake frame.
pub const HELLO_FILL_BYTES_MAX: usize = 12 << 10;

/// Longest text in bytes: a reason, a note, a host's setting.
pub const TEXT_BYTES_MAX: usize = 4096;

/// Maximum entries of a list of notes, warnings or settings.
pub const LIST_ENTRIES_MAX: usize = 1024;

/// Maximum samples in one message; with 19-digit times they fill 2.5 MB of the 4 MiB frame.
pub const SAMPLES_MAX: usize = 32_768;

/// Maximum loss episodes in a report (`results` keeps the first 256).
const EPISODES_MAX: usize = 256;

/// Maximum sides in a report: two directions, both roles.
const SIDES_MAX: usize = 4;

/// Maximum streams in a record: all of both directions.
const RECORD_STREAMS_MAX: usize = 2 * STREAMS_MAX as usize;

/// A part of a message that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{part} has {length} entries or bytes; at most {max} are allowed")]
pub struct BoundsError {
    /// Name of the part.
    pub part: &'static str,
    /// Its length: entries of a list, bytes of a text.
    pub length: usize,
    /// The maximum length.
    pub max: usize,
}

fn at_most(part: &'static str, length: usize, max: usize) -> Result<(), BoundsError> {
    if length > max { Err(BoundsError { part, length, max }) } else { Ok(()) }
}

fn text(part: &'static str, text: &str) -> Result<(), BoundsError> {
    at_most(part, text.len(), TEXT_BYTES_MAX)
}

fn texts<'a>(part: &'static str, texts: impl ExactSizeIterator<Item = &'a String>) -> Result<(), BoundsError> {
    at_most(part, texts.len(), LIST_ENTRIES_MAX)?;
    for entry in texts {
        text(part, entry)?;
    }
    Ok(())
}

/// Checks every list and text of a message.
pub(super) fn check(message: &Message) -> Result<(), BoundsError> {
    match message {
        Message::Hello { software, fill, .. } | Message::Challenge { software, fill, .. } => {
            at_most("fill", fill.len(), HELLO_FILL_BYTES_MAX)?;
            text("software", software)
        }
        Message::Request { plan: asked, .. } => plan(asked),
        Message::Accept { plan: granted, notes, host: settings, .. } => {
            plan(granted)?;
            texts("notes", notes.iter())?;
            host(settings)
        }
        Message::Refuse { reason, .. } | Message::Failed { reason } => text("reason", reason),
        Message::Interval(record) => interval(record),
        Message::Samples { samples, .. } => at_most("samples", samples.len(), SAMPLES_MAX),
        Message::Finished(report) => finished(report),
        Message::SendTrain { departures, .. } => at_most("departures", departures.len(), TRAIN_PACKETS_MAX as usize),
        Message::TrainDeparted { sent_ns: times, .. } | Message::TrainArrived { received_ns: times, .. } => {
            at_most("times", times.len(), TRAIN_PACKETS_MAX as usize)
        }
        Message::Joined { congestion_control, .. } => {
            text("congestion_control", congestion_control.as_deref().unwrap_or_default())
        }
        Message::Start { .. }
        | Message::Started { .. }
        | Message::Clock { .. }
        | Message::UdpReady
        | Message::Sent { .. }
        | Message::TrainSent { .. }
        | Message::Stop
        | Message::Bye
        | Message::Join { .. }
        | Message::Unknown => Ok(()),
    }
}

fn plan(plan: &TestPlan) -> Result<(), BoundsError> {
    at_most("directions", plan.directions.len(), LIST_ENTRIES_MAX)?;
    text("congestion_control", plan.congestion_control.as_deref().unwrap_or_default())
}

fn host(host: &HostReport) -> Result<(), BoundsError> {
    for value in [&host.hostname, &host.version, &host.kernel, &host.machine].into_iter().chain(&host.clocksource) {
        text("host", value)?;
    }
    for settings in [&host.sysctls, &host.interface] {
        texts("host settings", settings.keys())?;
        texts("host settings", settings.values())?;
    }
    Ok(())
}

fn interval(record: &IntervalRecord) -> Result<(), BoundsError> {
    text("test_id", &record.test_id)?;
    at_most("streams", record.streams.len(), RECORD_STREAMS_MAX)?;
    for verdict in record.limit.iter().chain(record.streams.iter().filter_map(|s| s.limit.as_ref())) {
        text("evidence", &verdict.evidence)?;
    }
    match &record.decomposition {
        Some(decomposition) => texts("missing", decomposition.missing.iter()),
        None => Ok(()),
    }
}

fn finished(report: &Finished) -> Result<(), BoundsError> {
    texts("warnings", report.warnings.iter())?;
    at_most("directions", report.directions.len(), SIDES_MAX)?;
    report.directions.iter().try_for_each(side)
}

fn side(side: &EndSide) -> Result<(), BoundsError> {
    at_most("streams", side.streams.len(), RECORD_STREAMS_MAX)?;
    at_most("loss_episodes", side.loss_episodes.len(), EPISODES_MAX)?;
    match &side.decomposition {
        Some(decomposition) => texts("missing", decomposition.missing.iter()),
        None => Ok(()),
    }
}
