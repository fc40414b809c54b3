use std::sync::Arc;
use std::time::Duration;

use units::{Bytes, Instant, nanos};

use crate::chance::{Chance, End, Fate, impairs};
use crate::depth::DepthMeter;
use crate::discipline::HeadDrop;
use crate::line::{Line, Open};
use crate::queue::{Queue, Waiting};
use crate::train::{Segment, Trains};
use crate::transmitter::{Transmitter, wire_bytes};
use crate::{Delivery, Drops, Loss, QueueLimit, Settings, Tally, Train, Volume};

/// One direction of a link.
///
/// Packets come in by [`Self::offer`], go out by [`Self::poll`]. In between, each segment passes: outage and MTU; the
/// limit of the queue; the queue and its discipline; the wire, for its bytes at the rate; loss; propagation. It arrives
/// when its last byte does. Everything happens at its logical time: what is delivered, when and why not follows from
/// the offers and changes and their times, never from when or how often the other functions are called.
///
/// Order: no packet arrives before one that was offered earlier, even when a change makes the delay shorter; except by
/// [`crate::Reorder`], and by [`crate::Jitter`] and changes of the delay while `jitter.reorders` is set.
///
/// Chance: packets have an index, the number of segments offered before since the last [`Self::restart`], dropped ones
/// included. What the probabilities in force at the offer do to a packet is a function of the seed, its index and
/// (burst loss) the settings before it; neither rate nor timing nor another impairment changes it.
///
/// `now` is the clock of the caller. A time earlier than the latest seen counts as the latest seen.
#[derive(Debug)]
pub struct Direction<P> {
    settings: Settings,
    /// Whether `chance` is to be asked.
    impaired: bool,
    clock: Instant,
    /// Start of the link's clock.
    origin: Instant,
    index: u64,
    chance: Chance,
    trains: Trains<P>,
    queue: Queue,
    /// Bytes on the wire of what waits.
    queue_wire: u64,
    head_drop: HeadDrop,
    transmitter: Transmitter,
    /// The transmitter for the present settings, while a transmission with earlier settings is still running.
    successor: Option<Transmitter>,
    sending: Option<Sending>,
    /// When the wire, now free, can take the first of the queue.
    begin_at: Option<Instant>,
    line: Line,
    /// Latest arrival of a packet that keeps the order.
    latest_arrival: Instant,
    /// Lowest jitter that was drawn since the queue was empty.
    lowest_jitter_ns: i64,
    depth: DepthMeter,
    tally: Tally,
    tally_since: Instant,
}

/// A transmission.
#[derive(Debug, Clone, Copy)]
struct Sending {
    packet: Waiting,
    end: Instant,
}

impl<P: Clone> Direction<P> {
    /// A link with nothing in it, whose clock starts at `now`. `seed` decides all random draws.
    pub fn new(now: Instant, seed: u64, settings: Settings) -> Self {
        let settings = in_order(settings);
        Self {
            impaired: impairs(&settings),
            clock: now,
            origin: now,
            index: 0,
            chance: Chance::new(seed),
            trains: Trains::new(),
            queue: Queue::default(),
            queue_wire: 0,
            head_drop: HeadDrop::new(settings.queue.discipline),
            transmitter: Transmitter::new(&settings.capacity, now, now, settings.up),
            successor: None,
            sending: None,
            begin_at: None,
            line: Line::default(),
            latest_arrival: now,
            lowest_jitter_ns: 0,
            depth: DepthMeter::new(now),
            tally: Tally::default(),
            tally_since: now,
            settings,
        }
    }

    /// The clock of the experiment starts: indices, random draws, trace and counters begin anew. Packets in the link
    /// stay in it and arrive.
    pub fn restart(&mut self, now: Instant, seed: u64) {
        drop(self.take_tally(now));
        self.origin = self.clock;
        self.index = 0;
        self.chance = Chance::new(seed);
        self.replace_transmitter();
        self.resume();
    }

