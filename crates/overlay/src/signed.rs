//! List of the certificates that a certificate authority has signed, in a file beside its key. Member numbers have 32
//! bits, so that an attacker can search for a key with the number of another member. The authority sees both keys and
//! rejects the second.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::OverlayError;
use crate::certificate::Certificate;
use crate::identity::PublicKey;

/// Maximum size of the list: a hundred thousand certificates.
const LIST_BYTES_MAX: u64 = 64 << 20;

/// Path of the list of the authority with this key file.
fn list_of(key: &Path) -> PathBuf {
    let mut name = key.as_os_str().to_owned();
    name.push(".signed");
    name.into()
}

impl Certificate {
    /// Adds the certificate to the list of the authority with the key file `authority`, before the certificate is used.
    /// The list is a file of JSON lines with the name of the key file and the suffix `.signed`, accessible to its owner
    /// only.
    ///
    /// # Errors
    /// Fails without a change when the list has another key with the same member number, is malformed, or cannot be
    /// read or written.
    pub fn note_signed(&self, authority: &Path) -> Result<(), OverlayError> {
        let list = list_of(authority);
        let e = |source| OverlayError::SignedList { path: list.clone(), source };
        // The lock excludes a second process, whose certificate this one would not see.
        let lock = File::open(authority).map_err(e)?;
        lock.lock().map_err(e)?;
        let before = match kernel::read_private(&list, LIST_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(e(error)),
        };
        let key: PublicKey = self.key.parse()?;
        for (line, text) in (1..).zip(before.lines()) {
            let malformed = || OverlayError::SignedListContents { path: list.clone(), line };
            let signed: Self = serde_json::from_str(text).map_err(|_| malformed())?;
            let other: PublicKey = signed.key.parse().map_err(|_| malformed())?;
            if other != key && other.member() == key.member() {
                return Err(OverlayError::NumberTaken {
                    number: key.member(),
                    key: signed.key,
                    name: signed.name,
                    path: list,
                });
            }
        }
        let line = serde_json::to_string(self).map_err(|error| e(error.into()))?;
        kernel::replace_private(&list, format!("{before}{line}\n").as_bytes()).map_err(e)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::identity::Identity;

    fn certificate(key: &str, name: &str) -> Certificate {
        Certificate { key: key.to_owned(), name: name.to_owned(), subnets: Vec::new(), until_utc_s: 2000 }
    }

    /// Two keys with the number d0175a60: those of the seeds 34,433 and 170,398, big-endian in 32 bytes.
    const KEYS: [&str; 2] =
        ["XPqTsv5VZx/JaL5POeLE3XYoRb34zs7HerDtWgmms5o=", "NZgYv908sqNS+CzS+qCgjzaXepEadp4zYbgX0ShCj5w="];

    #[test]
    fn a_number_is_certified_for_one_key_only() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("net.key");
        Identity::from_seed(&[1; 32]).write(&file).unwrap();
        let [first, second] = KEYS;
        let number = |key: &str| key.parse::<PublicKey>().unwrap().member();
        assert_eq!(number(first), number(second));
        certificate(first, "north").note_signed(&file).unwrap();
        // The same key again is a renewal; another number is another member.
        certificate(first, "north").note_signed(&file).unwrap();
        certificate(&Identity::from_seed(&[3; 32]).public().to_string(), "west").note_signed(&file).unwrap();
        let refused = certificate(second, "thief").note_signed(&file).unwrap_err().to_string();
        assert!(refused.contains("north") && refused.contains(first), "{refused}");
        let list = list_of(&file);
        let text = std::fs::read_to_string(&list).unwrap();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert_eq!(std::fs::metadata(&list).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_malformed_list_is_left_unchanged_and_rejects_the_certificate() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("net.key");
        Identity::from_seed(&[1; 32]).write(&file).unwrap();
        std::fs::write(list_of(&file), "not a list\n").unwrap();
        let key = Identity::from_seed(&[3; 32]).public().to_string();
        let refused = certificate(&key, "north").note_signed(&file).unwrap_err().to_string();
        assert!(refused.contains("line 1"), "{refused}");
        assert_eq!(std::fs::read_to_string(list_of(&file)).unwrap(), "not a list\n");
        // A symbolic link is not followed.
        std::fs::remove_file(list_of(&file)).unwrap();
        std::os::unix::fs::symlink(directory.path().join("elsewhere"), list_of(&file)).unwrap();
        assert!(certificate(&key, "north").note_signed(&file).is_err());
        assert!(!directory.path().join("elsewhere").exists());
    }
}
