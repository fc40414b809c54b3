//! Settings that a running member takes again.

use std::fs;
use std::path::Path;

use results::Direction;
use testbed::{Lan, or_skip};

use crate::common::text;
use crate::setup::{EAST, MEGABYTES_3, Members, carried, init, join, overlay, status};

/// What `overlay reload` of the first member says, and its exit status.
fn reload(folder: &Path) -> (String, Option<i32>) {
    let told = overlay(folder, &["reload", "--config", "west.toml"]);
    (text(&told.stdout) + &text(&told.stderr), told.status.code())
}

#[test]
fn a_member_comes_and_goes_while_the_others_carry_on() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let members = Members::start(&lan, "");
    let folder = members.folder.path();
    let file = folder.join("west.toml");
    let before = fs::read_to_string(&file).unwrap();
    assert_eq!(reload(folder), ("members and certificate are the same\n".to_owned(), Some(0)));

    // Of what is wrong nothing is taken, and it is said.
    fs::write(&file, format!("{before}\nx = 1\n")).unwrap();
    let (said, status_code) = reload(folder);
    assert!(said.contains("unknown field `x`") && said.contains("nothing was taken"), "{said}");
    assert_eq!(status_code, Some(2));
    fs::write(&file, &before).unwrap();

    let joined = join(folder, "west", &init(folder, "north", "10.77.0.3"));
    assert!(text(&joined.stderr).contains("overlay reload --config west.toml"), "{}", text(&joined.stderr));
    let listed = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("switch_margin = 0.4\n{listed}")).unwrap();
    assert_eq!(reload(folder), ("added: north\ndifferent, for the next start: switch_margin\n".to_owned(), Some(0)));
    let knows = |name: &str| {
        let members = status(folder, "west")["members"].clone();
        members.as_array().unwrap().iter().any(|m| m["name"] == name)
    };
    let routes = || lan.client.iproute("ip route show dev lh0").unwrap();
    assert!(knows("north") && routes().contains("10.77.0.3"), "{}", routes());

    fs::write(&file, &before).unwrap();
    assert_eq!(reload(folder), ("removed: north\n".to_owned(), Some(0)));
    assert!(!knows("north") && knows("east"));
    assert!(!routes().contains("10.77.0.3") && routes().contains(EAST), "{}", routes());
    assert_eq!(carried(&lan.client, Direction::Up, (&lan.server, EAST)), MEGABYTES_3);
    let events = text(&overlay(folder, &["events", "--json", "--config", "west.toml"]).stdout);
    assert_eq!(events.matches(r#""event":"session""#).count(), 1, "with east, of the start: {events}");
}
