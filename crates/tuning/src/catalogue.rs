use results::tune::{Judgement, PaperAdvice, TuneRow};
use units::Rate;

use crate::rules::{control, device, machine, queues, windows};
use crate::{Facts, Path, Reading};

/// Advice of the shaping paper of 2014 (section 3.3).
pub(crate) struct Paper {
    pub(crate) advised: &'static str,
    pub(crate) differs: bool,
    pub(crate) why: &'static str,
}

/// Input of the rules.
pub(crate) struct Context<'a> {
    pub(crate) path: &'a Path,
    pub(crate) facts: &'a Facts,
}

impl Context<'_> {
    /// Value of a sysctl, if known.
    pub(crate) fn sysctl(&self, key: &str) -> Option<&str> {
        self.facts.sysctls.get(key).and_then(Reading::value)
    }
}

/// Result of a rule for a value.
pub(crate) struct Finding {
    pub(crate) judgement: Judgement,
    pub(crate) advised: Option<String>,
    pub(crate) why: String,
    pub(crate) effect: Option<String>,
    pub(crate) limit: Option<Rate>,
}

impl Finding {
    fn new(judgement: Judgement, advised: Option<String>, why: impl Into<String>) -> Self {
        Self { judgement, advised, why: why.into(), effect: None, limit: None }
    }

    pub(crate) fn good(why: impl Into<String>) -> Self {
        Self::new(Judgement::Good, None, why)
    }

    pub(crate) fn change(advised: impl ToString, why: impl Into<String>) -> Self {
        Self::new(Judgement::Change, Some(advised.to_string()), why)
    }

    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        Self::new(Judgement::Unknown, None, why)
    }

    pub(crate) fn with_effect(mut self, effect: impl Into<String>) -> Self {
        self.effect = Some(effect.into());
        self
    }

    pub(crate) fn with_limit(mut self, limit: Rate) -> Self {
        self.limit = Some(limit);
        self
    }
}

/// A rule for a sysctl(8) variable.
pub(crate) struct SysctlRule {
    pub(crate) key: &'static str,
    pub(crate) source: &'static str,
    pub(crate) paper: Option<Paper>,
    /// Whether longhaul may change the variable. Other variables are only shown and read by other rules.
    pub(crate) changes: bool,
    pub(crate) judge: fn(&Context<'_>, &str) -> Finding,
}

fn rules() -> impl Iterator<Item = &'static SysctlRule> {
    [windows::RULES, control::RULES, queues::RULES].into_iter().flatten()
}

/// Names of the variables that may be changed, in the order of the rows.
pub fn sysctls() -> impl Iterator<Item = &'static str> {
    rules().filter(|r| r.changes).map(|r| r.key)
}

/// Rows of all settings, in the order: windows, congestion control, queues, device, machine.
pub fn advise(path: &Path, facts: &Facts) -> Vec<TuneRow> {
    let context = Context { path, facts };
    let mut rows: Vec<TuneRow> = rules().map(|rule| sysctl_row(&context, rule)).collect();
    if let Some(found) = &facts.device {
        rows.extend(device::rows(&context, found));
    }
    rows.extend(machine::rows(&context));
    rows
}

fn sysctl_row(context: &Context<'_>, rule: &SysctlRule) -> TuneRow {
    let reading = context.facts.sysctls.get(rule.key).unwrap_or(&Reading::Absent);
    let mut row = match reading {
        Reading::Own(value) | Reading::OfHost(value) => row(rule.key, value, (rule.judge)(context, value), rule.source),
        Reading::HiddenInNamespace => unread(
            rule.key,
            Judgement::BelongsToHost,
            "It belongs to the host: this network namespace has no separate value.",
            rule.source,
        ),
        Reading::Absent => unread(rule.key, Judgement::CannotBeRead, "This kernel has no such setting.", rule.source),
        Reading::Failed(why) => unread(rule.key, Judgement::CannotBeRead, why, rule.source),
    };
    if matches!(reading, Reading::OfHost(_)) && row.judgement == Judgement::Change {
        row.judgement = Judgement::BelongsToHost;
    }
    row.applicable = rule.changes && row.judgement == Judgement::Change;
    row.paper_2014 = rule.paper.as_ref().map(Paper::record);
    row
}

impl Paper {
    pub(crate) fn record(&self) -> PaperAdvice {
        PaperAdvice { advised: self.advised.to_owned(), differs: self.differs, why: self.why.to_owned() }
    }
}

/// Row of a value that was read.
pub(crate) fn row(key: &str, found: &str, finding: Finding, source: &str) -> TuneRow {
    TuneRow {
        key: key.to_owned(),
        found: Some(found.split_whitespace().collect::<Vec<_>>().join(" ")),
        advised: finding.advised,
        judgement: finding.judgement,
        why: finding.why,
        source: source.to_owned(),
        effect: finding.effect,
        limit_bps: finding.limit.map(Rate::as_bps),
        paper_2014: None,
        applicable: false,
    }
}

/// Row of a value that could not be read.
pub(crate) fn unread(key: &str, judgement: Judgement, why: &str, source: &str) -> TuneRow {
    let finding = Finding::new(judgement, None, why);
    TuneRow { found: None, ..row(key, "", finding, source) }
}
