//! What members can do to others by what they say: of links, of what arrived, of trains.

use wire::overlay::SpaceReport;

use super::*;

/// What a member says instead of what it knows.
pub(super) struct Lies {
    pub(super) by: usize,
    pub(super) advertisement: fn(LinkAdvertisement) -> LinkAdvertisement,
    pub(super) message: fn(Message) -> Message,
}

pub(super) const NONE: Lies = Lies { by: 0, advertisement: |c| c, message: |m| m };

pub(super) fn message(lies: Option<&Lies>, from: Member, message: Message) -> Message {
    match lies.filter(|l| number(l.by) == from) {
        Some(lies) => (lies.message)(message),
        None => message,
    }
}

fn praise(advertisement: LinkAdvertisement) -> LinkAdvertisement {
    LinkAdvertisement {
        rtt_us: 1,
        loss: 0.0,
        low: 0.0,
        high: 1e-6,
        frames: 1e6,
        capacity_bps: Some(10_000_000_000),
        ..advertisement
    }
}

/// Everything arrived.
fn all_arrived(message: Message) -> Message {
    let Message::Report(spaces) = message else { return message };
    Message::Report(spaces.into_iter().map(|l| SpaceReport { received: l.sent, ..l }).collect())
}

const LOSSY: Wire = Wire { loss: 0.3, ..WIRE };

/// Packets of the flow from the first to the second member that were lost, each second.
fn lost_each_second(world: &mut World, seconds: usize) -> Vec<usize> {
    let mut lost = Vec::new();
    for _ in 0..seconds {
        let (sent, arrived) = world.flow(0, 1, SECOND);
        lost.push(200 - arrived.min(200).min(sent));
    }
    lost
}

/// After five seconds a liar's link is used no more, but for looks at it.
fn is_left(world: &mut World) {
    let lost = lost_each_second(world, 30);
    let after: usize = lost[5..].iter().sum();
    let of = 200 * 25;
    assert!(after * 50 < of, "{after} of {of} packets lost: {lost:?}");
}

#[test]
fn a_relay_that_praises_a_lossy_link_to_it_is_left() {
    // To the second member by the third and fourth, or by the third and fifth: the fourth says that its link from the
    // third is perfect.
    let mut world = World::new(5);
    for (a, b) in [(0, 1), (0, 3), (0, 4), (1, 2), (3, 4)] {
        world.set(a, b, None);
    }
    world.set(2, 3, Some(LOSSY));
    world.set(2, 4, Some(Wire { delay: Duration::from_millis(20), ..WIRE }));
    world.lies = Some(Lies { by: 3, advertisement: praise, ..NONE });
    world.run(5 * SECOND);
    is_left(&mut world);
}

#[test]
fn a_destination_that_praises_a_lossy_link_to_it_is_reached_by_another() {
    let mut world = World::new(4);
    world.set(0, 1, None);
    world.lies = Some(Lies { by: 1, advertisement: praise, ..NONE });
    world.run(5 * SECOND);
    let used = (2..4).find(|i| world.hosts[0].paths(1)[0].contains(&number(*i).to_string())).unwrap();
    world.set(1, used, Some(LOSSY));
    is_left(&mut world);
    let why = world.hosts[0].events.iter().find_map(|(_, e)| {
        let Event::LinkSuspected { from, to, why } = e else { return None };
        (*from == format!("m{used}") && to == "m1").then_some(why.as_str())
    });
    let per_cent = why.and_then(|w| w.strip_prefix("a loss of at least ")?.strip_suffix(" %"));
    let share = per_cent.unwrap().parse::<f64>().unwrap() / 100.0;
    // 0.3 of forty frames at least, with a standard deviation of 0.07: two of them.
    assert!((0.15..0.45).contains(&share), "{why:?}");
}

#[test]
fn a_relay_that_reports_what_never_arrived_is_left() {
    let mut world = World::new(4);
    world.set(0, 1, None);
    world.set(0, 2, Some(LOSSY));
    world.set(0, 3, Some(Wire { delay: Duration::from_millis(20), ..WIRE }));
    world.lies = Some(Lies { by: 2, message: all_arrived, ..NONE });
    world.run(5 * SECOND);
    is_left(&mut world);
}

/// Reports have waited for as long as they were on their way, so that nothing is left of the round trip.
fn near(message: Message) -> Message {
    let Message::Report(spaces) = message else { return message };
    Message::Report(spaces.into_iter().map(|l| SpaceReport { held: l.held + 199_000, ..l }).collect())
}

#[test]
fn a_relay_that_says_it_is_near_is_left() {
    // It says so to all, or only to the first, whose link to it is the only one that looks short then.
    let advertisements: [fn(LinkAdvertisement) -> LinkAdvertisement; 2] =
        [|c| LinkAdvertisement { rtt_us: 1000, ..c }, |c| c];
    for advertisement in advertisements {
        let mut world = World::new(4);
        world.set(0, 1, None);
        for (relay, ms) in [(2, 100), (3, 20)] {
            let wire = Wire { delay: Duration::from_millis(ms), loss: 0.003, ..WIRE };
            world.set(0, relay, Some(wire));
            world.set(relay, 1, Some(wire));
        }
        let through = |world: &World, relay: usize| world.hosts[0].paths(1)[0].contains(&number(relay).to_string());
        world.run(5 * SECOND);
        world.flow(0, 1, 15 * SECOND);
        assert!(!through(&world, 2));
        world.lies = Some(Lies { by: 2, advertisement, message: near });
        world.flow(0, 1, 30 * SECOND);
        assert!(through(&world, 2), "it draws traffic: {:?}", world.hosts[0].paths(1));
        // Each way over it is longer for half a minute, after 20 s in which that was not yet known: then it is left,
        // and only looked at from time to time.
        world.flow(0, 1, 90 * SECOND);
        let mut there = 0;
        for _ in 0..120 {
            world.flow(0, 1, SECOND);
            there += usize::from(through(&world, 2));
        }
        // Of sixteen such worlds 3 to 7.
        assert!(there <= 9, "{there} of 120 seconds: {:?}", world.hosts[0].paths(1));
    }
}

