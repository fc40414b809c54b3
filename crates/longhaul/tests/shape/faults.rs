use std::os::unix::process::CommandExt as _;

use super::{shaped, text};

const SMALL: &str = "device = \"eth0\"\n[egress]\nrate = \"100Mb/s\"\n[ingress]\nrate = \"100Mb/s\"\n";

#[test]
fn invalid_input_is_rejected_with_its_place_and_nothing_changes() {
    let Some(shaped) = shaped() else { return };
    let before = shaped.configuration();
    let cases = [
        (SMALL.replace("eth0", "eth9"), "there is no device eth9; devices are: lo, eth0"),
        (SMALL.replace("100Mb/s\"\n[ingress]", "100\"\n[ingress]"), "policy.toml:3: egress.rate: 100 has no unit"),
        (
            SMALL.replace(
                "[ingress]",
                "[egress.classes.a]\nrate = \"60Mb/s\"\n[egress.classes.b]\nrate = \"50Mb/s\"\n[ingress]",
            ),
            "the rates of its classes sum to 110 Mb/s, more than the 100 Mb/s of the direction",
        ),
        ("device = ".to_owned(), "cannot be read"),
    ];
    for (policy, message) in cases {
        let output = shaped.apply(&shaped.policy(&policy), &[]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(message), "{error}\nnot: {message}");
    }
    for arguments in [&["clear", "eth0"][..], &["confirm", "eth0"], &["show", "eth0"], &["show"]] {
        let output = shaped.run(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("shaped by longhaul"), "{}", text(&output.stderr));
    }
    assert_eq!(shaped.configuration(), before);
}

#[test]
fn a_missing_privilege_is_named() {
    let Some(shaped) = shaped() else { return };
    let policy = shaped.policy(SMALL).display().to_string();
    // The build directory may be inaccessible to other users.
    let binary = shaped.directory.path().join("longhaul");
    let copied = std::process::Command::new("cp").arg(env!("CARGO_BIN_EXE_longhaul")).arg(&binary).status().unwrap();
    assert!(copied.success());
    let open = |path: &std::path::Path| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    };
    open(shaped.directory.path());
    let mut command = std::process::Command::new(&binary);
    command.args(["shape", "apply", &policy]).env("LONGHAUL_STATE", shaped.directory.path().join("own")).uid(65_534);
    let output = shaped.host().run(|| command.output()).unwrap().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("CAP_NET_ADMIN"), "{}", text(&output.stderr));
}

#[test]
fn concurrent_applies_do_not_interfere() {
    let Some(shaped) = shaped() else { return };
    let policy = shaped.policy(SMALL).display().to_string();
    let mut children: Vec<_> = (0..8)
        .map(|_| {
            let mut command = shaped.command(&["apply", &policy]);
            command.stderr(std::process::Stdio::piped());
            shaped.host().start(&mut command).unwrap()
        })
        .collect();
    let mut succeeded = 0;
    for child in children.drain(..) {
        let output = child.wait_with_output().unwrap();
        let message = text(&output.stderr);
        match output.status.code() {
            Some(0) => succeeded += 1,
            Some(2) => assert!(message.contains("another process of longhaul is changing eth0"), "{message}"),
            other => panic!("{other:?}: {message}"),
        }
    }
    assert!(succeeded >= 1);
    assert!(shaped.run_successfully(&["show", "--json"]).contains("\"state\":\"installed\""));
    shaped.run_successfully(&["clear", "eth0"]);
}

#[test]
fn clear_removes_the_state_of_a_deleted_device() {
    let Some(shaped) = shaped() else { return };
    assert!(shaped.apply(&shaped.policy(SMALL), &[]).status.success());
    shaped.host().iproute("ip link del eth0").unwrap();
    let cleared = shaped.run(&["clear", "eth0"]);
    assert!(cleared.status.success(), "{}", text(&cleared.stderr));
    assert!(text(&cleared.stderr).contains("eth0 no longer exists"), "{}", text(&cleared.stderr));
    let links = shaped.host().iproute("ip -br link").unwrap();
    assert!(!links.contains("ifb"), "{links}");
}

#[test]
fn a_change_by_another_program_is_shown_and_kept() {
    let Some(shaped) = shaped() else { return };
    assert!(shaped.apply(&shaped.policy(SMALL), &[]).status.success());
    shaped.host().iproute("tc class change dev eth0 parent 1: classid 1:1 htb rate 55mbit").unwrap();
    let shown = shaped.run(&["show"]);
    assert_eq!(shown.status.code(), Some(1));
    let message = text(&shown.stdout);
    assert!(
        message.contains("DIFFERS from the policy") && message.contains("class 1:1: rate wanted 100Mb/s, found 55Mb/s"),
        "{message}"
    );
    shaped.host().iproute("tc qdisc replace dev eth0 root handle 9: pfifo limit 5").unwrap();
    let cleared = shaped.run(&["clear", "eth0"]);
    assert_eq!(cleared.status.code(), Some(1), "{}", text(&cleared.stderr));
    assert!(text(&cleared.stderr).contains("pfifo 9:"), "{}", text(&cleared.stderr));
    let remaining = shaped.configuration();
    assert!(remaining.contains("pfifo 9:") && !remaining.contains("ifb-eth0"), "{remaining}");
}

#[test]
fn an_existing_device_with_the_name_of_the_ifb_device_is_not_used() {
    let Some(shaped) = shaped() else { return };
    shaped.host().iproute("ip link add ifb-eth0 type ifb").unwrap();
    let refused = shaped.apply(&shaped.policy(SMALL), &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("ifb-eth0, whose name the IFB device needs, exists"),
        "{}",
        text(&refused.stderr)
    );
    assert!(!shaped.configuration().contains("htb"));
}
