//! Methods that are TCP transfers.

use estimate::probe::{Bounds, MethodName, TransferEnd, TransferLimits, no_transfer};
use results::estimate::{Caveat, EstimateResult};
use units::{Bytes, Instant, Rate};

use super::{Estimator, Stage};
use crate::connection::{Settings, Supply};

/// Congestion control of a transfer: the default of the hosts.
pub(crate) const CONTROL: &str = "cubic";

/// A transfer that the network is to start or to stop.
#[derive(Debug)]
pub(crate) enum Request {
    Start(Box<Settings>, Supply),
    /// Index of the connection.
    Stop(Option<u32>),
}

/// Data that a transfer has delivered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transferred {
    pub(crate) bytes: u64,
    /// Arrival of the first and of the last data, from which `longhaul test` computes the goodput.
    pub(crate) times: Option<(Instant, Instant)>,
}

/// A transfer of a method.
#[derive(Debug)]
pub(super) struct Transfer {
    name: MethodName,
    limits: TransferLimits,
    /// Start of the method, from which its time counts.
    asked: Instant,
    connection: Option<u32>,
}

impl Transfer {
    /// A transfer within the bounds; otherwise the result of a method that cannot start.
    pub(super) fn new(
        now: Instant,
        name: MethodName,
        has_budget: bool,
        bounds: Bounds,
    ) -> Result<Self, Box<EstimateResult>> {
        let limits = TransferLimits::new(name, false, has_budget, bounds);
        if limits.bytes == Some(0) {
            return Err(Box::new(no_transfer(name, false, Caveat::BudgetSpent)));
        }
        Ok(Self { name, limits, asked: now, connection: None })
    }

    /// Time at which the transfer ends, if its data has not been delivered before.
    pub(super) fn deadline(&self) -> Instant {
        // Data that is under way at the end of a timed transfer still arrives.
        let rest = if self.limits.bytes.is_none() { self.limits.time_max } else { units::Duration::ZERO };
        self.asked + self.limits.time_max + rest
    }

    pub(super) fn stop(&self) -> Request {
        Request::Stop(self.connection)
    }
}

impl Estimator {
    pub(super) fn start_transfer(&mut self, now: Instant, transfer: Transfer) {
        let supply = match transfer.limits.bytes {
            Some(bytes) => Supply::Bytes(bytes),
            None => Supply::Until(now + transfer.limits.planned_time()),
        };
        self.request = Some(Request::Start(Box::new(self.transfer_settings.clone()), supply));
        self.stage = Stage::Transferring(transfer);
    }

    /// The transfer has this connection.
    pub(crate) fn handle_connection(&mut self, index: u32) {
        if let Stage::Transferring(transfer) = &mut self.stage {
            transfer.connection = Some(index);
        }
    }

    /// The transfer has ended: its data has been delivered, or it was stopped.
    pub(crate) fn handle_transferred(&mut self, now: Instant, transferred: Transferred) {
        if !matches!(self.stage, Stage::Transferring(_)) {
            return;
        }
        if let Stage::Transferring(transfer) = std::mem::replace(&mut self.stage, Stage::Waiting) {
            self.end_transfer(now, transfer, Some(transferred));
        }
    }

    /// Records the result of a transfer; `None`: it did not start.
    pub(super) fn end_transfer(&mut self, now: Instant, transfer: Transfer, transferred: Option<Transferred>) {
        let elapsed_ns = units::nanos(now.saturating_since(transfer.asked));
        let Some(Transferred { bytes, times }) = transferred else {
            let result = no_transfer(transfer.name, false, Caveat::NoAnswer);
            self.conclude(now, EstimateResult { elapsed_ns, ..result });
            return;
        };
        let took = times.map(|(first, last)| last.saturating_since(first)).unwrap_or_default();
        let bps = if took.is_zero() { 0 } else { Rate::of(Bytes::new(bytes), took).as_bps() };
        let is_cut = transfer.limits.bytes.is_some_and(|all| bytes < all);
        let end = if is_cut { TransferEnd::TimeSpent } else { TransferEnd::ByItself };
        let result = transfer.limits.result(transfer.name, false, end, (bytes, bps));
        let congestion_control = Some(CONTROL.to_owned());
        self.last_train_end = now;
        self.conclude(now, EstimateResult { elapsed_ns, congestion_control, ..result });
    }
}
