//! Congestion controls by name.

use congestion::{FastSettings, HtcpSettings, Settings};
use scenario::Scenario;
use tcp::Control;

/// Names of the congestion controls that the simulator has.
pub(crate) const NAMES: [&str; 4] = ["cubic", "reno", "fast", "htcp"];

/// The congestion control with this name and the scenario's parameters; `None` if the simulator does not have it.
pub(crate) fn control(scenario: &Scenario, name: &str) -> Option<Control> {
    match (scenario.congestion.get(name), name) {
        // A control with parameters may have any name.
        (Some(Settings::Fast(settings)), _) => Some(Control::fast(*settings)),
        (Some(Settings::Htcp(settings)), _) => Some(Control::htcp(*settings)),
        (None, "reno") => Some(Control::reno()),
        (None, "cubic") => Some(Control::cubic()),
        (None, "fast") => Some(Control::fast(FastSettings::default())),
        (None, "htcp") => Some(Control::htcp(HtcpSettings::default())),
        (None, _) => None,
    }
}
