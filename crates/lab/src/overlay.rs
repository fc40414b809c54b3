//! The nodes of an experiment's overlay: creates their keys and configurations, starts a process in each node, and
//! waits until all reach each other.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use kernel::NamespaceInit;
use results::lab::RouteChange;
use scenario::{Overlay, Scenario};

use crate::LabError;
use crate::programs::Running;
use crate::topology::Host;

/// Network secret of the overlay. It need not be secret, since the namespaces of a run have no outside connection.
const SECRET: &str = "an emulated overlay, for one run";
/// Time until all members must reach each other: some handshakes, with retransmissions, on paths of seconds.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of the checks whether all members reach each other.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The running members; dropping it ends them.
pub(crate) struct Members {
    running: Vec<Running>,
    /// Directory of the control sockets, with a short path: the path of a socket has at most 107 bytes.
    sockets: tempfile::TempDir,
}

struct Member {
    name: String,
    settings: PathBuf,
    /// Configuration lines by which its peers know it.
    lines: String,
}

impl Members {
    /// Creates keys and configurations in `directory`, starts all members, and waits until each has a route to every
    /// other.
    pub(crate) fn start(
        overlay: &Overlay,
        scenario: &Scenario,
        keeper: &NamespaceInit,
        hosts: &[Host],
        program: &Path,
        directory: &Path,
    ) -> Result<Self, LabError> {
        let sockets = tempfile::tempdir().map_err(LabError::system("creating a directory for control sockets"))?;
        let directory = directory.canonicalize().map_err(LabError::file(directory))?;
        let mut members = Vec::new();
        for (place, node) in overlay.members.iter().enumerate() {
            let node = &scenario.nodes[*node];
            members.push(create_member(program, &directory, &node.name, Overlay::address(place), node.ipv4)?);
        }
        for (place, member) in members.iter().enumerate() {
            write_settings(overlay, &members, place, member, sockets.path())?;
        }
        let mut running = Vec::new();
        for (member, node) in members.iter().zip(&overlay.members) {
            let mut command = Command::new(program);
            command.args(["overlay", "up", "--config"]).arg(&member.settings).env("NO_COLOR", "1");
            let log = directory.join(format!("overlay-{}.log", member.name));
            running.push(Running::start(keeper, &hosts[*node], command, &log)?);
        }
        let mut all = Self { running, sockets };
        all.wait(&members, program)?;
        Ok(all)
    }

    /// Waits until each member has a route to every other member.
    fn wait(&mut self, members: &[Member], program: &Path) -> Result<(), LabError> {
        let give_up = kernel::now() + READY_TIMEOUT;
        for (place, member) in members.iter().enumerate() {
            while !is_ready(member, members.len(), program) {
                let failure = self.running[place].failure_of_ended();
                if failure.is_some() || kernel::now() > give_up {
                    let detail = failure.unwrap_or_else(|| {
                        format!("no route to all other members within {} s", READY_TIMEOUT.as_secs())
                    });
                    return Err(LabError::Server { node: member.name.clone(), detail: format!("overlay: {detail}") });
                }
                kernel::sleep_for(POLL_INTERVAL);
            }
        }
        Ok(())
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        self.running.iter().for_each(Running::terminate);
        self.running.iter_mut().for_each(Running::end);
        // Dropping `sockets` removes the directory.
        tracing::debug!("{} is gone", self.sockets.path().display());
    }
}

/// An event of a member, with the fields that the lab uses.
#[derive(serde::Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Event {
    Session {
        member: u32,
        name: String,
    },
    Route {
        utc_s: f64,
        destination: u32,
        rank: usize,
        from: Option<EventRoute>,
        to: Option<EventRoute>,
        reason: String,
    },
    Stalled {
        utc_s: f64,
        for_s: f64,
    },
    #[serde(other)]
    Other,
}

#[derive(serde::Deserialize)]
struct EventRoute {
    relays: Vec<u32>,
}

/// The results of the members' event logs for a run.
pub(crate) struct OverlayEvents {
    /// Changes of the best route, sorted by time.
    pub(crate) routes: Vec<RouteChange>,
    /// Members that stalled long enough for their peers to consider them down, with their longest stall in seconds.
    pub(crate) stalls: Vec<(String, f64)>,
}

