//! Keys, configurations and commands: created files, rejected input, no partial files.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use testbed::{Lan, Namespace, or_skip};

use crate::common::{longhaul, text};
use crate::setup::{Members, init, init_with, join, overlay, overlay_with, put_before, wait_for_start};

/// Public keys of arbitrary nodes.
const EAST_KEY: &str = "Xa5kakQPX/x93PawmOwy3omAcnouyUZVbAUwsTnMd5I=";
const NORTH_KEY: &str = "/4ROrEnncvRztHXkHMSN+AtVimZBzONpheeg8DOA3Fc=";
/// User and group without privileges .
const UNPRIVILEGED_ID: u32 = 65_534;

#[test]
fn init_and_peer_add_configure_two_nodes() {
    let directory = tempfile::tempdir().unwrap();
    let (west, east) = (init(directory.path(), "west", "10.77.0.1"), init(directory.path(), "east", "10.77.0.2"));
    for (name, lines) in [("west", &east), ("east", &west)] {
        let joined = join(directory.path(), name, lines);
        assert_eq!(joined.status.code(), Some(0), "{}", text(&joined.stderr));
    }
    let plan = overlay(directory.path(), &["up", "--dry-run", "--config", "west.toml"]);
    let plan = text(&plan.stdout);
    assert!(
        plan.contains("lh0 with 10.77.0.1, MTU 1356") && plan.contains("east connects to this member; 10.77.0.2/32"),
        "{plan}"
    );
    // Only the owner may read the key and the secret.
    for file in ["west.toml", "west.key"] {
        let mode = std::fs::metadata(directory.path().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{file}");
    }
    let keys: Vec<&str> =
        [&west, &east].iter().map(|l| l.split("key = ").nth(1).unwrap().lines().next().unwrap()).collect();
    assert_ne!(keys[0], keys[1]);
}

/// Returns the member list that the guide shows.
fn list_of_the_guide() -> &'static str {
    let guide = include_str!("../../../../docs/guide/overlay.md");
    let list = guide.split("```toml\n").find(|block| block.starts_with("member = [")).unwrap();
    list.split("```").next().unwrap()
}

#[test]
fn a_member_list_of_three_lines_is_enough_to_start() {
    let directory = tempfile::tempdir().unwrap();
    init(directory.path(), "west", "10.77.0.1");
    let file = directory.path().join("west.toml");
    let list = list_of_the_guide();
    let members: Vec<&str> = list.lines().filter(|l| l.trim().starts_with('{')).collect();
    assert_eq!(members.len(), 3, "{list}");
    std::fs::write(&file, format!("{}{list}", std::fs::read_to_string(&file).unwrap())).unwrap();
    let plan = overlay(directory.path(), &["up", "--dry-run", "--config", "west.toml"]);
    let plan = text(&plan.stdout);
    for (name, last) in [("east", 2), ("north", 3), ("south", 4)] {
        let message =
            format!("{name} is contacted at 192.0.2.{last}:5460; 10.77.0.{last}/32 are routed to the device\n");
        assert!(plan.contains(&message), "{message} in {plan}");
    }
}

#[test]
fn peer_add_extends_an_existing_list() {
    let directory = tempfile::tempdir().unwrap();
    init(directory.path(), "west", "10.77.0.1");
    let lines = init(directory.path(), "late", "10.77.0.9") + "endpoint = \"192.0.2.9\"\ndirect = false\n";
    let file = directory.path().join("west.toml");
    let bare = std::fs::read_to_string(&file).unwrap();
    let list = list_of_the_guide();
    let no_comma = list.replace("},\n]", "} # the last\n]");
    assert_ne!(no_comma, list);
    let table = "\n[offload]\nudp_gso = false\n";
    for (list, table, members) in [
        (list, "", 4),
        (list, table, 4),
        (&*no_comma, table, 4),
        ("member = []\n", table, 1),
        ("member = [ # empty\n]\n", "", 1),
        ("", table, 1),
    ] {
        let before = format!("{bare}{list}{table}");
        std::fs::write(&file, &before).unwrap();
        let joined = join(directory.path(), "west", &lines);
        assert_eq!(joined.status.code(), Some(0), "{before}{}", text(&joined.stderr));
        let plan = text(&overlay(directory.path(), &["up", "--dry-run", "--config", "west.toml"]).stdout);
        assert!(plan.contains("late is contacted at 192.0.2.9:5460; 10.77.0.9/32"), "{before}{plan}");
        assert_eq!(plan.matches(" to the device\n").count(), members, "{before}{plan}");
        let after = std::fs::read_to_string(&file).unwrap();
        assert!(before.split_whitespace().all(|token| after.contains(token.trim_end_matches(']'))), "{after}");
        // A second `peer add` is rejected, and the entry stays.
        let second = join(directory.path(), "west", &lines);
        assert_eq!(second.status.code(), Some(2));
        let message = text(&second.stderr);
        assert!(message.contains("west.toml already lists the peer late as late; edit that entry"), "{message}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), after);
    }
    // A file with both forms of the list is invalid, and the error names it.
    let both = format!("{bare}{list}\n{lines}");
    std::fs::write(&file, &both).unwrap();
    let refused = join(directory.path(), "west", &lines);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("cannot add to west.toml: the settings: "), "{}", text(&refused.stderr));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), both);
}

