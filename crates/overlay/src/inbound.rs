//! From one socket to the tunnel device, or on to the next member: one thread, no lock and no allocation per packet.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kernel::{Clocks, DATAGRAMS_ROOM, Datagrams, Tun};
use packet::{Flow, Merge, Parts};
use route::Member;
use route::flows::FlowKey;
use wire::overlay::Envelope;

use crate::batch::Batch;
use crate::counters::{Counters, add, bump};
use crate::mesh::micros;
use crate::offload::Switches;
use crate::places::Place;
use crate::receive::{Arrival, Event, Opener, Taken, place};
use crate::seal::{address, outer};
use crate::table::{Published, Reader, Table};

/// What the device says of a malformed packet (linux/errno-base.h).
const EINVAL: i32 = 22;
/// How long to wait for the network before looking whether all shall end.
const PATIENCE: Duration = Duration::from_millis(200);

/// Tells the controlling thread, without waiting for it; says whether there was room.
pub(crate) type Tell = Box<dyn Fn(Event, Place) -> bool + Send>;

/// What one thread needs to take datagrams.
pub(crate) struct Inbound {
    queue: u8,
    socket: Arc<Datagrams>,
    device: Device,
    counters: Arc<Counters>,
    tell: Tell,
    opener: Opener,
    reader: Reader,
    onward: Batch,
    clocks: Clocks,
}

impl Inbound {
    pub(crate) fn new(
        (queue, socket, device): (u8, Arc<Datagrams>, Device),
        published: &Arc<Published>,
        counters: Arc<Counters>,
        tell: Tell,
        opener: Opener,
    ) -> Self {
        let reader = Reader::new(published);
        Self { queue, socket, device, counters, tell, opener, reader, onward: Batch::onward(), clocks: Clocks::new() }
    }

    /// Until `ends` says so.
    pub(crate) fn run(mut self, ends: impl Fn() -> bool) -> io::Result<()> {
        let mut room = vec![0; DATAGRAMS_ROOM];
        let mut packets = Vec::with_capacity(DATAGRAMS_ROOM / 64);
        while !ends() {
            let Some(got) = self.socket.receive(&mut room)? else {
                // Who hears nothing for long keeps no keys of sessions that have ended.
                self.reader.refresh();
                kernel::wait(self.socket.socket(), false, PATIENCE).map_err(io::Error::other)?;
                continue;
            };
            self.reader.refresh();
            let table = Arc::clone(&self.reader.table);
            let arrival = Arrival { came: self.clocks.came(got.realtime_ns), from: got.from, traffic_class: got.class };
            packets.clear();
            for begin in (0..got.length).step_by(got.each) {
                let at = begin..(begin + got.each).min(got.length);
                let Some(datagram) = room.get_mut(at.clone()) else { continue };
                let taken = self.open(&table, datagram, arrival);
                packets.extend(place(taken, &at));
                if let Taken::Onward(envelope) = taken {
                    self.pass_on(&table, envelope, datagram, arrival);
                }
            }
            self.device.deliver(&room, &packets, &self.counters);
            self.onward.flush(&self.socket, &self.counters);
        }
        Ok(())
    }

    fn open(&mut self, table: &Table, datagram: &mut [u8], arrival: Arrival) -> Taken {
        let counters = &self.counters;
        let mut tell = |event, place| {
            if !(self.tell)(event, place) {
                bump(&counters.overflow);
            }
        };
        self.opener.take(table, datagram, arrival, counters, &mut tell)
    }

    /// Sends an envelope to the next member of its way, in the traffic class in which it came: a mark of congestion stays on it.
    fn pass_on(&mut self, table: &Table, envelope: Envelope, datagram: &[u8], arrival: Arrival) {
        let next = table.peer(Member(envelope.hop_to()));
        let Some((hop, to)) = next.and_then(|p| Some((p.session.as_deref()?, p.endpoint?))) else { return };
        let room = self.onward.room(to, datagram.len(), arrival.traffic_class, &self.socket, &self.counters);
        room.copy_from_slice(datagram);
        if address(hop, (envelope, self.queue), room, micros(kernel::now())).is_none() {
            self.onward.take_back();
            return bump(&self.counters.not_relayed);
        }
        let bytes = (datagram.len() + outer(to)) as u64;
        hop.note_sent(self.queue, bytes);
        add(&self.counters.bytes_relayed, bytes);
        bump(&self.counters.frames_relayed);
    }
}

/// The tunnel device as packets are handed to it.
pub(crate) struct Device {
    /// Its queues.
    tuns: Vec<Arc<Tun>>,
    secret: [u64; 2],
    /// Super-packets to the host.
    merge: bool,
    refuses: Arc<AtomicBool>,
}

impl Device {
    /// `switches`: which of them is told when the device refuses super-packets.
    pub(crate) fn new(tuns: Vec<Arc<Tun>>, secret: [u64; 2], switches: &Switches) -> Self {
        Self { tuns, secret, merge: switches.now().tun_gro, refuses: Arc::clone(&switches.device_refuses) }
    }

    /// Hands packets to this host, those of one connection put together.
    fn deliver(&mut self, room: &[u8], packets: &[(Range<usize>, bool)], counters: &Counters) {
        let mut rest = packets.iter().filter_map(|(at, partial)| Some((room.get(at.clone())?, *partial)));
        let Some((mut first, partial)) = rest.next() else { return };
        let mut merge = Merge::new(first, partial);
        for (ip, partial) in rest {
            if !(self.merge && merge.add(ip, partial)) {
                self.write(first, merge, counters);
                (first, merge) = (ip, Merge::new(ip, partial));
            }
        }
        self.write(first, merge, counters);
    }

    /// The queue of a connection is the same in both directions: the kernel hands over what a connection sends by the queue by which it got something
    /// last, so that all of a member would else go by the queue of the thread that hears that member, and change it when the thread changes.
    fn queue(&self, ip: &[u8]) -> Option<&Arc<Tun>> {
        let [_, _, ..] = &*self.tuns else { return self.tuns.first() };
        let flow = Flow::of(ip)?;
        let (a, b) = ((flow.source, flow.source_port), (flow.destination, flow.destination_port));
        let key = FlowKey::new(a.min(b), a.max(b), flow.protocol, 0);
        self.tuns.get((key.hash(self.secret) % self.tuns.len() as u64) as usize)
    }

    fn write(&mut self, first: &[u8], mut merge: Merge<'_>, counters: &Counters) {
        let Some(tun) = self.queue(first) else { return bump(&counters.malformed) };
        let bytes = merge.ip_bytes() as u64;
        let mut parts: Parts<'_> = std::array::from_fn(|_| IoSlice::new(&[]));
        match tun.send(merge.parts(&mut parts)) {
            Ok(()) => {
                bump(&counters.packets_out);
                add(&counters.bytes_out, bytes);
            }
            Err(e) => {
                bump(&counters.device_failed);
                if self.merge && merge.count() > 1 && e.raw_os_error() == Some(EINVAL) {
                    self.merge = false;
                    self.refuses.store(true, Ordering::Relaxed);
                    tracing::warn!("this kernel refuses super-packets: packets are handed over one by one");
                }
            }
        }
    }
}