/// Reads the event logs in `directory`; `zero` is the start of the run in seconds UTC.
pub(crate) fn read_events(overlay: &Overlay, scenario: &Scenario, directory: &Path, zero: f64) -> OverlayEvents {
    let (mut routes, mut stalls) = (Vec::new(), Vec::new());
    for node in &overlay.members {
        let member = &scenario.nodes[*node].name;
        // A member that failed at the start has no events; its run has failed.
        let text = fs::read_to_string(directory.join(format!("overlay-{member}.jsonl"))).unwrap_or_default();
        let events = read(&text);
        let longest = longest_stall(&events, zero, zero + scenario.duration.as_secs_f64());
        stalls.extend(longest.map(|seconds| (member.clone(), seconds)));
        routes.extend(decisions_of(member, events, zero));
    }
    routes.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    OverlayEvents { routes, stalls }
}

/// Parses an event log; an incomplete line, as the last one of a killed member, is skipped.
fn read(events: &str) -> Vec<Event> {
    events.lines().filter_map(|l| serde_json::from_str(l).ok()).collect()
}

/// The longest of the stalls that ended during the run, in seconds.
fn longest_stall(events: &[Event], start: f64, end: f64) -> Option<f64> {
    let stalls = events.iter().filter_map(|e| match e {
        Event::Stalled { utc_s, for_s } => (start..=end).contains(utc_s).then_some(*for_s),
        Event::Session { .. } | Event::Route { .. } | Event::Other => None,
    });
    stalls.max_by(f64::total_cmp)
}

/// A route as records show it, by the names of its relays.
pub(crate) fn route_text(relays: impl Iterator<Item = String>) -> String {
    let relays: Vec<String> = relays.collect();
    if relays.is_empty() { "direct".to_owned() } else { format!("via {}", relays.join(", ")) }
}

fn decisions_of(member: &str, events: Vec<Event>, zero: f64) -> Vec<RouteChange> {
    let mut names = BTreeMap::new();
    for event in &events {
        if let Event::Session { member, name } = event {
            names.insert(*member, name.clone());
        }
    }
    let name = |n: &u32| names.get(n).cloned().unwrap_or_else(|| format!("{n:08x}"));
    let route = |r: EventRoute| route_text(r.relays.iter().map(name));
    let change = |event| match event {
        Event::Route { utc_s, destination, rank: 0, from, to, reason } => Some(RouteChange {
            at_s: utc_s - zero,
            member: member.to_owned(),
            destination: name(&destination),
            from: from.map(route),
            to: to.map(route),
            reason,
        }),
        Event::Route { .. } | Event::Session { .. } | Event::Stalled { .. } | Event::Other => None,
    };
    events.into_iter().filter_map(change).collect()
}

/// Makes a member create its key.
fn create_member(
    program: &Path,
    directory: &Path,
    name: &str,
    address: std::net::Ipv4Addr,
    endpoint: std::net::Ipv4Addr,
) -> Result<Member, LabError> {
    let settings = directory.join(format!("{name}.toml"));
    let mut command = Command::new(program);
    command.args(["overlay", "init", "--secret", SECRET, "--config"]).arg(&settings);
    command.args(["--address", &address.to_string(), "--endpoint", &endpoint.to_string()]);
    let output = run(command)?;
    if !output.status.success() {
        let detail = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(LabError::Server { node: name.to_owned(), detail });
    }
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(Member { name: name.to_owned(), settings, lines })
}

fn run(mut command: Command) -> Result<Output, LabError> {
    command.output().map_err(LabError::system("starting `longhaul overlay`"))
}

