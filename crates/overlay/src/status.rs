//! Status, routes, flows, explanations and events of a running member, as JSON.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use route::flows::Active;
use route::{Decision, Explanation, Judged, Member, Path, Policy, Weighted};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use units::Instant;

use crate::core::{self, Core, Event};
use crate::counters::{Counters, Counts, add, bump};
use crate::event_text;
use crate::gauges::{Gauges, active};
use crate::host_routes::HostState;
use crate::offload::OffloadSwitches;
use crate::settings::{Settings, shown_address};

/// Rates in the evaluation of a path.
const EVALUATION_RATES: [&str; 2] = ["predicted_bps", "utility_bps"];
/// Number of events that are kept for later requests.
const EVENTS_MAX: usize = 1000;

/// A request to a running member.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Question {
    /// Members, links and counters.
    Status,
    /// Routes to each member.
    Routes,
    /// Number of flows, in total and on each path.
    Flows,
    /// Explanation of the route to a destination.
    Why {
        /// Name or number of a member, or an address.
        destination: String,
    },
    /// The latest events.
    Events,
    /// Reload members and certificate from the settings.
    Reload,
    /// Shut down.
    Down,
}

/// Counters and gauges of all threads.
#[derive(Default)]
pub(crate) struct Statistics {
    /// Counters of the controlling thread and of gossip.
    pub(crate) control: Arc<Counters>,
    /// Counters of the packet threads.
    pub(crate) queues: Vec<Arc<Counters>>,
    /// Flow counts of each transmit queue.
    pub(crate) gauges: Vec<Arc<Gauges>>,
    pub(crate) switches: OffloadSwitches,
}

impl Statistics {
    fn counts(&self) -> Counts {
        self.queues.iter().fold(self.control.counts(), |sum, c| sum + c.counts())
    }
}

/// Builds the replies of a member.
pub(crate) struct Status {
    settings: Arc<Settings>,
    statistics: Statistics,
    started_at: Instant,
    /// UTC time of the start in seconds.
    started_utc_s: u64,
    events: VecDeque<Value>,
    /// Counter of oversize datagrams at the last check.
    oversize: u64,
    host: HostState,
    /// Policy of the route control, which predicts the rates.
    policy: Policy,
}

/// Whether an event requires an action of the operator, or packets are lost until it is over.
fn is_warning(event: &Event) -> bool {
    match event {
        Event::PeerRejected { .. } | Event::Unresolved { .. } | Event::CertificateEnds { .. } => true,
        Event::DuplicateIdentity | Event::Stalled { .. } | Event::ClockSet { .. } => true,
        Event::RoutesMissing { device_up, addresses, routes } => {
            !device_up || !addresses.is_empty() || !routes.is_empty()
        }
        Event::RoutesOverridden { routes } => !routes.is_empty(),
        Event::Session { .. } | Event::Link { .. } | Event::LinkSuspected { .. } | Event::Route(_) => false,
        Event::Joined { .. } | Event::Left { .. } | Event::RoutesRestored(_) => false,
    }
}

/// Sets these keys to null, if present.
fn hide(value: &mut Value, keys: &[&str]) {
    for key in keys {
        value.get_mut(*key).into_iter().for_each(|value| *value = Value::Null);
    }
}

impl Status {
    pub(crate) fn new(settings: Arc<Settings>, statistics: Statistics, now: Instant) -> Self {
        let policy = core::policy(&settings);
        Self {
            settings,
            statistics,
            started_at: now,
            started_utc_s: kernel::utc_seconds().0,
            events: VecDeque::new(),
            oversize: 0,
            host: HostState::default(),
            policy,
        }
    }

    /// Stores the state of the overlay's device, addresses and routes.
    pub(crate) fn set_host(&mut self, state: HostState) {
        self.host = state;
    }

    /// Counts restored addresses and routes.
    pub(crate) fn count_restored(&self, restored: u64) {
        add(&self.statistics.control.routes_restored, restored);
    }

    /// Counts a transmit error of the controlling thread.
    pub(crate) fn count_sent(&self, sent: io::Result<usize>) {
        if sent.is_err() {
            bump(&self.statistics.control.tx_errors);
        }
    }

    /// Counts a stall of the controlling thread.
    pub(crate) fn count_stall(&self) {
        bump(&self.statistics.control.stalls);
    }

    /// Whether this host has rejected datagrams as too large since the last call.
    pub(crate) fn has_oversize(&mut self) -> bool {
        let now = self.statistics.counts().oversize;
        std::mem::replace(&mut self.oversize, now) != now
    }

    /// Elephant flows on each path at the last count.
    pub(crate) fn elephants(&self) -> Vec<(Path, u32)> {
        active(&self.statistics.gauges).into_iter().map(|(path, active)| (path, active.elephants)).collect()
    }

