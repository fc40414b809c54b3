//! Stateless nonces of the UDP address validation: a function of the client's address and a server secret.

use std::net::{IpAddr, SocketAddr};

use hmac::Mac;

use crate::auth::Key;

/// A server's secret for the nonces of [`crate::UdpControl::Challenge`].
///
/// A nonce is bound to stream, address and port, so that a host cannot prove another port than its own (two hosts
/// behind one NAT). The server keeps no state for unproven clients (RFC 9000 §8.1.2 does the same in its Retry
/// tokens).
#[derive(Debug, Clone)]
pub struct AddressSecret(Key);

impl AddressSecret {
    /// Creates a secret from 32 random bytes; use fresh ones for each run of a server.
    pub fn new(random: &[u8; 32]) -> Self {
        Self(Key::from_bytes(random))
    }

    /// The nonce that a client at `address` must return for the stream of `token`.
    pub fn nonce(&self, token: [u8; 8], address: SocketAddr) -> [u8; 16] {
        let proof: [u8; 32] = self.mac(token, address).finalize().into_bytes().into();
        let (nonce, _) = proof.split_at(16);
        nonce.try_into().unwrap_or_default()
    }

    /// Whether `nonce` is the one for that stream and address; the comparison takes constant time.
    pub fn verify(&self, token: [u8; 8], address: SocketAddr, nonce: &[u8; 16]) -> bool {
        self.mac(token, address).verify_truncated_left(nonce).is_ok()
    }

    fn mac(&self, token: [u8; 8], address: SocketAddr) -> hmac::Hmac<sha2::Sha256> {
        let mut mac = self.0.mac();
        let ip = match address.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        mac.update(b"longhaul/1 udp address\0");
        mac.update(&token);
        mac.update(&ip.octets());
        mac.update(&address.port().to_be_bytes());
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_proves_only_its_stream_address_and_port() {
        let secret = AddressSecret::new(&[7; 32]);
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (token, home) = ([1; 8], at("192.0.2.1:4000"));
        let nonce = secret.nonce(token, home);
        assert!(secret.verify(token, home, &nonce));
        assert!(secret.verify(token, at("[::ffff:192.0.2.1]:4000"), &nonce), "the same address on a dual-stack socket");
        assert!(!secret.verify(token, at("192.0.2.1:4001"), &nonce));
        assert!(!secret.verify(token, at("192.0.2.2:4000"), &nonce));
        assert!(!secret.verify([2; 8], home, &nonce));
        assert!(!AddressSecret::new(&[8; 32]).verify(token, home, &nonce));
    }
}
