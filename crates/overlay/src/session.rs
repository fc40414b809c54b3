//! Sessions: the keys, sequence numbers, replay windows and receive statistics that two members share for some minutes.

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
use crate::permits::{Permit, QueuePermits, WINDOWS_MAX};
use crate::window::{Stale, Window};

/// Packet number spaces of a session: direct frames, envelopes of the hop, probes, one for each path over relays, and
/// the loss sensor.
pub(crate) const SPACES: usize = SPACE_SENSOR as usize + 1;

/// Age at which a session is rekeyed.
pub(crate) const REKEY_AFTER: std::time::Duration = std::time::Duration::from_secs(120);
/// Age up to which frames of a session are accepted.
pub(crate) const REJECT_AFTER: std::time::Duration = std::time::Duration::from_secs(180);
/// Number of frames after which a session is rekeyed: the confidentiality limit of AES-GCM for packets of at most 2^11
/// bytes (RFC 9001 section 6.6 and appendix B.1.1).
pub(crate) const REKEY_FRAMES: u64 = 1 << 28;
/// Maximum number of frames in a packet number space and queue. It lies far below the end of the counter, so that no
/// nonce is ever used twice.
pub(crate) const FRAMES_MAX: u64 = 1 << 32;

/// AEAD algorithm of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub(crate) enum Cipher {
    /// Preferred on CPUs with AES instructions.
    #[serde(rename = "AES-256-GCM")]
    Aes256Gcm,
    /// Preferred on all other CPUs.
    #[serde(rename = "ChaCha20-Poly1305")]
    ChaCha20Poly1305,
}

impl Cipher {
    /// The faster algorithm on this CPU.
    pub(crate) fn preferred() -> Self {
        #[cfg(target_arch = "x86_64")]
        let has_aes = std::is_x86_feature_detected!("aes") && std::is_x86_feature_detected!("pclmulqdq");
        #[cfg(target_arch = "aarch64")]
        let has_aes = std::arch::is_aarch64_feature_detected!("aes");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let has_aes = false;
        if has_aes { Self::Aes256Gcm } else { Self::ChaCha20Poly1305 }
    }

    fn key(self, bytes: &[u8; 32]) -> Option<LessSafeKey> {
        let algorithm = match self {
            Self::Aes256Gcm => &AES_256_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        UnboundKey::new(algorithm, bytes).ok().map(LessSafeKey::new)
    }
}

/// Cipher and keys that a handshake agreed on.
pub(crate) struct Keys {
    pub(crate) cipher: Cipher,
    pub(crate) send: [u8; 32],
    pub(crate) receive: [u8; 32],
}

/// Number of a frame in its session. It is unique, so it serves as the nonce.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number {
    /// Transmit queue of the sender.
    pub(crate) queue: u8,
    pub(crate) space: u8,
    pub(crate) sequence: u64,
}

impl Number {
    /// Number of a frame; `None`: out of range.
    pub(crate) fn of_frame(header: &Sealed) -> Option<Self> {
        Self { queue: header.queue, space: header.space, sequence: header.sequence }.checked()
    }

    /// Number of an envelope on this hop; `None`: out of range.
    pub(crate) fn of_envelope(envelope: &Envelope) -> Option<Self> {
        Self { queue: envelope.queue, space: SPACE_RELAYED, sequence: envelope.sequence }.checked()
    }

    fn checked(self) -> Option<Self> {
        (usize::from(self.space) < SPACES && self.sequence < FRAMES_MAX).then_some(self)
    }

    fn nonce(self) -> Nonce {
        let mut bytes = [0; 12];
        bytes[2..4].copy_from_slice(&[self.queue, self.space]);
        bytes[4..].copy_from_slice(&self.sequence.to_be_bytes());
        Nonce::assume_unique_for_key(bytes)
    }
}

/// Transmit counters of one queue in a session, on separate cache lines because each queue has its own CPU.
#[derive(Default)]
#[repr(align(128))]
struct TxCounters {
    /// Next sequence number of each packet number space.
    frames: [AtomicU64; SPACES],
    /// IP bytes of datagrams sent directly to the peer.
    bytes: AtomicU64,
}

