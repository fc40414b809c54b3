//! Who is a member, as the overlay's authority says: a signed text that a member shows to those who do not know it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::identity::{Identity, PublicKey};
use crate::settings::{MemberSettings, check_name};

/// Longest text of a certificate: it travels in one message.
const LONGEST: usize = wire::overlay::Message::CERTIFICATE_DATA;

/// What the authority says of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// Its public key.
    pub key: String,
    /// What people call it.
    pub name: String,
    /// Where its packets may come from, and what is sent to it.
    pub subnets: Vec<IpNet>,
    /// Until when this holds, seconds since 1970 UTC.
    pub until_utc_s: u64,
}

impl Certificate {
    /// The text that a member shows: signature in base64, a blank, JSON.
    ///
    /// # Errors
    /// It would be too long for a message, says by how much; or its name is none.
    pub fn sign(&self, authority: &Identity) -> Result<String, String> {
        check_name(&self.name)?;
        let json = serde_json::to_string(self).map_err(|e| e.to_string())?;
        let text = format!("{} {json}", BASE64.encode(authority.sign(json.as_bytes())));
        if text.len() > LONGEST {
            return Err(format!("a certificate of {} bytes; it may have {LONGEST}: fewer subnets", text.len()));
        }
        Ok(text)
    }

    /// Reads a text and checks it.
    ///
    /// # Errors
    /// It is none, the authority did not sign it, its time is over, or its name is none: says which.
    pub fn verify(text: &str, authority: &PublicKey, now_utc_s: u64) -> Result<Self, String> {
        let none = || "it is no certificate".to_owned();
        let (signature, json) = text.trim().split_once(' ').ok_or_else(none)?;
        let signature = BASE64.decode(signature).ok().and_then(|s| s.try_into().ok()).ok_or_else(none)?;
        if !authority.verifies(json.as_bytes(), &signature) {
            return Err("the authority did not sign it".to_owned());
        }
        let certificate: Self = serde_json::from_str(json).map_err(|e| e.to_string())?;
        if certificate.until_utc_s <= now_utc_s {
            return Err("its time is over".to_owned());
        }
        check_name(&certificate.name)?;
        Ok(certificate)
    }

    /// The member, as settings would tell of it. `None`: its key is none.
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
    fn only_what_the_authority_signed_holds_and_not_for_ever() {
        let (authority, other) = (Identity::from_seed(&[1; 32]), Identity::from_seed(&[2; 32]));
        let text = certificate(1).sign(&authority).unwrap();
        assert_eq!(Certificate::verify(&text, &authority.public(), 1999), Ok(certificate(1)));
        assert_eq!(certificate(1).member().unwrap().key, Identity::from_seed(&[3; 32]).public());
        let refused = |text: &str, key: &Identity, now| Certificate::verify(text, &key.public(), now).unwrap_err();
        assert!(refused(&text, &other, 0).contains("did not sign"));
        assert!(refused(&text, &authority, 2000).contains("over"));
        assert!(refused(&text.replace("10.77.0.0", "10.78.0.0"), &authority, 0).contains("did not sign"));
        for none in ["", "x", "x y", "x {}"] {
            assert!(refused(none, &authority, 0).contains("no certificate"), "{none}");
        }
    }

    #[test]
    fn a_name_that_is_no_word_is_nobodys() {
        let authority = Identity::from_seed(&[1; 32]);
        let odd = Certificate { name: "a\nb".to_owned(), ..certificate(1) };
        assert!(odd.sign(&authority).unwrap_err().contains(r#"`name` is "a\nb""#));
        // An authority that signs it all the same.
        let json = serde_json::to_string(&odd).unwrap();
        let text = format!("{} {json}", BASE64.encode(authority.sign(json.as_bytes())));
        let refused = Certificate::verify(&text, &authority.public(), 0).unwrap_err();
        assert!(refused.contains(r#"`name` is "a\nb""#), "{refused}");
    }

    #[test]
    fn a_certificate_fits_a_message_or_is_not_made() {
        let authority = Identity::from_seed(&[1; 32]);
        assert!(certificate(40).sign(&authority).unwrap().len() <= LONGEST);
        assert!(certificate(100).sign(&authority).unwrap_err().contains("fewer subnets"));
    }
}
