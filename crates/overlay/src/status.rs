//! What a running member tells about itself.

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
use crate::offload::Switches;
use crate::settings::{Settings, shown_address};

/// Rates of what was judged.
const JUDGED: [&str; 2] = ["predicted_bps", "utility_bps"];
/// Events that are kept for who asks later.
const KEPT: usize = 1000;

/// What can be asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Question {
    /// Members, links, counters.
    Status,
    /// Ways in use to each member.
    Routes,
    /// How many flows there are, and on which paths.
    Flows,
    /// Why packets to a destination go as they go.
    Why {
        /// Name or number of a member, or an address.
        destination: String,
    },
    /// The last events.
    Events,
    /// Take members and certificate from the settings again.
    Reload,
    /// End.
    Down,
}

/// Where the threads count.
#[derive(Default)]
pub(crate) struct Counted {
    /// The controlling one and the gossip.
    pub(crate) control: Arc<Counters>,
    /// Those of the queues.
    pub(crate) queues: Vec<Arc<Counters>>,
    /// Of each queue.
    pub(crate) gauges: Vec<Arc<Gauges>>,
    pub(crate) switches: Switches,
}

impl Counted {
    fn counts(&self) -> Counts {
        self.queues.iter().fold(self.control.counts(), |sum, c| sum + c.counts())
    }
}

/// What people may know.
pub(crate) struct Status {
    settings: Arc<Settings>,
    counters: Counted,
    since: Instant,
    /// UTC at `since`, seconds.
    began: (u64, u32),
    events: VecDeque<Value>,
    /// Datagrams that were too large, when that was last looked at.
    oversize: u64,
    /// What this host has of the overlay.
    host: HostState,
    /// By which rates are predicted.
    policy: Policy,
}

/// Whether an operator has to act, or packets are lost until the event is over.
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

/// Sets these keys to nothing, where they are there.
fn hide(value: &mut Value, keys: &[&str]) {
    for key in keys {
        value.get_mut(*key).into_iter().for_each(|value| *value = Value::Null);
    }
}

impl Status {
    pub(crate) fn new(settings: Arc<Settings>, counters: Counted, now: Instant) -> Self {
        let (began, events) = (kernel::utc_seconds(), VecDeque::new());
        let policy = core::policy(&settings);
        Self { settings, counters, since: now, began, events, oversize: 0, host: HostState::default(), policy }
    }

    /// Takes what this host has of the overlay now.
    pub(crate) fn set_host(&mut self, state: HostState) {
        self.host = state;
    }

    /// Counts addresses and routes that were added again.
    pub(crate) fn count_restored(&self, restored: u64) {
        add(&self.counters.control.routes_restored, restored);
    }

    /// Counts what the network did with a datagram of the controlling thread.
    pub(crate) fn count_sent(&self, sent: io::Result<usize>) {
        if sent.is_err() {
            bump(&self.counters.control.tx_errors);
        }
    }

    /// Counts a time that this member did nothing.
    pub(crate) fn count_stall(&self) {
        bump(&self.counters.control.stalls);
    }

    /// Whether this host refused datagrams as too large since the last time.
    pub(crate) fn has_oversize(&mut self) -> bool {
        let now = self.counters.counts().oversize;
        std::mem::replace(&mut self.oversize, now) != now
    }

    /// Elephants on each path, as of the last count.
    pub(crate) fn elephants(&self) -> Vec<(Path, u32)> {
        active(&self.counters.gauges).into_iter().map(|(path, active)| (path, active.elephants)).collect()
    }

