//! Nodes with several queues; a queue has two threads.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use results::{Direction, TestPlan};
use testbed::{Lan, Namespace, Served, client_options, or_skip, plan, run_test, server_options, undisturbed};

use crate::common::lab::turn;
use crate::common::{longhaul, text};
use crate::setup::{EAST, Members, init, overlay, status, wait_for_start};

/// Returns the CPU time in ns of each thread of a process whose name starts with `name`
/// (`/proc/PID/task/TID/schedstat`).
fn cpu_times_ns(process: u32, name: &str) -> Vec<u64> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap().map(|t| t.unwrap().path());
    let named = tasks.filter(|t| fs::read_to_string(t.join("comm")).unwrap().starts_with(name));
    let nanos = |t: &Path| fs::read_to_string(t.join("schedstat")).unwrap().split(' ').next().unwrap().parse().unwrap();
    named.map(|t| nanos(&t)).collect()
}

/// Returns the number of TCP segments received out of order in this thread's network namespace (`TCPOFOQueue`).
fn out_of_order() -> u64 {
    let all = fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let mut tcp = all.lines().filter_map(|l| l.strip_prefix("TcpExt: ")).map(|l| l.split(' '));
    let (names, values) = (tcp.next().unwrap(), tcp.next().unwrap());
    let (_, segments) = names.zip(values).find(|(name, _)| *name == "TCPOFOQueue").unwrap();
    segments.parse().unwrap()
}

#[test]
fn flows_are_spread_over_threads_without_reordering() {
    let Some(_turn) = turn() else { return };
    undisturbed(|| {
        let Some(lan) = or_skip(Lan::two_hosts()) else { return };
        let members = Members::start_with(&lan, ["queues = 3", "queues = 2"]);
        let served = Served::start(&lan.server, server_options(EAST.parse().unwrap())).unwrap();
        let before: Vec<_> = members.ids().into_iter().map(|id| cpu_times_ns(id, "overlay-out")).collect();
        // Each stream has about 7 Mb/s in each direction.
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
            assert_eq!(host.run(out_of_order).unwrap(), 0, "segments were received out of order");
        }
        for (n, (name, queues)) in [("west", 3), ("east", 2)].into_iter().enumerate() {
            let report = status(members.directory.path(), name);
            assert_eq!(report["queues"], queues);
            let after = cpu_times_ns(members.ids()[n], "overlay-out");
            let cpu_ns: Vec<u64> = after.iter().zip(&before[n]).map(|(a, b)| a - b).collect();
            println!("{name}: {cpu_ns:?} ns, {}", report["counters"]);
            assert_eq!(cpu_ns.len(), queues);
            // A thread has 16 of the 48 flows on average; the probability that one of three has none is 3 * (2/3)^48 =
            // 1e-8.
            let min_ns = *cpu_ns.iter().min().unwrap();
            assert!(min_ns * 20 > cpu_ns.iter().sum::<u64>(), "{cpu_ns:?}");
            for counter in
                ["replayed", "outside_replay_window", "auth_failed", "malformed", "no_session", "no_route", "spoofed"]
            {
                assert_eq!(report["counters"][counter], 0, "{counter}");
            }
            assert_eq!(report["members"][0]["link"]["tx_loss"], 0.0, "{report}");
        }
    });
}

/// Entry of a peer, so that the node has a route to the device.
const EAST_ENTRY: &str =
    r#"member = [{ key = "Xa5kakQPX/x93PawmOwy3omAcnouyUZVbAUwsTnMd5I=", subnets = ["10.77.0.2/32"] }]"#;

/// Running node without a peer.
struct Node {
    child: Child,
}

impl Node {
    fn start(host: &Namespace, directory: &Path, name: &str) -> Self {
        let mut command = longhaul();
        command.current_dir(directory).args(["overlay", "up", "--config", &format!("{name}.toml")]);
        Self { child: host.start(command.stdout(Stdio::null()).stderr(Stdio::piped())).unwrap() }
    }

    /// Waits for the node's start and returns its number of queues.
    fn queues(&self, directory: &Path, name: &str) -> u64 {
        wait_for_start(directory, name);
        status(directory, name)["queues"].as_u64().unwrap()
    }

    /// Stops the node and returns its exit status and standard error.
    fn end(self, directory: &Path, name: &str) -> (Option<i32>, String) {
        let config = format!("{name}.toml");
        // The control socket may not exist yet, so the command is repeated.
        self.wait_for_end(name, || drop(overlay(directory, &["down", "--config", &config])))
    }

    /// Waits until the node has ended, calling `meanwhile` repeatedly; returns its exit status and standard error.
    fn wait_for_end(mut self, name: &str, meanwhile: impl Fn()) -> (Option<i32>, String) {
        let start_time = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start_time.elapsed() < Duration::from_secs(20), "{name} does not end");
            meanwhile();
        };
        let mut message = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
        (status.code(), message)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Creates a node's settings, or replaces the settings that the previous call added.
