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
    /// First record; absent if the test failed before it.
    pub start: Option<StartRecord>,
    /// Intervals of both ends.
    pub intervals: Vec<IntervalRecord>,
    /// Last record.
    pub end: EndRecord,
}

impl Outcome {
    /// Summary of a direction.
    ///
    /// # Panics
    /// The test had no such direction.
    pub fn direction(&self, direction: Direction) -> &DirectionSummary {
        let found = self.end.directions.iter().find(|d| d.direction == direction);
        found.unwrap_or_else(|| panic!("no {direction:?} in {:?}", self.end.completion))
    }

    /// CPU load of both ends and the verdicts with their evidence, for the message of a failed test.
    pub fn evidence(&self, direction: Direction) -> String {
        let of_direction = self.intervals.iter().filter(|i| i.direction == direction);
        of_direction.map(|i| format!("{:?} {} {:?} {:?}\n", i.role, i.index, i.cpu, i.limit)).collect()
    }
}

/// Plan of one upward stream of 64 KiB blocks under cubic for `duration`.
///
/// The congestion control is set explicitly, because the default of a test machine may be BBR, which builds no standing
/// queue.
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

/// Client options without a key.
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

/// Runs a test in a namespace.
///
/// # Errors
/// As [`measure::run_test`].
///
/// # Panics
/// The test did not end within `limit`, or could not be started in its namespace.
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