/// Replay window of each queue of the peer and packet number space, created with its first frame while permits last.
type Windows = [OnceLock<Box<[OnceLock<(Window, Permit)>; SPACES]>>; QUEUES_MAX];

/// A session with a peer. All threads share it, so mutable state is atomic.
pub(crate) struct Session {
    pub(crate) peer: Member,
    /// Receiver index of this member, in received frames.
    pub(crate) local: u32,
    /// Receiver index of the peer, in transmitted frames.
    pub(crate) remote: u32,
    /// Time of the handshake.
    pub(crate) born: Instant,
    /// Whether this member initiated the handshake; the initiator also starts the rekey.
    pub(crate) initiator: bool,
    /// Timestamp of the peer's initiation by its clock (see [`crate::handshake::ReceivedInitiation::initiated_at`]); 0:
    /// this member initiated.
    pub(crate) called: u64,
    cipher: Cipher,
    send: LessSafeKey,
    receive: LessSafeKey,
    /// By transmit queue of this member.
    tx: [OnceLock<Box<TxCounters>>; QUEUES_MAX],
    windows: Arc<Windows>,
    /// Permits for replay windows, shared by all sessions with the peer.
    window_permits: QueuePermits,
    /// Receive statistics by packet number space.
    pub(crate) arrivals: [Arrivals; SPACES],
    /// [`relays_digest`] of the relays of the last frame in each packet number space; 0: unknown.
    relays: [AtomicU64; SPACES],
    /// [`address_digest`] of the source of the last direct frame; 0: none has arrived.
    source: AtomicU64,
    /// An authentic frame has arrived, so the peer has the keys as well.
    pub(crate) confirmed: AtomicBool,
    /// An unverified peer has sent a certificate in this session.
    pub(crate) certificate_received: AtomicBool,
}

