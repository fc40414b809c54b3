//! Bodies of fuzz targets. The crate `fuzzing` replays the committed corpus through them. The crate `wire` has those of
//! the wire formats.

mod decapsulator;

use std::path::Path;

use crate::certificate::Certificate;
use crate::http;
use crate::identity::Identity;
use crate::settings::Settings;
use crate::status::Question;

pub use decapsulator::decapsulator;

/// Fuzz target: a certificate from an untrusted source.
///
/// # Panics
/// An invariant of this crate is violated.
pub fn certificate(data: &[u8]) {
    let authority = Identity::from_seed(&[1; 32]);
    if let Ok(text) = std::str::from_utf8(data) {
        assert!(Certificate::verify(text, &authority.public(), 0).is_err(), "only the authority can sign");
        // A certificate that the authority signs is read back unchanged.
        if let Ok(certificate) = serde_json::from_str::<Certificate>(text)
            && let Ok(signed) = certificate.sign(&authority)
            && certificate.until_utc_s > 0
        {
            assert_eq!(Certificate::verify(&signed, &authority.public(), 0), Ok(certificate));
        }
    }
}

/// Fuzz target: a settings file, which is accepted, or rejected with a reason.
///
/// # Panics
/// An invariant of this crate is violated.
pub fn settings(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Settings::parse(Path::new("node.toml"), text, Identity::from_seed(&[1; 32])) {
        Ok(settings) => assert!(!settings.serves().is_empty() && settings.queues() > 0),
        Err(reason) => assert!(!reason.trim().is_empty()),
    }
}

/// Fuzz target: a request on the control socket, which is written back with the same meaning.
///
/// # Panics
/// An invariant of this crate is violated.
pub fn control_request(data: &[u8]) {
    let Ok(question) = serde_json::from_slice::<Question>(data) else { return };
    let written = serde_json::to_string(&question).unwrap_or_default();
    let again = serde_json::from_str::<Question>(&written).map(|q| format!("{q:?}"));
    assert_eq!(again.ok(), Some(format!("{question:?}")));
}

/// Fuzz target: a `Host` header in the first line, and in the rest a status with names that peers chose. Each line of
/// the metrics must be a comment or a sample with a number. The counters are removed, as their names are the member's
/// own.
///
/// # Panics
/// An invariant of this crate is violated.
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
