//! Bulk flows and streams of small transfers.

use std::time::Duration;

use link::Capacity;
use units::Bytes;

use crate::model::{Extent, Flow, Medium, Mice, Transport};
use crate::problem::{Fault, Report};
use crate::quantity;
use crate::section::{Item, Section, Spot};
use crate::sizes;
use crate::topology::Topology;
use crate::tree::Value;
use crate::way;

/// What the measurement's wire format takes (crate `wire`, module `plan`).
const MAX_STREAMS: u32 = 128;
const TCP_BLOCK: std::ops::RangeInclusive<u64> = 16..=16 * 1024 * 1024;
const DATAGRAM: std::ops::RangeInclusive<u64> = 24..=65_507;
const WINDOW: std::ops::RangeInclusive<u64> = 1..=0x7fff_ffff;
/// TCP_MIN_MSS and MAX_TCP_WINDOW in the kernel's include/net/tcp.h.
const MSS: std::ops::RangeInclusive<u32> = 88..=32_767;
/// Most flows of one group: each is a process.
const MAX_GROUP: u32 = 200;
/// Smallest distance of two transfers: below it their number, not their size, would be the load.
const MIN_DISTANCE: Duration = Duration::from_millis(1);

/// When something starts and ends, as the author gave it.
#[derive(Debug)]
pub(crate) struct Times {
    pub(crate) start: Duration,
    start_spot: Spot,
    /// Given in time, since the start of the run.
    pub(crate) end: Option<Duration>,
    end_spot: Spot,
    /// Given as a duration, so that a later start makes a later end.
    lasts: bool,
    /// Whether another one of the same group ends later: what is said of that one need not be said of this.
    is_earlier: bool,
}

impl Times {
    /// Reads `start`, and `stop` or `duration` of those that `keys` allows.
    fn read(section: &mut Section<'_>, keys: &[&'static str]) -> Self {
        let here = section.spot();
        let start_item = section.item("start");
        let start = start_item.as_ref().and_then(|i| i.read(quantity::duration)).unwrap_or_default();
        let start_spot = start_item.map_or_else(|| here.clone(), |i| i.spot());
        let (lasts, is_earlier) = (false, false);
        let mut times = Self { start, start_spot, end: None, end_spot: here, lasts, is_earlier };
        for key in keys {
            let Some(item) = section.item(key) else { continue };
            let Some(time) = item.read(quantity::positive_duration) else { continue };
            times.end_spot = item.spot();
            times.lasts = *key == "duration";
            times.end = Some(if times.lasts { start + time } else { time });
            if times.end <= Some(start) {
                item.complain(Fault::new("stops before it starts", "both count from the start of the run"));
            }
        }
        times
    }

    /// The same for a flow that starts so much later.
    fn later(&self, by: Duration, is_earlier: bool) -> Self {
        let end = if self.lasts { self.end.map(|end| end + by) } else { self.end };
        let (start_spot, end_spot) = (self.start_spot.clone(), self.end_spot.clone());
        Self { start: self.start + by, end, start_spot, end_spot, lasts: self.lasts, is_earlier }
    }

    /// Complains about what lies outside the run.
    pub(crate) fn check(&self, report: &Report, run: Duration) {
        let words = crate::describe::duration;
        if self.is_earlier {
            return;
        }
        if self.start >= run {
            let message = format!("starts at {}, when the run of {} is over", words(self.start), words(run));
            self.start_spot.complain(report, Fault::new(message, "start it earlier or make the duration longer"));
        } else if let Some(end) = self.end.filter(|end| *end > run) {
            let message = format!("ends at {}, after the run of {}", words(end), words(run));
            let mend = "shorten it, or make the duration of the run longer";
            self.end_spot.complain(report, Fault::new(message, mend));
        }
    }
}

/// A flow whose end may depend on the length of the run.
#[derive(Debug)]
pub(crate) struct Draft<T> {
    pub(crate) what: T,
    pub(crate) times: Times,
    /// Where to complain when the nodes cannot reach each other.
    pub(crate) spot: Spot,
    /// Whether its name is that of a group with a number, and not in the file.
    pub(crate) is_numbered: bool,
    /// Mice whose distance follows from a rate that is known once the routes are.
    load: Option<Load>,
}

