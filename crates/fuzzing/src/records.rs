//! Result files and decision logs, which may come from other hosts and other versions.

use results::{EstimateReader, LabReader, TraceReader, read_records};
use route::{Begin, Record, Replay};

/// Records of `longhaul test`: a parsed record can be written and parsed again.
pub(crate) fn test_records(data: &[u8]) {
    let Ok(records) = read_records(data) else { return };
    assert!(!records.is_empty());
    let written: Vec<u8> =
        records.iter().flat_map(|r| [serde_json::to_vec(r).unwrap_or_default(), vec![b'\n']].concat()).collect();
    let again = read_records(written.as_slice());
    assert!(again.is_ok_and(|again| again.len() == records.len()));
}

/// Records of the lab and of `longhaul trace`: the reader ends after the first error.
pub(crate) fn lab_records(data: &[u8]) {
    ends(LabReader::new(data));
    ends(TraceReader::new(data));
}

/// Records of `longhaul estimate`.
pub(crate) fn estimate_records(data: &[u8]) {
    ends(EstimateReader::new(data));
}

fn ends<T, E>(mut records: impl Iterator<Item = Result<T, E>>) {
    while let Some(record) = records.next() {
        if record.is_err() {
            assert!(records.next().is_none(), "an error is the last item");
        }
    }
}

/// A decision log: its first line, then events for a replay.
pub(crate) fn decision_log(data: &[u8]) {
    let mut lines = data.split(|b| *b == b'\n');
    let Some(Ok(first)) = lines.next().map(std::str::from_utf8) else { return };
    let Ok(Ok(mut replay)) = Begin::parse(first).map(Replay::new) else { return };
    for record in lines.filter_map(|line| serde_json::from_slice::<Record>(line).ok()) {
        replay.handle(&record);
    }
    assert!(replay.different() == 0 || replay.first().is_some());
}
