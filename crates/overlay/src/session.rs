use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use route::Member;
use units::Instant;
use wire::overlay::{ENVELOPE_BYTES, SEALED_BYTES, TAG_BYTES};

use crate::tally::Arrivals;

/// Sequences that a session has: the direct one, that of its hop, and one for each path over relays.
pub(crate) const LANES: usize = 16;

/// How long a session is used for sending; its successor is agreed on before.
pub(crate) const REKEY_AFTER: std::time::Duration = std::time::Duration::from_secs(120);
/// How long frames of a session are taken.
pub(crate) const REJECT_AFTER: std::time::Duration = std::time::Duration::from_secs(180);
/// Frames after which a successor is agreed on: the confidentiality limit of AES-GCM for packets of at most 2^11 bytes (RFC 9001 section
/// 6.6 and appendix B.1.1).
pub(crate) const REKEY_FRAMES: u64 = 1 << 28;
/// Frames of a lane after which nothing more is sent: far below the end of the counter, so that no nonce is ever used twice.
pub(crate) const MOST_FRAMES: u64 = 1 << 32;

/// How frames are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub(crate) enum Cipher {
    /// Where the CPU has instructions for it.
    #[serde(rename = "AES-256-GCM")]
    Aes256Gcm,
    /// Everywhere else.
    #[serde(rename = "ChaCha20-Poly1305")]
    ChaCha20Poly1305,
}

impl Cipher {
    /// The faster one on this CPU.
    pub(crate) fn preferred() -> Self {
        #[cfg(target_arch = "x86_64")]
        let fast = std::is_x86_feature_detected!("aes") && std::is_x86_feature_detected!("pclmulqdq");
        #[cfg(target_arch = "aarch64")]
        let fast = std::arch::is_aarch64_feature_detected!("aes");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let fast = false;
        if fast { Self::Aes256Gcm } else { Self::ChaCha20Poly1305 }
    }

    fn key(self, bytes: &[u8; 32]) -> Option<LessSafeKey> {
        let algorithm = match self {
            Self::Aes256Gcm => &AES_256_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        UnboundKey::new(algorithm, bytes).ok().map(LessSafeKey::new)
    }
}

/// What a handshake agreed on.
pub(crate) struct Keys {
    pub(crate) cipher: Cipher,
    pub(crate) send: [u8; 32],
    pub(crate) receive: [u8; 32],
}

/// Keys and counters that two members share for some minutes. Used by all threads: what changes is atomic.
pub(crate) struct Session {
    pub(crate) peer: Member,
    /// Its number here, in what we receive.
    pub(crate) local: u32,
    /// Its number there, in what we send.
    pub(crate) remote: u32,
    pub(crate) born: Instant,
    /// We began the handshake: who does so also begins the next.
    pub(crate) initiator: bool,
    /// When the other end called, by its clock (see [`crate::handshake::Caller::called`]); 0 where we did.
    pub(crate) called: u64,
    cipher: Cipher,
    send: LessSafeKey,
    receive: LessSafeKey,
    sent: [AtomicU64; LANES],
    sent_bytes: AtomicU64,
    /// What arrived, lane by lane; written by the receiving thread alone.
    pub(crate) arrivals: [Arrivals; LANES],
    /// Something authentic arrived: the other end has the keys, too.
    pub(crate) confirmed: AtomicBool,
}

impl Session {
    /// `None`: no keys.
    pub(crate) fn new(
        peer: Member,
        local: u32,
        remote: u32,
        born: Instant,
        initiator: bool,
        keys: &Keys,
    ) -> Option<Self> {
        Some(Self {
            peer,
            local,
            remote,
            born,
            initiator,
            called: 0,
            cipher: keys.cipher,
            send: keys.cipher.key(&keys.send)?,
            receive: keys.cipher.key(&keys.receive)?,
            sent: [const { AtomicU64::new(0) }; LANES],
            sent_bytes: AtomicU64::new(0),
            arrivals: [const { Arrivals::new() }; LANES],
            confirmed: AtomicBool::new(initiator),
        })
    }

    /// How frames are encrypted.
    pub(crate) fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// The next sequence number of a lane; `None` when the session is used up.
    pub(crate) fn next_sequence(&self, lane: u16) -> Option<u64> {
        let n = self.sent.get(usize::from(lane))?.fetch_add(1, Ordering::Relaxed);
        (n < MOST_FRAMES).then_some(n)
    }

    /// Lets so many frames have been sent in a lane.
    #[cfg(test)]
    pub(crate) fn use_up(&self, lane: u16, frames: u64) {
        self.sent[usize::from(lane)].store(frames, Ordering::Relaxed);
    }

    /// Frames sent in a lane.
    pub(crate) fn sent(&self, lane: u16) -> u64 {
        self.sent.get(usize::from(lane)).map_or(0, |n| n.load(Ordering::Relaxed))
    }

    /// Frames sent in all lanes.
    pub(crate) fn sent_in_all(&self) -> u64 {
        self.sent.iter().map(|n| n.load(Ordering::Relaxed)).sum()
    }

    /// Counts IP bytes of datagrams that went to the peer itself.
    pub(crate) fn note_sent(&self, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// IP bytes of datagrams that went to the peer itself.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    /// Encrypts a frame in place: header, plaintext, room for the tag.
    pub(crate) fn seal(&self, lane: u16, sequence: u64, frame: &mut [u8]) -> Option<()> {
        let (header, rest) = frame.split_at_mut_checked(SEALED_BYTES)?;
        let (text, room) = rest.split_last_chunk_mut::<TAG_BYTES>()?;
        let tag = self.send.seal_in_place_separate_tag(nonce(lane, sequence), Aad::from(&*header), text).ok()?;
        room.copy_from_slice(tag.as_ref());
        Some(())
    }

    /// Decrypts a frame in place and gives the plaintext; `None`: it is not authentic.
    pub(crate) fn open<'a>(&self, lane: u16, sequence: u64, frame: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let (header, rest) = frame.split_at_mut_checked(SEALED_BYTES)?;
        self.receive.open_in_place(nonce(lane, sequence), Aad::from(&*header), rest).ok()
    }

    /// Authenticates an envelope with the head of the frame in it: the frame's own tag covers the rest.
    pub(crate) fn seal_envelope(&self, lane: u16, sequence: u64, datagram: &mut [u8]) -> Option<()> {
        let (text, room) = datagram.split_last_chunk_mut::<TAG_BYTES>()?;
        let covered = covered(text)?;
        let tag = self.send.seal_in_place_separate_tag(nonce(lane, sequence), Aad::from(covered), &mut []).ok()?;
        room.copy_from_slice(tag.as_ref());
        Some(())
    }

    /// Whether an envelope is authentic.
    pub(crate) fn opens_envelope(&self, lane: u16, sequence: u64, datagram: &[u8]) -> bool {
        let Some((text, tag)) = datagram.split_last_chunk::<TAG_BYTES>() else { return false };
        let Some(covered) = covered(text) else { return false };
        let mut tag = *tag;
        self.receive.open_in_place(nonce(lane, sequence), Aad::from(covered), &mut tag).is_ok()
    }
}

/// The envelope's header, the frame's header and its first ciphertext block, or as much as there is.
fn covered(text: &[u8]) -> Option<&[u8]> {
    text.get(..text.len().min(ENVELOPE_BYTES + SEALED_BYTES + TAG_BYTES)).filter(|t| t.len() > ENVELOPE_BYTES)
}

fn nonce(lane: u16, sequence: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&u32::from(lane).to_be_bytes());
    bytes[4..].copy_from_slice(&sequence.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}
