//! Link state spreads by gossip: chitchat, over the sealed messages of the overlay. Each member says only what it measured on links on which
//! it receives, and signs it, so that whoever passes it on cannot change it.

use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use chitchat::transport::{Socket, Transport};
use chitchat::{
    ChitchatConfig, ChitchatHandle, ChitchatId, ChitchatMessage, Deserializable, FailureDetectorConfig, NodeState,
    Serializable, spawn_chitchat,
};
use route::Member;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Mutex, oneshot};

use crate::identity::{Identity, PublicKey};
use crate::mesh::Claim;
use crate::{OverlayError, settings::Settings};

/// How often members exchange what is new: with a handful of members all know it within two rounds.
const ROUND: Duration = Duration::from_millis(150);
/// How often what others say is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// A claim that did not change is said again so often, so that it is known to be alive.
const REFRESH: Duration = Duration::from_secs(2);
/// Changes below these are not worth a message: of the loss against the width of its interval, and of the rest as a share.
const MOVED_LOSS: f64 = 0.25;
const MOVED: f64 = 0.1;
/// Messages that may wait; more are dropped, as the network does.
const QUEUE: usize = 256;
/// Keys of certificates in the state of a member: by the number of their owner.
const MEMBER: &str = "member/";
/// Keys of claims in the state of a member: by the number of the member at the link's other end.
const LINK: &str = "link/";

/// From the controlling thread.
pub(crate) enum ToGossip {
    /// A message came.
    Received { from: Member, bytes: Vec<u8> },
    /// What this member says about the links on which it receives.
    Claims(Vec<(Member, Claim)>),
    /// Certificates that this member has seen, with where their owners are reached.
    Introductions(Vec<(Member, String, Option<SocketAddr>)>),
}

/// To the controlling thread.
pub(crate) enum FromGossip {
    /// A message is to be sent.
    Send { to: Member, bytes: Vec<u8> },
    /// What `to` says about its link from `from`, and whether it passes on what is not for it.
    Claim { from: Member, to: Member, claim: Option<Claim>, relays: bool },
    /// A certificate, and where its owner is said to be reached.
    Introduction { text: String, endpoint: Option<SocketAddr> },
}

/// A claim as it is signed: with the link and a number that grows, so that an older one cannot take its place.
#[derive(Serialize, Deserialize)]
struct Said {
    from: Member,
    to: Member,
    number: u64,
    /// Absent: the link is down.
    claim: Option<Claim>,
    relays: bool,
}

fn said_text(own: &Identity, said: &Said) -> Option<String> {
    let json = serde_json::to_string(said).ok()?;
    Some(format!("{} {json}", BASE64.encode(own.sign(json.as_bytes()))))
}

/// Reads what a member is told to have said; `None` when it did not.
fn heard(text: &str, of: &PublicKey, from: Member) -> Option<Said> {
    let (signature, json) = text.split_once(' ')?;
    let signature = BASE64.decode(signature).ok()?.try_into().ok()?;
    let said: Said = serde_json::from_str(json).ok()?;
    (of.verifies(json.as_bytes(), &signature) && said.to == of.member() && said.from == from).then_some(said)
}

/// Members have no addresses of their own in the gossip: it gets some that say their number.
fn address(member: Member) -> SocketAddr {
    let [a, b, c, d] = member.0.to_be_bytes().map(u16::from);
    SocketAddr::new(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, a << 8 | b, c << 8 | d).into(), 1)
}

fn member(address: SocketAddr) -> Option<Member> {
    let SocketAddr::V6(v6) = address else { return None };
    let octets = v6.ip().octets();
    octets.last_chunk().map(|b| Member(u32::from_be_bytes(*b)))
}

/// chitchat's socket: what it sends becomes messages of the overlay.
struct Pipe {
    out: SyncSender<FromGossip>,
    incoming: Receiver<(Member, Vec<u8>)>,
}

#[async_trait]
impl Socket for Pipe {
    async fn send(&mut self, to: SocketAddr, message: ChitchatMessage) -> anyhow::Result<()> {
        let bytes = message.serialize_to_vec();
        if let Some(to) = member(to) {
            // Full: dropped, as a network would; the next round says it again.
            let _ = self.out.try_send(FromGossip::Send { to, bytes });
        }
        Ok(())
    }

