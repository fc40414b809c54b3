//! Differences of two reports that exceed their noise.

use std::fmt::Write as _;

use crate::metrics::{METRICS, Metric};
use crate::report::{ALL, Report};

/// Smallest difference that matters, as a share of the value before.
const MATTERS_SHARE: f64 = 0.02;

/// Difference of one metric of one scenario.
pub(crate) struct Difference {
    pub(crate) scenario: String,
    pub(crate) metric: &'static Metric,
    pub(crate) before: f64,
    pub(crate) after: f64,
    /// Half the 95 % confidence interval of the mean difference between runs of the same seed.
    pub(crate) half_width: f64,
}

impl Difference {
    fn change(&self) -> f64 {
        self.after - self.before
    }

    /// Whether the interval of the difference excludes zero and its mean is at least [`MATTERS_SHARE`] of the value.
    fn is_beyond_noise(&self) -> bool {
        self.change().abs() > self.half_width && self.change().abs() >= MATTERS_SHARE * self.before.abs()
    }

    fn is_better(&self) -> bool {
        (self.change() > 0.0) == self.metric.more_is_better
    }

    /// Whether the metric counts and is worse than before by more than its noise.
    pub(crate) fn is_worse(&self) -> bool {
        self.metric.is_judged && self.is_beyond_noise() && !self.is_better()
    }
}

/// The differences of all metrics that both reports have, paired by seed. Means of all scenarios are compared if both
/// reports have the same scenarios.
pub(crate) fn compare(before: &Report, after: &Report) -> Vec<Difference> {
    let mut all = Vec::new();
    let first_seed = before.first_seed.max(after.first_seed);
    let skipped = |report: &Report| usize::try_from(first_seed - report.first_seed).unwrap_or(usize::MAX);
    let (skip_old, skip_new) = (skipped(before), skipped(after));
    for scenario in &after.order {
        if scenario == ALL && before.order != after.order {
            continue;
        }
        let Some((old, new)) = before.scenarios.get(scenario).zip(after.scenarios.get(scenario)) else { continue };
        for metric in &METRICS {
            let Some((old, new)) = old.get(metric.name).zip(new.get(metric.name)) else { continue };
            let (old, new) = (old.iter().skip(skip_old).copied(), new.iter().skip(skip_new).copied());
            let pairs: Vec<(f64, f64)> = old.zip(new).collect();
            if pairs.is_empty() {
                continue;
            }
            let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
            let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
            let half_width = estimate::confidence(&differences).and_then(|e| e.half_width);
            all.push(Difference {
                scenario: scenario.clone(),
                metric,
                before: mean(pairs.iter().map(|p| p.0).collect()),
                after: mean(pairs.iter().map(|p| p.1).collect()),
                half_width: half_width.unwrap_or(f64::INFINITY),
            });
        }
    }
    all
}

/// The Markdown table of the differences beyond noise.
pub(crate) fn table(differences: &[Difference]) -> String {
    let beyond: Vec<&Difference> = differences.iter().filter(|d| d.is_beyond_noise()).collect();
    let mut text = format!("{} of {} metrics differ by more than their noise.\n", beyond.len(), differences.len());
    if beyond.is_empty() {
        return text;
    }
    text.push_str("\n| scenario | metric | before | after | difference | |\n|---|---|---|---|---|---|\n");
    for d in beyond {
        let (scale, digits) = (d.metric.scale, d.metric.digits + 1);
        let verdict = match (d.metric.is_judged, d.is_better()) {
            (true, true) => "better",
            (true, false) => "**worse**",
            (false, true) => "less",
            (false, false) => "more",
        };
        // Writing to a text does not fail.
        let _ = writeln!(
            text,
            "| {} | {} | {:.digits$} | {:.digits$} | {:+.digits$} +/- {:.digits$} | {verdict} |",
            d.scenario,
            d.metric.title,
            d.before * scale,
            d.after * scale,
            d.change() * scale,
            d.half_width * scale,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(goodput: [f64; 5], control: [f64; 5]) -> Report {
        let metrics = [("goodput_bps", goodput), ("control_bps", control)];
        let metrics = metrics.map(|(name, values)| (name.to_owned(), values.to_vec())).into();
        let (order, scenarios) = (vec!["dies".to_owned()], [("dies".to_owned(), metrics)].into());
        Report { first_seed: 1, order, scenarios }
    }

    /// `(is beyond noise, is worse)` of both metrics.
    fn verdicts(before: &Report, after: &Report) -> Vec<(bool, bool)> {
        compare(before, after).iter().map(|d| (d.is_beyond_noise(), d.is_worse())).collect()
    }

    #[test]
    fn a_difference_counts_if_its_interval_excludes_zero_and_it_is_two_per_cent() {
        let before = report([100.0, 110.0, 90.0, 105.0, 95.0], [10.0; 5]);
        assert_eq!(verdicts(&before, &before), [(false, false); 2]);
        // 10 less in each pair, though the values vary as much; more control traffic is worse.
        let after = report([90.0, 101.0, 79.0, 95.0, 85.0], [11.0; 5]);
        assert_eq!(verdicts(&before, &after), [(true, true); 2]);
        assert_eq!(verdicts(&after, &before), [(true, false); 2]);
        // One per cent less in each; and a mean difference of 20 % with a standard error of 20 %.
        let after = report([99.0, 109.0, 89.0, 104.0, 94.0], [10.0, 20.0, 10.0, 10.0, 10.0]);
        assert_eq!(verdicts(&before, &after), [(false, false); 2]);
    }

    #[test]
    fn runs_of_the_same_seed_are_compared() {
        let before = report([100.0, 110.0, 90.0, 105.0, 95.0], [10.0; 5]);
        let after = Report { first_seed: 3, ..report([90.0, 105.0, 95.0, 1.0, 2.0], [10.0; 5]) };
        assert_eq!(verdicts(&before, &after), [(false, false); 2], "three seeds are in both");
        let others = Report { first_seed: 8, ..before };
        assert_eq!(verdicts(&others, &after), [], "no seed is in both");
    }
}
