//! The contents of an experiment file, checked and resolved: names are known, quantities are typed, the schedule is
//! expanded.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use estimate::probe::MethodName;
use link::Settings;
use shaping::Policy;
use units::{Bytes, Rate};

use crate::sizes::Sizes;

/// One experiment with one set of parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Name, used for files and titles.
    pub name: String,
    /// Description in a sentence or two; may be empty.
    pub about: String,
    /// Seed of every random draw.
    pub seed: u64,
    /// Duration of the run, at least until the end of every flow that has an end.
    pub duration: Duration,
    /// Number of repetitions, each with its own seed (seed, seed + 1, ...).
    pub repeat: u32,
    /// Hosts and routers, in the order of the file.
    pub nodes: Vec<Node>,
    /// Point-to-point links, in the order of the file.
    pub links: Vec<Link>,
    /// LANs, in the order of the file.
    pub lans: Vec<Lan>,
    /// All changes of links, sorted by time.
    pub schedule: Vec<Change>,
    /// Bulk flows (`longhaul test`), in the order of the file.
    pub flows: Vec<Flow>,
    /// Streams of small transfers, in the order of the file.
    pub mice: Vec<Mice>,
    /// Longhaul's own congestion controls in use, by name, with their parameters.
    pub congestion: BTreeMap<String, congestion::Settings>,
    /// Nodes of an overlay, if there is one.
    pub overlay: Option<Overlay>,
    /// Calls of `longhaul estimate`, in the order of the file.
    pub estimates: Vec<EstimateCall>,
    /// Programs, in the order of the file.
    pub programs: Vec<Program>,
    /// Data to record.
    pub record: Record,
    /// Limits within which a run counts as valid.
    pub validity: Validity,
    /// Plot over the sweep, if the file has a sweep.
    pub plot: Option<Plot>,
    /// Published values, shown beside the means.
    pub published: Vec<PublishedValue>,
    /// The variant that was applied, if any.
    pub variant: Option<String>,
    /// The point of the sweep: dotted key and value as text, in the order of the file. Empty without a sweep.
    pub point: Vec<(String, String)>,
}

/// A host or router: one network namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Name, also the host name in every node's /etc/hosts.
    pub name: String,
    /// IPv4 address on the loopback device, shared by all links of the node.
    pub ipv4: Ipv4Addr,
    /// IPv6 address on the loopback device, shared by all links of the node.
    pub ipv6: Ipv6Addr,
    /// Settings below /proc/sys, keys with dots: `net.ipv4.tcp_rmem`.
    pub sysctl: BTreeMap<String, String>,
    /// Traffic shaping of the node's devices; the device of each policy is the name of the link or LAN.
    pub shape: Vec<(Medium, Policy)>,
    /// Routes to the other nodes.
    pub routes: Vec<Route>,
}

/// A route from one node to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Index of the destination in [`Scenario::nodes`].
    pub to: usize,
    /// Link or LAN to the next node.
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
    /// Settings from `between[0]` to `between[1]`.
    pub forward: Settings,
    /// Settings from `between[1]` to `between[0]`.
    pub backward: Settings,
}

/// An ideal switch with a full-duplex port for each member. Rate, queue, overhead and MTU apply to both directions of
/// each port; delay and impairments apply once, from the switch to the member.
#[derive(Debug, Clone, PartialEq)]
pub struct Lan {
    /// Name.
    pub name: String,
    /// Indices of its members.
    pub members: Vec<usize>,
    /// MTU of the members' interfaces.
    pub mtu: u32,
    /// Settings from a member to the switch.
    pub up: Settings,
    /// Settings from the switch to a member.
    pub down: Settings,
}

/// Direction of packets over a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkDirection {
    /// From the first node of a link to the second.
    Forward,
    /// From the second node of a link to the first.
    Backward,
}

/// A change of the settings of one direction of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Time since the start of the run.
    pub at: Duration,
    /// Index in [`Scenario::links`].
    pub link: usize,
    /// Direction.
    pub direction: LinkDirection,
    /// All settings of the direction from this time on.
    pub settings: Settings,
}

/// Amount that a flow transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Transfers for a duration.
    Duration(Duration),
    /// Transfers an amount of data.
    Bytes(Bytes),
}

/// Transport protocol of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP, at the rate of its congestion control or paced.
    Tcp,
    /// UDP datagrams at equal intervals.
    UdpConstant,
    /// UDP datagrams at the times of a Poisson process.
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
    /// Amount that the flow transfers.
    pub extent: Extent,
    /// Transport protocol.
    pub transport: Transport,
    /// Parallel connections.
    pub streams: u32,
    /// TCP congestion control; `None` only for UDP. The default of the file is `cubic`, never the host's.
    pub congestion_control: Option<String>,
    /// Size of the socket buffers at both ends; `None`: autotuning by the kernel.
    pub window: Option<Bytes>,
    /// Pacing rate of each TCP stream, or the rate of a UDP flow.
    pub rate: Option<Rate>,
    /// Size of a block (TCP) or datagram payload (UDP).
    pub block: Option<Bytes>,
    /// TCP maximum segment size.
    pub mss: Option<u32>,
    /// Differentiated services code point.
    pub dscp: Option<u8>,
    /// Whether the flow uses IPv6.
    pub ipv6: bool,
    /// Whether the flow uses the experiment's overlay.
    pub overlay: bool,
}

