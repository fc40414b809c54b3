//! Handshake by Noise_IKpsk2 (revision 34). The initiator knows the responder's static key and sends its own encrypted;
//! the network secret is the pre-shared key. The result is a key for each direction and a cipher.

use snow::{Builder, HandshakeState};
use wire::overlay::{Initiation, Response};

use crate::identity::{Identity, PublicKey};
use crate::secrets::{Resolver, Secrets};
use crate::session::{Cipher, Keys};

const PATTERN: &str = "Noise_IKpsk2_25519_ChaChaPoly_SHA256";
const PROLOGUE: &[u8] = b"longhaul overlay 1";
/// Length of the payload of both messages: version, cipher, and six bytes of the initiation time, zero in the response.
const PAYLOAD_BYTES: usize = 8;
const VERSION: u8 = 1;
/// Bits of the initiation time in a payload.
const TIME_MASK: u64 = (1 << 48) - 1;

/// A handshake that this member initiated and that has no response yet.
pub(crate) struct PendingInitiation {
    state: HandshakeState,
    offered: Cipher,
}

/// A decrypted initiation that has no response yet.
pub(crate) struct ReceivedInitiation {
    state: HandshakeState,
    /// Static key of the initiator, in Montgomery form.
    pub(crate) exchange: [u8; 32],
    /// Initiation time on the initiator's clock: 48 bits in units of 1/65536 s since 1970. It only orders the
    /// initiations of one initiator.
    pub(crate) initiated_at: u64,
    offered: Cipher,
    remote: u32,
}

/// The identity of a member, its network secret, and the random numbers of one handshake.
pub(crate) struct LocalKeys<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) secret: &'a [u8; 32],
    pub(crate) secrets: Secrets,
}

impl LocalKeys<'_> {
    fn builder<'b>(self) -> Option<Builder<'b>> {
        let resolver = Box::new(Resolver::new(self.secrets));
        Builder::with_resolver(PATTERN.parse().ok()?, resolver).prologue(PROLOGUE).ok()
    }
}

/// Creates the initiation of a handshake with the owner of `peer`. `local`: local identifier of the session;
/// `initiated_at`: see [`ReceivedInitiation::initiated_at`]; `offered`: the cipher that is fast on this host.
pub(crate) fn initiate(
    own: LocalKeys<'_>,
    peer: &PublicKey,
    local: u32,
    initiated_at: u64,
    offered: Cipher,
) -> Option<(PendingInitiation, Initiation)> {
    let (private, remote, secret) = (own.identity.exchange(), peer.exchange(), own.secret);
    let builder = own.builder()?;
    let builder = builder.local_private_key(&private).ok()?.remote_public_key(&remote).ok()?.psk(2, secret).ok()?;
    let mut state = builder.build_initiator().ok()?;
    let mut noise = [0; 104];
    let n = state.write_message(&payload(offered, initiated_at), &mut noise).ok()?;
    (n == noise.len()).then_some((PendingInitiation { state, offered }, Initiation { sender: local, noise }))
}

/// Decrypts an initiation, which costs two Diffie-Hellman operations. `None` when it is not for this key.
///
/// An initiator without the network secret passes this step: the secret enters with the second message, and no frame of
/// such an initiator is authentic.
pub(crate) fn consume_initiation(own: LocalKeys<'_>, initiation: &Initiation) -> Option<ReceivedInitiation> {
    let (private, secret) = (own.identity.exchange(), own.secret);
    let builder = own.builder()?;
    let mut state = builder.local_private_key(&private).ok()?.psk(2, secret).ok()?.build_responder().ok()?;
    let mut payload = [0; PAYLOAD_BYTES];
    let n = state.read_message(&initiation.noise, &mut payload).ok()?;
    let exchange = state.get_remote_static()?.try_into().ok()?;
    let offered = cipher_of(&payload[..n])?;
    let initiated_at = u64::from_be_bytes(payload) & TIME_MASK;
    Some(ReceivedInitiation { state, exchange, initiated_at, offered, remote: initiation.sender })
}