fn settings(directory: &Path, name: &str, address: &str, more: &str) {
    let file = directory.join(format!("{name}.toml"));
    if !file.exists() {
        init(directory, name, address);
    }
    let text = fs::read_to_string(&file).unwrap();
    let own: String = text.lines().filter(|l| !l.ends_with("#added")).map(|l| format!("{l}\n")).collect();
    let more: String = more.lines().map(|l| format!("{l} #added\n")).collect();
    fs::write(&file, more + &own).unwrap();
}

#[test]
fn an_existing_device_keeps_its_number_of_queues() {
    let Some(host) = or_skip(Namespace::new()) else { return };
    let directory = tempfile::tempdir().unwrap();
    for (flags, wanted, actual) in [("", 2, 1), ("multi_queue", 2, 2), ("multi_queue", 1, 1)] {
        host.iproute(&format!("ip tuntap add lh0 mode tun {flags}")).unwrap();
        settings(directory.path(), "west", "10.77.0.1", &format!("queues = {wanted}\n{EAST_ENTRY}"));
        // The second node finds the address and the route that the first one has left on the device.
        for _ in 0..2 {
            let member = Node::start(&host, directory.path(), "west");
            assert_eq!(member.queues(directory.path(), "west"), actual, "{flags} {wanted}");
            let (status, message) = member.end(directory.path(), "west");
            assert_eq!(status, Some(0), "{message}");
            assert_eq!(message.contains("has a single queue"), actual < wanted, "{message}");
        }
        host.iproute(&format!("ip tuntap del lh0 mode tun {flags}")).unwrap();
    }
}

#[test]
fn two_nodes_cannot_share_a_device_or_a_port() {
    let Some(host) = or_skip(Namespace::new()) else { return };
    let directory = tempfile::tempdir().unwrap();
    host.iproute("ip link set lo up").unwrap();
    // The device allows several queues, and the port is shared by several sockets.
    settings(directory.path(), "west", "10.77.0.1", "queues = 2\nlisten = \"127.0.0.1:5460\"");
    let first = Node::start(&host, directory.path(), "west");
    assert_eq!(first.queues(directory.path(), "west"), 2);
    for (more, refusal) in [
        ("queues = 2\nlisten = \"127.0.0.1:5461\"", "another process uses the tunnel device lh0"),
        ("queues = 1\nlisten = \"127.0.0.1:5461\"", "another process uses the tunnel device lh0"),
        ("queues = 2\ndevice = \"lh1\"\nlisten = \"127.0.0.1:5460\"", "another process uses UDP 127.0.0.1:5460"),
        ("device = \"lh1\"\nlisten = \"192.0.2.1:5460\"", "this host has no address 192.0.2.1"),
        ("queues = 1\ndevice = \"lh1\"\nlisten = \"127.0.0.1:5460\"", "another process uses UDP 127.0.0.1:5460"),
    ] {
        settings(directory.path(), "east", "10.77.0.2", more);
        let (status, message) = Node::start(&host, directory.path(), "east").end(directory.path(), "east");
        // It is not an error of the configuration, so the unit restarts the node.
        assert!(status == Some(1) && message.contains(refusal), "{more}: {status:?} {message}");
    }
    let second = Node::start(&host, directory.path(), "west");
    let (status, message) = second.wait_for_end("west", || std::thread::sleep(Duration::from_millis(20)));
    assert!(status == Some(1) && message.contains("a member already runs with these settings"), "{status:?} {message}");
    assert_eq!(first.queues(directory.path(), "west"), 2, "the first node continues");
    assert_eq!(first.end(directory.path(), "west").0, Some(0));
}

#[test]
fn a_deleted_device_ends_the_node_with_exit_status_1() {
    let Some(host) = or_skip(Namespace::new()) else { return };
    let directory = tempfile::tempdir().unwrap();
    settings(directory.path(), "west", "10.77.0.1", EAST_ENTRY);
    let member = Node::start(&host, directory.path(), "west");
    member.queues(directory.path(), "west");
    host.iproute("ip link del lh0").unwrap();
    let (status, message) = member.wait_for_end("west", || std::thread::sleep(Duration::from_millis(20)));
    // With status 2, an error of the configuration, the unit would not restart the node.
    assert!(status == Some(1) && message.contains("lh0"), "{status:?} {message}");
}

#[test]
fn an_invalid_number_of_queues_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    for queues in ["0", "17", "-1", "\"two\""] {
        settings(directory.path(), "west", "10.77.0.1", &format!("queues = {queues}"));
        let refused = overlay(directory.path(), &["up", "--dry-run", "--config", "west.toml"]);
        assert_eq!(refused.status.code(), Some(2), "{queues}");
        assert!(text(&refused.stderr).contains("queues"), "{}", text(&refused.stderr));
    }
}
