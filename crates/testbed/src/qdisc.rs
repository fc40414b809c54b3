use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use units::{Bytes, Rate};

use crate::Namespace;

/// A token bucket filter on an interface. It counts bytes with Ethernet headers, without preamble and checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bottleneck {
    /// Token rate.
    pub rate: Rate,
    /// Queue limit in bytes; excess packets are dropped at the tail.
    pub queue: Bytes,
}

/// Bucket size in bytes: a full offload packet of 64 KiB, which the bucket thus need not segment.
const BURST_BYTES: u64 = 70_000;

impl Bottleneck {
    /// A bottleneck whose queue holds `depth` at the rate.
    pub fn with_depth(rate: Rate, depth: Duration) -> Self {
        Self { rate, queue: rate.bytes_in(depth) }
    }

    /// Queueing delay of `bytes`.
    pub fn delay_of(&self, bytes: u64) -> Duration {
        self.rate.time_for(Bytes::new(bytes)).unwrap_or_default()
    }
}

pub(crate) fn shape(node: &Namespace, device: &str, b: &Bottleneck) -> io::Result<()> {
    let (rate, queue) = (b.rate.as_bps(), b.queue.as_u64());
    let line = format!("tc qdisc replace dev {device} root tbf rate {rate}bit burst {BURST_BYTES} limit {queue}");
    node.iproute(&line).map(|_| ())
}

fn number(json: &str, pointer: &str) -> io::Result<u64> {
    let value: Value = serde_json::from_str(json)?;
    let missing = || io::Error::other(format!("no {pointer} in {json}"));
    value.pointer(pointer).and_then(Value::as_u64).ok_or_else(missing)
}

pub(crate) fn backlog(node: &Namespace, device: &str) -> io::Result<u64> {
    number(&node.iproute(&format!("tc -s -j qdisc show dev {device} root"))?, "/0/backlog")
}

/// Counters of an interface (`ip -s link`): bytes with Ethernet headers, where an offload packet has one header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets received; an offload packet counts as one.
    pub received_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

pub(crate) fn counters(node: &Namespace, device: &str) -> io::Result<Counters> {
    let json = node.iproute(&format!("ip -s -j link show dev {device}"))?;
    Ok(Counters {
        received_bytes: number(&json, "/0/stats64/rx/bytes")?,
        received_packets: number(&json, "/0/stats64/rx/packets")?,
        sent_bytes: number(&json, "/0/stats64/tx/bytes")?,
    })
}

/// Interval at which the backlog is read: short enough for a median over one second, and long enough not to load the
/// host.
const WATCH_INTERVAL: Duration = Duration::from_millis(25);

/// Reads the backlog of an interface periodically.
#[derive(Debug)]
pub struct BacklogWatch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Vec<u64>>>,
}

impl BacklogWatch {
    pub(crate) fn start(node: &Namespace, device: &'static str) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (node, stopped) = (node.clone(), Arc::clone(&stop));
        let watch = move || {
            let mut seen = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                seen.push(backlog(&node, device)?);
                thread::sleep(WATCH_INTERVAL);
            }
            Ok(seen)
        };
        let thread = thread::Builder::new().name("backlog".to_owned()).spawn(watch)?;
        Ok(Self { stop, thread })
    }

    /// Ends the watch. Returns the median of the readings of a non-empty queue, which excludes the time before and
    /// after the load.
    ///
    /// # Errors
    /// The backlog could not be read.
    pub fn median(self) -> io::Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the watch panicked")))?;
        let mut busy: Vec<u64> = seen.into_iter().filter(|b| *b > 0).collect();
        busy.sort_unstable();
        Ok(busy.get(busy.len() / 2).copied().unwrap_or(0))
    }
}