impl ReceivedInitiation {
    /// Creates the response. `local`: local identifier of the session; `preferred`: the cipher that is fast on this
    /// host. Returns the response, the initiator's identifier of the session, and the keys.
    pub(crate) fn respond(mut self, local: u32, preferred: Cipher) -> Option<(Response, u32, Keys)> {
        // AES is five times as slow as ChaCha20 without CPU support and five times as fast with it.
        let both = self.offered == Cipher::Aes256Gcm && preferred == Cipher::Aes256Gcm;
        let cipher = if both { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 };
        let mut noise = [0; 56];
        let n = self.state.write_message(&payload(cipher, 0), &mut noise).ok()?;
        let (receive, send) = self.state.dangerously_get_raw_split();
        let response = Response { sender: local, receiver: self.remote, noise };
        (n == noise.len()).then_some((response, self.remote, Keys { cipher, send, receive }))
    }
}

impl PendingInitiation {
    /// Decrypts the response; returns the responder's identifier of the session, and the keys. An invalid response
    /// leaves the state unchanged.
    pub(crate) fn consume_response(&mut self, response: &Response) -> Option<(u32, Keys)> {
        let mut payload = [0; PAYLOAD_BYTES];
        let n = self.state.read_message(&response.noise, &mut payload).ok()?;
        let cipher = cipher_of(&payload[..n])?;
        // The payload is authenticated, so a cipher that was not offered is a defect of the responder.
        if cipher == Cipher::Aes256Gcm && self.offered != Cipher::Aes256Gcm {
            return None;
        }
        let (send, receive) = self.state.dangerously_get_raw_split();
        Some((response.sender, Keys { cipher, send, receive }))
    }
}

fn payload(cipher: Cipher, initiated_at: u64) -> [u8; PAYLOAD_BYTES] {
    let cipher = match cipher {
        Cipher::Aes256Gcm => 1,
        Cipher::ChaCha20Poly1305 => 2,
    };
    let mut payload = (initiated_at & TIME_MASK).to_be_bytes();
    payload[..2].copy_from_slice(&[VERSION, cipher]);
    payload
}

