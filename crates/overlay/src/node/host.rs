//! Reaction to changes of the host's network: restores addresses and routes, and reports their state.

use std::time::Duration;

use kernel::NetworkWatch;
use serde_json::{Value, json};
use units::Instant;

use super::threads::Threads;
use super::{Input, Node, POLL_INTERVAL};
use crate::OverlayError;
use crate::core::Event;
use crate::host_routes::{HostState, Restored, SyncReport};
use std::sync::mpsc::SyncSender;

/// Time for which changes are collected before a sync: routing daemons change thousands of routes in a row, and `ip
/// link set DEV down; ip link set DEV up` counts as one change.
const BATCH_DELAY: Duration = Duration::from_millis(100);
/// Minimum interval between two events on restored routes, which another process may remove repeatedly. The counter has
/// all of them.
const RESTORED_EVENT_INTERVAL: Duration = Duration::from_secs(1);

/// Starts the thread that notifies the controlling thread of changes of the host's network.
pub(super) fn watch(
    mut changes: NetworkWatch,
    inputs: SyncSender<Input>,
    threads: &mut Threads,
) -> Result<(), OverlayError> {
    let shutdown = std::sync::Arc::clone(&threads.shutdown);
    threads.start("overlay-routes", "watching the routes of this host".to_owned(), move || {
        while !shutdown.is_requested() {
            if changes.wait(POLL_INTERVAL)? {
                kernel::sleep_for(BATCH_DELAY);
                // The receiver is gone only during a shutdown.
                let _ = inputs.send(Input::HostChanged);
            }
        }
        Ok::<(), kernel::KernelError>(())
    })
}

/// State of the host that was reported last.
#[derive(Default)]
pub(super) struct Reported {
    state: Option<HostState>,
    /// Time of the last event on restored routes.
    restored_at: Option<Instant>,
}

impl Node {
    /// Adds missing addresses and routes to the host and reports changes; returns the restored ones.
    pub(super) fn sync_host(&mut self, now: Instant) -> Restored {
        match self.host.sync() {
            Ok(report) => self.report_host(now, report),
            Err(e) => {
                tracing::warn!("cannot read the addresses and routes of this host: {e}");
                Restored::default()
            }
        }
    }

    pub(super) fn report_host(&mut self, now: Instant, report: SyncReport) -> Restored {
        let SyncReport { state, restored, rejected } = report;
        for e in rejected {
            tracing::warn!("cannot add a route into the overlay: {e}");
        }
        self.status.count_restored(restored.len() as u64);
        let is_due = self.reported.restored_at.is_none_or(|at| now.saturating_since(at) >= RESTORED_EVENT_INTERVAL);
        if restored.len() > 0 && is_due {
            self.reported.restored_at = Some(now);
            self.log_event(&Event::RoutesRestored(restored.clone()));
        }
        let before = self.reported.state.replace(state.clone());
        let before = before.unwrap_or_else(|| HostState { up: true, ..HostState::default() });
        let of_tunnel = |s: &HostState| (s.up, s.missing_addresses.clone(), s.missing_routes.clone());
        if of_tunnel(&before) != of_tunnel(&state) {
            self.report_missing(&state);
        }
        if before.other_routes != state.other_routes {
            self.report_overridden(&before, &state);
        }
        self.status.set_host(state);
        restored
    }

    fn report_missing(&mut self, state: &HostState) {
        let name = &self.settings.device;
        if !state.up {
            tracing::warn!("the tunnel device {name} is down; packets for peers are rejected until it is up");
        } else if state.is_complete() {
            tracing::info!("all addresses and routes of the tunnel device {name} are in place again");
        }
        for address in &state.missing_addresses {
            tracing::warn!("the address {address} is missing on the tunnel device {name}");
        }
        for to in state.missing_routes.iter().filter(|_| state.up) {
            let command = self.host.command(*to);
            tracing::warn!("the route to {to} over {name} is missing; add it as root with `{command}`");
        }
        let (addresses, routes) = (state.missing_addresses.clone(), state.missing_routes.clone());
        self.log_event(&Event::RoutesMissing { device_up: state.up, addresses, routes });
    }

    fn report_overridden(&mut self, before: &HostState, state: &HostState) {
        for other in state.other_routes.iter().filter(|o| !before.other_routes.contains(o)) {
            let over = other.device.as_ref().map_or_else(String::new, |device| format!(" over {device}"));
            tracing::warn!("another route of this host to {}{over} overrides the overlay's", other.subnet);
        }
        for former in before.other_routes.iter().filter(|o| !state.other_routes.contains(o)) {
            tracing::info!("packets for {} use the overlay again", former.subnet);
        }
        self.log_event(&Event::RoutesOverridden { routes: state.other_routes.clone() });
    }
}

/// The reply to `reload` with the addresses and routes restored on this host.
pub(super) fn with_restored(mut answer: Value, restored: &Restored) -> Value {
    if let Some(answer) = answer.as_object_mut() {
        answer.insert("restored".to_owned(), json!(restored));
    }
    answer
}
