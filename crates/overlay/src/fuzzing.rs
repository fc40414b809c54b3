//! Bodies of fuzz targets: see the crate `fuzzing`, which replays the committed corpus through them. The formats of the network are in `wire`.

mod decapsulator;

use std::path::Path;

use crate::certificate::Certificate;
use crate::http;
use crate::identity::Identity;
use crate::settings::Settings;
use crate::status::Question;

pub use decapsulator::decapsulator;

/// A certificate, whoever made it. Panics where a promise of this crate is broken; that is its purpose.
pub fn certificate(data: &[u8]) {
    let authority = Identity::from_seed(&[1; 32]);
    if let Ok(text) = std::str::from_utf8(data) {
        assert!(Certificate::verify(text, &authority.public(), 0).is_err(), "nobody else can sign");
        // What the authority itself signs is read as it was written, or refused.
        if let Ok(told) = serde_json::from_str::<Certificate>(text)
            && let Ok(signed) = told.sign(&authority)
            && told.until_utc_s > 0
        {
            assert_eq!(Certificate::verify(&signed, &authority.public(), 0), Ok(told));
        }
    }
}

/// A settings file: refused with a reason, or taken.
pub fn settings(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Settings::parse(Path::new("node.toml"), text, Identity::from_seed(&[1; 32])) {
        Ok(settings) => assert!(!settings.serves().is_empty() && settings.queues() > 0),
        Err(reason) => assert!(!reason.trim().is_empty()),
    }
}

/// A line on the control socket: what is understood is written back with the same meaning.
pub fn control_request(data: &[u8]) {
    let Ok(question) = serde_json::from_slice::<Question>(data) else { return };
    let written = serde_json::to_string(&question).unwrap_or_default();
    let again = serde_json::from_str::<Question>(&written).map(|q| format!("{q:?}"));
    assert_eq!(again.ok(), Some(format!("{question:?}")));
}

/// A request's `Host` in the first line, and a status in the rest whose names peers chose: every line of the metrics is a comment or a sample with a number. The names
/// of counters are the node's own.
pub fn http(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (host, status) = text.split_once('\n').unwrap_or((text, ""));
    let host = host.trim();
    if http::is_of_this_host(host, &[]) {
        assert!(!host.contains('/'));
    }
    let Ok(mut status) = serde_json::from_str::<serde_json::Value>(status) else { return };
    if let Some(status) = status.as_object_mut() {
        status.remove("counters");
    }
    for line in http::metrics(&status).lines() {
        let is_sample = line.rsplit_once(' ').is_some_and(|(_, value)| value.parse::<f64>().is_ok());
        assert!(line.starts_with("# ") || line.starts_with("longhaul_overlay_") && is_sample, "{line}");
    }
}