#[test]
fn a_subnet_belongs_to_one_node_only() {
    let directory = tempfile::tempdir().unwrap();
    let made = |name: &str, networks: &[&str]| {
        let (file, secret) = (format!("{name}.toml"), "of this test alone");
        let mut arguments = vec!["init", "--config", &file, "--address", "10.77.0.1", "--secret", secret];
        networks.iter().for_each(|n| arguments.extend(["--subnet", n]));
        overlay(directory.path(), &arguments)
    };
    let west = made("west", &["10.1.0.0/16", "2001:db8:1::/48"]);
    let lines = text(&west.stdout);
    assert!(lines.contains(r#"subnets = ["10.77.0.1/32", "10.1.0.0/16", "2001:db8:1::/48"]"#), "{lines}");
    let plan = overlay(directory.path(), &["up", "--dry-run", "--config", "west.toml"]);
    assert!(text(&plan.stdout).contains("serves 10.1.0.0/16, 2001:db8:1::/48"), "{}", text(&plan.stdout));
    // An entry with the same key or a conflicting address is rejected.
    let thief = |networks: &str| {
        let other = overlay(directory.path(), &["init", "--config", "thief.toml", "--address", "10.77.0.9"]);
        let key = text(&other.stdout).lines().find(|l| l.starts_with("key")).unwrap().to_owned();
        for file in ["thief.toml", "thief.key"] {
            std::fs::remove_file(directory.path().join(file)).unwrap();
        }
        join(directory.path(), "west", &format!("[[member]]\nname = \"thief\"\n{key}\nsubnets = [\"{networks}\"]\n"))
    };
    for network in ["10.1.0.0/16", "10.77.0.1/32"] {
        let refused = thief(network);
        assert_eq!(refused.status.code(), Some(2), "{network}");
        let message = text(&refused.stderr);
        assert!(message.contains(&format!("{network} belongs to both this member and thief")), "{message}");
    }
    // Another node may serve a part of the subnet, by longest-prefix match.
    assert_eq!(thief("10.1.2.0/24").status.code(), Some(0));
    assert_eq!(made("east", &["10.1.0.0"]).status.code(), Some(2), "10.1.0.0 has no prefix length");
}

#[test]
fn a_node_rejects_its_own_entry_with_other_subnets() {
    let directory = tempfile::tempdir().unwrap();
    let made = overlay(directory.path(), &["init", "--config", "west.toml", "--address", "10.77.0.1"]);
    let key = text(&made.stdout).lines().find(|l| l.starts_with("key")).unwrap().to_owned();
    let file = directory.path().join("west.toml");
    let alone = std::fs::read_to_string(&file).unwrap();
    for (subnets, refused) in
        [("\"10.77.0.1/32\"", false), ("\"10.77.0.9/32\"", true), ("\"10.77.0.1/32\", \"10.1.0.0/16\"", true)]
    {
        let own = format!("[[member]]\nname = \"west\"\n{key}\nsubnets = [{subnets}]\n");
        std::fs::write(&file, format!("{alone}\n{own}")).unwrap();
        let plan = overlay(directory.path(), &["up", "--dry-run", "--config", "west.toml"]);
        let message = text(&plan.stderr);
        assert_eq!(plan.status.code(), Some(if refused { 2 } else { 0 }), "{subnets}: {message}");
        assert_eq!(message.contains("the entry of this member (west) has the subnets"), refused, "{message}");
    }
}

#[test]
fn existing_files_are_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    init(directory.path(), "west", "10.77.0.1");
    let before = std::fs::read(directory.path().join("west.key")).unwrap();
    let second = overlay(directory.path(), &["init", "--config", "west.toml", "--address", "10.77.0.9"]);
    assert_eq!(second.status.code(), Some(2));
    assert!(text(&second.stderr).contains("already exists"), "{}", text(&second.stderr));
    assert_eq!(std::fs::read(directory.path().join("west.key")).unwrap(), before);
}

#[test]
fn invalid_options_of_init_are_rejected_and_leave_no_files() {
    let directory = tempfile::tempdir().unwrap();
    let init = |secret: &str| {
        overlay(directory.path(), &["init", "--config", "west.toml", "--address", "10.77.0.1", "--secret", secret])
    };
    let refused = init("too short");
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("fewer than 16 characters"), "{}", text(&refused.stderr));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    let init_at = |endpoint: &str| {
        overlay(directory.path(), &["init", "--config", "west.toml", "--address", "10.77.0.1", "--endpoint", endpoint])
    };
    for wrong in ["http://west.example.net", "192.0.2.300", "west.example.net:port"] {
        let refused = init_at(wrong);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(&format!("`{wrong}`")), "{}", text(&refused.stderr));
    }
    let long = format!("{}.toml", "a".repeat(100));
    for (config, message) in [
        ("west.key", "west.key is the name of the key file that `init` creates; name the configuration west.toml"),
        ("of west.toml", "`name` = \"of west\""),
        (&long, "a name has 1 to 63 bytes"),
    ] {
        let refused = overlay(directory.path(), &["init", "--config", config, "--address", "10.77.0.1"]);
        assert_eq!(refused.status.code(), Some(2), "{config}");
        assert!(text(&refused.stderr).contains(message), "{config}: {}", text(&refused.stderr));
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    assert_eq!(init("with \"quotes\" and \\, of this test").status.code(), Some(0));
}

#[test]
fn a_secret_can_be_read_from_a_file_or_standard_input() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let arguments = |name: &'static str, more: &[&'static str]| {
        [&["init", "--address", "10.77.0.1", "--config", name], more].concat()
    };
    std::fs::write(path.join("secret"), "of this test alone\n").unwrap();
    assert_eq!(overlay(path, &arguments("west.toml", &["--secret-file", "secret"])).status.code(), Some(0));
    let lines = "of this test alone\r\n";
    let from_input = overlay_with(path, &arguments("east.toml", &["--secret-file", "-"]), lines);
    assert_eq!(from_input.status.code(), Some(0), "{}", text(&from_input.stderr));
    assert!(!text(&from_input.stderr).contains("of this test alone"), "a secret from standard input is not printed");
    for name in ["west.toml", "east.toml"] {
        let made = std::fs::read_to_string(path.join(name)).unwrap();
        assert!(made.contains("network_secret = \"of this test alone\"\n"), "{made}");
    }
    let before = std::fs::read_dir(path).unwrap().count();
    for (more, message) in [
        (&["--secret-file", "nowhere"][..], "cannot read the secret from nowhere"),
        (&["--secret-file", "secret", "--secret", "of this test alone"], "cannot be used with"),
    ] {
        let refused = overlay(path, &arguments("north.toml", more));
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(message), "{}", text(&refused.stderr));
    }
    assert_eq!(std::fs::read_dir(path).unwrap().count(), before);
}

