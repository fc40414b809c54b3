//! Expansion of matches to rules. A rule of the program has at most one network and one port range per field, so that
//! lists multiply.

use ipnet::IpNet;
use shaping::{Match, Traffic};

use crate::layout::{self, Rule};
use crate::{BpfError, Settings};

/// Maximum number of rules of a program. A packet without a match is compared with all rules.
pub const RULES_MAX: usize = 4096;

/// Rules of the program in evaluation order, and the cgroups to which they refer by index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expanded {
    pub(crate) rules: Vec<Rule>,
    pub(crate) cgroups: Vec<String>,
}

/// Expands all matches.
///
/// # Errors
/// More than [`RULES_MAX`] rules.
pub(crate) fn expand(settings: &Settings) -> Result<Expanded, BpfError> {
    let rules = settings.rules.iter().map(|rule| count(&rule.matches)).fold(0, usize::saturating_add);
    if rules > RULES_MAX {
        return Err(BpfError::TooManyRules { rules, max: RULES_MAX });
    }
    let mut expanded = Expanded::default();
    for (origin, rule) in (1..).zip(&settings.rules) {
        let common = expanded.common(origin, &rule.matches);
        expanded.multiply(common, &rule.matches);
    }
    Ok(expanded)
}

/// Upper bound of the number of rules of a match. Pairs of networks of different families yield no rule.
fn count(matches: &Match) -> usize {
    let lists =
        [matches.from.len(), matches.to.len(), matches.from_ports.len(), matches.to_ports.len(), matches.ports.len()];
    lists.iter().fold(1, |product, &entries| product.saturating_mul(entries.max(1)))
}

impl Expanded {
    /// Conditions common to all rules of a match.
    fn common(&mut self, origin: u32, matches: &Match) -> Rule {
        let mut rule = Rule { origin, ..Rule::default() };
        if let Some(protocol) = matches.protocol {
            rule.protocol = protocol;
            rule.conditions |= layout::MATCH_PROTOCOL;
        }
        if !matches.dscp.is_empty() {
            rule.dscp = matches.dscp.iter().filter_map(|&point| 1_u64.checked_shl(point.into())).fold(0, |a, b| a | b);
            rule.conditions |= layout::MATCH_DSCP;
        }
        if let Some(user) = matches.user {
            rule.user = user;
            rule.conditions |= layout::MATCH_USER;
        }
        if let Some(path) = &matches.cgroup {
            rule.cgroup = self.cgroup(path);
            rule.conditions |= layout::MATCH_CGROUP;
        }
        rule.conditions |= match matches.size {
            Some(Traffic::Mouse) => layout::MATCH_MOUSE,
            Some(Traffic::Elephant) => layout::MATCH_ELEPHANT,
            None => 0,
        };
        rule
    }

    /// Index of a cgroup, which is added if necessary.
    fn cgroup(&mut self, path: &str) -> u32 {
        let existing = self.cgroups.iter().position(|other| other == path);
        existing.unwrap_or_else(|| {
            self.cgroups.push(path.to_owned());
            self.cgroups.len() - 1
        }) as u32
    }

    /// Adds a rule for each combination of networks and ports.
    fn multiply(&mut self, common: Rule, matches: &Match) {
        for from in choices(&matches.from) {
            for to in choices(&matches.to) {
                let Some(rule) = with_networks(common, from, to) else { continue };
                for from_ports in choices(&matches.from_ports) {
                    for to_ports in choices(&matches.to_ports) {
                        for ports in choices(&matches.ports) {
                            let mut rule = rule;
                            let ranges = [
                                (from_ports, layout::MATCH_FROM_PORTS, &mut rule.from_ports),
                                (to_ports, layout::MATCH_TO_PORTS, &mut rule.to_ports),
                                (ports, layout::MATCH_PORTS, &mut rule.ports),
                            ];
                            for (range, conditions, place) in ranges {
                                if let Some(range) = range {
                                    *place = [*range.start(), *range.end()];
                                    rule.conditions |= conditions;
                                }
                            }
                            self.rules.push(rule);
                        }
                    }
                }
            }
        }
    }
}

/// Entries of a list; for an empty list a single `None`, which matches anything.
fn choices<T>(list: &[T]) -> impl Iterator<Item = Option<&T>> {
    list.iter().map(Some).chain(list.is_empty().then_some(None))
}

/// Rule for two networks; `None` if no packet can have both addresses.
fn with_networks(mut rule: Rule, from: Option<&IpNet>, to: Option<&IpNet>) -> Option<Rule> {
    for (network, address, mask) in [(from, &mut rule.from, &mut rule.from_mask), (to, &mut rule.to, &mut rule.to_mask)]
    {
        let Some(network) = network else { continue };
        let family = if network.addr().is_ipv4() { 4 } else { 6 };
        if rule.family != 0 && rule.family != family {
            return None;
        }
        rule.family = family;
        rule.conditions |= layout::MATCH_FAMILY;
        *mask = layout::mask(network.addr(), network.prefix_len());
        *address = layout::mapped(network.network());
    }
    Some(rule)
}
