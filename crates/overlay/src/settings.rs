use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use route::{Member, Model};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use units::{Bytes, Rate};
use wire::overlay::gossip::UNBOUNDED;

use crate::OverlayError;
use crate::identity::{Identity, PublicKey};
use crate::members::Members;
use crate::sensor::LossSensor;

mod amounts;
mod certified;
mod endpoint;
mod files;
mod host;
mod joined;
mod listed;
mod rules;
mod syntax;

use amounts::{rate, size, time};
use certified::{authority, certificate, refused};
pub use endpoint::{Endpoint, HostPort};
pub(crate) use endpoint::{device_and_scope, is_known_elsewhere, shown_address};
use endpoint::{is_name, socket_address};
use files::{FILE_BYTES_MAX, beside, control_socket, no_file_twice};
pub use joined::joined;
pub(crate) use listed::check_name;
pub use listed::member_lines;
use listed::{distinct, no_overlap, others};
use syntax::{parsed, secret};

/// Inner packets that every path over relays can carry on an Ethernet: 1500 less IPv6 and UDP 48, envelope 40 + 16, frame 24 + 16.
pub const DEFAULT_MTU: u16 = 1356;
/// What IPv6 asks of a device (RFC 8200, section 5); Linux has none of it on one with less.
const LEAST_MTU_OF_IPV6: u16 = 1280;
/// What every host must take (RFC 791), and what fits a UDP datagram with the headers of a way over relays.
const MTU: std::ops::RangeInclusive<u16> = 576..=65_000;
/// Queues that a member may have.
const QUEUES: std::ops::RangeInclusive<usize> = 1..=crate::encapsulate::DEVICE_QUEUES;
/// Of those that it has where nothing is said, most: eight threads in each direction carry what a 40 Gb/s card does.
const USUAL_QUEUES: usize = 8;
/// Where a record of the route control ends: some hours of ten members, a day of three.
pub(crate) const RECORD_SIZE: Bytes = Bytes::new(1_000_000_000);
/// Less has no room for anything after the policy and the members.
const LEAST_RECORD: Bytes = Bytes::new(1_000_000);
/// Default of the share of a link's rate that probes may take.
const PROBE_SHARE: f64 = 0.01;
/// Of gossip: enough for some thirty members of which each has a link to each.
const GOSSIP_RATE: Rate = Rate::from_bps(1_000_000);
/// A second of less has no room for what has to be asked and for a certificate.
const LEAST_GOSSIP_RATE: Rate = Rate::from_bps(64_000);
/// Nothing slower is a path for bulk data: whoever writes less has left out the unit, or means no bound by 0.
const LEAST_RATE: Rate = Rate::from_bps(1000);
/// What probes and reports of one way take, so that it can be known.
const LEAST_RELAY_RATE: Rate = Rate::from_bps(64_000);
/// Keys that are not compared as they are written.
const LOOKED_AT: [&str; 8] =
    ["member", "certificate", "refuse", "network_secret", "key", "ca_public_key", "addresses", "subnets"];
/// Port of the overlay where nothing else is said.
pub const DEFAULT_PORT: u16 = 5460;

