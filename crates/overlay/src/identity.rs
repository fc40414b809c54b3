use std::fmt;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::str::FromStr;

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use route::Member;
use sha2::{Digest, Sha256};

use crate::OverlayError;

/// Maximum size of a key file: a key takes 45 bytes.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// Who a member is: its public key (Ed25519). It signs what the member says about links, and, in its Montgomery form (RFC 7748), it is the
/// static key of the handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// The number by which frames name the member: the first four bytes of the key's SHA-256. Two members of one overlay must not have the
    /// same; of 1000 members, two do with a probability of 10^-4, and the settings are refused then.
    pub fn member(&self) -> Member {
        let hash = Sha256::digest(self.0.as_bytes());
        Member(u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]).max(1))
    }

    /// Its key for Diffie-Hellman.
    pub(crate) fn exchange(&self) -> [u8; 32] {
        self.0.to_montgomery().to_bytes()
    }

    /// Whether `signature` is this member's on `message`.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        self.0.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64.encode(self.0.as_bytes()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = OverlayError;

    fn from_str(text: &str) -> Result<Self, OverlayError> {
        let wrong = || OverlayError::Key(text.chars().take(60).collect());
        let bytes: [u8; 32] = BASE64.decode(text.trim()).ok().and_then(|b| b.try_into().ok()).ok_or_else(wrong)?;
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| wrong())?;
        if key.is_weak() { Err(wrong()) } else { Ok(Self(key)) }
    }
}

/// A member's secret.
#[derive(Clone)]
pub struct Identity(SigningKey);

impl Identity {
    /// A new one.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn generate() -> Result<Self, OverlayError> {
        let mut seed = [0; 32];
        rand::fill(&mut seed).map_err(|_| OverlayError::Random)?;
        Ok(Self::from_seed(&seed))
    }

    /// From 32 random bytes.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// Reads the file that [`Identity::write`] wrote.
    ///
    /// # Errors
    /// It cannot be read, others may read it, or it holds no key.
    pub fn read(path: &Path) -> Result<Self, OverlayError> {
        let e = |source| OverlayError::KeyFile { path: path.to_owned(), source };
        if kernel::is_open_to_others(path).map_err(e)? {
            return Err(OverlayError::KeyIsOpen(path.to_owned()));
        }
        let text = kernel::read_regular(path, KEY_FILE_BYTES_MAX).map_err(e)?;
        let seed = BASE64.decode(text.trim()).ok().and_then(|b| <[u8; 32]>::try_from(b).ok());
        seed.map(|s| Self::from_seed(&s)).ok_or_else(|| OverlayError::KeyFileContents(path.to_owned()))
    }

    /// Writes it to a new file that only its owner may read.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), OverlayError> {
        let e = |source| OverlayError::KeyFile { path: path.to_owned(), source };
        let mut file = kernel::create_private(path).map_err(e)?;
        let written = writeln!(file, "{}", BASE64.encode(self.0.to_bytes())).and_then(|()| file.sync_all());
        // An incomplete file is removed, so that the command can be repeated.
        written.inspect_err(|_| drop(fs::remove_file(path))).map_err(e)
    }

    /// Its public key.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Its secret for Diffie-Hellman.
    pub(crate) fn exchange(&self) -> [u8; 32] {
        self.0.to_scalar_bytes()
    }

    /// Its signature on `message`.
    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.public())
    }
}
