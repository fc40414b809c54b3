//! What keeps a flood of handshakes from costing a member its CPU: a first code that only those can make who know our public key, a second
//! that only those can make who receive at the address that they claim. The construction is WireGuard's (section 5.3 of its paper).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::rand;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use units::Instant;
use wire::overlay::{Cookie, MAC_BYTES, Macs};

use crate::identity::PublicKey;

/// How long a cookie is good.
const COOKIE_LIFE: Duration = Duration::from_secs(120);
/// Initiations a second that are answered without a cookie; each costs some 150 microseconds.
const UNDER_LOAD: f64 = 100.0;

/// Keys that follow from a member's public key.
pub(crate) struct MacKeys {
    mac: [u8; 32],
    cookie: [u8; 32],
}

impl MacKeys {
    pub(crate) fn of(owner: &PublicKey) -> Self {
        Self::of_exchange(&owner.exchange())
    }

    /// From the public key in its Montgomery form.
    pub(crate) fn of_exchange(owner: &[u8; 32]) -> Self {
        let key = |label: &[u8]| Sha256::new().chain_update(label).chain_update(owner).finalize().into();
        Self { mac: key(b"longhaul overlay mac1"), cookie: key(b"longhaul overlay cookie") }
    }

    fn cookie_key(&self) -> Option<LessSafeKey> {
        UnboundKey::new(&CHACHA20_POLY1305, &self.cookie).ok().map(LessSafeKey::new)
    }

    /// Writes the codes of a datagram to the owner of these keys.
    pub(crate) fn write(&self, datagram: &mut [u8], cookie: Option<&[u8; MAC_BYTES]>) {
        let end = datagram.len();
        let Some(body) = end.checked_sub(2 * MAC_BYTES) else { return };
        let first = code(&self.mac, &datagram[..body]);
        datagram[body..body + MAC_BYTES].copy_from_slice(&first);
        if let Some(cookie) = cookie {
            let second = code(cookie, &datagram[..end - MAC_BYTES]);
            datagram[end - MAC_BYTES..].copy_from_slice(&second);
        }
    }

    /// Whether the first code of a datagram to the owner is right. Cheap: half a microsecond.
    pub(crate) fn knows_us(&self, datagram: &[u8]) -> bool {
        Macs::of(datagram).is_some_and(|m| same(&code(&self.mac, m.body), &m.first))
    }

    /// Opens a cookie that the owner sent in answer to a datagram with this first code.
    pub(crate) fn open_cookie(&self, cookie: &Cookie, first: &[u8; MAC_BYTES]) -> Option<[u8; MAC_BYTES]> {
        let (nonce, sealed) = cookie.sealed.split_first_chunk::<12>()?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let text = self.cookie_key()?.open_in_place(nonce, Aad::from(first), &mut sealed).ok()?;
        (&*text).try_into().ok()
    }
}

/// What to do with an initiation whose first code is right.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Answer,
    /// Too many: send this instead.
    SendCookie(Cookie),
    Drop,
}

/// Counts initiations, and asks for cookies when there are too many.
pub(crate) struct Guard {
    keys: MacKeys,
    secret: [u8; 32],
    secret_since: Instant,
    /// Initiations of the last second or so: a bucket that leaks.
    level: f64,
    level_at: Instant,
}

impl Guard {
    pub(crate) fn new(own: &PublicKey, now: Instant) -> Option<Self> {
        let mut secret = [0; 32];
        rand::fill(&mut secret).ok()?;
        Some(Self { keys: MacKeys::of(own), secret, secret_since: now, level: 0.0, level_at: now })
    }

    /// Decides about an initiation from `from`, whose first code is right.
    pub(crate) fn admit(&mut self, now: Instant, from: SocketAddr, receiver: u32, datagram: &[u8]) -> Admission {
        let passed = now.saturating_since(self.level_at).as_secs_f64();
        self.level = (self.level - passed * UNDER_LOAD).max(0.0) + 1.0;
        self.level_at = now;
        if self.level <= UNDER_LOAD {
            return Admission::Answer;
        }
        self.level = self.level.min(2.0 * UNDER_LOAD);
        let Some(macs) = Macs::of(datagram) else { return Admission::Drop };
        let cookie = self.cookie(now, from);
        if same(&code(&cookie, Macs::with_first(datagram)), &macs.second) {
            return Admission::Answer;
        }
        self.sealed(&cookie, &macs.first)
            .map_or(Admission::Drop, |sealed| Admission::SendCookie(Cookie { receiver, sealed }))
    }

