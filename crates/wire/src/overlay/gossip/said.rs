use std::net::{IpAddr, SocketAddr};

use super::super::Message;
use super::take;

/// Signed along with what is said, so that no signature of a member on something else passes for one on this.
pub const SIGNED_CONTEXT: &[u8] = b"longhaul gossip 4";
/// Of what a member passes on for others: no bound.
pub const UNBOUNDED: u64 = u64::MAX;
/// Length of the signature in front of what is said.
pub const SIGNATURE_BYTES: usize = 64;
/// Most bytes of a word with its signature: a certificate with what is around it fits.
pub const SAID_MAX: usize = Message::CERTIFICATE_DATA + 160;

const LINK: u8 = 1;
const CERTIFICATE: u8 = 2;
const ALIVE: u8 = 3;
const UP: u8 = 1;
const WITH_TRAFFIC: u8 = 4;

/// What is said by whom, with a number that grows, so that an older word cannot take its place: `by` u32 | `start` u64 | `number` u64 | `at_ms` u64 |
/// kind u8 | what it is about u32 | the rest as [`What`] says.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// Member that says it.
    pub by: u32,
    /// The number of the speaker's start; it forgot what it had said before.
    pub start: u64,
    /// Number of the word, over all starts.
    pub number: u64,
    /// By the speaker's clock, which begins anywhere: tells how much older one word is than another.
    pub at_ms: u64,
    /// What it says.
    pub what: What,
}

/// What a member says.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// On the speaker's link from `from`; no claim: it is down. `flags` u8 | `relayed_bps` u64 | the claim.
    Link {
        /// Member at the other end.
        from: u32,
        /// What it measured there.
        claim: Option<Claim>,
        /// Most that the speaker passes on of what each member hands over, b/s; 0: nothing; [`UNBOUNDED`]: all that comes.
        relayed_bps: u64,
    },
    /// A certificate, and where its owner is reached; an empty one: nothing any more. Family u8 (0, 4, 6) | address | port u16 | text to the end.
    Certificate {
        /// Its owner.
        of: u32,
        /// Where its owner is reached.
        endpoint: Option<SocketAddr>,
        /// The certificate.
        text: String,
    },
    /// Words of links that still hold. Where there are many, each part tells of some.
    Alive {
        /// Which part.
        part: u32,
        /// How many numbers before this one each of them was said, u32 each to the end.
        back: Vec<u32>,
    },
}

/// What a member says about a link on which it receives: `rtt_us` u32 | `loss`, `low`, `high`, `frames` f32 | `capacity_bps` u64 | `datagram` u16; 0 of the last
/// two: unknown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    /// Round trip, microseconds.
    pub rtt_us: u32,
    /// Share of the frames that is lost.
    pub loss: f32,
    /// Lower end of its interval.
    pub low: f32,
    /// Upper end of its interval.
    pub high: f32,
    /// How many frames tell of it.
    pub frames: f32,
    /// What the link carries, b/s of IP.
    pub capacity_bps: Option<u64>,
    /// Largest datagram that came on the link, IP bytes.
    pub datagram: Option<u16>,
    /// Whether who says it has sent packets over the overlay lately.
    pub with_traffic: bool,
}

/// What is said about: a later word about the same takes the place of the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The link from a member.
    Link(u32),
    /// The certificate of a member.
    Certificate(u32),
    /// A part of what holds.
    Alive(u32),
}

impl Said {
    /// What it is about.
    pub fn subject(&self) -> Subject {
        match self.what {
            What::Link { from, .. } => Subject::Link(from),
            What::Certificate { of, .. } => Subject::Certificate(of),
            What::Alive { part, .. } => Subject::Alive(part),
        }
    }

    /// The bytes that are signed, behind [`SIGNED_CONTEXT`].
    pub fn encode(&self) -> Vec<u8> {
        let mut b = self.by.to_be_bytes().to_vec();
        for number in [self.start, self.number, self.at_ms] {
            b.extend(number.to_be_bytes());
        }
        self.what.write(&mut b);
        b
    }