/// The file that a member runs by.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    key: PathBuf,
    #[serde(rename = "network_secret", deserialize_with = "secret")]
    secret: String,
    #[serde(rename = "ca_public_key")]
    authority: Option<String>,
    certificate: Option<PathBuf>,
    #[serde(default)]
    refuse: Vec<String>,
    addresses: Vec<IpAddr>,
    #[serde(default)]
    subnets: Vec<IpNet>,
    listen: Option<String>,
    device: Option<String>,
    mtu: Option<i64>,
    queues: Option<usize>,
    #[serde(default = "yes")]
    relay: bool,
    relay_rate: Option<toml::Value>,
    congestion_control: Option<String>,
    policy: Option<PolicyName>,
    #[serde(default)]
    single_path: bool,
    #[serde(rename = "max_paths")]
    paths: Option<usize>,
    #[serde(rename = "switch_margin", alias = "eta")]
    eta: Option<f64>,
    model: Option<rules::ModelName>,
    alpha: Option<f64>,
    beta: Option<f64>,
    #[serde(rename = "hold_down", alias = "t_ch")]
    t_ch: Option<toml::Value>,
    #[serde(rename = "loss_interval", alias = "t_loss")]
    t_loss: Option<toml::Value>,
    #[serde(rename = "loss_probes", alias = "n_loss")]
    n_loss: Option<u32>,
    capacity: Option<toml::Value>,
    probe_share: Option<f64>,
    gossip_rate: Option<toml::Value>,
    #[serde(rename = "control_socket")]
    control: Option<PathBuf>,
    #[serde(rename = "http_listen")]
    status: Option<String>,
    #[serde(rename = "http_names", default)]
    status_names: Vec<String>,
    #[serde(rename = "event_log")]
    events: Option<PathBuf>,
    #[serde(rename = "decision_log")]
    record: Option<PathBuf>,
    #[serde(rename = "decision_log_size")]
    record_size: Option<toml::Value>,
    #[serde(default)]
    offload: Offload,
    #[serde(default)]
    member: Vec<FileMember>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileMember {
    key: String,
    name: Option<String>,
    endpoint: Option<String>,
    #[serde(default)]
    subnets: Vec<IpNet>,
    #[serde(default = "yes")]
    direct: bool,
}

/// By which rules paths are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// Ours.
    #[default]
    Default,
    /// The paper's, for reproducing its figures.
    #[serde(rename = "safire-2008")]
    Safire2008,
}

/// Four ways in which the kernel takes or gives many packets at once. All are on unless the settings or the self-test turn one off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Offload {
    /// Many datagrams in one call to the network (UDP_SEGMENT).
    pub udp_gso: bool,
    /// Many datagrams in one call from the network (UDP_GRO).
    pub udp_gro: bool,
    /// Super-packets to the host.
    pub tun_gro: bool,
    /// Super-packets from the host.
    pub tun_gso: bool,
}

impl Default for Offload {
    fn default() -> Self {
        Self { udp_gso: true, udp_gro: true, tun_gro: true, tun_gso: true }
    }
}

fn yes() -> bool {
    true
}

/// Another member, as the settings tell of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberSettings {
    /// What people call it.
    pub name: String,
    /// Who it is.
    pub key: PublicKey,
    /// Where it can be called; a member without is waited for.
    pub endpoint: Option<Endpoint>,
    /// Where its packets may come from, and what is sent to it.
    pub subnets: Vec<IpNet>,
    /// Whether frames may go there without a relay.
    pub direct: bool,
}

