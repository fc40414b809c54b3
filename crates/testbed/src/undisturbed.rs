use std::io::Write;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kernel::CpuSnapshot;

/// Maximum steal time, as a share of the machine's CPU time, of a trial whose failure counts.
const STOLEN: f64 = 0.01;
/// Trials that are made at most.
const TRIALS: u32 = 3;
/// Rest before the second trial, twice as much before the third: a host that rations CPU time takes it from a machine that has
/// worked for minutes, and gives it back to one that rests.
const REST: Duration = Duration::from_secs(30);
/// All rests of a process together: a host that does not give the time back for minutes will not do so soon.
const REST_MAX: Duration = Duration::from_secs(360);

/// Runs a trial that measures time. One that fails while the host of this virtual machine gave more than 1 % of its CPU time to
/// others says nothing about longhaul, and another is made, three at most. What passes has passed, and what fails on a machine that was its
/// own has failed: the witness is the kernel's own account (`steal` of /proc/stat), not the outcome. When none of three trials had the
/// machine to itself the question is open, which is said on standard error, past the capture of passing tests. Only for what is measured in
/// time or rates: lost or damaged bytes are a fault on any machine.
///
/// # Panics
/// As the trial does.
pub fn undisturbed(trial: impl Fn()) {
    for number in 1.. {
        let before = CpuSnapshot::read();
        let Err(failure) = panic::catch_unwind(AssertUnwindSafe(&trial)) else { return };
        let stolen = CpuSnapshot::read().stolen_since(&before).unwrap_or(0.0);
        let taken = format!("the host took {:.1} % of the CPU time meanwhile", stolen * 100.0);
        match after_failure(number, stolen) {
            Next::Fail => panic::resume_unwind(failure),
            Next::Again(rest) => {
                say(&format!("trial {number} does not count: {taken}"));
                self::rest(rest);
            }
            Next::Undecided => {
                return undecided(&format!("{taken}, as it did in all {TRIALS} trials"));
            }
        }
    }
}

/// Says that this test decides nothing, and why: the machine could not carry what it measures. It is said on standard error, past the capture
/// of passing tests, for it must not look like one that passed.
pub fn undecided(reason: &str) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    say(&format!("UNDECIDED: {name}: {reason}"));
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    Fail,
    Again(Duration),
    Undecided,
}

fn after_failure(number: u32, stolen: f64) -> Next {
    if stolen <= STOLEN {
        Next::Fail
    } else if number < TRIALS {
        Next::Again(REST * number)
    } else {
        Next::Undecided
    }
}

fn rest(time: Duration) {
    static RESTED_S: AtomicU64 = AtomicU64::new(0);
    if RESTED_S.fetch_add(time.as_secs(), Ordering::Relaxed) < REST_MAX.as_secs() {
        std::thread::sleep(time);
    }
}

/// Unlike `eprintln`, which shows nothing where a test passes.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_trial_that_passes_is_made_once() {
        let made = Cell::new(0);
        undisturbed(|| made.set(made.get() + 1));
        assert_eq!(made.get(), 1);
    }

    #[test]
    fn a_failure_counts_only_on_an_undisturbed_machine() {
        for number in 1..=TRIALS {
            assert_eq!(after_failure(number, 0.01), Next::Fail);
        }
        let rest = |seconds| Next::Again(Duration::from_secs(seconds));
        assert_eq!([1, 2, 3].map(|n| after_failure(n, 0.02)), [rest(30), rest(60), Next::Undecided]);
    }

    #[test]
    fn the_failure_of_a_trial_is_that_of_the_test() {
        let made = Cell::new(0);
        let failed = panic::catch_unwind(AssertUnwindSafe(|| {
            undisturbed(|| {
                made.set(made.get() + 1);
                panic!("on purpose");
            });
        }));
        // Unless the host took the machine away in each of the three moments.
        assert!(failed.is_err() || made.get() == TRIALS);
    }
}
