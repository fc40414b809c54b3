use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use route::Member;
use units::Instant;
use wire::overlay::{
    ENVELOPE_BYTES, Envelope, QUEUES_MAX, RELAYS_MAX, SEALED_BYTES, SPACE_RELAYED, SPACE_SENSOR, Sealed, TAG_BYTES,
};

use crate::arrivals::Arrivals;
use crate::permits::{Permit, QueuePermits, WINDOWS};
use crate::window::{Stale, Window};

/// Lanes that a session has: the direct one, that of its hop, that of trials, one for each path over relays, and that of the sensor.
pub(crate) const SPACES: usize = SPACE_SENSOR as usize + 1;

/// How long a session is used for sending; its successor is agreed on before.
pub(crate) const REKEY_AFTER: std::time::Duration = std::time::Duration::from_secs(120);
/// How long frames of a session are taken.
pub(crate) const REJECT_AFTER: std::time::Duration = std::time::Duration::from_secs(180);
/// Frames after which a successor is agreed on: the confidentiality limit of AES-GCM for packets of at most 2^11 bytes (RFC 9001 section
/// 6.6 and appendix B.1.1).
pub(crate) const REKEY_FRAMES: u64 = 1 << 28;
/// Frames of a packet number space and queue after which nothing more is sent: far below the end of the counter, so that no nonce is ever used twice.
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

/// Which frame of a session one is. No two have the same, so that it is the nonce.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number {
    /// Of its sender.
    pub(crate) queue: u8,
    pub(crate) space: u8,
    pub(crate) sequence: u64,
}

impl Number {
    /// That of a frame; `None`: no frame has such a one.
    pub(crate) fn of_frame(header: &Sealed) -> Option<Self> {
        Self { queue: header.queue, space: header.space, sequence: header.sequence }.checked()
    }

    /// That of an envelope on this hop.
    pub(crate) fn of_envelope(envelope: &Envelope) -> Option<Self> {
        Self { queue: envelope.queue, space: SPACE_RELAYED, sequence: envelope.sequence }.checked()
    }

    fn checked(self) -> Option<Self> {
        (usize::from(self.space) < SPACES && self.sequence < MOST_FRAMES).then_some(self)
    }

    fn nonce(self) -> Nonce {
        let mut bytes = [0; 12];
        bytes[2..4].copy_from_slice(&[self.queue, self.space]);
        bytes[4..].copy_from_slice(&self.sequence.to_be_bytes());
        Nonce::assume_unique_for_key(bytes)
    }
}

/// What one queue has sent in a session: on cache lines of its own, as each queue has a CPU.
#[derive(Default)]
#[repr(align(128))]
struct Sent {
    frames: [AtomicU64; SPACES],
    /// IP bytes of datagrams that went to the peer itself.
    bytes: AtomicU64,
}

