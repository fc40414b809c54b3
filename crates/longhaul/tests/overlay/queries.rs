//! Replies of two running nodes, as text.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::{Lan, or_skip};

use crate::common::text;
use crate::setup::{EAST, Members, overlay, status};

#[test]
fn two_nodes_report_their_routes_events_and_flows() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let members = Members::start(&lan, "");
    let query = |question: &str, name: &str| {
        let output = overlay(members.directory.path(), &[question, "--config", &format!("{name}.toml")]);
        assert_eq!(output.status.code(), Some(0), "{question}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    for (name, other, address) in [("west", "east", EAST), ("east", "west", "10.77.0.1")] {
        let routes = query("routes", name);
        let fields: Vec<&str> = routes.split_whitespace().collect();
        assert_eq!(routes.lines().count(), 1, "one peer: {routes}");
        assert_eq!(fields[..5], [other, &*format!("{address}/32"), "direct", "100", "%"], "{routes}");
        let predicted = routes.trim_end();
        assert!(predicted.ends_with("b/s)") || predicted.ends_with("(rate unknown)"), "{routes}");

        let output = overlay(members.directory.path(), &["events", "--json", "--config", &format!("{name}.toml")]);
        let output = text(&output.stdout);
        let events: Vec<Value> = output.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let first =
            |kind: &str| events.iter().find(|e| e["event"] == kind).unwrap_or_else(|| panic!("{kind}: {output}"));
        assert_eq!((&first("session")["name"], &first("session")["again"]), (&other.into(), &false.into()), "{output}");
        assert_eq!((&first("link")["name"], &first("link")["up"]), (&other.into(), &true.into()), "{output}");
        assert_eq!(first("route")["reason"], "initial", "{output}");
        let times: Vec<f64> = events.iter().map(|e| e["utc_s"].as_f64().unwrap()).collect();
        assert!(times.is_sorted() && times[0] > 1e9, "{output}");
    }
    // One flow from one port, sent until the node counts it.
    let socket = lan.client.run(|| UdpSocket::bind("10.77.0.1:0")).unwrap().unwrap();
    let (start, mut flows) = (Instant::now(), String::new());
    while !flows.contains("1 active flow, 0 of them elephants; 0 not tracked (table full)") {
        assert!(start.elapsed() < Duration::from_secs(20), "{flows}");
        // The send may fail with the port-unreachable error of the previous datagram.
        let _ = socket.send_to(b"one flow", (EAST, 9));
        std::thread::sleep(Duration::from_millis(50));
        flows = query("flows", "west");
    }
    let lines: Vec<Vec<&str>> = flows.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["peer", "flows", "elephants", "throughput", "rtt", "loss", "path"], "{flows}");
    assert_eq!((&lines[1][..3], lines[1].last()), (&["east", "1", "0"][..], Some(&"direct")), "{flows}");
    assert_eq!(lines.len(), 3, "{flows}");
}

#[test]
fn a_connection_is_an_elephant_until_it_ends() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let members = Members::start(&lan, "");
    let timeout = Duration::from_secs(10);
    let counts = |elephants: u64| {
        let start = Instant::now();
        while status(members.directory.path(), "west")["flows"]["elephants"].as_u64() != Some(elephants) {
            assert!(
                start.elapsed() < timeout,
                "not {elephants}: {:#}",
                status(members.directory.path(), "west")["flows"]
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let listener = lan.server.run(|| TcpListener::bind((EAST, 0))).unwrap().unwrap();
    let to = listener.local_addr().unwrap();
    let mut sending = lan.client.run(|| TcpStream::connect_timeout(&to, timeout)).unwrap().unwrap();
    let (mut arriving, _) = listener.accept().unwrap();
    sending.set_write_timeout(Some(timeout)).unwrap();
    arriving.set_read_timeout(Some(timeout)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| arriving.read_to_end(&mut Vec::new()).unwrap());
        sending.write_all(&vec![7; 4_000_000]).unwrap();
        counts(1);
        // Without its FIN, the node would count the connection for another 30 s.
        drop(sending);
        counts(0);
    });
}
