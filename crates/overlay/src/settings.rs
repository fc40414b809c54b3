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

/// Default MTU in bytes, which fits every relayed path over Ethernet: 1500 less IPv6 and UDP 48, envelope 40 + 16,
/// frame 24 + 16.
pub const DEFAULT_MTU: u16 = 1356;
/// Minimum MTU for IPv6 (RFC 8200, section 5); Linux disables IPv6 on a device with less.
const MTU_IPV6_MIN: u16 = 1280;
/// Valid MTUs: from the datagram that every host accepts (RFC 791) to what fits a UDP datagram on a relayed path.
const MTU: std::ops::RangeInclusive<u16> = 576..=65_000;
/// Valid numbers of queues of the tunnel device.
const QUEUES: std::ops::RangeInclusive<usize> = 1..=crate::encapsulate::DEVICE_QUEUES;
/// Maximum of the default number of queues: eight threads in each direction saturate a 40 Gb/s network card.
const DEFAULT_QUEUES_MAX: usize = 8;
/// Default maximum size of the decision log: some hours of ten members, or a day of three.
pub(crate) const RECORD_SIZE: Bytes = Bytes::new(1_000_000_000);
/// Minimum size of the decision log: room for some inputs after the policy and the members.
const RECORD_SIZE_MIN: Bytes = Bytes::new(1_000_000);
/// Default maximum share of a link's rate for probes.
const PROBE_SHARE: f64 = 0.01;
/// Default maximum rate of gossip, sufficient for a full mesh of some thirty members.
const GOSSIP_RATE: Rate = Rate::from_bps(1_000_000);
/// Minimum of `gossip_rate`: one second has room for the digests and a certificate.
const GOSSIP_RATE_MIN: Rate = Rate::from_bps(64_000);
/// Minimum of `capacity`. A lower value is a missing unit, or a 0 that is meant as unlimited.
const CAPACITY_MIN: Rate = Rate::from_bps(1000);
/// Minimum of `relay_rate`: the probes and reports of one path.
const RELAY_RATE_MIN: Rate = Rate::from_bps(64_000);
/// Keys that a reload compares by value instead of by their text.
const COMPARED_BY_VALUE: [&str; 8] =
    ["member", "certificate", "refuse", "network_secret", "key", "ca_public_key", "addresses", "subnets"];
/// Default UDP port of the overlay.
pub const DEFAULT_PORT: u16 = 5460;

/// Settings file of a member, in the form of TOML.
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
    #[serde(default = "enabled")]
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
    #[serde(default = "enabled")]
    direct: bool,
}

/// Policy of path selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// The policy of longhaul.
    #[default]
    Default,
    /// The policy of the paper (Mark et al. 2008), for reproducing its figures.
    #[serde(rename = "safire-2008")]
    Safire2008,
}

/// Offloads by which one system call transfers many packets. All are enabled unless the settings or the self-test
/// disable one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Offload {
    /// Many datagrams per call to the network (UDP_SEGMENT).
    pub udp_gso: bool,
    /// Many datagrams per call from the network (UDP_GRO).
    pub udp_gro: bool,
    /// Super-packets to this host.
    pub tun_gro: bool,
    /// Super-packets from this host.
    pub tun_gso: bool,
}

impl Default for Offload {
    fn default() -> Self {
        Self { udp_gso: true, udp_gro: true, tun_gro: true, tun_gso: true }
    }
}

fn enabled() -> bool {
    true
}

/// Settings of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberSettings {
    /// Name.
    pub name: String,
    /// Public key.
    pub key: PublicKey,
    /// Endpoint; a peer without an endpoint has to connect to this member.
    pub endpoint: Option<Endpoint>,
    /// Subnets: allowed sources of its packets, and destinations that are routed to it.
    pub subnets: Vec<IpNet>,
    /// Whether frames may be sent to it without a relay.
    pub direct: bool,
}

