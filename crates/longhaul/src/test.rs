//! `longhaul test`.

use std::cell::RefCell;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use kernel::{DataFile, Shutdown};
use measure::{ClientOptions, Disk, PACED_UNSENT, run_test};
use results::{Completion, Direction, EndRecord, Record, TestPlan, Transport};
use units::{Bytes, Instant, Rate};

use crate::cli::TestOptions;
use crate::history::memory::keep_test;
use crate::omit::Omit;
use crate::output::{Outputs, print_message};

/// Exit status when the test failed or the counts of the two ends differ.
const NEGATIVE_RESULT: u8 = 1;

/// Default rate of a UDP stream, that of iperf3.
const UDP_RATE: Rate = Rate::from_bps(1_000_000);

/// Default size of a TCP block.
const TCP_BLOCK: Bytes = Bytes::new(64 << 10);

/// Default payload of a datagram; with an MTU of 1500 it leaves 24 bytes for a tunnel header.
const UDP_PAYLOAD: Bytes = Bytes::new(1448);

pub(crate) fn run(options: TestOptions) -> anyhow::Result<ExitCode> {
    Shutdown::install().context("cannot handle signals")?;
    kernel::raise_open_files();
    let mut plan = plan(&options)?;
    let disk = disk(&options)?;
    if let Some(disk) = disk.as_ref().filter(|_| !options.reverse && options.time.is_none() && options.bytes.is_none())
    {
        (plan.duration_ns, plan.bytes) = (None, Some(disk.bytes_on_wire(plan.block_bytes)));
    }
    wire::validate_plan(&plan)?;
    if let Some(cpu) = options.affinity {
        // Threads inherit the affinity when they start.
        kernel::pin(cpu)
            .with_context(|| format!("--affinity {cpu}: this host has {} CPUs, counted from 0", kernel::cpus()))?;
    }
    let load = plan.duration_ns.map(Duration::from_nanos);
    let peer = options.peer.client(&options.host, plan)?;
    let outputs = RefCell::new(Outputs::open(&options)?);
    let client = ClientOptions {
        bind: options.bind,
        title: options.title.clone(),
        link_rate: options.link_rate,
        disk,
        grace: options.grace,
        start_at: options.start_at_ns.map(Instant::from_nanos),
        ..peer
    };
    let asked = || Shutdown::requests() + outputs.borrow_mut().stops();
    let mut started = None;
    let mut omit = Omit::new(options.omit.unwrap_or_default(), load);
    let mut observe = |record: &Record| {
        if let Record::Start(start) = record {
            started = Some(start.clone());
        }
        outputs.borrow_mut().record(&omit.apply(record));
    };
    let end = run_test(&client, &mut observe, &asked);
    let failure = end.as_ref().err().map(ToString::to_string);
    let written = outputs.into_inner().finish(failure.as_deref());
    let end = end?;
    written?;
    if let Some(start) = &started {
        keep_test(options.memory, start, &end);
    }
    Ok(judge(&end, started.is_none_or(|start| start.server.is_some())))
}

/// Exit status of a test; without counts of the server (thrulay) there is nothing to compare.
fn judge(end: &EndRecord, has_server: bool) -> ExitCode {
    let whole = match end.completion {
        Completion::Complete => true,
        // The user interrupted the test; the counts are those of the shortened test.
        Completion::Interrupted => return ExitCode::SUCCESS,
        Completion::Failed { .. } => false,
    };
    let agree = !has_server || end.directions.iter().all(|d| d.agreement.agree);
    if whole && agree { ExitCode::SUCCESS } else { ExitCode::from(NEGATIVE_RESULT) }
}

/// Opens the file to send or, with `--reverse`, to write.
fn disk(options: &TestOptions) -> anyhow::Result<Option<Disk>> {
    let Some(path) = &options.file else { return Ok(None) };
    let file = if options.reverse { DataFile::sink(path) } else { DataFile::source(path) };
    Ok(Some(Disk::new(file.context("--file")?)))
}

