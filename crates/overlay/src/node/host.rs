//! What the member does when the network of its host changes, and tells of it.

use std::time::Duration;

use kernel::NetworkWatch;
use serde_json::{Value, json};
use units::Instant;

use super::threads::Threads;
use super::{Input, Node, PATIENCE};
use crate::OverlayError;
use crate::core::Event;
use crate::host_routes::{Found, HostState, Restored};
use std::sync::mpsc::SyncSender;

/// How long changes are gathered before the host is looked at: routing daemons change thousands of routes in a row, and `ip link set DEV down; ip link set
/// DEV up` is one change to the tunnel.
const GATHER: Duration = Duration::from_millis(100);
/// Where somebody removes routes again and again, that is told so often; all are counted.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Has the controlling thread look at the host whenever its network has changed.
pub(super) fn watch(
    mut changes: NetworkWatch,
    inputs: SyncSender<Input>,
    threads: &mut Threads,
) -> Result<(), OverlayError> {
    let ending = std::sync::Arc::clone(&threads.ending);
    threads.start("overlay-routes", "watching the routes of this host".to_owned(), move || {
        while !ending.is_due() {
            if changes.wait(PATIENCE)? {
                kernel::sleep_for(GATHER);
                // Nobody waits for it any more when the member ends.
                let _ = inputs.send(Input::HostChanged);
            }
        }
        Ok::<(), kernel::KernelError>(())
    })
}

/// What was told of the host.
#[derive(Default)]
pub(super) struct Told {
    state: Option<HostState>,
    restored: Option<Instant>,
}

impl Node {
    /// Looks at what this host has of the overlay, adds what is missing, and tells; gives what was added again.
    pub(super) fn look_at_host(&mut self, now: Instant) -> Restored {
        match self.host.look() {
            Ok(found) => self.tell_host(now, found),
            Err(e) => {
                tracing::warn!("the routes of this host cannot be looked at: {e}");
                Restored::default()
            }
        }
    }

    pub(super) fn tell_host(&mut self, now: Instant, found: Found) -> Restored {
        let Found { state, restored, refused } = found;
        for e in refused {
            tracing::warn!("a route into the overlay is missing: {e}");
        }
        self.status.count_restored(restored.len() as u64);
        let is_due = self.told.restored.is_none_or(|at| now.saturating_since(at) >= TELL_EVERY);
        if restored.len() > 0 && is_due {
            self.told.restored = Some(now);
            self.tell(&Event::RoutesRestored(restored.clone()));
        }
        let before = self.told.state.replace(state.clone());
        let before = before.unwrap_or_else(|| HostState { up: true, ..HostState::default() });
        let of_tunnel = |s: &HostState| (s.up, s.missing_addresses.clone(), s.missing_routes.clone());
        if of_tunnel(&before) != of_tunnel(&state) {
            self.tell_missing(&state);
        }
        if before.other_routes != state.other_routes {
            self.tell_others(&before, &state);
        }
        self.status.set_host(state);
        restored
    }

    fn tell_missing(&mut self, state: &HostState) {
        let name = &self.settings.device;
        if !state.up {
            tracing::warn!("the tunnel device {name} is down: packets for peers are refused until it is up");
        } else if state.is_whole() {
            tracing::info!("the tunnel device {name} has all addresses and routes again");
        }
        for address in &state.missing_addresses {
            tracing::warn!("the tunnel device {name} lacks the address {address}");
        }
        for to in state.missing_routes.iter().filter(|_| state.up) {
            let command = self.host.command(*to);
            tracing::warn!("what is for {to} does not go to {name}; for that root adds: {command}");
        }
        let (addresses, routes) = (state.missing_addresses.clone(), state.missing_routes.clone());
        self.tell(&Event::RoutesMissing { device_up: state.up, addresses, routes });
    }

    fn tell_others(&mut self, before: &HostState, state: &HostState) {
        for other in state.other_routes.iter().filter(|o| !before.other_routes.contains(o)) {
            let by = other.device.as_ref().map_or_else(String::new, |device| format!(" (by {device})"));
            tracing::warn!(
                "this host has another route to {}{by} already, so that what is for it does not go into the overlay",
                other.subnet
            );
        }
        for gone in before.other_routes.iter().filter(|o| !state.other_routes.contains(o)) {
            tracing::info!("what is for {} goes into the overlay again", gone.subnet);
        }
        self.tell(&Event::RoutesOverridden { routes: state.other_routes.clone() });
    }
}

/// The answer to `reload` with what was added again on this host.
pub(super) fn with_restored(mut answer: Value, restored: &Restored) -> Value {
    if let Some(answer) = answer.as_object_mut() {
        answer.insert("restored".to_owned(), json!(restored));
    }
    answer
}
