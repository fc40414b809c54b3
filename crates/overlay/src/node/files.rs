//! The event log and the decision log, written by a thread of their own: a slow disk loses log lines and does not delay
//! packets.

use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use route::{Begin, Record};

use super::events::{self, EventFile};
use crate::OverlayError;
use crate::counters::{Counters, bump};
use crate::decision_log::RecordFile;
use crate::settings::Settings;

/// Maximum number of lines that wait for the disk: about ten seconds of the decision log with ten members.
const QUEUE_LINES_MAX: usize = 8192;
/// Longest wait of a shutdown for the last lines.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// A line for one of the files.
enum Line {
    Event(String),
    Record(Box<Record>),
}

/// The log files of a member.
pub(super) struct Files {
    lines: SyncSender<Line>,
    has_events: bool,
    has_record: bool,
    counters: Arc<Counters>,
    /// Disconnects when the thread has ended; no message is ever sent.
    ended: Receiver<()>,
}

impl Files {
    /// Opens the files of the settings and starts the thread. `counters` count the dropped events.
    pub(super) fn start(settings: &Settings, begin: &Begin, counters: &Arc<Counters>) -> Result<Self, OverlayError> {
        let checked = settings.events.as_deref().map_or(Ok(()), events::check);
        checked.map_err(|what| OverlayError::Settings { path: settings.path.clone(), what })?;
        let events = settings.events.as_ref().and_then(|path| events::open(path));
        let record = match &settings.record {
            Some(path) => optional(settings, RecordFile::create(path, begin, settings.record_size))?,
            None => None,
        };
        // If the file cannot be opened, events are still counted as dropped.
        Ok(Self { has_events: settings.events.is_some(), ..Self::with_files(events, record, counters)? })
    }

    fn with_files(
        events: Option<EventFile<File>>,
        record: Option<RecordFile>,
        counters: &Arc<Counters>,
    ) -> Result<Self, OverlayError> {
        let (lines, queue) = sync_channel(QUEUE_LINES_MAX);
        let (has_events, has_record) = (events.is_some(), record.is_some());
        let thread_counters = Arc::clone(counters);
        let (running, ended) = sync_channel(0);
        // The thread is not one that a shutdown joins, as it may hang in a write to an unresponsive disk.
        let thread = std::thread::Builder::new().name("overlay-files".to_owned()).spawn(move || {
            write(&queue, events, record, &thread_counters);
            drop(running);
        });
        thread.map_err(OverlayError::io("starting overlay-files"))?;
        Ok(Self { lines, has_events, has_record, counters: Arc::clone(counters), ended })
    }

    /// Waits until all lines are written, at most [`SHUTDOWN_TIMEOUT`].
    pub(super) fn close(self) {
        drop(self.lines);
        if let Err(RecvTimeoutError::Timeout) = self.ended.recv_timeout(SHUTDOWN_TIMEOUT) {
            tracing::warn!("the disk is too slow; the last lines of the event log or the decision log may be missing");
        }
    }

    /// Queues a line of the event log.
    pub(super) fn event(&self, line: String) {
        if self.has_events && self.lines.try_send(Line::Event(line)).is_err() {
            bump(&self.counters.event_log_dropped);
        }
    }

    /// Queues a record of the decision log.
    pub(super) fn record(&mut self, record: Box<Record>) {
        if self.has_record && self.lines.try_send(Line::Record(record)).is_err() {
            // A decision log with a gap cannot be replayed.
            tracing::warn!("the disk is too slow; the decision log ends here, and the member continues");
            self.has_record = false;
        }
    }
}

/// The decision log if it could be created. A file of another purpose is an error of the settings, because every start
/// would fail; without a usable disk the member runs without the log.
fn optional(settings: &Settings, record: Result<RecordFile, OverlayError>) -> Result<Option<RecordFile>, OverlayError> {
    match record {
        Err(OverlayError::Refused(what)) => Err(OverlayError::Settings { path: settings.path.clone(), what }),
        Err(e) => {
            tracing::warn!("cannot open the decision log, continuing without it: {e}");
            Ok(None)
        }
        Ok(record) => Ok(Some(record)),
    }
}

/// Writes lines until all senders are gone.
fn write(
    lines: &Receiver<Line>,
    mut events: Option<EventFile<File>>,
    mut record: Option<RecordFile>,
    counters: &Counters,
) {
    while let Ok(first) = lines.recv() {
        for line in std::iter::once(first).chain(lines.try_iter().take(QUEUE_LINES_MAX)) {
            match line {
                Line::Event(line) => {
                    if !events.as_mut().is_some_and(|file| file.write(&line)) {
                        bump(&counters.event_log_dropped);
                    }
                }
                Line::Record(line) => record.iter_mut().for_each(|file| file.add(&line)),
            }
        }
        record.iter_mut().for_each(RecordFile::flush);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::OwnedFd;

    #[test]
    fn a_blocked_disk_loses_events_without_blocking_the_member() {
        const EVENTS: usize = 3 * QUEUE_LINES_MAX;
        let (mut reader, writer) = std::io::pipe().unwrap();
        let counters = Arc::<Counters>::default();
        let file = EventFile::new(File::from(OwnedFd::from(writer)));
        let files = Files::with_files(Some(file), None, &counters).unwrap();
        // The pipe has no active reader, so the thread blocks after 64 KiB.
        for n in 0..EVENTS {
            files.event(format!(r#"{{"event":"left","name":"west","member":{n:>9}}}"#));
        }
        let lost = counters.counts().event_log_dropped as usize;
        assert!((QUEUE_LINES_MAX..=EVENTS - QUEUE_LINES_MAX).contains(&lost), "{lost}");
        files.close();
        // With a reader, the thread writes the queued lines and ends.
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text.lines().count() + lost, EVENTS, "each event is in the file or counted as dropped");
        assert!(text.lines().all(|l| serde_json::from_str::<serde_json::Value>(l).is_ok()));
    }
}
