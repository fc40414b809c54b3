//! `longhaul trace`.

pub(crate) mod cli;
mod records;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use bpf::trace::{Filter, Tracer};
use kernel::Shutdown;
use report::trace::{TraceCsv, TraceText};
use results::trace::{TRACE_SCHEMA, TraceEnd, TraceRecord, TraceSource, TraceStart};

use cli::TraceOptions;
use records::Book;

/// The kernel wakes us up for every event; a pause between two looks costs less, and the ring holds seconds of them.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Events were lost.
const NEGATIVE: u8 = 1;

pub(crate) fn run(options: &TraceOptions) -> anyhow::Result<ExitCode> {
    Shutdown::install().context("cannot handle signals")?;
    let mut sink = Sink::open(options)?;
    let filter = Filter {
        interval: if options.every_packet { Duration::ZERO } else { options.interval },
        address: options.address,
        port: options.port,
        congestion_control: options.congestion.clone(),
        by_cookie: false,
    };
    let tracer = Tracer::attach(&filter)?;
    let begin = kernel::now();
    let mut book = Book::new(kernel::uptime_ns());
    let (utc, nanos) = kernel::utc_seconds();
    sink.record(&TraceRecord::Start(TraceStart {
        schema: TRACE_SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: kernel::kernel_release(),
        source: TraceSource::Bpf,
        interval_s: filter.interval.as_secs_f64(),
        filter: words(options),
        began_utc_s: utc as f64 + f64::from(nanos) / 1e9,
    }))?;
    let is_over = || options.time.is_some_and(|t| kernel::now().saturating_since(begin) >= t);
    while Shutdown::asked() == 0 && !is_over() {
        kernel::nap(LOOK_EVERY);
        for event in tracer.poll(Duration::ZERO)? {
            book.take(&event).iter().try_for_each(|r| sink.record(r))?;
        }
        sink.flush()?;
    }
    let (flows, samples) = book.counts();
    let lost_events = tracer.lost();
    let seconds = kernel::now().saturating_since(begin).as_secs_f64();
    sink.record(&TraceRecord::End(TraceEnd { seconds, flows, samples, lost_events }))?;
    sink.flush()?;
    Ok(if lost_events > 0 { ExitCode::from(NEGATIVE) } else { ExitCode::SUCCESS })
}

fn words(options: &TraceOptions) -> String {
    let all = [
        options.address.map(|a| format!("address {a}")),
        options.port.map(|p| format!("port {p}")),
        options.congestion.as_ref().map(|c| format!("congestion control {c}")),
    ];
    let given: Vec<String> = all.into_iter().flatten().collect();
    if given.is_empty() { "all connections".to_owned() } else { given.join(", ") }
}

/// Where records go: text unless something else is asked for.
enum Sink {
    Text(TraceText<io::Stdout>),
    Files { json: Option<Box<dyn Write>>, csv: Option<Box<TraceCsv<Box<dyn Write>>>> },
}

impl Sink {
    fn open(options: &TraceOptions) -> anyhow::Result<Self> {
        if options.json.is_none() && options.csv.is_none() {
            return Ok(Self::Text(TraceText::new(io::stdout())));
        }
        anyhow::ensure!(
            options.json != options.csv,
            "--json and --csv cannot share standard output; give a file: --json=FILE"
        );
        let json = options.json.as_deref().map(open).transpose()?;
        let csv = options.csv.as_deref().map(open).transpose()?.map(|out| Box::new(TraceCsv::new(out)));
        Ok(Self::Files { json, csv })
    }

    fn record(&mut self, record: &TraceRecord) -> io::Result<()> {
        match self {
            Self::Text(text) => text.record(record),
            Self::Files { json, csv } => {
                if let Some(out) = json {
                    serde_json::to_writer(&mut *out, record)?;
                    out.write_all(b"\n")?;
                }
                csv.as_mut().map_or(Ok(()), |csv| csv.record(record))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Text(text) => text.flush(),
            Self::Files { json, csv } => {
                json.as_mut().map_or(Ok(()), |out| out.flush())?;
                csv.as_mut().map_or(Ok(()), |csv| csv.flush())
            }
        }
    }
}

fn open(path: &Path) -> anyhow::Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufWriter::new(io::stdout())));
    }
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}
