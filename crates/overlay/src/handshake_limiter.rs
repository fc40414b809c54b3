//! Protection of the CPU against floods of handshakes. The first authentication code (`mac1`) proves that the sender
//! knows the public key of this member. The second code (`mac2`) proves that the sender receives at its source address.
//! Rate limits bound the initiations of each source. The construction is that of WireGuard (section 5.3 of its paper).

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

/// Lifetime of a cookie.
const COOKIE_LIFETIME: Duration = Duration::from_secs(120);
/// Maximum initiations per second that are answered without a cookie; each costs some 150 microseconds.
const UNVERIFIED_PER_S_MAX: f64 = 100.0;
/// Maximum initiations per second from one address with a cookie, and from one member over one relay: the limit of
/// WireGuard. Also the maximum cookies per second to one known endpoint.
const SOURCE_PER_S_MAX: f64 = 20.0;
/// Maximum initiations per second over one relay, from all initiators.
const RELAY_PER_S_MAX: f64 = 100.0;
/// Maximum initiations per second from all addresses with cookies: some 15 % of a CPU, for any number of addresses.
const VERIFIED_PER_S_MAX: f64 = 1000.0;
/// Maximum cookies per second to endpoints that are not known as those of members. It bounds the traffic that a flood
/// with forged source addresses can reflect. Each cookie costs some 15 microseconds.
const COOKIES_PER_S_MAX: f64 = 2000.0;
/// Maximum number of token buckets; the least recently used one makes room.
const BUCKETS_MAX: usize = 1024;

/// Keys of the authentication codes and of the cookies, derived from a member's public key.
#[derive(Clone)]
pub(crate) struct MacKeys {
    mac: [u8; 32],
    cookie: [u8; 32],
}

impl MacKeys {
    pub(crate) fn of(owner: &PublicKey) -> Self {
        Self::of_exchange(&owner.exchange())
    }

    /// Derives the keys from the public key in its Montgomery form.
    pub(crate) fn of_exchange(owner: &[u8; 32]) -> Self {
        let key = |label: &[u8]| Sha256::new().chain_update(label).chain_update(owner).finalize().into();
        Self { mac: key(b"longhaul overlay mac1"), cookie: key(b"longhaul overlay cookie") }
    }

    fn cookie_key(&self) -> Option<LessSafeKey> {
        UnboundKey::new(&CHACHA20_POLY1305, &self.cookie).ok().map(LessSafeKey::new)
    }

    /// Writes the codes of a datagram to the owner of these keys. Without a cookie the second code stays zero.
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

    /// Whether the first code of a datagram to the owner is valid. The check costs half a microsecond.
    pub(crate) fn mac1_is_valid(&self, datagram: &[u8]) -> bool {
        Macs::of(datagram).is_some_and(|m| same(&code(&self.mac, m.body), &m.first))
    }

    /// Decrypts a cookie that the owner sent in reply to a datagram with this first code.
    pub(crate) fn open_cookie(&self, cookie: &Cookie, first: &[u8; MAC_BYTES]) -> Option<[u8; MAC_BYTES]> {
        let (nonce, sealed) = cookie.sealed.split_first_chunk::<12>()?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let text = self.cookie_key()?.open_in_place(nonce, Aad::from(first), &mut sealed).ok()?;
        (&*text).try_into().ok()
    }
}

/// Decision about an initiation with a valid first code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Answer,
    /// The load is too high: a cookie reply instead of a response.
    SendCookie(Cookie),
    Drop,
}

/// Source of initiations that has a rate limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LimitKey {
    /// An IPv4 address, or a /64 of IPv6, all of whose addresses one host can have.
    Network(IpAddr),
    /// Cookies to a known endpoint of a member.
    KnownEndpoint(SocketAddr),
    /// Initiations over one relay.
    Relay(Member),
    /// Initiations of one member over one relay. A relay can forge the origin, so that the limit of a member applies to
    /// each relay separately.
    RelayedOrigin { origin: Member, relay: Member },
}

