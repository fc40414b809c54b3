//! The members of an overlay in the simulated network.

use link::Train;
use units::{Duration, Instant};

use super::World;
use crate::events::Source;
use crate::packet::{Address, Body, Packet};
use crate::tunnels::{DATAGRAM_HEADER_BYTES, TunnelAction};
use crate::unsupported::Unsupported;

/// Time within which the members of an overlay must reach each other, and the interval of the checks: those of a run
/// on a kernel.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
const READY_INTERVAL: Duration = Duration::from_millis(100);

impl World {
    /// Handles the timers of a member that are due.
    pub(super) fn wake_member(&mut self, node: usize) {
        let now = self.now;
        if let Some(member) = self.tunnels.member(node).filter(|m| m.poll_timeout() <= now) {
            member.handle_timeout(now);
        }
        self.process_actions(node);
    }

    /// Passes a datagram of another member to the member of a node.
    pub(super) fn receive_frame(&mut self, node: usize, from: usize, datagram: Vec<u8>) {
        if let Some(member) = self.tunnels.member(node) {
            member.handle_datagram(self.now, from, datagram);
        }
        self.process_actions(node);
    }

    /// Passes a train to the member of an overlay at its source.
    pub(super) fn enter_tunnel(&mut self, train: Train<Packet>) {
        let Some((from, to)) = self.paths.tunnel(train.payload.path) else { return };
        self.tunnels.enter(self.now, (from, to), train);
        self.process_actions(from);
    }

    /// Processes the actions of the member of a node, and schedules its next timer.
    fn process_actions(&mut self, node: usize) {
        while let Some(action) = self.tunnels.member(node).and_then(|m| m.poll_action()) {
            match action {
                TunnelAction::Send { to, datagram } => {
                    let path = self.paths.between(&self.scenario, node, to);
                    let bytes = datagram.len() as u32 + DATAGRAM_HEADER_BYTES;
                    let body = Body::Frame(node as u32, datagram.into_boxed_slice());
                    let to = Address::Member(to as u32);
                    self.offer(Packet { path, hop: 0, to, header: DATAGRAM_HEADER_BYTES, body }.train(1, bytes, bytes));
                }
                TunnelAction::Deliver(ip) => {
                    if let Some(packet) = self.tunnels.leave(&ip) {
                        self.receive(packet);
                    }
                }
            }
        }
        if let Some(member) = self.tunnels.member(node) {
            let at = member.poll_timeout();
            self.events.schedule(Source::Member(node as u32), at);
        }
    }

    /// Runs until the members of the overlay reach each other: the run starts then.
    pub(super) fn start_members(&mut self) -> Result<(), Vec<Unsupported>> {
        for node in self.tunnels.nodes() {
            self.process_actions(node);
        }
        while !self.tunnels.are_ready() {
            if self.now > Instant::ZERO + READY_TIMEOUT {
                let reason = format!("no route between all members within {} s", READY_TIMEOUT.as_secs());
                return Err(vec![Unsupported { key: "overlay".to_owned(), reason }]);
            }
            self.run_to(self.now + READY_INTERVAL);
        }
        self.zero = self.now;
        self.take_tallies();
        Ok(())
    }
}
