//! Noise_IKpsk2 (revision 34): the initiator knows whom it calls, and shows who it is under encryption; the secret of the network is the
//! pre-shared key. What the handshake agrees on are two keys and a cipher.

use snow::{Builder, HandshakeState};
use wire::overlay::{Initiation, Response};

use crate::identity::{Identity, PublicKey};
use crate::secrets::{Resolver, Secrets};
use crate::session::{Cipher, Keys};

const PATTERN: &str = "Noise_IKpsk2_25519_ChaChaPoly_SHA256";
const PROLOGUE: &[u8] = b"longhaul overlay 1";
/// Payload of both messages: version, cipher, and in the first one the time of the call, six bytes.
const PAYLOAD: usize = 8;
const VERSION: u8 = 1;
/// The bits of a time in a payload.
const TIME: u64 = (1 << 48) - 1;

/// A handshake that we began.
pub(crate) struct PendingInitiation {
    state: HandshakeState,
    offered: Cipher,
}

/// What an initiation showed, before it is answered.
pub(crate) struct ReceivedInitiation {
    state: HandshakeState,
    /// The caller's static key, in Montgomery form.
    pub(crate) exchange: [u8; 32],
    /// When it called, by its clock: 1/65536 s since 1970, 48 bits. Good for no more than to tell which of several calls is the latest.
    pub(crate) called: u64,
    offered: Cipher,
    remote: u32,
}

/// The keys of a member, its overlay's secret, and random numbers for one handshake.
pub(crate) struct Own<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) secret: &'a [u8; 32],
    pub(crate) secrets: Secrets,
}

impl Own<'_> {
    fn builder<'b>(self) -> Option<Builder<'b>> {
        let resolver = Box::new(Resolver::new(self.secrets));
        Builder::with_resolver(PATTERN.parse().ok()?, resolver).prologue(PROLOGUE).ok()
    }
}

/// Begins a handshake with the owner of `peer`. `local`: number of the session here; `called`: as [`ReceivedInitiation::called`]; `offered`: the cipher that is fast here.
pub(crate) fn call(
    own: Own<'_>,
    peer: &PublicKey,
    local: u32,
    called: u64,
    offered: Cipher,
) -> Option<(PendingInitiation, Initiation)> {
    let (private, remote, secret) = (own.identity.exchange(), peer.exchange(), own.secret);
    let builder = own.builder()?;
    let builder = builder.local_private_key(&private).ok()?.remote_public_key(&remote).ok()?.psk(2, secret).ok()?;
    let mut state = builder.build_initiator().ok()?;
    let mut noise = [0; 104];
    let n = state.write_message(&payload(offered, called), &mut noise).ok()?;
    (n == noise.len()).then_some((PendingInitiation { state, offered }, Initiation { sender: local, noise }))
}

/// Reads an initiation: two Diffie-Hellman operations. `None`: not made for us. Whether the caller has the network's secret shows later: it
/// enters with the second message, and without it no frame of the caller is authentic.
pub(crate) fn hear(own: Own<'_>, initiation: &Initiation) -> Option<ReceivedInitiation> {
    let (private, secret) = (own.identity.exchange(), own.secret);
    let builder = own.builder()?;
    let mut state = builder.local_private_key(&private).ok()?.psk(2, secret).ok()?.build_responder().ok()?;
    let mut said = [0; PAYLOAD];
    let n = state.read_message(&initiation.noise, &mut said).ok()?;
    let exchange = state.get_remote_static()?.try_into().ok()?;
    let offered = understood(&said[..n])?;
    let called = u64::from_be_bytes(said) & TIME;
    Some(ReceivedInitiation { state, exchange, called, offered, remote: initiation.sender })
}

impl ReceivedInitiation {
    /// Answers; `local`: number of the session here; `preferred`: the cipher that is fast here. Gives the response, the caller's number, and the keys.
    pub(crate) fn answer(mut self, local: u32, preferred: Cipher) -> Option<(Response, u32, Keys)> {
        // One without instructions for AES would be five times as slow with it; one with them loses a factor of five without.
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
    /// Reads the answer; gives the other end's number of the session and the keys. A wrong answer leaves the call as it was.
    pub(crate) fn answered(&mut self, response: &Response) -> Option<(u32, Keys)> {
        let mut said = [0; PAYLOAD];
        let n = self.state.read_message(&response.noise, &mut said).ok()?;
        let cipher = understood(&said[..n])?;
        // Nobody in between can choose for us: the payload is authenticated. An answer that we did not offer is a fault of the other end.
        if cipher == Cipher::Aes256Gcm && self.offered != Cipher::Aes256Gcm {
            return None;
        }
        let (send, receive) = self.state.dangerously_get_raw_split();
        Some((response.sender, Keys { cipher, send, receive }))
    }
}

fn payload(cipher: Cipher, called: u64) -> [u8; PAYLOAD] {
    let cipher = match cipher {
        Cipher::Aes256Gcm => 1,
        Cipher::ChaCha20Poly1305 => 2,
    };
    let mut payload = (called & TIME).to_be_bytes();
    payload[..2].copy_from_slice(&[VERSION, cipher]);
    payload
}

fn understood(payload: &[u8]) -> Option<Cipher> {
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

    fn keys(identity: &Identity) -> Own<'_> {
        Own { identity, secret: &[7; 32], secrets: Secrets::new([3; 32]) }
    }

