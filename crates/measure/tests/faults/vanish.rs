//! A path that fails without notice: no reset, no close.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use measure::PEER_TIMEOUT;
use results::{Completion, Direction, TestPlan, Transport};
use testbed::{Lan, Place, Served, client_options, or_skip, plan, run_test, server_options};
use wire::{Message, UdpControl};

use crate::peer::{Peer, session};
use crate::{LOCAL, STEP_TIMEOUT, assert_healthy, serve};

#[test]
fn both_ends_time_out_on_a_silent_peer() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let served = Served::start(&lan.server, server_options(lan.server_ip())).unwrap();
    let both = TestPlan {
        directions: vec![Direction::Up, Direction::Down],
        rate_bps: Some(20_000_000),
        ..plan(Duration::from_secs(55))
    };
    // The documented timeout, and 10 s: twice the grace time of 2 s, and a loaded machine.
    let limit = PEER_TIMEOUT + Duration::from_secs(10);
    std::thread::scope(|scope| {
        let options = client_options(lan.server_ip(), served.port(), both);
        let client = scope.spawn(|| run_test(&lan.client, options, Duration::from_secs(55)));
        assert!(served.has_sessions_within(1, Duration::from_secs(20)));
        std::thread::sleep(Duration::from_secs(1));
        lan.unplug(Place::Client).unwrap();
        let silent = Instant::now();
        let outcome = client.join().unwrap().unwrap();
        println!("client ended after {:?}: {:?}", silent.elapsed(), outcome.end.completion);
        assert!(silent.elapsed() < limit, "client: {:?}", silent.elapsed());
        assert!(matches!(outcome.end.completion, Completion::Failed { .. }), "{:?}", outcome.end.completion);
        assert!(served.has_sessions_within(0, limit.saturating_sub(silent.elapsed())), "the server's session stays");
        println!("server freed its session after {:?}", silent.elapsed());
    });
}

/// Validates the address of the only datagram stream of a scripted session.
fn prove_datagrams(served: &Served, name: [u8; 8]) -> UdpSocket {
    let socket = UdpSocket::bind((LOCAL, 0)).unwrap();
    socket.connect((LOCAL, served.port())).unwrap();
    socket.set_read_timeout(Some(STEP_TIMEOUT)).unwrap();
    let token = wire::stream_token(name, 0);
    let exchange = |request: UdpControl| {
        socket.send(&request.encode()).unwrap();
        let mut answer = [0; 64];
        let n = socket.recv(&mut answer).unwrap();
        UdpControl::decode(&answer[..n]).unwrap()
    };
    let UdpControl::Challenge { nonce, .. } = exchange(UdpControl::Hello { token }) else { panic!("no challenge") };
    assert!(matches!(exchange(UdpControl::Proof { token, nonce }), UdpControl::Ready { .. }));
    socket
}

#[test]
fn a_client_without_datagrams_is_ended() {
    let served = serve(|o| o.max_udp_silence = Duration::from_millis(300));
    let plan = TestPlan {
        transport: Transport::UdpConstant,
        congestion_control: None,
        block_bytes: 1000,
        rate_bps: Some(1_000_000),
        ..plan(Duration::from_secs(30))
    };
    let mut control = Peer::connect(&served);
    let name = session(&control.request(&plan));
    let _socket = prove_datagrams(&served, name);
    control.send_message(&Message::Start { clock: None });
    let reason = loop {
        match control.receive().expect("closed without a reason") {
            Message::Failed { reason } => break reason,
            Message::Started { .. } | Message::Interval(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(reason.contains("no datagram arrived"), "{reason}");
    assert!(served.has_sessions_within(0, STEP_TIMEOUT));
    assert_healthy(&served);
}
