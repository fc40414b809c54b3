//! Bulk flows, and the keys that they share with streams of small transfers.

use std::time::Duration;

use units::{Bytes, Rate};

use crate::mice::Load;
use crate::model::{Extent, Flow, Transport};
use crate::problem::{Fault, Report};
use crate::quantity;
use crate::section::{Item, Section, Spot};
use crate::topology::Topology;
use crate::tree::Value;

/// Ranges of the measurement's wire format (crate `wire`, module `plan`).
const STREAMS_MAX: u32 = 128;
const TCP_BLOCK: std::ops::RangeInclusive<u64> = 16..=16 * 1024 * 1024;
const DATAGRAM: std::ops::RangeInclusive<u64> = 24..=65_507;
const WINDOW: std::ops::RangeInclusive<u64> = 1..=0x7fff_ffff;
/// TCP_MIN_MSS and MAX_TCP_WINDOW in the kernel's include/net/tcp.h.
const MSS: std::ops::RangeInclusive<u32> = 88..=32_767;
/// Congestion control of a flow that names none: the default of most hosts.
pub(crate) const DEFAULT_CONGESTION_CONTROL: &str = "cubic";
/// Maximum number of flows in a group: each is a process.
const GROUP_MAX: u32 = 200;

/// Start and end of a flow, as given in the file.
#[derive(Debug)]
pub(crate) struct Times {
    pub(crate) start: Duration,
    start_spot: Spot,
    /// End since the start of the run, if the file gives a time.
    pub(crate) end: Option<Duration>,
    end_spot: Spot,
    /// Whether the file gives a duration: then a later start moves the end.
    lasts: bool,
    /// Whether another flow of the same group ends later; an error is then reported only for that flow.
    is_earlier: bool,
}

impl Times {
    /// Reads `start`, and those of `stop` and `duration` that `keys` allows.
    pub(crate) fn read(section: &mut Section<'_>, keys: &[&'static str]) -> Self {
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

    /// The times of a flow of the same group that starts `by` later.
    fn later(&self, by: Duration, is_earlier: bool) -> Self {
        let end = if self.lasts { self.end.map(|end| end + by) } else { self.end };
        let (start_spot, end_spot) = (self.start_spot.clone(), self.end_spot.clone());
        Self { start: self.start + by, end, start_spot, end_spot, lasts: self.lasts, is_earlier }
    }

    /// Reports an error if the times are outside the run.
    pub(crate) fn check(&self, report: &Report, run: Duration) {
        let text = crate::describe::duration;
        if self.is_earlier {
            return;
        }
        if self.start >= run {
            let message = format!("starts at {}, after the end of the run of {}", text(self.start), text(run));
            self.start_spot.complain(report, Fault::new(message, "start it earlier or make the duration longer"));
        } else if let Some(end) = self.end.filter(|end| *end > run) {
            let message = format!("ends at {}, after the end of the run of {}", text(end), text(run));
            let hint = "end it earlier, or make the duration of the run longer";
            self.end_spot.complain(report, Fault::new(message, hint));
        }
    }
}

/// A flow whose end may depend on the duration of the run.
#[derive(Debug)]
pub(crate) struct Draft<T> {
    pub(crate) what: T,
    pub(crate) times: Times,
    /// Position for the error that the nodes cannot reach each other.
    pub(crate) spot: Spot,
    /// Whether the name is a group's name with a number appended, and so not in the file.
    pub(crate) is_numbered: bool,
    /// Load of a stream of mice, whose interval is computed from a rate once the routes are known.
    pub(crate) load: Option<Load>,
}

