use std::sync::Arc;

use units::{Instant, nanos};

use crate::delay_line::{DelayLine, Open};
use crate::depth::DepthMeter;
use crate::discipline::HeadDrop;
use crate::impairments::{Arrival, Impairments, Outcome, impairs};
use crate::queue::{Queue, Waiting};
use crate::time::{after, before, ns_between};
use crate::train::{Run, Trains};
use crate::transmitter::{Transmitter, wire_bytes};
use crate::{Delivery, Drops, Loss, QueueLimit, Settings, Tally, Train, Volume};

/// One direction of a link.
///
/// [`Self::offer`] accepts packets, and [`Self::poll`] returns arrivals. In between, each segment passes: outage and
/// MTU; the limit of the queue; the queue and its discipline; the wire, for its bytes at the rate; loss; propagation. A
/// packet arrives with its last byte. All events have logical times: deliveries and drops depend only on the offers and
/// changes and their times, and not on when or how often other functions are called.
///
/// Order: no packet arrives before one that was offered earlier, even after the delay has decreased. The exceptions are
/// [`crate::Reorder`], and [`crate::Jitter`] and changes of the delay while `jitter.reorders` is set.
///
/// Random impairments: the index of a packet is the number of segments offered since the last [`Self::restart`],
/// including dropped ones. The outcome of a packet is a function of the seed, its index, the probabilities in force at
/// the offer and, for burst loss, the earlier settings. Neither rate nor timing nor another impairment changes it.
///
/// `now` is the clock of the caller. A time before the latest one counts as the latest one.
#[derive(Debug)]
pub struct Direction<P> {
    settings: Settings,
    /// Whether `impairments` applies.
    is_impaired: bool,
    clock: Instant,
    /// Start of the link's clock.
    origin: Instant,
    index: u64,
    impairments: Impairments,
    trains: Trains<P>,
    queue: Queue,
    /// Bytes on the wire of the queued packets.
    queue_wire: u64,
    head_drop: HeadDrop,
    transmitter: Transmitter,
    /// Transmitter of the present settings, while a transmission with earlier settings is in progress.
    successor: Option<Transmitter>,
    sending: Option<Sending>,
    /// Start time of the next transmission, while the wire is free and the queue is not empty.
    start_at: Option<Instant>,
    delay_line: DelayLine,
    /// Latest arrival of an in-order packet.
    latest_arrival: Instant,
    /// Lowest jitter drawn since the queue was last empty.
    lowest_jitter_ns: i64,
    depth: DepthMeter,
    tally: Tally,
    tally_since: Instant,
}

/// A transmission in progress.
#[derive(Debug, Clone, Copy)]
struct Sending {
    packet: Waiting,
    end: Instant,
}

impl<P: Clone> Direction<P> {
    /// Creates an empty link whose clock starts at `now`. `seed` determines all random draws.
    pub fn new(now: Instant, seed: u64, settings: Settings) -> Self {
        let settings = in_order(settings);
        Self {
            is_impaired: impairs(&settings),
            clock: now,
            origin: now,
            index: 0,
            impairments: Impairments::new(seed),
            trains: Trains::new(),
            queue: Queue::default(),
            queue_wire: 0,
            head_drop: HeadDrop::new(settings.queue.discipline),
            transmitter: Transmitter::new(&settings.capacity, now, now, settings.up),
            successor: None,
            sending: None,
            start_at: None,
            delay_line: DelayLine::default(),
            latest_arrival: now,
            lowest_jitter_ns: 0,
            depth: DepthMeter::new(now),
            tally: Tally::default(),
            tally_since: now,
            settings,
        }
    }

    /// Restarts the clock of the experiment: indices, random draws, trace and counters start again. Packets in the link
    /// remain and arrive.
    pub fn restart(&mut self, now: Instant, seed: u64) {
        drop(self.take_tally(now));
        self.origin = self.clock;
        self.index = 0;
        self.impairments = Impairments::new(seed);
        self.replace_transmitter();
        self.resume();
    }

