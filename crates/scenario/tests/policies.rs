//! The policy file of `longhaul shape`: the meaning of its keys, and each error that it can have.

use std::path::Path;

use scenario::read_policy;
use shaping::{Match, Policy, QueueKind, Traffic};
use units::{Bytes, Duration, Rate};

fn read(text: &str) -> Result<Policy, String> {
    let users = |name: &str| (name == "backup").then_some(34);
    read_policy(Path::new("policy.toml"), text, None, &users).map_err(|e| e.to_string())
}

fn mbps(n: u64) -> Rate {
    Rate::from_bps(n * 1_000_000)
}

const VALID: &str = r#"device = "eth0"
[elephants]
bytes = "1MB"
above = "10Mb/s"
for = "2s"
idle = "5s"
[egress]
rate = "1Gb/s"
default = "rest"
[egress.classes.mice]
rate = "20%"
ceiling = "100%"
queue = "5ms"
match = { size = "mouse" }
[egress.classes.backup]
rate = "300Mb/s"
priority = 7
leaf = "fifo"
match = [{ user = "backup" }, { cgroup = "/system.slice/backup.service" }, { to = "192.0.2.0/24", port = [5201, "6000-6100"] }]
[egress.classes.rest]
rate = "500Mb/s"
ceiling = "1Gb/s"
[egress.classes.video]
parent = "rest"
rate = "50%"
match = { dscp = ["ef", 34], protocol = "udp" }
[egress.classes.other]
parent = "rest"
rate = "250Mb/s"
ceiling = "1Gb/s"
"#;

#[test]
fn a_file_assigns_packets_to_classes() {
    let policy = read(&VALID.replace("default = \"rest\"", "default = \"other\"")).unwrap();
    assert_eq!(policy.sizes.bytes, Some(Bytes::new(1_000_000)));
    assert_eq!(policy.sizes.above, Some((mbps(10), Duration::from_secs(2))));
    let side = policy.egress.unwrap();
    let names: Vec<&str> = side.classes.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["mice", "backup", "rest", "video", "other"], "the order of the file, parents first");
    let [mice, backup, _, video, _] = side.classes.as_slice() else { panic!("{names:?}") };
    assert_eq!((mice.rate, mice.ceiling), (mbps(200), mbps(1000)));
    assert_eq!(mice.matches, [Match { size: Some(Traffic::Mouse), ..Match::default() }]);
    assert_eq!(mice.queue.limit, Duration::from_millis(5));
    assert_eq!((backup.rate, backup.ceiling), (mbps(300), mbps(300)), "without a ceiling nothing is borrowed");
    assert_eq!((backup.priority, backup.queue.kind), (7, QueueKind::Fifo));
    assert_eq!(backup.matches[0].user, Some(34));
    assert_eq!(backup.matches[1].cgroup.as_deref(), Some("system.slice/backup.service"));
    assert_eq!(backup.matches[2].ports, [5201..=5201, 6000..=6100]);
    assert_eq!((video.parent, video.rate), (Some(2), mbps(250)));
    // RFC 3246: 101110.
    assert_eq!((video.matches[0].dscp.as_slice(), video.matches[0].protocol), ([46, 34].as_slice(), Some(17)));
    assert_eq!(side.default, 4);
}

#[test]
fn a_direction_without_classes_has_one_class() {
    let policy = read("device = \"eth0\"\n[ingress]\nrate = \"200Mb/s\"\nqueue = \"20ms\"\n").unwrap();
    let side = policy.ingress.unwrap();
    assert_eq!((side.classes.len(), side.classes[0].rate, side.default), (1, mbps(200), 0));
    assert_eq!(side.classes[0].queue.limit, Duration::from_millis(20));
    assert!(policy.egress.is_none());
}

#[test]
fn a_direction_without_classes_can_have_a_burst() {
    let policy = read("device = \"eth0\"\n[egress]\nrate = \"500kb/s\"\nburst = \"1ms\"\n").unwrap();
    assert_eq!(policy.egress.unwrap().classes[0].burst, Some(Duration::from_millis(1)));
    assert!(read("device = \"eth0\"\n[egress]\nrate = \"8b/s\"\n").is_ok(), "the minimum of the kernel");
}

#[test]
fn the_device_argument_replaces_the_device_of_the_file() {
    let text = "[egress]\nrate = \"1Gb/s\"\n";
    let policy = read_policy(Path::new("p"), text, Some("eth7"), &|_| None).unwrap();
    assert_eq!(policy.device, "eth7");
    assert!(read(text).unwrap_err().contains("device: is missing"));
}

