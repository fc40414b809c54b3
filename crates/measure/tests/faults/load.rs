//! During sessions: many clients at once, vanishing peers, and a server shutdown.

use std::time::{Duration, Instant};

use measure::MeasureError;
use results::{Completion, Direction, TestPlan};
use testbed::{Namespace, Served, client_options, run_test};
use wire::Message;

use crate::peer::{Peer, session};
use crate::proxy::Proxy;
use crate::{LOCAL, STEP_TIMEOUT, assert_healthy, attempt, serve, small};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn sixty_four_clients_at_once_finish_or_are_refused_with_a_reason() {
    kernel::raise_open_files();
    // The server admits fewer sessions than there are clients, so that both outcomes occur.
    let served = serve(|o| o.max_sessions = 48);
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..64).map(|_| scope.spawn(|| attempt(&served, small(SECOND)))).collect();
        clients.into_iter().map(|c| c.join().unwrap()).collect()
    });
    let mut finished = 0;
    for outcome in outcomes {
        match outcome {
            Ok(o) => {
                assert_eq!(o.end.completion, Completion::Complete, "{:?}", o.end.warnings);
                assert!(o.end.directions[0].agreement.agree, "{:?}", o.end.directions[0].agreement);
                finished += 1;
            }
            Err(MeasureError::Refused { reason, .. }) => assert!(reason.contains("limit"), "{reason}"),
            Err(e) => panic!("neither finished nor refused: {e}"),
        }
    }
    println!("{finished} of 64 finished");
    assert!(finished >= 48, "{finished}");
    assert!(served.has_sessions_within(0, STEP_TIMEOUT), "{} sessions are left", served.sessions());
    assert_healthy(&served);
}

/// Starts a session by hand with a running load. Returns its control and data connection.
fn start(served: &Served, plan: &TestPlan) -> (Peer, Peer) {
    let mut control = Peer::connect(served);
    let name = session(&control.request(plan));
    let mut data = Peer::connect(served);
    let answer = data.join(name, 0, plan.directions[0]);
    assert!(matches!(answer, Some(Message::Joined { .. })), "{answer:?}");
    control.send_message(&Message::Start { clock: None });
    let answer = control.receive();
    assert!(matches!(answer, Some(Message::Started { .. })), "{answer:?}");
    (control, data)
}

#[test]
fn a_client_that_dies_in_the_middle_frees_its_session() {
    let served = serve(|_| ());
    for direction in [Direction::Up, Direction::Down] {
        let plan = TestPlan { directions: vec![direction], ..small(20 * SECOND) };
        let connections = start(&served, &plan);
        assert_eq!(served.sessions(), 1);
        let died = Instant::now();
        // The kernel closes the sockets of a killed process in the same manner.
        drop(connections);
        assert!(served.has_sessions_within(0, STEP_TIMEOUT), "{direction:?}");
        // The closed connection ends the session before its timeout.
        assert!(died.elapsed() < 10 * SECOND, "{direction:?}: {:?}", died.elapsed());
    }
    assert_healthy(&served);
}

#[test]
fn both_ends_report_lost_connections_soon() {
    let served = serve(|_| ());
    for directions in [vec![Direction::Up], vec![Direction::Down], vec![Direction::Up, Direction::Down]] {
        let proxy = Proxy::to(&served);
        let plan = TestPlan { directions: directions.clone(), ..small(20 * SECOND) };
        let options = client_options(LOCAL, proxy.port(), plan);
        let client = std::thread::spawn(|| run_test(&Namespace::here(), options, STEP_TIMEOUT));
        assert!(served.has_sessions_within(1, STEP_TIMEOUT));
        std::thread::sleep(SECOND);
        let cut = Instant::now();
        proxy.cut();
        let outcome = client.join().unwrap().unwrap();
        assert!(served.has_sessions_within(0, STEP_TIMEOUT), "{directions:?}");
        // The closed connections end the session before its timeout.
        assert!(cut.elapsed() < 10 * SECOND, "{directions:?}: {:?}", cut.elapsed());
        let Completion::Failed { reason } = &outcome.end.completion else { panic!("{:?}", outcome.end.completion) };
        println!("{directions:?}: {reason} after {:?}", cut.elapsed());
        // The data measured so far is reported, without an agreement of the counts.
        assert!(!outcome.intervals.is_empty());
        assert!(outcome.end.directions.iter().all(|d| !d.agreement.agree));
    }
    assert_healthy(&served);
}

#[test]
fn a_test_with_a_broken_stream_is_not_complete() {
    let served = serve(|_| ());
    let proxy = Proxy::to(&served);
    let options = client_options(LOCAL, proxy.port(), small(20 * SECOND));
    let client = std::thread::spawn(|| run_test(&Namespace::here(), options, STEP_TIMEOUT));
    assert!(served.has_sessions_within(1, STEP_TIMEOUT));
    std::thread::sleep(SECOND);
    proxy.cut_data();
    let outcome = client.join().unwrap().unwrap();
    let Completion::Failed { reason } = &outcome.end.completion else { panic!("{:?}", outcome.end.completion) };
    assert!(reason.contains("stream 0 broke off"), "{reason}");
    assert!(!outcome.intervals.is_empty(), "the earlier intervals are reported");
    assert!(served.has_sessions_within(0, STEP_TIMEOUT));
    assert_healthy(&served);
}

#[test]
fn a_lost_data_connection_ends_the_test_with_the_data_so_far() {
    let served = serve(|_| ());
    let (control, data) = start(&served, &small(20 * SECOND));
    drop(data);
    // The stream has ended; the server reports, and waits for the end of the session only for a limited time.
    assert!(control.time_to_close() < STEP_TIMEOUT);
    assert!(served.has_sessions_within(0, STEP_TIMEOUT));
    assert_healthy(&served);
}

#[test]
fn data_without_blocks_affects_no_other_session() {
    let served = serve(|_| ());
    let (control, mut data) = start(&served, &small(20 * SECOND));
    for n in 0..200_u32 {
        let noise: Vec<u8> = (0..4099_u32).map(|i| (i.wrapping_mul(n ^ 0x9e37_79b9) >> 13) as u8).collect();
        data.send(&noise);
    }
    drop((control, data));
    assert!(served.has_sessions_within(0, STEP_TIMEOUT));
    assert_healthy(&served);
}

#[test]
fn a_server_shutdown_waits_for_the_running_test() {
    let served = serve(|o| o.grace = 20 * SECOND);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| attempt(&served, small(2 * SECOND)));
        assert!(served.has_sessions_within(1, STEP_TIMEOUT));
        std::thread::sleep(SECOND / 2);
        served.ask_to_end();
        let outcome = running.join().unwrap().unwrap();
        assert_eq!(outcome.end.completion, Completion::Complete, "{:?}", outcome.end.warnings);
    });
    // Without running sessions the server does not wait for its grace time.
    assert!(served.has_ended_within(10 * SECOND));
}

#[test]
fn an_immediate_server_shutdown_ends_all_clients() {
    let served = serve(|_| ());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| attempt(&served, small(20 * SECOND)));
        assert!(served.has_sessions_within(1, STEP_TIMEOUT));
        std::thread::sleep(SECOND);
        let shutdown_at = Instant::now();
        served.ask_to_end();
        served.ask_to_end();
        let outcome = running.join().unwrap().unwrap();
        assert!(shutdown_at.elapsed() < 10 * SECOND, "{:?}", shutdown_at.elapsed());
        assert!(matches!(outcome.end.completion, Completion::Failed { .. }), "{:?}", outcome.end.completion);
    });
    assert!(served.has_ended_within(10 * SECOND));
}