    /// The cookie of an address and port: a function of our secret, so nothing is kept for who asks.
    fn cookie(&mut self, now: Instant, from: SocketAddr) -> [u8; MAC_BYTES] {
        if now.saturating_since(self.secret_since) > COOKIE_LIFE && rand::fill(&mut self.secret).is_ok() {
            self.secret_since = now;
        }
        let mut who = match from.ip() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        who.extend(from.port().to_be_bytes());
        code(&self.secret, &who)
    }

    fn sealed(&self, cookie: &[u8; MAC_BYTES], first: &[u8; MAC_BYTES]) -> Option<[u8; 44]> {
        let mut out = [0; 44];
        rand::fill(&mut out[..12]).ok()?;
        let nonce = Nonce::assume_unique_for_key(*out.first_chunk()?);
        out[12..28].copy_from_slice(cookie);
        let key = self.keys.cookie_key()?;
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(first), &mut out[12..28]).ok()?;
        out[28..].copy_from_slice(tag.as_ref());
        Some(out)
    }
}

/// HMAC-SHA256, its first 16 bytes.
fn code(key: &[u8], message: &[u8]) -> [u8; MAC_BYTES] {
    let mut out = [0; MAC_BYTES];
    if let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(key) {
        mac.update(message);
        out.copy_from_slice(&mac.finalize().into_bytes()[..MAC_BYTES]);
    }
    out
}

/// Compares in constant time.
fn same(a: &[u8; MAC_BYTES], b: &[u8; MAC_BYTES]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a, b).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;

    const A: &str = "192.0.2.1:1000";

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn under_load_only_those_are_answered_who_receive_at_their_address() {
        let own = Identity::from_seed(&[7; 32]).public();
        let keys = MacKeys::of(&own);
        let now = Instant::from_nanos(5_000_000_000);
        let mut guard = Guard::new(&own, now).unwrap();
        let mut datagram = [9; 100];
        keys.write(&mut datagram, None);
        assert!(keys.knows_us(&datagram));
        for _ in 0..100 {
            assert_eq!(guard.admit(now, address(A), 1, &datagram), Admission::Answer);
        }
        let Admission::SendCookie(cookie) = guard.admit(now, address(A), 77, &datagram) else { panic!("a cookie") };
        assert_eq!(cookie.receiver, 77);
        let first = Macs::of(&datagram).unwrap().first;
        let opened = keys.open_cookie(&cookie, &first).unwrap();
        assert_eq!(keys.open_cookie(&cookie, &[1; 16]), None, "it belongs to one datagram");
        keys.write(&mut datagram, Some(&opened));
        assert_eq!(guard.admit(now, address(A), 1, &datagram), Admission::Answer);
        for other in ["192.0.2.1:1001", "192.0.2.2:1000"] {
            assert!(matches!(guard.admit(now, address(other), 1, &datagram), Admission::SendCookie(_)), "{other}");
        }
        let later = now + Duration::from_secs(121);
        for _ in 0..100 {
            guard.admit(later, address(A), 1, &datagram);
        }
        assert!(matches!(guard.admit(later, address(A), 1, &datagram), Admission::SendCookie(_)), "cookies end");
    }

    #[test]
    fn a_datagram_for_another_member_is_none_for_us() {
        let [own, other] = [1, 2].map(|s| MacKeys::of(&Identity::from_seed(&[s; 32]).public()));
        let mut datagram = [3; 80];
        other.write(&mut datagram, None);
        assert!(other.knows_us(&datagram) && !own.knows_us(&datagram));
        datagram[4] ^= 1;
        assert!(!other.knows_us(&datagram));
        assert!(!own.knows_us(&[0; 10]));
    }
}