    /// Stores and logs an event; returns its line for the event log.
    pub(crate) fn note(&mut self, event: &Event) -> String {
        let mut value = serde_json::to_value(event).unwrap_or_default();
        let (seconds, nanos) = kernel::utc_seconds();
        if let Some(object) = value.as_object_mut() {
            object.insert("utc_s".to_owned(), json!(seconds as f64 + f64::from(nanos) / 1e9));
            if let Event::Route(decision) = event {
                // Names supplement the member numbers of the decision.
                object.insert("name".to_owned(), json!(self.settings.name_of(decision.destination)));
                for (key, path) in [("from_relays", decision.from), ("to_relays", decision.to)] {
                    object.insert(key.to_owned(), json!(path.map(|path| self.relays(&path))));
                }
                self.hide_assumed(object, decision);
            }
        }
        let text = event_text::text(event, &|member| self.settings.name_of(member));
        if is_warning(event) {
            tracing::warn!("{text}");
        } else {
            tracing::info!("{text}");
        }
        if let Some(object) = value.as_object_mut() {
            object.insert("text".to_owned(), json!(text));
        }
        let line = value.to_string();
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(value);
        line
    }

    /// Hides predicted rates that follow from an assumed capacity instead of a measured one.
    fn hide_assumed(&self, event: &mut Map<String, Value>, decision: &Decision) {
        let Some(inputs) = event.get_mut("inputs").and_then(Value::as_object_mut) else { return };
        let is_assumed = |judged: Option<Judged>| judged.is_some_and(|j| self.policy.is_assumed(&j.metrics));
        for (key, judged) in [("from", decision.inputs.from), ("to", decision.inputs.to)] {
            if is_assumed(judged) {
                inputs.get_mut(key).into_iter().for_each(|judged| hide(judged, &EVALUATION_RATES));
            }
        }
        let is_assumed_rate = decision.inputs.chosen_for.is_some_and(|rate| rate >= self.policy.unknown_capacity);
        if is_assumed_rate && let Some(chosen_for) = inputs.get_mut("predicted_at_selection_bps") {
            *chosen_for = Value::Null;
        }
    }

    /// The reply to a request.
    pub(crate) fn answer(&self, question: &Question, core: &Core, now: Instant) -> Value {
        match question {
            Question::Status => self.status(core, now),
            Question::Routes => self.routes(core, now),
            Question::Flows => self.flows(core, now),
            Question::Why { destination } => self.why(core, now, destination),
            Question::Events => json!({ "events": self.events }),
            Question::Reload | Question::Down => json!({}),
        }
    }

    fn status(&self, core: &Core, now: Instant) -> Value {
        let own = self.settings.identity.public();
        let known = self.settings.members.get();
        let members: Vec<Value> = known
            .iter()
            .map(|(number, m)| {
                json!({
                    "member": number, "name": m.name, "key": m.key.to_string(), "subnets": m.subnets,
                    "link": self.link(core, *number, now),
                    "routes": self.paths(core, *number, now),
                })
            })
            .collect();
        let advertisements: Vec<Value> = core
            .advertisements(now)
            .map(|(from, to, advertisement, age)| {
                let (age_s, confidence) = (age.as_secs_f64(), advertisement.metrics().confidence);
                json!({ "from": from, "to": to, "metrics": advertisement, "age_s": age_s, "confidence": confidence })
            })
            .collect();
        json!({
            "member": own.member(), "key": own.to_string(),
            "certified_until_utc_s": core.certified_until_utc_s(), "refused_keys": core.refused_keys(),
            "addresses": self.settings.addresses, "subnets": self.settings.subnets,
            "device": self.settings.device, "tunnel": self.host,
            "listen": shown_address(self.settings.listen), "offload": self.statistics.switches.current(),
            "queues": self.statistics.gauges.len(), "started_utc_s": self.started_utc_s,
            "congestion_control": self.settings.congestion_control, "model": self.settings.model(),
            "idle": core.is_idle(now), "running_s": now.saturating_since(self.started_at).as_secs_f64(),
            "gossip_bps": core.gossip_rate(now).as_bps(), "gossip_budget_bps": self.settings.gossip_rate.as_bps(),
            "members": members, "link_state": advertisements,
            "counters": self.statistics.counts(), "flows": self.flows(core, now),
        })
    }

    fn link(&self, core: &Core, member: Member, now: Instant) -> Value {
        let mut link = json!(core.link_view(member, now));
        if let Some(endpoint) = link.get_mut("endpoint") {
            let shown = endpoint.as_str().and_then(|text| text.parse().ok()).map(shown_address);
            *endpoint = json!(shown);
        }
        link
    }

    fn paths(&self, core: &Core, member: Member, now: Instant) -> Vec<Value> {
        let paths = core.routes(member).iter();
        let predicted = |w: &Weighted| (!w.assumed).then(|| w.predicted.as_bps());
        let of = |w: &Weighted| json!({ "weight": w.weight, "predicted_bps": predicted(w) });
        paths.map(|w| self.path(core, now, &w.path, of(w))).collect()
    }

