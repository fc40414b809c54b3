//! Replays the committed fuzz corpus through the bodies of the fuzz targets: what once broke stays mended.

use std::fs;
use std::path::PathBuf;

#[test]
#[allow(clippy::disallowed_methods, reason = "the crate opens no file; its test reads the corpus")]
fn the_committed_corpus_passes() {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (target, body) in wire::fuzzing::TARGETS {
        let mut replayed = 0;
        for entry in fs::read_dir(corpus.join(target)).expect("each target has a corpus") {
            let path = entry.unwrap().path();
            println!("{}", path.display());
            body(&fs::read(&path).unwrap());
            replayed += 1;
        }
        assert!(replayed >= 8, "{target} has only {replayed} inputs");
    }
}