/// Reads one flow or a group of flows. The extent is the amount of data if given; otherwise [`finish_flow`] sets it.
pub(crate) fn read_flow(name: String, item: &Item<'_>, topology: &Topology) -> Option<Vec<Draft<Flow>>> {
    check_name(&name, item);
    let mut section = item.section()?;
    let group = read_group(&mut section);
    let ends = ends(&mut section, topology);
    let times = Times::read(&mut section, &["duration", "stop"]);
    let amount = section.read("bytes", quantity::bytes);
    one_end(&section);
    let udp = section.read("protocol", quantity::name(&[("tcp", false), ("udp", true)])).unwrap_or(false);
    let mut flow = if udp { udp_only(&mut section) } else { tcp_only(&mut section) };
    flow.streams = section.read("streams", quantity::whole_u32(0..=STREAMS_MAX)).unwrap_or(1);
    flow.window = section.read("window", quantity::bytes_in(WINDOW));
    flow.block = section.read("block", quantity::bytes_in(if udp { DATAGRAM } else { TCP_BLOCK }));
    flow.dscp = section.read("dscp", quantity::whole(0..=63)).and_then(|n| u8::try_from(n).ok());
    flow.ipv6 = section.read("ipv6", quantity::boolean).unwrap_or(false);
    flow.overlay = section.read("overlay", quantity::boolean).unwrap_or(false);
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

/// A group of equal flows that start one after the other.
#[derive(Debug, Clone, Copy)]
struct Group {
    count: u32,
    every: Duration,
}

fn read_group(section: &mut Section<'_>) -> Option<Group> {
    let Some(count) = section.item("count") else {
        section.refuse("every", "is the interval between the flows of a group", "add count = 20, or leave it out");
        return None;
    };
    let every = section.read("every", quantity::duration).unwrap_or_default();
    Some(Group { count: count.read(quantity::whole_u32(1..=GROUP_MAX))?, every })
}

/// Whether a flow sends anything. A flow without streams, or a UDP flow with a rate of zero, is left out, so that a
/// sweep of the load may include none.
pub(crate) fn sends(draft: &Draft<Flow>) -> bool {
    let is_silent = draft.what.transport != Transport::Tcp && draft.what.rate == Some(Rate::ZERO);
    draft.what.streams > 0 && !is_silent
}

/// The flows of a group: `elephant-1`, `elephant-2`, ..., each one interval after the one before.
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
            let message = format!("{} would start at {start}, after its stop", last.what.name);
            item.complain(Fault::new(message, "write a duration, or shorten every"));
        }
    }
    all
}

/// Sets the extent of a flow without an amount of data, once the duration of the run is known.
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
        overlay: false,
    }
}

fn tcp_only(section: &mut Section<'_>) -> Flow {
    let congestion_control = section.read("congestion_control", congestion_control);
    section.refuse("rate", "a TCP flow finds its own rate", "for a ceiling write pacing, or protocol = \"udp\"");
    section.refuse("arrivals", "only datagrams are sent at given times", "add protocol = \"udp\", or leave it out");
    Flow {
        congestion_control: Some(congestion_control.unwrap_or_else(|| DEFAULT_CONGESTION_CONTROL.to_owned())),
        rate: section.read("pacing", quantity::rate),
        mss: section.read("mss", quantity::whole_u32(MSS)),
        ..blank_flow(Transport::Tcp)
    }
}

fn udp_only(section: &mut Section<'_>) -> Flow {
    const ARRIVALS: &[(&str, Transport)] = &[("constant", Transport::UdpConstant), ("poisson", Transport::UdpPoisson)];
    let transport = section.read("arrivals", quantity::name(ARRIVALS)).unwrap_or(Transport::UdpConstant);
    let missing = "UDP has no congestion control; write its rate: rate = \"10Mb/s\"";
    let rate = section.required("rate", missing).and_then(|item| item.read(quantity::rate_or_zero));
    section.refuse("congestion_control", "UDP has none", "leave it out, or use TCP");
    section.refuse("pacing", "a UDP flow is sent at its rate", "write rate");
    section.refuse("mss", "UDP has no segments", "for the size of datagrams write block");
    Flow { rate, ..blank_flow(transport) }
}

/// Reads the nodes of `from` and `to`.
pub(crate) fn ends(section: &mut Section<'_>, topology: &Topology) -> Option<(usize, usize)> {
    let from = section.required("from", "name the node that sends");
    let to = section.required("to", "name the node that receives");
    let (from_node, to_node) = (from.and_then(|i| topology.node(&i)), to.as_ref().and_then(|i| topology.node(i)));
    let (from_node, to_node) = (from_node?, to_node?);
    if from_node == to_node {
        if let Some(item) = to {
            item.complain(Fault::new("is the sender", "name another node"));
        }
        return None;
    }
    Some((from_node, to_node))
}

pub(crate) fn congestion_control(value: &Value) -> Result<String, Fault> {
    let name = quantity::text(value)?;
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    // TCP_CA_NAME_MAX in include/net/tcp.h, without the NUL.
    if (1..=15).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(name);
    }
    let hint = "write it as /proc/sys/net/ipv4/tcp_available_congestion_control does: \"cubic\"";
    Err(Fault::new(format!("`{name}` is not a valid name of a congestion control"), hint))
}

pub(crate) fn check_name(name: &str, item: &Item<'_>) {
    if let Err(fault) = quantity::check_name(name) {
        item.complain(fault);
    }
}
