use std::fs;

use super::{Shaped, shaped, text};

/// Policy with the division of section 3.6.3 of the paper, and an ingress rate.
const DIVISION: &str = r#"device = "eth0"
[egress]
rate = "100Mb/s"
default = "first"
[egress.classes.first]
rate = "80Mb/s"
ceiling = "100Mb/s"
queue = "20ms"
[egress.classes.second]
rate = "20Mb/s"
ceiling = "100Mb/s"
priority = 3
match = { to = "192.0.2.0/24", to_port = 5002, protocol = "tcp" }
[ingress]
rate = "50Mb/s"
"#;

fn tc(shaped: &Shaped, line: &str) -> String {
    shaped.host().iproute(&format!("tc {line}")).unwrap()
}

#[test]
fn tc_shows_the_planned_configuration_and_clear_removes_it() {
    let Some(shaped) = shaped() else { return };
    let before = shaped.configuration();
    let policy = shaped.policy(DIVISION);
    let applied = shaped.apply(&policy, &[]);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let classes = tc(&shaped, "class show dev eth0");
    assert!(classes.contains("class htb 1:10 parent 1:1 leaf 10: prio 0 rate 80Mbit ceil 100Mbit"), "{classes}");
    assert!(classes.contains("class htb 1:11 parent 1:1 leaf 11: prio 3 rate 20Mbit ceil 100Mbit"), "{classes}");
    let filters = tc(&shaped, "filter show dev eth0");
    // u32 matches 32 bits of the header: 192.0.2.0/24, and 5002 = 0x138a as the second half of the ports.
    assert!(
        filters.contains("match c0000200/ffffff00 at 16") && filters.contains("match 0000138a/0000ffff at 20"),
        "{filters}"
    );
    assert!(filters.contains("flowid 1:11"), "{filters}");
    let hook = tc(&shaped, "filter show dev eth0 ingress");
    assert!(hook.contains("mirred (Egress Redirect to device ifb-eth0)"), "{hook}");
    // The queues hold 20 ms of 100 Mb/s and 50 ms of 50 Mb/s.
    let queues = tc(&shaped, "qdisc show");
    assert!(
        queues.contains("bfifo 10: dev eth0 parent 1:10 limit 250000b") || queues.contains("fq_codel 10:"),
        "{queues}"
    );
    let links = shaped.host().iproute("ip link show ifb-eth0").unwrap();
    assert!(links.contains("qlen 1000"), "{links}");
    let shown = shaped.run_successfully(&["show", "--json"]);
    assert!(shown.contains("\"state\":\"installed\""), "{shown}");
    let second = shaped.apply(&policy, &[]);
    assert!(text(&second.stderr).contains("no change was necessary"), "{}", text(&second.stderr));
    shaped.run_successfully(&["clear", "eth0"]);
    assert_eq!(shaped.configuration(), before);
    let remaining = fs::read_dir(shaped.directory.path().join("state/shape")).unwrap().count();
    assert_eq!(remaining, 0, "neither records nor locks remain");
}

