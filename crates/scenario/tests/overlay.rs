//! `[overlay]`: members, links between them, and rejected values.

mod common;

use std::time::Duration;

use common::{problems, read};
use scenario::{Options, Overlay};
use units::Rate;

/// A line of four nodes.
const LINE: &str = r#"
nodes = ["a", "b", "c", "d"]
links.ab = { between = ["a", "b"] }
links.bc = { between = ["b", "c"] }
links.cd = { between = ["c", "d"] }
[flows.f]
from = "a"
to = "c"
duration = "5s"
"#;

#[test]
fn members_have_addresses_by_their_index_and_links_as_listed() {
    let text = format!(
        "{LINE}overlay = true\n[overlay]\nmembers = [\"a\", \"c\", \"d\"]\nlinks = [[\"a\", \"c\"], [\"d\", \"c\"]]\n\
         policy = \"safire-2008\"\nsingle_path = true\nt_ch = \"30s\"\nt_loss = \"20s\"\nn_loss = 50\ncapacity = \"45Mb/s\"\nprobe_share = 0.02\n"
    );
    let scenario = read(&text);
    let overlay = scenario.overlay.unwrap();
    assert!(scenario.flows[0].overlay);
    assert_eq!(overlay.members, [0, 2, 3]);
    let address = |node| overlay.address_of(node).map(|a| a.to_string());
    assert_eq!([0, 1, 2].map(address), [Some("100.64.0.1".to_owned()), None, Some("100.64.0.2".to_owned())]);
    assert!(
        overlay.is_linked(0, 2) && overlay.is_linked(2, 3) && !overlay.is_linked(0, 3),
        "both directions, and no other pairs"
    );
    assert_eq!((overlay.policy.as_deref(), overlay.t_ch), (Some("safire-2008"), Some(Duration::from_secs(30))));
    assert_eq!((overlay.t_loss, overlay.n_loss), (Some(Duration::from_secs(20)), Some(50)));
    assert_eq!(overlay.congestion_control, None);
    assert_eq!((overlay.capacity, overlay.probe_share), (Some(Rate::from_bps(45_000_000)), Some(0.02)));
}

#[test]
fn without_a_list_all_members_are_linked_and_without_a_table_there_is_no_overlay() {
    let overlay = read(&format!("{LINE}[overlay]\nmembers = [\"a\", \"d\"]\n")).overlay.unwrap();
    // Predictions assume the congestion control of the flows, not that of this machine.
    let cubic = Some("cubic".to_owned());
    assert_eq!(overlay, Overlay { members: vec![0, 3], congestion_control: cubic, ..Overlay::default() });
    assert!(overlay.is_linked(0, 3));
    assert_eq!(read(LINE).overlay, None);
}

#[test]
fn the_settings_have_plain_names_with_every_policy() {
    for policy in ["default", "safire-2008"] {
        let settings = "hold_down = \"30s\"\nloss_interval = \"20s\"\nloss_probes = 50\n";
        let text = format!("{LINE}[overlay]\nmembers = [\"a\", \"d\"]\npolicy = \"{policy}\"\n{settings}");
        let overlay = read(&text).overlay.unwrap();
        let expected = (Some(Duration::from_secs(30)), Some(Duration::from_secs(20)), Some(50));
        assert_eq!((overlay.t_ch, overlay.t_loss, overlay.n_loss), expected, "{policy}");
    }
}

#[test]
fn invalid_values_are_rejected_with_their_position() {
    let table = |rest: &str| format!("{LINE}[overlay]\n{rest}");
    for (text, expected) in [
        (table(""), "overlay.members"),
        (table("members = [\"a\"]\n"), "needs between 2 and 64 members"),
        (table("members = [\"a\", \"a\"]\n"), "is a member already"),
        (table("members = [\"a\", \"x\"]\n"), "overlay.members.1"),
        (table("members = [\"a\", \"c\"]\nlinks = [[\"a\", \"b\"]]\n"), "names a node that is not a member"),
        (table("members = [\"a\", \"c\"]\nlinks = [[\"a\"]]\n"), "is not a pair of members"),
        (table("members = [\"a\", \"c\"]\npolicy = \"fast\"\n"), "overlay.policy"),
        (table("members = [\"a\", \"c\"]\nprobe_share = 2\n"), "overlay.probe_share"),
        (
            table("members = [\"a\", \"c\"]\nt_ch = \"3s\"\n"),
            "is a symbol of the policy safire-2008; write `hold_down`",
        ),
        (
            table("members = [\"a\", \"c\"]\npolicy = \"safire-2008\"\nn_loss = 5\nloss_probes = 5\n"),
            "overlay.n_loss: is the same setting as `loss_probes`",
        ),
        (table("members = [\"a\", \"c\"]\ncolour = \"red\"\n"), "overlay.colour"),
        (format!("{LINE}overlay = true\n"), "uses an overlay that its nodes do not belong to"),
        (
            format!("{LINE}overlay = true\n[overlay]\nmembers = [\"a\", \"d\"]\n"),
            "uses an overlay that its nodes do not belong to",
        ),
    ] {
        let found = problems(&text, &Options::default());
        assert!(found.contains(expected), "{expected}: {found}");
    }
}
