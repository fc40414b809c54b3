//! A member's own certificate, and who makes them.

use std::collections::BTreeMap;
use std::path::Path;

use ipnet::IpNet;
use route::Member;

use super::MemberSettings;
use super::files::FILE_BYTES_MAX;
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
    let Some(by) = &authority else { return Err("`certificate` needs `ca_public_key`, whose it is".to_owned()) };
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
    let read = kernel::read_regular(file, FILE_BYTES_MAX);
    let text = read.map_err(|e| format!("`certificate`: {}: {e}", file.display()))?;
    Ok(text.trim().to_owned())
}

/// Keys that are refused, each once: neither this member's nor that of one that the file lists, as both cannot be meant.
pub(super) fn refused(
    keys: &[String],
    own: &PublicKey,
    members: &BTreeMap<Member, MemberSettings>,
) -> Result<Vec<PublicKey>, String> {
    let mut refused = Vec::new();
    for key in keys {
        let key: PublicKey = key.parse().map_err(|e: OverlayError| format!("`refuse`: {e}"))?;
        if key == *own {
            return Err(format!("`refuse` has this member's own key {key}; take it out"));
        }
        if let Some(listed) = members.values().find(|m| m.key == key) {
            return Err(format!("`refuse` has the key of the member {}; take its lines out, or the key", listed.name));
        }
        if !refused.contains(&key) {
            refused.push(key);
        }
    }
    Ok(refused)
}
