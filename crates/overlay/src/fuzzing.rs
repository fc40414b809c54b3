//! Body of the fuzz target `certificate` in `fuzz/`, so that stable tests replay the committed corpus through the same code. The other formats of the
//! overlay are in `wire`.

use crate::certificate::Certificate;
use crate::identity::Identity;

/// A certificate, whoever made it. Panics where a promise of this crate is broken; that is its purpose.
pub fn certificate(data: &[u8]) {
    let authority = Identity::from_seed(&[1; 32]);
    if let Ok(text) = std::str::from_utf8(data) {
        assert!(Certificate::verify(text, &authority.public(), 0).is_err(), "nobody else can sign");
        // What the authority itself signs is read as it was written, or refused.
        if let Ok(told) = serde_json::from_str::<Certificate>(text)
            && let Ok(signed) = told.sign(&authority)
            && told.until_utc_s > 0
        {
            assert_eq!(Certificate::verify(&signed, &authority.public(), 0), Ok(told));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    /// Read once for all cases.
    static CORPUS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/certificate");
        let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files.iter().map(|file| fs::read(file).unwrap()).collect()
    });

    #[test]
    fn the_committed_corpus_passes() {
        assert!(CORPUS.len() >= 8, "only {} inputs", CORPUS.len());
        CORPUS.iter().for_each(|data| certificate(data));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn a_damaged_certificate_breaks_no_promise(
            of in any::<prop::sample::Index>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            length in any::<prop::sample::Index>(),
            is_cut: bool,
        ) {
            let mut data = of.get(&CORPUS).clone();
            for (at, byte) in changes {
                if !data.is_empty() {
                    let at = at.index(data.len());
                    data[at] = byte;
                }
            }
            if is_cut && !data.is_empty() {
                data.truncate(length.index(data.len()));
            }
            certificate(&data);
        }
    }
}
