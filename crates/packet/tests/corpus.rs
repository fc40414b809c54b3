//! Replays the committed fuzz corpus through the body of the fuzz target, as it is and damaged.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::LazyLock;

use proptest::prelude::*;

#[allow(clippy::disallowed_methods, reason = "the crate opens no file; its test reads the corpus")]
fn corpus() -> io::Result<Vec<Vec<u8>>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/packets");
    fs::read_dir(folder)?.map(|entry| fs::read(entry?.path())).collect()
}

#[test]
fn the_committed_corpus_passes() {
    let all = corpus().unwrap();
    assert!(all.len() >= 8, "only {} inputs", all.len());
    all.iter().for_each(|data| packet::fuzzing::packets(data));
}

/// Read once for all cases.
static CORPUS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| corpus().unwrap_or_default());

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn a_damaged_packet_breaks_no_promise(
        of in any::<prop::sample::Index>(),
        // In the headers for the most part.
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![Just(100), Just(10_000)], any::<u8>()), 0..8),
        length in any::<prop::sample::Index>(),
        is_cut: bool,
    ) {
        let mut data = of.get(&CORPUS).clone();
        for (at, within, byte) in changes {
            let end = data.len().min(within);
            data[at.index(end)] = byte;
        }
        if is_cut {
            data.truncate(length.index(data.len()));
        }
        packet::fuzzing::packets(&data);
    }
}
