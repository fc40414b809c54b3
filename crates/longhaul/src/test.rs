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
use crate::output::{Outputs, say};

/// The answer is negative: the test broke, or the two ends disagree.
const NEGATIVE: u8 = 1;

/// Rate of UDP where none is given: iperf3's.
const UDP_RATE: Rate = Rate::from_bps(1_000_000);

const TCP_BLOCK: Bytes = Bytes::new(64 << 10);

/// With IPv4, UDP headers and an Ethernet MTU of 1500 this fills the packet but for 24 bytes, room for a tunnel's header.
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
        // Threads that start from now on inherit it.
        kernel::pin(cpu).context("--affinity")?;
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
    let asked = || Shutdown::asked() + outputs.borrow_mut().stops();
    let mut begun = None;
    let mut omit = Omit::new(options.omit.unwrap_or_default(), load);
    let mut observe = |record: &Record| {
        if let Record::Start(start) = record {
            begun = Some(start.clone());
        }
        outputs.borrow_mut().record(&omit.apply(record));
    };
    let end = run_test(&client, &mut observe, &asked);
    let failure = end.as_ref().err().map(ToString::to_string);
    let written = outputs.into_inner().finish(failure.as_deref());
    let end = end?;
    written?;
    if let Some(start) = &begun {
        keep_test(options.memory, start, &end);
    }
    Ok(judge(&end, begun.is_none_or(|start| start.server.is_some())))
}

/// Without a server's view (thrulay) there is nothing that the ends could disagree on.
fn judge(end: &EndRecord, has_server: bool) -> ExitCode {
    let whole = match end.completion {
        Completion::Complete => true,
        // What the user asked for; the counts are those of the shortened test.
        Completion::Interrupted => return ExitCode::SUCCESS,
        Completion::Failed { .. } => false,
    };
    let agree = !has_server || end.directions.iter().all(|d| d.agreement.agree);
    if whole && agree { ExitCode::SUCCESS } else { ExitCode::from(NEGATIVE) }
}

/// The file that is sent or, with `--reverse`, written.
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

/// The rate of each stream: a ceiling for TCP, what is sent for UDP.
fn rate(options: &TestOptions) -> anyhow::Result<Option<Rate>> {
    match (options.udp, options.bitrate) {
        (None, bitrate) => Ok(options.pacing.or(bitrate)),
        (Some(Some(_)), Some(_)) => anyhow::bail!("--udp and --bitrate both give the rate; give it once"),
        (Some(rate), bitrate) => Ok(rate.or(bitrate).or_else(|| {
            say(&format!(
                "longhaul: UDP at {UDP_RATE} a stream, as iperf3 has it; another rate with -u RATE or -b RATE"
            ));
            Some(UDP_RATE)
        })),
    }
}

/// Size of a block or datagram; its bounds depend on the transport.
fn block(asked: Option<Bytes>, transport: Transport, paced: Option<Rate>) -> anyhow::Result<Bytes> {
    let (usual, min, max, what) = match transport {
        Transport::Tcp => (tcp_block(paced), wire::BLOCK_HEADER_BYTES as u64, wire::MAX_BLOCK_BYTES, "a TCP block"),
        Transport::UdpConstant | Transport::UdpPoisson | Transport::Probe => {
            (UDP_PAYLOAD, wire::DATAGRAM_HEADER_BYTES as u64, wire::MAX_DATAGRAM_BYTES, "a datagram's payload")
        }
    };
    let size = asked.unwrap_or(usual);
    let fits = (min..=max).contains(&size.as_u64());
    anyhow::ensure!(fits, "--block {}: {what} has {min} to {max} bytes", size.as_u64());
    Ok(size)
}

/// A block of a paced stream is as long as what may wait unsent, so that its round trip is not mostly the time in which its own
/// bytes are sent.
fn tcp_block(pacing: Option<Rate>) -> Bytes {
    let paced = pacing.map(|rate| rate.bytes_in(PACED_UNSENT).max(Bytes::new(wire::BLOCK_HEADER_BYTES as u64)));
    paced.map_or(TCP_BLOCK, |block| block.min(TCP_BLOCK))
}

fn unsent(bytes: Bytes) -> u32 {
    u32::try_from(bytes.as_u64()).unwrap_or(u32::MAX)
}

fn nanos(d: Duration) -> anyhow::Result<u64> {
    u64::try_from(d.as_nanos()).context("the time is too long")
}