    /// What the caller and who is called have agreed on, when these are fast on their CPUs.
    fn agreed(caller: Cipher, called: Cipher) -> [Keys; 2] {
        let [a, b] = [1, 2].map(|n| Identity::from_seed(&[n; 32]));
        let (mut call, initiation) = call(keys(&a), &b.public(), 10, 0, caller).unwrap();
        let (response, _, theirs) = hear(keys(&b), &initiation).unwrap().answer(20, called).unwrap();
        let (_, ours) = call.answered(&response).unwrap();
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
        for (caller, called, wanted) in all {
            let keys = agreed(caller, called);
            assert_eq!(keys.each_ref().map(|k| k.cipher), [wanted; 2], "{caller:?} {called:?}");
            let ends = keys.each_ref().map(|k| Session::new(Member(1), 1, 1, Instant::ZERO, true, k).unwrap());
            for (from, to) in [(0, 1), (1, 0)] {
                let number = Number { queue: 3, space: 5, sequence: 0x0102_0304 };
                let mut frame = [&[9; SEALED_BYTES][..], b"contents", &[0; TAG_BYTES]].concat();
                ends[from].seal(number, &mut frame).unwrap();
                // By the protocol's own words: two zeros, queue, packet number space and sequence.
                let nonce = [0, 0, 3, 5, 0, 0, 0, 0, 1, 2, 3, 4];
                let by = |algorithm| opens(algorithm, &keys[from].send, nonce, &frame);
                let of_both = [by(&AES_256_GCM), by(&CHACHA20_POLY1305)];
                let text = |cipher| (wanted == cipher).then(|| b"contents".to_vec());
                assert_eq!(of_both, [text(AES), text(CHACHA)], "{caller:?} {called:?}");
                let mut damaged = frame.clone();
                damaged[SEALED_BYTES] ^= 1;
                assert!(ends[to].open(number, &mut damaged).is_none());
                assert_eq!(ends[to].open(number, &mut frame).unwrap(), b"contents");
                // An envelope's tag is made with the same keys.
                let mut envelope = vec![8; 200];
                ends[from].seal_envelope(number, &mut envelope).unwrap();
                assert!(ends[to].opens_envelope(number, &envelope));
                envelope[0] ^= 1;
                assert!(!ends[to].opens_envelope(number, &envelope));
            }
        }
    }

    /// Whoever writes a member by the document alone can be called.
    #[test]
    fn the_pattern_and_the_prologue_are_those_of_the_document() {
        let [a, b] = [1, 2].map(|n| Identity::from_seed(&[n; 32]));
        let (mut call, initiation) = call(keys(&a), &b.public(), 10, 0x0001_0203_0405_0607, AES).unwrap();
        let private = b.exchange();
        let resolver = Box::new(Resolver::new(Secrets::new([4; 32])));
        let builder = Builder::with_resolver("Noise_IKpsk2_25519_ChaChaPoly_SHA256".parse().unwrap(), resolver);
        let builder = builder.prologue(b"longhaul overlay 1").unwrap().psk(2, &[7; 32]).unwrap();
        let mut called = builder.local_private_key(&private).unwrap().build_responder().unwrap();
        let mut said = [0; 64];
        let n = called.read_message(&initiation.noise, &mut said).unwrap();
        // Version, cipher, and the last six bytes of the time.
        assert_eq!(said[..n], [1, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(called.get_remote_static(), Some(&a.public().exchange()[..]));
        let mut noise = [0; 56];
        assert_eq!(called.write_message(&[1, 2, 0, 0, 0, 0, 0, 0], &mut noise).unwrap(), 56);
        let (number, keys) = call.answered(&Response { sender: 20, receiver: 10, noise }).unwrap();
        assert_eq!((number, keys.cipher), (20, CHACHA));
        assert_eq!((keys.send, keys.receive), called.dangerously_get_raw_split());
    }

    #[test]
    fn aes_is_preferred_where_the_cpu_has_it() {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let flags = info.lines().find(|l| l.starts_with("flags") || l.starts_with("Features")).unwrap_or_default();
        let has = |flag: &str| flags.split_whitespace().any(|f| f == flag);
        let is_fast = has("aes") && (has("pclmulqdq") || has("pmull"));
        assert_eq!(Cipher::preferred(), if is_fast { AES } else { CHACHA });
    }

    #[test]
    fn who_answers_with_a_cipher_that_was_not_offered_is_not_heard() {
        let [a, b] = [1, 2].map(|n| Identity::from_seed(&[n; 32]));
        let (mut call, initiation) = call(keys(&a), &b.public(), 10, 0, CHACHA).unwrap();
        let mut caller = hear(keys(&b), &initiation).unwrap();
        caller.offered = AES;
        let (response, ..) = caller.answer(20, AES).unwrap();
        assert!(call.answered(&response).is_none());
    }
}
