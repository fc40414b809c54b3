//! Whether a run can be believed.

use std::time::Duration;

use results::lab::Verdict;
use units::Bytes;

/// Lateness that counts for no link, however short its delay: TCP and applications are late by more on a busy host.
const FLOOR: Duration = Duration::from_millis(1);

/// Share of the run that a sender or receiver may wait for a CPU.
const STARVED: f64 = 0.20;

/// Share of the machine's CPU time that its host may give to others: beyond it senders, receivers and acknowledgements were
/// delayed by what no model says, and neither run queues nor the emulator's own lateness show it.
const STOLEN: f64 = 0.05;

/// Share of a link's own delay by which packets may be late.
const SHARE: u32 = 100;

/// Largest 99th percentile of lateness on a link of this delay.
pub(crate) fn tolerance(asked: Option<Duration>, delay: Duration) -> Duration {
    asked.unwrap_or_else(|| FLOOR.max(delay / SHARE))
}

/// Reasons against a run, each said once.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    reasons: Vec<String>,
    advice: Option<&'static str>,
}

impl Doubts {
    pub(crate) fn add(&mut self, reason: String) {
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }

    /// The emulator handed packets over too late.
    pub(crate) fn late(&mut self, place: &str, p99: Duration, limit: Duration) {
        if p99 > limit {
            self.add(format!(
                "{place}: one packet in a hundred was handed over more than {:.3} ms late ({:.3} ms is allowed): the machine is too slow or too busy",
                p99.as_secs_f64() * 1e3,
                limit.as_secs_f64() * 1e3
            ));
        }
    }

    /// What would help, if anything speaks against the run.
    pub(crate) fn advise(&mut self, advice: &'static str) {
        self.advice = Some(advice);
    }

    /// Packets lay in the device before the emulator looked.
    pub(crate) fn waited(&mut self, p99: Duration, limit: Duration) {
        if p99 > limit {
            self.add(format!(
                "one packet in a hundred may have waited up to {:.3} ms before the emulator saw it ({:.3} ms is allowed): the nodes send faster than this machine can carry",
                p99.as_secs_f64() * 1e3,
                limit.as_secs_f64() * 1e3
            ));
        }
    }

    /// A flow was not ready at its time.
    pub(crate) fn began_late(&mut self, flow: &str, late: Duration, limit: Duration) {
        if late > limit {
            self.add(format!("flow {flow} began {:.3} s after its time", late.as_secs_f64()));
        }
    }

    /// A member of the overlay did nothing for so long that its links were taken to be down.
    pub(crate) fn stalled(&mut self, member: &str, seconds: f64) {
        self.add(format!("the overlay's member in {member} did nothing for {seconds:.2} s: the machine is too busy"));
    }

    /// A flow got smaller socket buffers than the experiment says.
    pub(crate) fn cut_window(&mut self, flow: &str, cut: Option<(Bytes, Bytes)>) {
        if let Some((asked, granted)) = cut {
            self.add(format!(
                "flow {flow}: of its window of {asked} the kernel granted {granted} (net.core.rmem_max, wmem_max); root may have more"
            ));
        }
    }

    /// A sender or receiver could have run and got no CPU.
    pub(crate) fn starved(&mut self, place: &str, waited: Duration, of: Duration) {
        let share = waited.as_secs_f64() / of.as_secs_f64().max(1e-9);
        tracing::debug!("{place} waited for a CPU {:.1} % of the run", share * 100.0);
        if share > STARVED {
            self.add(format!(
                "{place} waited for a CPU {:.0} % of the run ({:.0} % is allowed)",
                share * 100.0,
                STARVED * 100.0
            ));
        }
    }

    /// The host of this virtual machine ran something else.
    pub(crate) fn stolen(&mut self, share: Option<f64>, limit: Option<f64>) {
        let limit = limit.unwrap_or(STOLEN);
        if let Some(share) = share.filter(|s| *s > limit) {
            self.add(format!(
                "the host of this virtual machine gave {:.1} % of its CPU time to others ({:.0} % is allowed)",
                share * 100.0,
                limit * 100.0
            ));
        }
    }

    /// Packets that no model dropped.
    pub(crate) fn lost(&mut self, place: &str, packets: u64) {
        if packets > 0 {
            self.add(format!("{place}: the emulator, not the model, lost {packets} packets"));
        }
    }

    pub(crate) fn verdict(self) -> Verdict {
        if self.reasons.is_empty() {
            return Verdict::Valid;
        }
        let mut because = self.reasons;
        because.extend(self.advice.map(str::to_owned));
        Verdict::Invalid { because }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_valid_until_something_speaks_against_it() {
        let mut doubts = Doubts::default();
        doubts.late("path", Duration::from_micros(900), tolerance(None, Duration::ZERO));
        doubts.late("path", Duration::from_micros(1800), tolerance(None, Duration::from_millis(187)));
        doubts.lost("path", 0);
        doubts.stolen(Some(0.04), None);
        doubts.stolen(Some(0.3), Some(0.5));
        assert_eq!(doubts.verdict(), Verdict::Valid);
        let mut doubts = Doubts::default();
        doubts.stolen(Some(0.06), None);
        doubts.stolen(None, None);
        let Verdict::Invalid { because } = doubts.verdict() else { panic!("6 % are more than 5 %") };
        assert!(because.len() == 1 && because[0].contains("gave 6.0 % of its CPU time"), "{because:?}");

        let mut doubts = Doubts::default();
        doubts.late("path", Duration::from_micros(1100), tolerance(None, Duration::from_millis(10)));
        doubts.late("path", Duration::from_micros(900), tolerance(Some(Duration::from_micros(300)), Duration::ZERO));
        doubts.lost("path", 3);
        doubts.lost("path", 3);
        let Verdict::Invalid { because } = doubts.verdict() else { panic!("three reasons speak against it") };
        assert_eq!(because.len(), 3, "{because:?}");
        assert!(because[0].contains("1.100 ms late (1.000 ms is allowed)"), "{because:?}");
    }

    #[test]
    fn starved_ends_and_cut_windows_count_and_advice_stands_only_beside_reasons() {
        let mut doubts = Doubts::default();
        doubts.starved("flow one", Duration::from_millis(1900), Duration::from_secs(10));
        doubts.cut_window("one", None);
        doubts.advise("buy a faster machine");
        assert_eq!(doubts.verdict(), Verdict::Valid);

        let mut doubts = Doubts::default();
        doubts.starved("flow one", Duration::from_millis(2100), Duration::from_secs(10));
        doubts.cut_window("one", Some((Bytes::new(16_000_000), Bytes::new(4_000_000))));
        doubts.advise("buy a faster machine");
        let Verdict::Invalid { because } = doubts.verdict() else { panic!("two reasons speak against it") };
        assert_eq!(because.len(), 3, "{because:?}");
        assert!(because[0].contains("21 %") && because[1].contains("16.00 MB") && because[2] == "buy a faster machine");
    }
}
