//! Changes in the kernel's TCP state of selected connections.

mod event;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, OpenObject, RingBuffer, RingBufferBuilder};

pub use event::{Event, Flow, Inner, Sample, What};

use crate::congestion::CongestionError;
use crate::{error, log};

/// The compiled `bpf/trace.bpf.c`.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/trace.bpf.o"));
/// Bytes of a name of a congestion control (TCP_CA_NAME_MAX).
const NAME_BYTES: usize = 16;

/// Which connections, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Minimum time between two samples of a connection; zero samples at every packet that arrives for it.
    pub interval: Duration,
    /// This address at either end.
    pub address: Option<IpAddr>,
    /// This port at either end.
    pub port: Option<u16>,
    /// Prefix of the name of the congestion control.
    pub congestion_control: Option<String>,
    /// Only those that [`Tracer::choose`] names.
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

/// Programs at the kernel's tracepoints. They go with it, however the process ends.
#[derive(Debug)]
pub struct Tracer {
    object: Object,
    _links: Vec<Link>,
    ring: RingBuffer<'static>,
    events: Receiver<Event>,
    chosen: BTreeSet<u64>,
}

impl Tracer {
    /// Starts to trace.
    ///
    /// # Errors
    /// No privilege (CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN), no BTF, a kernel that refuses the programs.
    pub fn attach(filter: &Filter) -> Result<Self, CongestionError> {
        crate::congestion::check_btf()?;
        log::listen();
        let object = open(filter).and_then(OpenObject::load).map_err(|e| crate::congestion::load_error("trace", &e))?;
        let failed = |e: libbpf_rs::Error| crate::congestion::refused("attaching the tracer", error::as_io(&e));
        let links = object.progs_mut().map(|p| p.attach()).collect::<Result<Vec<Link>, _>>().map_err(failed)?;
        let (sender, events) = mpsc::channel();
        let mut builder = RingBufferBuilder::new();
        let ring = {
            let map = object.maps().find(|m| m.name() == "events");
            let map = map.ok_or_else(|| crate::congestion::broken("finding the tracer's ring"))?;
            let take = move |bytes: &[u8]| {
                // A receiver that is gone reads no more.
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

    /// Waits for events and gives those that came.
    ///
    /// # Errors
    /// The kernel's.
    pub fn poll(&self, timeout: Duration) -> Result<Vec<Event>, CongestionError> {
        // A signal ends the wait: the caller looks at the time anyway.
        let polled = self.ring.poll_raw(timeout);
        if polled < 0 && polled != -4 {
            let source = std::io::Error::from_raw_os_error(-polled);
            return Err(CongestionError::System { operation: "reading the tracer's ring".to_owned(), source });
        }
        Ok(self.events.try_iter().collect())
    }

    /// With [`Filter::by_cookie`]: which connections, by the kernel's cookies of their sockets. Those that are no longer named are
    /// followed until they end.
    ///
    /// # Errors
    /// The kernel's.
    pub fn choose(&mut self, cookies: &BTreeSet<u64>) -> Result<(), CongestionError> {
        let failed = |e: libbpf_rs::Error| crate::congestion::refused("choosing connections", error::as_io(&e));
        let map = self.object.maps().find(|m| m.name() == "cookies");
        let map = map.ok_or_else(|| crate::congestion::broken("finding the tracer's choice"))?;
        for gone in self.chosen.difference(cookies) {
            let _ = map.delete(&gone.to_ne_bytes());
        }
        for new in cookies.difference(&self.chosen) {
            map.update(&new.to_ne_bytes(), &1_u32.to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
        }
        self.chosen.clone_from(cookies);
        Ok(())
    }

    /// Events dropped because the ring buffer was full, since the start.
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