/// The share of a rate that a stream of transfers is to take.
#[derive(Debug)]
struct Load {
    share: f64,
    spot: Spot,
    /// Index of the link, and where it is named; by default the slowest on the way.
    of: Option<(usize, Spot)>,
}

/// Reads one flow, or a group of them. An extent is an amount if it has one, and is filled in by [`finish_flow`] otherwise.
pub(crate) fn read_flow(name: String, item: &Item<'_>, topology: &Topology) -> Option<Vec<Draft<Flow>>> {
    check_name(&name, item);
    let mut section = item.section()?;
    let group = read_group(&mut section);
    let ends = ends(&mut section, topology);
    let times = Times::read(&mut section, &["duration", "stop"]);
    let amount = section.read("bytes", quantity::bytes);
    one_end(&section);
    let udp = section.read("protocol", quantity::word(&[("tcp", false), ("udp", true)])).unwrap_or(false);
    let mut flow = if udp { udp_only(&mut section) } else { tcp_only(&mut section) };
    flow.streams = section.read("streams", quantity::whole_u32(1..=MAX_STREAMS)).unwrap_or(1);
    flow.window = section.read("window", quantity::bytes_in(WINDOW));
    flow.block = section.read("block", quantity::bytes_in(if udp { DATAGRAM } else { TCP_BLOCK }));
    flow.dscp = section.read("dscp", quantity::whole(0..=63)).and_then(|n| u8::try_from(n).ok());
    flow.ipv6 = section.read("ipv6", quantity::boolean).unwrap_or(false);
    let spot = section.spot();
    section.finish();
    let (from, to) = ends?;
    let extent = amount.map_or(Extent::Duration(Duration::ZERO), Extent::Bytes);
    let one = Draft {
        what: Flow { name, from, to, start: times.start, extent, ..flow },
        times,
        spot,
        is_numbered: false,
        load: None,
    };
    Some(match group {
        None => vec![one],
        Some(group) => expand(&one, group, item),
    })
}

/// Flows of one kind that start one after the other.
#[derive(Debug, Clone, Copy)]
struct Group {
    count: u32,
    every: Duration,
}

fn read_group(section: &mut Section<'_>) -> Option<Group> {
    let Some(count) = section.item("count") else {
        section.refuse("every", "is the distance of several flows", "add count = 20, or leave it out");
        return None;
    };
    let every = section.read("every", quantity::duration).unwrap_or_default();
    Some(Group { count: count.read(quantity::whole_u32(1..=MAX_GROUP))?, every })
}

/// The flows of a group: `elephant-1`, `elephant-2`, ..., each so much later than the one before.
fn expand(first: &Draft<Flow>, group: Group, item: &Item<'_>) -> Vec<Draft<Flow>> {
    let one = |number: u32| {
        let times = first.times.later(group.every * (number - 1), number < group.count);
        let name = format!("{}-{number}", first.what.name);
        let what = Flow { name, start: times.start, ..first.what.clone() };
        Draft { what, times, spot: first.spot.clone(), is_numbered: true, load: None }
    };
    let all: Vec<Draft<Flow>> = (1..=group.count).map(one).collect();
    if let Some(last) = all.last() {
        check_name(&last.what.name, item);
        if last.times.end.is_some_and(|end| end <= last.times.start && first.times.start < end) {
            let start = crate::describe::duration(last.times.start);
            let message = format!("{} would start at {start} and stop before that", last.what.name);
            item.complain(Fault::new(message, "write a duration, or shorten every"));
        }
    }
    all
}

/// The extent of a flow without an amount, now that the length of the run is known.
pub(crate) fn finish_flow(draft: Draft<Flow>, run: Duration) -> Flow {
    let mut flow = draft.what;
    if let Extent::Duration(extent) = &mut flow.extent {
        *extent = draft.times.end.unwrap_or(run).saturating_sub(flow.start);
    }
    flow
}

