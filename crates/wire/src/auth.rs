//! Proofs that both ends hold the same pre-shared key: HMAC-SHA256 (RFC 2104, RFC 4231) over both nonces and the
//! subject.
//!
//! Each kind of proof has a distinct label, and a length precedes each field of variable length, so that no proof can
//! be replayed as another. The proofs authenticate the parties and the plan, not the bytes that follow. They keep
//! unauthorised clients from loading a server; they neither hide nor protect the test traffic. An eavesdropper can
//! test guesses of the key offline, so a key consists of random bytes and is not a passphrase.

use core::fmt;

use hmac::{Hmac, KeyInit, Mac};
use results::Direction;
use sha2::{Digest, Sha256};

/// An HMAC-SHA256.
pub type Proof = [u8; 32];

/// Shortest key in bytes: 128 bits.
pub const KEY_BYTES_MIN: usize = 16;

/// Longest key in bytes; a longer file is likely to be the wrong file.
pub const KEY_BYTES_MAX: usize = 4096;

/// Block size of SHA-256 in bytes, to which HMAC pads a key (RFC 2104 §2).
const HASH_BLOCK_BYTES: usize = 64;

/// A pre-shared key. Never printed.
#[derive(Clone)]
pub struct Key([u8; HASH_BLOCK_BYTES]);

/// A text that is not a valid key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Only white space.
    #[error("the key file is empty; create one with: head -c 32 /dev/urandom | base64")]
    Empty,
    /// Too short to resist guessing.
    #[error(
        "the key has {length} bytes; at least {KEY_BYTES_MIN} are needed; create one with: head -c 32 /dev/urandom | base64"
    )]
    TooShort {
        /// Bytes without surrounding white space.
        length: usize,
    },
    /// Too long for a key, so probably the wrong file.
    #[error("the key has {length} bytes; at most {KEY_BYTES_MAX} are allowed: check that this is the key file")]
    TooLong {
        /// Bytes without surrounding white space.
        length: usize,
    },
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// Reads the key from a file's text, without white space at both ends.
    ///
    /// # Errors
    /// The text is empty, shorter than [`KEY_BYTES_MIN`] or longer than [`KEY_BYTES_MAX`].
    pub fn from_file_text(text: &str) -> Result<Self, KeyError> {
        let key = text.trim();
        match key.len() {
            0 => Err(KeyError::Empty),
            length @ 1..KEY_BYTES_MIN => Err(KeyError::TooShort { length }),
            length if length > KEY_BYTES_MAX => Err(KeyError::TooLong { length }),
            _ => Ok(Self::from_bytes(key.as_bytes())),
        }
    }

    /// Pads or hashes a key to the block size of the hash (RFC 2104 §2), so that the MAC itself cannot fail.
    pub(crate) fn from_bytes(key: &[u8]) -> Self {
        let digest: [u8; 32];
        let key = if key.len() > HASH_BLOCK_BYTES {
            digest = Sha256::digest(key).into();
            &digest[..]
        } else {
            key
        };
        let mut block = [0; HASH_BLOCK_BYTES];
        block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
        Self(block)
    }

    pub(crate) fn mac(&self) -> Hmac<Sha256> {
        Hmac::<Sha256>::new(&self.0.into())
    }

    /// Starts a MAC over the label and both nonces; the nonces have a fixed length, and a NUL ends the label.
    fn session_mac(&self, label: &[u8], client_nonce: &[u8; 16], server_nonce: &[u8; 16]) -> Hmac<Sha256> {
        let mut mac = self.mac();
        mac.update(label);
        mac.update(&[0]);
        mac.update(client_nonce);
        mac.update(server_nonce);
        mac
    }

    fn server_mac(&self, client_nonce: &[u8; 16], server_nonce: &[u8; 16]) -> Hmac<Sha256> {
        self.session_mac(b"longhaul/1 server", client_nonce, server_nonce)
    }

    fn client_mac(&self, client_nonce: &[u8; 16], server_nonce: &[u8; 16], plan_json: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.session_mac(b"longhaul/1 client", client_nonce, server_nonce);
        mac.update(&(plan_json.len() as u64).to_be_bytes());
        mac.update(plan_json);
        mac
    }

    fn join_mac(&self, client_nonce: &[u8; 16], server_nonce: &[u8; 16], join: &JoinSubject) -> Hmac<Sha256> {
        let mut mac = self.session_mac(b"longhaul/1 join", client_nonce, server_nonce);
        mac.update(&join.session);
        mac.update(&join.stream.to_be_bytes());
        mac.update(&[match join.direction {
            Direction::Up => 0,
            Direction::Down => 1,
        }]);
        mac
    }
}

/// The subject of a data connection's proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct JoinSubject {
    session: [u8; 8],
    stream: u32,
    direction: Direction,
}

fn finish(mac: Hmac<Sha256>) -> Proof {
    mac.finalize().into_bytes().into()
}

/// Compares in constant time.
fn matches(mac: Hmac<Sha256>, proof: &Proof) -> bool {
    mac.verify_slice(proof).is_ok()
}

/// The server's proof that it holds the key, for [`crate::Message::Accept`].
pub fn server_proof(key: &Key, client_nonce: &[u8; 16], server_nonce: &[u8; 16]) -> Proof {
    finish(key.server_mac(client_nonce, server_nonce))
}

/// Whether `proof` is a valid proof of the server; compared in constant time.
pub fn verify_server(key: &Key, client_nonce: &[u8; 16], server_nonce: &[u8; 16], proof: &Proof) -> bool {
    matches(key.server_mac(client_nonce, server_nonce), proof)
}

/// The client's proof that it holds the key and requests this plan, for [`crate::Message::Request`].
///
/// `plan_json` is the result of [`crate::plan::canonical_json`], at both ends.
pub fn client_proof(key: &Key, client_nonce: &[u8; 16], server_nonce: &[u8; 16], plan_json: &[u8]) -> Proof {
    finish(key.client_mac(client_nonce, server_nonce, plan_json))
}

/// Whether `proof` is a valid proof of the client for this plan; compared in constant time.
pub fn verify_client(
    key: &Key,
    client_nonce: &[u8; 16],
    server_nonce: &[u8; 16],
    plan_json: &[u8],
    proof: &Proof,
) -> bool {
    matches(key.client_mac(client_nonce, server_nonce, plan_json), proof)
}

/// The client's proof that a data connection belongs to it, for [`crate::Message::Join`].
pub fn join_proof(
    key: &Key,
    client_nonce: &[u8; 16],
    server_nonce: &[u8; 16],
    session: [u8; 8],
    stream: u32,
    direction: Direction,
) -> Proof {
    finish(key.join_mac(client_nonce, server_nonce, &JoinSubject { session, stream, direction }))
}

/// Whether `proof` belongs to this data connection; compared in constant time.
pub fn verify_join(
    key: &Key,
    client_nonce: &[u8; 16],
    server_nonce: &[u8; 16],
    session: [u8; 8],
    stream: u32,
    direction: Direction,
    proof: &Proof,
) -> bool {
    matches(key.join_mac(client_nonce, server_nonce, &JoinSubject { session, stream, direction }), proof)
}

#[cfg(test)]
mod tests;