    /// Reads a word with its signature in front, whoever made that. `None`: it is none.
    pub fn decode(signed: &[u8]) -> Option<Self> {
        let mut rest = signed.get(SIGNATURE_BYTES..)?;
        let said = Self {
            by: u32::from_be_bytes(take(&mut rest)?),
            start: u64::from_be_bytes(take(&mut rest)?),
            number: u64::from_be_bytes(take(&mut rest)?),
            at_ms: u64::from_be_bytes(take(&mut rest)?),
            what: What::read(&mut rest)?,
        };
        rest.is_empty().then_some(said)
    }
}

impl What {
    fn write(&self, b: &mut Vec<u8>) {
        match self {
            Self::Link { from, claim, relayed_bps } => {
                b.push(LINK);
                b.extend(from.to_be_bytes());
                let with_traffic = claim.is_some_and(|c| c.with_traffic);
                let flags = [(UP, claim.is_some()), (WITH_TRAFFIC, with_traffic)];
                b.push(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag).sum());
                b.extend(relayed_bps.to_be_bytes());
                if let Some(claim) = claim {
                    claim.write(b);
                }
            }
            Self::Certificate { of, endpoint, text } => {
                b.push(CERTIFICATE);
                b.extend(of.to_be_bytes());
                write_endpoint(*endpoint, b);
                b.extend(text.as_bytes());
            }
            Self::Alive { part, back } => {
                b.push(ALIVE);
                b.extend(part.to_be_bytes());
                b.extend(back.iter().flat_map(|n| n.to_be_bytes()));
            }
        }
    }

    fn read(rest: &mut &[u8]) -> Option<Self> {
        let [kind] = take(rest)?;
        let about = u32::from_be_bytes(take(rest)?);
        match kind {
            LINK => {
                let [flags] = take(rest)?;
                let (relayed_bps, with_traffic) = (u64::from_be_bytes(take(rest)?), flags & WITH_TRAFFIC != 0);
                let claim = if flags & UP == 0 { None } else { Some(Claim { with_traffic, ..Claim::read(rest)? }) };
                Some(Self::Link { from: about, claim, relayed_bps })
            }
            CERTIFICATE => {
                let endpoint = read_endpoint(rest)?;
                let text = std::str::from_utf8(std::mem::take(rest)).ok()?.to_owned();
                Some(Self::Certificate { of: about, endpoint, text })
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

impl Claim {
    fn write(&self, b: &mut Vec<u8>) {
        b.extend(self.rtt_us.to_be_bytes());
        for number in [self.loss, self.low, self.high, self.frames] {
            b.extend(number.to_be_bytes());
        }
        b.extend(self.capacity_bps.unwrap_or(0).to_be_bytes());
        b.extend(self.datagram.unwrap_or(0).to_be_bytes());
    }

    fn read(rest: &mut &[u8]) -> Option<Self> {
        let rtt_us = u32::from_be_bytes(take(rest)?);
        let mut number = || Some(f32::from_be_bytes(take(rest)?)).filter(|x| x.is_finite());
        let (loss, low, high, frames) = (number()?, number()?, number()?, number()?);
        let capacity_bps = Some(u64::from_be_bytes(take(rest)?)).filter(|c| *c > 0);
        let datagram = Some(u16::from_be_bytes(take(rest)?)).filter(|d| *d > 0);
        Some(Self { rtt_us, loss, low, high, frames, capacity_bps, datagram, with_traffic: false })
    }
}

fn write_endpoint(endpoint: Option<SocketAddr>, b: &mut Vec<u8>) {
    match endpoint.map(|e| e.ip()) {
        None => b.push(0),
        Some(IpAddr::V4(ip)) => {
            b.push(4);
            b.extend(ip.octets());
        }
        Some(IpAddr::V6(ip)) => {
            b.push(6);
            b.extend(ip.octets());
        }
    }
    b.extend(endpoint.iter().flat_map(|e| e.port().to_be_bytes()));
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