impl LimitKey {
    fn of(address: IpAddr) -> Self {
        Self::Network(wire::counted_network(address))
    }
}

/// Rate limits of the handshake: requires cookies under load, and limits each source.
pub(crate) struct HandshakeLimiter {
    keys: MacKeys,
    secrets: Secrets,
    /// Secret from which the cookies are derived.
    secret: [u8; 32],
    secret_since: Instant,
    /// All initiations.
    load: Bucket,
    /// Answered initiations with a cookie.
    verified: Bucket,
    /// Cookies to endpoints that are not known as those of members.
    cookies: Bucket,
    sources: BTreeMap<LimitKey, Bucket>,
    /// Known endpoints of members.
    member_endpoints: BTreeSet<SocketAddr>,
}

impl HandshakeLimiter {
    pub(crate) fn new(own: &PublicKey, mut secrets: Secrets, now: Instant) -> Self {
        Self {
            keys: MacKeys::of(own),
            secret: secrets.bytes(),
            secrets,
            secret_since: now,
            load: Bucket::new(now),
            verified: Bucket::new(now),
            cookies: Bucket::new(now),
            sources: BTreeMap::new(),
            member_endpoints: BTreeSet::new(),
        }
    }

    /// Sets the known endpoints of members, whose cookies have a limit of their own.
    pub(crate) fn set_member_endpoints(&mut self, all: impl Iterator<Item = SocketAddr>) {
        self.member_endpoints = all.map(canonical).collect();
    }

    /// Decides about an initiation with a valid first code. `receiver`: session identifier for the cookie reply.
    pub(crate) fn admit(&mut self, now: Instant, from: SocketAddr, receiver: u32, datagram: &[u8]) -> Admission {
        if !self.count_initiation(now) {
            return Admission::Answer;
        }
        let Some(macs) = Macs::of(datagram) else { return Admission::Drop };
        if self.has_valid_cookie(now, from, datagram, &macs.second) {
            let is_admitted = self.takes(now, LimitKey::of(from.ip()), SOURCE_PER_S_MAX)
                && self.verified.takes(now, Limit::one_second_of(VERIFIED_PER_S_MAX), 1.0);
            return if is_admitted { Admission::Answer } else { Admission::Drop };
        }
        if !self.admits_cookie(now, from) {
            return Admission::Drop;
        }
        let cookie = self.cookie(now, from);
        self.sealed(&cookie, &macs.first)
            .map_or(Admission::Drop, |sealed| Admission::SendCookie(Cookie { receiver, sealed }))
    }

    fn has_valid_cookie(&mut self, now: Instant, from: SocketAddr, datagram: &[u8], second: &[u8; MAC_BYTES]) -> bool {
        // The code is zero without a cookie.
        *second != [0; MAC_BYTES] && same(&code(&self.cookie(now, from), Macs::with_first(datagram)), second)
    }

    fn admits_cookie(&mut self, now: Instant, from: SocketAddr) -> bool {
        let from = canonical(from);
        if self.member_endpoints.contains(&from) && self.takes(now, LimitKey::KnownEndpoint(from), SOURCE_PER_S_MAX) {
            return true;
        }
        // The burst of 100 ms is shorter than the interval of 200 ms and more between two attempts of an initiator.
        self.cookies.takes(now, Limit { per_second: COOKIES_PER_S_MAX, burst: COOKIES_PER_S_MAX / 10.0 }, 1.0)
    }

    /// Counts an initiation; returns whether the load requires a cookie. It does so for at most a second after a flood.
    fn count_initiation(&mut self, now: Instant) -> bool {
        let is_full = self.is_flooded(now);
        self.load.takes(
            now,
            Limit { burst: 2.0 * UNVERIFIED_PER_S_MAX, ..Limit::one_second_of(UNVERIFIED_PER_S_MAX) },
            1.0,
        );
        is_full
    }

