//! The simulated network: wires, connections, datagrams and transfers, driven by one event set.

mod estimates;
mod members;

use std::collections::VecDeque;

use link::{Direction, Settings as LinkSettings, Tally, Train};
use scenario::{Extent, Scenario, Transport, link_wire};
use units::{Duration, Instant};

use crate::addressing::Paths;
use crate::connection::{Connection, Settings, Supply};
use crate::controls;
use crate::datagrams::Datagrams;
use crate::estimates::Estimator;
use crate::events::{Events, Source};
use crate::mice::{self, Completion, Setup, Stream};
use crate::packet::{Address, Body, Packet, Step};
use crate::tunnels::{Tunnel, Tunnels};
use crate::unsupported::{Unsupported, unsupported};

/// State of a flow. All counts are totals since the start of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowState {
    /// Payload bytes received, in order.
    pub bytes: u64,
    /// Segments retransmitted; `None` for UDP.
    pub retransmits: Option<u64>,
    /// Datagrams lost; `None` for TCP.
    pub lost: Option<u64>,
    /// Datagrams received; `None` for TCP.
    pub datagrams: Option<u64>,
    /// Mean of the smoothed round-trip times of the connections.
    pub srtt: Option<Duration>,
    /// Sum of the congestion windows in bytes.
    pub window_bytes: Option<u64>,
    /// Payload of a full segment in bytes.
    pub mss: Option<u32>,
    /// Time since the start of the run at which the last byte of a fixed amount arrived; UDP: `None`.
    pub arrived: Option<Duration>,
    /// Whether the flow has stopped and nothing of it is in flight; UDP: whether it has stopped.
    pub is_drained: bool,
}

/// Work that the simulator has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events handled.
    pub events: u64,
    /// Segments that passed a wire: through its queue, over it, and delivered.
    pub hops: u64,
    /// Maximum number of entries in the event set.
    pub events_max: usize,
}

/// Use of a connection's slot.
#[derive(Debug)]
enum Slot {
    /// A connection of a bulk flow.
    Bulk(Box<Connection>),
    /// A transfer before its data.
    Setup(Box<Setup>, u32),
    /// A transfer with its data.
    Transfer(Box<(Connection, Setup)>),
    /// A transfer of an estimation method, with the index of its call.
    Probe(Box<Connection>, u32),
    /// Unused; the number is that of the next use.
    Free(u32),
}

/// A flow of the scenario.
#[derive(Debug)]
enum Traffic {
    /// TCP: indices of its connections once it has started.
    Tcp(Vec<u32>),
    /// UDP: index of its datagrams.
    Datagrams(u32),
}

/// The simulated network.
#[derive(Debug)]
pub struct World {
    scenario: Scenario,
    now: Instant,
    /// Start of the run. The members of an overlay find each other before it.
    zero: Instant,
    tunnels: Tunnels,
    events: Events,
    wires: Vec<Direction<Packet>>,
    paths: Paths,
    slots: Vec<Slot>,
    free: Vec<u32>,
    traffic: Vec<Traffic>,
    datagrams: Vec<Datagrams>,
    streams: Vec<Stream>,
    completions: Vec<Completion>,
    estimates: Vec<Estimator>,
    schedule: VecDeque<(Instant, usize, LinkSettings)>,
    /// Packets to send, filled while an event is handled.
    outbox: Vec<Train<Packet>>,
    counters: Counters,
}

impl World {
    /// Builds the network of a scenario at the start of a run with seed `seed`.
    ///
    /// # Errors
    /// The parts of the scenario that the simulator does not have.
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Self, Vec<Unsupported>> {
        Self::with_members(scenario, seed, Vec::new())
    }

