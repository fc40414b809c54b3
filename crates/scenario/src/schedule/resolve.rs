//! Converts entries to changes: follows the state of each direction over time.

use std::collections::BTreeMap;
use std::time::Duration;

use link::{Capacity, Loss, Settings};
use units::{Rate, nanos};

use super::{Action, CHANGES_MAX, Entry, Target, too_many};
use crate::model::Change;
use crate::patch::Patch;
use crate::problem::{Fault, Report};
use crate::topology::index;

/// One moment of an entry of the schedule.
#[derive(Debug, Clone, Copy)]
struct Event {
    at: Duration,
    /// Index of the entry.
    entry: usize,
    moment: Moment,
}

#[derive(Debug, Clone, Copy)]
enum Moment {
    /// A step, or the start of a ramp or outage.
    Start,
    /// Time since the start of a ramp.
    Ramp(Duration),
    /// The end of an outage.
    End,
}

/// The state of one direction of a link.
#[derive(Debug, Clone)]
struct State {
    /// Settings without outages.
    settings: Settings,
    /// Number of outages in progress.
    outages: u32,
}

impl State {
    fn seen(&self) -> Settings {
        Settings { up: self.settings.up && self.outages == 0, ..self.settings.clone() }
    }
}

/// A ramp in progress.
#[derive(Debug)]
struct Ramp<'a> {
    to: &'a Patch,
    over: Duration,
    end: Duration,
    from: Settings,
}

struct Walk<'a> {
    entries: &'a [Entry],
    states: Vec<[State; 2]>,
    /// Ramps in progress, by entry and target.
    ramps: BTreeMap<(usize, Target), Ramp<'a>>,
    report: &'a Report,
}

/// All changes before the end of the run, sorted by time. One direction changes at most once at a time.
pub(super) fn changes(entries: &[Entry], initial: Vec<[Settings; 2]>, run: Duration, report: &Report) -> Vec<Change> {
    let Some(events) = events(entries, run, report) else { return Vec::new() };
    let states = initial.into_iter().map(|pair| pair.map(|settings| State { settings, outages: 0 })).collect();
    let mut walk = Walk { entries, states, ramps: BTreeMap::new(), report };
    let mut changes: Vec<Change> = Vec::new();
    for events in events.chunk_by(|a, b| a.at == b.at) {
        let mut before: BTreeMap<Target, Settings> = BTreeMap::new();
        for event in events {
            for target in &entries[event.entry].targets {
                before.entry(*target).or_insert_with(|| walk.state(*target).seen());
            }
            walk.handle(event);
        }
        for (target, before) in before {
            let settings = walk.state(target).seen();
            if settings != before {
                changes.push(Change { at: events[0].at, link: target.link, direction: target.direction, settings });
            }
        }
    }
    changes
}

/// Moments in the order of time; at equal times in the order of the file.
fn events(entries: &[Entry], run: Duration, report: &Report) -> Option<Vec<Event>> {
    let mut events = Vec::new();
    let mut changes = 0;
    for (entry, Entry { at, targets, action, spot }) in entries.iter().enumerate() {
        let first = events.len();
        events.push(Event { at: *at, entry, moment: Moment::Start });
        match action {
            Action::Set(_) => {}
            Action::Outage(time) => events.push(Event { at: *at + *time, entry, moment: Moment::End }),
            Action::Ramp { over, every, .. } => {
                let steps = over.as_nanos().div_ceil(every.as_nanos().max(1));
                // More steps than this exceed the limit with any number of links.
                for step in 1..=u32::try_from(steps).unwrap_or(u32::MAX).min(CHANGES_MAX as u32 + 1) {
                    let elapsed = every.saturating_mul(step).min(*over);
                    events.push(Event { at: *at + elapsed, entry, moment: Moment::Ramp(elapsed) });
                }
            }
        }
        changes += (events.len() - first) * targets.len();
        if changes > CHANGES_MAX {
            too_many(spot, report);
            return None;
        }
    }
    events.retain(|event| event.at < run);
    events.sort_by_key(|event| event.at);
    Some(events)
}

impl<'a> Walk<'a> {
    fn state(&self, target: Target) -> &State {
        &self.states[target.link][index(target.direction)]
    }

    fn state_mut(&mut self, target: Target) -> &mut State {
        &mut self.states[target.link][index(target.direction)]
    }

