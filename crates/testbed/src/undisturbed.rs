use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use kernel::CpuSnapshot;

/// Share of the machine's CPU time that its host may give to others in a trial whose failure counts.
const STOLEN: f64 = 0.01;
/// Trials that are made at most.
const TRIALS: u32 = 3;
/// Rest before the second trial, twice as much before the third: a host that rations CPU time takes it from a machine that has
/// worked for minutes, and gives it back to one that rests.
const REST: Duration = Duration::from_secs(30);

/// Runs a trial that measures time. One that fails while the host of this virtual machine gave more than 1 % of its CPU time to
/// others says nothing about longhaul, and another is made, three at most; the last one counts. What passes has passed, and what fails on a
/// machine that was its own has failed: the witness is the kernel's own account (`steal` of /proc/stat), not the outcome. Only for what is
/// measured in time or rates: lost or damaged bytes are a fault on any machine.
///
/// # Panics
/// As the trial does.
#[allow(clippy::print_stderr, reason = "a trial that does not count must not go unseen")]
pub fn undisturbed(trial: impl Fn()) {
    for number in 1.. {
        let before = CpuSnapshot::read();
        let Err(failure) = panic::catch_unwind(AssertUnwindSafe(&trial)) else { return };
        let stolen = CpuSnapshot::read().stolen_since(&before).unwrap_or(0.0);
        if stolen <= STOLEN || number == TRIALS {
            panic::resume_unwind(failure);
        }
        eprintln!("trial {number} does not count: the host took {:.1} % of the CPU time meanwhile", stolen * 100.0);
        std::thread::sleep(REST * number);
    }
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
    fn a_trial_that_fails_fails() {
        let made = Cell::new(0);
        let failed = panic::catch_unwind(AssertUnwindSafe(|| {
            undisturbed(|| {
                made.set(made.get() + 1);
                panic!("on purpose");
            });
        }));
        assert!(failed.is_err() && (1..=TRIALS).contains(&made.get()));
    }
}
