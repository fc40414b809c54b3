//! Rules for the machine.

use results::tune::{Judgement, TuneRow};

use super::ESNET;
use crate::catalogue::{Context, Finding, row, unread};

pub(crate) fn rows(context: &Context<'_>) -> Vec<TuneRow> {
    vec![governor(context)]
}

fn governor(context: &Context<'_>) -> TuneRow {
    const KEY: &str = "cpu:governor";
    let Some(governors) = context.facts.governors.as_ref().filter(|g| !g.is_empty()) else {
        let why = "The machine does not show the frequency of its CPUs; virtual ones leave it to their host.";
        return unread(KEY, Judgement::CannotBeRead, why, ESNET);
    };
    let mut kinds = governors.clone();
    kinds.sort_unstable();
    kinds.dedup();
    let why = "A CPU that sleeps between packets wakes late; set it with cpupower frequency-set -g performance.";
    let finding = if kinds.iter().all(|k| k == "performance") {
        Finding::good("The CPUs run at their full frequency.")
    } else {
        Finding::change("performance", why)
    };
    row(KEY, &kinds.join(" "), finding, ESNET)
}
