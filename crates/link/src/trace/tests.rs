use super::*;

const MS: u64 = 1_000_000;

fn trace(ms: &[u64]) -> Trace {
    Trace::checked(ms.to_vec()).unwrap()
}

#[test]
fn a_trace_is_parsed_and_formatted_in_mahimahis_format() {
    for text in ["0\n0\n3\n7\n", "12\n", "1\n1\n1\n"] {
        assert_eq!(Trace::parse(text).unwrap().to_string(), text);
    }
    assert_eq!(
        Trace::parse("1\r\n5").unwrap(),
        trace(&[1, 5]),
        "CRLF line ends and a missing last line end are accepted"
    );
}

#[test]
fn trace_errors_name_the_line() {
    for (text, message) in [
        ("", "the trace has no delivery opportunity"),
        ("0\n0\n", "the last number is 0 ms; it is the length of the trace and must be larger"),
        ("1\n\n2\n", "line 2 is empty; a trace has one number of milliseconds a line"),
        ("5\n4\n", "line 2: 4 ms comes after 5 ms; the numbers must not decrease"),
        (
            "# a comment\n1\n",
            "line 1: `# a comment` is not a whole number of milliseconds; a trace has one such number a line and nothing else",
        ),
        (
            "1\n+2\n",
            "line 2: `+2` is not a whole number of milliseconds; a trace has one such number a line and nothing else",
        ),
        (
            "1.5\n",
            "line 1: `1.5` is not a whole number of milliseconds; a trace has one such number a line and nothing else",
        ),
        (
            "99999999999999999999\n",
            "line 1: `99999999999999999999` is not a whole number of milliseconds; a trace has one such number a line and nothing else",
        ),
    ] {
        assert_eq!(Trace::parse(text).unwrap_err().to_string(), message, "{text:?}");
    }
}

#[test]
fn a_constant_rate_becomes_evenly_spaced_opportunities() {
    // 1504 bytes are 12032 bits: 12.032 Mb/s give one opportunity per millisecond.
    let even = Trace::of_constant(Rate::from_bps(12_032_000), Duration::from_millis(5)).unwrap();
    assert_eq!(even, trace(&[1, 2, 3, 4, 5]));
    assert_eq!((even.mean_rate(), even.period()), (Rate::from_bps(12_032_000), Duration::from_millis(5)));
    // 10 Mb/s give one opportunity every 1.2032 ms, rounded up.
    let ten = Trace::of_constant(Rate::from_bps(10_000_000), Duration::from_millis(8)).unwrap();
    assert_eq!(ten, trace(&[2, 3, 4, 5, 7, 8]));
    // 36.096 Mb/s give three opportunities per millisecond.
    let three = Trace::of_constant(Rate::from_bps(36_096_000), Duration::from_millis(2)).unwrap();
    assert_eq!(three, trace(&[1, 1, 1, 2, 2, 2]));
}

#[test]
fn a_long_trace_of_a_rate_has_that_rate() {
    for bps in [1_000_000, 9_999_999, 123_456_789, 1_000_000_000] {
        let t = Trace::of_constant(Rate::from_bps(bps), Duration::from_secs(10)).unwrap();
        let mean = t.mean_rate().as_bps();
        // The first opportunity may be a millisecond late, and the last determines the length.
        assert!(mean <= bps && mean as f64 >= bps as f64 * 0.9998, "{bps}: {mean}");
    }
}

#[test]
fn consecutive_rates_keep_the_accumulated_bytes() {
    let (fast, silent) = (Rate::from_bps(12_032_000), Rate::ZERO);
    let ms = Duration::from_millis;
    // Half of an opportunity accumulates before the zero rate, the other half after it.
    let rates = [(fast, Duration::from_micros(1500)), (silent, ms(10)), (fast, Duration::from_micros(1500))];
    assert_eq!(Trace::of_rates(&rates).unwrap(), trace(&[1, 12, 13]));
    assert_eq!(Trace::of_rates(&[(fast, ms(1)), (silent, ms(10))]), Err(TraceError::EndsSilent));
    assert_eq!(Trace::of_rates(&[(fast, ms(1)), (silent, ms(0))]), Ok(trace(&[1])));
    assert_eq!(Trace::of_rates(&[]), Err(TraceError::Empty));
    assert_eq!(Trace::of_constant(Rate::from_bps(1), ms(1000)), Err(TraceError::Empty));
    let much = Trace::of_constant(Rate::from_bps(u64::MAX), Duration::MAX);
    assert_eq!(much, Err(TraceError::TooLong));
}

#[test]
fn opportunities_are_found_by_time_over_many_rounds() {
    for ms in [&[3u64, 3, 7][..], &[0, 0, 1], &[1], &[0, 5], &[2, 2, 2]] {
        let t = trace(ms);
        let origin = Instant::from_nanos(17 * MS + 5);
        let period = *ms.last().unwrap();
        let all: Vec<u64> = (0..6).flat_map(|round| ms.iter().map(move |m| (round * period + m) * MS)).collect();
        for (number, at) in all.iter().enumerate() {
            assert_eq!(t.at(origin, number as u64).as_nanos(), origin.as_nanos() + at, "{ms:?}");
        }
        for ns in (0..5 * period * MS).step_by(MS as usize / 4) {
            let expected = all.iter().filter(|at| **at <= ns).count() as u64;
            let until = t.opportunities_until(origin, Instant::from_nanos(origin.as_nanos() + ns));
            assert_eq!(until, expected, "{ms:?} at {ns} ns");
        }
    }
}

#[test]
fn large_times_and_long_traces_do_not_overflow() {
    let t = trace(&[u64::MAX]);
    assert_eq!(t.at(Instant::from_nanos(5), 7), Instant::from_nanos(u64::MAX));
    assert_eq!(t.opportunities_until(Instant::ZERO, Instant::from_nanos(u64::MAX)), 0);
    let short = trace(&[1]);
    assert_eq!(short.at(Instant::ZERO, u64::MAX), Instant::from_nanos(u64::MAX));
    assert!(t.mean_rate() == Rate::ZERO && t.period() > Duration::from_secs(1));
}
