//! Small transfers: handshake, request and data.

use estimate::model::{PathParameters, ideal_completion};
use units::{Bytes, Duration, Rate};

use crate::world;

/// On an idle path a transfer takes the ideal time: handshake, request, and the windows of slow start.
#[test]
fn transfers_on_an_idle_path_take_the_ideal_time() {
    for kb in [1_u64, 10, 50, 200, 1000] {
        let text = format!(
            "duration = \"20s\"\nnodes = [\"a\", \"b\"]\n[links.l]\nbetween = [\"a\", \"b\"]\nrate = \"1Gb/s\"\ndelay = \"25ms\"\n\
             [mice.m]\nfrom = \"a\"\nto = \"b\"\nbytes = \"{kb}kB\"\nevery = \"4s\"\narrivals = \"constant\"\n"
        );
        let mut world = world(&text);
        world.run_until(Duration::from_secs(20));
        let done = world.take_completions();
        assert_eq!((done.len(), world.incomplete().len()), (5, 0), "{done:?}");
        let path = PathParameters {
            mss: Bytes::new(1448),
            wire: Bytes::new(1538),
            round_trip: Duration::from_millis(50),
            rate: Some(Rate::from_bps(1_000_000_000)),
        };
        let ideal = ideal_completion(Bytes::new(kb * 1000), path).unwrap().as_secs_f64();
        for transfer in done {
            let took = transfer.took.unwrap().as_secs_f64();
            assert!((took / ideal - 1.0).abs() < 0.02, "{kb} kB: {took} s, ideal {ideal} s");
        }
    }
}

/// A lost SYN costs a second (RFC 6298, 2.1).
#[test]
fn a_lost_handshake_is_repeated() {
    let text = "duration = \"9s\"\nnodes = [\"a\", \"b\"]\n[links.l]\nbetween = [\"b\", \"a\"]\nrate = \"1Gb/s\"\ndelay = \"25ms\"\n\
                forward = { loss_list = [0] }\n[mice.m]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1kB\"\nevery = \"4s\"\n";
    let mut world = world(text);
    world.run_until(Duration::from_secs(9));
    let took: Vec<Duration> = world.take_completions().iter().filter_map(|c| c.took).collect();
    let late = took[0] - took[1];
    assert!(late.abs_diff(Duration::from_secs(1)) < Duration::from_micros(1), "{took:?}");
}

/// The slots of ended connections are used again: memory does not grow with the number of transfers.
#[test]
fn many_transfers_leave_nothing_behind() {
    let text = "duration = \"30s\"\nnodes = [\"a\", \"b\"]\n[links.l]\nbetween = [\"a\", \"b\"]\nrate = \"100Mb/s\"\ndelay = \"5ms\"\n\
                loss = \"1%\"\n[mice.m]\nfrom = \"a\"\nto = \"b\"\nbytes = \"10kB\"\nevery = \"10ms\"\narrivals = \"poisson\"\n\
                stop = \"20s\"\n";
    let mut world = world(text);
    world.run_until(Duration::from_secs(30));
    let done = world.take_completions();
    assert!(done.len() > 1800, "{}", done.len());
    assert!(world.incomplete().is_empty());
    assert!(world.counters().events_max < 1000, "{:?}", world.counters());
}