/// Settings of a member.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Path of the settings file.
    pub path: PathBuf,
    /// Secret key of this member.
    pub identity: Identity,
    /// Network secret: the pre-shared key of the handshake.
    pub secret: [u8; 32],
    /// Public key of the certificate authority.
    pub authority: Option<PublicKey>,
    /// Certificate of this member, which it presents to peers.
    pub certificate: Option<String>,
    /// End of the validity of that certificate, in seconds since 1970 UTC.
    pub certified_until_utc_s: Option<u64>,
    /// Keys that are not admitted, even with a valid certificate.
    pub refuse: Vec<PublicKey>,
    /// Addresses of the tunnel device.
    pub addresses: Vec<IpAddr>,
    /// Networks behind this member, to which this host forwards packets. They are listed in the member's entry at its
    /// peers.
    pub subnets: Vec<IpNet>,
    /// Local address and UDP port of the overlay.
    pub listen: SocketAddr,
    /// Name of the tunnel device.
    pub device: String,
    /// MTU of the tunnel device in bytes.
    pub mtu: u16,
    /// Queues of the tunnel device, each with a sending and a receiving thread. Default: by the number of CPUs.
    pub queues: Option<usize>,
    /// Whether this member relays frames of others.
    pub relay: bool,
    /// Maximum rate of relayed frames from each previous hop. Default: unlimited.
    pub relay_rate: Option<Rate>,
    /// Congestion control that the rate predictions assume, by its name in the kernel. Default: the default of the
    /// kernel; with the policy of the paper, the formula of the paper.
    pub congestion_control: Option<String>,
    /// Policy of path selection.
    pub policy: PolicyName,
    /// Whether all flows to a destination use one path.
    pub single_path: bool,
    /// Maximum number of simultaneous paths to a destination. Default: that of the policy.
    pub paths: Option<usize>,
    /// Minimum gain of a change of path, as a share of the present rate. Default: that of the policy.
    pub eta: Option<f64>,
    /// Model of the rate predictions. Default: that of the congestion control, or that of the policy.
    pub model: Option<Model>,
    /// Model of rate-aware senders.
    pub rate_aware: Model,
    /// Minimum time between two changes of path. Default: that of the policy.
    pub t_ch: Option<std::time::Duration>,
    /// Loss sensor of the paper. Default: loss is measured by all frames.
    pub sensor: Option<LossSensor>,
    /// Access rate of this member. Default: unknown.
    pub capacity: Option<Rate>,
    /// Maximum share of a link's rate for probes and packet trains, in addition to the probes for liveness.
    pub probe_share: f64,
    /// Maximum rate of gossip that this member sends to all peers together.
    pub gossip_rate: Rate,
    /// Path of the control socket, for commands such as `overlay status`.
    pub control: PathBuf,
    /// Address of the HTTP server for the status page and the metrics.
    pub status: Option<SocketAddr>,
    /// Host names that HTTP requests may use, in addition to addresses and `localhost`.
    pub status_names: Vec<String>,
    /// Path of the event log, with one JSON object per line.
    pub events: Option<PathBuf>,
    /// Path of the decision log: inputs and decisions of path selection, for `overlay replay`.
    pub record: Option<PathBuf>,
    /// Maximum size of the decision log.
    pub record_size: Bytes,
    /// Enabled offloads.
    pub offload: Offload,
    /// Peers.
    pub members: Members,
    /// The other keys of the file, for [`Settings::different_keys`].
    pub(crate) as_written: toml::Table,
}

impl Settings {
    /// Reads and checks a settings file. Paths in it are relative to its directory.
    ///
    /// # Errors
    /// Fails when the file cannot be read, is not TOML, has unknown keys or has invalid or contradictory values.
    pub fn read(path: &Path) -> Result<Self, OverlayError> {
        let text = read_file(path)?;
        let invalid = |what: String| OverlayError::Settings { path: path.to_owned(), what };
        let file: File = parsed(&text).map_err(invalid)?;
        let mut as_written: toml::Table = parsed(&text).map_err(invalid)?;
        as_written.retain(|key, _| !COMPARED_BY_VALUE.contains(&key));
        no_file_twice(path, &file).map_err(invalid)?;
        let identity = Identity::read(&beside(path, &file.key))?;
        let certificate =
            file.certificate.as_ref().map(|f| certificate(&beside(path, f))).transpose().map_err(invalid)?;
        let mut settings = Self::of(path, file, certificate, identity).map_err(invalid)?;
        settings.as_written = as_written;
        let files = [&mut settings.control].into_iter().chain(settings.events.as_mut()).chain(settings.record.as_mut());
        for file in files {
            *file = beside(path, file);
        }
        Ok(settings)
    }

    /// Settings with these addresses and peers and default values, for members without a settings file.
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

