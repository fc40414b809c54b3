//! Calls of `longhaul estimate` in the simulated network.

use units::Instant;

use super::{Slot, World};
use crate::connection::Connection;
use crate::controls;
use crate::estimates::{CONTROL, EstimateEvent, Estimator, Request, Transferred};
use crate::events::Source;

impl World {
    pub(super) fn add_estimates(&mut self, seed: u64) {
        for (index, call) in (0..).zip(&self.scenario.estimates) {
            let estimator = Estimator::new(&self.scenario, &mut self.paths, call, (index, seed), self.zero);
            if let Some(at) = estimator.poll_timeout() {
                self.events.schedule(Source::Estimate(index), at);
            }
            self.estimates.push(estimator);
        }
    }

    /// Events of all calls since the last time, each with the index of its call, in the order of time of each call.
    pub fn take_estimate_events(&mut self) -> Vec<(usize, EstimateEvent)> {
        let all = self.estimates.iter_mut().enumerate();
        all.flat_map(|(index, e)| e.take_events().into_iter().map(move |event| (index, event))).collect()
    }

    /// Calls `job` with a call, does what it requests, and schedules its next timer.
    pub(super) fn with_estimate(&mut self, index: u32, job: impl FnOnce(&mut Estimator, Instant)) {
        let Some(estimator) = self.estimates.get_mut(index as usize) else { return };
        job(estimator, self.now);
        let packets = estimator.take_outbox();
        let request = estimator.take_request();
        packets.into_iter().for_each(|train| self.offer(train));
        match request {
            Some(Request::Start(settings, supply)) => {
                let Some(control) = controls::control(&self.scenario, CONTROL) else { return };
                let (slot, generation) = self.claim_slot();
                let connection = Connection::new(self.now, *settings, control, supply, (slot, generation));
                self.slots[slot as usize] = Slot::Probe(Box::new(connection), index);
                self.estimates[index as usize].handle_connection(slot);
                self.with_connection(slot, generation, |c, now, outbox| c.transmit(now, outbox));
            }
            Some(Request::Stop(Some(slot))) => self.end_probe(slot),
            Some(Request::Stop(None)) | None => {}
        }
        if let Some(at) = self.estimates[index as usize].poll_timeout() {
            self.events.schedule(Source::Estimate(index), at);
        }
    }

    /// Ends the transfer of a method whose data has been delivered.
    pub(super) fn end_drained_probe(&mut self, slot: u32) {
        if let Slot::Probe(connection, _) = &self.slots[slot as usize]
            && connection.is_drained(self.now)
        {
            self.end_probe(slot);
        }
    }

    fn end_probe(&mut self, slot: u32) {
        let Slot::Probe(connection, index) = &self.slots[slot as usize] else { return };
        let (index, generation) = (*index, connection.generation());
        let transferred = Transferred { bytes: connection.receiver.received(), times: connection.data_times() };
        self.slots[slot as usize] = Slot::Free(generation.wrapping_add(1));
        self.free.push(slot);
        self.with_estimate(index, |e, now| e.handle_transferred(now, transferred));
    }
}
