//! Command lines in the style of iperf3: accepted where the meaning is clear, otherwise answered with the equivalent.

use std::ffi::{OsStr, OsString};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use units::{ParseQuantityError, Rate};

/// Rewrites the arguments of `longhaul test` for the parser: a rate after `-u` becomes its value, a host does not.
pub(crate) fn rewritten(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut all: Vec<OsString> = arguments.collect();
    if all.get(1).is_none_or(|command| command != "test") {
        return all;
    }
    let end = all.iter().position(|a| a == "--").unwrap_or(all.len());
    let mut at = 2;
    while at < end.min(all.len()) {
        let joined = match all[at].to_str() {
            Some("-u" | "--udp") => all.get(at + 1).and_then(|next| as_rate(next)).map(|rate| (rate, 2)),
            // A rate directly after the letter.
            Some(text) => text.strip_prefix("-u").and_then(|rest| as_rate(OsStr::new(rest))).map(|rate| (rate, 1)),
            None => None,
        };
        if let Some((rate, taken)) = joined {
            all.splice(at..(at + taken).min(all.len()), [OsString::from(format!("--udp={rate}"))]);
        }
        at += 1;
    }
    all
}

/// Returns text that is meant as a rate, even without a unit.
fn as_rate(argument: &OsStr) -> Option<String> {
    let text = argument.to_str()?;
    match text.parse::<Rate>() {
        Ok(_) | Err(ParseQuantityError::NoUnit { .. } | ParseQuantityError::Range(_)) => Some(text.to_owned()),
        // The parser reports the unit of `10MB/s`; a host that starts with a digit contains a dot or a colon.
        Err(ParseQuantityError::Unit { .. }) if text.ends_with("/s") => Some(text.to_owned()),
        Err(_) => None,
    }
}

/// Equivalent of an iperf3 option that longhaul spells differently, or the reason why another argument is refused.
pub(crate) fn hint(arguments: &[OsString], error: &clap::Error) -> Option<&'static str> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_number = argument.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let command = arguments.first();
    let is_lab_path = arguments.len() > 1 && arguments[..2] == ["lab", "path"];
    let text = match argument.as_str() {
        _ if is_lab_path && !argument.starts_with('-') => {
            "write the command after `--`, such as `longhaul lab path -- longhaul test far`"
        }
        "-1" if command.is_some_and(|c| c == "serve" || c == "test") => {
            "unknown option -1; serve one test with --one-off"
        }
        _ if is_number => "a value cannot be negative; times, rates and sizes have no sign, such as 5s",
        "-c" | "--client" => "unknown option -c; use `longhaul test HOST` for iperf3's -c HOST",
        "-s" | "--server" => "unknown option -s; use `longhaul serve` for iperf3's -s",
        "-S" | "--tos" => "unknown option -S (--tos); set the code point with --dscp, such as --dscp af41",
        "-k" | "--blockcount" => "unknown option -k (--blockcount); set the volume with -n, such as -n 10GB",
        "-N" | "--no-delay" => "unknown option -N (--no-delay); TCP_NODELAY is always set",
        "-f" => "unknown option -f; each rate is shown with its unit, and --json has bits per second",
        "-d" => "unknown option -d; send in both directions at once with --bidir",
        "--get-server-output" => {
            "unknown option --get-server-output; the records of both ends are in every output, such as --json"
        }
        "-D" | "--daemon" => {
            "unknown option -D (--daemon); run `longhaul serve` as a service, with the systemd unit in packaging/"
        }
        _ => return None,
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten_line(line: &str) -> String {
        let all = rewritten(line.split(' ').map(OsString::from));
        all.iter().map(|a| a.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_rate_after_u_is_its_value_and_a_host_is_not() {
        for (typed, read) in [
            ("longhaul test -u 10M far", "longhaul test --udp=10M far"),
            ("longhaul test --udp 10Mb/s far", "longhaul test --udp=10Mb/s far"),
            ("longhaul test far -u10M", "longhaul test far --udp=10M"),
            ("longhaul test -u far", "longhaul test -u far"),
            ("longhaul test far -u", "longhaul test far -u"),
            ("longhaul test -u 192.0.2.1", "longhaul test -u 192.0.2.1"),
            ("longhaul test -u 192.0.2.1:5003 -t 5", "longhaul test -u 192.0.2.1:5003 -t 5"),
            ("longhaul test -u 2001:db8::1", "longhaul test -u 2001:db8::1"),
            ("longhaul test -u -b 10M far", "longhaul test -u -b 10M far"),
            ("longhaul test far -u -R", "longhaul test far -u -R"),
            ("longhaul test far -uR", "longhaul test far -uR"),
            // The rate is invalid, so the parser reports an error for a rate.
            ("longhaul test -u 10 far", "longhaul test --udp=10 far"),
            ("longhaul test -u 10MB/s far", "longhaul test --udp=10MB/s far"),
            // Other commands and arguments after -- stay as they are.
            ("longhaul lab path -- longhaul test -u 10M far", "longhaul lab path -- longhaul test -u 10M far"),
            ("longhaul test -- -u 10M", "longhaul test -- -u 10M"),
            ("longhaul", "longhaul"),
        ] {
            assert_eq!(rewritten_line(typed), read, "{typed}");
        }
    }
}