/// Which frames of each queue of the peer arrived: made as they come, as long as there is a place for one more.
type Windows = [OnceLock<Box<[OnceLock<(Window, Permit)>; SPACES]>>; QUEUES_MAX];

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
    /// When the other end called, by its clock (see [`crate::handshake::ReceivedInitiation::called`]); 0 where we did.
    pub(crate) called: u64,
    cipher: Cipher,
    send: LessSafeKey,
    receive: LessSafeKey,
    /// By queue of this member.
    sent: [OnceLock<Box<Sent>>; QUEUES_MAX],
    /// Against replays.
    windows: Arc<Windows>,
    /// For windows, of all sessions with the peer.
    permits: QueuePermits,
    /// What arrived, packet number space by packet number space.
    pub(crate) arrivals: [Arrivals; SPACES],
    /// Which relays the last frame of each packet number space came over, as [`digest`] has them.
    relays: [AtomicU64; SPACES],
    /// Where the last frame came from that came without a relay, as [`digest_of_address`] has it; 0: none did.
    place: AtomicU64,
    /// Something authentic arrived: the other end has the keys, too.
    pub(crate) confirmed: AtomicBool,
    /// Who is not known yet has shown a certificate in it.
    pub(crate) shown: AtomicBool,
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
            sent: [const { OnceLock::new() }; QUEUES_MAX],
            windows: Arc::new([const { OnceLock::new() }; QUEUES_MAX]),
            permits: QueuePermits::new(WINDOWS),
            arrivals: [const { Arrivals::new() }; SPACES],
            relays: [const { AtomicU64::new(0) }; SPACES],
            place: AtomicU64::new(0),
            confirmed: AtomicBool::new(initiator),
            shown: AtomicBool::new(false),
        })
    }

    /// How frames are encrypted.
    pub(crate) fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Makes this one go on where another with the same keys ends: what arrived there cannot be said again here.
    pub(crate) fn follow(&mut self, other: &Self) {
        self.windows = Arc::clone(&other.windows);
    }

    /// Has windows only as long as there are places among these, which other sessions share.
    pub(crate) fn share(&mut self, permits: &QueuePermits) {
        self.permits = permits.clone();
    }

    fn sent_by(&self, queue: u8) -> Option<&Sent> {
        self.sent.get(usize::from(queue)).map(|s| &**s.get_or_init(Box::default))
    }

    fn sent_by_all(&self) -> impl Iterator<Item = &Sent> {
        self.sent.iter().filter_map(|s| s.get().map(|s| &**s))
    }

    /// The next number of a packet number space in a queue; `None` when the session is used up.
    pub(crate) fn next(&self, queue: u8, space: u8) -> Option<Number> {
        let sequence = self.sent_by(queue)?.frames.get(usize::from(space))?.fetch_add(1, Ordering::Relaxed);
        Number { queue, space, sequence }.checked()
    }

    /// Lets so many frames have been sent in a packet number space.
    #[cfg(test)]
    pub(crate) fn use_up(&self, space: u8, frames: u64) {
        self.sent_by(0).unwrap().frames[usize::from(space)].store(frames, Ordering::Relaxed);
    }

    /// Frames sent in a packet number space, by all queues.
    pub(crate) fn sent(&self, space: u8) -> u64 {
        self.sent_by_all().filter_map(|s| s.frames.get(usize::from(space))).map(|n| n.load(Ordering::Relaxed)).sum()
    }

    /// Frames sent in all packet number spaces.
    pub(crate) fn sent_in_all(&self) -> u64 {
        self.sent_by_all().flat_map(|s| &s.frames).map(|n| n.load(Ordering::Relaxed)).sum()
    }

    /// Counts IP bytes of datagrams that went to the peer itself.
    pub(crate) fn note_sent(&self, queue: u8, bytes: u64) {
        if let Some(sent) = self.sent_by(queue) {
            sent.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// IP bytes of datagrams that went to the peer itself.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_by_all().map(|s| s.bytes.load(Ordering::Relaxed)).sum()
    }

    /// Whether a frame is new; only then is it worth opening.
    pub(crate) fn check(&self, number: Number) -> Result<(), Stale> {
        let spaces = self.windows.get(usize::from(number.queue)).and_then(|q| q.get());
        let window = spaces.and_then(|l| l.get(usize::from(number.space))?.get());
        window.map_or(Ok(()), |(w, _)| w.check(number.sequence))
    }

    /// Takes an authentic frame that came at that time, microseconds, unless it has been taken meanwhile; gives how many numbers it is ahead of all before it in its queue,
    /// but for those that were lost before that rested.
    pub(crate) fn note(&self, number: Number, came: u32) -> Result<u64, Stale> {
        let spaces = self.windows.get(usize::from(number.queue)).ok_or(Stale::TooOld)?;
        let spaces = spaces.get_or_init(|| Box::new([const { OnceLock::new() }; SPACES]));
        let entry = spaces.get(usize::from(number.space)).ok_or(Stale::TooOld)?;
        let window = match entry.get() {
            Some((window, _)) => window,
            None => {
                // Without a window it cannot be told whether a frame was there before.
                let place = self.permits.take().ok_or(Stale::TooOld)?;
                &entry.get_or_init(|| (Window::new(), place)).0
            }
        };
        // What a sensor has lost counts, however seldom it sends.
        if number.space == SPACE_SENSOR {
            window.note_all(number.sequence, came)
        } else {
            window.note(number.sequence, came)
        }
    }

    /// Notes over which relays a frame of a packet number space came; says whether these are others than before.
    pub(crate) fn came_over(&self, space: u8, relays: [u32; RELAYS_MAX]) -> bool {
        let digest = digest(relays);
        self.relays.get(usize::from(space)).is_some_and(|last| {
            last.load(Ordering::Relaxed) != digest && last.swap(digest, Ordering::Relaxed) != digest
        })
    }

    /// Notes where a frame came from without a relay.
    pub(crate) fn came_from(&self, address: SocketAddr) {
        let digest = digest_of_address(address);
        if self.place.load(Ordering::Relaxed) != digest {
            self.place.store(digest, Ordering::Relaxed);
        }
    }

    /// Whether frames of the two come from different places, as far as they are known.
    pub(crate) fn is_elsewhere(&self, other: &Self) -> bool {
        let [here, there] = [self, other].map(|s| s.place.load(Ordering::Relaxed));
        here != there && here != 0 && there != 0
    }

    /// Nobody could be told over which relays a frame of a packet number space came: the next one is told of.
    pub(crate) fn forget_path(&self, space: u8) {
        if let Some(last) = self.relays.get(usize::from(space)) {
            last.store(0, Ordering::Relaxed);
        }
    }

    /// Encrypts a frame in place: header, plaintext, room for the tag.
    pub(crate) fn seal(&self, number: Number, frame: &mut [u8]) -> Option<()> {
        let (header, rest) = frame.split_at_mut_checked(SEALED_BYTES)?;
        let (text, room) = rest.split_last_chunk_mut::<TAG_BYTES>()?;
        let tag = self.send.seal_in_place_separate_tag(number.nonce(), Aad::from(&*header), text).ok()?;
        room.copy_from_slice(tag.as_ref());
        Some(())
    }

    /// Decrypts a frame in place and gives the plaintext; `None`: it is not authentic.
    pub(crate) fn open<'a>(&self, number: Number, frame: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let (header, rest) = frame.split_at_mut_checked(SEALED_BYTES)?;
        self.receive.open_in_place(number.nonce(), Aad::from(&*header), rest).ok()
    }

    /// Authenticates an envelope with the head of the frame in it: the frame's own tag covers the rest.
    pub(crate) fn seal_envelope(&self, number: Number, datagram: &mut [u8]) -> Option<()> {
        let (text, room) = datagram.split_last_chunk_mut::<TAG_BYTES>()?;
        let covered = covered(text)?;
        let tag = self.send.seal_in_place_separate_tag(number.nonce(), Aad::from(covered), &mut []).ok()?;
        room.copy_from_slice(tag.as_ref());
        Some(())
    }

    /// Whether an envelope is authentic.
    pub(crate) fn opens_envelope(&self, number: Number, datagram: &[u8]) -> bool {
        let Some((text, tag)) = datagram.split_last_chunk::<TAG_BYTES>() else { return false };
        let Some(covered) = covered(text) else { return false };
        let mut tag = *tag;
        self.receive.open_in_place(number.nonce(), Aad::from(covered), &mut tag).is_ok()
    }
}

