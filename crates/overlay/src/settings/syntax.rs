//! Errors of TOML, without the text of the file: a line of it may have the network secret, and errors go to logs.

use serde::Deserialize as _;
use serde::de::{DeserializeOwned, Deserializer, Error as _};

/// Keys of settings and peer entries, which an error may name.
const KEYS: [&str; 38] = [
    "key",
    "network_secret",
    "ca_public_key",
    "certificate",
    "refuse",
    "addresses",
    "subnets",
    "listen",
    "device",
    "mtu",
    "queues",
    "relay",
    "relay_rate",
    "congestion_control",
    "policy",
    "single_path",
    "max_paths",
    "switch_margin",
    "model",
    "alpha",
    "beta",
    "hold_down",
    "loss_interval",
    "loss_probes",
    "capacity",
    "probe_share",
    "gossip_rate",
    "control_socket",
    "http_listen",
    "http_names",
    "event_log",
    "decision_log",
    "decision_log_size",
    "offload",
    "member",
    "name",
    "endpoint",
    "direct",
];

/// Reads TOML. The error has the line, its key if that is one of the settings, and the reason.
pub(super) fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|e| {
        let Some(span) = e.span() else { return e.message().to_owned() };
        let before = text.get(..span.start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let key = text.lines().nth(line - 1).and_then(key_of).map(|key| format!(", `{key}`")).unwrap_or_default();
        format!("line {line}{key}: {}", e.message().trim_end().replace('\n', ", "))
    })
}

/// Known key at the start of a line.
fn key_of(line: &str) -> Option<&'static str> {
    let (key, _) = line.split_once('=')?;
    KEYS.into_iter().find(|known| *known == key.trim())
}

/// Reads the network secret; the error of another type would quote its value.
pub(super) fn secret<'de, D: Deserializer<'de>>(source: D) -> Result<String, D::Error> {
    let value = toml::Value::deserialize(source)?;
    let invalid = || D::Error::custom("`network_secret` is not a string; write it in quotes");
    value.as_str().map(str::to_owned).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::super::File;
    use super::*;

    #[test]
    fn no_error_quotes_the_secret() {
        let hidden = "c0ffee1234567890";
        for text in [
            format!("network_secret = [\"{hidden}\"]"),
            format!("network_secret = \"{hidden}"),
            format!("network_secret = {hidden}"),
            format!("network_secret = \"{hidden}\" x"),
            "network_secret = 1234567890123456".replace("1234567890123456", "7777777777777777"),
            "network_secret = 7777777.777777777".to_owned(),
            format!("network_secret = \"\"\"\n{hidden}=\n"),
            format!("network_secret = {{ a = \"{hidden}\" }}"),
            format!("key = \"a\"\nnetwork_secret = \"{hidden}\"\nnetwork_secret = \"{hidden}\"\n"),
        ] {
            let refused = parsed::<File>(&text).map(drop).unwrap_err();
            assert!(!refused.contains(hidden) && !refused.contains("7777777"), "{text}: {refused}");
            assert!(refused.contains("line ") && !refused.contains('\n'), "{text}: {refused}");
        }
    }

    #[test]
    fn an_error_names_line_key_and_reason() {
        let refused = parsed::<File>("key = \"west.key\"\n\nmtu = \"large\"\n").map(drop).unwrap_err();
        assert!(refused.starts_with("line 3, `mtu`: invalid type"), "{refused}");
        let refused = parsed::<File>("no_such = 1\n").map(drop).unwrap_err();
        assert!(refused.starts_with("line 1: unknown field `no_such`"), "{refused}");
        // The parser's list of the keys that exist.
        let known = refused.split_once("expected one of ").unwrap().1;
        let known: Vec<&str> = known.split(", ").map(|key| key.trim_matches('`')).collect();
        let former = ["eta", "t_ch", "t_loss", "n_loss"];
        for key in known.into_iter().filter(|key| !former.contains(key)) {
            assert!(KEYS.contains(&key), "{key}");
        }
    }
}
