//! The files that a member writes, events and the record of its route control, by a thread of their own: a disk that takes its time costs lines of
//! them, and not the tunnel.

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

/// Lines that may wait for the disk: of ten members some ten seconds of their record.
const WAITING: usize = 8192;
/// How long the end waits for the last of them.
const LAST_LINES: Duration = Duration::from_secs(1);

enum FrameSealer {
    Event(String),
    Record(Box<Record>),
}

/// Where lines go.
pub(super) struct Files {
    lines: SyncSender<FrameSealer>,
    has_events: bool,
    has_record: bool,
    counters: Arc<Counters>,
    /// Nobody sends here; the thread has the other end until it ends.
    ended: Receiver<()>,
}

impl Files {
    /// Opens the files that the settings name, and starts the thread. `counters`: where lost events are counted.
    pub(super) fn start(settings: &Settings, begin: &Begin, counters: &Arc<Counters>) -> Result<Self, OverlayError> {
        let checked = settings.events.as_deref().map_or(Ok(()), events::check);
        checked.map_err(|what| OverlayError::Settings { path: settings.path.clone(), what })?;
        let events = settings.events.as_ref().and_then(|path| events::open(path));
        let record = match &settings.record {
            Some(path) => begun(settings, RecordFile::create(path, begin, settings.record_size))?,
            None => None,
        };
        // Where there should be a file and is none, events are lost, which counts.
        Ok(Self { has_events: settings.events.is_some(), ..Self::writing((events, record), counters)? })
    }

    fn writing(
        (events, record): (Option<EventFile<File>>, Option<RecordFile>),
        counters: &Arc<Counters>,
    ) -> Result<Self, OverlayError> {
        let (lines, waiting) = sync_channel(WAITING);
        let (has_events, has_record) = (events.is_some(), record.is_some());
        let counts = Arc::clone(counters);
        let (until_then, ended) = sync_channel(0);
        // Not one of those that the end waits for: nothing wakes a thread whose disk does not answer.
        let thread = std::thread::Builder::new().name("overlay-files".to_owned()).spawn(move || {
            write(&waiting, events, record, &counts);
            drop(until_then);
        });
        thread.map_err(OverlayError::io("starting overlay-files"))?;
        Ok(Self { lines, has_events, has_record, counters: Arc::clone(counters), ended })
    }

    /// Waits a moment until all is written.
    pub(super) fn end(self) {
        drop(self.lines);
        if let Err(RecvTimeoutError::Timeout) = self.ended.recv_timeout(LAST_LINES) {
            tracing::warn!("the last events, or the end of the record, may be missing, as their disk is too slow");
        }
    }

    pub(super) fn event(&self, line: String) {
        if self.has_events && self.lines.try_send(FrameSealer::Event(line)).is_err() {
            bump(&self.counters.event_log_dropped);
        }
    }

    pub(super) fn record(&mut self, record: Box<Record>) {
        if self.has_record && self.lines.try_send(FrameSealer::Record(record)).is_err() {
            // With a gap it would not replay.
            tracing::warn!("the record of decisions ends here, as its disk is too slow; all else goes on");
            self.has_record = false;
        }
    }
}

/// A file that is somebody else's is so the next time, too: the settings are to name another. On a disk that is full, or not there, all else goes on without a record.
fn begun(settings: &Settings, record: Result<RecordFile, OverlayError>) -> Result<Option<RecordFile>, OverlayError> {
    match record {
        Err(OverlayError::Refused(what)) => Err(OverlayError::Settings { path: settings.path.clone(), what }),
        Err(e) => {
            tracing::warn!("there is no record of decisions, and all else goes on: {e}");
            Ok(None)
        }
        Ok(record) => Ok(Some(record)),
    }
}

/// Until nobody has lines any more.
fn write(
    lines: &Receiver<FrameSealer>,
    mut events: Option<EventFile<File>>,
    mut record: Option<RecordFile>,
    counters: &Counters,
) {
    while let Ok(first) = lines.recv() {
        for line in std::iter::once(first).chain(lines.try_iter().take(WAITING)) {
            match line {
                FrameSealer::Event(line) => {
                    if !events.as_mut().is_some_and(|file| file.write(&line)) {
                        bump(&counters.event_log_dropped);
                    }
                }
                FrameSealer::Record(line) => record.iter_mut().for_each(|file| file.add(&line)),
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
    fn a_disk_that_takes_nothing_costs_events_and_nobody_waits_for_it() {
        const EVENTS: usize = 3 * WAITING;
        let (mut reader, writer) = std::io::pipe().unwrap();
        let counters = Arc::<Counters>::default();
        let file = EventFile::new(File::from(OwnedFd::from(writer)));
        let files = Files::writing((Some(file), None), &counters).unwrap();
        // Nobody reads: the thread stands still after the 64 KiB that a pipe takes.
        for n in 0..EVENTS {
            files.event(format!(r#"{{"event":"left","name":"west","member":{n:>9}}}"#));
        }
        let lost = counters.counts().event_log_dropped as usize;
        assert!((WAITING..=EVENTS - WAITING).contains(&lost), "{lost}");
        files.end();
        // Now that somebody reads, the thread writes what waits, and ends.
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text.lines().count() + lost, EVENTS, "each is in the file or counted");
        assert!(text.lines().all(|l| serde_json::from_str::<serde_json::Value>(l).is_ok()));
    }
}
