//! What keeps a flood of handshakes from costing a member its CPU: a first code that only those can make who know our public key, a second
//! that only those can make who receive at the address that they claim, and a bound on what comes from each address. The construction is
//! WireGuard's (section 5.3 of its paper).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use hmac::{Hmac, KeyInit, Mac};
use route::Member;
use sha2::{Digest, Sha256};
use units::Instant;
use wire::overlay::{Cookie, MAC_BYTES, Macs};

use crate::bucket::{Bucket, Limit};
use crate::identity::PublicKey;
use crate::secrets::Secrets;

/// How long a cookie is good.
const COOKIE_LIFE: Duration = Duration::from_secs(120);
/// Initiations a second that are answered without a cookie; each costs some 150 microseconds.
const UNDER_LOAD: f64 = 100.0;
/// Initiations a second from one address that has shown a cookie, and from one member over one relay: WireGuard's bound.
const FROM_ONE: f64 = 20.0;
/// The same over one relay, whoever calls.
const OVER_ONE_RELAY: f64 = 100.0;
/// And from all addresses with cookies: some 15 % of a CPU, however many addresses somebody has.
const IN_ALL: f64 = 1000.0;
/// Cookies a second to where no member is known to be: what a flood has a member send to those whose addresses it forges. Each costs some fifteen microseconds.
const COOKIES: f64 = 2000.0;
/// Callers that are counted one by one; the one that called longest ago makes room.
const MOST_CALLERS: usize = 1024;

/// Keys that follow from a member's public key.
#[derive(Clone)]
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
    pub(crate) fn mac1_is_valid(&self, datagram: &[u8]) -> bool {
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

/// On whose account an initiation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LimitKey {
    /// An IPv4 address, or the first half of an IPv6 address: one host may have all of the other.
    Network(IpAddr),
    /// Cookies to where a member is known to be.
    Known(SocketAddr),
    Relay(Member),
    /// A relay may say of anybody that he calls, so that what it says counts for what it hands over alone.
    OverRelay {
        origin: Member,
        relay: Member,
    },
}

impl LimitKey {
    fn of(address: IpAddr) -> Self {
        Self::Network(wire::counted_network(address))
    }
}

/// Counts initiations, asks for cookies when there are too many, and bounds what each address may cost.
pub(crate) struct HandshakeLimiter {
    keys: MacKeys,
    secrets: Secrets,
    secret: [u8; 32],
    secret_since: Instant,
    /// Initiations of the last second or so.
    load: Bucket,
    /// Those of them that came with a cookie and were answered.
    in_all: Bucket,
    /// Cookies to where no member is known to be.
    cookies: Bucket,
    callers: BTreeMap<LimitKey, Bucket>,
    /// Where members are known to be.
    known: BTreeSet<SocketAddr>,
}

impl HandshakeLimiter {
    pub(crate) fn new(own: &PublicKey, mut secrets: Secrets, now: Instant) -> Self {
        Self {
            keys: MacKeys::of(own),
            secret: secrets.bytes(),
            secrets,
            secret_since: now,
            load: Bucket::new(now),
            in_all: Bucket::new(now),
            cookies: Bucket::new(now),
            callers: BTreeMap::new(),
            known: BTreeSet::new(),
        }
    }

    /// Where members are: they are sent cookies however many others ask for some.
    pub(crate) fn set_known(&mut self, all: impl Iterator<Item = SocketAddr>) {
        self.known = all.map(canonical).collect();
    }

    /// Decides about an initiation from `from`, whose first code is right.
    pub(crate) fn admit(&mut self, now: Instant, from: SocketAddr, receiver: u32, datagram: &[u8]) -> Admission {
        if !self.is_under_load(now) {
            return Admission::Answer;
        }
        let Some(macs) = Macs::of(datagram) else { return Admission::Drop };
        if self.shows_cookie(now, from, datagram, &macs.second) {
            let may = self.takes(now, LimitKey::of(from.ip()), FROM_ONE)
                && self.in_all.takes(now, Limit::a_second_of(IN_ALL), 1.0);
            return if may { Admission::Answer } else { Admission::Drop };
        }
        if !self.may_have_cookie(now, from) {
            return Admission::Drop;
        }
        let cookie = self.cookie(now, from);
        self.sealed(&cookie, &macs.first)
            .map_or(Admission::Drop, |sealed| Admission::SendCookie(Cookie { receiver, sealed }))
    }

