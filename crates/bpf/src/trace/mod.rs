//! Tracing of the kernel's TCP state of selected connections.

mod event;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, OpenObject, RingBuffer, RingBufferBuilder};

pub use event::{Event, EventKind, Flow, Inner, Sample};

use crate::congestion::CongestionError;
use crate::{error, log};

/// The compiled `bpf/trace.bpf.c`.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/trace.bpf.o"));
/// Size of a congestion control's name (TCP_CA_NAME_MAX).
const NAME_BYTES: usize = 16;

/// Selection of connections, and the sampling interval.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Minimum time between two samples of a connection; zero takes a sample at every received packet.
    pub interval: Duration,
    /// Local or remote address.
    pub address: Option<IpAddr>,
    /// Local or remote port.
    pub port: Option<u16>,
    /// Prefix of the name of the congestion control.
    pub congestion_control: Option<String>,
    /// Only connections that [`Tracer::choose`] selects.
    pub by_cookie: bool,
}

impl Filter {
    /// Struct `trace_settings` of the program.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX).to_ne_bytes().to_vec();
        bytes.extend(u32::from(self.by_cookie).to_ne_bytes());
        bytes.extend(u32::from(self.address.is_some()).to_ne_bytes());
        let address = self.address.map_or([0; 16], |a| match a {
            IpAddr::V4(four) => four.to_ipv6_mapped().octets(),
            IpAddr::V6(six) => six.octets(),
        });
        bytes.extend(address);
        bytes.extend(u32::from(self.port.unwrap_or(0)).to_ne_bytes());
        let name = self.congestion_control.as_deref().unwrap_or("").as_bytes();
        let name = &name[..name.len().min(NAME_BYTES)];
        bytes.extend((name.len() as u32).to_ne_bytes());
        bytes.extend(name);
        bytes.resize(bytes.len() + NAME_BYTES - name.len(), 0);
        bytes
    }
}

/// Programs attached to the kernel's tracepoints. They are detached with this value or with the process.
#[derive(Debug)]
pub struct Tracer {
    object: Object,
    _links: Vec<Link>,
    ring: RingBuffer<'static>,
    events: Receiver<Event>,
    chosen: BTreeSet<u64>,
}

impl Tracer {
    /// Attaches the programs.
    ///
    /// # Errors
    /// Missing privilege (CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN), missing BTF, or a kernel that rejects the programs.
    pub fn attach(filter: &Filter) -> Result<Self, CongestionError> {
        crate::congestion::check_btf()?;
        log::capture();
        let object = open(filter).and_then(OpenObject::load).map_err(|e| crate::congestion::load_error("trace", &e))?;
        let failed = |e: libbpf_rs::Error| crate::congestion::refused("attaching the tracer", error::as_io(&e));
        let links = object.progs_mut().map(|p| p.attach()).collect::<Result<Vec<Link>, _>>().map_err(failed)?;
        let (sender, events) = mpsc::channel();
        let mut builder = RingBufferBuilder::new();
        let ring = {
            let map = object.maps().find(|m| m.name() == "events");
            let map = map.ok_or_else(|| crate::congestion::missing_part("finding the tracer's ring"))?;
            let take = move |bytes: &[u8]| {
                // Sending fails only after the receiver was dropped.
                if let Some(event) = Event::from_bytes(bytes) {
                    let _ = sender.send(event);
                }
                0
            };
            builder.add(&map, take).map_err(failed)?;
            builder.build().map_err(failed)?
        };
        Ok(Self { object, _links: links, ring, events, chosen: BTreeSet::new() })
    }

    /// Waits for events and returns the received ones.
    ///
    /// # Errors
    /// Reading the ring buffer failed.
    pub fn poll(&self, timeout: Duration) -> Result<Vec<Event>, CongestionError> {
        // A signal interrupts the wait (EINTR); the caller checks the time afterwards.
        let polled = self.ring.poll_raw(timeout);
        if polled < 0 && polled != -4 {
            let source = std::io::Error::from_raw_os_error(-polled);
            return Err(CongestionError::System { operation: "reading the tracer's ring".to_owned(), source });
        }
        Ok(self.events.try_iter().collect())
    }

    /// Selects connections by socket cookie, with [`Filter::by_cookie`]. Connections that are no longer selected are
    /// traced until they end.
    ///
    /// # Errors
    /// Updating the kernel's map failed.
    pub fn choose(&mut self, cookies: &BTreeSet<u64>) -> Result<(), CongestionError> {
        let failed = |e: libbpf_rs::Error| crate::congestion::refused("choosing connections", error::as_io(&e));
        let map = self.object.maps().find(|m| m.name() == "cookies");
        let map = map.ok_or_else(|| crate::congestion::missing_part("finding the tracer's choice"))?;
        for removed in self.chosen.difference(cookies) {
            let _ = map.delete(&removed.to_ne_bytes());
        }
        for new in cookies.difference(&self.chosen) {
            map.update(&new.to_ne_bytes(), &1_u32.to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
        }
        self.chosen.clone_from(cookies);
        Ok(())
    }

    /// Number of events dropped since the start because the ring buffer was full.
    pub fn lost(&self) -> u64 {
        let bss = self.object.maps().find(|m| m.name().to_string_lossy().ends_with(".bss"));
        let value = bss.and_then(|m| m.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok().flatten());
        value.and_then(|v| Some(u64::from_ne_bytes(v.get(..8)?.try_into().ok()?))).unwrap_or(0)
    }
}

fn open(filter: &Filter) -> Result<OpenObject, libbpf_rs::Error> {
    let mut object = ObjectBuilder::default().name("trace")?.open_memory(OBJECT)?;
    for mut map in object.maps_mut().filter(|m| m.name().to_string_lossy().ends_with(".rodata")) {
        map.set_initial_value(&filter.to_bytes())?;
    }
    Ok(object)
}
