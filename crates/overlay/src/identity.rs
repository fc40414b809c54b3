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

/// Public key of a member (Ed25519), which identifies it. It verifies the member's gossip records; its Montgomery form
/// (RFC 7748) is the static key of the handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Member number, by which frames name the member: the first four bytes of the key's SHA-256, at least 1. It must
    /// be unique in an overlay. Two of 1000 members share a number with a probability of 10^-4; the settings are
    /// rejected then.
    pub fn member(&self) -> Member {
        let hash = Sha256::digest(self.0.as_bytes());
        Member(u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]).max(1))
    }

    /// Key for Diffie-Hellman: the Montgomery form.
    pub(crate) fn exchange(&self) -> [u8; 32] {
        self.0.to_montgomery().to_bytes()
    }

    /// Whether `signature` is a valid signature of this member on `message`.
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
        let invalid = || OverlayError::Key(text.chars().take(60).collect());
        let bytes: [u8; 32] = BASE64.decode(text.trim()).ok().and_then(|b| b.try_into().ok()).ok_or_else(invalid)?;
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| invalid())?;
        if key.is_weak() { Err(invalid()) } else { Ok(Self(key)) }
    }
}

/// Secret key of a member.
#[derive(Clone)]
pub struct Identity(SigningKey);

impl Identity {
    /// Generates a key.
    ///
    /// # Errors
    /// Fails when the operating system provides no random bytes.
    pub fn generate() -> Result<Self, OverlayError> {
        let mut seed = [0; 32];
        rand::fill(&mut seed).map_err(|_| OverlayError::Random)?;
        Ok(Self::from_seed(&seed))
    }

    /// Derives the key from 32 random bytes.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// Reads a key file of [`Identity::write`].
    ///
    /// # Errors
    /// Fails when the file cannot be read, is accessible to other users, or has no valid key.
    pub fn read(path: &Path) -> Result<Self, OverlayError> {
        let e = |source| OverlayError::KeyFile { path: path.to_owned(), source };
        if kernel::is_open_to_others(path).map_err(e)? {
            return Err(OverlayError::KeyIsOpen(path.to_owned()));
        }
        let text = kernel::read_regular(path, KEY_FILE_BYTES_MAX).map_err(e)?;
        let seed = BASE64.decode(text.trim()).ok().and_then(|b| <[u8; 32]>::try_from(b).ok());
        seed.map(|s| Self::from_seed(&s)).ok_or_else(|| OverlayError::KeyFileContents(path.to_owned()))
    }

    /// Writes the key to a new file that only its owner can read.
    ///
    /// # Errors
    /// Fails when the file exists or cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), OverlayError> {
        let e = |source| OverlayError::KeyFile { path: path.to_owned(), source };
        let mut file = kernel::create_private(path).map_err(e)?;
        let written = writeln!(file, "{}", BASE64.encode(self.0.to_bytes())).and_then(|()| file.sync_all());
        // An incomplete file is removed, so that the command can be repeated.
        written.inspect_err(|_| drop(fs::remove_file(path))).map_err(e)
    }

    /// Public key.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Secret scalar for Diffie-Hellman.
    pub(crate) fn exchange(&self) -> [u8; 32] {
        self.0.to_scalar_bytes()
    }

    /// Signs `message`.
    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.public())
    }
}