    fn shows_cookie(&mut self, now: Instant, from: SocketAddr, datagram: &[u8], second: &[u8; MAC_BYTES]) -> bool {
        // Who has none leaves zeros.
        *second != [0; MAC_BYTES] && same(&code(&self.cookie(now, from), Macs::with_first(datagram)), second)
    }

    fn may_have_cookie(&mut self, now: Instant, from: SocketAddr) -> bool {
        let from = canonical(from);
        if self.known.contains(&from) && self.takes(now, LimitKey::Known(from), FROM_ONE) {
            return true;
        }
        // Those of a tenth of a second at once: who calls in vain calls again after two tenths and more.
        self.cookies.takes(now, Limit { per_second: COOKIES, most: COOKIES / 10.0 }, 1.0)
    }

    /// Whether one more initiation is one too many; after a flood, for a second more at most.
    fn is_under_load(&mut self, now: Instant) -> bool {
        let is_full = self.is_flooded(now);
        self.load.takes(now, Limit { most: 2.0 * UNDER_LOAD, ..Limit::a_second_of(UNDER_LOAD) }, 1.0);
        is_full
    }

    /// Whether more initiations have come lately than are answered without a cookie.
    pub(crate) fn is_flooded(&mut self, now: Instant) -> bool {
        self.load.room(now, Limit::a_second_of(UNDER_LOAD)) < 1.0
    }

    /// Whether an initiation is answered that `relay` handed over, by its word from `origin`. No cookies: who hands it over has a session.
    pub(crate) fn admit_relayed(&mut self, now: Instant, relay: Member, origin: Member) -> bool {
        self.takes(now, LimitKey::OverRelay { origin, relay }, FROM_ONE)
            && self.takes(now, LimitKey::Relay(relay), OVER_ONE_RELAY)
    }

    fn takes(&mut self, now: Instant, account: LimitKey, per_second: f64) -> bool {
        if self.callers.len() >= MOST_CALLERS
            && !self.callers.contains_key(&account)
            && let Some(oldest) =
                self.callers.iter().min_by_key(|(_, bucket)| bucket.used_at()).map(|(account, _)| *account)
        {
            self.callers.remove(&oldest);
        }
        let bucket = self.callers.entry(account).or_insert_with(|| Bucket::new(now));
        bucket.takes(now, Limit::a_second_of(per_second), 1.0)
    }

    /// The cookie of an address and port: a function of our secret, so nothing is kept for who asks.
    fn cookie(&mut self, now: Instant, from: SocketAddr) -> [u8; MAC_BYTES] {
        if now.saturating_since(self.secret_since) > COOKIE_LIFE {
            self.secret = self.secrets.bytes();
            self.secret_since = now;
        }
        let mut who = match from.ip() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        who.extend(from.port().to_be_bytes());
        code(&self.secret, &who)
    }

    fn sealed(&mut self, cookie: &[u8; MAC_BYTES], first: &[u8; MAC_BYTES]) -> Option<[u8; 44]> {
        let mut out = [0; 44];
        self.secrets.fill(&mut out[..12]);
        let nonce = Nonce::assume_unique_for_key(*out.first_chunk()?);
        out[12..28].copy_from_slice(cookie);
        let key = self.keys.cookie_key()?;
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(first), &mut out[12..28]).ok()?;
        out[28..].copy_from_slice(tag.as_ref());
        Some(out)
    }
}

