//! What an experiment file says, checked and resolved: names are known, quantities are typed, the schedule is expanded.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use link::Settings;
use shaping::Policy;
use units::{Bytes, Rate};

use crate::sizes::Sizes;

/// One experiment, one set of parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Name, for files and titles.
    pub name: String,
    /// What it shows, in a sentence or two; may be empty.
    pub about: String,
    /// Seed of every random draw.
    pub seed: u64,
    /// How long it runs. At least the end of every flow that has one.
    pub duration: Duration,
    /// How often it is repeated, each time with another seed (seed, seed + 1, ...).
    pub repeat: u32,
    /// Hosts and routers, in the order of the file.
    pub nodes: Vec<Node>,
    /// Point-to-point links, in the order of the file.
    pub links: Vec<Link>,
    /// LANs, in the order of the file.
    pub lans: Vec<Lan>,
    /// All changes, sorted by time; each names what it changes.
    pub schedule: Vec<Change>,
    /// Bulk flows (`longhaul test`), in the order of the file.
    pub flows: Vec<Flow>,
    /// Streams of small transfers, in the order of the file.
    pub mice: Vec<Mice>,
    /// Longhaul's own congestion controls that are used, by name, with their parameters.
    pub congestion: BTreeMap<String, congestion::Settings>,
    /// Members of an overlay, if there is one.
    pub overlay: Option<Overlay>,
    /// Programs, in the order of the file.
    pub programs: Vec<Program>,
    /// What to record.
    pub record: Record,
    /// When a run counts as valid.
    pub validity: Validity,
    /// What the report plots over the sweep, when the file has a sweep.
    pub plot: Option<Plot>,
    /// What others have published, to show beside the means.
    pub published: Vec<PublishedValue>,
    /// The variant that was applied.
    pub variant: Option<String>,
    /// The point of the sweep that this is: dotted key and value as text, in the order of the file. Empty without a sweep.
    pub point: Vec<(String, String)>,
}

/// A host or router: a network namespace of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Name, also its host name in every node's /etc/hosts.
    pub name: String,
    /// Its address; on the loopback device, shared by all its links.
    pub ipv4: Ipv4Addr,
    /// The same for IPv6.
    pub ipv6: Ipv6Addr,
    /// Settings below /proc/sys, keys with dots: `net.ipv4.tcp_rmem`.
    pub sysctl: BTreeMap<String, String>,
    /// How traffic on its devices is shaped; in each policy the device is the name of the link or LAN.
    pub shape: Vec<(Medium, Policy)>,
    /// Where packets for the other nodes go.
    pub routes: Vec<Route>,
}

/// How a node reaches another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Index of the destination in [`Scenario::nodes`].
    pub to: usize,
    /// Over which link or LAN.
    pub over: Medium,
    /// Index of the next node: the destination itself when it is a neighbour.
    pub next: usize,
}

/// A link or a LAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Index in [`Scenario::links`].
    Link(usize),
    /// Index in [`Scenario::lans`].
    Lan(usize),
}

/// A point-to-point link.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Name.
    pub name: String,
    /// Indices of its two nodes.
    pub between: [usize; 2],
    /// MTU of the interfaces at both ends.
    pub mtu: u32,
    /// From `between[0]` to `between[1]`.
    pub forward: Settings,
    /// From `between[1]` to `between[0]`.
    pub backward: Settings,
}

/// An ideal switch with a full-duplex port for each member. Rate, queue, overhead and MTU hold in both directions of
/// each port; delay and impairments hold once, from the switch to the member.
#[derive(Debug, Clone, PartialEq)]
pub struct Lan {
    /// Name.
    pub name: String,
    /// Indices of its members.
    pub members: Vec<usize>,
    /// MTU of the members' interfaces.
    pub mtu: u32,
    /// From a member to the switch.
    pub up: Settings,
    /// From the switch to a member.
    pub down: Settings,
}

/// Which way packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// From the first node of a link to the second.
    Forward,
    /// From the second to the first.
    Backward,
}

/// From this time on, one direction of a link does this.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Time since the start of the run.
    pub at: Duration,
    /// Index in [`Scenario::links`].
    pub link: usize,
    /// Which direction.
    pub way: Way,
    /// All of its settings from now on.
    pub settings: Settings,
}

/// How much a flow carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// For a time.
    Duration(Duration),
    /// An amount.
    Bytes(Bytes),
}

/// What a flow is carried by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP, as fast as it goes or paced.
    Tcp,
    /// UDP datagrams at equal distances.
    UdpConstant,
    /// UDP datagrams as a Poisson process.
    UdpPoisson,
}

/// A bulk flow, measured by `longhaul test`.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Name.
    pub name: String,
    /// Index of the node that sends.
    pub from: usize,
    /// Index of the node that receives.
    pub to: usize,
    /// Time since the start of the run.
    pub start: Duration,
    /// How much.
    pub extent: Extent,
    /// TCP or UDP.
    pub transport: Transport,
    /// Parallel connections.
    pub streams: u32,
    /// TCP: congestion control; `None` only for UDP. The file's default is `cubic`, never the host's.
    pub congestion_control: Option<String>,
    /// Socket buffers at both ends; `None`: the kernel's autotuning.
    pub window: Option<Bytes>,
    /// Pacing rate of each TCP stream, or the rate of a UDP flow.
    pub rate: Option<Rate>,
    /// Size of a block (TCP) or datagram payload (UDP).
    pub block: Option<Bytes>,
    /// TCP maximum segment size.
    pub mss: Option<u32>,
    /// Differentiated services code point.
    pub dscp: Option<u8>,
    /// Use IPv6.
    pub ipv6: bool,
    /// Goes over the experiment's overlay.
    pub overlay: bool,
}

