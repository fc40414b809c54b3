//! Before a session: garbage, silence, wrong keys, and limits.

use std::time::Duration;

use measure::{HANDSHAKE_TIMEOUT, MeasureError};
use results::Direction;
use testbed::{Namespace, client_options, run_test};
use wire::{HELLO, Key, Message, RefuseCode};

use crate::peer::{Peer, session};
use crate::{LOCAL, STEP_TIMEOUT, assert_healthy, attempt, serve, small};

const SECOND: Duration = Duration::from_secs(1);

fn key(text: &str) -> Key {
    Key::from_file_text(text).unwrap()
}

fn good_key() -> Key {
    key("a key that both ends hold, long enough")
}

#[test]
fn garbage_is_rejected_at_once() {
    let served = serve(|_| ());
    let long = [b'7'; 100_000];
    let oversized = [HELLO, &u32::MAX.to_be_bytes(), &[0]].concat();
    let unknown_kind = [HELLO, &[0, 0, 0, 1, 77, 0]].concat();
    let no_json = [HELLO, &[0, 0, 0, 3, 0], b"{{{"].concat();
    let wrong_version = b"thrulay/2:L:999+";
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0; 64],
        &[0xff; 4096],
        &long,
        &oversized,
        &unknown_kind,
        &no_json,
        wrong_version,
    ] {
        let mut peer = Peer::connect(&served);
        peer.send(bytes);
        let took = peer.time_to_close();
        // The content causes the rejection, not the handshake timeout.
        assert!(took < HANDSHAKE_TIMEOUT - SECOND, "{:?} took {took:?}", &bytes[..bytes.len().min(20)]);
    }
    assert_healthy(&served);
}