    /// Builds the network of a scenario with the members of its overlay, each with its node, and lets the members find
    /// each other before the run starts.
    ///
    /// # Errors
    /// The parts of the scenario that the simulator does not have; or the members do not reach each other.
    pub fn with_members(
        scenario: &Scenario,
        seed: u64,
        members: Vec<(usize, Box<dyn Tunnel>)>,
    ) -> Result<Self, Vec<Unsupported>> {
        let missing = unsupported(scenario);
        if !missing.is_empty() {
            return Err(missing);
        }
        let start = Instant::ZERO;
        let wire = |w: scenario::Wire| Direction::new(start, w.seed(seed), w.settings);
        let mut world = Self {
            scenario: scenario.clone(),
            now: start,
            zero: start,
            tunnels: Tunnels::new(scenario, members),
            events: Events::default(),
            wires: scenario.wires().into_iter().map(wire).collect(),
            paths: Paths::default(),
            slots: Vec::new(),
            free: Vec::new(),
            traffic: Vec::new(),
            datagrams: Vec::new(),
            streams: Vec::new(),
            completions: Vec::new(),
            schedule: VecDeque::new(),
            estimates: Vec::new(),
            outbox: Vec::new(),
            counters: Counters::default(),
        };
        world.start_members()?;
        let changes = scenario.schedule.iter();
        let changes = changes.map(|c| (world.zero + c.at, link_wire(c.link, c.direction), c.settings.clone()));
        world.schedule = changes.collect();
        world.add_flows(seed);
        for (number, mice) in scenario.mice.iter().enumerate() {
            let stream = Stream::new(scenario, &mut world.paths, mice, seed.wrapping_add(number as u64), world.zero);
            world.streams.push(stream);
            world.schedule_mice(number as u32);
        }
        world.add_estimates(seed);
        world.schedule_change();
        Ok(world)
    }

    fn add_flows(&mut self, seed: u64) {
        for number in 0..self.scenario.flows.len() {
            let flow = &self.scenario.flows[number];
            if flow.transport == Transport::Tcp {
                self.traffic.push(Traffic::Tcp(Vec::new()));
                self.events.schedule(Source::Flow(number as u32), self.zero + flow.start);
                continue;
            }
            let index = self.datagrams.len() as u32;
            let seed = seed.wrapping_add(number as u64);
            let datagrams = Datagrams::new(&self.scenario, &mut self.paths, flow, (index, seed), self.zero);
            self.datagrams.push(datagrams);
            self.traffic.push(Traffic::Datagrams(index));
            self.schedule_datagrams(index);
        }
    }

    /// Runs until a time since the start of the run, inclusive.
    pub fn run_until(&mut self, until: Duration) {
        self.run_to(self.zero + until);
    }

    fn run_to(&mut self, until: Instant) {
        while let Some((at, source)) = self.events.take(until) {
            self.now = self.now.max(at);
            self.counters.events += 1;
            self.handle(source);
            self.counters.events_max = self.counters.events_max.max(self.events.len());
        }
        self.now = self.now.max(until);
    }

    /// Tallies of all wires since the last call, in the order of [`Scenario::wires`].
    pub fn take_tallies(&mut self) -> Vec<Tally> {
        let now = self.now;
        self.wires.iter_mut().map(|w| w.take_tally(now)).collect()
    }

    /// Bytes of all packets in the links.
    pub fn held_bytes(&self) -> u64 {
        self.wires.iter().map(|w| w.held_bytes()).sum()
    }

    /// State of a flow now.
    pub fn flow(&self, number: usize) -> FlowState {
        match &self.traffic[number] {
            Traffic::Tcp(connections) => self.connections(connections),
            Traffic::Datagrams(index) => {
                let d = &self.datagrams[*index as usize];
                FlowState {
                    bytes: d.received_bytes,
                    lost: Some(d.lost),
                    datagrams: Some(d.received),
                    is_drained: d.next().is_none(),
                    ..FlowState::default()
                }
            }
        }
    }