    /// From now on these settings; what is due until now, `now` included, still happens by those before.
    ///
    /// - A packet whose transmission has begun ends it as it began; then it propagates by the new delay.
    /// - Packets that wait are sent at the new rate. They stay even if the queue is now longer than its limit.
    /// - When the link goes down, packets that wait are lost.
    /// - Random fates that are already decided stay: they are drawn when a packet is offered.
    /// - The state of CoDel stays unless the discipline changes; the state of burst loss stays from one set of its
    ///   probabilities to another, and begins as good otherwise.
    pub fn change(&mut self, now: Instant, settings: Settings) {
        self.advance(now);
        let before = core::mem::replace(&mut self.settings, in_order(settings));
        self.impaired = impairs(&self.settings);
        if !matches!(before.loss, Loss::GilbertElliott { .. }) {
            self.chance.begin_chain();
        }
        self.transmitter.set_available(self.clock, self.settings.up);
        if let Some(successor) = &mut self.successor {
            successor.set_available(self.clock, self.settings.up);
        }
        if self.settings.capacity != before.capacity {
            self.replace_transmitter();
        }
        self.head_drop.change(self.settings.queue.discipline);
        if !self.settings.up {
            self.drop_waiting();
        }
        let Settings { capacity, overhead, .. } = &self.settings;
        self.queue_wire = self.queue.wire_bytes(|ip| wire_bytes(capacity, *overhead, ip));
        self.resume();
    }

    /// A train arrives at the link; what is due until `now` happens first.
    pub fn offer(&mut self, now: Instant, train: Train<P>) {
        self.advance(now);
        let Train { count, full, last, .. } = train;
        if count == 0 {
            return;
        }
        let slot = self.trains.keep(train);
        for number in 0..count {
            let bytes = if number + 1 == count { last } else { full };
            self.arrive(Segment { slot, number, bytes });
        }
        self.depth.peak(&mut self.tally.queue_bytes);
    }

    /// The next arrival due at or before `now`, in order of arrival.
    ///
    /// To be called until it gives `None`. Segments of one train that arrive within [`crate::COALESCE`] come together,
    /// at the time of the last; therefore one is given at most that much after it has arrived.
    pub fn poll(&mut self, now: Instant) -> Option<Delivery<P>> {
        self.advance(now);
        let (next, open) = self.line.next()?;
        if next.at > self.clock || (open && !self.nothing_joins()) {
            return None;
        }
        if open {
            self.line.close();
        }
        let flight = self.line.take()?;
        let payload = self.trains.deliver(flight.slot, flight.count)?;
        Some(Delivery { payload, first: flight.first, count: flight.count, at: flight.at, bytes: flight.bytes })
    }

