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

use crate::networks::behind;
use crate::seed::waits_for;
use crate::setup::{Members, init, join, put_before, up};

const PAGE: &str = "http_listen = \"127.0.0.1:9460\"";

/// What stands in an element of the page.
fn part(dom: &str, id: &str, end: &str) -> String {
    let begin = dom.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id} in {dom}"));
    let rest = &dom[begin..];
    rest[..rest.find(end).unwrap()].to_owned()
}

/// The cells of the rows of a table's body, as text.
fn rows(dom: &str, id: &str) -> Vec<Vec<String>> {
    let table = part(dom, id, "</table>");
    let (_, body) = table.split_once("<tbody>").unwrap();
    let text = |cell: &str| cell.split_once('>').unwrap().1.split('<').next().unwrap().to_owned();
    body.split("<tr>").skip(1).map(|row| row.split("<td").skip(1).map(text).collect()).collect()
}

#[test]
fn a_browser_shows_members_links_ways_and_events() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let members = Members::start(&lan, PAGE);
    let dom = shown(&lan, members.directory.path());
    assert!(part(&dom, "summary", "</p>").contains("1 of 1 direct links up"), "{dom}");
    let map = part(&dom, "map", "</svg>");
    assert_eq!(map.matches("<circle").count(), 2, "both members: {map}");
    assert!(map.contains("class=\"link used\"") && map.contains(">east<") && map.contains(" ms, "), "{map}");
    let ways = rows(&dom, "routes");
    assert_eq!(ways.len(), 1, "{ways:?}");
    assert_eq!(ways[0][..3], ["east", "direct", "100.00 %"]);
    assert!(part(&dom, "rates", "</svg>").contains("<polyline"), "{dom}");
    let events = part(&dom, "events", "</ol>");
    for expected in ["session established with east", "link to east up", "route to east: no path -&gt; direct"] {
        assert!(events.contains(expected), "{expected}: {events}");
    }
}

/// Writes into one end, as fast as it takes, and reads at the other, until it is told to end, for two minutes at most.
fn stream(mut writes: TcpStream, mut reads: TcpStream, over: &AtomicBool) {
    let began = Instant::now();
    let goes_on = || !over.load(Ordering::Relaxed) && began.elapsed() < Duration::from_secs(120);
    std::thread::scope(|scope| {
        scope.spawn(|| while reads.read(&mut [0; 65536]).is_ok_and(|n| n > 0) {});
        while goes_on() && writes.write_all(&[7; 25_000]).is_ok() {}
        drop(writes);
    });
}

#[test]
fn a_browser_shows_what_a_way_over_a_relay_carries() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let host = behind(&lan);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let [west, north, east] =
        [("west", "10.77.0.1"), ("north", "10.77.0.2"), ("east", "10.77.0.3")].map(|(n, a)| init(path, n, a));
    let not_directly = |lines: &str| format!("{lines}direct = false\n");
    for (name, others) in [
        ("west", format!("{north}endpoint = \"{}\"\n{}", lan.server_ip(), not_directly(&east))),
        ("north", format!("{west}{east}")),
        ("east", format!("{north}endpoint = \"192.168.7.1\"\n{}", not_directly(&west))),
    ] {
        assert_eq!(join(path, name, &others).status.code(), Some(0), "{name}");
    }
    put_before(path, "west", PAGE);
    let running = vec![up(&lan.client, path, "west"), up(&lan.server, path, "north"), up(&host, path, "east")];
    let members = Members::of(running, directory);
    let path = members.directory.path();
    waits_for(path, ("west", "east"), |m| m["routes"][0]["relays"] == serde_json::json!(["north"]));

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
        waits_for(path, ("west", "east"), |m| m["routes"][0]["throughput_bps"].as_u64() > Some(10_000_000));
        let dom = shown(&lan, path);
        over.store(true, Ordering::Relaxed);
        dom
    });

    assert!(part(&dom, "summary", "</p>").contains("1 of 2 direct links up, 1 active flow (1 elephant)"), "{dom}");
    let ways = rows(&dom, "routes");
    let east = ways.iter().find(|row| row[0] == "east").unwrap();
    assert_eq!(east[1..3], ["via north", "100.00 %"], "{ways:?}");
    // 20 Mb/s and 4 % of headers at most; on a busy machine less.
    let carried = east[4].strip_suffix(" Mb/s").and_then(|n| n.parse::<f64>().ok());
    assert!(carried.is_some_and(|mbps| (10.0..21.0).contains(&mbps)), "{ways:?}");
    assert!(east[5].ends_with(" ms") && east[6] == "0.000 %", "{ways:?}");
    let links = rows(&dom, "links");
    assert!(links.iter().any(|row| row[0] == "north" && row[3].ends_with(" ms")), "{links:?}");
    assert!(links.iter().any(|row| row[0] == "east" && row[3] == "down"), "{links:?}");
    // West to north and north to east are in use; there is no other link.
    let map = part(&dom, "map", "</svg>");
    assert_eq!((map.matches("<circle").count(), map.matches("class=\"link used\"").count()), (3, 2), "{map}");
    assert_eq!(map.matches("<line").count(), 2, "{map}");
    assert!(part(&dom, "events", "</ol>").contains("route to east: no path -&gt; via north"), "{dom}");
}

/// The page after four seconds of the browser's time, as it stands then.
fn shown(lan: &Lan, directory: &Path) -> String {
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
    // A browser starts within seconds; this is for a machine under load.
    finish(&mut running, Duration::from_secs(120)).unwrap();
    fs::read_to_string(out).unwrap()
}