#[test]
fn peer_add_keeps_the_owner_of_the_configuration() {
    use std::os::unix::fs::{MetadataExt, chown};
    // Only root can change the owner of a file.
    let Some(_) = or_skip(Namespace::new()) else { return };
    let directory = tempfile::tempdir().unwrap();
    init(directory.path(), "west", "10.77.0.1");
    let east = init(directory.path(), "east", "10.77.0.2");
    let file = directory.path().join("west.toml");
    // The file has another owner and is readable by the group.
    chown(&file, Some(UNPRIVILEGED_ID), Some(UNPRIVILEGED_ID)).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    assert_eq!(join(directory.path(), "west", &east).status.code(), Some(0));
    let after = std::fs::metadata(&file).unwrap();
    assert_eq!((after.uid(), after.gid(), after.mode() & 0o7777), (UNPRIVILEGED_ID, UNPRIVILEGED_ID, 0o640));
    assert!(std::fs::read_to_string(&file).unwrap().contains("name = \"east\""));
}

#[test]
fn peer_add_follows_a_symbolic_link() {
    let directory = tempfile::tempdir().unwrap();
    init(directory.path(), "west", "10.77.0.1");
    let east = init(directory.path(), "east", "10.77.0.2");
    let (link, target) = (directory.path().join("west.toml"), directory.path().join("kept/settings"));
    std::fs::create_dir(directory.path().join("kept")).unwrap();
    std::fs::rename(&link, &target).unwrap();
    std::os::unix::fs::symlink("kept/settings", &link).unwrap();
    // The key file is in the directory of the link.
    assert_eq!(join(directory.path(), "west", &east).status.code(), Some(0));
    assert_eq!(std::fs::read_link(&link).unwrap().to_str(), Some("kept/settings"));
    assert!(std::fs::read_to_string(&target).unwrap().contains("name = \"east\""));
    assert_eq!(std::fs::read_dir(directory.path().join("kept")).unwrap().count(), 1, "no draft remains");
}

#[test]
fn an_unprivileged_node_uses_a_device_that_root_has_prepared() {
    let Some(host) = or_skip(Namespace::new()) else { return };
    let directory = tempfile::tempdir().unwrap();
    init(directory.path(), "west", "10.77.0.1");
    join(directory.path(), "west", &init(directory.path(), "east", "10.77.0.2"));
    for file in ["", "west.toml", "west.key"] {
        std::os::unix::fs::chown(directory.path().join(file), Some(UNPRIVILEGED_ID), Some(UNPRIVILEGED_ID)).unwrap();
    }
    // The user may have no access to the build directory, and /dev/net/tun may lack udev's permissions: a mount
    // namespace provides both.
    let script = format!(
        "set -e; mount -t tmpfs none /dev/net; mknod -m 666 /dev/net/tun c 10 200; touch longhaul; mount --bind {} \
         longhaul; exec setpriv --reuid={UNPRIVILEGED_ID} --regid={UNPRIVILEGED_ID} --clear-groups --inh-caps=-all --bounding-set=-all \
         ./longhaul overlay up --config west.toml",
        longhaul().get_program().to_str().unwrap()
    );
    let start = || {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script]).current_dir(directory.path());
        host.start(command.stdout(Stdio::null()).stderr(Stdio::piped())).unwrap()
    };
    let message = || text(&start().wait_with_output().unwrap().stderr);
    for (make, refusal) in [
        ("ip link set lo up", "needs CAP_NET_ADMIN"),
        (&*format!("ip tuntap add lh0 mode tun user {UNPRIVILEGED_ID}"), "is down"),
        ("ip link set lh0 mtu 1356 up", "no address 10.77.0.1"),
    ] {
        host.iproute(make).unwrap();
        assert!(message().contains(refusal), "after {make}: {}", message());
    }
    host.iproute("ip address add 10.77.0.1/32 dev lh0").unwrap();
    let mut member = start();
    wait_for_start(directory.path(), "west");
    let process = std::fs::read_to_string(format!("/proc/{}/status", member.id())).unwrap();
    for has in [
        &*format!("Uid:\t{UNPRIVILEGED_ID}\t{UNPRIVILEGED_ID}\t{UNPRIVILEGED_ID}\t"),
        "Groups:\t \n",
        "CapEff:\t0000000000000000\n",
    ] {
        assert!(process.contains(has), "{has} in {process}");
    }
    // The node has ended when `down` returns, so the next one can open the device. It reports the route that root has
    // not added.
    let route = "ip route add 10.77.0.2/32 dev lh0 src 10.77.0.1 metric 30000";
    for has_route in [false, true] {
        assert_eq!(overlay(directory.path(), &["down", "--config", "west.toml"]).status.code(), Some(0));
        if !has_route {
            host.iproute(route).unwrap();
        }
        let before = std::mem::replace(&mut member, start()).wait_with_output().unwrap();
        assert_eq!(before.status.code(), Some(0));
        assert_eq!(text(&before.stderr).contains(route), !has_route, "{}", text(&before.stderr));
        wait_for_start(directory.path(), "west");
    }
    assert_eq!(overlay(directory.path(), &["down", "--config", "west.toml"]).status.code(), Some(0));
    assert_eq!(member.wait().unwrap().code(), Some(0));
}