fn cipher_of(payload: &[u8]) -> Option<Cipher> {
    match payload {
        [VERSION, 1, ..] => Some(Cipher::Aes256Gcm),
        [VERSION, 2, ..] => Some(Cipher::ChaCha20Poly1305),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::aead::{AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
    use route::Member;
    use units::Instant;
    use wire::overlay::{SEALED_BYTES, TAG_BYTES};

    use super::*;
    use crate::session::{Number, Session};

    const AES: Cipher = Cipher::Aes256Gcm;
    const CHACHA: Cipher = Cipher::ChaCha20Poly1305;

    fn keys(identity: &Identity) -> LocalKeys<'_> {
        LocalKeys { identity, secret: &[7; 32], secrets: Secrets::new([3; 32]) }
    }

    /// Keys of the initiator and of the responder after a handshake. The parameters are the ciphers that are fast on
    /// them.
    fn agreed(initiator: Cipher, responder: Cipher) -> [Keys; 2] {
        let [a, b] = [1, 2].map(|n| Identity::from_seed(&[n; 32]));
        let (mut pending, initiation) = initiate(keys(&a), &b.public(), 10, 0, initiator).unwrap();
        let (response, _, theirs) = consume_initiation(keys(&b), &initiation).unwrap().respond(20, responder).unwrap();
        let (_, ours) = pending.consume_response(&response).unwrap();
        [ours, theirs]
    }

    fn opens(algorithm: &'static Algorithm, key: &[u8; 32], nonce: [u8; 12], frame: &[u8]) -> Option<Vec<u8>> {
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key).unwrap());
        let (header, rest) = frame.split_at(SEALED_BYTES);
        let mut rest = rest.to_vec();
        Some(key.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(header), &mut rest).ok()?.to_vec())
    }

    #[test]
    fn both_ends_use_the_cipher_that_is_fast_on_both() {
        let all = [(AES, AES, AES), (AES, CHACHA, CHACHA), (CHACHA, AES, CHACHA), (CHACHA, CHACHA, CHACHA)];
        for (initiator, responder, expected) in all {
            let keys = agreed(initiator, responder);
            assert_eq!(keys.each_ref().map(|k| k.cipher), [expected; 2], "{initiator:?} {responder:?}");
            let ends = keys.each_ref().map(|k| Session::new(Member(1), 1, 1, Instant::ZERO, true, k).unwrap());
            for (from, to) in [(0, 1), (1, 0)] {
                let number = Number { queue: 3, space: 5, sequence: 0x0102_0304 };
                let mut frame = [&[9; SEALED_BYTES][..], b"contents", &[0; TAG_BYTES]].concat();
                ends[from].seal(number, &mut frame).unwrap();
                // The nonce of the specification: two zeros, queue, packet number space and sequence.
                let nonce = [0, 0, 3, 5, 0, 0, 0, 0, 1, 2, 3, 4];
                let by = |algorithm| opens(algorithm, &keys[from].send, nonce, &frame);
                let of_both = [by(&AES_256_GCM), by(&CHACHA20_POLY1305)];
                let text = |cipher| (expected == cipher).then(|| b"contents".to_vec());
                assert_eq!(of_both, [text(AES), text(CHACHA)], "{initiator:?} {responder:?}");
                let mut damaged = frame.clone();
                damaged[SEALED_BYTES] ^= 1;
                assert!(ends[to].open(number, &mut damaged).is_none());
                assert_eq!(ends[to].open(number, &mut frame).unwrap(), b"contents");
                // The same keys authenticate an envelope.
                let mut envelope = vec![8; 200];
                ends[from].seal_envelope(number, &mut envelope).unwrap();
                assert!(ends[to].verify_envelope(number, &envelope));
                envelope[0] ^= 1;
                assert!(!ends[to].verify_envelope(number, &envelope));
            }
        }
    }

    /// An independent implementation of the specification can complete a handshake.
    #[test]
    fn pattern_and_prologue_are_those_of_the_specification() {
        let [a, b] = [1, 2].map(|n| Identity::from_seed(&[n; 32]));
        let (mut pending, initiation) = initiate(keys(&a), &b.public(), 10, 0x0001_0203_0405_0607, AES).unwrap();
        let private = b.exchange();
        let resolver = Box::new(Resolver::new(Secrets::new([4; 32])));
        let builder = Builder::with_resolver("Noise_IKpsk2_25519_ChaChaPoly_SHA256".parse().unwrap(), resolver);
        let builder = builder.prologue(b"longhaul overlay 1").unwrap().psk(2, &[7; 32]).unwrap();
        let mut responder = builder.local_private_key(&private).unwrap().build_responder().unwrap();
        let mut payload = [0; 64];
        let n = responder.read_message(&initiation.noise, &mut payload).unwrap();
        // Version, cipher, and the lower six bytes of the time.
        assert_eq!(payload[..n], [1, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(responder.get_remote_static(), Some(&a.public().exchange()[..]));
        let mut noise = [0; 56];
        assert_eq!(responder.write_message(&[1, 2, 0, 0, 0, 0, 0, 0], &mut noise).unwrap(), 56);
        let (number, keys) = pending.consume_response(&Response { sender: 20, receiver: 10, noise }).unwrap();
        assert_eq!((number, keys.cipher), (20, CHACHA));
        assert_eq!((keys.send, keys.receive), responder.dangerously_get_raw_split());
    }

    #[test]
    fn aes_is_preferred_on_a_cpu_with_aes_instructions() {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let flags = info.lines().find(|l| l.starts_with("flags") || l.starts_with("Features")).unwrap_or_default();
        let has = |flag: &str| flags.split_whitespace().any(|f| f == flag);
        let is_fast = has("aes") && (has("pclmulqdq") || has("pmull"));
        assert_eq!(Cipher::preferred(), if is_fast { AES } else { CHACHA });
    }

    #[test]
    fn a_response_with_a_cipher_that_was_not_offered_is_rejected() {
        let [a, b] = [1, 2].map(|n| Identity::from_seed(&[n; 32]));
        let (mut pending, initiation) = initiate(keys(&a), &b.public(), 10, 0, CHACHA).unwrap();
        let mut received = consume_initiation(keys(&b), &initiation).unwrap();
        received.offered = AES;
        let (response, ..) = received.respond(20, AES).unwrap();
        assert!(pending.consume_response(&response).is_none());
    }
}