fn one_end(section: &Section<'_>) {
    let given = section.given(&["duration", "stop", "bytes"]);
    if given.len() > 1 {
        section.complain(Fault::new(format!("has {}", given.join(" and ")), "keep one of them"));
    }
}

fn blank_flow(transport: Transport) -> Flow {
    Flow {
        name: String::new(),
        from: 0,
        to: 0,
        start: Duration::ZERO,
        extent: Extent::Bytes(Bytes::ZERO),
        transport,
        streams: 1,
        congestion_control: None,
        window: None,
        rate: None,
        block: None,
        mss: None,
        dscp: None,
        ipv6: false,
    }
}

fn tcp_only(section: &mut Section<'_>) -> Flow {
    let congestion_control = section.read("congestion_control", congestion_control);
    section.refuse("rate", "a TCP flow finds its own rate", "for a ceiling write pacing, or protocol = \"udp\"");
    section.refuse("arrivals", "only datagrams are sent at given times", "add protocol = \"udp\", or leave it out");
    Flow {
        congestion_control: Some(congestion_control.unwrap_or_else(|| "cubic".to_owned())),
        rate: section.read("pacing", quantity::rate),
        mss: section.read("mss", quantity::whole_u32(MSS)),
        ..blank_flow(Transport::Tcp)
    }
}

fn udp_only(section: &mut Section<'_>) -> Flow {
    const ARRIVALS: &[(&str, Transport)] = &[("constant", Transport::UdpConstant), ("poisson", Transport::UdpPoisson)];
    let transport = section.read("arrivals", quantity::word(ARRIVALS)).unwrap_or(Transport::UdpConstant);
    let missing = "nothing else slows UDP down: rate = \"10Mb/s\"";
    let rate = section.required("rate", missing).and_then(|item| item.read(quantity::rate));
    section.refuse("congestion_control", "UDP has none", "leave it out, or use TCP");
    section.refuse("pacing", "a UDP flow is sent at its rate", "write rate");
    section.refuse("mss", "UDP has no segments", "for the size of datagrams write block");
    Flow { rate, ..blank_flow(transport) }
}

/// Reads one stream of small transfers; its end is filled in by [`finish_mice`].
pub(crate) fn read_mice(name: String, item: &Item<'_>, topology: &Topology) -> Option<Draft<Mice>> {
    check_name(&name, item);
    let mut section = item.section()?;
    let ends = ends(&mut section, topology);
    let times = Times::read(&mut section, &["stop"]);
    let bytes = section.required("bytes", "the size of each transfer: bytes = \"100kB\"").and_then(|i| sizes::read(&i));
    let load = read_load(&mut section, topology);
    let every = match &load {
        Some(_) => Some(Duration::ZERO),
        None => section
            .required(
                "every",
                "the mean time between two starts: every = \"200ms\"; or a share of the rate: load = 0.2",
            )
            .and_then(|i| i.read(distance)),
    };
    let poisson = section.read("arrivals", quantity::word(&[("poisson", true), ("constant", false)])).unwrap_or(true);
    let congestion_control =
        section.read("congestion_control", congestion_control).unwrap_or_else(|| "cubic".to_owned());
    let spot = section.spot();
    section.finish();
    let ((from, to), bytes, every) = (ends?, bytes?, every?);
    let (start, stop) = (times.start, Duration::ZERO);
    let mice = Mice { name, from, to, start, stop, bytes, every, poisson, congestion_control };
    Some(Draft { what: mice, times, spot, is_numbered: false, load })
}

/// Reads `load` and `of`, which stand instead of `every`.
fn read_load(section: &mut Section<'_>, topology: &Topology) -> Option<Load> {
    let Some(item) = section.item("load") else {
        section.refuse("of", "names the link of a load, and there is none", "write load = 0.2, or leave it out");
        return None;
    };
    section.refuse("every", "follows from the load", "keep one of them");
    let spot = item.spot();
    // After a complaint a load of one: that nothing else is missing is known all the same.
    let share = item.read(load_share).unwrap_or(1.0);
    let of = section.item("of").and_then(|item| Some((topology.link(&item)?, item.spot())));
    Some(Load { share, spot, of })
}

