//! What a member says, as it is signed: with a number that grows, so that an older word cannot take its place.

use std::net::{IpAddr, SocketAddr};

use route::Member;

use crate::identity::{Identity, PublicKey};
use crate::mesh::Claim;

/// Signed along with what is said, so that no signature of a member on something else passes for one on this.
const CONTEXT: &[u8] = b"longhaul gossip 3";
const SIGNATURE: usize = 64;
/// Longest of them, bytes: a certificate with what is around it fits.
pub(super) const LONGEST: usize = crate::certificate::LONGEST + 160;

const LINK: u8 = 1;
const CERTIFICATE: u8 = 2;
const ALIVE: u8 = 3;
const UP: u8 = 1;
const RELAYS: u8 = 2;
const WITH_TRAFFIC: u8 = 4;

/// What is said by whom.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Said {
    pub(super) by: Member,
    /// The number of the speaker's start; it forgot what it had said before.
    pub(super) start: u64,
    pub(super) number: u64,
    /// By the speaker's clock, which begins anywhere: tells how much older one word is than another.
    pub(super) at_ms: u64,
    pub(super) what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    /// On the speaker's link from `from`; no claim: it is down.
    Link { from: Member, claim: Option<Claim>, relays: bool },
    /// A certificate, and where its owner is reached; an empty one: nothing any more.
    Certificate { of: Member, endpoint: Option<SocketAddr>, text: String },
    /// Words of links that still hold: how many numbers before this one each was said. Where there are many, each part tells of some.
    Alive { part: u32, back: Vec<u32> },
}

/// What is said about: a later word about the same takes the place of the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Link(Member),
    Certificate(Member),
    Alive(u32),
}

impl Said {
    pub(super) fn subject(&self) -> Subject {
        match self.what {
            What::Link { from, .. } => Subject::Link(from),
            What::Certificate { of, .. } => Subject::Certificate(of),
            What::Alive { part, .. } => Subject::Alive(part),
        }
    }

    /// With the speaker's signature in front.
    pub(super) fn sign(&self, speaker: &Identity) -> Vec<u8> {
        let body = self.body();
        let signature = speaker.sign(&[CONTEXT, &body].concat());
        [&signature[..], &body].concat()
    }

    /// As it would be written behind the signature of another one.
    pub(super) fn with_signature(&self, of: &[u8]) -> Vec<u8> {
        [of.get(..SIGNATURE).unwrap_or_default(), &self.body()].concat()
    }

    /// Whether the owner of the key said these bytes.
    pub(super) fn is_signed(bytes: &[u8], by: &PublicKey) -> bool {
        let Some((signature, body)) = bytes.split_first_chunk::<SIGNATURE>() else { return false };
        by.verifies(&[CONTEXT, body].concat(), signature)
    }

    /// Reads it, whoever signed it.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.get(SIGNATURE..)?;
        let said = Self {
            by: Member(u32::from_be_bytes(take(&mut rest)?)),
            start: u64::from_be_bytes(take(&mut rest)?),
            number: u64::from_be_bytes(take(&mut rest)?),
            at_ms: u64::from_be_bytes(take(&mut rest)?),
            what: What::read(&mut rest)?,
        };
        rest.is_empty().then_some(said)
    }

    fn body(&self) -> Vec<u8> {
        let mut b = self.by.0.to_be_bytes().to_vec();
        for number in [self.start, self.number, self.at_ms] {
            b.extend(number.to_be_bytes());
        }
        match &self.what {
            What::Link { from, claim, relays } => {
                b.push(LINK);
                b.extend(from.0.to_be_bytes());
                let with_traffic = claim.is_some_and(|c| c.with_traffic);
                let flags = [(UP, claim.is_some()), (RELAYS, *relays), (WITH_TRAFFIC, with_traffic)];
                b.push(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag).sum());
                b.extend(claim.iter().flat_map(claim_bytes));
            }
            What::Certificate { of, endpoint, text } => {
                b.push(CERTIFICATE);
                b.extend(of.0.to_be_bytes());
                b.extend(endpoint_bytes(*endpoint));
                b.extend(text.as_bytes());
            }
            What::Alive { part, back } => {
                b.push(ALIVE);
                b.extend(part.to_be_bytes());
                b.extend(back.iter().flat_map(|n| n.to_be_bytes()));
            }
        }
        b
    }
}

impl What {
    fn read(rest: &mut &[u8]) -> Option<Self> {
        let [kind] = take(rest)?;
        let about = u32::from_be_bytes(take(rest)?);
        match kind {
            LINK => {
                let [flags] = take(rest)?;
                let with_traffic = flags & WITH_TRAFFIC != 0;
                let claim = if flags & UP == 0 { None } else { Some(Claim { with_traffic, ..read_claim(rest)? }) };
                Some(Self::Link { from: Member(about), claim, relays: flags & RELAYS != 0 })
            }
            CERTIFICATE => {
                let endpoint = read_endpoint(rest)?;
                let text = std::str::from_utf8(std::mem::take(rest)).ok()?.to_owned();
                Some(Self::Certificate { of: Member(about), endpoint, text })
            }
            ALIVE => {
                let mut back = Vec::new();
                while !rest.is_empty() {
                    back.push(u32::from_be_bytes(take(rest)?));
                }
                Some(Self::Alive { part: about, back })
            }
            _ => None,
        }
    }
}

fn claim_bytes(claim: &Claim) -> Vec<u8> {
    let mut b = u32::try_from(claim.rtt_us).unwrap_or(u32::MAX).to_be_bytes().to_vec();
    for share in [claim.loss, claim.low, claim.high, claim.frames] {
        b.extend((share as f32).to_be_bytes());
    }
    b.extend(claim.capacity_bps.unwrap_or(0).to_be_bytes());
    b.extend(claim.datagram.unwrap_or(0).to_be_bytes());
    b
}

fn read_claim(rest: &mut &[u8]) -> Option<Claim> {
    let rtt_us = u64::from(u32::from_be_bytes(take(rest)?));
    let mut number = || Some(f64::from(f32::from_be_bytes(take(rest)?))).filter(|x| x.is_finite());
    let (loss, low, high, frames) = (number()?, number()?, number()?, number()?);
    let capacity_bps = Some(u64::from_be_bytes(take(rest)?)).filter(|c| *c > 0);
    let datagram = Some(u16::from_be_bytes(take(rest)?)).filter(|d| *d > 0);
    let (with_traffic, age) = (false, std::time::Duration::ZERO);
    Some(Claim { rtt_us, loss, low, high, frames, capacity_bps, datagram, with_traffic, age })
}

fn endpoint_bytes(endpoint: Option<SocketAddr>) -> Vec<u8> {
    let Some(endpoint) = endpoint else { return vec![0] };
    let (family, address) = match endpoint.ip() {
        IpAddr::V4(ip) => (4, ip.octets().to_vec()),
        IpAddr::V6(ip) => (6, ip.octets().to_vec()),
    };
    [&[family], &address[..], &endpoint.port().to_be_bytes()].concat()
}

fn read_endpoint(rest: &mut &[u8]) -> Option<Option<SocketAddr>> {
    let [family] = take(rest)?;
    let ip = match family {
        0 => return Some(None),
        4 => IpAddr::from(take::<4>(rest)?),
        6 => IpAddr::from(take::<16>(rest)?),
        _ => return None,
    };
    Some(Some(SocketAddr::new(ip, u16::from_be_bytes(take(rest)?))))
}

/// Takes the first bytes off.
pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*first)
}
