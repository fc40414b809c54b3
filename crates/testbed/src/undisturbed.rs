use std::panic::{self, AssertUnwindSafe};

use kernel::CpuSnapshot;

/// Share of the machine's CPU time that its host may give to others in a trial whose failure counts.
const STOLEN: f64 = 0.01;
/// Trials that are made at most.
const TRIALS: u32 = 3;
/// Share of which the host must take more in each of them for the test to be skipped: such a machine cannot carry it.
const TAKEN_AWAY: f64 = 0.05;

/// Runs a trial that measures time. One that fails while the host of this virtual machine gave more than 1 % of its CPU time to
/// others says nothing about longhaul, and another is made, three at most; if the host took more than 5 % in each of these, the test is
/// skipped, with a note, as one that lacks a privilege is. What passes has passed, and what fails on a machine that was its own has failed:
/// the witness is the kernel's own account (`steal` of /proc/stat), not the outcome.
///
/// # Panics
/// As the trial does.
#[allow(clippy::print_stderr, reason = "a trial that does not count must not go unseen")]
pub fn undisturbed(trial: impl Fn()) {
    let mut least = 1.0_f64;
    for number in 1..=TRIALS {
        let before = CpuSnapshot::read();
        let Err(failure) = panic::catch_unwind(AssertUnwindSafe(&trial)) else { return };
        let stolen = CpuSnapshot::read().stolen_since(&before).unwrap_or(0.0);
        least = least.min(stolen);
        if stolen <= STOLEN || (number == TRIALS && least <= TAKEN_AWAY) {
            panic::resume_unwind(failure);
        }
        eprintln!("trial {number} does not count: the host took {:.1} % of the CPU time meanwhile", stolen * 100.0);
    }
    eprintln!("skipped: the host took at least {:.0} % of the CPU time in each of {TRIALS} trials", least * 100.0);
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
        // A machine whose host takes 5 % of it in each of three moments carries nothing.
        assert!(failed.is_err() || made.get() == TRIALS);
    }
}