#[test]
fn peer_add_rejects_an_invalid_entry_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    init(directory.path(), "west", "10.77.0.1");
    let east = init(directory.path(), "east", "10.77.0.2");
    assert_eq!(join(directory.path(), "west", &east).status.code(), Some(0));
    let before = std::fs::read(directory.path().join("west.toml")).unwrap();
    let thief = init(directory.path(), "thief", "10.77.0.2");
    let bad_key = east.replace("key = \"", "key = \"AAAA");
    let renamed = east.replace("\"east\"", "\"orient\"");
    let odd = init(directory.path(), "odd", "10.77.0.5").replace("\"odd\"", "\"a b\\nc\\u001b[31m\"");
    for (lines, message) in [
        (thief.as_str(), "the settings west.toml: 10.77.0.2/32 belongs to both"),
        (&renamed, "west.toml already lists the peer orient as east"),
        (&odd, r#"`name` = "a b\nc\u{1b}[31m" is invalid; a name has 1 to 63 bytes"#),
        (&bad_key, "not a public key"),
        ("[[member]]\nkey = 7\n", "line"),
        ("[[member]]\nkye = \"x\"\n", "kye"),
        ("nothing", "no `[[member]]`"),
    ] {
        let refused = join(directory.path(), "west", lines);
        assert_eq!(refused.status.code(), Some(2), "{lines}");
        assert!(text(&refused.stderr).contains(message), "{lines}: {}", text(&refused.stderr));
        assert_eq!(std::fs::read(directory.path().join("west.toml")).unwrap(), before, "{lines}");
    }
    let remaining: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(remaining.len(), 8, "four configurations and four keys: {remaining:?}");
}

