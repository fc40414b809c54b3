//! What an authority has signed: a list beside its key. Members are told apart by numbers of 32 bits, so that keys can be sought that have the number of another member;
//! the authority is who sees both.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::OverlayError;
use crate::certificate::Certificate;
use crate::identity::PublicKey;

/// Longest list that is read: a hundred thousand certificates.
const LONGEST: u64 = 64 << 20;

/// The list of the authority whose key is in this file.
fn list_of(key: &Path) -> PathBuf {
    let mut name = key.as_os_str().to_owned();
    name.push(".signed");
    name.into()
}

impl Certificate {
    /// Adds this one to what the authority whose key is in the file `authority` has signed: lines of JSON in the file of that name with `.signed` behind it, for its owner
    /// only. To be done before the certificate is handed out.
    ///
    /// # Errors
    /// Another key with the same member number was certified, says whose; the list cannot be read or written, or is none. Nothing has changed then.
    pub fn note_signed(&self, authority: &Path) -> Result<(), OverlayError> {
        let list = list_of(authority);
        let e = |source| OverlayError::SignedList { path: list.clone(), source };
        // One after the other: two that look at the same time would not see each other.
        let lock = File::open(authority).map_err(e)?;
        lock.lock().map_err(e)?;
        let before = match kernel::read_private(&list, LONGEST) {
            Ok(text) => text,
            Err(none) if none.kind() == ErrorKind::NotFound => String::new(),
            Err(other) => return Err(e(other)),
        };
        let key: PublicKey = self.key.parse()?;
        for (line, text) in (1..).zip(before.lines()) {
            let odd = || OverlayError::SignedListContents { path: list.clone(), line };
            let signed: Self = serde_json::from_str(text).map_err(|_| odd())?;
            let other: PublicKey = signed.key.parse().map_err(|_| odd())?;
            if other != key && other.member() == key.member() {
                return Err(OverlayError::NumberTaken {
                    number: key.member(),
                    key: signed.key,
                    name: signed.name,
                    path: list,
                });
            }
        }
        let line = serde_json::to_string(self).map_err(|wrong| e(wrong.into()))?;
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

    /// Two keys of the number d0175a60: those of the seeds 34,433 and 170,398, big-endian in 32 bytes.
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
        // The same key again is a renewal; another number is somebody else.
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
    fn a_list_that_is_none_is_left_as_it_is_and_nothing_signed() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("net.key");
        Identity::from_seed(&[1; 32]).write(&file).unwrap();
        std::fs::write(list_of(&file), "no list\n").unwrap();
        let key = Identity::from_seed(&[3; 32]).public().to_string();
        let refused = certificate(&key, "north").note_signed(&file).unwrap_err().to_string();
        assert!(refused.contains("line 1"), "{refused}");
        assert_eq!(std::fs::read_to_string(list_of(&file)).unwrap(), "no list\n");
        // Nor is a link followed to somewhere else.
        std::fs::remove_file(list_of(&file)).unwrap();
        std::os::unix::fs::symlink(directory.path().join("elsewhere"), list_of(&file)).unwrap();
        assert!(certificate(&key, "north").note_signed(&file).is_err());
        assert!(!directory.path().join("elsewhere").exists());
    }
}
