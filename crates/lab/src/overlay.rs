//! The members of an experiment's overlay: keys and settings made for the run, a process in each node, up when all know each other.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use kernel::Keeper;
use results::lab::WayChange;
use scenario::{Overlay, Scenario};

use crate::LabError;
use crate::programs::Running;
use crate::topology::Host;

/// What all members of a run share. The namespaces of a run reach nobody else.
const SECRET: &str = "an emulated overlay, for one run";
/// How long members may take to know each other: some handshakes, lost ones repeated, on paths of seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether they do.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The running members; ended when dropped.
pub(crate) struct Members {
    running: Vec<Running>,
    /// Control sockets, which have short names elsewhere: a socket's path has at most 107 bytes.
    sockets: tempfile::TempDir,
}

struct Member {
    name: String,
    settings: PathBuf,
    /// The lines by which the others know it.
    lines: String,
}

impl Members {
    /// Makes keys and settings in `folder`, starts all, and waits until each has a way to each other.
    pub(crate) fn start(
        overlay: &Overlay,
        scenario: &Scenario,
        keeper: &Keeper,
        hosts: &[Host],
        program: &Path,
        folder: &Path,
    ) -> Result<Self, LabError> {
        let sockets = tempfile::tempdir().map_err(LabError::system("a folder for control sockets"))?;
        let folder = folder.canonicalize().map_err(LabError::file(folder))?;
        let mut members = Vec::new();
        for (place, node) in overlay.members.iter().enumerate() {
            let node = &scenario.nodes[*node];
            members.push(introduce(program, &folder, &node.name, Overlay::address(place), node.ipv4)?);
        }
        for (place, member) in members.iter().enumerate() {
            write_settings(overlay, &members, place, member, sockets.path())?;
        }
        let mut running = Vec::new();
        for (member, node) in members.iter().zip(&overlay.members) {
            let mut command = Command::new(program);
            command.args(["overlay", "up", "--config"]).arg(&member.settings).env("NO_COLOR", "1");
            let log = folder.join(format!("overlay-{}.log", member.name));
            running.push(Running::start(keeper, &hosts[*node], command, &log)?);
        }
        let mut all = Self { running, sockets };
        all.wait(&members, program)?;
        Ok(all)
    }

    /// Until each member has a way to each other one.
    fn wait(&mut self, members: &[Member], program: &Path) -> Result<(), LabError> {
        let give_up = kernel::now() + PATIENCE;
        for (place, member) in members.iter().enumerate() {
            while !is_ready(member, members.len(), program) {
                let failure = self.running[place].failure_of_ended();
                if failure.is_some() || kernel::now() > give_up {
                    let detail = failure.unwrap_or_else(|| "it does not reach all other members".to_owned());
                    return Err(LabError::Server { node: member.name.clone(), detail: format!("overlay: {detail}") });
                }
                kernel::nap(LOOK_EVERY);
            }
        }
        Ok(())
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        self.running.iter().for_each(Running::terminate);
        self.running.iter_mut().for_each(Running::end);
        // The folder of the sockets goes with its guard.
        tracing::debug!("{} is gone", self.sockets.path().display());
    }
}

/// What a member writes about one thing that happened; only what is needed of it.
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
        from: Option<Way>,
        to: Option<Way>,
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
struct Way {
    relays: Vec<u32>,
}

/// What the members' files of events tell of a run.
pub(crate) struct Told {
    /// The best ways that they took one after another.
    pub(crate) ways: Vec<WayChange>,
    /// Those that did nothing for so long that others may have taken them to be gone, and the longest such time of each, in seconds.
    pub(crate) stalls: Vec<(String, f64)>,
}

/// Reads the files of events in `folder`; `zero`: begin of the run, seconds UTC.
pub(crate) fn told(overlay: &Overlay, scenario: &Scenario, folder: &Path, zero: f64) -> Told {
    let (mut ways, mut stalls) = (Vec::new(), Vec::new());
    for node in &overlay.members {
        let member = &scenario.nodes[*node].name;
        // A member that failed at the start has no events, and its run is no run.
        let text = fs::read_to_string(folder.join(format!("overlay-{member}.jsonl"))).unwrap_or_default();
        let events = read(&text);
        let longest = longest_stall(&events, zero, zero + scenario.duration.as_secs_f64());
        stalls.extend(longest.map(|seconds| (member.clone(), seconds)));
        ways.extend(decisions_of(member, events, zero));
    }
    ways.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    Told { ways, stalls }
}

