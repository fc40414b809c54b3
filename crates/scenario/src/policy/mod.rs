//! The policy of `longhaul shape`: a device, its rate in each direction, classes, and the packets that belong to each.

mod class;
mod matches;

pub use matches::code_point;

use std::path::Path;
use std::time::Duration;

use shaping::{Accounting, Policy, SizeLimits};
use units::{Bytes, Rate};

use crate::problem::{Fault, Problems, Report};
use crate::quantity;
use crate::section::{Item, Section};
use crate::tree::{self, Origin};

/// Looks up a user ID by name; `None` if there is no such user.
pub type UserByName<'a> = &'a dyn Fn(&str) -> Option<u32>;

/// `None` where user names are not available.
type Users<'a> = Option<UserByName<'a>>;

/// Maximum length of a device name in Linux (IFNAMSIZ - 1).
const DEVICE_NAME_BYTES_MAX: usize = 15;
/// Range of the number of flows to remember: about 100 bytes each.
const FLOWS: std::ops::RangeInclusive<u32> = 64..=4_000_000;

/// Reads a policy file.
///
/// Messages quote `path`. `device`, if given, replaces the file's `device`.
///
/// # Errors
/// All problems found, at most 20 of them listed, each with its position and a hint.
pub fn read_policy(path: &Path, text: &str, device: Option<&str>, users: UserByName<'_>) -> Result<Policy, Problems> {
    let report = Report::new(path.display().to_string(), text.to_owned(), Vec::new());
    let policy = tree::parse(text, &report).and_then(|table| {
        let mut root = Section::new(&report, String::new(), Origin::Whole, &table);
        let named = match device {
            Some(device) => {
                root.item("device");
                Some(device.to_owned())
            }
            None => root.required("device", "name it: device = \"eth0\"").and_then(|item| item.read(device_name)),
        };
        read_body(root, named?, Some(users))
    });
    match policy {
        Some(policy) if report.is_empty() => Ok(policy),
        _ => Err(report.into_problems()),
    }
}

/// Reads the policy of a device in an experiment file.
pub(crate) fn read_for_device(device: String, item: &Item<'_>) -> Option<Policy> {
    read_body(item.section()?, device, None)
}

/// Reads all keys except the device.
fn read_body(mut section: Section<'_>, device: String, users: Users<'_>) -> Option<Policy> {
    const ACCOUNTING: &[(&str, Accounting)] = &[("frame", Accounting::Frame), ("wire", Accounting::Wire)];
    let accounting = section.read("accounting", quantity::name(ACCOUNTING)).unwrap_or_default();
    let sizes = section.item("elephants").and_then(|item| read_sizes(&item)).unwrap_or_default();
    let egress = section.item("egress");
    let ingress = section.item("ingress");
    if egress.is_none() && ingress.is_none() {
        let hint = "write [egress] with rate = \"...\", [ingress], or both";
        section.complain(Fault::new("has neither egress nor ingress", hint));
    }
    let egress = egress.and_then(|item| class::read_side(&item, shaping::Direction::Egress, users));
    let ingress = ingress.and_then(|item| class::read_side(&item, shaping::Direction::Ingress, users));
    section.finish();
    Some(Policy { device, accounting, sizes, egress, ingress })
}

fn read_sizes(item: &Item<'_>) -> Option<SizeLimits> {
    let mut section = item.section()?;
    let usual = SizeLimits::default();
    let bytes = section.read("bytes", quantity::bytes);
    let rate = section.read("above", quantity::rate);
    let time = section.read("for", quantity::positive_duration);
    let above = pair(&section, rate, time);
    let idle = section.read("idle", quantity::positive_duration).unwrap_or(usual.idle);
    let flows = section.read("flows", quantity::whole_u32(FLOWS)).unwrap_or(usual.flows);
    let given = section.given(&["bytes", "above"]);
    section.finish();
    // A rate alone is a complete limit.
    let bytes: Option<Bytes> = if given.is_empty() { usual.bytes } else { bytes };
    Some(SizeLimits { bytes, above, idle, flows })
}

fn pair(section: &Section<'_>, rate: Option<Rate>, time: Option<Duration>) -> Option<(Rate, Duration)> {
    if let [alone] = section.given(&["above", "for"]).as_slice() {
        let hint = "write both: above = \"10Mb/s\" and for = \"2s\"";
        section.complain(Fault::new(format!("has only `{alone}`"), hint));
    }
    Some((rate?, time?))
}

fn device_name(value: &tree::Value) -> Result<String, Fault> {
    let name = quantity::text(value)?;
    if is_device_name(&name) {
        return Ok(name);
    }
    let hint = format!("write it as `ip link` does: at most {DEVICE_NAME_BYTES_MAX} characters, no space, no slash");
    Err(Fault::new(format!("`{name}` is not a valid device name"), hint))
}

/// The kernel's rule for names (dev_valid_name in net/core/dev.c).
fn is_device_name(name: &str) -> bool {
    let allowed = |c: char| !c.is_whitespace() && !c.is_control() && c != '/' && c != ':';
    (1..=DEVICE_NAME_BYTES_MAX).contains(&name.len()) && name != "." && name != ".." && name.chars().all(allowed)
}