/// What a member runs by.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where they were read from.
    pub path: PathBuf,
    /// Who this member is.
    pub identity: Identity,
    /// What only members know, in the form that the handshake takes.
    pub secret: [u8; 32],
    /// Whose certificates make members.
    pub authority: Option<PublicKey>,
    /// This member's own, which it shows to others.
    pub certificate: Option<String>,
    /// Until when that holds, seconds since 1970 UTC.
    pub certified_until_utc_s: Option<u64>,
    /// Keys whose owners are no members, whatever certificates they show.
    pub refuse: Vec<PublicKey>,
    /// Addresses of the tunnel device.
    pub addresses: Vec<IpAddr>,
    /// Networks behind this member, as the others are told by its lines: this host forwards what is for them.
    pub subnets: Vec<IpNet>,
    /// Where datagrams are received.
    pub listen: SocketAddr,
    /// Name of the tunnel device.
    pub device: String,
    /// Largest inner packet in bytes.
    pub mtu: u16,
    /// Queues of the tunnel device, with a sending and a receiving thread each; absent: by the CPUs.
    pub queues: Option<usize>,
    /// Whether this member passes on what is not for it.
    pub relay: bool,
    /// Most that it passes on of what each member hands over.
    pub relay_rate: Option<Rate>,
    /// Which congestion control the predictions are for, by its name in the kernel; absent: with our own rules the kernel's default, with the
    /// paper's its formula.
    pub congestion_control: Option<String>,
    /// The rules.
    pub policy: PolicyName,
    /// All flows to a destination go one way.
    pub single_path: bool,
    /// Most ways to a destination at once; absent: the policy's.
    pub paths: Option<usize>,
    /// By which share of the present rate another way must be better; absent: the policy's.
    pub eta: Option<f64>,
    /// By which formula rates are predicted; absent: that of the congestion control, or the policy's.
    pub model: Option<Model>,
    /// Formula for senders that are told their rate.
    pub rate_aware: Model,
    /// Least time between two changes; absent: the policy's.
    pub t_ch: Option<std::time::Duration>,
    /// Losses are sensed as the paper does; absent: by all frames, as they come.
    pub sensor: Option<LossSensor>,
    /// Rate of this member's access; absent: unknown.
    pub capacity: Option<Rate>,
    /// Most of a link's rate that probes and trains take, beyond what it takes to know that the link works.
    pub probe_share: f64,
    /// Most that this member sends of gossip, to all others together.
    pub gossip_rate: Rate,
    /// Socket for `overlay status` and its likes.
    pub control: PathBuf,
    /// Where the status page and the metrics are served.
    pub status: Option<SocketAddr>,
    /// Names by which who asks for the page may call this host, beside its addresses and `localhost`.
    pub status_names: Vec<String>,
    /// File of events, one JSON object a line.
    pub events: Option<PathBuf>,
    /// File of what the route control is told and decides, for `overlay replay`.
    pub record: Option<PathBuf>,
    /// Where that ends.
    pub record_size: Bytes,
    /// What the kernel may do for many packets at once.
    pub offload: Offload,
    /// The others.
    pub members: Members,
    /// What else the file says, by which other settings are told from these: see [`Settings::different_keys`].
    pub(crate) as_written: toml::Table,
}

impl Settings {
    /// Reads and checks a file. Paths in it are relative to it.
    ///
    /// # Errors
    /// It cannot be read, is no TOML, has unknown keys, or contradicts itself; says where and what.
    pub fn read(path: &Path) -> Result<Self, OverlayError> {
        let text = read_file(path)?;
        let wrong = |what: String| OverlayError::Settings { path: path.to_owned(), what };
        let file: File = parsed(&text).map_err(wrong)?;
        let mut as_written: toml::Table = parsed(&text).map_err(wrong)?;
        as_written.retain(|key, _| !LOOKED_AT.contains(&key));
        no_file_twice(path, &file).map_err(wrong)?;
        let identity = Identity::read(&beside(path, &file.key))?;
        let certificate =
            file.certificate.as_ref().map(|f| certificate(&beside(path, f))).transpose().map_err(wrong)?;
        let mut settings = Self::of(path, file, certificate, identity).map_err(wrong)?;
        settings.as_written = as_written;
        let files = [&mut settings.control].into_iter().chain(settings.events.as_mut()).chain(settings.record.as_mut());
        for file in files {
            *file = beside(path, file);
        }
        Ok(settings)
    }

    /// Settings of a member with these addresses and peers, all else at its default: for members that run without a file.
    pub fn of_member(identity: Identity, secret: &str, addresses: Vec<IpAddr>, members: Vec<MemberSettings>) -> Self {
        let members: BTreeMap<Member, MemberSettings> = members.into_iter().map(|m| (m.key.member(), m)).collect();
        Self {
            path: PathBuf::new(),
            identity,
            secret: Sha256::digest(secret.as_bytes()).into(),
            authority: None,
            certificate: None,
            certified_until_utc_s: None,
            refuse: Vec::new(),
            addresses,
            subnets: Vec::new(),
            listen: SocketAddr::new(std::net::Ipv6Addr::UNSPECIFIED.into(), DEFAULT_PORT),
            device: "lh0".to_owned(),
            mtu: DEFAULT_MTU,
            queues: None,
            relay: true,
            relay_rate: None,
            congestion_control: None,
            policy: PolicyName::Default,
            single_path: false,
            paths: None,
            eta: None,
            model: None,
            rate_aware: Model::RATE_AWARE_2008,
            t_ch: None,
            sensor: None,
            capacity: None,
            probe_share: PROBE_SHARE,
            gossip_rate: GOSSIP_RATE,
            control: PathBuf::new(),
            status: None,
            status_names: Vec::new(),
            events: None,
            record: None,
            record_size: RECORD_SIZE,
            offload: Offload::default(),
            as_written: toml::Table::new(),
            members: members.into(),
        }
    }

