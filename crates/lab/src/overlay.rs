//! The members of an experiment's overlay: keys and settings made for the run, a process in each node, up when all know each other.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use kernel::Keeper;
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
    let mut text: String = made.lines().filter(|l| !l.starts_with("control")).fold(String::new(), |t, l| t + l + "\n");
    let _ = writeln!(text, "control = \"{}\"", sockets.join(format!("{place}.sock")).display());
    let _ = writeln!(text, "events = \"overlay-{}.jsonl\"", member.name);
    let mut add = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(text, "{key} = {value}");
        }
    };
    let quoted = |value: &String| format!("{value:?}");
    add("policy", overlay.policy.as_ref().map(quoted));
    add("congestion_control", overlay.congestion_control.as_ref().map(quoted));
    add("single_path", Some(overlay.single_path.to_string()));
    add("t_ch", overlay.t_ch.map(|t| format!("\"{}ns\"", t.as_nanos())));
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
    let reached = routes.iter().filter(|r| r.get("ways").and_then(|w| w.as_array()).is_some_and(|w| !w.is_empty()));
    reached.count() + 1 == count
}