    fn connections(&self, indices: &[u32]) -> FlowState {
        let mut state = FlowState { retransmits: Some(0), window_bytes: Some(0), ..FlowState::default() };
        let mut rtts = (Duration::ZERO, 0);
        state.is_drained = !indices.is_empty();
        let mut arrived = Some(Instant::ZERO).filter(|_| !indices.is_empty());
        for index in indices {
            let Slot::Bulk(connection) = &self.slots[*index as usize] else { continue };
            let info = connection.info();
            state.bytes += connection.receiver.received();
            state.retransmits = state.retransmits.map(|n| n + info.retransmissions);
            let window = u64::from(info.window) * u64::from(connection.mss());
            state.window_bytes = state.window_bytes.map(|n| n + window);
            state.mss = Some(connection.mss());
            state.is_drained &= connection.is_drained(self.now);
            arrived = arrived.zip(connection.arrived()).map(|(a, b)| a.max(b));
            if let Some(rtt) = info.smoothed_rtt {
                rtts = (rtts.0 + rtt, rtts.1 + 1);
            }
        }
        state.srtt = rtts.0.checked_div(rtts.1);
        state.arrived = arrived.map(|at| at.saturating_since(self.zero));
        state
    }

    /// Small transfers that have completed since the last call.
    pub fn take_completions(&mut self) -> Vec<Completion> {
        std::mem::take(&mut self.completions)
    }

    /// Small transfers in progress, as incomplete ones.
    pub fn incomplete(&self) -> Vec<Completion> {
        let setups = self.slots.iter().filter_map(|slot| match slot {
            Slot::Setup(setup, _) => Some(&**setup),
            Slot::Transfer(both) => Some(&both.1),
            Slot::Bulk(_) | Slot::Probe(..) | Slot::Free(_) => None,
        });
        let completion = |s: &Setup| Completion {
            stream: s.stream,
            start: s.start.saturating_since(self.zero),
            bytes: s.bytes,
            took: None,
        };
        setups.map(completion).collect()
    }

    /// Start of the run on the clock of the members of an overlay.
    pub const fn zero(&self) -> Instant {
        self.zero
    }

