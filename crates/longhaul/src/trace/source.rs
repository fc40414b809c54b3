//! Where samples come from: BPF programs at the kernel's tracepoints, or its socket diagnostics.

use std::time::Duration;

use anyhow::Context as _;
use bpf::trace::{Filter, Tracer};
use results::trace::{TraceRecord, TraceSource};
use units::Instant;

use super::cli::{SourceChoice, TraceOptions};
use super::diagnostics::Diagnostics;
use super::process::Choice;
use super::records::Book;
use crate::output::say;

/// How often it is looked which connections a process has.
const CHOOSE_EVERY: Duration = Duration::from_millis(250);

pub(super) enum Source {
    Programs(Box<Programs>),
    Diagnostics(Box<Diagnostics>),
}

impl Source {
    /// BPF where it is allowed, unless the user says otherwise.
    pub(super) fn open(options: &TraceOptions) -> anyhow::Result<Self> {
        let choice = options.process.as_deref().map(Choice::new).transpose()?;
        if options.source == SourceChoice::Diagnostics {
            anyhow::ensure!(!options.every_packet, "--every-packet needs BPF: diagnostics are asked at intervals");
            return Ok(Self::Diagnostics(Box::new(Diagnostics::open(options, choice)?)));
        }
        let failure = match Programs::open(options) {
            Ok(tracer) => return Ok(Self::Programs(Box::new(Programs::new(tracer, choice)?))),
            Err(e) if options.source == SourceChoice::Bpf || options.every_packet => return Err(e.into()),
            Err(e) => e,
        };
        say(&format!(
            "{failure}\nfalling back to socket diagnostics, asked every {:?}: the connections of this network namespace, without \
             the inner state of FAST TCP and H-TCP, and without what happens between two looks",
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

    /// How long to wait between two looks at most: BPF's ring waits, diagnostics have their interval.
    pub(super) fn pause(&self, options: &TraceOptions) -> Duration {
        match self {
            Self::Programs(_) => Duration::MAX,
            Self::Diagnostics(_) => options.interval.max(Duration::from_millis(1)),
        }
    }

    /// What has come since the last look.
    pub(super) fn look(&mut self) -> anyhow::Result<Vec<TraceRecord>> {
        match self {
            Self::Programs(programs) => programs.look(),
            Self::Diagnostics(diagnostics) => diagnostics.look(),
        }
    }

    /// Connections and samples until now.
    pub(super) fn counts(&self) -> (u32, u64) {
        match self {
            Self::Programs(programs) => programs.book.counts(),
            Self::Diagnostics(diagnostics) => diagnostics.counts(),
        }
    }

    /// Events that found no room.
    pub(super) fn lost(&self) -> u64 {
        match self {
            Self::Programs(programs) => programs.tracer.lost(),
            Self::Diagnostics(_) => 0,
        }
    }
}

pub(super) struct Programs {
    tracer: Tracer,
    book: Book,
    choice: Option<Choice>,
    chosen: Instant,
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
        let book = Book::new(kernel::uptime_ns());
        let mut programs = Self { tracer, book, choice, chosen: kernel::now() };
        programs.choose()?;
        Ok(programs)
    }

    /// Follows the connections that the chosen processes hold now.
    fn choose(&mut self) -> anyhow::Result<()> {
        let Some(choice) = &mut self.choice else { return Ok(()) };
        let cookies = choice.connections()?.into_iter().map(|c| c.cookie).collect();
        self.tracer.choose(&cookies).context("cannot choose the connections of a process")
    }

    fn look(&mut self) -> anyhow::Result<Vec<TraceRecord>> {
        let now = kernel::now();
        if now.saturating_since(self.chosen) >= CHOOSE_EVERY {
            self.choose()?;
            self.chosen = now;
        }
        let events = self.tracer.poll(Duration::ZERO)?;
        Ok(events.iter().filter_map(|e| self.book.take(e)).collect())
    }
}
