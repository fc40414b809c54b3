//! What a search for the best paths costs: in full, and after a change of one link.
//!
//! ```sh
//! cargo run --release -p route --example search
//! ```
//!
//! 1,000 members with 10,000 directed links, which lie at random, or nearly all at five members that everybody is joined to, or between a hundred
//! members who are all joined to each other. All metrics differ, so that as many paths as can be are on a front.
#![allow(clippy::print_stdout, reason = "it prints a table")]
#![allow(clippy::disallowed_methods, reason = "the time that the pure crate takes is read outside it")]

use std::time::Instant as Clock;

use estimate::draw;
use route::search::disjoint;
use route::{Control, Fronts, Graph, Member, Metrics, Policy};
use units::{Duration, Instant, Rate};

const MEMBERS: u32 = 1000;
const LINKS: usize = 10_000;
const HUBS: u32 = 5;
const ROUNDS: usize = 200;

/// Draws, one after the other.
struct Draws(u64);

impl Draws {
    fn share(&mut self) -> f64 {
        self.0 += 1;
        draw(2008, self.0)
    }

    fn below(&mut self, n: u32) -> u32 {
        (self.share() * f64::from(n)) as u32
    }

    /// 10 Mb/s to 10 Gb/s, 1 to 200 ms, 10^-6 to 0.2, known to a fifth.
    fn metrics(&mut self) -> Metrics {
        let capacity = Rate::from_bps(10_f64.powf(7.0 + 3.0 * self.share()) as u64);
        let rtt = Duration::from_secs_f64(0.001 + 0.2 * self.share());
        let loss = 10_f64.powf(-6.0 + 5.3 * self.share());
        Metrics { loss_low: loss * 0.8, loss_high: loss * 1.2, ..Metrics::exact(Some(capacity), rtt, loss) }
    }

    /// The loss counted anew, up to a tenth off.
    fn counted(&mut self, truth: &Metrics) -> Metrics {
        let loss = truth.loss * (0.9 + 0.2 * self.share());
        Metrics { loss, loss_low: loss * 0.8, loss_high: loss * 1.2, ..*truth }
    }
}

fn random(draws: &mut Draws) -> Vec<(u32, u32)> {
    (0..LINKS).map(|_| (draws.below(MEMBERS), draws.below(MEMBERS))).collect()
}

fn hubs(_: &mut Draws) -> Vec<(u32, u32)> {
    (0..HUBS).flat_map(|hub| (0..MEMBERS).flat_map(move |m| [(m, hub), (hub, m)])).collect()
}

fn mesh(_: &mut Draws) -> Vec<(u32, u32)> {
    (0..100).flat_map(|a| (0..100).map(move |b| (a, b))).collect()
}

fn main() {
    println!("median and largest in ms");
    println!(
        "{:7} {:>6} {:>15} {:>15} {:>15} {:>15}",
        "links", "paths", "full", "one link", "its own link", "2 disjoint"
    );
    for (name, links) in [("random", random as fn(&mut Draws) -> Vec<(u32, u32)>), ("hubs", hubs), ("mesh", mesh)] {
        let mut draws = Draws(0);
        let links: Vec<(u32, u32)> = links(&mut draws).into_iter().filter(|(a, b)| a != b).collect();
        searches(name, &links, &mut draws);
    }
    println!("\nroute control of a member, of a report on every fifth link: median and largest in ms");
    for (name, links) in [("random", random as fn(&mut Draws) -> Vec<(u32, u32)>), ("hubs", hubs), ("mesh", mesh)] {
        let mut draws = Draws(0);
        let links: Vec<(u32, u32)> = links(&mut draws).into_iter().filter(|(a, b)| a != b).collect();
        println!("{name:7} {}", reports(&links, &mut draws));
    }
}

fn searches(name: &str, links: &[(u32, u32)], draws: &mut Draws) {
    let policy = Policy::default();
    let source = Member(links[0].0);
    let mut graph = Graph::new(policy.unknown_capacity);
    (0..MEMBERS).for_each(|m| graph.set_member(Member(m), true));
    for (a, b) in links {
        graph.set(Member(*a), Member(*b), draws.metrics());
    }
    let fronts = Fronts::full(&graph, source);
    let full = times(50, |_| drop(Fronts::full(&graph, source)));
    let own: Vec<_> = links.iter().copied().filter(|(a, _)| Member(*a) == source).collect();
    let mut update = |which: &[(u32, u32)]| {
        let (mut graph, mut fronts) = (graph.clone(), fronts.clone());
        let mut spent = Vec::new();
        for _ in 0..ROUNDS {
            let (a, b) = which[draws.below(which.len() as u32) as usize];
            let (a, b) = (Member(a), Member(b));
            graph.set(a, b, draws.metrics());
            let begin = Clock::now();
            fronts.update(&graph, &[(a, b)]);
            spent.push(begin.elapsed());
        }
        shown(spent)
    };
    let (one, own) = (update(links), update(&own));
    let two = times(ROUNDS, |i| {
        let to = Member((i as u32 * 7 + 1) % 100);
        drop(disjoint(&graph, source, to, 2, |m| policy.predict(m)));
    });
    println!("{name:7} {:>6} {full:>15} {one:>15} {own:>15} {two:>15}", fronts.len());
}

/// Two thousand reports each 200 ms, and what is decided on them.
fn reports(links: &[(u32, u32)], draws: &mut Draws) -> String {
    let source = Member(links[0].0);
    let Ok(mut control) = Control::new(source, Policy::default()) else { return "no policy".to_owned() };
    let mut now = Instant::ZERO;
    let members = links.iter().flat_map(|(a, b)| [*a, *b]);
    let mut refused = members.filter(|m| control.handle_member(now, Member(*m), Some(true)).is_err()).count();
    let truth: Vec<((u32, u32), Metrics)> = links.iter().map(|link| (*link, draws.metrics())).collect();
    let mut spent = Vec::new();
    for round in 0..100 {
        let reports: Vec<_> =
            truth.iter().skip(round % 5).step_by(5).map(|(link, m)| (*link, draws.counted(m))).collect();
        let begin = Clock::now();
        for ((a, b), metrics) in reports {
            refused += usize::from(control.handle_link(now, Member(a), Member(b), Some(metrics)).is_err());
        }
        now = now + Duration::from_millis(200);
        while let Some(due) = control.poll_timeout().filter(|due| *due <= now) {
            control.handle_timeout(due);
        }
        while control.poll_decision().is_some() {}
        // The first rounds choose all paths.
        if round >= 20 {
            spent.push(begin.elapsed());
        }
    }
    format!("{}, {refused} refused, {} remembered", shown(spent), control.remembered())
}

fn times(rounds: usize, mut what: impl FnMut(usize)) -> String {
    let once = |i| {
        let begin = Clock::now();
        what(i);
        begin.elapsed()
    };
    shown((0..rounds).map(once).collect())
}

fn shown(mut spent: Vec<Duration>) -> String {
    spent.sort_unstable();
    let ms = |i: usize| spent.get(i).map_or(f64::NAN, |d| d.as_secs_f64() * 1e3);
    format!("{:.3} {:.3}", ms(spent.len() / 2), ms(spent.len() - 1))
}