/// Writes the configuration of a member: the settings of the experiment, and its peers.
fn write_settings(
    overlay: &Overlay,
    members: &[Member],
    place: usize,
    member: &Member,
    sockets: &Path,
) -> Result<(), LabError> {
    let file = &member.settings;
    let made = fs::read_to_string(file).map_err(LabError::file(file))?;
    // The lab sets the control socket itself.
    let mut text: String =
        made.lines().filter(|l| !l.starts_with("control_socket")).fold(String::new(), |t, l| t + l + "\n");
    let _ = writeln!(text, "control_socket = \"{}\"", sockets.join(format!("{place}.sock")).display());
    let _ = writeln!(text, "event_log = \"overlay-{}.jsonl\"", member.name);
    let mut add = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(text, "{key} = {value}");
        }
    };
    let quoted = |value: &String| format!("{value:?}");
    add("policy", overlay.policy.as_ref().map(quoted));
    add("congestion_control", overlay.congestion_control.as_ref().map(quoted));
    add("single_path", Some(overlay.single_path.to_string()));
    add("loss_interval", overlay.t_loss.map(|t| format!("\"{}ns\"", t.as_nanos())));
    add("loss_probes", overlay.n_loss.map(|n| n.to_string()));
    add("hold_down", overlay.t_ch.map(|t| format!("\"{}ns\"", t.as_nanos())));
    add("capacity", overlay.capacity.map(|c| format!("\"{}b/s\"", c.as_bps())));
    add("probe_share", overlay.probe_share.map(|s| format!("{s:?}")));
    for (other, of) in members.iter().enumerate().filter(|(other, _)| *other != place) {
        let linked = overlay.is_linked(overlay.members[place], overlay.members[other]);
        let _ = writeln!(text, "\n{}direct = {linked}", of.lines);
    }
    fs::write(file, text).map_err(LabError::file(file))
}

/// Whether a member has a route to all others.
fn is_ready(member: &Member, count: usize, program: &Path) -> bool {
    let mut command = Command::new(program);
    command.args(["overlay", "routes", "--json", "--config"]).arg(&member.settings);
    let answer = run(command).ok().filter(|o| o.status.success());
    let parse = |o: Output| serde_json::from_slice::<serde_json::Value>(&o.stdout).map_err(io::Error::other).ok();
    let Some(answer) = answer.and_then(parse) else { return false };
    let routes = answer.get("routes").and_then(|r| r.as_array()).map_or(&[][..], Vec::as_slice);
    let reached = routes.iter().filter(|r| r.get("routes").and_then(|w| w.as_array()).is_some_and(|w| !w.is_empty()));
    reached.count() + 1 == count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stall_within_the_run_is_reported() {
        let stall = |utc_s: f64, for_s: f64| format!("{{\"event\":\"stalled\",\"for_s\":{for_s},\"utc_s\":{utc_s}}}\n");
        let events = [stall(99.0, 3.0), stall(101.0, 0.3), stall(108.0, 0.8), stall(109.0, 0.4), stall(111.0, 2.0)];
        assert_eq!(longest_stall(&read(&events.concat()), 100.0, 110.0), Some(0.8));
        assert_eq!(longest_stall(&read(&events[0]), 100.0, 110.0), None);
    }

    #[test]
    fn decisions_have_names_and_times_since_the_start_of_the_run() {
        let events = r#"{"event":"session","member":7,"name":"north","again":false,"utc_s":99.0}
{"event":"session","member":9,"name":"east","again":false,"utc_s":99.5}
{"event":"route","utc_s":100.5,"destination":9,"rank":0,"from":null,"to":{"relays":[7],"destination":9},"reason":"initial","inputs":{}}
{"event":"route","utc_s":101,"destination":9,"rank":1,"from":null,"to":{"relays":[],"destination":9},"reason":"initial","inputs":{}}
{"event":"route","utc_s":103,"destination":9,"rank":0,"from":{"relays":[7]},"to":{"relays":[]},"reason":"better","inputs":{}}
{"event":"left","member":7,"name":"north","utc_s":104}
cut"#;
        let read_events: Vec<_> = decisions_of("west", read(events), 100.0)
            .into_iter()
            .map(|c| (c.at_s, c.destination, c.from, c.to, c.reason))
            .collect();
        let text = |t: &str| Some(t.to_owned());
        assert_eq!(
            read_events,
            [
                (0.5, "east".to_owned(), None, text("via north"), "initial".to_owned()),
                (3.0, "east".to_owned(), text("via north"), text("direct"), "better".to_owned()),
            ]
        );
    }
}
