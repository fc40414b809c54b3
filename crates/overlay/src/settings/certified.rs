//! A member's own certificate, and who makes them.

use std::fs;
use std::path::Path;

use ipnet::IpNet;

use crate::OverlayError;
use crate::certificate::Certificate;
use crate::identity::{Identity, PublicKey};

/// Whose certificates make members; and until when this member's own, which must be one of them and be for what it serves, holds.
pub(super) fn authority(
    key: Option<String>,
    certificate: Option<&str>,
    (identity, serves): (&Identity, &[IpNet]),
) -> Result<(Option<PublicKey>, Option<u64>), String> {
    let authority: Option<PublicKey> = key.map(|k| k.parse().map_err(|e: OverlayError| e.to_string())).transpose()?;
    let Some(text) = certificate else { return Ok((authority, None)) };
    let Some(by) = &authority else { return Err("`certificate` needs `authority`, whose it is".to_owned()) };
    // Whether its time is over is looked at by those to whom it is shown.
    let told = Certificate::verify(text, by, 0).map_err(|e| format!("`certificate`: {e}"))?;
    if told.key != identity.public().to_string() {
        return Err(format!("`certificate` is that of {}, with another key", told.name));
    }
    if let Some(other) = serves.iter().find(|s| !told.subnets.iter().any(|t| t.contains(*s))) {
        return Err(format!("`certificate` does not give this member {other}: others would send it nothing for that"));
    }
    Ok((authority, Some(told.until_utc_s)))
}

/// The text of a certificate's file.
pub(super) fn certificate(file: &Path) -> Result<String, String> {
    let text = fs::read_to_string(file).map_err(|e| format!("`certificate`: {}: {e}", file.display()))?;
    Ok(text.trim().to_owned())
}