    /// Checks the text of a settings file without reading its key and certificate, for the fuzz target.
    pub(crate) fn parse(path: &Path, text: &str, identity: Identity) -> Result<Self, String> {
        let file = parsed(text)?;
        Self::of(path, file, None, identity)
    }

    /// Path of the control socket of the member with this settings file.
    ///
    /// # Errors
    /// Fails when the file cannot be read or is not TOML.
    pub(crate) fn control_of(path: &Path) -> Result<PathBuf, OverlayError> {
        #[derive(Deserialize)]
        struct Control {
            #[serde(rename = "control_socket")]
            control: Option<PathBuf>,
        }
        let text = read_file(path)?;
        let invalid = |what| OverlayError::Settings { path: path.to_owned(), what };
        let Control { control } = parsed(&text).map_err(invalid)?;
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
                ("`relay_rate`", RELAY_RATE_MIN),
                "`relay = false` disables relaying",
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
                ("`capacity`", CAPACITY_MIN),
                "without the key the capacity is measured",
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

    /// Number of queues of the tunnel device. Default: one for every two CPUs, as each queue has two threads.
    pub fn queues(&self) -> usize {
        self.queues.unwrap_or_else(|| (kernel::cpus() / 2).clamp(1, DEFAULT_QUEUES_MAX))
    }

    /// Subnets of this member without duplicates: its addresses, and the networks behind it.
    pub fn serves(&self) -> Vec<IpNet> {
        serves(&self.addresses, &self.subnets)
    }

    /// Keys with different values in `other`, except `member`, `certificate` and `refuse`.
    pub(crate) fn different_keys(&self, other: &Self) -> Vec<String> {
        let (own, others) = (&self.as_written, &other.as_written);
        let mut keys: BTreeSet<&str> = own.keys().chain(others.keys()).map(String::as_str).collect();
        keys.retain(|key| own.get(*key) != others.get(*key));
        // The order of the addresses counts here, as the first one is the source address of this host.
        let compared =
            [("network_secret", self.secret != other.secret), ("addresses", self.addresses != other.addresses)];
        let is_other = compared.into_iter().chain(self.is_another_member(other));
        keys.extend(is_other.filter(|(_, is_other)| *is_other).map(|(key, _)| key));
        keys.into_iter().map(str::to_owned).collect()
    }

    /// Whether the keys that identify a member to its peers have different values in `other`.
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

    /// Maximum rate of relayed frames from each previous hop as advertised to peers, b/s; 0: no relaying.
    pub(crate) fn relayed_bps(&self) -> u64 {
        if self.relay { self.relay_rate.map_or(UNBOUNDED, Rate::as_bps) } else { 0 }
    }

    /// Model of the rate predictions.
    pub(crate) fn model(&self) -> Model {
        self.rules().model
    }

    /// Name of a member, or its number if it is unknown.
    pub fn name_of(&self, member: Member) -> String {
        self.members.one(member).map_or_else(|| member.to_string(), |m| m.name)
    }
}

/// Checks the MTU against the minimum for the address families of these networks.
pub(crate) fn check_mtu<'a>(mtu: u16, mut nets: impl Iterator<Item = &'a IpNet>) -> Result<(), String> {
    if mtu < MTU_IPV6_MIN && nets.any(|s| s.addr().is_ipv6()) {
        return Err(format!("`mtu` = {mtu} is out of range; the minimum with IPv6 addresses is {MTU_IPV6_MIN}"));
    }
    Ok(())
}

fn read_file(path: &Path) -> Result<String, OverlayError> {
    kernel::read_regular(path, FILE_BYTES_MAX)
        .map_err(|source| OverlayError::SettingsFile { path: path.to_owned(), source })
}

fn check_secret(secret: &str) -> Result<(), String> {
    if secret.len() < 16 {
        return Err(
            "`network_secret` has fewer than 16 characters; `longhaul overlay init` generates a valid one".to_owned()
        );
    }
    Ok(())
}

fn check_addresses(addresses: &[IpAddr]) -> Result<(), String> {
    if addresses.is_empty() {
        return Err("`addresses` is empty; a member needs at least one address".to_owned());
    }
    match addresses.iter().find(|a| a.is_unspecified() || a.is_loopback() || a.is_multicast()) {
        Some(invalid) => {
            Err(format!("`addresses` contains {invalid}; it must not be an unspecified, loopback or multicast address"))
        }
        None => Ok(()),
    }
}

