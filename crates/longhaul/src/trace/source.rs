//! Sources of samples: BPF programs at the kernel's tracepoints, or its socket diagnostics.

use std::time::Duration;

use anyhow::Context as _;
use bpf::trace::{Filter, Tracer};
use results::trace::{TraceRecord, TraceSource};
use units::Instant;

use super::cli::{SourceChoice, TraceOptions};
use super::diagnostics::Diagnostics;
use super::process::Choice;
use super::records::FlowNumbers;
use crate::output::print_message;

/// Interval at which the connections of the selected processes are listed.
const SELECT_INTERVAL: Duration = Duration::from_millis(250);

pub(super) enum Source {
    Programs(Box<Programs>),
    Diagnostics(Box<Diagnostics>),
}

impl Source {
    /// Opens the source of --source; `auto` uses BPF if it is permitted.
    pub(super) fn open(options: &TraceOptions) -> anyhow::Result<Self> {
        let choice = options.process.as_deref().map(Choice::new).transpose()?;
        if options.source == SourceChoice::Diagnostics {
            anyhow::ensure!(
                !options.every_packet,
                "--every-packet needs BPF, because diagnostics are polled at intervals"
            );
            return Ok(Self::Diagnostics(Box::new(Diagnostics::open(options, choice)?)));
        }
        let failure = match Programs::open(options) {
            Ok(tracer) => return Ok(Self::Programs(Box::new(Programs::new(tracer, choice)?))),
            Err(e) if options.source == SourceChoice::Bpf || options.every_packet => return Err(e.into()),
            Err(e) => e,
        };
        print_message(&format!(
            "{failure}\nfalling back to socket diagnostics, polled every {:?}: connections of this network namespace \
             only, without the internal state of FAST TCP and H-TCP, and without events between two polls",
            options.interval
        ));
        Ok(Self::Diagnostics(Box::new(Diagnostics::open(options, choice)?)))
    }

    pub(super) fn kind(&self) -> TraceSource {
        match self {
            Self::Programs(_) => TraceSource::Bpf,
            Self::Diagnostics(_) => TraceSource::Diagnostics,
        }
    }

    /// Maximum pause between two polls: unlimited for BPF, which buffers events; the interval for diagnostics.
    pub(super) fn pause(&self, options: &TraceOptions) -> Duration {
        match self {
            Self::Programs(_) => Duration::MAX,
            Self::Diagnostics(_) => options.interval.max(Duration::from_millis(1)),
        }
    }

    /// Returns the records since the last poll.
    pub(super) fn poll(&mut self) -> anyhow::Result<Vec<TraceRecord>> {
        match self {
            Self::Programs(programs) => programs.poll(),
            Self::Diagnostics(diagnostics) => diagnostics.poll(),
        }
    }

    /// Numbers of connections and samples so far.
    pub(super) fn counts(&self) -> (u32, u64) {
        match self {
            Self::Programs(programs) => programs.flows.counts(),
            Self::Diagnostics(diagnostics) => diagnostics.counts(),
        }
    }

    /// Number of events lost because the buffer was full.
    pub(super) fn lost(&self) -> u64 {
        match self {
            Self::Programs(programs) => programs.tracer.lost(),
            Self::Diagnostics(_) => 0,
        }
    }
}

pub(super) struct Programs {
    tracer: Tracer,
    flows: FlowNumbers,
    choice: Option<Choice>,
    selected: Instant,
}

impl Programs {
    fn open(options: &TraceOptions) -> Result<Tracer, bpf::congestion::CongestionError> {
        Tracer::attach(&Filter {
            interval: if options.every_packet { Duration::ZERO } else { options.interval },
            address: options.address,
            port: options.port,
            congestion_control: options.congestion.clone(),
            by_cookie: options.process.is_some(),
        })
    }

    fn new(tracer: Tracer, choice: Option<Choice>) -> anyhow::Result<Self> {
        let flows = FlowNumbers::new(kernel::uptime_ns());
        let mut programs = Self { tracer, flows, choice, selected: kernel::now() };
        programs.select()?;
        Ok(programs)
    }

    /// Traces the current connections of the selected processes.
    fn select(&mut self) -> anyhow::Result<()> {
        let Some(choice) = &mut self.choice else { return Ok(()) };
        let cookies = choice.connections()?.into_iter().map(|c| c.cookie).collect();
        self.tracer.choose(&cookies).context("cannot select the connections of a process")
    }

    fn poll(&mut self) -> anyhow::Result<Vec<TraceRecord>> {
        let now = kernel::now();
        if now.saturating_since(self.selected) >= SELECT_INTERVAL {
            self.select()?;
            self.selected = now;
        }
        let events = self.tracer.poll(Duration::ZERO)?;
        Ok(events.iter().filter_map(|e| self.flows.convert(e)).collect())
    }
}
