//! A path that goes away without a word: no reset, no end of connection.

use std::time::{Duration, Instant};

use measure::PEER_TIMEOUT;
use results::{Completion, Direction, TestPlan};
use testbed::{Lan, Place, Served, client_options, or_skip, plan, run_test, server_options};

#[test]
fn both_ends_give_up_on_a_peer_that_falls_silent() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let served = Served::start(&lan.server, server_options(lan.server_ip())).unwrap();
    let both = TestPlan {
        directions: vec![Direction::Up, Direction::Down],
        rate_bps: Some(20_000_000),
        ..plan(Duration::from_secs(55))
    };
    // The stated timeout, and 10 s: the grace of 2 s twice, and a loaded machine.
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