    fn handle(&mut self, event: &Event) {
        let entries = self.entries;
        let entry = &entries[event.entry];
        if let (Moment::Start, Action::Set(patch) | Action::Ramp { to: patch, .. }) = (event.moment, &entry.action) {
            self.refuse_overlap(event, entry, patch);
        }
        for target in &entry.targets {
            match (event.moment, &entry.action) {
                (Moment::Start, Action::Set(patch)) => patch.apply(&mut self.state_mut(*target).settings),
                (Moment::Start, Action::Outage(_)) => self.state_mut(*target).outages += 1,
                (Moment::End, _) => self.state_mut(*target).outages -= 1,
                (Moment::Start, Action::Ramp { to, over, .. }) => {
                    let from = self.state(*target).settings.clone();
                    if let Err(fault) = between(&from, to, 0, 1) {
                        entry.spot.complain(self.report, fault);
                    }
                    let ramp = Ramp { to, over: *over, end: event.at + *over, from };
                    self.ramps.insert((event.entry, *target), ramp);
                }
                (Moment::Ramp(elapsed), _) => self.ramp(event.entry, *target, elapsed),
            }
        }
        if let (Moment::Start, Action::Set(patch)) = (event.moment, &entry.action) {
            for target in &entry.targets {
                let [forward, backward] = &mut self.states[target.link];
                let (own, other) = if index(target.direction) == 0 { (forward, backward) } else { (backward, forward) };
                patch.apply_products(&mut own.settings, other.settings.delay, self.report);
            }
        }
    }

    fn ramp(&mut self, entry: usize, target: Target, elapsed: Duration) {
        let Some(ramp) = self.ramps.get(&(entry, target)) else { return };
        let step = between(&ramp.from, ramp.to, nanos(elapsed), nanos(ramp.over));
        let over = elapsed >= ramp.over;
        if let Ok(step) = step {
            step.apply(&mut self.state_mut(target).settings);
        }
        if over {
            self.ramps.remove(&(entry, target));
        }
    }

    /// Reports an error if an entry changes a value during a ramp of it: the result would be ambiguous.
    fn refuse_overlap(&self, event: &Event, entry: &Entry, patch: &Patch) {
        let hit = self.ramps.iter().find(|((_, target), ramp)| {
            entry.targets.contains(target) && event.at < ramp.end && shared(patch, ramp.to).is_some()
        });
        let Some((_, ramp)) = hit else { return };
        let key = shared(patch, ramp.to).unwrap_or_default();
        let message = format!("changes {key} during the ramp that ends at {}", crate::describe::duration(ramp.end));
        entry.spot.complain(self.report, Fault::new(message, "let the ramp end first, or split it"));
    }
}

/// A key that both patches name, of those that a ramp can change.
fn shared(a: &Patch, b: &Patch) -> Option<&'static str> {
    [
        ("rate", a.capacity.is_some() && b.capacity.is_some()),
        ("delay", a.delay.is_some() && b.delay.is_some()),
        ("jitter", a.jitter.is_some() && b.jitter.is_some()),
        ("loss", a.loss.is_some() && b.loss.is_some()),
    ]
    .iter()
    .find(|(_, both)| *both)
    .map(|(key, _)| *key)
}

/// The values after `elapsed` of `over` nanoseconds of a linear ramp.
fn between(from: &Settings, to: &Patch, elapsed: u64, over: u64) -> Result<Patch, Fault> {
    let number = |a: u64, b: u64| {
        let difference = i128::from(b) - i128::from(a);
        let value = i128::from(a) + difference * i128::from(elapsed) / i128::from(over.max(1));
        u64::try_from(value).unwrap_or(b)
    };
    let time = |a: Duration, b: Duration| Duration::from_nanos(number(nanos(a), nanos(b)));
    let capacity = match (&to.capacity, &from.capacity) {
        (Some(Capacity::Constant(b)), Capacity::Constant(a)) => {
            Some(Capacity::Constant(Rate::from_bps(number(a.as_bps(), b.as_bps()))))
        }
        (Some(_), Capacity::Unlimited | Capacity::Trace(_) | Capacity::Constant(_)) => {
            return Err(Fault::new("a ramp of the rate needs a rate to start from", "set a rate first, or use a step"));
        }
        (None, _) => None,
    };
    let loss = match (to.loss, from.loss) {
        (Some(Loss::GilbertElliott { .. }), _) | (Some(_), Loss::GilbertElliott { .. }) => {
            return Err(Fault::new("a ramp of the loss cannot start from loss in bursts", "use a step"));
        }
        (Some(to), from) => Some(independent(probability(from), probability(to), elapsed as f64 / over.max(1) as f64)),
        (None, _) => None,
    };
    let delay = to.delay.map(|b| time(from.delay, b));
    let jitter = to.jitter.map(|b| time(from.jitter.amount, b));
    Ok(Patch { capacity, delay, jitter, loss, ..Patch::default() })
}

fn probability(loss: Loss) -> f64 {
    match loss {
        Loss::Independent(p) => p,
        Loss::None | Loss::GilbertElliott { .. } => 0.0,
    }
}

/// Linear interpolation, exact at both ends.
fn independent(a: f64, b: f64, share: f64) -> Loss {
    let p = if share >= 1.0 { b } else { a + (b - a) * share };
    if p == 0.0 { Loss::None } else { Loss::Independent(p.clamp(0.0, 1.0)) }
}