    /// Checks the text of a file whose key has been read, and which names no certificate: for the fuzz target.
    pub(crate) fn parse(path: &Path, text: &str, identity: Identity) -> Result<Self, String> {
        let file = parsed(text)?;
        Self::of(path, file, None, identity)
    }

    /// The control socket of the member that runs by these settings.
    ///
    /// # Errors
    /// The file cannot be read, or is no TOML.
    pub(crate) fn control_of(path: &Path) -> Result<PathBuf, OverlayError> {
        #[derive(Deserialize)]
        struct Control {
            #[serde(rename = "control_socket")]
            control: Option<PathBuf>,
        }
        let text = read_file(path)?;
        let wrong = |what| OverlayError::Settings { path: path.to_owned(), what };
        let Control { control } = parsed(&text).map_err(wrong)?;
        Ok(beside(path, &control.unwrap_or_else(control_socket)))
    }

    fn of(path: &Path, file: File, certificate: Option<String>, identity: Identity) -> Result<Self, String> {
        check_secret(&file.secret)?;
        check_addresses(&file.addresses)?;
        let (model, rate_aware) = rules::check(&file)?;
        let serves = serves(&file.addresses, &file.subnets);
        let (authority, certified_until_utc_s) =
            authority(file.authority, certificate.as_deref(), (&identity, &serves))?;
        let members = others(file.member, (identity.public().member(), &serves))?;
        let refuse = refused(&file.refuse, &identity.public(), &members)?;
        no_overlap(&members, &serves)?;
        let policy = file.policy.unwrap_or_default();
        let sensor = sensor(policy, time(file.t_loss, "loss_interval")?, file.n_loss)?;
        let mtu = file.mtu.map_or(Ok(DEFAULT_MTU), mtu)?;
        let device = file.device.unwrap_or_else(|| "lh0".to_owned());
        check_device(&device, file.queues)?;
        check_mtu(mtu, members.values().flat_map(|m| &m.subnets).chain(&serves))?;
        let gossip_rate = gossip_rate(rate(file.gossip_rate, "gossip_rate")?)?;
        let listen = file.listen.map(|text| socket_address("listen", &text)).transpose()?;
        let status = file.status.map(|text| socket_address("http_listen", &text)).transpose()?;
        check_status_names(&file.status_names, status.is_some())?;
        let record_size = record_size(size(file.record_size, "decision_log_size")?, file.record.is_some())?;
        Ok(Self {
            secret: Sha256::digest(file.secret.as_bytes()).into(),
            authority,
            certificate,
            certified_until_utc_s,
            refuse,
            identity,
            path: path.to_owned(),
            addresses: file.addresses,
            subnets: distinct(file.subnets),
            listen: listen.unwrap_or_else(|| SocketAddr::new(std::net::Ipv6Addr::UNSPECIFIED.into(), DEFAULT_PORT)),
            device,
            mtu,
            queues: file.queues,
            relay: file.relay,
            relay_rate: at_least(
                rate(file.relay_rate, "relay_rate")?,
                ("`relay_rate`", LEAST_RELAY_RATE),
                "`relay = false` passes nothing on",
            )?,
            congestion_control: file.congestion_control,
            policy,
            single_path: file.single_path,
            paths: file.paths,
            eta: file.eta,
            model,
            rate_aware,
            t_ch: time(file.t_ch, "hold_down")?,
            sensor,
            capacity: at_least(
                rate(file.capacity, "capacity")?,
                ("`capacity`", LEAST_RATE),
                "leave it out to have it measured",
            )?,
            probe_share: probe_share(file.probe_share)?,
            gossip_rate,
            control: file.control.unwrap_or_else(control_socket),
            status,
            status_names: file.status_names,
            events: file.events,
            record: file.record,
            record_size,
            offload: file.offload,
            members: members.into(),
            as_written: toml::Table::new(),
        })
    }