    /// Latest time of the next call of [`Self::poll`] if nothing else is called before; `None`: nothing is in flight.
    ///
    /// After a `poll` that gave `None` it is later than that poll. A call at this time may still give `None`.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let arrival = match self.line.next() {
            Some((_, true)) if !self.nothing_joins() => self.line.open().map(|open| self.last_joining(open)),
            Some((flight, _)) => Some(flight.at),
            None => None,
        };
        let departure = self.next_departure();
        match (arrival, departure) {
            (Some(a), Some(d)) => Some(a.min(d)),
            (a, d) => a.or(d),
        }
    }

    /// Events since the last call, up to `now`.
    pub fn take_tally(&mut self, now: Instant) -> Tally {
        self.advance(now);
        self.depth.account(self.clock, &mut self.tally.queue_bytes);
        let mut tally = core::mem::take(&mut self.tally);
        tally.usage = self.transmitter.take_usage(self.clock);
        tally.span = self.clock.saturating_since(self.tally_since);
        self.tally_since = self.clock;
        self.depth.peak(&mut self.tally.queue_bytes);
        tally
    }

    /// IP bytes of all trains of which a segment is queued or under way, each train in full: what the packets behind
    /// the handles occupy.
    pub fn held_bytes(&self) -> u64 {
        self.trains.bytes()
    }

    /// Packets in the queue or in transmission: offered, and neither delivered nor dropped yet.
    pub fn backlog(&self) -> Volume {
        let sending = self.sending.map(|s| s.packet.segment.bytes);
        Volume {
            packets: self.queue.packets() + u64::from(sending.is_some()),
            bytes: self.queue.bytes() + u64::from(sending.unwrap_or(0)),
        }
    }

    /// The settings in force.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Lets everything happen that is due until `now`.
    fn advance(&mut self, now: Instant) {
        self.clock = self.clock.max(now);
        self.serve();
    }

    fn serve(&mut self) {
        loop {
            match (self.sending, self.begin_at) {
                (Some(s), _) if s.end <= self.clock => self.depart(s),
                (None, Some(at)) if at <= self.clock => self.begin(at),
                _ => return,
            }
        }
    }

    /// The wire takes up what waits, after something has changed.
    fn resume(&mut self) {
        if self.sending.is_none() {
            self.begin(self.clock);
            self.serve();
        }
    }

    /// One segment arrives at the link.
    fn arrive(&mut self, segment: Segment) {
        let index = self.index;
        self.index = index.wrapping_add(1);
        self.tally.offered.add(segment.bytes);
        let fate = if self.impaired { self.chance.fate(index, &self.settings) } else { Fate::PLAIN };
        if let Some(cause) = self.refusal(segment.bytes) {
            cause(&mut self.tally.dropped).add(segment.bytes);
            self.trains.release(segment.slot, 1);
            return;
        }
        self.lowest_jitter_ns = self.lowest_jitter_ns.min(fate.jitter_ns);
        self.queue.push(Waiting { segment, arrival: self.clock, fate });
        self.queue_wire += u64::from(self.wire_bytes(segment.bytes));
        self.depth.set(self.clock, self.queue.bytes(), &mut self.tally.queue_bytes);
        if self.begin_at.is_none() {
            self.resume();
        }
    }

    /// Why a packet does not even get into the queue.
    fn refusal(&self, bytes: u32) -> Option<fn(&mut Drops) -> &mut Volume> {
        if !self.settings.up {
            return Some(|d| &mut d.outage);
        }
        if self.settings.mtu.is_some_and(|mtu| bytes > mtu) {
            return Some(|d| &mut d.mtu);
        }
        let idle = self.sending.is_none() && self.queue.is_empty();
        if idle || self.has_room(bytes) { None } else { Some(|d| &mut d.queue) }
    }

    fn has_room(&self, bytes: u32) -> bool {
        match self.settings.queue.limit {
            QueueLimit::Unlimited => true,
            QueueLimit::Bytes(limit) => Bytes::new(self.queue.bytes()) + Bytes::new(u64::from(bytes)) <= limit,
            QueueLimit::Packets(limit) => self.queue.packets() < limit,
            QueueLimit::Time(limit) => {
                let free = self.sending.map_or(self.clock, |s| s.end);
                let wire = self.successor.as_ref().unwrap_or(&self.transmitter);
                wire.waits_at_most(limit, self.clock, free, self.queue_wire)
            }
        }
    }

    /// The wire is free at `t` and takes the next packet, if it can.
    fn begin(&mut self, t: Instant) {
        self.begin_at = None;
        if let Some(arrival) = self.queue.head_arrival() {
            let begin = self.transmitter.begin_at(t, arrival);
            if begin > t {
                self.transmitter.rest(t);
                // Only what follows without a pause joins a run: a change could begin this transmission at any time.
                self.line.close();
                self.begin_at = Some(begin);
                return;
            }
        }
        match self.dequeue(t) {
            Some(packet) => {
                self.tally.wait_ns.add(nanos(t.saturating_since(packet.arrival)), 1);
                let wire = self.wire_bytes(packet.segment.bytes);
                self.sending = Some(Sending { packet, end: self.transmitter.send(t, wire) });
            }
            None => {
                self.transmitter.rest(t);
                self.lowest_jitter_ns = 0;
            }
        }
    }

    /// The next packet by the discipline.
    fn dequeue(&mut self, t: Instant) -> Option<Waiting> {
        let Settings { capacity, overhead, .. } = &self.settings;
        let wire = |w: &Waiting| u64::from(wire_bytes(capacity, *overhead, w.segment.bytes));
        let packet = self.head_drop.dequeue(&mut self.queue, t, |w| {
            self.tally.dropped.codel.add(w.segment.bytes);
            self.trains.release(w.segment.slot, 1);
            self.queue_wire -= wire(&w);
        });
        self.queue_wire -= packet.as_ref().map_or(0, wire);
        self.depth.set(t, self.queue.bytes(), &mut self.tally.queue_bytes);
        packet
    }

    /// Ends a transmission: the packet is lost or propagates, and the next transmission starts.
    fn depart(&mut self, s: Sending) {
        self.sending = None;
        self.propagate(s);
        if let Some(successor) = self.successor.take() {
            self.transmitter.replace(s.end, successor);
        }
        self.begin(s.end);
    }

    fn propagate(&mut self, Sending { packet, end }: Sending) {
        let Waiting { segment, fate, .. } = packet;
        let lost = match fate.end {
            End::Arrives => None,
            End::Lost => Some(&mut self.tally.dropped.loss),
            End::Listed => Some(&mut self.tally.dropped.listed),
        };
        if let Some(cause) = lost {
            cause.add(segment.bytes);
            self.trains.release(segment.slot, 1);
            return;
        }
        self.tally.delivered.add(segment.bytes);
        let at = self.arrival(end, fate);
        self.latest_arrival = self.latest_arrival.max(at);
        if fate.held_ns > 0 {
            self.tally.reordered += 1;
            self.line.push_held(segment, at + Duration::from_nanos(fate.held_ns));
        } else {
            let ends = fate.copied || self.trains.is_last(segment.slot, segment.number);
            self.line.push(segment, at, ends);
        }
        if fate.copied {
            self.copy(segment, at + Duration::from_nanos(fate.held_ns), fate.held_ns > 0);
        }
    }

    fn copy(&mut self, segment: Segment, at: Instant, held: bool) {
        self.trains.copy(segment.slot);
        self.tally.delivered.add(segment.bytes);
        self.tally.duplicated.add(segment.bytes);
        if held {
            self.line.push_held(segment, at);
        } else {
            self.line.push_alone(segment, at);
        }
    }

    /// When a packet whose transmission ends at `end` arrives, unless it is held back.
    fn arrival(&self, end: Instant, fate: Fate) -> Instant {
        let own = end + self.delay(fate.jitter_ns);
        if self.settings.jitter.reorders { own } else { own.max(self.latest_arrival) }
    }

    fn delay(&self, jitter_ns: i64) -> Duration {
        Duration::from_nanos(nanos(self.settings.delay).saturating_add_signed(jitter_ns))
    }

    /// Switches to the transmitter of the present settings: now, or when the running transmission ends.
    fn replace_transmitter(&mut self) {
        let free = self.sending.map_or(self.clock, |s| s.end);
        let by = Transmitter::new(&self.settings.capacity, self.origin, free, self.settings.up);
        match self.sending {
            Some(_) => self.successor = Some(by),
            None => self.transmitter.replace(self.clock, by),
        }
    }

    fn drop_waiting(&mut self) {
        while let Some(w) = self.queue.pop() {
            self.tally.dropped.outage.add(w.segment.bytes);
            self.trains.release(w.segment.slot, 1);
        }
        self.depth.set(self.clock, 0, &mut self.tally.queue_bytes);
    }

    fn wire_bytes(&self, ip: u32) -> u32 {
        wire_bytes(&self.settings.capacity, self.settings.overhead, ip)
    }

    /// Whether certainly nothing joins the open run any more, whatever is offered or changed later.
    fn nothing_joins(&self) -> bool {
        let Some(open) = self.line.open() else {
            return true;
        };
        if self.clock >= open.until {
            return true;
        }
        // What waits while the wire is free is no continuation: `begin` has ended the run.
        self.sending.is_none_or(|s| {
            let Segment { slot, number, .. } = s.packet.segment;
            // It arrives no earlier than its transmission ends.
            slot != open.slot || number != open.next || s.end > open.until
        })
    }

    /// By the present settings, when the last segment arrives that joins the open run.
    fn last_joining(&self, open: &Open) -> Instant {
        let Some(s) = &self.sending else {
            return open.until;
        };
        let first = self.arrival(s.end, s.packet.fate);
        if first > open.until {
            return s.end.min(open.until);
        }
        self.last_in_train(s, first, open.until)
    }

    /// By the present settings, the last arrival until `until` of the segments that are sent back to back with the one
    /// under way, which arrives at `first`. Exact for segments of the same fate, a lower bound for others.
    fn last_in_train(&self, s: &Sending, first: Instant, until: Instant) -> Instant {
        let mut last = first;
        for (count, bytes) in self.queue.runs_after(s.packet.segment) {
            let Some(each) = self.transmitter.duration(u64::from(self.wire_bytes(bytes))) else {
                break;
            };
            let (left, each) = (nanos(until.saturating_since(last)), nanos(each));
            let fit = left.checked_div(each).unwrap_or(u64::MAX).min(u64::from(count));
            last = last + Duration::from_nanos(fit.saturating_mul(each));
            if fit < u64::from(count) {
                break;
            }
        }
        last
    }

    /// By the present settings, the earliest time at which something can be delivered of what has not left yet.
    fn next_departure(&self) -> Option<Instant> {
        let earliest = |end: Instant| end + self.delay(self.lowest_jitter_ns);
        let Some(s) = &self.sending else {
            return self.begin_at.map(earliest);
        };
        let fate = s.packet.fate;
        if fate.end != End::Arrives || fate.held_ns > 0 || self.settings.jitter.reorders {
            return Some(earliest(s.end));
        }
        let first = self.arrival(s.end, fate);
        Some(self.last_in_train(s, first, first + crate::COALESCE))
    }
}

/// The list of lost packets is searched: it has to be sorted.
fn in_order(mut settings: Settings) -> Settings {
    if !settings.loss_list.is_sorted() {
        let mut list = settings.loss_list.to_vec();
        list.sort_unstable();
        settings.loss_list = Arc::from(list);
    }
    settings
}

#[cfg(test)]
mod tests;
