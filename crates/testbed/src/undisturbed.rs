use std::io::Write;
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use kernel::CpuSnapshot;

/// Maximum steal time of a trial whose failure counts, as a share of the machine's CPU time.
const STEAL_SHARE_MAX: f64 = 0.01;
/// Maximum number of trials.
const TRIALS_MAX: u32 = 3;
/// Pause before the second trial, doubled before the third: a host that withholds CPU time often does so for seconds.
const PAUSE: Duration = Duration::from_secs(5);

/// Runs a trial that measures time or rates, up to three times.
///
/// A failed trial is repeated if the host of this virtual machine withheld more than 1 % of the CPU time during the
/// trial (`steal` of /proc/stat), because it is then inconclusive. Any passing trial passes the test, and a failure on
/// an undisturbed machine fails it. If all trials were disturbed, the test is reported as inconclusive on standard
/// error, bypassing the capture of passing tests. Lost or damaged bytes are faults on any machine and must not be
/// tested this way.
///
/// # Panics
/// The trial fails on an undisturbed machine.
pub fn undisturbed(trial: impl Fn()) {
    for number in 1.. {
        let before = CpuSnapshot::read();
        let Err(failure) = panic::catch_unwind(AssertUnwindSafe(&trial)) else { return };
        let stolen = CpuSnapshot::read().stolen_since(&before).unwrap_or(0.0);
        let taken = format!("the host took {:.1} % of the CPU time meanwhile", stolen * 100.0);
        match after_failure(number, stolen) {
            Next::Fail => panic::resume_unwind(failure),
            Next::Again(pause) => {
                write_stderr(&format!("trial {number} does not count: {taken}"));
                std::thread::sleep(pause);
            }
            Next::Undecided => {
                return undecided(&format!("{taken}, as it did in all {TRIALS_MAX} trials"));
            }
        }
    }
}

/// Reports that a test is inconclusive, with the reason: the machine was too slow for its load. The message bypasses
/// the output capture of passing tests, so that the test does not look like a passed one.
pub fn undecided(reason: &str) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    write_stderr(&format!("UNDECIDED: {name}: {reason}"));
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    Fail,
    Again(Duration),
    Undecided,
}

fn after_failure(number: u32, stolen: f64) -> Next {
    if stolen <= STEAL_SHARE_MAX {
        Next::Fail
    } else if number < TRIALS_MAX {
        Next::Again(PAUSE * number)
    } else {
        Next::Undecided
    }
}

/// Writes to standard error without the capture that applies to `eprintln`.
fn write_stderr(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_passing_trial_runs_once() {
        let made = Cell::new(0);
        undisturbed(|| made.set(made.get() + 1));
        assert_eq!(made.get(), 1);
    }

    #[test]
    fn a_failure_counts_only_on_an_undisturbed_machine() {
        for number in 1..=TRIALS_MAX {
            assert_eq!(after_failure(number, 0.01), Next::Fail);
        }
        let pause = |seconds| Next::Again(Duration::from_secs(seconds));
        assert_eq!([1, 2, 3].map(|n| after_failure(n, 0.02)), [pause(5), pause(10), Next::Undecided]);
    }

    #[test]
    fn a_failed_trial_fails_the_test() {
        let made = Cell::new(0);
        let failed = panic::catch_unwind(AssertUnwindSafe(|| {
            undisturbed(|| {
                made.set(made.get() + 1);
                panic!("on purpose");
            });
        }));
        // The trial runs more often only if the host withheld CPU time each time.
        assert!(failed.is_err() || made.get() == TRIALS_MAX);
    }
}
