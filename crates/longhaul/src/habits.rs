//! What users of iperf3 type out of habit: read as they mean it, or answered with what to type here.

use std::ffi::{OsStr, OsString};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use units::{ParseQuantityError, Rate};

/// The arguments as the parser takes them: in `longhaul test`, a rate behind `-u` belongs to it, and a host does not.
pub(crate) fn arranged(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut all: Vec<OsString> = arguments.collect();
    if all.get(1).is_none_or(|command| command != "test") {
        return all;
    }
    let end = all.iter().position(|a| a == "--").unwrap_or(all.len());
    let mut at = 2;
    while at < end.min(all.len()) {
        let joined = match all[at].to_str() {
            Some("-u" | "--udp") => all.get(at + 1).and_then(|next| as_rate(next)).map(|rate| (rate, 2)),
            // The rate directly behind the letter.
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

/// Text that is meant as a rate, even where its unit is missing.
fn as_rate(argument: &OsStr) -> Option<String> {
    let text = argument.to_str()?;
    match text.parse::<Rate>() {
        Ok(_) | Err(ParseQuantityError::NoUnit { .. } | ParseQuantityError::Range(_)) => Some(text.to_owned()),
        // `10MB/s`, for which the parser has its words; a host that begins with a digit has a dot or a colon.
        Err(ParseQuantityError::Unit { .. }) if text.ends_with("/s") => Some(text.to_owned()),
        Err(_) => None,
    }
}

/// What to type instead, for options that iperf3 has and longhaul has elsewhere.
pub(crate) fn hint(error: &clap::Error) -> Option<&'static str> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    let said = match argument.as_str() {
        "-c" | "--client" => "iperf3's -c HOST is `longhaul test HOST` here",
        "-s" | "--server" => "iperf3's -s is `longhaul serve` here",
        "-S" | "--tos" => "there is no -S (--tos) here: give the code point with --dscp, such as --dscp af41",
        "-k" | "--blockcount" => "there is no -k (--blockcount) here: give the amount of data with -n, such as -n 10GB",
        "-N" | "--no-delay" => {
            "there is no -N (--no-delay) here: bulk blocks are always sent without delay (TCP_NODELAY)"
        }
        "-D" | "--daemon" => {
            "there is no -D (--daemon) here: run `longhaul serve` as a service; packaging/ has a systemd unit"
        }
        "-1" => "there is no -1 here: serve one test with --one-off",
        _ => return None,
    };
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arranged_line(line: &str) -> String {
        let all = arranged(line.split(' ').map(OsString::from));
        all.iter().map(|a| a.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_rate_behind_u_belongs_to_it_and_a_host_does_not() {
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
            // Wrong, and the words about it are those of a rate.
            ("longhaul test -u 10 far", "longhaul test --udp=10 far"),
            ("longhaul test -u 10MB/s far", "longhaul test --udp=10MB/s far"),
            // Nothing of this is about other commands, or what stands behind --.
            ("longhaul lab path -- longhaul test -u 10M far", "longhaul lab path -- longhaul test -u 10M far"),
            ("longhaul test -- -u 10M", "longhaul test -- -u 10M"),
            ("longhaul", "longhaul"),
        ] {
            assert_eq!(arranged_line(typed), read, "{typed}");
        }
    }
}