    /// Keeps an event; gives its line.
    pub(crate) fn note(&mut self, event: &Event) -> String {
        let mut value = serde_json::to_value(event).unwrap_or_default();
        let (seconds, nanos) = kernel::utc_seconds();
        if let Some(object) = value.as_object_mut() {
            object.insert("utc_s".to_owned(), json!(seconds as f64 + f64::from(nanos) / 1e9));
            if let Event::Route(decision) = event {
                // Beside the numbers.
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
        if self.events.len() == KEPT {
            self.events.pop_front();
        }
        self.events.push_back(value);
        line
    }

    /// Of rates that follow from what is assumed of a capacity, and not from what is known, nobody is told.
    fn hide_assumed(&self, event: &mut Map<String, Value>, decision: &Decision) {
        let Some(inputs) = event.get_mut("inputs").and_then(Value::as_object_mut) else { return };
        let is_assumed = |judged: Option<Judged>| judged.is_some_and(|j| self.policy.is_assumed(&j.metrics));
        for (key, judged) in [("from", decision.inputs.from), ("to", decision.inputs.to)] {
            if is_assumed(judged) {
                inputs.get_mut(key).into_iter().for_each(|judged| hide(judged, &JUDGED));
            }
        }
        let is_most = decision.inputs.chosen_for.is_some_and(|rate| rate >= self.policy.unknown_capacity);
        if is_most && let Some(chosen_for) = inputs.get_mut("predicted_at_selection_bps") {
            *chosen_for = Value::Null;
        }
    }

    /// The answer to a question, as JSON.
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
            "member": own.member(), "key": own.to_string(), "certified_until_utc_s": core.certified_until_utc_s(), "refused_keys": core.refused_keys(), "addresses": self.settings.addresses, "subnets": self.settings.subnets, "device": self.settings.device,
            "tunnel": self.host,
            "listen": shown_address(self.settings.listen), "offload": self.counters.switches.now(), "queues": self.counters.gauges.len(), "started_utc_s": self.began.0,
            "congestion_control": self.settings.congestion_control, "model": self.settings.model(),
            "idle": core.is_idle(now), "running_s": now.saturating_since(self.since).as_secs_f64(),
            "gossip_bps": core.gossip_rate(now).as_bps(), "gossip_budget_bps": self.settings.gossip_rate.as_bps(),
            "members": members, "link_state": advertisements, "counters": self.counters.counts(), "flows": self.flows(core, now),
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

    /// A way with what is seen of it, and these further keys.
    fn path(&self, core: &Core, now: Instant, path: &Path, further: Value) -> Value {
        let mut view = serde_json::to_value(core.path_view(now, path)).unwrap_or_default();
        if let (Some(view), Value::Object(further)) = (view.as_object_mut(), further) {
            view.insert("relays".to_owned(), json!(self.relays(path)));
            view.extend(further);
        }
        view
    }

    /// What the relays of a path are called.
    fn relays(&self, path: &Path) -> Vec<String> {
        path.relays().iter().map(|m| self.settings.name_of(*m)).collect()
    }

    fn routes(&self, core: &Core, now: Instant) -> Value {
        let members = self.settings.members.get();
        let routes: Vec<Value> = members
            .iter()
            .map(|(number, m)| json!({ "member": number, "name": m.name, "subnets": m.subnets, "routes": self.paths(core, *number, now) }))
            .collect();
        json!({ "routes": routes })
    }

    fn flows(&self, core: &Core, now: Instant) -> Value {
        let by_path = active(&self.counters.gauges);
        let sum = |of: fn(&Active) -> u32| by_path.iter().map(|(_, a)| u64::from(of(a))).sum::<u64>();
        let unremembered: u64 = self.counters.gauges.iter().map(|g| g.unremembered.load(Ordering::Relaxed)).sum();
        let paths: Vec<Value> = by_path
            .iter()
            .map(|(path, active)| {
                let member = path.destination();
                let further = json!({
                    "member": member, "name": self.settings.name_of(member),
                    "flows": active.flows, "elephants": active.elephants,
                });
                self.path(core, now, path, further)
            })
            .collect();
        json!({
            "paths": paths, "active": sum(|a| a.flows), "elephants": sum(|a| a.elephants),
            "unremembered": unremembered,
        })
    }

    /// The explanation with the names of the relays beside each path, which has their numbers.
    fn explained(&self, explanation: &Explanation) -> Value {
        let mut value = serde_json::to_value(explanation).unwrap_or_default();
        let used: Vec<Path> = explanation.used.iter().map(|u| u.path).collect();
        let candidates = explanation.candidates.iter().map(|c| c.path).collect();
        for (key, paths) in [("used", used), ("candidates", candidates)] {
            let entries = value.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten();
            for (entry, path) in entries.filter_map(Value::as_object_mut).zip(&paths) {
                entry.insert("relays".to_owned(), json!(self.relays(path)));
                if entry.get("assumed") == Some(&Value::Bool(true)) {
                    entry.get_mut("judged").into_iter().for_each(|judged| hide(judged, &JUDGED));
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

    /// Whether that is this host, or a network behind it.
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
            // As text shows it, and as JSON does.
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
            None if self.is_own(destination) => json!({ "error": format!("{destination} is this member's own") }),
            None => json!({ "error": format!("no member is called {destination} or has that address") }),
        }
    }
}
