//! Files from users: experiments, policies, link traces.

use std::path::Path;

use link::Trace;
use scenario::{Options, Problems, describe, read, read_policy};

/// Checks that there is at least one problem and that each has a text.
fn has_texts(problems: &Problems) {
    assert!(!problems.as_slice().is_empty(), "a refusal names its reason");
    assert!(!problems.to_string().trim().is_empty());
}

/// An experiment file: rejected with a reason, or resolved to points whose links can be described. A file to which it
/// refers has the same input as content.
pub(crate) fn experiment(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let file = |_: &Path| Ok(text.to_owned());
    match read(Path::new("input.toml"), text, &Options::default(), &file) {
        Ok(experiment) => {
            assert!(!experiment.scenarios.is_empty(), "an experiment has a point");
            for change in experiment.scenarios.iter().flat_map(|s| &s.schedule) {
                assert!(!describe(&change.settings).is_empty());
            }
        }
        Err(problems) => has_texts(&problems),
    }
}

/// A policy of `longhaul shape`.
pub(crate) fn policy(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(problems) =
        read_policy(Path::new("input.toml"), text, Some("eth0"), &|name| (name == "root").then_some(0))
    {
        has_texts(&problems);
    }
}

/// A link trace in mahimahi's format: a parsed trace is formatted with the same meaning, and its figures can be
/// computed.
pub(crate) fn link_trace(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(trace) = Trace::parse(text) else { return };
    assert!(trace.opportunities() > 0 && !trace.period().is_zero());
    let _ = trace.mean_rate();
    assert_eq!(Trace::parse(&trace.to_string()).as_ref(), Ok(&trace));
}