    /// Work done so far.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    fn handle(&mut self, source: Source) {
        match source {
            Source::Schedule => self.change_link(),
            Source::Wire(index) => self.deliver(index),
            Source::Connection(index) => self.handle_timeout(index),
            Source::Datagrams(index) => {
                let train = self.datagrams[index as usize].send();
                self.offer(train);
                self.schedule_datagrams(index);
            }
            Source::Mice(index) => self.start_transfer(index),
            Source::Flow(index) => self.start_flow(index as usize),
            Source::Member(node) => self.wake_member(node as usize),
            Source::Estimate(index) => self.with_estimate(index, Estimator::handle_timeout),
        }
    }

    fn change_link(&mut self) {
        while let Some((_, wire, settings)) = self.schedule.pop_front_if(|(at, ..)| *at <= self.now) {
            self.wires[wire].change(self.now, settings);
            self.schedule_wire(wire as u32);
        }
        self.schedule_change();
    }

    fn start_flow(&mut self, number: usize) {
        let flow = self.scenario.flows[number].clone();
        let settings = Settings::of_flow(&self.scenario, &mut self.paths, &flow, self.tunnels.mtu());
        let streams = u64::from(flow.streams.max(1));
        for stream in 0..streams {
            let supply = match flow.extent {
                Extent::Duration(time) => Supply::Until(self.now + time),
                // The first streams take the rest.
                Extent::Bytes(bytes) => {
                    let all = bytes.as_u64();
                    Supply::Bytes(all / streams + u64::from(stream < all % streams))
                }
            };
            // The scenario was checked: the control exists.
            let name = flow.congestion_control.as_deref().unwrap_or("cubic");
            let Some(control) = controls::control(&self.scenario, name) else { return };
            let (index, generation) = self.claim_slot();
            let connection = Connection::new(self.now, settings.clone(), control, supply, (index, generation));
            self.slots[index as usize] = Slot::Bulk(Box::new(connection));
            if let Traffic::Tcp(connections) = &mut self.traffic[number] {
                connections.push(index);
            }
            self.with_connection(index, generation, |c, now, outbox| c.transmit(now, outbox));
        }
    }

    fn start_transfer(&mut self, stream: u32) {
        let bytes = self.streams[stream as usize].start();
        let (index, generation) = self.claim_slot();
        let setup = Setup::new(self.now, stream as usize, bytes);
        self.send_step(stream as usize, (index, generation), setup.step());
        self.events.schedule(Source::Connection(index), setup.due());
        self.slots[index as usize] = Slot::Setup(Box::new(setup), generation);
        self.schedule_mice(stream);
    }

    fn send_step(&mut self, stream: usize, address: (u32, u32), step: Step) {
        let train = mice::packet(&self.streams[stream].settings, address, step);
        self.offer(train);
    }

    /// Index of an unused slot, and the number of its use.
    fn claim_slot(&mut self) -> (u32, u32) {
        if let Some(index) = self.free.pop()
            && let Slot::Free(generation) = self.slots[index as usize]
        {
            return (index, generation);
        }
        self.slots.push(Slot::Free(0));
        ((self.slots.len() - 1) as u32, 0)
    }

    fn handle_timeout(&mut self, index: u32) {
        if let Slot::Setup(setup, generation) = &mut self.slots[index as usize] {
            let (stream, generation) = (setup.stream, *generation);
            if setup.due() <= self.now {
                setup.repeat(self.now);
                let step = setup.step();
                self.send_step(stream, (index, generation), step);
            }
            if let Slot::Setup(setup, _) = &self.slots[index as usize] {
                self.events.schedule(Source::Connection(index), setup.due());
            }
            return;
        }
        let generation = match &self.slots[index as usize] {
            Slot::Bulk(c) | Slot::Probe(c, _) => c.generation(),
            Slot::Transfer(both) => both.0.generation(),
            Slot::Setup(..) | Slot::Free(_) => return,
        };
        self.with_connection(index, generation, |c, now, outbox| {
            // A timer that moved later leaves its event behind.
            if c.poll_timeout().is_some_and(|at| at <= now) {
                c.handle_timeout(now, outbox);
            }
        });
    }

    /// Calls `job` with a connection, sends what it gives, and schedules its next timer.
    fn with_connection(
        &mut self,
        index: u32,
        generation: u32,
        job: impl FnOnce(&mut Connection, Instant, &mut Vec<Train<Packet>>),
    ) {
        let connection = match &mut self.slots[index as usize] {
            Slot::Bulk(connection) | Slot::Probe(connection, _) => &mut **connection,
            Slot::Transfer(both) => &mut both.0,
            Slot::Setup(..) | Slot::Free(_) => return,
        };
        if connection.generation() != generation {
            return;
        }
        job(connection, self.now, &mut self.outbox);
        if let Some(at) = connection.poll_timeout() {
            self.events.schedule(Source::Connection(index), at);
        }
        let mut outbox = std::mem::take(&mut self.outbox);
        outbox.drain(..).for_each(|train| self.offer(train));
        self.outbox = outbox;
    }

    /// Passes a train to the wire at its position, or to its receiver at the end of the path.
    fn offer(&mut self, train: Train<Packet>) {
        let Some(wire) = self.paths.wire(train.payload.path, train.payload.hop) else {
            return self.enter_tunnel(train);
        };
        self.wires[wire as usize].offer(self.now, train);
        self.schedule_wire(wire);
    }

    /// Takes the deliveries of a wire that are due.
    fn deliver(&mut self, index: u32) {
        while let Some(delivery) = self.wires[index as usize].poll(self.now) {
            self.counters.hops += u64::from(delivery.count);
            let (mut packet, count, full, last) = Packet::delivered(delivery);
            packet.hop += 1;
            if self.paths.wire(packet.path, packet.hop).is_some() {
                self.offer(packet.train(count, full, last));
            } else {
                self.receive(packet);
            }
        }
        self.schedule_wire(index);
    }

    fn receive(&mut self, packet: Packet) {
        match (packet.to, packet.body) {
            (Address::Datagrams(index), Body::Datagram(number)) => self.datagrams[index as usize].receive(number),
            (Address::Connection(index, generation), Body::Data(segments)) => {
                self.with_connection(index, generation, |c, now, outbox| c.handle_data(now, segments, outbox));
                self.end_transfer(index, generation);
            }
            (Address::Connection(index, generation), Body::Ack(ack)) => {
                self.with_connection(index, generation, |c, now, outbox| c.handle_ack(now, &ack, outbox));
                self.end_drained_probe(index);
            }
            (Address::Connection(index, generation), Body::Setup(step)) => self.set_up((index, generation), step),
            (Address::Member(node), Body::Frame(from, datagram)) => {
                self.receive_frame(node as usize, from as usize, datagram.into_vec());
            }
            (Address::Estimate(index), body) => self.with_estimate(index, |e, now| e.handle(now, &body)),
            // No host sends these.
            (Address::Datagrams(_) | Address::Connection(..) | Address::Member(_), _) => {}
        }
    }

    /// Handles a packet of a handshake.
    fn set_up(&mut self, (index, generation): (u32, u32), step: Step) {
        let Slot::Setup(setup, own) = &mut self.slots[index as usize] else { return };
        if *own != generation {
            return;
        }
        let stream = setup.stream;
        match step {
            Step::Syn => self.send_step(stream, (index, generation), Step::SynAck),
            Step::SynAck => {
                if setup.accept(self.now, self.streams[stream].settings.rtt) {
                    self.send_step(stream, (index, generation), Step::Request);
                    if let Slot::Setup(setup, _) = &self.slots[index as usize] {
                        self.events.schedule(Source::Connection(index), setup.due());
                    }
                }
            }
            Step::Request => self.start_data((index, generation)),
        }
    }

    /// The server sends the data of a transfer.
    fn start_data(&mut self, (index, generation): (u32, u32)) {
        let Slot::Setup(setup, _) = std::mem::replace(&mut self.slots[index as usize], Slot::Free(generation)) else {
            return;
        };
        let stream = &self.streams[setup.stream];
        let Some(control) = controls::control(&self.scenario, &stream.control) else { return };
        let supply = Supply::Bytes(setup.bytes);
        let connection = Connection::new(self.now, stream.settings.clone(), control, supply, (index, generation));
        self.slots[index as usize] = Slot::Transfer(Box::new((connection, *setup)));
        self.with_connection(index, generation, |c, now, outbox| c.transmit(now, outbox));
        self.end_transfer(index, generation);
    }

    /// Ends a transfer whose last byte has arrived.
    fn end_transfer(&mut self, index: u32, generation: u32) {
        let Slot::Transfer(both) = &self.slots[index as usize] else { return };
        let (connection, setup) = &**both;
        if connection.generation() != generation || connection.receiver.received() < setup.bytes {
            return;
        }
        self.completions.push(Completion {
            stream: setup.stream,
            start: setup.start.saturating_since(self.zero),
            bytes: setup.bytes,
            took: Some(self.now.saturating_since(setup.start)),
        });
        self.slots[index as usize] = Slot::Free(generation.wrapping_add(1));
        self.free.push(index);
    }

    fn schedule_wire(&mut self, index: u32) {
        if let Some(at) = self.wires[index as usize].poll_timeout() {
            self.events.schedule(Source::Wire(index), at);
        }
    }

    fn schedule_datagrams(&mut self, index: u32) {
        if let Some(at) = self.datagrams[index as usize].next() {
            self.events.schedule(Source::Datagrams(index), at);
        }
    }

    fn schedule_mice(&mut self, index: u32) {
        if let Some(at) = self.streams[index as usize].next() {
            self.events.schedule(Source::Mice(index), at);
        }
    }

    fn schedule_change(&mut self) {
        if let Some((at, ..)) = self.schedule.front() {
            self.events.schedule(Source::Schedule, *at);
        }
    }
}