/// The envelope's header, the frame's header and its first ciphertext block, or as much as there is.
fn covered(text: &[u8]) -> Option<&[u8]> {
    text.get(..text.len().min(ENVELOPE_BYTES + SEALED_BYTES + TAG_BYTES)).filter(|t| t.len() > ENVELOPE_BYTES)
}

/// An address and port as one number, never 0. Two that have the same one are taken for one place, and the newer session there is used.
fn digest_of_address(address: SocketAddr) -> u64 {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    let mixed = ((ip >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ip as u64;
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(address.port())).max(1)
}

/// Relays as one number, never 0. Two rows of relays with the same one are no danger: an answer would go the way that was good before.
fn digest([a, b, c]: [u32; RELAYS_MAX]) -> u64 {
    let mixed = (u64::from(a) << 32 | u64::from(b)) ^ u64::from(c).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(permits: &QueuePermits) -> Session {
        let keys = Keys { cipher: Cipher::preferred(), send: [1; 32], receive: [2; 32] };
        let mut session = Session::new(Member(7), 1, 2, Instant::ZERO, true, &keys).unwrap();
        session.share(permits);
        session
    }

    /// Notes the first frame of each packet number space and queue that there is; says how many were taken.
    fn use_all(session: &Session) -> usize {
        let all = (0..QUEUES_MAX as u8).flat_map(|queue| (0..SPACES as u8).map(move |space| (queue, space)));
        all.filter(|(queue, space)| session.note(Number { queue: *queue, space: *space, sequence: 0 }, 0).is_ok())
            .count()
    }

    #[test]
    fn sessions_with_one_member_share_the_memory_of_their_windows() {
        let permits = QueuePermits::new(WINDOWS);
        let [first, second] = [0, 1].map(|_| session(&permits));
        let direct = Number { queue: 0, space: 0, sequence: 0 };
        assert_eq!(first.note(direct, 0), Ok(1));
        assert_eq!(use_all(&second), WINDOWS - 1);
        // Lanes that have a window go on in both; others are not taken, and nothing is taken twice.
        assert_eq!(first.note(Number { sequence: 1, ..direct }, 0), Ok(1));
        assert_eq!(first.note(direct, 0), Err(Stale::Replayed));
        assert_eq!(first.note(Number { space: 1, ..direct }, 0), Err(Stale::TooOld));
        // One that ends gives its own back.
        drop(second);
        assert_eq!(use_all(&first), WINDOWS - 1);
    }
}