    /// Whether the rate of initiations exceeds the limit without cookies.
    pub(crate) fn is_flooded(&mut self, now: Instant) -> bool {
        self.load.room(now, Limit::one_second_of(UNVERIFIED_PER_S_MAX)) < 1.0
    }

    /// Whether to answer an initiation that `relay` forwarded and attributes to `origin`. Cookies are not required, as
    /// the session with the relay authenticates it.
    pub(crate) fn admit_relayed(&mut self, now: Instant, relay: Member, origin: Member) -> bool {
        self.takes(now, LimitKey::RelayedOrigin { origin, relay }, SOURCE_PER_S_MAX)
            && self.takes(now, LimitKey::Relay(relay), RELAY_PER_S_MAX)
    }

    fn takes(&mut self, now: Instant, key: LimitKey, per_second: f64) -> bool {
        if self.sources.len() >= BUCKETS_MAX
            && !self.sources.contains_key(&key)
            && let Some(oldest) = self.sources.iter().min_by_key(|(_, bucket)| bucket.used_at()).map(|(key, _)| *key)
        {
            self.sources.remove(&oldest);
        }
        let bucket = self.sources.entry(key).or_insert_with(|| Bucket::new(now));
        bucket.takes(now, Limit::one_second_of(per_second), 1.0)
    }

