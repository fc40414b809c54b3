//! How closely a member watches its links and paths: the times after which silence counts.

use std::time::Duration;

/// Times of a link or path, each beside a round trip.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Time without a packet after which a link is down.
    pub(super) silence: Duration,
    /// Time without a packet, or a report, after which a direction or a path is probed, and the interval of these
    /// probes.
    pub(super) quiet: Duration,
    pub(super) quiet_interval: Duration,
    /// Interval of the reports of a direction; `None`: it follows from the loss.
    pub(super) report_interval: Option<Duration>,
}

impl Default for Pace {
    fn default() -> Self {
        BUSY
    }
}

/// While packets go over the overlay.
pub(super) const BUSY: Pace = Pace {
    silence: Duration::from_millis(500),
    quiet: Duration::from_millis(150),
    quiet_interval: Duration::from_millis(30),
    report_interval: None,
};

/// While the overlay is idle and a link is probed twice a second: one more second passes before the loss of two probes
/// in a row is noticed, and twenty probes before the link is down. Two reports come in a quiet second.
pub(super) const IDLE: Pace = Pace {
    silence: Duration::from_secs(5),
    quiet: Duration::from_secs(1),
    quiet_interval: Duration::from_millis(200),
    report_interval: Some(Duration::from_millis(500)),
};
