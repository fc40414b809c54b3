//! `longhaul tune verify`: measured effect of the changes on the throughput.

use std::process::ExitCode;

use anyhow::{Context, bail};
use estimate::confidence;
use host::state;
use host::tune::{Session, TuneError};
use kernel::Shutdown;
use measure::{ClientOptions, run_test};
use results::tune::{Comparison, TuneChange, TuneCommand, TunePair, TuneRecord, TuneVerdict};
use results::{Completion, Direction, TestPlan, Transport};
use tuning::{Change, Pair, compare};
use units::{Duration, nanos};

use super::cli::VerifyOptions;
use super::output::Output;
use super::{NEGATIVE_RESULT, plan};

pub(super) fn run(options: &VerifyOptions) -> anyhow::Result<ExitCode> {
    Shutdown::install().context("cannot handle signals")?;
    kernel::raise_open_files();
    let client = options.peer.client(&options.host, test_plan(options))?;
    let client = ClientOptions { link_rate: options.path.rate, ..client };
    wire::validate_plan(&client.plan)?;
    let (start, rows) = plan::advice(&options.path, TuneCommand::Verify)?;
    let changes = tuning::planned(&rows, &options.keys)?;
    let mut session = Session::open(state::directory())?;
    if session.is_changed() {
        return Err(TuneError::InForce.into());
    }
    let mut output = Output::new(options.json);
    output.record(&TuneRecord::Start(start));
    let mut trial =
        Trial { options, client, session: &mut session, changes: &changes, output: &mut output, is_applied: false };
    let measured = if changes.is_empty() { Ok(Vec::new()) } else { trial.pairs() };
    // Revert the changes in any case, before reporting an error.
    let pairs = match (measured, trial.revert()) {
        (Ok(pairs), Ok(())) => pairs,
        (Err(e), Ok(())) | (Ok(_), Err(e)) => return Err(e),
        (Err(e), Err(left)) => return Err(left.context(e)),
    };
    let verdict = verdict(options, &changes, &pairs);
    let is_better = verdict.comparison == Comparison::Better;
    output.record(&TuneRecord::Verdict(verdict));
    output.finish()?;
    Ok(if is_better { ExitCode::SUCCESS } else { ExitCode::from(NEGATIVE_RESULT) })
}

struct Trial<'a> {
    options: &'a VerifyOptions,
    client: ClientOptions,
    session: &'a mut Session,
    changes: &'a [Change],
    output: &'a mut Output,
    /// Whether the changes are applied.
    is_applied: bool,
}

impl Trial<'_> {
    /// Runs pairs of tests in the order ABBA: without, with, with, without. Stops early at an interruption.
    fn pairs(&mut self) -> anyhow::Result<Vec<Pair>> {
        let mut pairs = Vec::new();
        for number in 1..=self.options.pairs {
            let with_first = number % 2 == 0;
            let Some(first) = self.test(with_first)? else { break };
            let Some(second) = self.test(!with_first)? else { break };
            let (without, with) = if with_first { (second, first) } else { (first, second) };
            let pair = Pair { without, with };
            pairs.push(pair);
            self.output.record(&TuneRecord::Pair(TunePair {
                pair: number,
                with_first,
                without_bps: without,
                with_bps: with,
                difference_bps: pair.difference(),
            }));
        }
        Ok(pairs)
    }

    /// Goodput of one test in bits per second; `None` if the user interrupted it.
    fn test(&mut self, with: bool) -> anyhow::Result<Option<u64>> {
        self.set(with)?;
        if Shutdown::requests() > 0 {
            return Ok(None);
        }
        let end = run_test(&self.client, &mut |_| {}, &Shutdown::requests)?;
        match &end.completion {
            Completion::Interrupted => return Ok(None),
            Completion::Failed { reason } => bail!("a test failed, so nothing is compared: {reason}"),
            Completion::Complete => {}
        }
        let direction = end.directions.first().context("the test has no result")?;
        Ok(Some(direction.throughput_bps))
    }

    /// Applies or reverts the changes.
    fn set(&mut self, with: bool) -> anyhow::Result<()> {
        if with == self.is_applied {
            return Ok(());
        }
        if !with {
            return self.revert();
        }
        self.is_applied = true;
        let mut failure = None;
        let keep_first_note = &mut |c: TuneChange| failure = failure.take().or(c.note);
        if !self.session.apply(self.changes, None, keep_first_note)? {
            bail!("a change failed and all were reverted: {}", failure.unwrap_or_default());
        }
        Ok(())
    }

    fn revert(&mut self) -> anyhow::Result<()> {
        let mut notes = Vec::new();
        let as_before = self.session.undo(&mut |c| notes.extend(c.note.map(|note| format!("{}: {note}", c.key))))?;
        self.is_applied = false;
        if !as_before {
            bail!("cannot revert all changes: {}", notes.join("; "));
        }
        Ok(())
    }
}

fn verdict(options: &VerifyOptions, changes: &[Change], pairs: &[Pair]) -> TuneVerdict {
    let over = |value: fn(&Pair) -> f64| confidence(&pairs.iter().map(value).collect::<Vec<_>>());
    let difference = over(|p| p.difference() as f64);
    TuneVerdict {
        comparison: if changes.is_empty() { Comparison::NothingToChange } else { compare(difference) },
        target: options.host.host.clone(),
        direction: direction(options),
        test_ns: nanos(options.time),
        keys: changes.iter().map(|c| c.setting.to_string()).collect(),
        without_bps: over(|p| p.without as f64),
        with_bps: over(|p| p.with as f64),
        difference_bps: difference,
        interrupted: Shutdown::requests() > 0,
    }
}

fn direction(options: &VerifyOptions) -> Direction {
    if options.reverse { Direction::Down } else { Direction::Up }
}

fn test_plan(options: &VerifyOptions) -> TestPlan {
    TestPlan {
        transport: Transport::Tcp,
        directions: vec![direction(options)],
        streams: options.streams,
        duration_ns: Some(nanos(options.time)),
        bytes: None,
        interval_ns: nanos(Duration::from_secs(1)),
        block_bytes: 64 << 10,
        window_bytes: None,
        congestion_control: options.congestion.clone(),
        rate_bps: None,
        dscp: None,
        mss_bytes: None,
        notsent_lowat_bytes: None,
        zero_copy: false,
        seed: 1,
    }
}