#[test]
fn an_apply_changes_only_the_difference_and_keeps_counters() {
    let Some(shaped) = shaped() else { return };
    assert!(shaped.apply(&shaped.policy(DIVISION), &[]).status.success());
    let sent = |text: &str| text.split("Sent ").nth(1).unwrap().split(' ').next().unwrap().parse::<u64>().unwrap();
    let to = (shaped.lan.server_ip(), 9);
    let socket = shaped.host().run(|| std::net::UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
    assert_eq!(socket.send_to(&[0; 1000], to).unwrap(), 1000);
    // The datagram is queued until ARP has resolved the neighbour's address.
    let start = kernel::now();
    let is_queued = || {
        sent(&tc(&shaped, "-s class show dev eth0 classid 1:10")) < 1000
            && kernel::now().saturating_since(start).as_secs() < 5
    };
    while is_queued() {
        kernel::sleep_for(std::time::Duration::from_millis(5));
    }
    let before = sent(&tc(&shaped, "-s class show dev eth0 classid 1:10"));
    assert!(before > 0);
    let changed = shaped.policy(&DIVISION.replace("80Mb/s", "70Mb/s").replace("priority = 3", "priority = 5"));
    let message = text(&shaped.apply(&changed, &[]).stderr);
    assert!(message.contains("2 changes made"), "{message}");
    let after = tc(&shaped, "-s class show dev eth0 classid 1:10");
    assert!(after.contains("rate 70Mbit") && sent(&after) >= before, "{after}");
    // A direction that the policy omits is restored.
    let out_only = shaped.policy(DIVISION.split("[ingress]").next().unwrap());
    assert!(shaped.apply(&out_only, &[]).status.success());
    assert!(!shaped.configuration().contains("ifb-eth0"));
    shaped.run_successfully(&["clear", "--all"]);
}

#[test]
fn a_foreign_configuration_is_rejected_replaced_and_restored() {
    let Some(shaped) = shaped() else { return };
    for line in [
        "tc qdisc add dev eth0 root handle 7: htb default 0x20 r2q 100",
        "tc class add dev eth0 parent 7: classid 7:1 htb rate 333Mbit ceil 444Mbit burst 20k cburst 30k",
        "tc class add dev eth0 parent 7:1 classid 7:20 htb rate 33Mbit prio 2 quantum 3000",
        "tc qdisc add dev eth0 parent 7:20 handle 20: pfifo limit 77",
        "tc filter add dev eth0 parent 7: protocol ip prio 9 u32 match ip dst 10.1.2.0/24 flowid 7:20",
        "tc qdisc add dev eth0 ingress",
    ] {
        shaped.host().iproute(line).unwrap();
    }
    let before = shaped.configuration();
    let policy = shaped.policy(DIVISION);
    let refused = shaped.apply(&policy, &[]);
    let message = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(message.contains("eth0 has htb 7:") && message.contains("--replace"), "{message}");
    assert_eq!(shaped.configuration(), before);
    // A dry run reports the conflict, too.
    let dry = shaped.apply(&policy, &["--dry-run"]);
    assert_eq!((dry.status.code(), text(&dry.stderr)), (Some(2), message));
    let dry = shaped.apply(&policy, &["--dry-run", "--replace"]);
    assert!(dry.status.success() && text(&dry.stderr).contains("planned, none made"), "{}", text(&dry.stderr));
    assert_eq!(shaped.configuration(), before);
    let replaced = shaped.apply(&policy, &["--replace"]);
    assert!(replaced.status.success(), "{}", text(&replaced.stderr));
    assert_ne!(shaped.configuration(), before);
    shaped.run_successfully(&["clear", "eth0"]);
    assert_eq!(shaped.configuration(), before);
}

#[test]
fn a_constant_rate_needs_no_policy_file() {
    let Some(shaped) = shaped() else { return };
    shaped.run_successfully(&["constant", "--rate", "200Mb/s", "eth0"]);
    let all = tc(&shaped, "class show dev eth0") + &tc(&shaped, "class show dev ifb-eth0");
    assert_eq!(all.matches("class htb 1:10 parent 1:1 leaf 10: prio 0 rate 200Mbit ceil 200Mbit").count(), 2, "{all}");
    shaped.run_successfully(&["clear", "eth0"]);
}

#[test]
fn a_thousand_classes_are_applied_in_one_call() {
    let Some(shaped) = shaped() else { return };
    let classes = (0..1000).map(|n| {
        let network = format!("10.{}.{}.0/24", n / 250, n % 250);
        format!("[egress.classes.c{n}]\nrate = \"1Mb/s\"\nceiling = \"1Gb/s\"\nmatch = {{ to = \"{network}\" }}\n")
    });
    let policy_text =
        format!("device = \"eth0\"\n[egress]\nrate = \"1Gb/s\"\ndefault = \"c0\"\n{}", classes.collect::<String>());
    let policy = shaped.policy(&policy_text);
    let start = kernel::now();
    let applied = shaped.apply(&policy, &[]);
    eprintln!("1000 classes applied in {:?}", kernel::now().saturating_since(start));
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let mut show = std::process::Command::new("tc");
    show.args(["class", "show", "dev", "eth0"]);
    let shown = shaped.host().run(|| show.output()).unwrap().unwrap();
    assert_eq!(text(&shown.stdout).lines().count(), 1001);
    shaped.run_successfully(&["clear", "eth0"]);
}

#[test]
fn an_unconfirmed_policy_is_undone_automatically() {
    let Some(shaped) = shaped() else { return };
    let before = shaped.configuration();
    let policy = shaped.policy(DIVISION);
    let undone = || {
        let start = kernel::now();
        while shaped.configuration() != before && kernel::now().saturating_since(start).as_secs() < 20 {
            kernel::sleep_for(std::time::Duration::from_millis(50));
        }
        shaped.configuration() == before
    };
    assert!(shaped.apply(&policy, &["--confirm", "1s"]).status.success());
    assert_ne!(shaped.configuration(), before);
    assert!(undone(), "{}", shaped.configuration());
    assert!(shaped.apply(&policy, &["--for", "1s"]).status.success());
    assert!(undone(), "{}", shaped.configuration());
    // A confirmed policy stays, and its guard process ends.
    assert!(shaped.apply(&policy, &["--confirm", "60s"]).status.success());
    shaped.run_successfully(&["confirm", "eth0"]);
    assert!(!shaped.run_successfully(&["show", "--json"]).contains("undone_in_s"));
    shaped.run_successfully(&["clear", "eth0"]);
    assert_eq!(shaped.configuration(), before);
    let second = shaped.run(&["confirm", "eth0"]);
    assert!(text(&second.stderr).contains("not shaped by longhaul"), "{}", text(&second.stderr));
}

#[test]
fn the_records_of_show_match_their_schema() {
    let Some(shaped) = shaped() else { return };
    assert!(shaped.apply(&shaped.policy(DIVISION), &[]).status.success());
    let shown = shaped.run_successfully(&["show", "--json", "--interval", "100ms", "--count", "2"]);
    let directory = shaped.directory.path().join("schema");
    let mut generate = std::process::Command::new(env!("CARGO_BIN_EXE_longhaul"));
    assert!(generate.args(["generate", "schema"]).arg(&directory).status().unwrap().success());
    let schema = fs::read_to_string(directory.join("longhaul.shape-2.schema.json")).unwrap();
    let schema = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let mut counters = 0;
    for line in shown.lines() {
        let record = serde_json::from_str(line).unwrap();
        assert!(schema.is_valid(&record), "{line}");
        counters += usize::from(line.contains("\"record\":\"counters\""));
    }
    assert_eq!(counters, 2 * 3, "counters of three classes in two intervals");
    shaped.run_successfully(&["clear", "eth0"]);
}

#[test]
fn the_first_policy_is_restored_if_the_second_is_not_confirmed() {
    let Some(shaped) = shaped() else { return };
    let before = shaped.configuration();
    assert!(shaped.apply(&shaped.policy(DIVISION), &[]).status.success());
    let first = shaped.configuration();
    let second = shaped.policy(&DIVISION.replace("80Mb/s", "60Mb/s"));
    assert!(shaped.apply(&second, &["--confirm", "1s"]).status.success());
    assert_ne!(shaped.configuration(), first);
    let start = kernel::now();
    while shaped.configuration() != first && kernel::now().saturating_since(start).as_secs() < 20 {
        kernel::sleep_for(std::time::Duration::from_millis(50));
    }
    assert_eq!(shaped.configuration(), first);
    shaped.run_successfully(&["clear", "eth0"]);
    assert_eq!(shaped.configuration(), before);
}

#[test]
fn a_renamed_device_is_restored() {
    let Some(shaped) = shaped() else { return };
    assert!(shaped.apply(&shaped.policy(DIVISION), &[]).status.success());
    for line in ["ip link set eth0 down", "ip link set eth0 name lan0", "ip link set lan0 up"] {
        shaped.host().iproute(line).unwrap();
    }
    shaped.run_successfully(&["clear", "eth0"]);
    let remaining = shaped.host().iproute("tc qdisc show").unwrap() + &shaped.host().iproute("ip -br link").unwrap();
    assert!(!remaining.contains("htb") && !remaining.contains("ingress") && !remaining.contains("ifb"), "{remaining}");
}

#[test]
fn a_removed_configuration_is_installed_again() {
    let Some(shaped) = shaped() else { return };
    let by_size = DIVISION.replace("priority = 3", "priority = 3\nqueue = \"5ms\"").replace(
        "match = { to = \"192.0.2.0/24\", to_port = 5002, protocol = \"tcp\" }",
        "match = { size = \"mouse\" }",
    );
    let policy = shaped.policy(&by_size);
    assert!(shaped.apply(&policy, &[]).status.success());
    let planned = shaped.configuration();
    shaped.host().iproute("tc qdisc del dev eth0 root").unwrap();
    let second = shaped.apply(&policy, &[]);
    assert!(second.status.success(), "{}", text(&second.stderr));
    assert_eq!(shaped.configuration(), planned);
    shaped.run_successfully(&["clear", "eth0"]);
}
