//! Members that begin anew while packets flow.

use super::*;

/// A flow of a packet each 5 ms from the first to the second member, one of which begins anew in the middle with its
/// settings. The longest time in which nothing arrived.
fn outage(world: &mut World, restarts: usize, settings: impl Fn(usize) -> Settings) -> Duration {
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
    let (mut longest, mut last, mut came) = (Duration::ZERO, world.now, world.hosts[1].delivered.len());
    let begin = world.now;
    let mut is_new = false;
    while world.now < begin + 10 * SECOND {
        if !is_new && world.now >= begin + SECOND {
            world.hosts[restarts] = Host::new(settings(restarts), 4711, world.now);
            came = world.hosts[1].delivered.len();
            is_new = true;
        }
        world.send_packet(0, 1, inner(0), 500);
        world.run(Duration::from_millis(5));
        let now = world.hosts[1].delivered.len();
        if now > came {
            longest = longest.max(world.now.saturating_since(last));
            (last, came) = (world.now, now);
        }
    }
    // What is on its way.
    world.run(Duration::from_millis(100));
    if world.hosts[1].delivered.len() > came {
        last = world.now;
    }
    longest.max(world.now.saturating_since(last))
}

/// The same between two members, and that all is well afterwards.
fn outage_of_two(restarts: usize) -> Duration {
    let mut world = World::new(2);
    world.run(2 * SECOND);
    let longest = outage(&mut world, restarts, |index| settings(index, 2));
    assert_eq!(world.flow(0, 1, 3 * SECOND), (600, 600));
    assert_eq!(world.flow(1, 0, 3 * SECOND), (600, 600));
    longest
}

#[test]
fn a_member_that_stood_still_does_not_take_its_links_to_be_down() {
    // Longer than silence of others, and than keys live.
    for seconds in [0.3, 1.0, 3.0, 20.0, 400.0] {
        let mut world = World::new(4);
        // Over a relay, of whose link to it others tell.
        world.set(0, 3, None);
        world.run(3 * SECOND);
        // What is sent to it meanwhile is lost, as where its socket is full.
        world.hosts[0].is_dead = true;
        world.run(SECOND.mul_f64(seconds));
        (world.hosts[0].is_dead, world.hosts[0].events) = (false, Vec::new());
        world.run(3 * SECOND);
        let events = Vec::from_iter(world.hosts[0].events.iter().map(|(_, e)| e));
        let of_stall = |e: &&Event| if let Event::Stalled { for_s } = e { Some(*for_s) } else { None };
        let stalls = Vec::from_iter(events.iter().filter_map(of_stall));
        // Due each 20 ms.
        assert!(stalls.len() == 1 && (seconds - 0.02..=seconds).contains(&stalls[0]), "{seconds}: {stalls:?}");
        assert!(!events.iter().any(|e| matches!(e, Event::Link { up: false, .. })), "{seconds}: {events:?}");
        assert!(!events.iter().any(|e| matches!(e, Event::Route(_))), "{seconds}: {events:?}");
        assert!((1..3).all(|peer| world.hosts[peer].is_linked(0)));
        // One that is dark indeed is found out nevertheless.
        world.set(0, 1, None);
        world.run(SECOND);
        assert!(!world.hosts[0].is_linked(1) && world.hosts[0].is_linked(2));
    }
}

#[test]
fn a_receiver_that_begins_anew_gets_packets_at_once() {
    let longest = outage_of_two(1);
    // It calls with its first tick: a round trip of 20 ms and half of one that shows that it has the keys, then the
    // sender's next tick, half a round trip of the packet, and what lies between two packets. Nothing waits for silence
    // to be noticed, which takes seconds.
    let bound = 2 * TICK + Duration::from_millis(30 + 10 + 2 * 5);
    assert!(longest <= bound, "{longest:?}");
}

#[test]
fn a_sender_that_begins_anew_sends_as_soon_as_its_link_is_known() {
    let longest = outage_of_two(0);
    // It calls with its first tick, and half a round trip behind the answer the other end has its keys. That one tells
    // within 100 ms and a tick what arrived, and with that link the first way is chosen, in the tick after: the second
    // that is waited for links is for those on which nobody answers.
    let bound = Duration::from_millis(30 + 100 + 10 + 10 + 2 * 5) + 3 * TICK;
    assert!(longest <= bound, "{longest:?}");
}

/// From the first member over three others to the second, by links that their settings tell of, with two more beside
/// the first that lead nowhere.
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
fn a_member_that_begins_anew_is_reached_over_three_relays_within_a_second() {
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

/// How long after a member wakes that slept for so long the first packet arrives from one member at another.
fn awake_again(asleep: Duration, pairs: &[(usize, usize)]) -> Vec<Duration> {
    let mut world = World::new(4);
    // The first two reach each other over the others.
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
            let came = |packet: &Vec<u8>| packet[12..16] == source.octets();
            if after.is_none() && world.hosts[*to].delivered.iter().any(came) {
                *after = Some(world.now.saturating_since(woke));
            }
        }
    }
    after.into_iter().map(|after| after.unwrap_or(60 * SECOND)).collect()
}

#[test]
fn a_member_that_slept_is_there_again_within_a_second() {
    // Its clock has gone on meanwhile, as the kernel's does that counts sleep: past the end of keys, and not.
    for asleep in [30 * SECOND, 400 * SECOND] {
        let after = awake_again(asleep, &[(2, 0), (0, 2), (1, 0), (0, 1)]);
        assert!(after.iter().all(|after| *after < SECOND), "{asleep:?}: {after:?}");
    }
}

#[test]
fn a_call_that_nobody_answered_makes_nobody_deaf() {
    // Who has the higher number does not answer who calls at the same time.
    let low = usize::from(number(1) < number(0));
    let mut world = World::new(2);
    world.run(2 * SECOND);
    // The other one calls once, after two seconds of silence, and then hears it again.
    world.hosts[low].is_dead = true;
    world.run(Duration::from_millis(2150));
    world.hosts[low].is_dead = false;
    world.run(3 * SECOND);
    let longest = outage(&mut world, low, |index| settings(index, 2));
    assert!(longest < SECOND / 2, "{longest:?}");
    assert_eq!(world.flow(0, 1, 3 * SECOND), (600, 600));
}

#[test]
fn who_begins_anew_all_the_time_keeps_others_from_nothing() {
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
