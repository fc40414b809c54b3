//! Secret random numbers: cookie secrets, nonces and ephemeral keys of handshakes.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};

/// A source of secret random numbers. The driver seeds it from the operating system; a simulation seeds it with a
/// number, so that a run can be repeated.
///
/// Each call replaces the key, so that a later look at the memory reveals no earlier output (fast key erasure:
/// Bernstein, "Fast-key-erasure random-number generators", 2017).
#[derive(Clone)]
pub(crate) struct Secrets {
    key: [u8; 32],
}

impl Secrets {
    /// `seed`: 32 secret random bytes.
    pub(crate) const fn new(seed: [u8; 32]) -> Self {
        Self { key: seed }
    }

    /// Fills `out` with the next numbers.
    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        let mut stream = ChaCha20Rng::from_seed(self.key);
        stream.fill_bytes(&mut self.key);
        stream.fill_bytes(out);
    }

    /// The next 32 bytes: a seed or a key.
    pub(crate) fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.fill(&mut bytes);
        bytes
    }

    /// A secret number.
    pub(crate) fn number(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// An independent source.
    pub(crate) fn fork(&mut self) -> Self {
        Self::new(self.bytes())
    }
}

/// The primitives of a Noise handshake, with ephemeral keys from these secrets.
pub(crate) struct Resolver {
    secrets: Secrets,
}

impl Resolver {
    /// `secrets`: for one handshake only, since each call of `resolve_rng` starts at the same place.
    pub(crate) const fn new(secrets: Secrets) -> Self {
        Self { secrets }
    }
}

impl Random for Secrets {
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), snow::Error> {
        self.fill(out);
        Ok(())
    }
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(self.secrets.clone()))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_numbers_and_no_number_comes_twice() {
        let [mut a, mut b] = [Secrets::new([7; 32]), Secrets::new([7; 32])];
        let drawn: Vec<[u8; 32]> = (0..100).map(|_| a.bytes()).collect();
        assert!(drawn.iter().all(|bytes| *bytes == b.bytes()));
        let different: std::collections::BTreeSet<_> = drawn.iter().collect();
        assert_eq!(different.len(), 100);
        assert_ne!(a.fork().bytes(), a.bytes());
    }
}
