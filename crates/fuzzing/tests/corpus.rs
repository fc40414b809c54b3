//! Replays the committed corpus through the bodies of the fuzz targets, unchanged and damaged.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::LazyLock;

use fuzzing::{Body, TARGETS};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Damaged inputs per target. The slowest targets take about half a millisecond per input without optimisation.
const CASES: u32 = 4000;

/// A target and its corpus.
type Target = (&'static str, Body, Vec<Vec<u8>>);

static CORPUS: LazyLock<Vec<Target>> =
    LazyLock::new(|| TARGETS.into_iter().map(|(target, body)| (target, body, corpus(target))).collect());

fn corpus(target: &str) -> Vec<Vec<u8>> {
    inputs(target).unwrap_or_else(|e| panic!("the corpus of {target}: {e}"))
}

fn inputs(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files = fs::read_dir(directory)?.map(|entry| entry.map(|e| e.path())).collect::<io::Result<Vec<_>>>()?;
    files.sort();
    files.into_iter().map(fs::read).collect()
}

#[test]
fn the_committed_corpus_violates_no_guarantee() {
    for (target, body, inputs) in CORPUS.iter() {
        assert!(inputs.len() >= 4, "{target} has only {} inputs", inputs.len());
        for data in inputs {
            body(data);
        }
    }
}

#[test]
fn every_target_has_a_program_for_the_fuzzer() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    for (target, _) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{target}\"")), "{target} is not in fuzz/Cargo.toml");
        assert!(root.join(format!("fuzz_targets/{target}.rs")).exists(), "{target} has no program");
    }
}

#[test]
fn damaged_input_violates_no_guarantee() {
    // Headers and counts are at the start, where changes have most effect.
    let change = (any::<prop::sample::Index>(), prop_oneof![Just(100), Just(usize::MAX)], any::<u8>());
    let damage = (
        any::<prop::sample::Index>(),
        prop::collection::vec(change, 0..8),
        prop::option::of(any::<prop::sample::Index>()),
    );
    let mut broken = Vec::new();
    for (target, body, inputs) in CORPUS.iter() {
        let config = Config { failure_persistence: None, ..Config::with_cases(CASES) };
        let tried = TestRunner::new(config).run(&damage, |(of, changes, cut)| {
            let mut data = of.get(inputs).clone();
            for (at, within, byte) in changes.into_iter().filter(|_| !data.is_empty()).collect::<Vec<_>>() {
                let end = data.len().min(within);
                data[at.index(end)] = byte;
            }
            if let Some(cut) = cut.filter(|_| !data.is_empty()) {
                data.truncate(cut.index(data.len()));
            }
            body(&data);
            Ok(())
        });
        broken.extend(tried.err().map(|e| format!("{target}: {e}")));
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