    /// A path with its measurements and these additional keys.
    fn path(&self, core: &Core, now: Instant, path: &Path, additional: Value) -> Value {
        let mut view = serde_json::to_value(core.path_view(now, path)).unwrap_or_default();
        if let (Some(view), Value::Object(additional)) = (view.as_object_mut(), additional) {
            view.insert("relays".to_owned(), json!(self.relays(path)));
            view.extend(additional);
        }
        view
    }

    /// Names of the relays of a path.
    fn relays(&self, path: &Path) -> Vec<String> {
        path.relays().iter().map(|m| self.settings.name_of(*m)).collect()
    }

    fn routes(&self, core: &Core, now: Instant) -> Value {
        let members = self.settings.members.get();
        let routes: Vec<Value> = members
            .iter()
            .map(|(number, m)| {
                let routes = self.paths(core, *number, now);
                json!({ "member": number, "name": m.name, "subnets": m.subnets, "routes": routes })
            })
            .collect();
        json!({ "routes": routes })
    }

    fn flows(&self, core: &Core, now: Instant) -> Value {
        let by_path = active(&self.statistics.gauges);
        let sum = |of: fn(&Active) -> u32| by_path.iter().map(|(_, a)| u64::from(of(a))).sum::<u64>();
        let unremembered: u64 = self.statistics.gauges.iter().map(|g| g.unremembered.load(Ordering::Relaxed)).sum();
        let paths: Vec<Value> = by_path
            .iter()
            .map(|(path, active)| {
                let member = path.destination();
                let additional = json!({
                    "member": member, "name": self.settings.name_of(member),
                    "flows": active.flows, "elephants": active.elephants,
                });
                self.path(core, now, path, additional)
            })
            .collect();
        json!({
            "paths": paths, "active": sum(|a| a.flows), "elephants": sum(|a| a.elephants),
            "unremembered": unremembered,
        })
    }

    /// The explanation as JSON, with the names of the relays of each path.
    fn explained(&self, explanation: &Explanation) -> Value {
        let mut value = serde_json::to_value(explanation).unwrap_or_default();
        let used: Vec<Path> = explanation.used.iter().map(|u| u.path).collect();
        let candidates = explanation.candidates.iter().map(|c| c.path).collect();
        for (key, paths) in [("used", used), ("candidates", candidates)] {
            let entries = value.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten();
            for (entry, path) in entries.filter_map(Value::as_object_mut).zip(&paths) {
                entry.insert("relays".to_owned(), json!(self.relays(path)));
                if entry.get("assumed") == Some(&Value::Bool(true)) {
                    entry.get_mut("judged").into_iter().for_each(|judged| hide(judged, &EVALUATION_RATES));
                    for key in ["rate_aware_bps", "predicted_at_selection_bps"] {
                        entry.get_mut(key).into_iter().for_each(|value| *value = Value::Null);
                    }
                }
            }
        }
        if let (Some(decided), Some(Value::Object(value))) = (&explanation.decided, value.get_mut("decided")) {
            self.hide_assumed(value, decided);
        }
        value
    }

    /// Whether a destination is this host or a network behind it.
    fn is_own(&self, destination: &str) -> bool {
        let own = self.settings.identity.public().member();
        let is_served = |ip: IpAddr| self.settings.serves().iter().any(|net| net.contains(&ip));
        destination.parse().map_or_else(|_| destination == own.to_string(), is_served)
    }

    fn why(&self, core: &Core, now: Instant, destination: &str) -> Value {
        let members = self.settings.members.get();
        let by_address = |ip: IpAddr| {
            let nets = members.iter().flat_map(|(n, m)| m.subnets.iter().map(move |s| (*n, *s)));
            nets.filter(|(_, s)| s.contains(&ip)).max_by_key(|(_, s)| s.prefix_len()).map(|(n, _)| n)
        };
        let by_name = || {
            let named = |(_, m): &(&Member, &crate::MemberSettings)| m.name == destination;
            // The text form and the JSON form of a number.
            let numbered = |(n, _): &(&Member, &crate::MemberSettings)| {
                n.to_string() == destination || n.0.to_string() == destination
            };
            let found = members.iter().find(named).or_else(|| members.iter().find(numbered));
            found.map(|(n, _)| *n)
        };
        let found = destination.parse().ok().map_or_else(by_name, by_address);
        match found.and_then(|m| Some((m, core.why(m)?))) {
            Some((member, explanation)) => {
                let name_of = |m| self.settings.name_of(m);
                let unreachable_reasons = core.unreachable_reasons(now, member);
                let text = explanation.with_names(name_of).to_string();
                let text = unreachable_reasons.iter().fold(text, |text, line| format!("{text}\n  {line}"));
                json!({
                    "member": member, "name": name_of(member), "explanation": self.explained(&explanation),
                    "unreached": unreachable_reasons, "text": text,
                })
            }
            None if self.is_own(destination) => json!({ "error": format!("{destination} belongs to this member") }),
            None => json!({ "error": format!("no member has the name or address {destination}") }),
        }
    }
}
