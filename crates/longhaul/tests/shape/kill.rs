use testbed::{Ended, kill_at_call};

use super::shaped;

/// Policy with both directions and a class by size, so that every kind of object is created.
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

/// First system call of the main thread at which the process is killed. Loading the program and parsing its arguments
/// take more calls than this, so nothing can have changed before it.
const FIRST_CALL: usize = 40;

#[test]
fn an_applier_killed_at_any_call_leaves_the_device_as_before_or_as_planned() {
    let Some(shaped) = shaped() else { return };
    // A configuration of another program, which must be restored.
    shaped.host().iproute("tc qdisc add dev eth0 root handle 5: tbf rate 77mbit burst 10k latency 50ms").unwrap();
    let before = shaped.configuration();
    let policy = shaped.policy(POLICY).display().to_string();
    let arguments = ["apply", policy.as_str(), "--replace", "--for", "1h"];
    assert!(shaped.run(&arguments).status.success());
    let planned = shaped.configuration();
    shaped.run_successfully(&["clear", "eth0"]);
    assert_eq!(shaped.configuration(), before);

    let (mut killed_before, mut killed_after) = (0, 0);
    for call in FIRST_CALL.. {
        let mut command = shaped.command(&arguments);
        let ended = shaped.host().run(|| kill_at_call(&mut command, call)).unwrap().unwrap();
        let found = shaped.configuration();
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
        // The recorded state is sufficient to restore the previous configuration.
        let cleared = shaped.run(&["clear", "eth0"]);
        assert!(cleared.status.success() || found == before, "killed at call {call}");
        assert_eq!(shaped.configuration(), before, "killed at call {call}");
    }
    shaped.run_successfully(&["clear", "eth0"]);
    assert_eq!(shaped.configuration(), before);
    eprintln!("killed at {killed_before} calls before the change and {killed_after} after");
    assert!(killed_before > 10 && killed_after > 10, "{killed_before} {killed_after}");
}
