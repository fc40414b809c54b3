//! Trains at two rates over a link with a round-robin scheduler rather than a FIFO queue.

use std::collections::VecDeque;
use std::time::Duration;

use estimate::Schedule;
use estimate::probe::{PacketOutcome, Path, Train, TrainObservation, TwoRates};
use units::{Bytes, Instant, Rate};

use crate::far_end;
use crate::path::{error, mbps};

const CAPACITY: u64 = 100_000_000;

/// 1500 bytes at the capacity.
const PACKET: Duration = Duration::from_micros(120);

/// A competing flow.
#[derive(Debug, Clone, Copy)]
enum Other {
    /// A flow whose queue is never empty.
    Greedy,
    /// Packets at random.
    Poisson(Rate),
}

/// Sends a train over a link that serves a packet of each flow in turn.
fn pass(train: &Train, others: &[Other], seed: u64) -> TrainObservation {
    // The queues of the other flows have had time to form.
    let start = Instant::ZERO + Duration::from_millis(50);
    let ours = train.departures().iter().zip(0_u32..).map(|(d, i)| d.after.max(Duration::from_nanos(1200) * i));
    let sent: Vec<Instant> = ours.map(|after| start + after).collect();
    let mut waiting: VecDeque<usize> = (0..sent.len()).collect();
    let mut received = vec![None; sent.len()];
    let length = Bytes::new(1500);
    let mut schedules: Vec<Option<Schedule>> = (0_u64..)
        .zip(others)
        .map(|(i, other)| match other {
            Other::Greedy => None,
            Other::Poisson(rate) => Some(Schedule::poisson(*rate, length, seed * 100 + i)),
        })
        .collect();
    let (mut now, mut turn, mut idle) = (Instant::ZERO, 0, 0);
    while let Some(number) = waiting.front().copied() {
        let is_ours = turn == schedules.len();
        let due = match schedules.get_mut(turn) {
            Some(Some(schedule)) if schedule.deadline() <= now => {
                schedule.advance();
                true
            }
            Some(other) => other.is_none(),
            None => sent[number] <= now,
        };
        turn = (turn + 1) % (schedules.len() + 1);
        if due {
            let small = is_ours && train.departures()[number].bytes < 100;
            now = now + if small { PACKET / 20 } else { PACKET };
            idle = 0;
        } else {
            idle += 1;
        }
        if idle > schedules.len() {
            let others = schedules.iter().flatten().map(Schedule::deadline);
            now = others.chain([sent[number]]).min().unwrap();
        }
        if due && is_ours {
            received[number] = Some(now);
            waiting.pop_front();
        }
    }
    let outcomes = train.departures().iter().zip(sent).zip(received);
    let outcome = |((d, sent), received): ((&estimate::probe::Departure, Instant), Option<Instant>)| PacketOutcome {
        bytes: d.bytes,
        sent: Some(sent),
        received,
    };
    TrainObservation { packets: outcomes.map(outcome).collect() }
}

#[test]
fn the_available_bandwidth_is_the_share_that_a_transfer_gets() {
    let path = Path { round_trip: Duration::from_millis(20), mtu: 1500, gap_min: Duration::from_nanos(1200), seed: 1 };
    // Max-min shares: a third beside two greedy flows; otherwise the remainder of the others or half, whichever is
    // larger.
    let poisson = |rate| Other::Poisson(mbps(rate));
    let cases = [
        (vec![Other::Greedy; 2], CAPACITY / 3),
        (vec![poisson(25.0)], CAPACITY * 3 / 4),
        (vec![poisson(80.0)], CAPACITY / 2),
        (vec![poisson(20.0); 2], CAPACITY * 6 / 10),
    ];
    for (others, share) in cases {
        let mut errors: Vec<f64> = (0..5)
            .map(|seed| {
                let mut method = TwoRates::new(path);
                let outcome = far_end::answer(&mut method, |n, train| pass(train, &others, seed * 1000 + n as u64));
                error(outcome.interval.unwrap().value, share)
            })
            .collect();
        errors.sort_unstable_by(f64::total_cmp);
        println!("{others:?}: {errors:.3?}");
        // The goal of the project for the available bandwidth: 15 % for half of the results.
        assert!(errors[2].abs() < 0.15, "{others:?}: {errors:?}");
    }
}
