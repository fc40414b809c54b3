//! Congestion controls by name.

use congestion::{FastSettings, HtcpSettings, Settings};
use scenario::Scenario;
use tcp::Control;

/// Names of the congestion controls that the simulator has.
pub(crate) const NAMES: [&str; 4] = ["cubic", "reno", "fast", "htcp"];

/// The congestion control with this name and the scenario's parameters; `None` if the simulator does not have it.
pub(crate) fn control(scenario: &Scenario, name: &str) -> Option<Control> {
    let own = scenario.congestion.get(name);
    match name {
        "reno" => Some(Control::reno()),
        "cubic" => Some(Control::cubic()),
        "fast" => Some(Control::fast(match own {
            Some(Settings::Fast(settings)) => *settings,
            _ => FastSettings::default(),
        })),
        "htcp" => Some(Control::htcp(match own {
            Some(Settings::Htcp(settings)) => *settings,
            _ => HtcpSettings::default(),
        })),
        _ => None,
    }
}
