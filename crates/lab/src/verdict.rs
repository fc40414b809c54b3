//! Checks whether a run is valid.

use std::time::Duration;

use results::lab::Verdict;
use units::Bytes;

/// Lateness below this limit is ignored however short the link's delay is: on a busy host, TCP and applications are
/// later than this.
const TOLERANCE_MIN: Duration = Duration::from_millis(1);

/// Maximum share of the run that a sender or receiver may wait for a CPU.
const CPU_WAIT_SHARE_MAX: f64 = 0.20;

/// Maximum share of the machine's CPU time that the hypervisor may steal. Beyond it, senders, receivers and
/// acknowledgements are delayed as no model covers; neither run queues nor the emulator's lateness show
/// this.
const STEAL_SHARE_MAX: f64 = 0.05;

/// Divisor of a link's delay that gives the lateness allowed: 1 % of the delay.
const LATENESS_DIVISOR: u32 = 100;

/// Maximum 99th percentile of lateness on a link of this delay.
pub(crate) fn tolerance(configured: Option<Duration>, delay: Duration) -> Duration {
    configured.unwrap_or_else(|| TOLERANCE_MIN.max(delay / LATENESS_DIVISOR))
}

/// Checks of a run's validity, with the reasons against it, each listed once.
#[derive(Debug, Default)]
pub(crate) struct ValidityChecks {
    reasons: Vec<String>,
    advice: Option<&'static str>,
}

impl ValidityChecks {
    pub(crate) fn add(&mut self, reason: String) {
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }

    /// Checks the lateness of packet deliveries on a link.
    pub(crate) fn late(&mut self, place: &str, p99: Duration, limit: Duration) {
        if p99 > limit {
            self.add(format!(
                "{place}: the 99th percentile of packet lateness is {:.3} ms (limit {:.3} ms): the machine is too slow or too busy",
                p99.as_secs_f64() * 1e3,
                limit.as_secs_f64() * 1e3
            ));
        }
    }

    /// Sets advice that the verdict includes if the run is invalid.
    pub(crate) fn advise(&mut self, advice: &'static str) {
        self.advice = Some(advice);
    }

    /// Checks how long packets waited in a device before the emulator read them.
    pub(crate) fn waited(&mut self, p99: Duration, limit: Duration) {
        if p99 > limit {
            self.add(format!(
                "the 99th percentile of the wait before the emulator reads a packet may be up to {:.3} ms (limit {:.3} ms): the nodes send faster than this machine can forward",
                p99.as_secs_f64() * 1e3,
                limit.as_secs_f64() * 1e3
            ));
        }
    }

    /// Checks the delay of a flow's start.
    pub(crate) fn started_late(&mut self, flow: &str, late: Duration, limit: Duration) {
        if late > limit {
            self.add(format!("flow {flow} started {:.3} s late", late.as_secs_f64()));
        }
    }

    /// Records that an overlay member stalled long enough for its links to be declared down.
    pub(crate) fn stalled(&mut self, member: &str, seconds: f64) {
        self.add(format!("the overlay node in {member} stalled for {seconds:.2} s: the machine is too busy"));
    }

    /// Checks that a flow got the socket buffers that the experiment file requests.
    pub(crate) fn cut_window(&mut self, flow: &str, cut: Option<(Bytes, Bytes)>) {
        if let Some((requested, granted)) = cut {
            self.add(format!(
                "flow {flow}: the kernel granted {granted} of the requested window of {requested}; raise net.core.rmem_max and wmem_max, or run as root"
            ));
        }
    }

    /// Checks how long a sender or receiver was runnable without a CPU.
    pub(crate) fn starved(&mut self, place: &str, waited: Duration, of: Duration) {
        let share = waited.as_secs_f64() / of.as_secs_f64().max(1e-9);
        tracing::debug!("{place} waited for a CPU for {:.1} % of the run", share * 100.0);
        if share > CPU_WAIT_SHARE_MAX {
            self.add(format!(
                "{place} waited for a CPU for {:.0} % of the run (limit {:.0} %)",
                share * 100.0,
                CPU_WAIT_SHARE_MAX * 100.0
            ));
        }
    }

    /// Checks the share of CPU time that the hypervisor stole.
    pub(crate) fn stolen(&mut self, share: Option<f64>, limit: Option<f64>) {
        let limit = limit.unwrap_or(STEAL_SHARE_MAX);
        if let Some(share) = share.filter(|s| *s > limit) {
            self.add(format!(
                "the hypervisor stole {:.1} % of this machine's CPU time (limit {:.0} %)",
                share * 100.0,
                limit * 100.0
            ));
        }
    }

    /// Checks that no packets were lost outside the link model.
    pub(crate) fn lost(&mut self, place: &str, packets: u64) {
        if packets > 0 {
            let plural = if packets == 1 { "" } else { "s" };
            self.add(format!("{place}: the emulator, not the model, lost {packets} packet{plural}"));
        }
    }

    pub(crate) fn verdict(self) -> Verdict {
        if self.reasons.is_empty() {
            return Verdict::Valid;
        }
        let mut reasons = self.reasons;
        reasons.extend(self.advice.map(str::to_owned));
        Verdict::Invalid { reasons }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_valid_without_reasons_against_it() {
        let mut checks = ValidityChecks::default();
        checks.late("path", Duration::from_micros(900), tolerance(None, Duration::ZERO));
        checks.late("path", Duration::from_micros(1800), tolerance(None, Duration::from_millis(187)));
        checks.lost("path", 0);
        checks.stolen(Some(0.04), None);
        checks.stolen(Some(0.3), Some(0.5));
        assert_eq!(checks.verdict(), Verdict::Valid);
        let mut checks = ValidityChecks::default();
        checks.stolen(Some(0.06), None);
        checks.stolen(None, None);
        let Verdict::Invalid { reasons } = checks.verdict() else { panic!("6 % are more than 5 %") };
        assert!(reasons.len() == 1 && reasons[0].contains("stole 6.0 % of this machine's CPU time"), "{reasons:?}");

        let mut checks = ValidityChecks::default();
        checks.late("path", Duration::from_micros(1100), tolerance(None, Duration::from_millis(10)));
        checks.late("path", Duration::from_micros(900), tolerance(Some(Duration::from_micros(300)), Duration::ZERO));
        checks.lost("path", 3);
        checks.lost("path", 3);
        let Verdict::Invalid { reasons } = checks.verdict() else { panic!("three checks fail") };
        assert_eq!(reasons.len(), 3, "{reasons:?}");
        assert!(reasons[0].contains("1.100 ms (limit 1.000 ms)"), "{reasons:?}");
    }

    #[test]
    fn cpu_waits_and_cut_windows_are_reasons_and_advice_needs_a_reason() {
        let mut checks = ValidityChecks::default();
        checks.starved("flow one", Duration::from_millis(1900), Duration::from_secs(10));
        checks.cut_window("one", None);
        checks.advise("buy a faster machine");
        assert_eq!(checks.verdict(), Verdict::Valid);

        let mut checks = ValidityChecks::default();
        checks.starved("flow one", Duration::from_millis(2100), Duration::from_secs(10));
        checks.cut_window("one", Some((Bytes::new(16_000_000), Bytes::new(4_000_000))));
        checks.advise("buy a faster machine");
        let Verdict::Invalid { reasons } = checks.verdict() else { panic!("two checks fail") };
        assert_eq!(reasons.len(), 3, "{reasons:?}");
        assert!(reasons[0].contains("21 %") && reasons[1].contains("16.00 MB") && reasons[2] == "buy a faster machine");
    }
}