#[test]
fn truncated_and_slow_handshakes_time_out() {
    let served = serve(|_| ());
    std::thread::scope(|scope| {
        for cut in [0, 1, HELLO.len() - 1, HELLO.len(), HELLO.len() + 3] {
            let served = &served;
            scope.spawn(move || {
                let whole = [HELLO, &[0, 0, 1, 0, 0, b'{']].concat();
                let mut peer = Peer::connect(served);
                peer.send(&whole[..cut]);
                let took = peer.time_to_close();
                assert!(took < HANDSHAKE_TIMEOUT + 5 * SECOND, "{cut} bytes: {took:?}");
            });
        }
        scope.spawn(|| {
            // The time limit applies to the whole handshake; single bytes do not extend it.
            let mut peer = Peer::connect(&served);
            let start = std::time::Instant::now();
            while peer.send(&HELLO[..1]) || peer.send(&[0]) {
                assert!(start.elapsed() < STEP_TIMEOUT, "the server still reads");
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        // Other clients are served meanwhile.
        assert_healthy(&served);
    });
    assert_healthy(&served);
}

#[test]
fn only_the_right_key_opens_a_server_with_a_key() {
    let served = serve(|o| o.key = Some(good_key()));
    let with = |key| {
        let options = measure::ClientOptions { key, ..client_options(LOCAL, served.port(), small(SECOND / 5)) };
        run_test(&Namespace::here(), options, STEP_TIMEOUT)
    };
    assert!(matches!(with(None), Err(MeasureError::KeyRequired(_))));
    assert!(matches!(with(Some(key("another key, which is wrong here"))), Err(MeasureError::ServerKey(_))));
    // The server refuses a client that sends a request without a proof.
    let mut stranger = Peer::connect(&served);
    let answer = stranger.request(&small(SECOND));
    assert!(matches!(answer, Message::Refuse { code: RefuseCode::KeyRequired, .. }), "{answer:?}");
    let mut impostor = Peer::connect(&served);
    impostor.hello();
    impostor.send_message(&Message::Request { plan: small(SECOND), proof: Some([1; 32]) });
    let answer = impostor.receive();
    assert!(matches!(answer, Some(Message::Refuse { code: RefuseCode::BadKey, .. })), "{answer:?}");

    // Neither client received data that would allow an offline guess of the key.
    for peer in [&stranger, &impostor] {
        assert!(peer.received().contains("nonce") && !peer.received().contains("proof"), "{}", peer.received());
    }

    let outcome = with(Some(good_key())).unwrap();
    assert!(outcome.end.directions[0].agreement.agree);
    assert!(served.has_sessions_within(0, STEP_TIMEOUT));
}

#[test]
fn a_client_accepts_only_a_server_that_proves_the_key() {
    // A server with another key cannot verify the client's proof, and has no valid proof of its own.
    let listener = std::net::TcpListener::bind((LOCAL, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let pretender = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(wire::GREETING).unwrap();
        let encode = |m: &Message| m.encode_frame().unwrap();
        let challenge =
            Message::Challenge { software: "x".to_owned(), nonce: [1; 16], key_required: true, fill: String::new() };
        stream.write_all(&encode(&challenge)).unwrap();
        let accept = Message::Accept {
            session: [1; 8],
            plan: small(SECOND),
            notes: vec![],
            host: kernel::host_report("1", None),
            udp_port: 0,
            proof: Some([9; 32]),
        };
        stream.write_all(&encode(&accept)).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let options = measure::ClientOptions { key: Some(good_key()), ..client_options(LOCAL, port, small(SECOND)) };
    let refused = run_test(&Namespace::here(), options, STEP_TIMEOUT);
    assert!(matches!(refused, Err(MeasureError::ServerKey(_))), "{:?}", refused.err());
    pretender.join().unwrap();
}

#[test]
fn a_client_with_a_key_uses_a_server_without_one() {
    let served = serve(|_| ());
    let options =
        measure::ClientOptions { key: Some(good_key()), ..client_options(LOCAL, served.port(), small(SECOND / 5)) };
    assert!(run_test(&Namespace::here(), options, STEP_TIMEOUT).is_ok());
}

#[test]
fn joins_of_no_session_or_of_another_stream_are_refused() {
    let served = serve(|_| ());
    let answer = Peer::connect(&served).join([9; 8], 0, Direction::Up);
    assert!(matches!(answer, Some(Message::Refuse { code: RefuseCode::BadRequest, .. })), "{answer:?}");

    // A join of an unplanned stream ends its session, not the server.
    let mut control = Peer::connect(&served);
    let name = session(&control.request(&small(SECOND)));
    let _data = Peer::connect(&served).join(name, 5, Direction::Down);
    assert!(control.time_to_close() < HANDSHAKE_TIMEOUT);
    assert!(served.has_sessions_within(0, STEP_TIMEOUT));
    assert_healthy(&served);
}

#[test]
fn a_server_at_its_limit_refuses_and_releases_the_session_of_a_leaving_client() {
    let served = serve(|o| o.max_sessions = 1);
    let mut idle = Peer::connect(&served);
    let _ = session(&idle.request(&small(SECOND)));
    let refused = attempt(&served, small(SECOND / 5)).unwrap_err();
    assert!(matches!(refused, MeasureError::Refused { code: RefuseCode::Busy, .. }), "{refused}");
    assert!(refused.to_string().contains("limit"), "{refused}");
    // The first client never joined; its close releases the session at once.
    drop(idle);
    assert!(served.has_sessions_within(0, STEP_TIMEOUT));
    assert_healthy(&served);
}

#[test]
fn a_disallowed_test_is_refused_with_the_reason() {
    let served = serve(|o| {
        o.max_duration = 2 * SECOND;
        o.max_sessions_per_address = 0;
    });
    let refused = attempt(&served, small(3 * SECOND)).unwrap_err();
    assert!(matches!(refused, MeasureError::Refused { code: RefuseCode::TooLong, .. }), "{refused}");
    let refused = attempt(&served, small(SECOND)).unwrap_err();
    assert!(matches!(refused, MeasureError::Refused { code: RefuseCode::TooManyFromAddress, .. }), "{refused}");

    let fenced = serve(|o| o.allow = vec!["192.0.2.0/24".parse().unwrap()]);
    let refused = attempt(&fenced, small(SECOND)).unwrap_err();
    assert!(matches!(refused, MeasureError::Rejected { .. }), "{refused}");
    assert!(refused.to_string().contains("allow list"), "{refused}");
}