/// A socket for both families gives IPv4 addresses as IPv6 ones.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
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
        let mut limiter = HandshakeLimiter::new(&own, Secrets::new([9; 32]), now);
        let mut datagram = [9; 100];
        keys.write(&mut datagram, None);
        assert!(keys.mac1_is_valid(&datagram));
        for _ in 0..100 {
            assert_eq!(limiter.admit(now, address(A), 1, &datagram), Admission::Answer);
        }
        let Admission::SendCookie(cookie) = limiter.admit(now, address(A), 77, &datagram) else { panic!("a cookie") };
        assert_eq!(cookie.receiver, 77);
        let first = Macs::of(&datagram).unwrap().first;
        let opened = keys.open_cookie(&cookie, &first).unwrap();
        assert_eq!(keys.open_cookie(&cookie, &[1; 16]), None, "it belongs to one datagram");
        keys.write(&mut datagram, Some(&opened));
        assert_eq!(limiter.admit(now, address(A), 1, &datagram), Admission::Answer);
        for other in ["192.0.2.1:1001", "192.0.2.2:1000"] {
            assert!(matches!(limiter.admit(now, address(other), 1, &datagram), Admission::SendCookie(_)), "{other}");
        }
        let later = now + Duration::from_secs(121);
        for _ in 0..100 {
            limiter.admit(later, address(A), 1, &datagram);
        }
        assert!(matches!(limiter.admit(later, address(A), 1, &datagram), Admission::SendCookie(_)), "cookies end");
    }

    /// Initiations by this address with its cookie, `per_second` for `seconds`; gives how many were answered.
    fn flood(
        limiter: &mut HandshakeLimiter,
        keys: &MacKeys,
        from: SocketAddr,
        begin: Instant,
        per_second: u64,
        seconds: u64,
    ) -> u64 {
        let mut datagram = [9; 100];
        (0..per_second * seconds)
            .map(|n| {
                let now = begin + Duration::from_nanos(n * 1_000_000_000 / per_second);
                let cookie = limiter.cookie(now, from);
                keys.write(&mut datagram, Some(&cookie));
                u64::from(limiter.admit(now, from, 1, &datagram) == Admission::Answer)
            })
            .sum()
    }

    #[test]
    fn who_receives_at_its_address_is_answered_no_more_often_than_others_can_bear() {
        let own = Identity::from_seed(&[7; 32]).public();
        let keys = MacKeys::of(&own);
        let now = Instant::from_nanos(5_000_000_000);
        let mut limiter = HandshakeLimiter::new(&own, Secrets::new([9; 32]), now);
        let answered = flood(&mut limiter, &keys, address(A), now, 20_000, 10);
        // A hundred before it is a flood, a bucketful, and what leaks of it.
        assert!((300..=325).contains(&answered), "{answered} in 10 s");
        let now = now + Duration::from_secs(10);
        for other in ["198.51.100.1:1000", "[::ffff:198.51.100.2]:1000", "[2001:db8::1]:1000"] {
            assert_eq!(flood(&mut limiter, &keys, address(other), now, 1000, 1), 39, "{other}");
        }
        // What belongs to one host shares a bucket, ports and the second half of an IPv6 address.
        for same in ["192.0.2.1:2000", "[::ffff:192.0.2.1]:1000", "[2001:db8::9:1]:1000"] {
            flood(&mut limiter, &keys, address(A), now, 1000, 1);
            let from_now = now + Duration::from_secs(1);
            assert!(flood(&mut limiter, &keys, address(same), from_now, 20_000, 1) <= 21, "{same}");
        }
    }

    #[test]
    fn who_is_no_member_is_sent_few_cookies_and_members_are_sent_theirs_all_the_same() {
        let own = Identity::from_seed(&[7; 32]).public();
        let keys = MacKeys::of(&own);
        let begin = Instant::from_nanos(5_000_000_000);
        let mut limiter = HandshakeLimiter::new(&own, Secrets::new([9; 32]), begin);
        limiter.set_known([address(A)].into_iter());
        let mut datagram = [9; 100];
        keys.write(&mut datagram, None);
        let mut forged = datagram;
        forged[84..].fill(1);
        let sent = |admission| usize::from(matches!(admission, Admission::SendCookie(_)));
        let (mut to_strangers, mut to_member, mut to_port) = (0, 0, 0);
        // 10,000 a second for ten seconds, with a second code and without; now and then in between the member itself, by a socket for both families, and
        // somebody at its address with another port.
        for n in 0..100_000_u64 {
            let now = begin + Duration::from_micros(100 * n);
            if n % 997 == 500 {
                to_port += sent(limiter.admit(now, address("192.0.2.1:1001"), 1, &datagram));
                to_member += sent(limiter.admit(now, address("[::ffff:192.0.2.1]:1000"), 1, &datagram));
            }
            let from = SocketAddr::new(std::net::Ipv4Addr::from_bits(0x0a00_0000 + n as u32).into(), 7);
            to_strangers += sent(limiter.admit(now, from, 1, if n % 2 == 0 { &datagram } else { &forged }));
        }
        // A bucketful, and what leaks of it.
        assert!((20_000..=20_200).contains(&(to_strangers + to_port)), "{to_strangers} and {to_port} in 10 s");
        assert_eq!(to_member, 100);
        // There is room for each fifth.
        assert!((18..=22).contains(&to_port), "{to_port}");
    }

    #[test]
    fn many_addresses_neither_take_the_cpu_nor_fill_the_memory() {
        let own = Identity::from_seed(&[7; 32]).public();
        let keys = MacKeys::of(&own);
        let now = Instant::from_nanos(5_000_000_000);
        let mut limiter = HandshakeLimiter::new(&own, Secrets::new([9; 32]), now);
        let answered: u64 = (0..5000)
            .map(|n| {
                let from = SocketAddr::new(std::net::Ipv4Addr::from_bits(0x0a00_0000 + n).into(), 7);
                flood(&mut limiter, &keys, from, now + Duration::from_micros(u64::from(n) * 200), 1, 1)
            })
            .sum();
        assert!((1000..=2200).contains(&answered), "{answered} in a second");
        assert!(limiter.callers.len() <= MOST_CALLERS);
    }

    #[test]
    fn what_relays_hand_over_is_bounded_by_relay_and_by_who_calls() {
        let own = Identity::from_seed(&[7; 32]).public();
        let now = Instant::from_nanos(5_000_000_000);
        let mut limiter = HandshakeLimiter::new(&own, Secrets::new([9; 32]), now);
        let relay = Member(8);
        // No two at the same instant, so that who called longest ago is known.
        let one =
            (0..20_000).filter(|n| limiter.admit_relayed(now + Duration::from_nanos(*n), relay, Member(1))).count();
        assert_eq!(one, 20);
        let now = now + Duration::from_nanos(20_000);
        assert!(limiter.admit_relayed(now, relay, Member(2)), "others call over the same relay");
        assert!(limiter.admit_relayed(now, Member(9), Member(1)), "and what one relay says counts for it alone");
        let many = (0..20_000_u32)
            .filter(|n| limiter.admit_relayed(now + Duration::from_nanos(u64::from(*n)), relay, Member(100 + n)));
        let many = many.count();
        assert_eq!(many, 79);
        assert!(limiter.admit_relayed(now, Member(9), Member(3)));
    }

    #[test]
    fn a_datagram_for_another_member_is_none_for_us() {
        let [own, other] = [1, 2].map(|s| MacKeys::of(&Identity::from_seed(&[s; 32]).public()));
        let mut datagram = [3; 80];
        other.write(&mut datagram, None);
        assert!(other.mac1_is_valid(&datagram) && !own.mac1_is_valid(&datagram));
        datagram[4] ^= 1;
        assert!(!other.mac1_is_valid(&datagram));
        assert!(!own.mac1_is_valid(&[0; 10]));
    }
}
