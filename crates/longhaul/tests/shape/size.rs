use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use super::{Shaped, shaped};

const BY_SIZE: &str = r#"device = "eth0"
[elephants]
bytes = "200kB"
[egress]
rate = "500Mb/s"
default = "elephants"
[egress.classes.mice]
rate = "50%"
ceiling = "100%"
match = { size = "mouse" }
[egress.classes.elephants]
rate = "50%"
ceiling = "100%"
"#;

/// Sends data from the shaped host and waits until it has arrived.
fn send(shaped: &Shaped, bytes: usize) {
    let listener = shaped.lan.server.run(|| TcpListener::bind((shaped.lan.server_ip(), 0))).unwrap().unwrap();
    let to = listener.local_addr().unwrap();
    let receive = shaped.lan.server.spawn("receiver", move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all.len()
    });
    shaped.host().run(|| TcpStream::connect(to).unwrap().write_all(&vec![0; bytes]).unwrap()).unwrap();
    assert_eq!(receive.unwrap().join().unwrap().unwrap(), bytes);
}

/// Returns the bytes that a class has sent, as reported by tc.
fn sent(shaped: &Shaped, class: &str) -> u64 {
    let shown = shaped.host().iproute(&format!("tc -s class show dev eth0 classid {class}")).unwrap();
    shown.split("Sent ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_flow_is_a_mouse_until_it_exceeds_the_limit() {
    let Some(shaped) = shaped() else { return };
    let applied = shaped.apply(&shaped.policy(BY_SIZE), &[]);
    assert!(applied.status.success(), "{}", super::text(&applied.stderr));
    for _ in 0..5 {
        send(&shaped, 20_000);
    }
    let (mice, elephants) = (sent(&shaped, "1:10"), sent(&shaped, "1:11"));
    // The class counts frames: data, headers and handshakes.
    assert!((100_000..130_000).contains(&mice), "{mice}");
    // The default class has only ARP and neighbour discovery, which belong to no flow.
    assert!(elephants < 2_000, "{elephants}");

    send(&shaped, 3_000_000);
    let (mice, elephants) = (sent(&shaped, "1:10") - mice, sent(&shaped, "1:11") - elephants);
    // The packet that passes the limit belongs to the elephant; it may be a super-packet of up to 64 KiB.
    assert!((130_000..=200_000).contains(&mice), "{mice}");
    // Headers are 66 of 1514 bytes.
    assert!((2_800_000..3_050_000).contains(&elephants), "{elephants}");
    let shown = shaped.run_successfully(&["show", "--json"]);
    assert!(shown.contains("\"elephants\":1"), "{shown}");
    shaped.run_successfully(&["clear", "eth0"]);
}