#[test]
fn invalid_settings_are_reported_with_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    let own = init(directory.path(), "west", "10.77.0.1");
    let own = own.lines().find_map(|line| line.strip_prefix("key = ")).unwrap();
    let listed = "\"XPqTsv5VZx/JaL5POeLE3XYoRb34zs7HerDtWgmms5o=\"";
    let file = directory.path().join("west.toml");
    let good = std::fs::read_to_string(&file).unwrap();
    for (bad, message) in [
        (good.replace("of this test alone", "short"), "fewer than 16"),
        (good.replace("[\"10.77.0.1\"]", "[]"), "`addresses` is empty"),
        (good.replace("[\"10.77.0.1\"]", "[\"10.77.0.300\"]"), "line 5"),
        (format!("policy = \"fastest\"\n{good}"), "policy"),
        (format!("capacity = \"fast\"\n{good}"), "`capacity`"),
        (format!("mtu = 50\n{good}"), "`mtu` = 50 is out of range (576-65000)"),
        (format!("mtu = 99999\n{good}"), "`mtu` = 99999 is out of range (576-65000)"),
        (format!("hold_down = 10\n{good}"), "`hold_down = \"10s\"`"),
        (format!("relay_rate = 1000000\n{good}"), "`relay_rate` = 1000000 is not a text with a unit"),
        (format!("device = \"sixteen-bytes-lh\"\n{good}"), "`device` = `sixteen-bytes-lh` is not a valid device name"),
        (format!("probe_share = 2\n{good}"), "`probe_share`"),
        (
            format!("gossip_rate = \"10kb/s\"\n{good}"),
            "`gossip_rate` = 10.00 kb/s is out of range; the minimum is 64.00 kb/s",
        ),
        (
            format!("decision_log = \"west.decisions\"\ndecision_log_size = \"10kB\"\n{good}"),
            "`decision_log_size` = 10.00 kB is out of range",
        ),
        (format!("decision_log_size = \"10MB\"\n{good}"), "`decision_log_size` needs `decision_log`"),
        (format!("refuse = [\"x\"]\n{good}"), "`refuse`: `x` is not a public key"),
        (format!("refuse = [{own}]\n{good}"), "`refuse` contains this member's own key"),
        (
            format!("refuse = [{listed}]\n{good}\n[[member]]\nname = \"east\"\nkey = {listed}\n"),
            "`refuse` contains the key of the member east; remove the key",
        ),
        (format!("switch_margin = -0.1\n{good}"), "`switch_margin` = -0.1 is out of range (0-10)"),
        (format!("switch_margin = nan\n{good}"), "`switch_margin` = NaN is out of range"),
        (format!("switch_margin = 50\n{good}"), "0.5 for 50 %"),
        (format!("loss_interval = \"0s\"\n{good}"), "`loss_interval` = 0s is out of range; it must be greater than 0"),
        (
            format!("policy = \"safire-2008\"\nloss_probes = 7\n{good}"),
            "`loss_probes` = 7 is out of range; the minimum is 25",
        ),
        (format!("loss_probes = 100\n{good}"), "`loss_probes` needs `loss_interval`"),
        (format!("loss_interval = \"1s\"\nloss_probes = 101\n{good}"), "the minimum spacing is 10 ms"),
        (format!("max_paths = 15\n{good}"), "`max_paths` = 15 is out of range (1-14)"),
        (format!("max_paths = 2\nsingle_path = true\n{good}"), "`single_path` and `max_paths` contradict"),
        (format!("beta = -0.1\n{good}"), "`beta` = -0.1 is out of range"),
        (format!("model = \"rate-aware\"\nalpha = inf\n{good}"), "`alpha` = inf is out of range"),
        (format!("model = \"formula\"\n{good}"), "rate-aware"),
        (format!("model = \"pftk\"\ncongestion_control = \"reno\"\n{good}"), "`model` and `congestion_control`"),
        (format!("colour = \"blue\"\n{good}"), "colour"),
        (format!("relay_rate = \"0\"\n{good}"), "`relay = false` disables relaying"),
        (format!("capacity = \"100b/s\"\n{good}"), "`capacity` = 100 b/s is out of range"),
        (
            good.replace("10.77.0.1\"", "10.77.0.1\", \"fd00::1\"") + "mtu = 1000\n",
            "`mtu` = 1000 is out of range; the minimum with IPv6 addresses is 1280",
        ),
        (format!("event_log = \"west.key\"\n{good}"), "`event_log` is also `key`"),
        (format!("event_log = \"././west.key\"\n{good}"), "`event_log` is also `key`"),
        (format!("event_log = \"west.start\"\n{good}"), "`event_log` is also the file with the number"),
        (good.replace("10.77.0.1", "127.0.0.1"), "`addresses` contains 127.0.0.1"),
        (good.replace("10.77.0.1", "0.0.0.0"), "`addresses` contains 0.0.0.0"),
        (format!("device = \"lh%d\"\n{good}"), "`:` and `%`"),
        (format!("relay_rate = \"20kb/s\"\n{good}"), "the minimum is 64.00 kb/s"),
        (format!("decision_log = \"west.toml\"\n{good}"), "`decision_log` is also the settings file"),
        (
            format!("{good}[[member]]\nname = \"east\"\nkey = \"{EAST_KEY}\"\nendpoint = \"192.0.2.3:0\"\n"),
            "no valid port after the colon",
        ),
        (good.replace("west.key", "none.key"), "none.key"),
        (
            format!("{good}[[member]]\nname = \"east\"\nkey = \"{EAST_KEY}\"\nendpoint = \"192.0.2.300\"\n"),
            "endpoint of east: `192.0.2.300`",
        ),
        (
            format!(
                "{good}[[member]]\nname = \"east\"\nkey = \"{EAST_KEY}\"\n[[member]]\nname = \"east\"\nkey = \"{NORTH_KEY}\"\n"
            ),
            "two members have the name east",
        ),
    ] {
        std::fs::write(&file, &bad).unwrap();
        let refused = overlay(directory.path(), &["up", "--config", "west.toml"]);
        assert_eq!(refused.status.code(), Some(2), "{message}");
        assert!(text(&refused.stderr).contains(message), "{message}: {}", text(&refused.stderr));
    }
    std::fs::write(&file, &good).unwrap();
    std::fs::set_permissions(directory.path().join("west.key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = overlay(directory.path(), &["up", "--config", "west.toml"]);
    assert!(text(&refused.stderr).contains("is accessible to other users"), "{}", text(&refused.stderr));
}

#[test]
fn a_dry_run_and_a_start_reject_the_same_settings() {
    let directory = tempfile::tempdir().unwrap();
    init(directory.path(), "west", "10.77.0.1");
    let file = directory.path().join("west.toml");
    let good = std::fs::read_to_string(&file).unwrap();
    std::fs::write(directory.path().join("notes"), "of another program\n").unwrap();
    let deep = "a".repeat(108);
    for (bad, message) in [
        (format!("device = \"lo\"\n{good}"), "lo exists and is not a TUN device"),
        (format!("event_log = \"notes\"\n{good}"), "notes exists and is not an event log"),
        (format!("decision_log = \"notes\"\n{good}"), "notes exists and is not a decision log"),
        (good.replace("west.sock", "notes"), "notes exists and is not a socket"),
        (good.replace("west.sock", &deep), "has 108 bytes, but the path of a socket has at most 107"),
    ] {
        std::fs::write(&file, &bad).unwrap();
        for arguments in [&["up", "--dry-run", "--config", "west.toml"][..], &["up", "--config", "west.toml"]] {
            let refused = overlay(directory.path(), arguments);
            let error = text(&refused.stderr);
            assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {error}");
            assert!(error.contains("the settings west.toml: ") && error.contains(message), "{arguments:?}: {error}");
            assert!(refused.stdout.is_empty(), "{}", text(&refused.stdout));
        }
    }
    assert_eq!(std::fs::read_to_string(directory.path().join("notes")).unwrap(), "of another program\n");
}

#[test]
fn a_dry_run_prints_the_policy_of_configuration_and_command_line() {
    let directory = tempfile::tempdir().unwrap();
    init(directory.path(), "west", "10.77.0.1");
    let file = directory.path().join("west.toml");
    let good = std::fs::read_to_string(&file).unwrap();
    // The reference page documents this default.
    let default = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    let model = match default.trim() {
        "cubic" | "bic" | "htcp" => "cubic",
        "reno" | "dctcp" | "westwood" => "pftk",
        _ => "rate-based",
    };
    let usual = format!(
        "up to 2 paths to each destination, switch margin 50 %, hold-down 10.0 s, predictor {model} ({})\n",
        default.trim()
    );
    for (keys, flag, message) in [
        ("", None, &*usual),
        ("", Some("--single-path"), "one path to each"),
        ("max_paths = 4\n", None, "up to 4 paths to each"),
        ("max_paths = 4\n", Some("--single-path"), "one path to each"),
        ("switch_margin = 0.25\nhold_down = \"3s\"\n", None, "switch margin 25 %, hold-down 3.0 s"),
        ("model = \"rate-aware\"\nalpha = 20\nbeta = 0\n", None, "predictor rate-aware"),
        ("congestion_control = \"reno\"\n", None, "predictor pftk (reno)"),
        (
            "policy = \"safire-2008\"\n",
            None,
            "one path to each destination, switch margin 50 %, hold-down 10.0 s, predictor safire\n",
        ),
    ] {
        std::fs::write(&file, format!("{keys}{good}")).unwrap();
        let arguments = ["up", "--dry-run", "--config", "west.toml"].into_iter().chain(flag).collect::<Vec<_>>();
        let plan = overlay(directory.path(), &arguments);
        assert!(text(&plan.stdout).contains(message), "{keys} {flag:?}: {}{}", text(&plan.stdout), text(&plan.stderr));
    }
}

#[test]
fn suspicious_settings_cause_warnings_in_a_dry_run() {
    let directory = tempfile::tempdir().unwrap();
    init(directory.path(), "west", "10.77.0.1");
    put_before(directory.path(), "west", "congestion_control = \"cubci\"");
    let list = format!(
        "[[member]]\nname = \"east\"\nkey = \"{EAST_KEY}\"\nendpoint = \"192.0.2.1\"\nsubnets = [\"192.0.2.0/24\"]\n"
    );
    let waited_for = format!("[[member]]\nname = \"north\"\nkey = \"{NORTH_KEY}\"\n");
    assert_eq!(join(directory.path(), "west", &(list + &waited_for)).status.code(), Some(0));
    let plan = overlay(directory.path(), &["up", "--dry-run", "--config", "west.toml"]);
    assert_eq!(plan.status.code(), Some(0));
    assert!(
        text(&plan.stderr).contains("`congestion_control` = cubci is unknown to this kernel"),
        "{}",
        text(&plan.stderr)
    );
    let message = "longhaul: the endpoint of east, 192.0.2.1:5460, is in its own network 192.0.2.0/24";
    assert!(text(&plan.stderr).contains(message), "{}", text(&plan.stderr));
    let message = "north connects to this member; has no `subnets`, so no traffic is sent to it\n";
    assert!(text(&plan.stdout).contains(message), "{}", text(&plan.stdout));
}

#[test]
fn a_peer_entry_lists_each_subnet_once_and_the_listening_port() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["--address", "10.77.0.1", "--listen", "[::]:7000"];
    for (name, endpoint, printed) in [
        ("a", "west.example.net", "west.example.net:7000"),
        ("b", "192.0.2.1", "192.0.2.1:7000"),
        ("c", "2001:db8::1", "[2001:db8::1]:7000"),
        // A proxy may forward that port.
        ("d", "192.0.2.1:9", "192.0.2.1:9"),
    ] {
        let lines = init_with(directory.path(), name, &[&options[..], &["--endpoint", endpoint]].concat());
        assert!(lines.contains(&format!("endpoint = \"{printed}\"\n")), "{lines}");
    }
    let nets = ["--subnet", "10.77.0.1/32", "--subnet", "10.1.0.5/16", "--subnet", "10.1.0.0/16"];
    let lines = init_with(directory.path(), "e", &[&options[..], &nets].concat());
    assert!(lines.contains("subnets = [\"10.77.0.1/32\", \"10.1.0.0/16\"]\n"), "{lines}");
}

