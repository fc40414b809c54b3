//! Replays the committed fuzz corpus through the bodies of the fuzz targets, as it is and damaged: what once broke stays mended.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::LazyLock;

use proptest::prelude::*;
use wire::fuzzing::{Body, TARGETS};

/// A target, and what was found for it.
type Found = (&'static str, Body, Vec<Vec<u8>>);

/// Read once for all cases.
static CORPUS: LazyLock<Vec<Found>> = LazyLock::new(|| {
    TARGETS.into_iter().map(|(target, body)| (target, body, corpus(target).unwrap_or_default())).collect()
});

#[allow(clippy::disallowed_methods, reason = "the crate opens no file; its test reads the corpus")]
fn corpus(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files = fs::read_dir(folder)?.map(|entry| entry.map(|e| e.path())).collect::<io::Result<Vec<_>>>()?;
    files.sort();
    files.into_iter().map(fs::read).collect()
}

#[test]
fn the_committed_corpus_passes() {
    for (target, body, inputs) in CORPUS.iter() {
        assert!(inputs.len() >= 8, "{target} has only {} inputs", inputs.len());
        inputs.iter().for_each(|data| body(data));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40_000))]

    #[test]
    fn damaged_input_breaks_no_promise(
        target in any::<prop::sample::Index>(),
        of in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        length in any::<prop::sample::Index>(),
        is_cut: bool,
    ) {
        let (_, body, inputs) = target.get(&CORPUS);
        let mut data = of.get(inputs).clone();
        for (at, byte) in changes.into_iter().filter(|_| !data.is_empty()).collect::<Vec<_>>() {
            let at = at.index(data.len());
            data[at] = byte;
        }
        if is_cut && !data.is_empty() {
            data.truncate(length.index(data.len()));
        }
        body(&data);
    }
}