/// A line that was cut short, as by the end of its member, is left out.
fn read(events: &str) -> Vec<Event> {
    events.lines().filter_map(|l| serde_json::from_str(l).ok()).collect()
}

/// Of those that ended in the run.
fn longest_stall(events: &[Event], begin: f64, end: f64) -> Option<f64> {
    let stalls = events.iter().filter_map(|e| match e {
        Event::Stalled { utc_s, for_s } => (begin..=end).contains(utc_s).then_some(*for_s),
        Event::Session { .. } | Event::Route { .. } | Event::Other => None,
    });
    stalls.max_by(f64::total_cmp)
}

fn decisions_of(member: &str, events: Vec<Event>, zero: f64) -> Vec<WayChange> {
    let mut names = BTreeMap::new();
    for event in &events {
        if let Event::Session { member, name } = event {
            names.insert(*member, name.clone());
        }
    }
    let name = |n: &u32| names.get(n).cloned().unwrap_or_else(|| format!("{n:08x}"));
    let way = |w: Way| match w.relays.as_slice() {
        [] => "direct".to_owned(),
        relays => format!("via {}", relays.iter().map(name).collect::<Vec<_>>().join(", ")),
    };
    let change = |event| match event {
        Event::Route { utc_s, destination, rank: 0, from, to, reason } => Some(WayChange {
            at_s: utc_s - zero,
            member: member.to_owned(),
            destination: name(&destination),
            from: from.map(way),
            to: to.map(way),
            reason,
        }),
        Event::Route { .. } | Event::Session { .. } | Event::Stalled { .. } | Event::Other => None,
    };
    events.into_iter().filter_map(change).collect()
}

/// Lets a member make its key.
fn introduce(
    program: &Path,
    folder: &Path,
    name: &str,
    address: std::net::Ipv4Addr,
    endpoint: std::net::Ipv4Addr,
) -> Result<Member, LabError> {
    let settings = folder.join(format!("{name}.toml"));
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
    command.output().map_err(LabError::system("running longhaul overlay"))
}

/// Adds what the experiment says, and the other members.
fn write_settings(
    overlay: &Overlay,
    members: &[Member],
    place: usize,
    member: &Member,
    sockets: &Path,
) -> Result<(), LabError> {
    let file = &member.settings;
    let made = fs::read_to_string(file).map_err(LabError::file(file))?;
    // Both are the lab's to say.
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

/// Whether a member has a way to all others.
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
    fn only_a_stall_within_the_run_speaks_against_it() {
        let stall = |utc_s: f64, for_s: f64| format!("{{\"event\":\"stalled\",\"for_s\":{for_s},\"utc_s\":{utc_s}}}\n");
        let events = [stall(99.0, 3.0), stall(101.0, 0.3), stall(108.0, 0.8), stall(109.0, 0.4), stall(111.0, 2.0)];
        assert_eq!(longest_stall(&read(&events.concat()), 100.0, 110.0), Some(0.8));
        assert_eq!(longest_stall(&read(&events[0]), 100.0, 110.0), None);
    }

    #[test]
    fn decisions_are_told_by_names_and_from_the_begin_of_the_run() {
        let events = r#"{"event":"session","member":7,"name":"north","again":false,"utc_s":99.0}
{"event":"session","member":9,"name":"east","again":false,"utc_s":99.5}
{"event":"route","utc_s":100.5,"destination":9,"rank":0,"from":null,"to":{"relays":[7],"destination":9},"reason":"initial","inputs":{}}
{"event":"route","utc_s":101,"destination":9,"rank":1,"from":null,"to":{"relays":[],"destination":9},"reason":"initial","inputs":{}}
{"event":"route","utc_s":103,"destination":9,"rank":0,"from":{"relays":[7]},"to":{"relays":[]},"reason":"better","inputs":{}}
{"event":"left","member":7,"name":"north","utc_s":104}
cut"#;
        let told: Vec<_> = decisions_of("west", read(events), 100.0)
            .into_iter()
            .map(|c| (c.at_s, c.destination, c.from, c.to, c.reason))
            .collect();
        let text = |t: &str| Some(t.to_owned());
        assert_eq!(
            told,
            [
                (0.5, "east".to_owned(), None, text("via north"), "initial".to_owned()),
                (3.0, "east".to_owned(), text("via north"), text("direct"), "better".to_owned()),
            ]
        );
    }
}
