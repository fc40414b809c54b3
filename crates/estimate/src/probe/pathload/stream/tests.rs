use super::*;
use crate::probe::PacketOutcome;

const READING: Reading =
    Reading { gap: Duration::from_micros(80), batch_gap: Duration::from_micros(5), kept_gaps: 0.85 };

/// Packets of 1000 bytes every 80 us, delayed by the result of the function in ns.
fn stream(late: impl Fn(u64) -> Option<u64>) -> TrainObservation {
    let outcome = |i: u64| PacketOutcome {
        bytes: 1000,
        sent: Some(Instant::from_nanos(1_000_000_000 + i * 80_000)),
        received: late(i).map(|late| Instant::from_nanos(7_000 + i * 80_000 + late)),
    };
    TrainObservation { packets: (0..100).map(outcome).collect() }
}

fn read(late: impl Fn(u64) -> Option<u64>) -> Stream {
    Stream::read(&stream(late), &READING)
}

#[test]
fn rising_level_and_falling_delays_are_distinguished() {
    assert_eq!(read(|i| Some(i * 1000)).trends, [Trend::Increasing]);
    assert_eq!(read(|_| Some(0)).trends, [Trend::Flat]);
    assert_eq!(read(|i| Some((100 - i) * 1000)).trends, [Trend::Flat]);
    // A single very late packet in each group does not change the medians.
    assert_eq!(read(|i| Some(if i % 10 == 5 { 70_000 } else { 0 })).trends, [Trend::Flat]);
}

#[test]
fn the_bands_are_those_of_the_reference() {
    // Of ten medians, seven rises are a trend and four are none; 5 and 6 are unclear, and the other test decides.
    let steps = |up: usize| -> Vec<f64> {
        let mut values = vec![0.0];
        for i in 0..9 {
            // Falls that compensate the rises: the second test finds no trend.
            let fall = -(up as f64) / (9 - up) as f64;
            values.push(values[i] + if i < up { 1.0 } else { fall });
        }
        values
    };
    let both = |up| trend(&steps(up));
    assert_eq!((both(7), both(6), both(4)), (Some(Trend::Unclear), Some(Trend::Flat), Some(Trend::Flat)));
    // 4 rises and no fall: pairwise none, difference 1.
    assert_eq!(trend(&[0.0, 1.0, 2.0, 3.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0]), Some(Trend::Unclear));
    assert_eq!(trend(&[1.0; 4]), None);
}

#[test]
fn the_rate_is_measured_at_the_sender() {
    // 1000 bytes each 80 us.
    assert_eq!(read(|_| Some(0)).rate, Some(100e6));
    let mut slow = stream(|_| Some(0));
    for (i, p) in slow.packets.iter_mut().enumerate() {
        p.sent = Some(Instant::from_nanos(i as u64 * 100_000));
    }
    assert_eq!(Stream::read(&slow, &READING).rate, Some(80e6));
}

#[test]
fn a_pause_of_the_sender_splits_and_short_parts_are_left_out() {
    let mut paused = stream(|i| Some(i * 1000));
    for p in paused.packets.iter_mut().skip(60) {
        p.sent = p.sent.map(|s| s + Duration::from_millis(5));
    }
    let read = Stream::read(&paused, &READING);
    // 60 and 40 packets: both are evaluated.
    assert!(read.is_broken && read.trends.len() == 2, "{read:?}");
    assert_eq!(read.rate, Some(100e6), "the pause is no gap");
    for p in paused.packets.iter_mut().skip(80) {
        p.sent = p.sent.map(|s| s + Duration::from_millis(5));
    }
    // 60, 20 and 20.
    assert_eq!(Stream::read(&paused, &READING).trends.len(), 1);
}

#[test]
fn batches_hide_neither_trend_nor_its_absence() {
    // Delivered each millisecond: 8 batches of 12 or 13 packets.
    let batched = |rise: u64| {
        read(move |i| {
            let true_arrival = i * 80_000 + i * rise;
            Some(true_arrival.div_ceil(1_000_000) * 1_000_000 - i * 80_000)
        })
    };
    // 20 us for each 80: a path of 80 Mb/s.
    let (flat, rising) = (batched(0), batched(20_000));
    assert!(flat.is_batched && rising.is_batched);
    assert_eq!((flat.batches, flat.trends.as_slice()), (8, [Trend::Flat].as_slice()));
    assert_eq!((rising.batches, rising.trends.as_slice()), (10, [Trend::Increasing].as_slice()));
}

#[test]
fn overtaken_packets_are_lost_ones() {
    let s = read(|i| if i % 10 == 0 { None } else { Some(0) });
    assert!((s.loss - 0.1).abs() < 1e-12, "{s:?}");
    // The packet before arrives one and a half gaps late.
    let s = read(|i| Some(if i == 50 { 120_000 } else { 0 }));
    assert!((s.loss - 0.01).abs() < 1e-12, "{s:?}");
    let s = read(|_| None);
    assert!(s.trends.is_empty() && !s.any_arrived && s.loss == 1.0);
}