/// A stream of small TCP transfers, each on a connection of its own. What counts is the completion time of each, from the
/// first packet of the handshake to the last byte received.
#[derive(Debug, Clone, PartialEq)]
pub struct Mice {
    /// Name.
    pub name: String,
    /// Index of the node that sends the bytes.
    pub from: usize,
    /// Index of the node that asks for them.
    pub to: usize,
    /// Time since the start of the run.
    pub start: Duration,
    /// End of new transfers, since the start of the run.
    pub stop: Duration,
    /// How many bytes each carries.
    pub bytes: Sizes,
    /// Mean time between two starts.
    pub every: Duration,
    /// Whether the starts are a Poisson process rather than equally spaced.
    pub poisson: bool,
    /// Congestion control of the sender.
    pub congestion_control: String,
}

/// An overlay: nodes that run `longhaul overlay up`. What is absent is as the program has it by itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Overlay {
    /// Indices of the nodes.
    pub members: Vec<usize>,
    /// Which members send each other frames without a relay; `None`: all.
    pub links: Option<Vec<[usize; 2]>>,
    /// By which rules paths are chosen.
    pub policy: Option<String>,
    /// All flows to a destination go one way.
    pub single_path: bool,
    /// Least time between two changes of a path.
    pub t_ch: Option<Duration>,
    /// Losses are told for intervals of this length, as SAFIRE did.
    pub t_loss: Option<Duration>,
    /// By so many probes in each.
    pub n_loss: Option<u32>,
    /// Rate of each member's access.
    pub capacity: Option<Rate>,
    /// Most of a link's rate that probes take.
    pub probe_share: Option<f64>,
    /// Congestion control that the predictions are for.
    pub congestion_control: Option<String>,
}

impl Overlay {
    /// The address of a member, by its place in the list; shared address space (RFC 6598), which no emulated network uses.
    pub fn address(place: usize) -> Ipv4Addr {
        Ipv4Addr::new(100, 64, (place >> 8) as u8, place as u8 + 1)
    }

    /// The address of a node.
    pub fn address_of(&self, node: usize) -> Option<Ipv4Addr> {
        self.members.iter().position(|m| *m == node).map(Self::address)
    }

    /// Whether two nodes send each other frames without a relay.
    pub fn is_linked(&self, a: usize, b: usize) -> bool {
        self.links.as_ref().is_none_or(|links| links.iter().any(|l| *l == [a, b] || *l == [b, a]))
    }
}

/// A program that runs in a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// Name.
    pub name: String,
    /// Index of the node.
    pub node: usize,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Time since the start of the run; `None`: before it, ahead of all flows (servers).
    pub start: Option<Duration>,
    /// When it gets SIGTERM; `None`: at the end of the run. A program that ends earlier is no fault if its status is 0.
    pub stop: Option<Duration>,
    /// Environment beyond the lab's own.
    pub env: BTreeMap<String, String>,
}

/// What to record.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Length of an interval.
    pub interval: Duration,
    /// Links (indices) to capture as pcapng.
    pub pcapng: Vec<usize>,
    /// Bytes of each packet to capture.
    pub snap: u32,
}

/// When a run counts as valid.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Validity {
    /// Largest 99th percentile of the engine's lateness; `None`: 1 % of the link's delay, at least 1 ms.
    pub lateness_p99: Option<Duration>,
    /// Largest share of the machine's CPU time that its own host may give to others; `None`: the lab's own limit.
    pub stolen_cpu: Option<f64>,
}

/// A value that others have published.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedValue {
    /// Metric of the summary that it compares with.
    pub metric: String,
    /// In the metric's unit.
    pub value: f64,
    /// Publication, section or table.
    pub source: String,
}

/// A plot over the sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// Dotted key of the sweep that gives the x axis.
    pub x: String,
    /// What the y axis shows.
    pub y: Metric,
    /// Dotted key of the sweep that gives one curve for each value; `None`: one curve a flow.
    pub series: Option<String>,
    /// Logarithmic axes.
    pub log: bool,
    /// Formulas to draw beside the measurements.
    pub models: Vec<Model>,
}

/// What a plot shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Goodput of the flows.
    Throughput,
    /// Median completion time of the mice.
    Completion,
    /// 95th percentile of the queue's delay on the link with the longest.
    QueueDelay,
    /// Share of the capacity used on the busiest link.
    Utilisation,
}

/// A formula for the throughput of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// Mathis et al. 1997.
    Mathis,
    /// The CUBIC response function (RFC 9438 §5.1).
    Cubic,
}

/// A file, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Where it was read from.
    pub path: PathBuf,
    /// One for each point of the sweep, in order; exactly one without a sweep.
    pub scenarios: Vec<Scenario>,
}
