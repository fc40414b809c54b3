use testbed::{Ended, kill_at_call};

use super::shaped;

/// Both directions, and a class by size, so that every kind of object is made.
const POLICY: &str = r#"device = "eth0"
[egress]
rate = "100Mb/s"
default = "rest"
[egress.classes.mice]
rate = "20%"
ceiling = "100%"
match = { size = "mouse" }
[egress.classes.rest]
rate = "80%"
[ingress]
rate = "100Mb/s"
"#;

/// A call of the main thread that comes before any that could change something: the program has been loaded and has
/// read its arguments long after.
const FIRST: usize = 40;

#[test]
fn an_applier_killed_at_any_call_leaves_the_device_as_before_or_as_planned() {
    let Some(shaped) = shaped() else { return };
    // Something to bring back.
    shaped.host().iproute("tc qdisc add dev eth0 root handle 5: tbf rate 77mbit burst 10k latency 50ms").unwrap();
    let before = shaped.everything();
    let policy = shaped.policy(POLICY).display().to_string();
    let arguments = ["apply", policy.as_str(), "--replace", "--for", "1h"];
    assert!(shaped.run(&arguments).status.success());
    let planned = shaped.everything();
    shaped.done(&["clear", "eth0"]);
    assert_eq!(shaped.everything(), before);

    let (mut killed_before, mut killed_after) = (0, 0);
    for call in FIRST.. {
        let mut command = shaped.command(&arguments);
        let ended = shaped.host().run(|| kill_at_call(&mut command, call)).unwrap().unwrap();
        let found = shaped.everything();
        assert!(found == before || found == planned, "killed at call {call}:\n{found}");
        if let Ended::ByItself(status) = ended {
            assert!(status.success() && found == planned, "{status}: {found}");
            break;
        }
        if found == before {
            killed_before += 1;
        } else {
            killed_after += 1;
        }
        // Whatever was noted is enough to bring back what was there.
        let cleared = shaped.run(&["clear", "eth0"]);
        assert!(cleared.status.success() || found == before, "killed at call {call}");
        assert_eq!(shaped.everything(), before, "killed at call {call}");
    }
    shaped.done(&["clear", "eth0"]);
    assert_eq!(shaped.everything(), before);
    eprintln!("killed at {killed_before} calls before the change and {killed_after} after");
    assert!(killed_before > 10 && killed_after > 10, "{killed_before} {killed_after}");
}