    /// The cookie of an address and port: a function of the secret, without state for each initiator.
    fn cookie(&mut self, now: Instant, from: SocketAddr) -> [u8; MAC_BYTES] {
        if now.saturating_since(self.secret_since) > COOKIE_LIFETIME {
            self.secret = self.secrets.bytes();
            self.secret_since = now;
        }
        let mut source = match from.ip() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        source.extend(from.port().to_be_bytes());
        code(&self.secret, &source)
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

/// Maps the IPv4 addresses of a dual-stack socket from their IPv6 form.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// HMAC-SHA256, truncated to 16 bytes.
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
    fn under_load_only_initiators_that_receive_at_their_address_are_answered() {
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
        assert_eq!(keys.open_cookie(&cookie, &[1; 16]), None, "a cookie belongs to one datagram");
        keys.write(&mut datagram, Some(&opened));
        assert_eq!(limiter.admit(now, address(A), 1, &datagram), Admission::Answer);
        for other in ["192.0.2.1:1001", "192.0.2.2:1000"] {
            assert!(matches!(limiter.admit(now, address(other), 1, &datagram), Admission::SendCookie(_)), "{other}");
        }
        let later = now + Duration::from_secs(121);
        for _ in 0..100 {
            limiter.admit(later, address(A), 1, &datagram);
        }
        assert!(matches!(limiter.admit(later, address(A), 1, &datagram), Admission::SendCookie(_)), "a cookie expires");
    }

    /// Sends initiations with a cookie from one address, `per_second` for `seconds`; returns the number of admitted
    /// ones.
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
    fn initiations_with_a_cookie_are_rate_limited_by_network() {
        let own = Identity::from_seed(&[7; 32]).public();
        let keys = MacKeys::of(&own);
        let now = Instant::from_nanos(5_000_000_000);
        let mut limiter = HandshakeLimiter::new(&own, Secrets::new([9; 32]), now);
        let answered = flood(&mut limiter, &keys, address(A), now, 20_000, 10);
        // 100 before cookies are required, the burst of 20, and 20 per second.
        assert!((300..=325).contains(&answered), "{answered} in 10 s");
        let now = now + Duration::from_secs(10);
        for other in ["198.51.100.1:1000", "[::ffff:198.51.100.2]:1000", "[2001:db8::1]:1000"] {
            assert_eq!(flood(&mut limiter, &keys, address(other), now, 1000, 1), 39, "{other}");
        }
        // All ports of an address and all addresses of an IPv6 /64 share a limit.
        for same in ["192.0.2.1:2000", "[::ffff:192.0.2.1]:1000", "[2001:db8::9:1]:1000"] {
            flood(&mut limiter, &keys, address(A), now, 1000, 1);
            let from_now = now + Duration::from_secs(1);
            assert!(flood(&mut limiter, &keys, address(same), from_now, 20_000, 1) <= 21, "{same}");
        }
    }

    #[test]
    fn cookies_to_unknown_endpoints_are_limited_and_members_still_get_theirs() {
        let own = Identity::from_seed(&[7; 32]).public();
        let keys = MacKeys::of(&own);
        let begin = Instant::from_nanos(5_000_000_000);
        let mut limiter = HandshakeLimiter::new(&own, Secrets::new([9; 32]), begin);
        limiter.set_member_endpoints([address(A)].into_iter());
        let mut datagram = [9; 100];
        keys.write(&mut datagram, None);
        let mut forged = datagram;
        forged[84..].fill(1);
        let sent = |admission| usize::from(matches!(admission, Admission::SendCookie(_)));
        let (mut to_unknown, mut to_member, mut to_port) = (0, 0, 0);
        // 10,000 initiations per second for ten seconds, with and without a second code. Every 100 ms the member
        // itself, by a dual-stack socket, and another port at its address.
        for n in 0..100_000_u64 {
            let now = begin + Duration::from_micros(100 * n);
            if n % 997 == 500 {
                to_port += sent(limiter.admit(now, address("192.0.2.1:1001"), 1, &datagram));
                to_member += sent(limiter.admit(now, address("[::ffff:192.0.2.1]:1000"), 1, &datagram));
            }
            let from = SocketAddr::new(std::net::Ipv4Addr::from_bits(0x0a00_0000 + n as u32).into(), 7);
            to_unknown += sent(limiter.admit(now, from, 1, if n % 2 == 0 { &datagram } else { &forged }));
        }
        // The burst, and 2000 per second.
        assert!((20_000..=20_200).contains(&(to_unknown + to_port)), "{to_unknown} and {to_port} in 10 s");
        assert_eq!(to_member, 100);
        // The limit admits a fifth of all.
        assert!((18..=22).contains(&to_port), "{to_port}");
    }

    #[test]
    fn many_addresses_exceed_neither_the_rate_limit_nor_the_number_of_buckets() {
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
        assert!(limiter.sources.len() <= BUCKETS_MAX);
    }

    #[test]
    fn relayed_initiations_are_limited_by_relay_and_by_origin() {
        let own = Identity::from_seed(&[7; 32]).public();
        let now = Instant::from_nanos(5_000_000_000);
        let mut limiter = HandshakeLimiter::new(&own, Secrets::new([9; 32]), now);
        let relay = Member(8);
        // Each at another time, so that the least recently used bucket is defined.
        let one =
            (0..20_000).filter(|n| limiter.admit_relayed(now + Duration::from_nanos(*n), relay, Member(1))).count();
        assert_eq!(one, 20);
        let now = now + Duration::from_nanos(20_000);
        assert!(limiter.admit_relayed(now, relay, Member(2)), "another origin over the same relay");
        assert!(limiter.admit_relayed(now, Member(9), Member(1)), "the same origin over another relay");
        let many = (0..20_000_u32)
            .filter(|n| limiter.admit_relayed(now + Duration::from_nanos(u64::from(*n)), relay, Member(100 + n)));
        let many = many.count();
        assert_eq!(many, 79);
        assert!(limiter.admit_relayed(now, Member(9), Member(3)));
    }

    #[test]
    fn the_first_code_is_valid_for_one_receiver_only() {
        let [own, other] = [1, 2].map(|s| MacKeys::of(&Identity::from_seed(&[s; 32]).public()));
        let mut datagram = [3; 80];
        other.write(&mut datagram, None);
        assert!(other.mac1_is_valid(&datagram) && !own.mac1_is_valid(&datagram));
        datagram[4] ^= 1;
        assert!(!other.mac1_is_valid(&datagram));
        assert!(!own.mac1_is_valid(&[0; 10]));
    }
}
