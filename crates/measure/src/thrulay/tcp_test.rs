//! TCP test with a thrulay server: the native sender, and records without the server's counts.

use std::net::SocketAddr;
use std::time::Duration;

use results::{EndRecord, Record, Role, TestPlan};
use units::Bytes;
use wire::EndSide;

use super::follow::{self, Outcome, Watch};
use super::open::{self, Links};
use super::summary;
use crate::MeasureError;
use crate::client::{ClientOptions, Gathered, end_record};
use crate::load::{LoadPlan, Stream};

pub(super) fn run(
    options: &ClientOptions,
    target: SocketAddr,
    observe: &mut dyn FnMut(&Record),
    interrupted: &dyn Fn() -> usize,
) -> Result<EndRecord, MeasureError> {
    let links = open::open_all(options, target)?;
    // Before the load, the minimum round trip of a connection is that of its handshake or of the proposal.
    let states = links.sockets.iter().filter_map(|s| kernel::tcp_state(&s.socket).ok()?.min_rtt_ns);
    let baseline = states.min().map(Duration::from_nanos);
    let notes = notes(options, &links);
    let start = summary::start_record(options, links.plan, notes, links.starts, baseline)?;
    observe(&Record::Start(start.clone()));
    let plan = LoadPlan::new(&start.plan, &start.test_id, kernel::now(), options.grace);
    let plan = LoadPlan { disk: options.disk.clone(), ..plan };
    let streams = links.sockets.into_iter().map(Stream::Tcp).collect();
    let outcome = follow::run(&plan, streams, Watch::Progress, observe, interrupted)?;
    let Outcome { sender, warnings, best, failure, stopped, memory } = outcome;
    let sender = sender.unwrap_or_else(|| summary::empty_side(Role::Sender));
    let receiver = summary::echoed(&sender, Bytes::new(start.plan.block_bytes));
    let explanation = explanation(&sender, &receiver);
    let failure =
        failure.or_else(|| if stopped { None } else { unconfirmed(&sender, &receiver, &start.plan, plan.grace) });
    let got = Gathered::without_control(baseline, best, sender, receiver).ended(failure, stopped, warnings, memory);
    let mut end = end_record(options, &start, &got);
    summary::set_agreement(&mut end, Some(explanation));
    observe(&Record::End(end.clone()));
    Ok(end)
}

/// Notes on the limits of the older protocol and on the terms that the server changed.
fn notes(options: &ClientOptions, links: &Links) -> Vec<String> {
    let mut notes = summary::common_notes();
    notes.push(
        "the server reports nothing of what it received: a block whose header came back counts as received, the \
         receiver's application stage and the ramp-up are missing"
            .to_owned(),
    );
    let (requested, granted) = (Bytes::new(options.plan.block_bytes), links.terms.block);
    if requested != granted {
        notes.push(format!("the server takes blocks of {granted} instead of {requested}"));
    }
    let window = links.terms.window;
    match options.plan.window_bytes.map(Bytes::new) {
        None => {
            let asked = open::DEFAULT_WINDOW;
            notes.push(format!(
                "thrulay servers do not autotune their buffers: asked for {asked}, the server set {window}"
            ));
        }
        Some(requested) if window < requested => {
            notes.push(format!("the server granted buffers of {window}, below the window of {requested}"));
        }
        Some(_) => {}
    }
    notes
}

/// Reason why a test is incomplete: a server that stopped reading or echoing leaves more than the current block of each
/// stream unconfirmed.
fn unconfirmed(sender: &EndSide, receiver: &EndSide, plan: &TestPlan, grace: Duration) -> Option<String> {
    let in_blocks = plan.block_bytes.saturating_mul(sender.streams.len() as u64);
    let missing = sender.totals.bytes.saturating_sub(receiver.totals.bytes);
    (missing > in_blocks).then(|| {
        format!(
            "the server took no data or confirmed none for {:.1} s after the load: {} of {} are unconfirmed",
            grace.as_secs_f64(),
            Bytes::new(missing),
            Bytes::new(sender.totals.bytes)
        )
    })
}

fn explanation(sender: &EndSide, receiver: &EndSide) -> String {
    let echoed: u64 = receiver.streams.iter().map(|s| s.blocks).sum();
    let (sent, confirmed) = (sender.totals.bytes, receiver.totals.bytes);
    format!(
        "not compared: the server's count is not available with thrulay; {echoed} blocks came back, which leaves {} of \
         {} sent unconfirmed",
        Bytes::new(sent.saturating_sub(confirmed)),
        Bytes::new(sent)
    )
}
