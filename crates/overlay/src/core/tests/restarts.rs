//! Restarts and stalls of members while packets flow.

use super::*;

/// Sends a packet every 5 ms from the first to the second member, one of which restarts with its settings meanwhile.
/// Returns the longest interval without a delivered packet.
fn outage(world: &mut World, restarts: usize, settings: impl Fn(usize) -> Settings) -> Duration {
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
    let (mut longest, mut last, mut received) = (Duration::ZERO, world.now, world.hosts[1].delivered.len());
    let start = world.now;
    let mut is_restarted = false;
    while world.now < start + 10 * SECOND {
        if !is_restarted && world.now >= start + SECOND {
            world.hosts[restarts] = Host::new(settings(restarts), 4711, world.now);
            received = world.hosts[1].delivered.len();
            is_restarted = true;
        }
        world.send_packet(0, 1, inner(0), 500);
        world.run(Duration::from_millis(5));
        let now = world.hosts[1].delivered.len();
        if now > received {
            longest = longest.max(world.now.saturating_since(last));
            (last, received) = (world.now, now);
        }
    }
    // Packets in flight.
    world.run(Duration::from_millis(100));
    if world.hosts[1].delivered.len() > received {
        last = world.now;
    }
    longest.max(world.now.saturating_since(last))
}

/// The outage of two members, after which both directions work.
fn outage_of_two(restarts: usize) -> Duration {
    let mut world = World::new(2);
    world.run(2 * SECOND);
    let longest = outage(&mut world, restarts, |index| settings(index, 2));
    assert_eq!(world.flow(0, 1, 3 * SECOND), (600, 600));
    assert_eq!(world.flow(1, 0, 3 * SECOND), (600, 600));
    longest
}

#[test]
fn a_stalled_member_does_not_take_its_links_down() {
    // Below and above the link timeout, and above the lifetime of a session.
    for seconds in [0.3, 1.0, 3.0, 20.0, 400.0] {
        let mut world = World::new(4);
        // Over a relay, whose links others advertise.
        world.set(0, 3, None);
        world.run(3 * SECOND);
        // Datagrams sent to it meanwhile are lost, as in a full receive buffer.
        world.hosts[0].is_dead = true;
        world.run(SECOND.mul_f64(seconds));
        (world.hosts[0].is_dead, world.hosts[0].events) = (false, Vec::new());
        world.run(3 * SECOND);
        let events = Vec::from_iter(world.hosts[0].events.iter().map(|(_, e)| e));
        let of_stall = |e: &&Event| if let Event::Stalled { for_s } = e { Some(*for_s) } else { None };
        let stalls = Vec::from_iter(events.iter().filter_map(of_stall));
        // The tick of 20 ms bounds the error.
        assert!(stalls.len() == 1 && (seconds - 0.02..=seconds).contains(&stalls[0]), "{seconds}: {stalls:?}");
        assert!(!events.iter().any(|e| matches!(e, Event::Link { up: false, .. })), "{seconds}: {events:?}");
        assert!(!events.iter().any(|e| matches!(e, Event::Route(_))), "{seconds}: {events:?}");
        assert!((1..3).all(|peer| world.hosts[peer].is_linked(0)));
        // A real failure of a link is still detected.
        world.set(0, 1, None);
        world.run(SECOND);
        assert!(!world.hosts[0].is_linked(1) && world.hosts[0].is_linked(2));
    }
}

#[test]
fn a_restarted_receiver_receives_packets_at_once() {
    let longest = outage_of_two(1);
    // It initiates in its first tick: a round trip of 20 ms and half of one for the key confirmation, then the sender's
    // next tick, half a round trip of the packet, and the interval between two packets. No link timeout, which takes
    // seconds, is involved.
    let bound = 2 * TICK + Duration::from_millis(30 + 10 + 2 * 5);
    assert!(longest <= bound, "{longest:?}");
}

#[test]
fn a_restarted_sender_sends_as_soon_as_its_link_is_measured() {
    let longest = outage_of_two(0);
    // It initiates in its first tick, and half a round trip after the response its peer has the session. The peer
    // reports received frames within 100 ms and a tick, and the next tick selects the first route: the initial wait of
    // one second applies only to links without a response.
    let bound = Duration::from_millis(30 + 100 + 10 + 10 + 2 * 5) + 3 * TICK;
    assert!(longest <= bound, "{longest:?}");
}

