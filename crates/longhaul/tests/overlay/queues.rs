//! Nodes with several queues, two threads each.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use results::{Direction, TestPlan};
use testbed::{Lan, Namespace, Served, client_options, or_skip, plan, run_test, server_options, undisturbed};

use crate::common::lab::turn;
use crate::common::{longhaul, text};
use crate::setup::{EAST, Members, answers, init, overlay, status};

/// CPU time of each thread of a process whose name begins so, by the kernel's account.
fn busy(process: u32, name: &str) -> Vec<u64> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap().map(|t| t.unwrap().path());
    let named = tasks.filter(|t| fs::read_to_string(t.join("comm")).unwrap().starts_with(name));
    let nanos = |t: &Path| fs::read_to_string(t.join("schedstat")).unwrap().split(' ').next().unwrap().parse().unwrap();
    named.map(|t| nanos(&t)).collect()
}

/// TCP segments that came out of their order to this thread's network namespace, by the kernel's account.
fn out_of_order() -> u64 {
    let all = fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let mut tcp = all.lines().filter_map(|l| l.strip_prefix("TcpExt: ")).map(|l| l.split(' '));
    let (names, values) = (tcp.next().unwrap(), tcp.next().unwrap());
    let (_, segments) = names.zip(values).find(|(name, _)| *name == "TCPOFOQueue").unwrap();
    segments.parse().unwrap()
}

#[test]
fn flows_are_spread_over_threads_and_none_is_disturbed_by_it() {
    let Some(_turn) = turn() else { return };
    undisturbed(|| {
        let Some(lan) = or_skip(Lan::two_hosts()) else { return };
        let members = Members::start_with(&lan, ["queues = 3", "queues = 2"]);
        let served = Served::start(&lan.server, server_options(EAST.parse().unwrap())).unwrap();
        let before: Vec<_> = members.ids().into_iter().map(|id| busy(id, "overlay-out")).collect();
        // Some 7 Mb/s each, both ways.
        let plan = TestPlan {
            directions: vec![Direction::Up, Direction::Down],
            streams: 24,
            rate_bps: Some(7_000_000),
            ..plan(Duration::from_secs(4))
        };
        let options = client_options(EAST.parse().unwrap(), served.port(), plan);
        let outcome = run_test(&lan.client, options, Duration::from_secs(40)).unwrap();
        for direction in [Direction::Up, Direction::Down] {
            let throughput = outcome.direction(direction).throughput_bps;
            assert!(throughput > 150_000_000, "{throughput} b/s");
        }
        for host in [&lan.client, &lan.server] {
            assert_eq!(host.run(out_of_order).unwrap(), 0, "segments came out of their order");
        }
        for (n, (name, queues)) in [("west", 3), ("east", 2)].into_iter().enumerate() {
            let told = status(members.directory.path(), name);
            assert_eq!(told["queues"], queues);
            let after = busy(members.ids()[n], "overlay-out");
            let worked: Vec<u64> = after.iter().zip(&before[n]).map(|(a, b)| a - b).collect();
            println!("{name}: {worked:?} ns, {}", told["counters"]);
            assert_eq!(worked.len(), queues);
            // Of 48 flows chance gives one of three threads 16, and 3 in a hundred million times less than one.
            let least = *worked.iter().min().unwrap();
            assert!(least * 20 > worked.iter().sum::<u64>(), "{worked:?}");
            for counter in
                ["replayed", "outside_replay_window", "auth_failed", "malformed", "no_session", "no_route", "spoofed"]
            {
                assert_eq!(told["counters"][counter], 0, "{counter}");
            }
            assert_eq!(told["members"][0]["link"]["tx_loss"], 0.0, "{told}");
        }
    });
}

/// Another member, for a route to the device.
const EASTS_LINE: &str =
    r#"member = [{ key = "Xa5kakQPX/x93PawmOwy3omAcnouyUZVbAUwsTnMd5I=", subnets = ["10.77.0.2/32"] }]"#;

/// A member on its own.
struct Alone {
    child: Child,
}

impl Alone {
    fn start(host: &Namespace, directory: &Path, name: &str) -> Self {
        let mut command = longhaul();
        command.current_dir(directory).args(["overlay", "up", "--config", &format!("{name}.toml")]);
        Self { child: host.start(command.stdout(Stdio::null()).stderr(Stdio::piped())).unwrap() }
    }

    /// How many queues it has.
    fn queues(&self, directory: &Path, name: &str) -> u64 {
        answers(directory, name);
        status(directory, name)["queues"].as_u64().unwrap()
    }

    /// Ends it, unless it ends by itself; gives its status and what it said.
    fn end(self, directory: &Path, name: &str) -> (Option<i32>, String) {
        let config = format!("{name}.toml");
        // It may not listen yet.
        self.left(name, || drop(overlay(directory, &["down", "--config", &config])))
    }