    async fn recv(&mut self) -> anyhow::Result<(SocketAddr, ChitchatMessage)> {
        loop {
            let Some((from, bytes)) = self.incoming.recv().await else { anyhow::bail!("the member ends") };
            let mut rest = bytes.as_slice();
            if let Ok(message) = ChitchatMessage::deserialize(&mut rest) {
                return Ok((address(from), message));
            }
        }
    }
}

/// Gives out the one pipe that there is.
struct Pipes(Mutex<Option<Pipe>>);

#[async_trait]
impl Transport for Pipes {
    async fn open(&self, _: SocketAddr) -> anyhow::Result<Box<dyn Socket>> {
        let pipe = self.0.lock().await.take();
        let pipe = pipe.ok_or_else(|| anyhow::anyhow!("opened twice"))?;
        Ok(Box::new(pipe))
    }
}

/// Runs until the sender of `input` is gone. `generation`: grows with each start of this member.
pub(crate) async fn run(
    settings: &Settings,
    generation: u64,
    mut input: Receiver<ToGossip>,
    out: SyncSender<FromGossip>,
    started: oneshot::Sender<Result<(), OverlayError>>,
) {
    let own = settings.identity.public().member();
    let (incoming, queue) = channel(QUEUE);
    let pipe = Pipe { out: out.clone(), incoming: queue };
    let config = ChitchatConfig {
        chitchat_id: ChitchatId::new(own.to_string(), generation, address(own)),
        cluster_id: "longhaul overlay".to_owned(),
        gossip_interval: ROUND,
        listen_addr: address(own),
        seed_nodes: settings.members.get().keys().map(|m| address(*m).to_string()).collect(),
        failure_detector_config: FailureDetectorConfig { initial_interval: ROUND, ..FailureDetectorConfig::default() },
        marked_for_deletion_grace_period: Duration::from_secs(60),
        catchup_callback: None,
        extra_liveness_predicate: None,
    };
    let handle = match spawn_chitchat(config, Vec::new(), &Pipes(Mutex::new(Some(pipe)))).await {
        Ok(handle) => handle,
        Err(e) => {
            let _ = started.send(Err(OverlayError::Gossip(e.to_string())));
            return;
        }
    };
    if started.send(Ok(())).is_err() {
        return;
    }
    let mut teller = Teller { own, number: generation << 20, told: BTreeMap::new(), introduced: BTreeMap::new() };
    let mut listener = Listener::default();
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            got = input.recv() => match got {
                Some(ToGossip::Received { from, bytes }) => { let _ = incoming.try_send((from, bytes)); }
                Some(ToGossip::Claims(claims)) => teller.tell(settings, &handle, claims).await,
                Some(ToGossip::Introductions(all)) => teller.introduce(&handle, all).await,
                None => break,
            },
            _ = look.tick() => listener.look(settings, &handle, &out).await,
        }
    }
    drop(incoming);
    handle.abort();
}

/// Says what changed.
struct Teller {
    own: Member,
    number: u64,
    told: BTreeMap<Member, (Claim, tokio::time::Instant)>,
    introduced: BTreeMap<Member, String>,
}

impl Teller {
    async fn tell(&mut self, settings: &Settings, handle: &ChitchatHandle, claims: Vec<(Member, Claim)>) {
        let now = tokio::time::Instant::now();
        let gone: Vec<Member> = self.told.keys().filter(|m| !claims.iter().any(|(c, _)| c == *m)).copied().collect();
        let due: Vec<(Member, Claim)> = claims.into_iter().filter(|(m, c)| self.is_due(now, *m, c)).collect();
        for (from, claim) in &due {
            self.told.insert(*from, (*claim, now));
        }
        for member in &gone {
            self.told.remove(member);
        }
        let new = due.into_iter().map(|(m, c)| (m, Some(c))).chain(gone.into_iter().map(|m| (m, None)));
        let mut texts = Vec::new();
        for (from, claim) in new {
            self.number += 1;
            let said = Said { from, to: self.own, number: self.number, claim, relays: settings.relay };
            texts.extend(said_text(&settings.identity, &said).map(|t| (from, t)));
        }
        if !texts.is_empty() {
            let set = |c: &mut chitchat::Chitchat| {
                texts.iter().for_each(|(from, text)| c.self_node_state().set(format!("{LINK}{from}"), text));
            };
            handle.with_chitchat(set).await;
        }
    }