    /// Applies new settings. Events that are due up to and including `now` still use the old settings.
    ///
    /// - A transmission in progress ends at the old rate; the packet then propagates with the new delay.
    /// - Queued packets are sent at the new rate. They remain even if the queue exceeds the new limit.
    /// - When the link goes down, queued packets are lost.
    /// - Outcomes of offered packets do not change: they are drawn at the offer.
    /// - CoDel keeps its state unless the discipline changes. Burst loss keeps its state across changes of its
    ///   probabilities, and otherwise starts in the good state.
    pub fn change(&mut self, now: Instant, settings: Settings) {
        self.advance(now);
        let before = core::mem::replace(&mut self.settings, in_order(settings));
        self.is_impaired = impairs(&self.settings);
        if !matches!(before.loss, Loss::GilbertElliott { .. }) {
            self.impairments.reset_chain();
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

    /// A train arrives at the link. Events that are due up to `now` happen first.
    pub fn offer(&mut self, now: Instant, train: Train<P>) {
        self.advance(now);
        let Train { count, full, last, .. } = train;
        if count == 0 {
            return;
        }
        let slot = self.trains.store(train);
        let equal = if full == last { count } else { count - 1 };
        for (first, count, bytes) in [(0, equal, full), (equal, count - equal, last)] {
            if count > 0 {
                self.arrive(Run { slot, first, count, bytes });
            }
        }
        self.depth.peak(&mut self.tally.queue_bytes);
    }

    /// Next arrival due at or before `now`, in order of arrival.
    ///
    /// The caller repeats the call until it returns `None`. Segments of one train that arrive within
    /// [`crate::COALESCE`] are returned together at the arrival of the last. A delivery is thus returned at most that
    /// much after the arrival.
    pub fn poll(&mut self, now: Instant) -> Option<Delivery<P>> {
        self.advance(now);
        let (next, open) = self.delay_line.next()?;
        if next.at > self.clock || (open && !self.nothing_joins()) {
            return None;
        }
        if open {
            self.delay_line.close();
        }
        let flight = self.delay_line.take()?;
        let payload = self.trains.deliver(flight.slot, flight.count)?;
        Some(Delivery { payload, first: flight.first, count: flight.count, at: flight.at, bytes: flight.bytes })
    }

    /// Latest time of the next call of [`Self::poll`]; `None`: no packet is in flight.
    ///
    /// After a `poll` that returned `None` the timeout is later than that poll. A call at the timeout may still return
    /// `None`.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let arrival = match self.delay_line.next() {
            Some((_, true)) if !self.nothing_joins() => self.delay_line.open().map(|open| self.last_joining(open)),
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

    /// IP bytes of all trains with a segment in the queue or in flight, each train in full. This is the memory of the
    /// packets behind the handles.
    pub fn held_bytes(&self) -> u64 {
        self.trains.bytes()
    }

    /// Packets in the queue or in transmission: offered, and neither delivered nor dropped.
    pub fn backlog(&self) -> Volume {
        let sending = self.sending.map(|s| s.packet.run.bytes);
        Volume {
            packets: self.queue.packets() + u64::from(sending.is_some()),
            bytes: self.queue.bytes().wrapping_add(u64::from(sending.unwrap_or(0))),
        }
    }

    /// The settings in force.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Processes all events that are due up to `now`.
    fn advance(&mut self, now: Instant) {
        self.clock = self.clock.max(now);
        self.serve();
    }

    fn serve(&mut self) {
        loop {
            match (&self.sending, self.start_at) {
                (Some(s), _) if s.end <= self.clock => self.depart(),
                (None, Some(at)) if at <= self.clock => self.start_transmission(at),
                _ => return,
            }
        }
    }

    /// Starts a transmission after a change, if the wire is free.
    fn resume(&mut self) {
        if self.sending.is_none() {
            self.start_transmission(self.clock);
            self.serve();
        }
    }

    /// Segments of equal size arrive at the link.
    fn arrive(&mut self, mut rest: Run) {
        self.tally.offered.add(rest);
        if !self.is_impaired {
            self.index = self.index.wrapping_add(u64::from(rest.count));
            return self.admit(rest, Outcome::PLAIN);
        }
        let mut next = None;
        while rest.count > 0 {
            let outcome = next.take().unwrap_or_else(|| self.draw());
            let mut equal = 1;
            while equal < rest.count && next.is_none() {
                match self.draw() {
                    same if same == outcome => equal += 1,
                    other => next = Some(other),
                }
            }
            self.admit(rest.split(equal), outcome);
        }
    }

    /// Outcome of the next packet.
    fn draw(&mut self) -> Outcome {
        let outcome = self.impairments.outcome(self.index, &self.settings);
        self.index = self.index.wrapping_add(1);
        outcome
    }

    /// Segments of equal size and outcome enter the queue, or are dropped.
    fn admit(&mut self, mut rest: Run, outcome: Outcome) {
        if let Some(cause) = self.refusal(rest.bytes) {
            return self.discard(rest, cause);
        }
        while rest.count > 0 {
            let room = self.room(rest);
            if room == 0 {
                return self.discard(rest, |d| &mut d.queue);
            }
            self.enqueue(rest.split(room), outcome);
        }
    }

    fn enqueue(&mut self, run: Run, outcome: Outcome) {
        self.lowest_jitter_ns = self.lowest_jitter_ns.min(outcome.jitter_ns);
        self.queue_wire = self.queue_wire.wrapping_add(self.wire_total(run));
        self.queue.push(Waiting { run, arrival: self.clock, outcome });
        self.depth.set(self.clock, self.queue.bytes(), &mut self.tally.queue_bytes);
        if self.start_at.is_none() {
            self.resume();
        }
    }

    /// Counts dropped segments with their cause.
    fn discard(&mut self, run: Run, cause: fn(&mut Drops) -> &mut Volume) {
        cause(&mut self.tally.dropped).add(run);
        self.trains.release(run.slot, run.count);
    }

    /// Counter of the drop cause if no packet of this size can pass.
    fn refusal(&self, bytes: u32) -> Option<fn(&mut Drops) -> &mut Volume> {
        if !self.settings.up {
            return Some(|d| &mut d.outage);
        }
        if self.settings.mtu.is_some_and(|mtu| bytes > mtu) { Some(|d| &mut d.mtu) } else { None }
    }

    /// Number of segments of the run that can enter the queue together. The link is asked again about the others.
    fn room(&self, run: Run) -> u32 {
        if self.sending.is_none() && self.queue.is_empty() {
            // The first packet does not wait. With an unlimited rate it leaves before the next one arrives.
            return if self.transmitter.is_unlimited() { run.count } else { 1 };
        }
        let room = match self.settings.queue.limit {
            QueueLimit::Unlimited => return run.count,
            QueueLimit::Packets(limit) => limit.saturating_sub(self.queue.packets()),
            QueueLimit::Bytes(limit) => match limit.as_u64().checked_sub(self.queue.bytes()) {
                Some(left) => left.checked_div(u64::from(run.bytes)).unwrap_or(u64::MAX),
                None => 0,
            },
            QueueLimit::Time(limit) => {
                let free = self.sending.map_or(self.clock, |s| s.end);
                let wire = self.successor.as_ref().unwrap_or(&self.transmitter);
                let each = u64::from(self.wire_bytes(run.bytes));
                let fits = |ahead: u32| {
                    let ahead = self.queue_wire.wrapping_add(each * u64::from(ahead));
                    wire.waits_at_most(limit, self.clock, free, ahead)
                };
                return (0..run.count).find(|ahead| !fits(*ahead)).unwrap_or(run.count);
            }
        };
        u32::try_from(room).map_or(run.count, |room| room.min(run.count))
    }

    /// Starts the next transmission at `t`, when the wire is free.
    fn start_transmission(&mut self, t: Instant) {
        self.start_at = None;
        if let Some(arrival) = self.queue.head().map(|w| w.arrival) {
            let start = self.transmitter.start_at(t, arrival);
            if start > t {
                self.transmitter.set_idle(t);
                // Only segments sent without a pause join a run, because a change could start this transmission at any
                // time.
                self.delay_line.close();
                self.start_at = Some(start);
                return;
            }
        }
        match self.dequeue(t) {
            Some(packet) => self.transmit(t, packet),
            None => {
                self.transmitter.set_idle(t);
                self.lowest_jitter_ns = 0;
            }
        }
    }

    /// Transmits `packet` at `t`, and those that follow it in its run, as far as they start up to the present time. The
    /// last of them remains in transmission.
    fn transmit(&mut self, t: Instant, mut packet: Waiting) {
        self.tally.wait_ns.add(ns_between(packet.arrival, t), 1);
        let mut end = self.transmitter.send(t, self.wire_bytes(packet.run.bytes));
        if end <= self.clock {
            end = self.transmit_followers(&mut packet, end);
        }
        self.sending = Some(Sending { packet, end });
    }

    /// Transmits the packets that follow `packet`, whose transmission ends at `end`, up to the present time. Replaces
    /// `packet` by the last of them, and returns the end of its transmission.
    ///
    /// The steps for each packet are as few as possible, because this is the hot path of a train: the end of the
    /// transmission, the depth of the queue and the time in it. All else is done once for the packets that arrive
    /// together.
    fn transmit_followers(&mut self, packet: &mut Waiting, mut end: Instant) -> Instant {
        let Waiting { arrival, outcome, .. } = *packet;
        let mut rest = Run { count: 1 + self.followers(packet), ..packet.run };
        let mut queued = self.queue.bytes();
        while rest.count > 1 && end <= self.clock {
            let first_end = end;
            let until = self.last_end_together(rest, outcome, end).min(self.clock);
            let (mut departed, mut last_end) = (0, end);
            while end <= until && departed + 1 < rest.count {
                (departed, last_end) = (departed + 1, end);
                queued = queued.wrapping_sub(u64::from(rest.bytes));
                self.depth.set(end, queued, &mut self.tally.queue_bytes);
                self.tally.wait_ns.add(ns_between(arrival, end), 1);
                end = self.transmitter.send_next(end);
            }
            self.propagate(rest.split(departed), outcome, first_end, last_end);
        }
        let started = rest.first - packet.run.first;
        if let Some(started) = self.queue.pop(started) {
            self.queue_wire = self.queue_wire.wrapping_sub(self.wire_total(started.run));
        }
        packet.run = rest.split(1);
        end
    }

    /// Latest end of the transmission of a segment that is delivered together with the first one of `run`, whose
    /// transmission ends at `end`. Segments that are lost are counted together at any time.
    fn last_end_together(&self, run: Run, outcome: Outcome, end: Instant) -> Instant {
        let forever = Instant::from_nanos(u64::MAX);
        if outcome.end != Arrival::Arrives {
            return forever;
        }
        let until = self.delay_line.last_together(run, self.arrival(end, outcome));
        // An arrival beyond the clock's range is clamped, so that all later ones are equal to it.
        if until == forever { until } else { before(until, self.delay_ns(outcome.jitter_ns)) }
    }

    /// Number of queued packets that follow `packet` in its train, with its size and outcome and without a pause or a
    /// decision of the discipline.
    fn followers(&self, packet: &Waiting) -> u32 {
        let by_run = self.head_drop.is_none() && self.transmitter.is_continuous();
        if !by_run || !packet.outcome.is_in_order() || self.settings.jitter.reorders {
            return 0;
        }
        self.queue.head().filter(|w| packet.is_followed_by(w)).map_or(0, |w| w.run.count)
    }

    /// Next packet according to the discipline.
    fn dequeue(&mut self, t: Instant) -> Option<Waiting> {
        let Settings { capacity, overhead, .. } = &self.settings;
        let wire = |w: &Waiting| u64::from(wire_bytes(capacity, *overhead, w.run.bytes));
        let packet = self.head_drop.dequeue(&mut self.queue, t, |w| {
            self.tally.dropped.codel.add(w.run);
            self.trains.release(w.run.slot, w.run.count);
            self.queue_wire = self.queue_wire.wrapping_sub(wire(&w));
        });
        self.queue_wire = self.queue_wire.wrapping_sub(packet.as_ref().map_or(0, wire));
        self.depth.set(t, self.queue.bytes(), &mut self.tally.queue_bytes);
        packet
    }

    /// Ends a transmission: the packet is lost or propagates, and the next transmission starts.
    fn depart(&mut self) {
        let Some(s) = self.sending.take() else {
            return;
        };
        self.propagate(s.packet.run, s.packet.outcome, s.end, s.end);
        if let Some(successor) = self.successor.take() {
            self.transmitter.replace(s.end, successor);
        }
        self.start_transmission(s.end);
    }

    /// Segments with equal outcomes leave the link: they are lost or propagate. The transmission of the first ends at
    /// `first_end` and that of the last at `end`; those that propagate arrive together.
    fn propagate(&mut self, run: Run, outcome: Outcome, first_end: Instant, end: Instant) {
        let lost = match outcome.end {
            Arrival::Arrives => None,
            Arrival::Lost => Some(&mut self.tally.dropped.loss),
            Arrival::Listed => Some(&mut self.tally.dropped.listed),
        };
        if let Some(cause) = lost {
            cause.add(run);
            self.trains.release(run.slot, run.count);
            return;
        }
        self.tally.delivered.add(run);
        let first = self.arrival(first_end, outcome);
        let at = self.arrival(end, outcome);
        self.latest_arrival = self.latest_arrival.max(at);
        if outcome.held_ns > 0 {
            self.tally.reordered += 1;
            self.delay_line.push_held(run, after(at, outcome.held_ns));
        } else {
            let ends = outcome.copied || self.trains.is_last(run);
            self.delay_line.push(run, first, at, ends);
        }
        if outcome.copied {
            self.copy(run, after(at, outcome.held_ns), outcome.held_ns > 0);
        }
    }

    fn copy(&mut self, segment: Run, at: Instant, held: bool) {
        self.trains.copy(segment.slot);
        self.tally.delivered.add(segment);
        self.tally.duplicated.add(segment);
        if held {
            self.delay_line.push_held(segment, at);
        } else {
            self.delay_line.push_alone(segment, at);
        }
    }

    /// Arrival of a packet whose transmission ends at `end`, without the additional delay of reordering.
    fn arrival(&self, end: Instant, outcome: Outcome) -> Instant {
        let own = after(end, self.delay_ns(outcome.jitter_ns));
        if self.settings.jitter.reorders { own } else { own.max(self.latest_arrival) }
    }

    fn delay_ns(&self, jitter_ns: i64) -> u64 {
        nanos(self.settings.delay).saturating_add_signed(jitter_ns)
    }

    /// Switches to the transmitter of the present settings, at the end of the transmission in progress.
    fn replace_transmitter(&mut self) {
        let free = self.sending.map_or(self.clock, |s| s.end);
        let by = Transmitter::new(&self.settings.capacity, self.origin, free, self.settings.up);
        match self.sending {
            Some(_) => self.successor = Some(by),
            None => self.transmitter.replace(self.clock, by),
        }
    }

    fn drop_waiting(&mut self) {
        while let Some(w) = self.queue.pop(u32::MAX) {
            self.discard(w.run, |d| &mut d.outage);
        }
        self.depth.set(self.clock, 0, &mut self.tally.queue_bytes);
    }

    fn wire_bytes(&self, ip: u32) -> u32 {
        wire_bytes(&self.settings.capacity, self.settings.overhead, ip)
    }

    fn wire_total(&self, run: Run) -> u64 {
        u64::from(self.wire_bytes(run.bytes)) * u64::from(run.count)
    }

    /// Whether no later offer or change can add a segment to the open run.
    fn nothing_joins(&self) -> bool {
        let Some(open) = self.delay_line.open() else {
            return true;
        };
        if self.clock >= open.until {
            return true;
        }
        // A packet that waits while the wire is free does not continue the run: `start_transmission` has closed it.
        self.sending.is_none_or(|s| {
            let Run { slot, first, .. } = s.packet.run;
            // A packet cannot arrive before its transmission ends.
            slot != open.slot || first != open.next || s.end > open.until
        })
    }

    /// Arrival of the last segment that joins the open run, under the present settings.
    fn last_joining(&self, open: &Open) -> Instant {
        let Some(s) = &self.sending else {
            return open.until;
        };
        let first = self.arrival(s.end, s.packet.outcome);
        if first > open.until {
            return s.end.min(open.until);
        }
        self.last_in_train(s, first, open.until)
    }

    /// Last arrival up to `until` of the segments that follow the one in transmission back to back, under the present
    /// settings. The segment in transmission arrives at `first`. The result is exact for segments with equal outcomes,
    /// and a lower bound for others.
    fn last_in_train(&self, s: &Sending, first: Instant, until: Instant) -> Instant {
        let mut last = first;
        for (count, bytes) in self.queue.runs_after(s.packet.run) {
            let Some(each) = self.transmitter.duration_ns(self.wire_bytes(bytes)) else {
                break;
            };
            let left = ns_between(last, until);
            let fit = left.checked_div(each).unwrap_or(u64::MAX).min(u64::from(count));
            last = after(last, fit.saturating_mul(each));
            if fit < u64::from(count) {
                break;
            }
        }
        last
    }

    /// Earliest possible delivery of packets that have not left the link, under the present settings.
    fn next_departure(&self) -> Option<Instant> {
        let earliest = |end: Instant| after(end, self.delay_ns(self.lowest_jitter_ns));
        let Some(s) = &self.sending else {
            return self.start_at.map(earliest);
        };
        let outcome = s.packet.outcome;
        if outcome.end != Arrival::Arrives || outcome.held_ns > 0 || self.settings.jitter.reorders {
            return Some(earliest(s.end));
        }
        let first = self.arrival(s.end, outcome);
        Some(self.last_in_train(s, first, first + crate::COALESCE))
    }
}

/// Sorts the list of lost packets, because it is searched by bisection.
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
