//! The status page in a browser.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kernel::{ConnectOptions, DataOptions};
use testbed::{Lan, finish, or_skip};
use units::Rate;

use crate::networks::host_behind;
use crate::seed::wait_for_peer;
use crate::setup::{Members, init, join, put_before, up};

const PAGE: &str = "http_listen = \"127.0.0.1:9460\"";

/// Returns an element of the page, from its id up to `end`.
fn element(dom: &str, id: &str, end: &str) -> String {
    let start = dom.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id} in {dom}"));
    let rest = &dom[start..];
    rest[..rest.find(end).unwrap()].to_owned()
}

/// Returns the cells of the rows of a table's body, as text.
fn rows(dom: &str, id: &str) -> Vec<Vec<String>> {
    let table = element(dom, id, "</table>");
    let (_, body) = table.split_once("<tbody>").unwrap();
    let text = |cell: &str| cell.split_once('>').unwrap().1.split('<').next().unwrap().to_owned();
    body.split("<tr>").skip(1).map(|row| row.split("<td").skip(1).map(text).collect()).collect()
}

#[test]
fn the_page_shows_members_links_routes_and_events() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let members = Members::start(&lan, PAGE);
    let dom = load_page(&lan, members.directory.path());
    assert!(element(&dom, "summary", "</p>").contains("1 of 1 direct links up"), "{dom}");
    let map = element(&dom, "map", "</svg>");
    assert_eq!(map.matches("<circle").count(), 2, "the map has both members: {map}");
    assert!(map.contains("class=\"link used\"") && map.contains(">east<") && map.contains(" ms, "), "{map}");
    let routes = rows(&dom, "routes");
    assert_eq!(routes.len(), 1, "{routes:?}");
    assert_eq!(routes[0][..3], ["east", "direct", "100.00 %"]);
    assert!(element(&dom, "rates", "</svg>").contains("<polyline"), "{dom}");
    let events = element(&dom, "events", "</ol>");
    for expected in ["session established with east", "link to east up", "route to east: no path -&gt; direct"] {
        assert!(events.contains(expected), "{expected}: {events}");
    }
}

/// Sends data from one socket to the other until `over` is set, for at most two minutes.
fn stream(mut writes: TcpStream, mut reads: TcpStream, over: &AtomicBool) {
    let start_time = Instant::now();
    let is_running = || !over.load(Ordering::Relaxed) && start_time.elapsed() < Duration::from_secs(120);
    std::thread::scope(|scope| {
        scope.spawn(|| while reads.read(&mut [0; 65536]).is_ok_and(|n| n > 0) {});
        while is_running() && writes.write_all(&[7; 25_000]).is_ok() {}
        drop(writes);
    });
}

#[test]
fn the_page_shows_the_throughput_of_a_route_over_a_relay() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let host = host_behind(&lan);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let [west, north, east] =
        [("west", "10.77.0.1"), ("north", "10.77.0.2"), ("east", "10.77.0.3")].map(|(n, a)| init(path, n, a));
    let without_direct = |lines: &str| format!("{lines}direct = false\n");
    for (name, others) in [
        ("west", format!("{north}endpoint = \"{}\"\n{}", lan.server_ip(), without_direct(&east))),
        ("north", format!("{west}{east}")),
        ("east", format!("{north}endpoint = \"192.168.7.1\"\n{}", without_direct(&west))),
    ] {
        assert_eq!(join(path, name, &others).status.code(), Some(0), "{name}");
    }
    put_before(path, "west", PAGE);
    let running = vec![up(&lan.client, path, "west"), up(&lan.server, path, "north"), up(&host, path, "east")];
    let members = Members::of(running, directory);
    let path = members.directory.path();
    wait_for_peer(path, ("west", "east"), |m| m["routes"][0]["relays"] == serde_json::json!(["north"]));

    let listener = host.run(|| TcpListener::bind("10.77.0.3:0")).unwrap().unwrap();
    let to = ConnectOptions { target: listener.local_addr().unwrap(), bind: None, timeout: Duration::from_secs(10) };
    let cubic = Some("cubic".to_owned());
    let paced =
        DataOptions { congestion_control: cubic, pacing: Some(Rate::from_bps(20_000_000)), ..DataOptions::default() };
    let writes = lan.client.run(|| kernel::connect(&to, &paced)).unwrap().unwrap();
    let (reads, _) = listener.accept().unwrap();
    writes.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
    reads.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let over = AtomicBool::new(false);
    let dom = std::thread::scope(|scope| {
        scope.spawn(|| stream(writes, reads, &over));
        wait_for_peer(path, ("west", "east"), |m| m["routes"][0]["throughput_bps"].as_u64() > Some(10_000_000));
        let dom = load_page(&lan, path);
        over.store(true, Ordering::Relaxed);
        dom
    });

    assert!(element(&dom, "summary", "</p>").contains("1 of 2 direct links up, 1 active flow (1 elephant)"), "{dom}");
    let routes = rows(&dom, "routes");
    let east = routes.iter().find(|row| row[0] == "east").unwrap();
    assert_eq!(east[1..3], ["via north", "100.00 %"], "{routes:?}");
    // At most 20 Mb/s with 4 % of headers; less on a busy machine.
    let throughput_mbps = east[4].strip_suffix(" Mb/s").and_then(|n| n.parse::<f64>().ok());
    assert!(throughput_mbps.is_some_and(|mbps| (10.0..21.0).contains(&mbps)), "{routes:?}");
    assert!(east[5].ends_with(" ms") && east[6] == "0.000 %", "{routes:?}");
    let links = rows(&dom, "links");
    assert!(links.iter().any(|row| row[0] == "north" && row[3].ends_with(" ms")), "{links:?}");
    assert!(links.iter().any(|row| row[0] == "east" && row[3] == "down"), "{links:?}");
    // The links west-north and north-east are in use; there is no other link.
    let map = element(&dom, "map", "</svg>");
    assert_eq!((map.matches("<circle").count(), map.matches("class=\"link used\"").count()), (3, 2), "{map}");
    assert_eq!(map.matches("<line").count(), 2, "{map}");
    assert!(element(&dom, "events", "</ol>").contains("route to east: no path -&gt; via north"), "{dom}");
}

/// Returns the DOM of the page after four seconds of the browser's virtual time.
fn load_page(lan: &Lan, directory: &Path) -> String {
    lan.client.iproute("ip link set lo up").unwrap();
    let out = directory.join("page.html");
    let mut browser = Command::new("chromium");
    browser
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--virtual-time-budget=4000"])
        .arg(format!("--user-data-dir={}", directory.join("browser").display()))
        .args(["--dump-dom", "http://127.0.0.1:9460/"])
        .stdin(Stdio::null())
        .stdout(File::create(&out).unwrap())
        .stderr(Stdio::null());
    let mut running = lan.client.start(&mut browser).expect("chromium, which `scripts/setup test` installs");
    // A browser starts within seconds; the timeout allows for a machine under load.
    finish(&mut running, Duration::from_secs(120)).unwrap();
    fs::read_to_string(out).unwrap()
}