/// Settings of a chain from the first member over three others to the second, with two more links of the first member
/// that lead nowhere.
fn chain(index: usize) -> Settings {
    let is_linked =
        |a: usize, b: usize| matches!((a.min(b), a.max(b)), (0, 2) | (2, 3) | (3, 4) | (1, 4) | (0, 5) | (0, 6));
    let settings = settings(index, 7);
    settings.members.change(|all| {
        for peer in (0..7).filter(|o| !is_linked(index, *o)) {
            all.entry(number(peer)).and_modify(|m| m.direct = false);
        }
    });
    settings
}

#[test]
fn a_restarted_member_is_reachable_over_three_relays_within_a_second() {
    for restarts in [0, 1] {
        let mut world = World::new(7);
        let now = world.now;
        world.hosts = (0..7).map(|i| Host::new(chain(i), i as u64 + 7, now)).collect();
        world.run(5 * SECOND);
        let longest = outage(&mut world, restarts, chain);
        assert!(longest < SECOND, "{restarts}: {longest:?}");
        for (from, to) in [(0, 1), (1, 0)] {
            assert_eq!(world.flow(from, to, 3 * SECOND), (600, 600));
        }
    }
}

/// The time from a member's resumption after a sleep to the first packet delivered for each pair.
fn recovery_after_sleep(asleep: Duration, pairs: &[(usize, usize)]) -> Vec<Duration> {
    let mut world = World::new(4);
    // The first two members have a relayed path only.
    world.set(0, 1, None);
    world.run(5 * SECOND);
    world.hosts[0].is_dead = true;
    world.run(asleep);
    world.hosts[0].is_dead = false;
    let (woke, mut after) = (world.now, vec![None; pairs.len()]);
    while after.iter().any(Option::is_none) && world.now < woke + 60 * SECOND {
        for (from, to) in pairs {
            world.send_packet(*from, *to, inner(*from), 500);
        }
        world.run(Duration::from_millis(5));
        for ((from, to), after) in pairs.iter().zip(&mut after) {
            let IpAddr::V4(source) = inner(*from) else { continue };
            let received = |packet: &Vec<u8>| packet[12..16] == source.octets();
            if after.is_none() && world.hosts[*to].delivered.iter().any(received) {
                *after = Some(world.now.saturating_since(woke));
            }
        }
    }
    after.into_iter().map(|after| after.unwrap_or(60 * SECOND)).collect()
}

#[test]
fn a_member_is_reachable_within_a_second_after_a_sleep() {
    // The clock includes the sleep, as the kernel's boot time does: within and beyond the lifetime of a session.
    for asleep in [30 * SECOND, 400 * SECOND] {
        let after = recovery_after_sleep(asleep, &[(2, 0), (0, 2), (1, 0), (0, 1)]);
        assert!(after.iter().all(|after| *after < SECOND), "{asleep:?}: {after:?}");
    }
}

#[test]
fn an_unanswered_initiation_does_not_block_later_handshakes() {
    // The member with the higher number does not respond to a simultaneous initiation.
    let low = usize::from(number(1) < number(0));
    let mut world = World::new(2);
    world.run(2 * SECOND);
    // The peer initiates once, after two seconds of silence, and then receives frames again.
    world.hosts[low].is_dead = true;
    world.run(Duration::from_millis(2150));
    world.hosts[low].is_dead = false;
    world.run(3 * SECOND);
    let longest = outage(&mut world, low, |index| settings(index, 2));
    assert!(longest < SECOND / 2, "{longest:?}");
    assert_eq!(world.flow(0, 1, 3 * SECOND), (600, 600));
}

#[test]
fn constant_restarts_of_a_member_cause_few_sessions() {
    let mut world = World::new(2);
    world.run(2 * SECOND);
    world.hosts[0].events.clear();
    for seed in 0..60 {
        let now = world.now;
        world.hosts[1] = Host::new(settings(1, 2), seed, now);
        world.run(Duration::from_millis(50));
    }
    let is_session = |(_, e): &&(Instant, Event)| matches!(e, Event::Session { .. });
    let sessions = world.hosts[0].events.iter().filter(is_session).count();
    assert!((2..=4).contains(&sessions), "{sessions} within three seconds");
}