    /// Queues of the tunnel device: as set, or one for every two CPUs, as each has two threads.
    pub fn queues(&self) -> usize {
        self.queues.unwrap_or_else(|| (kernel::cpus() / 2).clamp(1, USUAL_QUEUES))
    }

    /// What is this member's: its addresses, and the networks behind it, each once.
    pub fn serves(&self) -> Vec<IpNet> {
        serves(&self.addresses, &self.subnets)
    }

    /// Keys that say something else in `other`, but for `member`, `certificate` and `refuse`.
    pub(crate) fn different_keys(&self, other: &Self) -> Vec<String> {
        let (ours, theirs) = (&self.as_written, &other.as_written);
        let mut keys: BTreeSet<&str> = ours.keys().chain(theirs.keys()).map(String::as_str).collect();
        keys.retain(|key| ours.get(*key) != theirs.get(*key));
        // The first of the addresses is that of what this host sends.
        let further =
            [("network_secret", self.secret != other.secret), ("addresses", self.addresses != other.addresses)];
        let is_other = further.into_iter().chain(self.is_another_member(other));
        keys.extend(is_other.filter(|(_, is_other)| *is_other).map(|(key, _)| key));
        keys.into_iter().map(str::to_owned).collect()
    }

    /// Whether a key by which others know a member says something else in `other`.
    pub(crate) fn is_another_member(&self, other: &Self) -> [(&'static str, bool); 4] {
        let addresses = |s: &Self| BTreeSet::from_iter(s.addresses.clone());
        let subnets = |s: &Self| BTreeSet::from_iter(s.subnets.clone());
        [
            ("key", self.identity.public() != other.identity.public()),
            ("ca_public_key", self.authority != other.authority),
            ("addresses", addresses(self) != addresses(other)),
            ("subnets", subnets(self) != subnets(other)),
        ]
    }

    /// What is passed on of what each member hands over, b/s, as others are told.
    pub(crate) fn relayed_bps(&self) -> u64 {
        if self.relay { self.relay_rate.map_or(UNBOUNDED, Rate::as_bps) } else { 0 }
    }

    /// What predicts rates.
    pub(crate) fn model(&self) -> Model {
        self.rules().model
    }

    /// What a member is called.
    pub fn name_of(&self, member: Member) -> String {
        self.members.one(member).map_or_else(|| member.to_string(), |m| m.name)
    }
}

/// Whether it has room for what these networks' packets must have.
pub(crate) fn check_mtu<'a>(mtu: u16, mut nets: impl Iterator<Item = &'a IpNet>) -> Result<(), String> {
    if mtu < LEAST_MTU_OF_IPV6 && nets.any(|s| s.addr().is_ipv6()) {
        return Err(format!("`mtu` is {mtu}; with addresses of IPv6 it is {LEAST_MTU_OF_IPV6} at least"));
    }
    Ok(())
}

fn read_file(path: &Path) -> Result<String, OverlayError> {
    kernel::read_regular(path, FILE_BYTES_MAX)
        .map_err(|source| OverlayError::SettingsFile { path: path.to_owned(), source })
}

fn check_secret(secret: &str) -> Result<(), String> {
    if secret.len() < 16 {
        return Err("`network_secret` has fewer than 16 characters; `longhaul overlay init` makes one".to_owned());
    }
    Ok(())
}

fn check_addresses(addresses: &[IpAddr]) -> Result<(), String> {
    if addresses.is_empty() {
        return Err("`addresses` is empty: a member needs one to be reached by".to_owned());
    }
    match addresses.iter().find(|a| a.is_unspecified() || a.is_loopback() || a.is_multicast()) {
        Some(odd) => Err(format!("`addresses` has {odd}, which no host can be reached by over a device")),
        None => Ok(()),
    }
}

