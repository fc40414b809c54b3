//! Helpers of the tests.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::Path;
use std::time::Duration;

use scenario::{Experiment, Options, Problems, Scenario};

/// Reads a text as the file `x.toml`, which refers to no other file.
pub(crate) fn read_with(text: &str, options: &Options) -> Result<Experiment, Problems> {
    scenario::read(Path::new("x.toml"), text, options, &|path| Err(format!("no {}", path.display())))
}

/// The only scenario of a valid text.
pub(crate) fn read(text: &str) -> Scenario {
    let mut experiment = read_with(text, &Options::default()).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(experiment.scenarios.len(), 1);
    experiment.scenarios.remove(0)
}

/// All problems of a text, one line each.
pub(crate) fn problems(text: &str, options: &Options) -> String {
    match read_with(text, options) {
        Ok(_) => String::new(),
        Err(problems) => problems.to_string(),
    }
}

/// Options with these overrides.
pub(crate) fn set(overrides: &[(&str, &str)]) -> Options {
    let overrides = overrides.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Options { overrides, ..Options::default() }
}

/// Milliseconds.
pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