#[test]
fn a_query_without_a_running_node_reports_it() {
    let directory = tempfile::tempdir().unwrap();
    init(directory.path(), "west", "10.77.0.1");
    for question in [&["status"][..], &["routes"], &["flows"], &["events"], &["down"], &["why", "east"]] {
        let arguments = [question, &["--config", "west.toml"]].concat();
        let queried = overlay(directory.path(), &arguments);
        assert_eq!(queried.status.code(), Some(2), "{question:?}");
        assert!(
            text(&queried.stderr).contains("no member is running with these settings"),
            "{}",
            text(&queried.stderr)
        );
    }
}

#[test]
fn a_certificate_is_signed_for_one_node_and_accepted_only_there() {
    let directory = tempfile::tempdir().unwrap();
    let lines = init(directory.path(), "north", "10.77.0.3");
    let other = init(directory.path(), "south", "10.77.0.4");
    let made = overlay(directory.path(), &["ca", "init", "--key", "net.key"]);
    let authority = text(&made.stdout);
    assert!(authority.starts_with("ca_public_key = \""), "{authority} {}", text(&made.stderr));
    let second = overlay(directory.path(), &["ca", "init", "--key", "net.key"]);
    assert_eq!(second.status.code(), Some(2), "an existing key is not overwritten");

    let certify =
        |lines: &str| overlay_with(directory.path(), &["ca", "sign", "--key", "net.key", "--valid", "48h"], lines);
    let certificate = certify(&lines);
    assert!(
        text(&certificate.stderr).contains("the certificate of north is valid until 20"),
        "{}",
        text(&certificate.stderr)
    );
    let over = overlay_with(directory.path(), &["ca", "sign", "--key", "net.key", "--valid", "0s"], &lines);
    assert_eq!((over.status.code(), over.stdout.is_empty()), (Some(2), true), "{}", text(&over.stderr));
    let none = "no `[[member]]` on standard input";
    for (bad, message) in
        [("", none), ("x", none), ("[[member]]\nx", "expected"), (&*format!("{lines}\n{other}"), "needs exactly one")]
    {
        let refused = certify(bad);
        assert_eq!((refused.status.code(), refused.stdout.is_empty()), (Some(2), true), "{bad}");
        assert!(text(&refused.stderr).contains(message), "{bad}: {}", text(&refused.stderr));
    }

    // Two keys with the same member number (of the seeds 34,433 and 170,398, big-endian), so the second could
    // impersonate the first.
    let of_key = |name: &str, key: &str| format!("[[member]]\nname = \"{name}\"\nkey = \"{key}\"\n");
    let [first, second] = [
        of_key("east", "XPqTsv5VZx/JaL5POeLE3XYoRb34zs7HerDtWgmms5o="),
        of_key("thief", "NZgYv908sqNS+CzS+qCgjzaXepEadp4zYbgX0ShCj5w="),
    ];
    let codes = [&first, &first, &second].map(|lines| certify(lines).status.code());
    assert_eq!(codes, [Some(0), Some(0), Some(2)], "signing the same key again is a renewal");
    let refused = certify(&second);
    assert!(refused.stdout.is_empty() && text(&refused.stderr).contains("for east"), "{}", text(&refused.stderr));
    let list = std::fs::read_to_string(directory.path().join("net.key.signed")).unwrap();
    assert_eq!(list.lines().count(), 3, "north once and east twice: {list}");

    let file = |name: &str, content: &str| std::fs::write(directory.path().join(name), content).unwrap();
    file("north.cert", &text(&certificate.stdout));
    let settings = |name: &str| std::fs::read_to_string(directory.path().join(format!("{name}.toml"))).unwrap();
    let plan = |name: &str| overlay(directory.path(), &["up", "--dry-run", "--config", &format!("{name}.toml")]);
    let (north, south) = (settings("north"), settings("south"));
    file("north.toml", &format!("{authority}certificate = \"north.cert\"\n{north}"));
    assert_eq!(plan("north").status.code(), Some(0), "{}", text(&plan("north").stderr));
    let other = north.replace("10.77.0.3", "10.77.0.99");
    for (name, before, message) in [
        (
            "north",
            format!("{authority}certificate = \"north.cert\"\n{other}"),
            "does not give this member 10.77.0.99/32",
        ),
        ("north", format!("certificate = \"north.cert\"\n{north}"), "needs `ca_public_key`"),
        ("north", format!("{authority}certificate = \"none.cert\"\n{north}"), "none.cert"),
        ("south", format!("{authority}certificate = \"north.cert\"\n{south}"), "that of north, with another key"),
    ] {
        file(&format!("{name}.toml"), &before);
        let refused = plan(name);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(message), "{message}: {}", text(&refused.stderr));
    }
}