/// The paper's sensor of losses, where its policy or `loss_interval` asks for it.
fn sensor(
    policy: PolicyName,
    t_loss: Option<std::time::Duration>,
    n_loss: Option<u32>,
) -> Result<Option<LossSensor>, String> {
    let is_asked_for = policy == PolicyName::Safire2008 || t_loss.is_some();
    if n_loss.is_some() && !is_asked_for {
        return Err("`loss_probes` needs `loss_interval`, or the policy `safire-2008`".to_owned());
    }
    is_asked_for.then(|| LossSensor::new(t_loss, n_loss)).transpose()
}

/// The share of a link's rate that probes may take.
fn probe_share(asked: Option<f64>) -> Result<f64, String> {
    let share = asked.unwrap_or(PROBE_SHARE);
    if !(0.0..=0.5).contains(&share) {
        return Err("`probe_share` is a share of a link's rate, 0 to 0.5".to_owned());
    }
    Ok(share)
}

/// Any number can be written; which ones are an MTU is for us to say.
fn mtu(asked: i64) -> Result<u16, String> {
    let mtu = u16::try_from(asked).ok().filter(|mtu| MTU.contains(mtu));
    mtu.ok_or_else(|| format!("`mtu` is {asked}; it goes from {} to {}", MTU.start(), MTU.end()))
}

fn check_device(name: &str, queues: Option<usize>) -> Result<(), String> {
    // What the kernel takes (dev_valid_name).
    // And with `%` it would make one of another name.
    let is_odd = |c: char| matches!(c, '/' | ':' | '%') || c.is_whitespace();
    if !(1..=15).contains(&name.len()) || name == "." || name == ".." || name.contains(is_odd) {
        return Err(format!(
            "`device` is `{name}`; a device has a name of 1 to 15 bytes without spaces, `/`, `:` and `%`"
        ));
    }
    match queues.filter(|q| !QUEUES.contains(q)) {
        Some(queues) => Err(format!("`queues` is {queues}; it goes from {} to {}", QUEUES.start(), QUEUES.end())),
        None => Ok(()),
    }
}

/// Names of this host, as browsers say them.
fn check_status_names(names: &[String], has_page: bool) -> Result<(), String> {
    if !names.is_empty() && !has_page {
        return Err("`http_names` needs `http_listen`, the address of the page that is asked for by them".to_owned());
    }
    match names.iter().find(|name| !is_name(name)) {
        Some(odd) => Err(format!("`http_names` has {odd:?}, which is no host name; it takes names without a port")),
        None => Ok(()),
    }
}

/// A rate that was not forgotten its unit; `instead` says what to write instead of none.
fn at_least(rate: Option<Rate>, (key, least): (&str, Rate), instead: &str) -> Result<Option<Rate>, String> {
    match rate.filter(|r| *r < least) {
        Some(rate) => Err(format!("{key} is {rate}; it is {least} at least, and {instead}")),
        None => Ok(rate),
    }
}

/// How much the gossip may take.
fn gossip_rate(asked: Option<Rate>) -> Result<Rate, String> {
    let rate = asked.unwrap_or(GOSSIP_RATE);
    if rate < LEAST_GOSSIP_RATE {
        return Err(format!("`gossip_rate` is {rate}; members lose sight of each other below {LEAST_GOSSIP_RATE}"));
    }
    Ok(rate)
}

/// How much may be recorded.
fn record_size(asked: Option<Bytes>, records: bool) -> Result<Bytes, String> {
    let Some(size) = asked else { return Ok(RECORD_SIZE) };
    if !records {
        return Err("`decision_log_size` needs `decision_log`, the file that it bounds".to_owned());
    }
    if size < LEAST_RECORD {
        return Err(format!("`decision_log_size` is {size}; less than {LEAST_RECORD} has no room for anything"));
    }
    Ok(size)
}

fn serves(addresses: &[IpAddr], subnets: &[IpNet]) -> Vec<IpNet> {
    distinct(addresses.iter().map(|a| IpNet::from(*a)).chain(subnets.iter().copied()))
}
