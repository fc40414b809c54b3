use std::io;
use std::net::IpAddr;
use std::sync::mpsc;
use std::time::Duration;

use measure::{ClientOptions, Family, MeasureError};
use results::{Direction, DirectionSummary, EndRecord, IntervalRecord, Record, StartRecord, TestPlan};

use crate::Namespace;

/// All records of a test.
#[derive(Debug)]
pub struct Outcome {
    /// The first record; absent when the test broke before it.
    pub start: Option<StartRecord>,
    /// The intervals of both ends.
    pub intervals: Vec<IntervalRecord>,
    /// The last record.
    pub end: EndRecord,
}

impl Outcome {
    /// The summary of a direction.
    ///
    /// # Panics
    /// The test had no such direction.
    pub fn direction(&self, direction: Direction) -> &DirectionSummary {
        let found = self.end.directions.iter().find(|d| d.direction == direction);
        found.unwrap_or_else(|| panic!("no {direction:?} in {:?}", self.end.completion))
    }

    /// The CPU of both ends and the verdicts with their evidence, for the message of a failed test.
    pub fn evidence(&self, direction: Direction) -> String {
        let of_direction = self.intervals.iter().filter(|i| i.direction == direction);
        of_direction.map(|i| format!("{:?} {} {:?} {:?}\n", i.role, i.index, i.cpu, i.limit)).collect()
    }
}

/// One upward stream of 64 KiB blocks under cubic, for `duration`.
///
/// The congestion control is named: the default of a test machine may be another, and BBR leaves no standing queue.
pub fn plan(duration: Duration) -> TestPlan {
    TestPlan {
        transport: results::Transport::Tcp,
        directions: vec![Direction::Up],
        streams: 1,
        duration_ns: u64::try_from(duration.as_nanos()).ok(),
        bytes: None,
        interval_ns: 500_000_000,
        block_bytes: 64 << 10,
        window_bytes: None,
        congestion_control: Some("cubic".to_owned()),
        rate_bps: None,
        dscp: None,
        mss_bytes: None,
        notsent_lowat_bytes: None,
        zero_copy: false,
        seed: 1,
    }
}

/// A client without a key.
pub fn client_options(server: IpAddr, port: u16, plan: TestPlan) -> ClientOptions {
    ClientOptions {
        host: server.to_string(),
        port,
        family: Family::Any,
        bind: None,
        plan,
        key: None,
        title: None,
        link_rate: None,
        disk: None,
        grace: Duration::from_secs(2),
        start_at: None,
    }
}

/// Runs a test inside a namespace.
///
/// # Errors
/// As [`measure::run_test`].
///
/// # Panics
/// The test has not ended within `limit`, or could not be started in its namespace.
pub fn run_test(at: &Namespace, options: ClientOptions, limit: Duration) -> Result<Outcome, MeasureError> {
    let (done, outcome) = mpsc::channel();
    let started = at.spawn("client", move || {
        let _ = done.send(gather(&options));
    });
    match started.and_then(|_| outcome.recv_timeout(limit).map_err(io::Error::other)) {
        Ok(outcome) => outcome,
        Err(e) => panic!("the test did not end within {limit:?}: {e}"),
    }
}

fn gather(options: &ClientOptions) -> Result<Outcome, MeasureError> {
    let (mut start, mut intervals) = (None, Vec::new());
    let mut observe = |record: &Record| match record {
        Record::Start(s) => start = Some(s.clone()),
        Record::Interval(i) => intervals.push(i.clone()),
        Record::End(_) => {}
    };
    let end = measure::run_test(options, &mut observe, &|| 0)?;
    Ok(Outcome { start, intervals, end })
}