/// A stream of small TCP transfers, each on its own connection. The result is the completion time of each, from the
/// first packet of the handshake to the last byte received.
#[derive(Debug, Clone, PartialEq)]
pub struct Mice {
    /// Name.
    pub name: String,
    /// Index of the node that sends the bytes.
    pub from: usize,
    /// Index of the node that requests the bytes.
    pub to: usize,
    /// Time since the start of the run.
    pub start: Duration,
    /// Time after which no transfer starts, since the start of the run.
    pub stop: Duration,
    /// Size of each transfer.
    pub bytes: Sizes,
    /// Mean time between the starts of two transfers.
    pub every: Duration,
    /// Whether the starts are a Poisson process; otherwise they are equally spaced.
    pub poisson: bool,
    /// Congestion control of the sender.
    pub congestion_control: String,
}

/// A call of `longhaul estimate`, whose records are the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EstimateCall {
    /// Name.
    pub name: String,
    /// Index of the node that runs the call.
    pub from: usize,
    /// Index of the node that answers.
    pub to: usize,
    /// Time since the start of the run.
    pub start: Duration,
    /// Time since the start of the run at which the call is stopped if it has not ended.
    pub stop: Duration,
    /// Methods, in the order in which they run; at least one.
    pub methods: Vec<MethodName>,
    /// Maximum volume of the probes of all methods, headers included; `None`: the default of each method.
    pub budget: Option<Bytes>,
    /// Maximum duration of a method; `None`: the default of `longhaul estimate`.
    pub time: Option<Duration>,
    /// Whether the probes measure the direction from `to` to `from`.
    pub reverse: bool,
}

/// An overlay: nodes that run `longhaul overlay up`. An absent value leaves the default of that command.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Overlay {
    /// Indices of the nodes.
    pub members: Vec<usize>,
    /// Pairs of members that exchange frames without a relay; `None`: all pairs.
    pub links: Option<Vec<[usize; 2]>>,
    /// Name of the policy for path selection.
    pub policy: Option<String>,
    /// Whether all flows to a destination use one path.
    pub single_path: bool,
    /// Hold-down: minimum time between two route changes (T_ch).
    pub t_ch: Option<Duration>,
    /// Length of the interval over which losses are reported, as in SAFIRE (T_loss).
    pub t_loss: Option<Duration>,
    /// Number of loss probes in each interval (N_loss).
    pub n_loss: Option<u32>,
    /// Rate of each member's access link.
    pub capacity: Option<Rate>,
    /// Maximum share of a link's rate that probes use.
    pub probe_share: Option<f64>,
    /// Congestion control that the throughput predictions assume.
    pub congestion_control: Option<String>,
}

impl Overlay {
    /// The overlay address of a member, by its index in the list. Shared address space (RFC 6598), which no emulated
    /// network uses.
    pub fn address(place: usize) -> Ipv4Addr {
        Ipv4Addr::new(100, 64, (place >> 8) as u8, place as u8 + 1)
    }

    /// The overlay address of a node; `None` if the node is not a member.
    pub fn address_of(&self, node: usize) -> Option<Ipv4Addr> {
        self.members.iter().position(|m| *m == node).map(Self::address)
    }

    /// Whether two nodes exchange frames without a relay.
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
    /// Start since the start of the run; `None`: before the run, ahead of all flows (servers).
    pub start: Option<Duration>,
    /// Time of SIGTERM; `None`: the end of the run. A program may end earlier if its exit status is 0.
    pub stop: Option<Duration>,
    /// Environment variables in addition to the lab's.
    pub env: BTreeMap<String, String>,
}

/// Data to record.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Length of a sampling interval.
    pub interval: Duration,
    /// Links (indices) to capture as pcapng.
    pub pcapng: Vec<usize>,
    /// Number of bytes to capture of each packet.
    pub snap: u32,
}

/// Limits within which a run counts as valid.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Validity {
    /// Maximum 99th percentile of the engine's lateness; `None`: 1 % of the link's delay, at least 1 ms.
    pub lateness_p99: Option<Duration>,
    /// Maximum share of CPU time that the hypervisor may steal from this machine; `None`: the lab's default.
    pub stolen_cpu: Option<f64>,
}

/// A published value to compare with.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedValue {
    /// Metric of the summary to compare with.
    pub metric: String,
    /// Value in the metric's unit.
    pub value: f64,
    /// Publication, section or table.
    pub source: String,
}

/// A plot over the sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// Dotted key of the sweep that gives the x axis.
    pub x: String,
    /// Metric of the y axis.
    pub y: Metric,
    /// Dotted key of the sweep that gives one curve for each value; `None`: one curve for each flow.
    pub series: Option<String>,
    /// Logarithmic axes.
    pub log: bool,
    /// Formulas to draw beside the measurements.
    pub models: Vec<Model>,
}

/// Content of a plot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Goodput of the flows.
    Throughput,
    /// Median completion time of the mice.
    Completion,
    /// 95th percentile of the queueing delay, on the link where it is largest.
    QueueDelay,
    /// Utilisation of the busiest link.
    Utilisation,
}

/// A throughput formula for TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// Mathis et al. 1997.
    Mathis,
    /// The CUBIC response function (RFC 9438 §5.1).
    Cubic,
}

/// An experiment file, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Path of the file.
    pub path: PathBuf,
    /// One scenario for each point of the sweep, in order; exactly one without a sweep.
    pub scenarios: Vec<Scenario>,
}
