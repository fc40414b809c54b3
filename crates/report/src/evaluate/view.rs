//! Records in the order of the tables, with their numbers as text.

use results::estimate::Similarity;
use results::evaluate::{
    DecisionRate, Ensemble, EvaluateRecord, EvaluateStart, MeasuredPath, MethodAccuracy, MethodAgreement,
    MethodDecisions, PairSet,
};

use crate::summary::rate;

/// Records of one ensemble.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) head: &'a Ensemble,
    pub(super) paths: Vec<&'a MeasuredPath>,
    pub(super) accuracy: Vec<&'a MethodAccuracy>,
    pub(super) decisions: Vec<&'a MethodDecisions>,
    pub(super) agreement: Vec<&'a MethodAgreement>,
}

/// Splits the records into the start record and the ensembles.
pub(super) fn views(records: &[EvaluateRecord]) -> (Option<&EvaluateStart>, Vec<View<'_>>) {
    let (mut start, mut views) = (None, Vec::<View<'_>>::new());
    for record in records {
        match (record, views.last_mut()) {
            (EvaluateRecord::Start(s), _) => start = Some(s),
            (EvaluateRecord::Ensemble(head), _) => {
                let (paths, accuracy) = (Vec::new(), Vec::new());
                views.push(View { head, paths, accuracy, decisions: Vec::new(), agreement: Vec::new() });
            }
            (EvaluateRecord::Path(p), Some(view)) => view.paths.push(p),
            (EvaluateRecord::Accuracy(a), Some(view)) => view.accuracy.push(a),
            (EvaluateRecord::Decisions(d), Some(view)) => view.decisions.push(d),
            (EvaluateRecord::Agreement(a), Some(view)) => view.agreement.push(a),
            (
                EvaluateRecord::Path(_)
                | EvaluateRecord::Accuracy(_)
                | EvaluateRecord::Decisions(_)
                | EvaluateRecord::Agreement(_),
                None,
            ) => {}
        }
    }
    (start, views)
}

/// Table of decisions: description of the pairs, and rows.
pub(super) type DecisionTable<'a> = (&'static str, Vec<&'a MethodDecisions>);

impl<'a> View<'a> {
    /// Description of the ensemble, in sentences.
    pub(super) fn sentences(&self) -> Vec<String> {
        let head = self.head;
        let mut spread = format!("{} of {} runs are evaluated", head.paths, head.runs);
        if let (Some(centre), Some(sigma)) = (head.centre_bps, head.sigma_ln) {
            spread += &format!("; geometric mean of the transfers {}, sigma of ln {sigma:.2}", rate(centre));
        }
        let mut all = vec![spread + "."];
        let left_out = [
            (head.invalid, "not valid"),
            (head.unfinished, "interrupted"),
            (head.without_transfer, "without a throughput of the transfer"),
            (head.without_estimates, "without estimates of the path"),
        ];
        let left_out = left_out.iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{n} {why}"));
        let left_out = left_out.collect::<Vec<_>>().join(", ");
        if !left_out.is_empty() {
            all.push(format!("Left out: {left_out}."));
        }
        if head.overlapping > 0 {
            all.push(format!(
                "Runs in which a method was still active when the transfer started: {}.",
                head.overlapping
            ));
        }
        let of = |s: Similarity| self.paths.iter().filter(|p| p.similarity == Some(s)).count();
        let (like, unlike) = (of(Similarity::TightLikeNarrow), of(Similarity::TightUnlikeNarrow));
        if like + unlike > 0 {
            all.push(format!("Squeezed pairs: {like} tight like narrow, {unlike} tight unlike narrow."));
        }
        all
    }

    /// Non-empty tables of decisions.
    pub(super) fn decision_tables(&self) -> Vec<DecisionTable<'a>> {
        let of = |set| self.decisions.iter().copied().filter(|d| d.pair_set == set).collect::<Vec<_>>();
        let all = [
            ("all pairs", PairSet::All),
            ("pairs with a common endpoint", PairSet::CommonEndpoint),
            ("both tight like narrow by squeezed pairs", PairSet::BothTightLikeNarrow),
            ("both tight unlike narrow", PairSet::BothTightUnlikeNarrow),
            ("one tight like narrow, one unlike", PairSet::OneOfEach),
        ];
        let all = all.map(|(name, set)| (name, of(set)));
        all.into_iter().filter(|(_, rows)| !rows.is_empty()).collect()
    }

    /// Methods of the agreement table, in order.
    pub(super) fn agreeing(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.agreement.iter().flat_map(|a| [a.method.as_str(), a.other.as_str()]) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Share of pairs on which two methods agree; 1 for a method with itself.
    pub(super) fn agreement_of(&self, one: &str, other: &str) -> Option<f64> {
        let both =
            |a: &&&MethodAgreement| (a.method == one && a.other == other) || (a.method == other && a.other == one);
        if one == other { Some(1.0) } else { self.agreement.iter().find(both).map(|a| a.share) }
    }
}

/// A ratio with three significant digits: `0.0312`, `0.950`, `12.3`, `>999`; a dash if absent.
pub(super) fn ratio(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(v) if v >= 999.5 => ">999".to_owned(),
        Some(v) if v >= 99.95 => format!("{v:.0}"),
        Some(v) if v >= 9.995 => format!("{v:.1}"),
        Some(v) if v >= 0.9995 => format!("{v:.2}"),
        Some(v) => format!("{v:.3}"),
    }
}

/// `0.93-0.96`; empty without an interval.
pub(super) fn interval(rate: &DecisionRate) -> String {
    rate.low.zip(rate.high).map_or_else(String::new, |(low, high)| format!("{low:.2}-{high:.2}"))
}
