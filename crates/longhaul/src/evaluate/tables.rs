//! Computes the tables of chapters 5 and 6 of *Choosing Internet Paths* (2002) from measured paths.

use estimate::evaluation::{
    Bootstrap, Measurement, Pairs, Ratios, VARIATIONS, agreement, decision_interval, decision_rates, random_choice,
};
use results::estimate::{Quantity, Similarity};
use results::evaluate::{
    DecisionRate, JoinedEstimate, MeasuredPath, MethodAccuracy, MethodAgreement, MethodDecisions, PairSet, RatioSummary,
};

/// Variation that counts as agreement in Table 5.7 of the thesis.
const AGREEMENT_VARIATION: f64 = 1.05;

/// Measured paths in the form of the evaluation functions.
pub(super) struct Tables<'a> {
    ensemble: &'a str,
    paths: &'a [MeasuredPath],
    /// Methods in the order of their first appearance, with the quantity that each estimates.
    methods: Vec<(&'a str, Quantity)>,
    /// Estimates of the methods as payload rates, in the same order, followed by the throughput of the transfer.
    measurements: Vec<Measurement<&'a str>>,
}

/// Pairs of paths of one table.
#[derive(Debug)]
struct Chosen<'a, E> {
    measurements: &'a [Measurement<E>],
    pairs: &'a Pairs,
    set: PairSet,
}

