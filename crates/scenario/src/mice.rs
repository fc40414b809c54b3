//! Streams of small transfers.

use std::time::Duration;

use link::Capacity;
use units::Bytes;

use crate::flows::{DEFAULT_CONGESTION_CONTROL, Draft, Times, check_name, congestion_control, ends};
use crate::model::{Medium, Mice};
use crate::path_segments::path_segments;
use crate::problem::{Fault, Report};
use crate::quantity;
use crate::section::{Item, Section, Spot};
use crate::sizes;
use crate::topology::Topology;
use crate::tree::Value;

/// Minimum interval between two transfers: below it their number, not their size, would be the load.
const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// The share of a link's rate that a stream of transfers uses.
#[derive(Debug)]
pub(crate) struct Load {
    share: f64,
    spot: Spot,
    /// Index of the link and position of its name; `None`: the slowest link on the path.
    of: Option<(usize, Spot)>,
}

/// Reads one stream of small transfers; [`finish`] sets its end.
pub(crate) fn read(name: String, item: &Item<'_>, topology: &Topology) -> Option<Draft<Mice>> {
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
    let poisson = section.read("arrivals", quantity::name(&[("poisson", true), ("constant", false)])).unwrap_or(true);
    let congestion_control =
        section.read("congestion_control", congestion_control).unwrap_or_else(|| DEFAULT_CONGESTION_CONTROL.to_owned());
    let spot = section.spot();
    section.finish();
    let ((from, to), bytes, every) = (ends?, bytes?, every?);
    let (start, stop) = (times.start, Duration::ZERO);
    let mice = Mice { name, from, to, start, stop, bytes, every, poisson, congestion_control };
    Some(Draft { what: mice, times, spot, is_numbered: false, load })
}

/// Reads `load` and `of`, the alternative to `every`.
fn read_load(section: &mut Section<'_>, topology: &Topology) -> Option<Load> {
    let Some(item) = section.item("load") else {
        section.refuse("of", "applies to load, which is missing", "write load = 0.2, or leave it out");
        return None;
    };
    section.refuse("every", "follows from the load", "keep one of them");
    let spot = item.spot();
    // An invalid load is replaced by one, so that no missing key is reported in addition.
    let share = item.read(load_share).unwrap_or(1.0);
    let of = section.item("of").and_then(|item| Some((topology.link(&item)?, item.spot())));
    Some(Load { share, spot, of })
}

fn load_share(value: &Value) -> Result<f64, Fault> {
    match quantity::probability(value)? {
        0.0 => Err(Fault::new("a load of zero makes no transfers", "write a share above zero, such as 0.2")),
        share => Ok(share),
    }
}

/// Sets the mean interval of transfers that make a load, once the routes are known: the mean size over the share of the
/// rate.
pub(crate) fn settle_load(draft: &mut Draft<Mice>, topology: &Topology, report: &Report) {
    let Some(load) = &draft.load else { return };
    let mice = &mut draft.what;
    let Some(segments) = path_segments((&topology.nodes, &topology.links, &topology.lans), mice.from, mice.to) else {
        return;
    };
    let named = load.of.as_ref().map(|(link, _)| Medium::Link(*link));
    if let Some((_, spot)) = load.of.as_ref().filter(|_| !segments.iter().any(|s| Some(s.over) == named)) {
        let [from, to] = [mice.from, mice.to].map(|n| &topology.nodes[n].name);
        let message = format!("is not on the path from {from} to {to}");
        spot.complain(report, Fault::new(message, "name a link that the transfers pass, or leave it out"));
        return;
    }
    let rates = segments.iter().filter(|s| named.is_none_or(|link| s.over == link)).filter_map(|s| {
        match &s.settings.capacity {
            Capacity::Constant(rate) => Some(rate.as_bps()),
            Capacity::Unlimited | Capacity::Trace(_) => None,
        }
    });
    let Some(rate) = rates.min() else {
        let hint = "give a link on the path a rate, or write every instead";
        load.spot.complain(report, Fault::new("there is no constant rate to take a share of", hint));
        return;
    };
    // A time beyond the range of the clock is longer than any run.
    let seconds = mice.bytes.mean() * 8.0 / (load.share * rate as f64);
    mice.every = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    if mice.every < INTERVAL_MIN {
        let message = format!(
            "makes a transfer of {} every {} on average, which is too often",
            Bytes::new(mice.bytes.mean().round() as u64),
            crate::describe::duration(mice.every)
        );
        load.spot.complain(report, Fault::new(message, "at least 1ms: lower the load or make the transfers larger"));
    }
}

/// Sets the end of a stream of transfers, once the duration of the run is known.
pub(crate) fn finish(draft: Draft<Mice>, run: Duration) -> Mice {
    Mice { stop: draft.times.end.unwrap_or(run), ..draft.what }
}

fn distance(value: &Value) -> Result<Duration, Fault> {
    match quantity::duration(value)? {
        time if time >= INTERVAL_MIN => Ok(time),
        time => Err(Fault::new(
            format!("a transfer every {} is too often", crate::describe::duration(time)),
            "at least 1ms; use several [mice.*] for more",
        )),
    }
}