/// Text of the valid file, its replacement, and the expected problem.
const CASES: &[(&str, &str, &str)] = &[
    (
        "default = \"rest\"",
        "default = \"rest\"",
        ":9: egress.default: class `rest` has child classes; known: mice, backup, video, other",
    ),
    (
        "default = \"rest\"",
        "default = \"mcie\"",
        ":9: egress.default: class `mcie` does not exist; did you mean `mice`?",
    ),
    (
        "rate = \"20%\"",
        "rate = \"30%\"",
        "egress: the rates of its classes sum to 1.1 Gb/s, more than the 1 Gb/s of the direction; lower them",
    ),
    (
        "rate = \"250Mb/s\"",
        "rate = \"251Mb/s\"",
        ":20: egress.classes.rest: the rates of its classes sum to 501 Mb/s, more than the 500 Mb/s of class rest",
    ),
    (
        "ceiling = \"100%\"",
        "ceiling = \"10%\"",
        ":12: egress.classes.mice.ceiling: 100 Mb/s is below the rate of 200 Mb/s",
    ),
    (
        "ceiling = \"100%\"",
        "ceiling = \"2Gb/s\"",
        ":12: egress.classes.mice.ceiling: 2 Gb/s is above the 1 Gb/s available to borrow",
    ),
    (
        "parent = \"rest\"\nrate = \"50%\"",
        "parent = \"rset\"\nrate = \"50%\"",
        "there is no class `rset`; did you mean `rest`?",
    ),
    ("[egress.classes.rest]\n", "[egress.classes.rest]\nparent = \"video\"\n", "is its own ancestor"),
    (
        "priority = 7",
        "priority = 8",
        "egress.classes.backup.priority: 8 is out of range; write a whole number from 0 to 7",
    ),
    ("user = \"backup\"", "user = \"bakcup\"", "there is no user `bakcup`"),
    ("\"192.0.2.0/24\"", "\"192.0.2.1/24\"", "has bits set beyond its prefix; write \"192.0.2.0/24\""),
    ("\"192.0.2.0/24\"", "\"192.0.2.0/24\", from = \"2001:db8::1\"", "`from` and `to` have different IP versions"),
    ("\"6000-6100\"", "\"6100-6000\"", "`6100-6000` is not a port or a range of ports"),
    ("\"6000-6100\"", "65536", "`65536` is not a port or a range of ports"),
    ("\"ef\"", "\"eff\"", "`eff` is not a code point; did you mean `ef`?"),
    ("protocol = \"udp\"", "protocol = \"icmp\", port = 5", "has ports, but the protocol has none"),
    ("\"/system.slice/backup.service\"", "\"../x\"", "`../x` is not a path of a cgroup"),
    ("for = \"2s\"\n", "", "elephants: has only `above`; write both"),
    ("leaf = \"fifo\"", "leaf = \"red\"", "`red` is not a known value"),
    ("queue = \"5ms\"", "queue = \"5m\"", "egress.classes.mice.queue: 300 s is too long"),
    ("[egress]\n", "[egress]\nqueue = \"5ms\"\n", "egress: has both `queue` and classes; move it to the classes"),
    ("[egress]\n", "[egress]\nburst = \"5ms\"\n", "egress: has both `burst` and classes; move it to the classes"),
    ("rate = \"1Gb/s\"", "rate = \"7b/s\"", "egress.rate: is below the minimum of 8 b/s"),
    ("device = \"eth0\"", "device = \"a/b\"", ":1: device: `a/b` is not a valid device name"),
    ("[egress.classes.rest]\n", "[egress.classes.rest]\nmatch = {}\n", "only a class without children has a queue"),
    (
        "[egress.classes.rest]\n",
        "[egress.classes.rest]\nqueue = \"5ms\"\n",
        "egress.classes.rest.queue: only a class without children has a queue",
    ),
];

#[test]
fn each_problem_has_its_position_and_a_hint() {
    for (from, to, expected) in CASES {
        let text = if *from == "default = \"rest\"" {
            VALID.replace(from, to)
        } else {
            assert!(VALID.contains(from), "{from}");
            VALID.replace("default = \"rest\"", "default = \"other\"").replacen(from, to, 1)
        };
        let error = read(&text).expect_err(to);
        assert!(error.contains(expected), "`{to}` gives:\n{error}\nnot: {expected}");
    }
}

#[test]
fn the_hint_for_a_missing_default_names_a_class_without_matches() {
    let text = r#"device = "eth0"
[egress]
rate = "1Gb/s"
[egress.classes]
calls = { rate = "10%", match = { dscp = "ef" } }
bulk = { rate = "40%" }
rest = { rate = "50%" }
"#;
    let error = read(text).unwrap_err();
    assert!(error.contains("name the class for packets that match no other: default = \"bulk\""), "{error}");
}

#[test]
fn ingress_packets_cannot_be_matched_by_user() {
    let text = VALID.replace("default = \"rest\"", "default = \"other\"").replace("egress", "ingress");
    let error = read(&text).unwrap_err();
    assert!(error.contains("has `user`, which is not known of received packets"), "{error}");
    assert!(error.contains("has `cgroup`"), "{error}");
}

#[test]
fn a_node_of_an_experiment_shapes_its_links() {
    let text = r#"duration = "1s"
[nodes.a.shape.path.egress]
rate = "10Mb/s * $half"
[nodes.b]
[parameters]
half = 0.5
[links.path]
between = ["a", "b"]
"#;
    let read =
        |text: &str| scenario::read(Path::new("e.toml"), text, &scenario::Options::default(), &|_| Err(String::new()));
    let scenario = read(text).unwrap().scenarios.remove(0);
    let (_, policy) = &scenario.nodes[0].shape[0];
    assert_eq!((policy.device.as_str(), policy.egress.as_ref().unwrap().rate), ("path", mbps(5)));
    let error = read(&text.replace("shape.path", "shape.pth")).unwrap_err().to_string();
    assert!(error.contains("node `a` has no link or LAN `pth`; did you mean `path`?"), "{error}");
    let named = "[nodes.a.shape.path.egress.classes.all]\nrate = \"1Mb/s\"\nmatch = { user = \"backup\" }\n[nodes.b]";
    let error = read(&text.replace("[nodes.b]", named)).unwrap_err().to_string();
    assert!(error.contains("an experiment has no user names; write the user ID"), "{error}");
}