fn plan(options: &TestOptions) -> anyhow::Result<TestPlan> {
    let transport = match (options.udp, options.poisson) {
        (None, _) => Transport::Tcp,
        (Some(_), false) => Transport::UdpConstant,
        (Some(_), true) => Transport::UdpPoisson,
    };
    let rate = rate(options)?;
    let directions = match (options.reverse, options.bidir) {
        (_, true) => vec![Direction::Up, Direction::Down],
        (true, _) => vec![Direction::Down],
        (false, false) => vec![Direction::Up],
    };
    let block = block(options.block, transport, rate)?;
    let duration = match (options.time, options.bytes) {
        (_, Some(_)) => None,
        (time, None) => {
            let time = time.unwrap_or(Duration::from_secs(10));
            Some(nanos(time.saturating_add(options.omit.unwrap_or_default()))?)
        }
    };
    Ok(TestPlan {
        transport,
        directions,
        streams: options.streams,
        duration_ns: duration,
        bytes: options.bytes.map(Bytes::as_u64),
        interval_ns: nanos(options.interval)?,
        block_bytes: block.as_u64(),
        window_bytes: options.window.map(Bytes::as_u64),
        congestion_control: options.congestion.clone(),
        rate_bps: rate.map(Rate::as_bps),
        dscp: options.dscp,
        mss_bytes: options.mss,
        notsent_lowat_bytes: options.notsent_lowat.map(unsent),
        zero_copy: options.zero_copy,
        seed: options.seed,
    })
}

/// Rate of each stream: a ceiling for TCP, the sending rate for UDP.
fn rate(options: &TestOptions) -> anyhow::Result<Option<Rate>> {
    match (options.udp, options.bitrate) {
        (None, bitrate) => Ok(options.pacing.or(bitrate)),
        (Some(Some(_)), Some(_)) => anyhow::bail!("--udp and --bitrate both set the rate; set it once"),
        (Some(rate), bitrate) => Ok(rate.or(bitrate).or_else(|| {
            print_message(&format!(
                "longhaul: UDP at the default rate of {UDP_RATE} per stream, as in iperf3; set another rate with -u RATE or -b RATE"
            ));
            Some(UDP_RATE)
        })),
    }
}

/// Size of a block or datagram; its range depends on the transport.
fn block(requested: Option<Bytes>, transport: Transport, paced: Option<Rate>) -> anyhow::Result<Bytes> {
    let (default, min, max, what) = match transport {
        Transport::Tcp => (tcp_block(paced), wire::BLOCK_HEADER_BYTES as u64, wire::BLOCK_BYTES_MAX, "a TCP block"),
        Transport::UdpConstant | Transport::UdpPoisson | Transport::Probe => {
            (UDP_PAYLOAD, wire::DATAGRAM_HEADER_BYTES as u64, wire::DATAGRAM_BYTES_MAX, "a datagram's payload")
        }
    };
    let size = requested.unwrap_or(default);
    let fits = (min..=max).contains(&size.as_u64());
    anyhow::ensure!(fits, "--block {} is out of range: {what} has {min} to {max} bytes", size.as_u64());
    Ok(size)
}

/// Size of a TCP block. For a paced stream it is at most the unsent data limit, so that the transmission time of a
/// block does not dominate its round trip.
fn tcp_block(pacing: Option<Rate>) -> Bytes {
    let paced = pacing.map(|rate| rate.bytes_in(PACED_UNSENT).max(Bytes::new(wire::BLOCK_HEADER_BYTES as u64)));
    paced.map_or(TCP_BLOCK, |block| block.min(TCP_BLOCK))
}

fn unsent(bytes: Bytes) -> u32 {
    u32::try_from(bytes.as_u64()).unwrap_or(u32::MAX)
}

fn nanos(d: Duration) -> anyhow::Result<u64> {
    u64::try_from(d.as_nanos()).context("the time is out of range (at most 584 years)")
}
