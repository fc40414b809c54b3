//! A member without sockets, device and threads, for a simulator.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use packet::Flow;
use units::Instant;
use wire::overlay::Content;

use crate::core::{Core, Event, FLOWS_INTERVAL, Output, Start, micros};
use crate::counters::Counters;
use crate::decapsulate::{Arrival, Decapsulator, Verdict};
use crate::encapsulate::{address, head, relay_queue, tail};
use crate::gauges::{Gauges, Queues, active};
use crate::handshake_limiter::MacKeys;
use crate::placement::Placement;
use crate::secrets::Secrets;
use crate::session::Cipher;
use crate::settings::Settings;
use crate::table::Table;

/// Time of day at the start of a simulation: certificates end by it.
const UTC_S: u64 = 1_800_000_000;

/// An action of a simulated member.
#[derive(Debug)]
pub enum Action {
    /// Send a datagram.
    Send {
        /// Address of the peer.
        to: SocketAddr,
        /// Payload of UDP.
        datagram: Vec<u8>,
    },
    /// Give an IP packet to the host.
    Deliver(Vec<u8>),
    /// The best route to a peer has changed: the decision, as in the event log.
    Route(Box<route::Decision>),
}

/// A member of an overlay as a state machine: the same sessions, frames, gossip and decisions as `longhaul overlay up`,
/// with time and datagrams as inputs. Host names are not looked up. Sending and receiving take no time.
pub struct SimulatedMember {
    core: Core,
    decapsulator: Decapsulator,
    table: Arc<Table>,
    placement: Placement,
    gauges: [Arc<Gauges>; 1],
    counters: Counters,
    flows_at: Instant,
    actions: VecDeque<Action>,
}

impl std::fmt::Debug for SimulatedMember {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulatedMember").field("own", &self.table.own).finish_non_exhaustive()
    }
}

impl SimulatedMember {
    /// Starts a member. Equal settings, seeds and inputs give equal actions.
    ///
    /// # Errors
    /// The route control does not take the settings.
    pub fn new(settings: Settings, seed: [u8; 32], now: Instant) -> Result<Self, crate::OverlayError> {
        let keys = MacKeys::of(&settings.identity.public());
        let relay_rate = settings.relay_rate;
        let mut secrets = Secrets::new(seed);
        let start = Start { seed: secrets.bytes(), cipher: Cipher::Aes256Gcm, generation: 1, utc_s: UTC_S };
        let refused = || crate::OverlayError::Refused("the route control does not take these settings".to_owned());
        let core = Core::new(Arc::new(settings), Arc::default(), start, now).ok_or_else(refused)?;
        let gauges = [Arc::<Gauges>::default()];
        let mut member = Self {
            decapsulator: Decapsulator::new(keys, core.pending_handshakes(), relay_rate),
            core,
            table: Arc::default(),
            placement: Placement::new(Queues { own: 0, all: gauges.to_vec() }, [secrets.number(), secrets.number()]),
            gauges,
            counters: Counters::default(),
            flows_at: now,
            actions: VecDeque::new(),
        };
        member.process_outputs();
        Ok(member)
    }

    /// Time at which [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Instant {
        self.core.poll_timeout().min(self.flows_at)
    }

    /// The next action; `None`: nothing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.flows_at <= now {
            self.flows_at = now + FLOWS_INTERVAL;
            self.placement.maintain(now, 1, &self.table);
            let elephants = active(&self.gauges).into_iter().map(|(path, active)| (path, active.elephants));
            self.core.handle_flows(now, &Vec::from_iter(elephants));
        }
        if self.core.poll_timeout() <= now {
            self.core.handle_timeout(now);
        }
        self.process_outputs();
    }

    /// A datagram arrives from an address.
    pub fn handle_datagram(&mut self, now: Instant, from: SocketAddr, mut datagram: Vec<u8>) {
        let arrival = Arrival { came: now, from, traffic_class: 0 };
        let mut events = Vec::new();
        let mut tell = |event, _| {
            events.push(event);
            true
        };
        let taken = self.decapsulator.take(&self.table, &mut datagram, arrival, &self.counters, &mut tell);
        for event in events {
            self.core.handle_network(now, event);
        }
        match taken {
            Verdict::Nothing => {}
            Verdict::Packet { begin, end, .. } => {
                datagram.truncate(end);
                datagram.drain(..begin);
                self.actions.push_back(Action::Deliver(datagram));
            }
            Verdict::Forward(envelope) => {
                if let Some((session, to)) = self.table.next_hop(&envelope)
                    && address(session, (envelope, relay_queue(0)), &mut datagram, micros(now)).is_some()
                {
                    self.actions.push_back(Action::Send { to, datagram });
                }
            }
        }
        self.process_outputs();
    }

    /// The host sends an IP packet; it is dropped where no path leads to its destination.
    pub fn handle_packet(&mut self, now: Instant, ip: &[u8]) {
        let Some(flow) = Flow::of(ip) else { return };
        let sent = (ip.len(), packet::is_last(ip));
        let Some(((peer, route), class)) = self.placement.place(&self.table, &flow, sent, &self.counters) else {
            return;
        };
        let Some(route) = self.table.peers.get(peer).and_then(|p| p.routes.get(route)) else { return };
        let line = route.line(self.table.own, self.placement.queue());
        let mut datagram = [&vec![0; head(&route.path)], ip, &vec![0; tail(&route.path)]].concat();
        if line.seal(&mut datagram, Content::Packet { partial: false }, class, micros(now)).is_some() {
            self.actions.push_back(Action::Send { to: line.to, datagram });
        }
    }

    /// Whether each of the other members can be reached.
    pub fn is_ready(&self) -> bool {
        self.table.peers.iter().all(|peer| !peer.routes.is_empty())
    }

    /// Takes the outputs of the mesh.
    fn process_outputs(&mut self) {
        if let Some(table) = self.core.table() {
            self.placement.take_table(&table);
            self.table = Arc::new(table);
        }
        while let Some(output) = self.core.poll_output() {
            match output {
                Output::Send { to, datagram } => self.actions.push_back(Action::Send { to, datagram }),
                Output::Trial { to, datagrams, each } => {
                    let all = datagrams.chunks(each).map(|datagram| Action::Send { to, datagram: datagram.to_vec() });
                    self.actions.extend(all);
                }
                Output::Event(Event::Route(decision)) if decision.place == 0 => {
                    self.actions.push_back(Action::Route(decision));
                }
                Output::Event(_)
                | Output::LookUp { .. }
                | Output::Routes(_)
                | Output::NoRoutes(_)
                | Output::Record(_) => {}
            }
        }
    }
}