    async fn introduce(&mut self, handle: &ChitchatHandle, all: Vec<(Member, String, Option<SocketAddr>)>) {
        let told = |(m, text, at): (Member, String, Option<SocketAddr>)| {
            (m, format!("{} {text}", at.map_or_else(|| "-".to_owned(), |a| a.to_string())))
        };
        let all: BTreeMap<Member, String> = all.into_iter().map(told).collect();
        if all == self.introduced {
            return;
        }
        let gone: Vec<_> = self.introduced.keys().filter(|m| !all.contains_key(m)).collect();
        let new: Vec<_> = all.iter().filter(|(m, text)| self.introduced.get(m) != Some(text)).collect();
        let set = |c: &mut chitchat::Chitchat| {
            gone.iter().for_each(|m| c.self_node_state().delete(&format!("{MEMBER}{m}")));
            new.iter().for_each(|(m, text)| c.self_node_state().set(format!("{MEMBER}{m}"), text));
        };
        handle.with_chitchat(set).await;
        self.introduced = all;
    }

    fn is_due(&self, now: tokio::time::Instant, from: Member, claim: &Claim) -> bool {
        self.told.get(&from).is_none_or(|(before, at)| now.duration_since(*at) >= REFRESH || has_moved(before, claim))
    }
}

/// Whether a claim says something else than the one before.
fn has_moved(before: &Claim, now: &Claim) -> bool {
    let share = |a: f64, b: f64| (a - b).abs() > MOVED * a.max(b);
    let widths = [before.high - before.low, now.high - now.low];
    let width = widths[0].max(widths[1]);
    share(before.rtt_us as f64, now.rtt_us as f64)
        || (before.loss - now.loss).abs() > MOVED_LOSS * width
        // What is known twice as well may decide.
        || width > 2.0 * widths[0].min(widths[1])
        || before.capacity_bps != now.capacity_bps
        || before.datagram != now.datagram
}

/// Hears what is new.
#[derive(Default)]
struct Listener {
    /// How far the state of each member was read.
    versions: BTreeMap<(Member, u64), u64>,
    /// The number of the last claim about each link.
    numbers: BTreeMap<(Member, Member), u64>,
}

impl Listener {
    async fn look(&mut self, settings: &Settings, handle: &ChitchatHandle, out: &SyncSender<FromGossip>) {
        let found = handle.with_chitchat(|c| {
            let mut found = Vec::new();
            for (id, state) in c.node_states() {
                found.extend(self.news(settings, id, state));
            }
            found
        });
        for claim in found.await {
            let _ = out.try_send(claim);
        }
    }

    fn news(&mut self, settings: &Settings, id: &ChitchatId, state: &NodeState) -> Vec<FromGossip> {
        let Some((to, key)) = member(id.gossip_advertise_addr).and_then(|m| Some((m, settings.members.one(m)?.key)))
        else {
            return Vec::new();
        };
        let read = self.versions.entry((to, id.generation_id)).or_default();
        let (from_version, max) = (*read, state.max_version());
        if max <= from_version {
            return Vec::new();
        }
        *read = max;
        let mut news = Vec::new();
        for (name, value) in state.key_values_including_deleted() {
            if name.starts_with(MEMBER) && value.version > from_version {
                news.extend(introduction(&value.value));
            }
            let from = name.strip_prefix(LINK).and_then(|n| u32::from_str_radix(n, 16).ok()).map(Member);
            // Links between members only: what a member may say is bounded by how many there are.
            let is_member = |m: &Member| settings.members.contains(*m) || settings.identity.public().member() == *m;
            let Some(from) = from.filter(|m| value.version > from_version && is_member(m)) else { continue };
            let number = self.numbers.entry((from, to)).or_default();
            if let Some(said) = heard(&value.value, &key, from).filter(|s| s.number > *number) {
                *number = said.number;
                news.push(FromGossip::Claim { from, to, claim: said.claim, relays: said.relays });
            }
        }
        news
    }
}

/// Reads what is said of a member; who it is, is looked at where the authority is known.
fn introduction(text: &str) -> Option<FromGossip> {
    let (endpoint, text) = text.split_once(' ')?;
    Some(FromGossip::Introduction { text: text.to_owned(), endpoint: endpoint.parse().ok() })
}

/// A queue to the gossip.
pub(crate) fn queue() -> (Sender<ToGossip>, Receiver<ToGossip>) {
    channel(QUEUE)
}