impl<'a> Tables<'a> {
    pub(super) fn new(ensemble: &'a str, paths: &'a [MeasuredPath]) -> Self {
        let mut methods: Vec<(&str, Quantity)> = Vec::new();
        for e in paths.iter().flat_map(|p| &p.estimates) {
            if methods.iter().all(|(name, _)| *name != e.method) {
                methods.push((&e.method, e.quantity));
            }
        }
        let measurement = |p: &'a MeasuredPath| {
            let payload = |name: &str| Some(find(p, name)?.payload_bps? as f64);
            let transfer = p.transfer_bps as f64;
            let estimates = methods.iter().map(|(name, _)| payload(name)).chain([Some(transfer)]).collect();
            Measurement { from: p.sender.as_str(), to: p.receiver.as_str(), truth_bps: transfer, estimates }
        };
        let measurements = paths.iter().map(measurement).collect();
        Self { ensemble, paths, methods, measurements }
    }

    /// Spread of the transfers' throughput: geometric mean, and standard deviation of the natural logarithm.
    pub(super) fn spread(&self) -> Option<(u64, f64)> {
        let spread = estimate::evaluation::spread(&self.measurements)?;
        Some((spread.centre_bps.round() as u64, spread.sigma_ln))
    }

    /// Values of Figures 6-1 to 6-7 and of Table 5.2.
    pub(super) fn accuracy(&self) -> Vec<MethodAccuracy> {
        (0..).zip(&self.methods).map(|(number, (name, quantity))| self.accuracy_of(number, name, *quantity)).collect()
    }

    fn accuracy_of(&self, number: usize, name: &str, quantity: Quantity) -> MethodAccuracy {
        let joined: Vec<&JoinedEstimate> = self.paths.iter().filter_map(|p| find(p, name)).collect();
        let against = |e: &&JoinedEstimate| Measurement {
            from: (),
            to: (),
            truth_bps: e.truth_bps.map_or(f64::NAN, |bps| bps as f64),
            estimates: vec![e.estimate_bps.map(|bps| bps as f64)],
        };
        let to_truth: Vec<Measurement<()>> = joined.iter().map(against).collect();
        let base = base(name);
        MethodAccuracy {
            ensemble: self.ensemble.to_owned(),
            method: name.to_owned(),
            quantity,
            attempted: count(self.paths.iter().filter(|p| find(p, name).or_else(|| find(p, base)).is_some())),
            answered: count(joined.iter().filter(|e| e.estimate_bps.is_some())),
            to_truth: summary(&Ratios::new(&to_truth, 0)),
            to_transfer: summary(&Ratios::new(&self.measurements, number)),
            bytes: median(joined.iter().map(|e| e.bytes).collect()),
            elapsed_ns: median(joined.iter().map(|e| e.elapsed_ns).collect()),
        }
    }

    /// Tables 5.1 and 5.8, 5.3 and 5.4 to 5.6; Table 5.3 only if its pairs differ from those of Table 5.1.
    pub(super) fn decisions(&self, bootstrap: Bootstrap) -> Vec<MethodDecisions> {
        let all = Pairs::all(&self.measurements);
        let common = Pairs::common_endpoint(&self.measurements);
        let among =
            |pairs, set| self.decisions_among(&Chosen { measurements: &self.measurements, pairs, set }, bootstrap);
        let mut tables = among(&all, PairSet::All);
        let of = |pairs| self.number_of(&Chosen { measurements: &self.measurements, pairs, set: PairSet::All });
        if of(&common).is_some() && of(&common) != of(&all) {
            tables.extend(among(&common, PairSet::CommonEndpoint));
        }
        tables.extend(self.decisions_by_class(bootstrap));
        tables
    }

    /// Tables 5.4 to 5.6, for the paths that have a similarity class.
    fn decisions_by_class(&self, bootstrap: Bootstrap) -> Vec<MethodDecisions> {
        let classed = |(path, m): (&MeasuredPath, &Measurement<&str>)| {
            let class = path.similarity?;
            Some(Measurement { from: class, to: class, truth_bps: m.truth_bps, estimates: m.estimates.clone() })
        };
        let classed: Vec<_> = self.paths.iter().zip(&self.measurements).filter_map(classed).collect();
        let of = |class: Similarity| move |m: &Measurement<Similarity>| m.from == class;
        let sets = [
            (PairSet::BothTightLikeNarrow, Pairs::both(&classed, of(Similarity::TightLikeNarrow))),
            (PairSet::BothTightUnlikeNarrow, Pairs::both(&classed, of(Similarity::TightUnlikeNarrow))),
            (PairSet::OneOfEach, Pairs::mixed(&classed, of(Similarity::TightLikeNarrow))),
        ];
        let chosen = sets.iter().map(|(set, pairs)| Chosen { measurements: &classed, pairs, set: *set });
        chosen.flat_map(|chosen| self.decisions_among(&chosen, bootstrap)).collect()
    }

    fn decisions_among<E>(&self, chosen: &Chosen<'_, E>, bootstrap: Bootstrap) -> Vec<MethodDecisions> {
        if self.number_of(chosen).is_none_or(|pairs| pairs == 0) {
            return Vec::new();
        }
        let methods = (0..).zip(&self.methods);
        let rows = methods.filter_map(|(n, (name, _))| self.decisions_of(name, n, chosen, Some(bootstrap)));
        rows.chain(self.random_choice(chosen)).collect()
    }

    /// Number of pairs, taken from the row of the transfer, which has a value for every path.
    fn number_of<E>(&self, chosen: &Chosen<'_, E>) -> Option<u64> {
        self.decisions_of("", self.methods.len(), chosen, None).map(|d| d.pairs)
    }

    fn decisions_of<E>(
        &self,
        name: &str,
        method: usize,
        chosen: &Chosen<'_, E>,
        bootstrap: Option<Bootstrap>,
    ) -> Option<MethodDecisions> {
        let Chosen { measurements, pairs, set } = *chosen;
        let decided = decision_rates(measurements, method, pairs, &VARIATIONS);
        let first = decided.first()?;
        let rate = |d: &estimate::evaluation::Decisions| {
            let resampled = bootstrap.and_then(|b| decision_interval(measurements, method, pairs, d.variation, b));
            DecisionRate {
                variation: d.variation,
                share: d.share,
                low: resampled.map(|r| r.low),
                high: resampled.map(|r| r.high),
                share_with_guesses: d.share_with_guesses,
            }
        };
        Some(MethodDecisions {
            ensemble: self.ensemble.to_owned(),
            method: name.to_owned(),
            pair_set: set,
            pairs: first.pairs,
            undecided: first.undecided,
            rates: decided.iter().map(rate).collect(),
        })
    }

    fn random_choice<E>(&self, chosen: &Chosen<'_, E>) -> Option<MethodDecisions> {
        let all = self.decisions_of("random choice", self.methods.len(), chosen, None)?;
        let toss = |rate: DecisionRate| {
            let share = random_choice(chosen.measurements, chosen.pairs, rate.variation)?;
            Some(DecisionRate { share, share_with_guesses: share, ..rate })
        };
        Some(MethodDecisions { rates: all.rates.into_iter().filter_map(toss).collect(), ..all })
    }

    /// Table 5.7: each pair of methods once, and each method with the transfer.
    pub(super) fn agreement(&self) -> Vec<MethodAgreement> {
        let pairs = Pairs::all(&self.measurements);
        let names: Vec<&str> = self.methods.iter().map(|(name, _)| *name).chain(["transfer"]).collect();
        let mut all = Vec::new();
        for (one, method) in names.iter().enumerate() {
            for (two, other) in names.iter().enumerate().skip(one + 1) {
                let share = agreement(&self.measurements, one, two, &pairs, AGREEMENT_VARIATION);
                all.extend(share.map(|share| MethodAgreement {
                    ensemble: self.ensemble.to_owned(),
                    method: (*method).to_owned(),
                    other: (*other).to_owned(),
                    variation: AGREEMENT_VARIATION,
                    share,
                }));
            }
        }
        all
    }
}

fn find<'a>(path: &'a MeasuredPath, method: &str) -> Option<&'a JoinedEstimate> {
    path.estimates.iter().find(|e| e.method == method)
}

/// Name of the method that ran, such as `auto` for `auto, capacity` and for `auto -> goodput`.
fn base(name: &str) -> &str {
    name.split([',', ' ']).next().unwrap_or(name)
}

fn count(items: impl Iterator) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

/// Median, the upper one of two for an even number of values.
fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

fn summary(ratios: &Ratios) -> Option<RatioSummary> {
    let quantile = |share| ratios.quantile(share).filter(|r| r.is_finite());
    Some(RatioSummary {
        count: u32::try_from(ratios.len()).unwrap_or(u32::MAX),
        p10: quantile(0.1),
        p50: quantile(0.5),
        p90: quantile(0.9),
        within_15_percent: ratios.share_within(0.15)?,
        within_factor_2: ratios.share_within_factor(2.0)?,
    })
}
