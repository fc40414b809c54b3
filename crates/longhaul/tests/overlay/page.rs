//! The status page as a browser shows it.

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::time::Duration;

use testbed::{Lan, finish, or_skip};

use crate::setup::Members;

#[test]
fn a_browser_shows_members_links_ways_and_events() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    lan.client.iproute("ip link set lo up").unwrap();
    let members = Members::start(&lan, "status = \"127.0.0.1:9460\"");
    let dom = shown(&lan, members.folder.path());
    let part = |id: &str, end: &str| {
        let begin = dom.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id} in {dom}"));
        let rest = &dom[begin..];
        rest[..rest.find(end).unwrap()].to_owned()
    };
    assert!(part("summary", "</p>").contains("1 of 1 direct links up"), "{dom}");
    let map = part("map", "</svg>");
    assert_eq!(map.matches("<circle").count(), 2, "both members: {map}");
    assert!(map.contains("class=\"link used\"") && map.contains(">east<") && map.contains(" ms, "), "{map}");
    let ways = part("ways", "</table>");
    assert!(ways.contains("<td>east</td><td>direct</td><td>100.00 %</td>"), "{ways}");
    assert!(part("rates", "</svg>").contains("<polyline"), "{dom}");
    let events = part("events", "</ol>");
    for expected in ["session with east", "link to east up", "east: no way \u{2192} direct, first"] {
        assert!(events.contains(expected), "{expected}: {events}");
    }
}

/// The page after four seconds of the browser's time, as it stands then.
fn shown(lan: &Lan, folder: &std::path::Path) -> String {
    let out = folder.join("page.html");
    let mut browser = Command::new("chromium");
    browser
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--virtual-time-budget=4000"])
        .arg(format!("--user-data-dir={}", folder.join("browser").display()))
        .args(["--dump-dom", "http://127.0.0.1:9460/"])
        .stdin(Stdio::null())
        .stdout(File::create(&out).unwrap())
        .stderr(Stdio::null());
    let mut running = lan.client.start(&mut browser).expect("chromium, which `scripts/setup test` installs");
    // A browser starts within seconds; this is for a machine under load.
    finish(&mut running, Duration::from_secs(120)).unwrap();
    fs::read_to_string(out).unwrap()
}