impl Session {
    /// `None`: the AEAD rejects the keys.
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
            tx: [const { OnceLock::new() }; QUEUES_MAX],
            windows: Arc::new([const { OnceLock::new() }; QUEUES_MAX]),
            window_permits: QueuePermits::new(WINDOWS_MAX),
            arrivals: [const { Arrivals::new() }; SPACES],
            relays: [const { AtomicU64::new(0) }; SPACES],
            source: AtomicU64::new(0),
            confirmed: AtomicBool::new(initiator),
            certificate_received: AtomicBool::new(false),
        })
    }

    pub(crate) fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Shares the replay windows of a session with the same keys, so that frames received there are not accepted here
    /// again.
    pub(crate) fn share_windows(&mut self, other: &Self) {
        self.windows = Arc::clone(&other.windows);
    }

    /// Replaces the permits for replay windows by a set that the sessions with one peer share.
    pub(crate) fn set_window_permits(&mut self, permits: &QueuePermits) {
        self.window_permits = permits.clone();
    }

    fn tx_counters(&self, queue: u8) -> Option<&TxCounters> {
        self.tx.get(usize::from(queue)).map(|s| &**s.get_or_init(Box::default))
    }

    fn all_tx_counters(&self) -> impl Iterator<Item = &TxCounters> {
        self.tx.iter().filter_map(|s| s.get().map(|s| &**s))
    }

    /// Allocates the next number of a packet number space in a queue; `None`: no numbers are left.
    pub(crate) fn next_number(&self, queue: u8, space: u8) -> Option<Number> {
        let sequence = self.tx_counters(queue)?.frames.get(usize::from(space))?.fetch_add(1, Ordering::Relaxed);
        Number { queue, space, sequence }.checked()
    }

    /// Sets the number of frames sent by queue 0 in a packet number space.
    #[cfg(test)]
    pub(crate) fn use_up(&self, space: u8, frames: u64) {
        self.tx_counters(0).unwrap().frames[usize::from(space)].store(frames, Ordering::Relaxed);
    }

    /// Frames sent in a packet number space, by all queues.
    pub(crate) fn sent(&self, space: u8) -> u64 {
        self.all_tx_counters().filter_map(|s| s.frames.get(usize::from(space))).map(|n| n.load(Ordering::Relaxed)).sum()
    }

    /// Frames sent in all packet number spaces.
    pub(crate) fn sent_in_all(&self) -> u64 {
        self.all_tx_counters().flat_map(|s| &s.frames).map(|n| n.load(Ordering::Relaxed)).sum()
    }

    /// Counts IP bytes of datagrams sent directly to the peer.
    pub(crate) fn note_sent(&self, queue: u8, bytes: u64) {
        if let Some(counters) = self.tx_counters(queue) {
            counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// IP bytes of datagrams sent directly to the peer.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.all_tx_counters().map(|s| s.bytes.load(Ordering::Relaxed)).sum()
    }

    /// Replay check before decryption, which it saves for replayed frames. A later [`Self::accept`] may still fail.
    pub(crate) fn check(&self, number: Number) -> Result<(), Stale> {
        let spaces = self.windows.get(usize::from(number.queue)).and_then(|q| q.get());
        let window = spaces.and_then(|l| l.get(usize::from(number.space))?.get());
        window.map_or(Ok(()), |(w, _)| w.check(number.sequence))
    }

    /// Accepts an authentic frame, received at `received_at` (microseconds), unless another thread has accepted it.
    /// Returns the increase of the highest sequence number of its queue, without gaps from before an idle period (see
    /// [`Window::accept`]).
    pub(crate) fn accept(&self, number: Number, received_at: u32) -> Result<u64, Stale> {
        let spaces = self.windows.get(usize::from(number.queue)).ok_or(Stale::TooOld)?;
        let spaces = spaces.get_or_init(|| Box::new([const { OnceLock::new() }; SPACES]));
        let entry = spaces.get(usize::from(number.space)).ok_or(Stale::TooOld)?;
        let window = match entry.get() {
            Some((window, _)) => window,
            None => {
                // Without a window, replays cannot be detected.
                let permit = self.window_permits.try_acquire().ok_or(Stale::TooOld)?;
                &entry.get_or_init(|| (Window::new(), permit)).0
            }
        };
        // The loss sensor sends rarely, and all its losses count.
        if number.space == SPACE_SENSOR {
            window.accept_with_gaps(number.sequence, received_at)
        } else {
            window.accept(number.sequence, received_at)
        }
    }

    /// Stores the relays of a received frame; true: they differ from those of the previous frame in this packet number
    /// space.
    pub(crate) fn note_relays(&self, space: u8, relays: [u32; RELAYS_MAX]) -> bool {
        let digest = relays_digest(relays);
        self.relays.get(usize::from(space)).is_some_and(|last| {
            last.load(Ordering::Relaxed) != digest && last.swap(digest, Ordering::Relaxed) != digest
        })
    }

    /// Stores the source address of a direct frame.
    pub(crate) fn note_source(&self, address: SocketAddr) {
        let digest = address_digest(address);
        if self.source.load(Ordering::Relaxed) != digest {
            self.source.store(digest, Ordering::Relaxed);
        }
    }

    /// Whether the direct frames of two sessions arrive from different addresses; false where one is unknown.
    pub(crate) fn has_other_source(&self, other: &Self) -> bool {
        let [own, theirs] = [self, other].map(|s| s.source.load(Ordering::Relaxed));
        own != theirs && own != 0 && theirs != 0
    }

    /// Resets the relays of a packet number space, so that the next frame reports its path again.
    pub(crate) fn forget_relays(&self, space: u8) {
        if let Some(last) = self.relays.get(usize::from(space)) {
            last.store(0, Ordering::Relaxed);
        }
    }

    /// Encrypts a frame in place. The frame is header, plaintext and room for the tag.
    pub(crate) fn seal(&self, number: Number, frame: &mut [u8]) -> Option<()> {
        let (header, rest) = frame.split_at_mut_checked(SEALED_BYTES)?;
        let (text, room) = rest.split_last_chunk_mut::<TAG_BYTES>()?;
        let tag = self.send.seal_in_place_separate_tag(number.nonce(), Aad::from(&*header), text).ok()?;
        room.copy_from_slice(tag.as_ref());
        Some(())
    }

    /// Decrypts a frame in place and returns the plaintext; `None`: authentication failed.
    pub(crate) fn open<'a>(&self, number: Number, frame: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let (header, rest) = frame.split_at_mut_checked(SEALED_BYTES)?;
        self.receive.open_in_place(number.nonce(), Aad::from(&*header), rest).ok()
    }

    /// Authenticates an envelope and the head of the frame in it. The frame's own tag covers the rest.
    pub(crate) fn seal_envelope(&self, number: Number, datagram: &mut [u8]) -> Option<()> {
        let (text, room) = datagram.split_last_chunk_mut::<TAG_BYTES>()?;
        let aad = envelope_aad(text)?;
        let tag = self.send.seal_in_place_separate_tag(number.nonce(), Aad::from(aad), &mut []).ok()?;
        room.copy_from_slice(tag.as_ref());
        Some(())
    }

    /// Whether an envelope is authentic.
    pub(crate) fn verify_envelope(&self, number: Number, datagram: &[u8]) -> bool {
        let Some((text, tag)) = datagram.split_last_chunk::<TAG_BYTES>() else { return false };
        let Some(aad) = envelope_aad(text) else { return false };
        let mut tag = *tag;
        self.receive.open_in_place(number.nonce(), Aad::from(aad), &mut tag).is_ok()
    }
}