#[test]
fn who_reports_what_never_arrived_harms_only_itself() {
    let mut world = World::new(3);
    world.set(0, 2, Some(LOSSY));
    world.lies = Some(Lies { by: 2, advertisement: praise, message: all_arrived });
    world.run(5 * SECOND);
    let lost = lost_each_second(&mut world, 20);
    assert_eq!(lost.iter().sum::<usize>(), 0, "{lost:?}");
}

/// Trains get longer as long as they come too soon, and go on as long as they do not agree.
#[test]
fn who_says_that_nothing_fits_is_believed_no_further_than_every_link_goes() {
    // The destination, of the second hop, and to the relay, of what it sends itself. A way that carries nothing would
    // lose nothing, and so be kept.
    let silent = |message| if let Message::SizeIs { .. } = message { Message::SizeIs { bytes: 1 } } else { message };
    let mut world = World::new(3);
    world.set(0, 1, None);
    world.lies = Some(Lies {
        by: 1,
        advertisement: |advertisement| LinkAdvertisement { datagram: Some(1), ..advertisement },
        message: silent,
    });
    world.run(5 * SECOND);
    let path = world.hosts[0].core.routes(number(1)).first().map(|w| w.path).unwrap();
    // 1280 bytes are what every link carries; 48 of IPv6 and UDP, 56 of the envelope and 40 of the frame are no
    // packet's.
    let most = packet_max(&world.hosts[0].core, &path);
    assert!((1100..1280).contains(&most), "{most}");
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
}

fn trains_seen(message: Message, most: u64) -> Message {
    let Message::TrainSeen { number, .. } = message else { return message };
    Message::TrainSeen { number, span: 0, bps: most >> (number % 5) }
}

#[test]
fn a_liar_draws_no_more_trains_than_the_fastest_link_would() {
    let bytes_sent = |message: fn(Message) -> Message| {
        let mut world = World::new(2);
        for index in 0..2 {
            let settings = Settings { capacity: None, ..settings(index, 2) };
            world.hosts[index] = Host::new(settings, 5 + index as u64, world.now);
        }
        world.lies = Some(Lies { by: 1, message, ..NONE });
        world.run(5 * SECOND);
        world.seen.clear();
        world.run(20 * SECOND);
        let sent = world.seen.iter().filter(|(from, _, _)| *from == 0);
        sent.map(|(_, _, d)| d.len()).sum::<usize>() as f64 * 8.0 / 20.0
    };
    let fastest = capacity::fastest(&settings(0, 2)).as_bps() as f64;
    let lies: [fn(Message) -> Message; 3] =
        [|m| trains_seen(m, u64::MAX), |m| trains_seen(m, 100_000_000_000), |m| trains_seen(m, 1_700_000_000)];
    for lie in lies {
        let drawn = bytes_sent(lie);
        // The share of a link that probes and trains may cost, and what goes on besides.
        assert!(drawn < 0.01 * fastest * 1.2 + 500_000.0, "{drawn} b/s");
    }
}

#[test]
fn a_claim_that_was_held_back_makes_no_way() {
    for (age, paths) in [(Duration::ZERO, 1), (60 * SECOND, 0)] {
        let mut world = World::new(3);
        world.set(0, 1, None);
        let old = |c| LinkAdvertisement { age: 60 * SECOND, ..c };
        world.lies = Some(Lies { by: 1, advertisement: if age.is_zero() { |c| c } else { old }, ..NONE });
        world.run(4 * SECOND);
        assert_eq!(world.hosts[0].paths(1).len(), paths, "{age:?}");
    }
}

#[test]
fn who_says_that_more_came_than_was_sent_is_not_believed() {
    let mut world = World::new(2);
    world.run(2 * SECOND);
    let more = |message| {
        let Message::Report(spaces) = message else { return message };
        Message::Report(spaces.into_iter().map(|l| SpaceReport { bytes: l.bytes.saturating_mul(48), ..l }).collect())
    };
    world.lies = Some(Lies { by: 1, message: more, ..NONE });
    world.flow(0, 1, 3 * SECOND);
    world.seen.clear();
    world.flow(0, 1, 2 * SECOND);
    // No frame has more than the device's MTU.
    let frames = world.seen.iter().filter(|(from, _, d)| *from == 0 && d[0] == 0xb4).count() as u64;
    let most = frames * u64::from(crate::DEFAULT_MTU) * 8 / 2;
    let told = world.hosts[0].core.net.peers[&number(1)].link.throughput(world.now).as_bps();
    assert!(told <= most * 11 / 10, "{told} of {most}");
}