#[test]
fn a_decision_log_is_replayed_and_an_invalid_one_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("west.decisions");
    let replay = |content: &str| {
        std::fs::write(&file, content).unwrap();
        overlay(directory.path(), &["replay", "west.decisions"])
    };
    let header = r#"{"longhaul_route_record":2,"own":1,"policy":{}}"#;
    let member = r#"{"input":{"event":"member","at_ns":0,"member":2,"relays":true}}"#;
    let metrics = r#"{"rtt_ns":20000000,"loss":0.01,"loss_low":0.01,"loss_high":0.01,"confidence":1.0,"age_ns":0}"#;
    let link = format!(r#"{{"input":{{"event":"link","at_ns":1,"from":1,"to":2,"metrics":{metrics}}}}}"#);
    let time = r#"{"input":{"event":"timeout","at_ns":1000000000}}"#;
    let inputs = format!("{header}\n{member}\n{link}\n{time}\n");

    // The log of a node that died before it wrote its decision.
    let short = replay(&inputs);
    assert_eq!(short.status.code(), Some(0), "{}", text(&short.stderr));
    assert!(text(&short.stdout).contains("ends before 1 decision that"), "{}", text(&short.stdout));
    // The next input shows that the log has no decision, but the replay has one.
    let other = replay(&format!("{inputs}{time}\n"));
    assert_eq!(other.status.code(), Some(1), "{}", text(&other.stderr));
    let message = text(&other.stdout);
    assert!(message.contains("0 decisions equal to the log, 1 different"), "{message}");
    assert!(message.contains("recorded  no decision\nreplayed  00000002: no path -> direct"), "{message}");
    assert!(message.contains("inputs  {\"to\":{\"metrics\""), "{message}");
    let json = overlay(directory.path(), &["replay", "--json", "west.decisions"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["first"]["event"], 3, "{json}");
    let decision = serde_json::json!({ "decision": json["first"]["replayed"] });
    let good = format!("{inputs}{decision}\n{time}\n");
    let same = replay(&good);
    assert_eq!((same.status.code(), &*text(&same.stdout)), (Some(0), "4 events, 1 decision equal to the log\n"));
    let cut = replay(&good[..good.len() - 9]);
    assert_eq!(cut.status.code(), Some(0));
    assert!(text(&cut.stdout).contains("the last line is incomplete"), "{}", text(&cut.stdout));

    for (bad, message) in [
        ("", "is empty"),
        ("key = \"west.key\"\n", "is not the start of a decision log"),
        ("{\"longhaul_route_record\":3}\n", "is a record of version 3, and this program reads version 2"),
        (&header.replace("{}", "{\"margin\":-1.0}"), "`margin` must be 0 or more"),
        (&header.replace("{}", "{\"colour\":1}"), "unknown field `colour`"),
        (&good.replace(member, &member[..20]), "line 2: invalid record"),
        (&good.replace(time, "{\"input\":{\"event\":\"eclipse\"}}"), "line 4"),
    ] {
        let refused = replay(bad);
        assert_eq!(refused.status.code(), Some(2), "{bad}: {}", text(&refused.stdout));
        assert!(text(&refused.stderr).contains(message), "{bad}: {}", text(&refused.stderr));
    }
    let none = overlay(directory.path(), &["replay", "none.decisions"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("none.decisions"), "{}", text(&none.stderr));
}

#[test]
fn the_decision_log_of_a_running_node_can_be_replayed() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let members = Members::start(&lan, "decision_log = \"west.decisions\"");
    let directory = members.directory.path();
    let flows = text(&overlay(directory, &["flows", "--config", "west.toml"]).stdout);
    assert!(flows.contains("loss  path"), "{flows}");
    let why = text(&overlay(directory, &["why", "east", "--config", "west.toml"]).stdout);
    assert!(why.starts_with("east\n  uses direct for"), "{why}");
    // A reader of a growing log may see an incomplete last line.
    let replayed = overlay(directory, &["replay", "west.decisions"]);
    let message = text(&replayed.stdout);
    assert_eq!(replayed.status.code(), Some(0), "{message}{}", text(&replayed.stderr));
    assert!(message.contains(" 1 decision equal to the log"), "{message}");
}

#[test]
fn concurrent_calls_of_peer_add_keep_all_entries() {
    let directory = tempfile::tempdir().unwrap();
    init(directory.path(), "west", "10.77.0.1");
    let entries: Vec<String> =
        (2..8).map(|i| init(directory.path(), &format!("peer{i}"), &format!("10.77.0.{i}"))).collect();
    std::thread::scope(|scope| {
        let calls: Vec<_> = entries.iter().map(|entry| scope.spawn(|| join(directory.path(), "west", entry))).collect();
        for call in calls {
            let out = call.join().unwrap();
            assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        }
    });
    let after = std::fs::read_to_string(directory.path().join("west.toml")).unwrap();
    for entry in &entries {
        let key = entry.lines().find(|line| line.starts_with("key = ")).unwrap();
        assert_eq!(after.matches(key).count(), 1, "{key} in {after}");
    }
    let drafts = std::fs::read_dir(directory.path()).unwrap().filter(|e| {
        let name = e.as_ref().unwrap().file_name().into_string().unwrap();
        name.starts_with('.') || name.ends_with(".new")
    });
    assert_eq!(drafts.count(), 0);
}

#[test]
fn a_full_disk_leaves_no_key_behind() {
    let directory = tempfile::tempdir().unwrap();
    // A limit of 0 bytes per file is the same to a program as a full disk, and needs no privilege.
    let on_full_disk = |arguments: &str| {
        let script = format!("trap '' XFSZ; ulimit -f 0; exec \"$0\" overlay {arguments}");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_longhaul")]).current_dir(directory.path());
        command.output().unwrap()
    };
    for arguments in ["init --config west.toml --address 10.77.0.1", "ca init --key net.key"] {
        let out = on_full_disk(arguments);
        assert_eq!(out.status.code(), Some(2), "{arguments}: {}", text(&out.stderr));
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        assert!(left.is_empty(), "{arguments}: {left:?}");
    }
}

#[test]
fn settings_key_and_certificate_are_regular_files() {
    let directory = tempfile::tempdir().unwrap();
    init(directory.path(), "west", "10.77.0.1");
    let file = directory.path().join("west.toml");
    let good = std::fs::read_to_string(&file).unwrap();
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let dry_run = |config: &str| {
        let out = overlay(directory.path(), &["up", "--dry-run", "--config", config]);
        assert_eq!(out.status.code(), Some(2), "{config}: {}", text(&out.stderr));
        text(&out.stderr)
    };
    assert!(dry_run("fifo").contains("it is a FIFO, not a regular file"));
    assert!(dry_run("/dev/zero").contains("it is a device, not a regular file"));
    for (bad, part) in [
        (good.replace("\"west.key\"", "\"fifo\""), "the key file "),
        (format!("certificate = \"fifo\"\n{good}"), "`certificate`"),
    ] {
        std::fs::write(&file, bad).unwrap();
        let refused = dry_run("west.toml");
        assert!(refused.contains(part) && refused.contains("it is a FIFO, not a regular file"), "{refused}");
    }
    let signed = overlay_with(directory.path(), &["ca", "sign", "--key", "fifo"], "[[member]]\n");
    assert!(text(&signed.stderr).contains("it is a FIFO, not a regular file"), "{}", text(&signed.stderr));
}

#[test]
fn an_error_in_the_settings_does_not_print_the_network_secret() {
    let directory = tempfile::tempdir().unwrap();
    init(directory.path(), "west", "10.77.0.1");
    let file = directory.path().join("west.toml");
    let good = std::fs::read_to_string(&file).unwrap();
    for bad in [
        good.replace("\"of this test alone\"", "[\"of this test alone\"]"),
        good.replace("\"of this test alone\"", "\"of this test alone"),
        good.replace("\"of this test alone\"", "of this test alone"),
    ] {
        assert_ne!(bad, good);
        std::fs::write(&file, bad).unwrap();
        for command in [&["up", "--dry-run"][..], &["status"], &["reload"]] {
            let refused = overlay(directory.path(), &[command, &["--config", "west.toml"]].concat());
            assert_eq!(refused.status.code(), Some(2), "{command:?}");
            let message = text(&refused.stderr);
            assert!(!message.contains("of this test"), "{command:?}: {message}");
            // The other commands read only the name of the control socket, which may be possible.
            assert!(command[0] != "up" || message.contains("west.toml: line 4, `network_secret`: "), "{message}");
        }
    }
}

#[test]
fn names_and_subnets_that_deceive_are_refused_where_a_peer_is_added() {
    let directory = tempfile::tempdir().unwrap();
    init(directory.path(), "west", "10.77.0.1");
    let made = overlay(directory.path(), &["ca", "init", "--key", "net.key"]);
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    let good = format!("[[member]]\nname = \"east\"\nkey = \"{EAST_KEY}\"\nsubnets = [\"10.77.0.2/32\"]\n");
    for (from, to, expected) in [
        ("\"east\"", "\"we\\u200Bst\"", "invisible characters"),
        ("\"east\"", "\"\\u202Etsae\"", "invisible characters"),
        ("10.77.0.2/32", "0.0.0.0/0", "covers all addresses"),
        ("10.77.0.2/32", "127.0.0.0/8", "loopback or multicast"),
        ("10.77.0.2/32", "10.0.0.5/8", "write 10.0.0.0/8"),
    ] {
        let entry = good.replace(from, to);
        assert_ne!(entry, good);
        let added = join(directory.path(), "west", &entry);
        let signed = overlay_with(directory.path(), &["ca", "sign", "--key", "net.key"], &entry);
        for refused in [added, signed] {
            assert_eq!(refused.status.code(), Some(2), "{entry}");
            let message = text(&refused.stderr);
            assert!(message.contains(expected) && !message.contains(['\u{200b}', '\u{202e}']), "{message}");
        }
    }
}
