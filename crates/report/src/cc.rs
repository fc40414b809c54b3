//! Text of `longhaul cc`: the congestion controls of a host.

use std::io::{self, Write};

use results::cc::{CcControl, CcOrigin, CcStart};

use crate::summary::printable;

/// Writes all congestion controls, one per line.
///
/// # Errors
/// Errors of the writer.
pub fn write_list(start: &CcStart, controls: &[CcControl], out: &mut impl Write) -> io::Result<()> {
    let name = |c: &CcControl| printable(&c.name);
    let width = controls.iter().map(|c| name(c).len()).max().unwrap_or(0).max("name".len());
    writeln!(out, "{:<width$}  {:<8}  {:<20}  parameters", "name", "from", "state")?;
    for control in controls {
        let from = match control.origin {
            CcOrigin::Kernel => "kernel",
            CcOrigin::Longhaul => "longhaul",
        };
        let parameters = describe(control);
        let line = format!("{:<width$}  {from:<8}  {:<20}  {parameters}", name(control), state(start, control));
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Writes all properties of one congestion control.
///
/// # Errors
/// Errors of the writer.
pub fn write_control(start: &CcStart, control: &CcControl, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}: {}", printable(&control.name), state(start, control))?;
    if let Some(about) = &control.about {
        writeln!(out, "  {}", printable(about))?;
    }
    for p in &control.parameters {
        writeln!(out, "  {:<18} {}", printable(&p.key), printable(&p.value))?;
    }
    if let Some(connections) = control.connections {
        writeln!(out, "  {:<18} about {connections}", "connections")?;
    }
    let users = if control.unprivileged { "all users" } else { "users with CAP_NET_ADMIN" };
    if control.available { writeln!(out, "  {:<18} {users}", "usable by") } else { Ok(()) }
}

fn state(start: &CcStart, control: &CcControl) -> String {
    if !control.available {
        return "not loaded".to_owned();
    }
    let default = if control.name == start.default { ", default" } else { "" };
    match control.age_s {
        Some(age) => format!("for {}{default}", span(age)),
        None => format!("available{default}"),
    }
}

fn span(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    match whole {
        0..120 => format!("{whole} s"),
        120..7200 => format!("{} min", whole / 60),
        7200..172_800 => format!("{} h", whole / 3600),
        _ => format!("{} days", whole / 86_400),
    }
}

fn describe(control: &CcControl) -> String {
    let parameters: Vec<String> =
        control.parameters.iter().map(|p| format!("{}={}", printable(&p.key), printable(&p.value))).collect();
    parameters.join(" ")
}