/// The loss sensor, which the policy of the paper and `loss_interval` enable.
fn sensor(
    policy: PolicyName,
    t_loss: Option<std::time::Duration>,
    n_loss: Option<u32>,
) -> Result<Option<LossSensor>, String> {
    let is_enabled = policy == PolicyName::Safire2008 || t_loss.is_some();
    if n_loss.is_some() && !is_enabled {
        return Err("`loss_probes` needs `loss_interval`, or the policy `safire-2008`".to_owned());
    }
    is_enabled.then(|| LossSensor::new(t_loss, n_loss)).transpose()
}

/// Checks `probe_share`.
fn probe_share(asked: Option<f64>) -> Result<f64, String> {
    let share = asked.unwrap_or(PROBE_SHARE);
    if !(0.0..=0.5).contains(&share) {
        return Err(format!("`probe_share` = {share} is out of range (0-0.5); it is a share of the rate of a link"));
    }
    Ok(share)
}

/// Checks `mtu`. The key is read as `i64`, so that this error replaces that of the TOML parser.
fn mtu(asked: i64) -> Result<u16, String> {
    let mtu = u16::try_from(asked).ok().filter(|mtu| MTU.contains(mtu));
    mtu.ok_or_else(|| format!("`mtu` = {asked} is out of range ({}-{})", MTU.start(), MTU.end()))
}

fn check_device(name: &str, queues: Option<usize>) -> Result<(), String> {
    // The rules of the kernel (dev_valid_name). In addition, `%` would be a template for another name.
    let is_odd = |c: char| matches!(c, '/' | ':' | '%') || c.is_whitespace();
    if !(1..=15).contains(&name.len()) || name == "." || name == ".." || name.contains(is_odd) {
        return Err(format!(
            "`device` = `{name}` is not a valid device name; it has 1 to 15 bytes without spaces, `/`, `:` and `%`"
        ));
    }
    match queues.filter(|q| !QUEUES.contains(q)) {
        Some(queues) => Err(format!("`queues` = {queues} is out of range ({}-{})", QUEUES.start(), QUEUES.end())),
        None => Ok(()),
    }
}

/// Checks `http_names`.
fn check_status_names(names: &[String], has_page: bool) -> Result<(), String> {
    if !names.is_empty() && !has_page {
        return Err("`http_names` needs `http_listen`, the address of the HTTP server".to_owned());
    }
    match names.iter().find(|name| !is_name(name)) {
        Some(invalid) => {
            Err(format!("`http_names` contains {invalid:?}, which is not a host name; write names without a port"))
        }
        None => Ok(()),
    }
}

/// Checks the minimum of a rate, which detects a missing unit. `alternative`: the setting for the purpose of a zero.
fn at_least(rate: Option<Rate>, (key, min): (&str, Rate), alternative: &str) -> Result<Option<Rate>, String> {
    match rate.filter(|r| *r < min) {
        Some(rate) => Err(format!("{key} = {rate} is out of range; the minimum is {min}; {alternative}")),
        None => Ok(rate),
    }
}

/// Checks `gossip_rate`.
fn gossip_rate(asked: Option<Rate>) -> Result<Rate, String> {
    let rate = asked.unwrap_or(GOSSIP_RATE);
    if rate < GOSSIP_RATE_MIN {
        return Err(format!("`gossip_rate` = {rate} is out of range; the minimum is {GOSSIP_RATE_MIN}"));
    }
    Ok(rate)
}

/// Checks `decision_log_size`.
fn record_size(asked: Option<Bytes>, records: bool) -> Result<Bytes, String> {
    let Some(size) = asked else { return Ok(RECORD_SIZE) };
    if !records {
        return Err("`decision_log_size` needs `decision_log`, the file that it limits".to_owned());
    }
    if size < RECORD_SIZE_MIN {
        return Err(format!("`decision_log_size` = {size} is out of range; the minimum is {RECORD_SIZE_MIN}"));
    }
    Ok(size)
}

fn serves(addresses: &[IpAddr], subnets: &[IpNet]) -> Vec<IpNet> {
    distinct(addresses.iter().map(|a| IpNet::from(*a)).chain(subnets.iter().copied()))
}