fn load_share(value: &Value) -> Result<f64, Fault> {
    match quantity::probability(value)? {
        0.0 => Err(Fault::new("a load of zero is no transfer at all", "write a share above zero, such as 0.2")),
        share => Ok(share),
    }
}

/// The distance of transfers that are to make a load, now that the routes are known: the mean size over the share of the rate.
pub(crate) fn settle_load(draft: &mut Draft<Mice>, topology: &Topology, report: &Report) {
    let Some(load) = &draft.load else { return };
    let mice = &mut draft.what;
    let Some(way) = way::way((&topology.nodes, &topology.links, &topology.lans), mice.from, mice.to) else { return };
    let named = load.of.as_ref().map(|(link, _)| Medium::Link(*link));
    if let Some((_, spot)) = load.of.as_ref().filter(|_| !way.iter().any(|s| Some(s.over) == named)) {
        let [from, to] = [mice.from, mice.to].map(|n| &topology.nodes[n].name);
        let message = format!("is not on the way from {from} to {to}");
        spot.complain(report, Fault::new(message, "name a link that the transfers pass, or leave it out"));
        return;
    }
    let rates =
        way.iter().filter(|s| named.is_none_or(|link| s.over == link)).filter_map(|s| match &s.settings.capacity {
            Capacity::Constant(rate) => Some(rate.as_bps()),
            Capacity::Unlimited | Capacity::Trace(_) => None,
        });
    let Some(rate) = rates.min() else {
        let mend = "give a link on the way a rate, or write every instead";
        load.spot.complain(report, Fault::new("there is no constant rate to take a share of", mend));
        return;
    };
    // A time that no clock holds is longer than any run.
    let seconds = mice.bytes.mean() * 8.0 / (load.share * rate as f64);
    mice.every = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    if mice.every < MIN_DISTANCE {
        let message = format!(
            "makes a transfer every {} of {} on average, which is too often",
            crate::describe::duration(mice.every),
            Bytes::new(mice.bytes.mean().round() as u64)
        );
        load.spot.complain(report, Fault::new(message, "at least 1ms: lower the load or make the transfers larger"));
    }
}

/// The end of a stream of transfers, now that the length of the run is known.
pub(crate) fn finish_mice(draft: Draft<Mice>, run: Duration) -> Mice {
    Mice { stop: draft.times.end.unwrap_or(run), ..draft.what }
}

fn distance(value: &Value) -> Result<Duration, Fault> {
    match quantity::duration(value)? {
        time if time >= MIN_DISTANCE => Ok(time),
        time => Err(Fault::new(
            format!("a transfer every {} is too often", crate::describe::duration(time)),
            "at least 1ms; use several [mice.*] for more",
        )),
    }
}

/// The nodes of `from` and `to`.
fn ends(section: &mut Section<'_>, topology: &Topology) -> Option<(usize, usize)> {
    let from = section.required("from", "name the node that sends");
    let to = section.required("to", "name the node that receives");
    let (from_node, to_node) = (from.and_then(|i| topology.node(&i)), to.as_ref().and_then(|i| topology.node(i)));
    let (from_node, to_node) = (from_node?, to_node?);
    if from_node == to_node {
        if let Some(item) = to {
            item.complain(Fault::new("is the node that sends", "name another node"));
        }
        return None;
    }
    Some((from_node, to_node))
}

fn congestion_control(value: &Value) -> Result<String, Fault> {
    let name = quantity::text(value)?;
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    // TCP_CA_NAME_MAX in include/net/tcp.h, without the NUL.
    if (1..=15).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(name);
    }
    let mend = "write it as /proc/sys/net/ipv4/tcp_available_congestion_control does: \"cubic\"";
    Err(Fault::new(format!("`{name}` is no congestion control"), mend))
}

fn check_name(name: &str, item: &Item<'_>) {
    if let Err(fault) = quantity::check_name(name) {
        item.complain(fault);
    }
}
