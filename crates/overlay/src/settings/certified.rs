//! Settings about certificates: the certificate authority, the own certificate, and refused keys.

use std::collections::BTreeMap;
use std::path::Path;

use ipnet::IpNet;
use route::Member;

use super::MemberSettings;
use super::files::FILE_BYTES_MAX;
use crate::OverlayError;
use crate::certificate::Certificate;
use crate::identity::{Identity, PublicKey};

/// Public key of the certificate authority, and the end of the validity of the own certificate in seconds since 1970
/// UTC. The certificate must be valid for the own key and cover the subnets of this member.
pub(super) fn authority(
    key: Option<String>,
    certificate: Option<&str>,
    (identity, serves): (&Identity, &[IpNet]),
) -> Result<(Option<PublicKey>, Option<u64>), String> {
    let authority: Option<PublicKey> = key.map(|k| k.parse().map_err(|e: OverlayError| e.to_string())).transpose()?;
    let Some(text) = certificate else { return Ok((authority, None)) };
    let Some(ca) = &authority else {
        return Err("`certificate` needs `ca_public_key`, the key of its certificate authority".to_owned());
    };
    // Peers check the expiry; this member can start with an expired certificate.
    let certificate = Certificate::verify(text, ca, 0).map_err(|e| format!("`certificate`: {e}"))?;
    if certificate.key != identity.public().to_string() {
        return Err(format!(
            "`certificate` is that of {}, with another key; sign one for the key of this member",
            certificate.name
        ));
    }
    if let Some(other) = serves.iter().find(|s| !certificate.subnets.iter().any(|t| t.contains(*s))) {
        return Err(format!("`certificate` does not give this member {other}; sign one with all of its subnets"));
    }
    Ok((authority, Some(certificate.until_utc_s)))
}

/// Reads the text of a certificate file.
pub(super) fn certificate(file: &Path) -> Result<String, String> {
    let read = kernel::read_regular(file, FILE_BYTES_MAX);
    let text = read.map_err(|e| format!("`certificate`: {}: {e}", file.display()))?;
    Ok(text.trim().to_owned())
}

/// Refused keys without duplicates. The own key and those of listed members are rejected as contradictions.
pub(super) fn refused(
    keys: &[String],
    own: &PublicKey,
    members: &BTreeMap<Member, MemberSettings>,
) -> Result<Vec<PublicKey>, String> {
    let mut refused = Vec::new();
    for key in keys {
        let key: PublicKey = key.parse().map_err(|e: OverlayError| format!("`refuse`: {e}"))?;
        if key == *own {
            return Err(format!("`refuse` contains this member's own key {key}; remove it"));
        }
        if let Some(listed) = members.values().find(|m| m.key == key) {
            return Err(format!(
                "`refuse` contains the key of the member {}; remove the key or the entry of the member",
                listed.name
            ));
        }
        if !refused.contains(&key) {
            refused.push(key);
        }
    }
    Ok(refused)
}