    /// Waits until it has ended, and does this meanwhile.
    fn left(mut self, name: &str, meanwhile: impl Fn()) -> (Option<i32>, String) {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "{name} does not end");
            meanwhile();
        };
        let mut message = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
        (status.code(), message)
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Settings of a member on its own: these further ones in the place of those of the time before.
fn settings(directory: &Path, name: &str, address: &str, further: &str) {
    let file = directory.join(format!("{name}.toml"));
    if !file.exists() {
        init(directory, name, address);
    }
    let text = fs::read_to_string(&file).unwrap();
    let own: String = text.lines().filter(|l| !l.ends_with("#further")).map(|l| format!("{l}\n")).collect();
    let further: String = further.lines().map(|l| format!("{l} #further\n")).collect();
    fs::write(&file, further + &own).unwrap();
}

#[test]
fn a_device_is_taken_as_it_was_made() {
    let Some(host) = or_skip(Namespace::new()) else { return };
    let directory = tempfile::tempdir().unwrap();
    for (made, wanted, had) in [("", 2, 1), ("multi_queue", 2, 2), ("multi_queue", 1, 1)] {
        host.iproute(&format!("ip tuntap add lh0 mode tun {made}")).unwrap();
        settings(directory.path(), "west", "10.77.0.1", &format!("queues = {wanted}\n{EASTS_LINE}"));
        // The second time it has the address and the route that the first has left there.
        for _ in 0..2 {
            let member = Alone::start(&host, directory.path(), "west");
            assert_eq!(member.queues(directory.path(), "west"), had, "{made} {wanted}");
            let (status, message) = member.end(directory.path(), "west");
            assert_eq!(status, Some(0), "{message}");
            assert_eq!(message.contains("made for one queue"), had < wanted, "{message}");
        }
        host.iproute(&format!("ip tuntap del lh0 mode tun {made}")).unwrap();
    }
}

#[test]
fn two_nodes_cannot_share_a_device_or_a_port() {
    let Some(host) = or_skip(Namespace::new()) else { return };
    let directory = tempfile::tempdir().unwrap();
    host.iproute("ip link set lo up").unwrap();
    // A device that several processes could have, and a port that several sockets share.
    settings(directory.path(), "west", "10.77.0.1", "queues = 2\nlisten = \"127.0.0.1:5460\"");
    let first = Alone::start(&host, directory.path(), "west");
    assert_eq!(first.queues(directory.path(), "west"), 2);
    for (further, refusal) in [
        ("queues = 2\nlisten = \"127.0.0.1:5461\"", "another process has the tunnel device lh0"),
        ("queues = 1\nlisten = \"127.0.0.1:5461\"", "another process has the tunnel device lh0"),
        ("queues = 2\ndevice = \"lh1\"\nlisten = \"127.0.0.1:5460\"", "another process receives at 127.0.0.1:5460"),
        ("device = \"lh1\"\nlisten = \"192.0.2.1:5460\"", "this host has no address 192.0.2.1"),
        ("queues = 1\ndevice = \"lh1\"\nlisten = \"127.0.0.1:5460\"", "another process receives at 127.0.0.1:5460"),
    ] {
        settings(directory.path(), "east", "10.77.0.2", further);
        let (status, message) = Alone::start(&host, directory.path(), "east").end(directory.path(), "east");
        // It is not an error of the configuration, so the unit restarts the node.
        assert!(status == Some(1) && message.contains(refusal), "{further}: {status:?} {message}");
    }
    let again = Alone::start(&host, directory.path(), "west");
    let (status, message) = again.left("west", || std::thread::sleep(Duration::from_millis(20)));
    assert!(status == Some(1) && message.contains("a member runs with these settings already"), "{status:?} {message}");
    assert_eq!(first.queues(directory.path(), "west"), 2, "and the first goes on");
    assert_eq!(first.end(directory.path(), "west").0, Some(0));
}

#[test]
fn a_node_whose_device_is_deleted_exits_for_a_restart() {
    let Some(host) = or_skip(Namespace::new()) else { return };
    let directory = tempfile::tempdir().unwrap();
    settings(directory.path(), "west", "10.77.0.1", EASTS_LINE);
    let member = Alone::start(&host, directory.path(), "west");
    member.queues(directory.path(), "west");
    host.iproute("ip link del lh0").unwrap();
    let (status, message) = member.left("west", || std::thread::sleep(Duration::from_millis(20)));
    // With status 2, an error of the configuration, the unit would not restart the node.
    assert!(status == Some(1) && message.contains("lh0"), "{status:?} {message}");
}

#[test]
fn more_queues_than_there_can_be_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for queues in ["0", "17", "-1", "\"two\""] {
        settings(directory.path(), "west", "10.77.0.1", &format!("queues = {queues}"));
        let refused = overlay(directory.path(), &["up", "--dry-run", "--config", "west.toml"]);
        assert_eq!(refused.status.code(), Some(2), "{queues}");
        assert!(text(&refused.stderr).contains("queues"), "{}", text(&refused.stderr));
    }
}
