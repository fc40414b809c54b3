use std::collections::BTreeMap;

use results::{Limit, LimitVerdict};

/// The verdict of several streams together; `None` without streams.
///
/// Each stream votes with its weight (the bytes that it carried, at least one) times the share of its evidence. The
/// share of the result is the mean over all streams, with zero where a stream was limited by something else; the
/// evidence is that of the heaviest stream of the winning side.
pub fn combine(verdicts: &[(LimitVerdict, u64)]) -> Option<LimitVerdict> {
    let mut votes: BTreeMap<Limit, f64> = BTreeMap::new();
    for (verdict, weight) in verdicts {
        *votes.entry(verdict.limit).or_default() += vote(verdict, *weight);
    }
    let (limit, votes_max) =
        votes.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(is_known(a.0).cmp(&is_known(b.0))))?;
    let agreeing: Vec<_> = verdicts.iter().filter(|(v, _)| v.limit == limit).collect();
    let (heaviest, _) = agreeing.iter().max_by(|a, b| vote(&a.0, a.1).total_cmp(&vote(&b.0, b.1)))?;
    if verdicts.len() == 1 {
        return Some(heaviest.clone());
    }
    let (all, theirs) = (total(verdicts.iter()), total(agreeing.iter().copied()));
    let percent = theirs / all * 100.0;
    let streams = format!("{} of {} streams ({percent:.0} % of the bytes)", agreeing.len(), verdicts.len());
    Some(LimitVerdict {
        limit,
        share: votes_max / all,
        evidence: format!("{streams}, the largest: {}", heaviest.evidence),
    })
}

/// A stalled stream carried nothing but still votes, hence a minimum of one.
fn vote(verdict: &LimitVerdict, weight: u64) -> f64 {
    weight.max(1) as f64 * verdict.share
}

fn total<'a>(verdicts: impl Iterator<Item = &'a (LimitVerdict, u64)>) -> f64 {
    verdicts.map(|(_, weight)| (*weight).max(1) as f64).sum()
}

/// Among equal votes a known limit precedes an unknown one.
fn is_known(limit: Limit) -> bool {
    limit != Limit::Unknown
}
