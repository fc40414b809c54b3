use super::*;

/// A wire without a limit; its seed is its number, which identifies it.
fn wire(number: u64, exit: Exit) -> WirePlan {
    WirePlan { settings: Settings::default(), seed: number, exit, tap: None }
}

/// The wires of a LAN, whose first has the index `first`: to the switch and from it, alternating.
fn lan(lan: usize, first: usize, members: usize) -> (Vec<WirePlan>, Vec<usize>) {
    let pair = |member| {
        let number = (first + 2 * member) as u64;
        // In a real plan the wires from the switch end at devices, which this test does not need.
        [wire(number, Exit::Switch { lan, member }), wire(number + 1, Exit::Switch { lan, member })]
    };
    ((0..members).flat_map(pair).collect(), (0..members).map(|m| first + 2 * m + 1).collect())
}

fn lans(sizes: &[usize]) -> Plan {
    let mut plan = Plan { interval: Duration::from_secs(1), memory: 1200, ..Plan::default() };
    for (number, members) in sizes.iter().enumerate() {
        let (wires, down) = lan(number, plan.wires.len(), *members);
        plan.wires.extend(wires);
        plan.lans.push(down);
    }
    plan
}

#[test]
fn all_wires_of_a_lan_have_one_worker() {
    let mut plan = lans(&[3, 2, 4]);
    let down = Settings { up: false, ..Settings::default() };
    // Wire 7 belongs to the second LAN, wire 10 to the third.
    plan.schedule = vec![(Duration::from_secs(1), 7, down.clone()), (Duration::from_secs(2), 10, down)];
    let shares = plan.split(2);
    let numbers: Vec<Vec<usize>> = shares.iter().map(|s| s.numbers.clone()).collect();
    assert_eq!(numbers, [[(0..6).collect::<Vec<_>>(), (10..18).collect()].concat(), (6..10).collect()]);
    for share in &shares {
        // Each wire kept its identity, and each LAN refers to its own wires.
        let seeds: Vec<usize> = share.plan.wires.iter().map(|w| w.seed as usize).collect();
        assert_eq!(seeds, share.numbers);
        assert_eq!((share.plan.memory, share.plan.interval), (600, Duration::from_secs(1)));
        for (number, wire) in share.plan.wires.iter().enumerate() {
            let Exit::Switch { lan, member } = wire.exit else { panic!("there are no devices") };
            assert_eq!(share.plan.lans[lan][member], number | 1);
        }
    }
    let changed = |share: &Share| share.plan.schedule.iter().map(|(_, w, _)| share.numbers[*w]).collect::<Vec<_>>();
    assert_eq!((changed(&shares[0]), changed(&shares[1])), (vec![10], vec![7]));
}

#[test]
fn the_number_of_workers_is_at_most_that_of_media() {
    assert_eq!(lans(&[2]).split(8).len(), 1);
    assert_eq!(lans(&[2, 2, 2]).split(8).len(), 3);
    assert_eq!(lans(&[2, 2, 2]).split(0).len(), 1);
    // A lab without links has one worker, which keeps the clock.
    assert_eq!(Plan::default().split(4).len(), 1);
}

#[test]
#[allow(clippy::print_stderr, reason = "a skipped test must not look like a passed one")]
fn both_directions_of_a_link_have_one_worker_with_its_devices() {
    let Ok(namespace) = kernel::new_namespace() else {
        eprintln!("skipped: devices need root (CAP_SYS_ADMIN, CAP_NET_ADMIN)");
        return;
    };
    // Three links: wires 0 and 1, 2 and 3, 4 and 5; wire w takes the packets of the device at which wire w ^ 1 ends.
    let tun = |number: usize| Tun::new(&format!("d{number}"), kernel::TunKind::Tun, false).unwrap();
    let ports = crate::topology::inside(&namespace, || (0..6).map(|w| PortPlan { tun: tun(w), wire: w }).collect());
    let wires = (0..6).map(|w| wire(w as u64, Exit::Port(w ^ 1))).collect();
    let plan = Plan { ports: ports.unwrap(), wires, ..Plan::default() };
    let shares = plan.split(2);
    assert_eq!(shares[0].numbers, [0, 1, 4, 5]);
    assert_eq!(shares[1].numbers, [2, 3]);
    for share in &shares {
        for (number, wire) in share.plan.wires.iter().enumerate() {
            let Exit::Port(port) = wire.exit else { panic!("there is no LAN") };
            let port = &share.plan.ports[port];
            assert_eq!(port.wire, number ^ 1, "a wire ends where the other starts");
            assert_eq!(port.tun.name(), format!("d{}", share.numbers[number] ^ 1));
        }
    }
}
