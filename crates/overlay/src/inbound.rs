//! From the network to the tunnel device, or on to the next member: one thread, no lock and no allocation per packet.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use kernel::{Clocks, DATAGRAMS_ROOM, Datagrams, Tun};
use packet::{Merge, Parts};
use route::Member;
use wire::overlay::Envelope;

use crate::batch::Batch;
use crate::counters::{Counters, add, bump};
use crate::mesh::micros;
use crate::receive::{Arrival, Event, Opener, Taken, place};
use crate::seal::{address, outer};
use crate::table::{Published, Reader, Table};

/// What the device says of a malformed packet (linux/errno-base.h).
const EINVAL: i32 = 22;
/// How long to wait for the network before looking whether all shall end.
const PATIENCE: Duration = Duration::from_millis(200);

/// What one thread needs to take datagrams.
pub(crate) struct Inbound {
    socket: Arc<Datagrams>,
    tun: Arc<Tun>,
    counters: Arc<Counters>,
    events: SyncSender<Event>,
    opener: Opener,
    /// Super-packets to the host.
    merge: bool,
    reader: Reader,
    onward: Batch,
    clocks: Clocks,
}

impl Inbound {
    pub(crate) fn new(
        (socket, tun): (Arc<Datagrams>, Arc<Tun>),
        published: &Arc<Published>,
        counters: Arc<Counters>,
        events: SyncSender<Event>,
        opener: Opener,
        merge: bool,
    ) -> Self {
        let reader = Reader::new(published);
        Self { socket, tun, counters, events, opener, merge, reader, onward: Batch::new(), clocks: Clocks::new() }
    }

    /// Until `ends` says so.
    pub(crate) fn run(mut self, ends: impl Fn() -> bool) -> io::Result<()> {
        let mut room = vec![0; DATAGRAMS_ROOM];
        let mut packets = Vec::with_capacity(DATAGRAMS_ROOM / 64);
        while !ends() {
            let Some(got) = self.socket.receive(&mut room)? else {
                kernel::wait(self.socket.socket(), false, PATIENCE).map_err(io::Error::other)?;
                continue;
            };
            if self.reader.refresh() {
                self.opener.tidy(&self.reader.table);
            }
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
            self.deliver(&room, &packets);
            self.onward.flush(&self.socket, &self.counters);
        }
        Ok(())
    }

    fn open(&mut self, table: &Table, datagram: &mut [u8], arrival: Arrival) -> Taken {
        let (events, counters) = (&self.events, &self.counters);
        let mut tell = |event| {
            if events.try_send(event).is_err() {
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
        if address(hop, envelope, room, micros(kernel::now())).is_none() {
            self.onward.take_back();
            return bump(&self.counters.not_relayed);
        }
        let bytes = (datagram.len() + outer(to)) as u64;
        hop.note_sent(bytes);
        add(&self.counters.bytes_relayed, bytes);
        bump(&self.counters.frames_relayed);
    }

    /// Hands packets to this host, those of one connection put together.
    fn deliver(&mut self, room: &[u8], packets: &[(Range<usize>, bool)]) {
        let mut rest = packets.iter().filter_map(|(at, partial)| Some((room.get(at.clone())?, *partial)));
        let Some((ip, partial)) = rest.next() else { return };
        let mut merge = Merge::new(ip, partial);
        for (ip, partial) in rest {
            if !(self.merge && merge.add(ip, partial)) {
                self.write(merge);
                merge = Merge::new(ip, partial);
            }
        }
        self.write(merge);
    }

    fn write(&mut self, mut merge: Merge<'_>) {
        let bytes = merge.ip_bytes() as u64;
        let mut parts: Parts<'_> = std::array::from_fn(|_| IoSlice::new(&[]));
        match self.tun.send(merge.parts(&mut parts)) {
            Ok(()) => {
                bump(&self.counters.packets_out);
                add(&self.counters.bytes_out, bytes);
            }
            Err(e) => {
                bump(&self.counters.device_failed);
                if self.merge && merge.count() > 1 && e.raw_os_error() == Some(EINVAL) {
                    self.merge = false;
                    tracing::warn!("this kernel refuses super-packets: packets are handed over one by one");
                }
            }
        }
    }
}
