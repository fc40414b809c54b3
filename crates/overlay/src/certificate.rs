//! Certificates: texts signed by the certificate authority of the overlay, by which a member is admitted by peers that
//! do not have it in their settings.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::identity::{Identity, PublicKey};
use crate::settings::{MemberSettings, check_name};

/// Maximum length of a certificate, which is sent in one message.
const TEXT_BYTES_MAX: usize = wire::overlay::Message::CERTIFICATE_DATA;

/// Content of a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// Public key of the member.
    pub key: String,
    /// Name of the member.
    pub name: String,
    /// Subnets of the member: sources of its packets, and destinations that are routed to it.
    pub subnets: Vec<IpNet>,
    /// End of the validity, in seconds since 1970 UTC.
    pub until_utc_s: u64,
}

impl Certificate {
    /// Signs the certificate. The text is the signature in base64, a blank, and JSON.
    ///
    /// # Errors
    /// Fails when the text is too long for a message, or the name is invalid.
    pub fn sign(&self, authority: &Identity) -> Result<String, String> {
        check_name(&self.name)?;
        let json = serde_json::to_string(self).map_err(|e| e.to_string())?;
        let text = format!("{} {json}", BASE64.encode(authority.sign(json.as_bytes())));
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!(
                "the certificate has {} bytes; the maximum is {TEXT_BYTES_MAX}; certify fewer subnets",
                text.len()
            ));
        }
        Ok(text)
    }

    /// Decodes and verifies a certificate. `now_utc_s`: seconds since 1970 UTC.
    ///
    /// # Errors
    /// Fails when the text is malformed, the signature or the name is invalid, or the certificate has expired.
    pub fn verify(text: &str, authority: &PublicKey, now_utc_s: u64) -> Result<Self, String> {
        let malformed =
            || "the text is not a certificate; it must be the output of `longhaul overlay ca sign`".to_owned();
        let (signature, json) = text.trim().split_once(' ').ok_or_else(malformed)?;
        let signature = BASE64.decode(signature).ok().and_then(|s| s.try_into().ok()).ok_or_else(malformed)?;
        if !authority.verifies(json.as_bytes(), &signature) {
            return Err("the signature is not that of the certificate authority (`ca_public_key`)".to_owned());
        }
        let certificate: Self = serde_json::from_str(json).map_err(|e| e.to_string())?;
        if certificate.until_utc_s <= now_utc_s {
            return Err(format!("the certificate expired at {} s since 1970 UTC", certificate.until_utc_s));
        }
        check_name(&certificate.name)?;
        Ok(certificate)
    }

    /// The member in the form of the settings. `None` when its key is invalid.
    pub(crate) fn member(&self) -> Option<MemberSettings> {
        let (key, subnets) = (self.key.parse().ok()?, self.subnets.clone());
        Some(MemberSettings { name: self.name.clone(), key, endpoint: None, subnets, direct: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(subnets: usize) -> Certificate {
        Certificate {
            key: Identity::from_seed(&[3; 32]).public().to_string(),
            name: "north".to_owned(),
            subnets: (0..subnets).map(|i| format!("10.77.{i}.0/24").parse().unwrap()).collect(),
            until_utc_s: 2000,
        }
    }

    #[test]
    fn a_certificate_is_valid_with_a_signature_of_the_authority_until_it_expires() {
        let (authority, other) = (Identity::from_seed(&[1; 32]), Identity::from_seed(&[2; 32]));
        let text = certificate(1).sign(&authority).unwrap();
        assert_eq!(Certificate::verify(&text, &authority.public(), 1999), Ok(certificate(1)));
        assert_eq!(certificate(1).member().unwrap().key, Identity::from_seed(&[3; 32]).public());
        let refused = |text: &str, key: &Identity, now| Certificate::verify(text, &key.public(), now).unwrap_err();
        assert!(refused(&text, &other, 0).contains("not that of the certificate authority"));
        assert!(refused(&text, &authority, 2000).contains("expired at 2000 s"));
        assert!(
            refused(&text.replace("10.77.0.0", "10.78.0.0"), &authority, 0)
                .contains("not that of the certificate authority")
        );
        for malformed in ["", "x", "x y", "x {}"] {
            assert!(refused(malformed, &authority, 0).contains("not a certificate"), "{malformed}");
        }
    }

    #[test]
    fn an_invalid_name_is_rejected() {
        let authority = Identity::from_seed(&[1; 32]);
        let odd = Certificate { name: "a\nb".to_owned(), ..certificate(1) };
        assert!(odd.sign(&authority).unwrap_err().contains(r#"`name` = "a\nb""#));
        // A certificate of an authority that does not check the name.
        let json = serde_json::to_string(&odd).unwrap();
        let text = format!("{} {json}", BASE64.encode(authority.sign(json.as_bytes())));
        let refused = Certificate::verify(&text, &authority.public(), 0).unwrap_err();
        assert!(refused.contains(r#"`name` = "a\nb""#), "{refused}");
    }

    #[test]
    fn a_certificate_that_exceeds_a_message_is_rejected() {
        let authority = Identity::from_seed(&[1; 32]);
        assert!(certificate(40).sign(&authority).unwrap().len() <= TEXT_BYTES_MAX);
        assert!(certificate(100).sign(&authority).unwrap_err().contains("fewer subnets"));
    }
}