/// Authenticated part of an envelope: its header, the frame's header and the first ciphertext block, or as much as
/// present.
fn envelope_aad(text: &[u8]) -> Option<&[u8]> {
    text.get(..text.len().min(ENVELOPE_BYTES + SEALED_BYTES + TAG_BYTES)).filter(|t| t.len() > ENVELOPE_BYTES)
}

/// Digest of an address and port, never 0. A collision makes two sources look equal, and the newer session is used.
fn address_digest(address: SocketAddr) -> u64 {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    let mixed = ((ip >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ip as u64;
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(address.port())).max(1)
}

/// Digest of the relays of a path, never 0. A collision is harmless: replies keep the previous path.
fn relays_digest([a, b, c]: [u32; RELAYS_MAX]) -> u64 {
    let mixed = (u64::from(a) << 32 | u64::from(b)) ^ u64::from(c).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(permits: &QueuePermits) -> Session {
        let keys = Keys { cipher: Cipher::preferred(), send: [1; 32], receive: [2; 32] };
        let mut session = Session::new(Member(7), 1, 2, Instant::ZERO, true, &keys).unwrap();
        session.set_window_permits(permits);
        session
    }

    /// Receives the first frame of every queue and packet number space; returns the number of accepted frames.
    fn accept_all(session: &Session) -> usize {
        let all = (0..QUEUES_MAX as u8).flat_map(|queue| (0..SPACES as u8).map(move |space| (queue, space)));
        all.filter(|(queue, space)| session.accept(Number { queue: *queue, space: *space, sequence: 0 }, 0).is_ok())
            .count()
    }

    #[test]
    fn sessions_with_one_peer_share_a_limited_number_of_replay_windows() {
        let permits = QueuePermits::new(WINDOWS_MAX);
        let [first, second] = [0, 1].map(|_| session(&permits));
        let direct = Number { queue: 0, space: 0, sequence: 0 };
        assert_eq!(first.accept(direct, 0), Ok(1));
        assert_eq!(accept_all(&second), WINDOWS_MAX - 1);
        // Spaces with a window continue; spaces without one accept no frames.
        assert_eq!(first.accept(Number { sequence: 1, ..direct }, 0), Ok(1));
        assert_eq!(first.accept(direct, 0), Err(Stale::Replayed));
        assert_eq!(first.accept(Number { space: 1, ..direct }, 0), Err(Stale::TooOld));
        // A dropped session returns its permits.
        drop(second);
        assert_eq!(accept_all(&first), WINDOWS_MAX - 1);
    }
}
