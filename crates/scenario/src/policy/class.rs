//! Reader of one direction and its classes.

use std::time::Duration;

use shaping::{Class, Direction, Match, Queue, QueueKind, Side};
use units::Rate;

use crate::describe;
use crate::policy::{Users, matches};
use crate::problem::{Fault, known_names};
use crate::quantity;
use crate::section::{Item, Section, Spot};
use crate::tree::{Kind, Value};

/// HTB has this many priorities (TC_HTB_NUMPRIO).
const PRIORITIES: std::ops::RangeInclusive<i64> = 0..=7;
/// Maximum number of classes. Class numbers have 16 bits; a tenth of them is more than any link has users.
const CLASSES_MAX: usize = 10_000;
/// Default limit of a queue: a few packets at any rate above 1 Mb/s, and imperceptible to users.
const QUEUE_LIMIT: Duration = Duration::from_millis(50);
/// Maximum limit of a queue: after longer waits senders give up.
const QUEUE_MAX: Duration = Duration::from_secs(60);
/// Maximum burst. The kernel's buckets hold up to 2^32 units of 64 ns; far below that a burst is in effect a rate.
const BURST_MAX: Duration = Duration::from_secs(10);

/// Minimum rate: HTB counts whole bytes per second.
const RATE_MIN: Rate = Rate::from_bps(8);

/// A class as given, before its parent is known.
struct Draft {
    name: String,
    spot: Spot,
    parent: Option<(String, Spot)>,
    rate: Option<Share>,
    rate_spot: Spot,
    ceiling: Option<Share>,
    ceiling_spot: Spot,
    priority: u8,
    queue: Queue,
    /// Position of `queue` or `leaf`, if given.
    queue_spot: Option<Spot>,
    burst: Option<Duration>,
    matches: Vec<Match>,
    match_spot: Option<Spot>,
}

/// A rate, or a share of the rate of the parent.
#[derive(Clone, Copy)]
enum Share {
    Rate(Rate),
    Part(f64),
}

impl Share {
    fn of(self, above: Rate) -> Rate {
        match self {
            Self::Rate(rate) => rate,
            // Rates are far below 2^53.
            Self::Part(part) => Rate::from_bps((above.as_bps() as f64 * part).round() as u64),
        }
    }
}

/// Reads `egress` or `ingress`; `None` after an error has been reported.
pub(super) fn read_side(item: &Item<'_>, direction: Direction, users: Users<'_>) -> Option<Side> {
    let mut section = item.section()?;
    let missing = "write the maximum rate of the direction: rate = \"950Mb/s\"";
    let rate = section.required("rate", missing).and_then(|i| i.read(side_rate));
    let classes = section.item("classes").map_or_else(Vec::new, |i| i.named());
    let default = section.item("default");
    // Without classes, one class takes all packets.
    let queue = read_queue(&mut section);
    let burst = section.read("burst", within(BURST_MAX));
    if let (Some(first), [_, ..]) = (section.given(&["queue", "leaf", "burst"]).first(), classes.as_slice()) {
        section.complain(Fault::new(format!("has both `{first}` and classes"), "move it to the classes"));
    }
    let spot = section.spot();
    section.finish();
    if let Some((_, extra)) = classes.get(CLASSES_MAX) {
        extra.complain(Fault::new(format!("{} classes are too many", classes.len()), format!("at most {CLASSES_MAX}")));
        return None;
    }
    let rate = rate?;
    if classes.is_empty() {
        if let Some(default) = default {
            default.complain(Fault::new("there are no classes", "leave it out"));
        }
        return Some(Side { rate, classes: vec![everything(rate, queue, burst)], default: 0 });
    }
    let drafts: Vec<Draft> =
        classes.into_iter().filter_map(|(name, item)| read_class(name, &item, direction, users)).collect();
    let tree = Tree::new(item, drafts);
    let classes = tree.resolve(rate)?;
    let default = tree.default(default.as_ref(), &spot, &classes)?;
    Some(Side { rate, classes, default })
}

/// The only class of a direction without classes.
fn everything(rate: Rate, queue: Queue, burst: Option<Duration>) -> Class {
    Class { name: "all".to_owned(), parent: None, rate, ceiling: rate, priority: 0, queue, burst, matches: Vec::new() }
}

fn side_rate(value: &Value) -> Result<Rate, Fault> {
    quantity::rate(value).and_then(|rate| if rate < RATE_MIN { Err(too_slow()) } else { Ok(rate) })
}

fn too_slow() -> Fault {
    Fault::new("is below the minimum of 8 b/s", "write a higher rate")
}

fn read_queue(section: &mut Section<'_>) -> Queue {
    const KINDS: &[(&str, QueueKind)] =
        &[("best", QueueKind::Best), ("fq_codel", QueueKind::FqCodel), ("fifo", QueueKind::Fifo)];
    let limit = section.read("queue", within(QUEUE_MAX)).unwrap_or(QUEUE_LIMIT);
    let kind = section.read("leaf", quantity::name(KINDS)).unwrap_or_default();
    Queue { limit, kind }
}

fn within(most: Duration) -> impl Fn(&Value) -> Result<Duration, Fault> {
    move |value| match quantity::positive_duration(value)? {
        long if long > most => {
            let message = format!("{} is too long", describe::duration(long));
            Err(Fault::new(message, format!("at most {}", describe::duration(most))))
        }
        time => Ok(time),
    }
}

fn read_class(name: String, item: &Item<'_>, direction: Direction, users: Users<'_>) -> Option<Draft> {
    if let Err(fault) = quantity::check_name(&name) {
        item.complain(fault);
    }
    let mut section = item.section()?;
    let spot = section.spot();
    let at = |item: Option<Item<'_>>| item.map_or_else(|| spot.clone(), |i| i.spot());
    let parent = section.item("parent").and_then(|i| Some((i.read(quantity::text)?, i.spot())));
    let missing = "write the guaranteed rate: rate = \"100Mb/s\", or a share of the parent's rate: \"20%\"";
    let rate_item = section.required("rate", missing);
    let rate = rate_item.as_ref().and_then(|i| i.read(share));
    let ceiling_item = section.item("ceiling");
    let ceiling = ceiling_item.as_ref().and_then(|i| i.read(share));
    let priority = section.read("priority", quantity::whole(PRIORITIES)).and_then(|n| u8::try_from(n).ok());
    let queue = read_queue(&mut section);
    let [limit_item, leaf_item] = [section.item("queue"), section.item("leaf")];
    let burst = section.read("burst", within(BURST_MAX));
    let match_item = section.item("match");
    let matches = match_item.as_ref().map_or_else(Vec::new, |i| matches::read(i, direction, users));
    let draft = Draft {
        name,
        parent,
        rate,
        rate_spot: at(rate_item),
        ceiling,
        ceiling_spot: at(ceiling_item),
        priority: priority.unwrap_or_default(),
        queue,
        queue_spot: limit_item.or(leaf_item).map(|i| i.spot()),
        burst,
        matches,
        match_spot: match_item.map(|i| i.spot()),
        spot: spot.clone(),
    };
    section.finish();
    Some(draft)
}

fn share(value: &Value) -> Result<Share, Fault> {
    if let Kind::Text(text) = &value.kind
        && text.trim_end().ends_with('%')
    {
        let part = quantity::probability(value).map_err(|_| {
            Fault::new(format!("`{text}` is not a valid percentage"), "write a percentage from 0 to 100")
        })?;
        if part == 0.0 {
            return Err(Fault::new("a rate of zero carries nothing", "write a percentage above zero"));
        }
        return Ok(Share::Part(part));
    }
    quantity::rate(value).map(Share::Rate)
}

/// The classes of a direction, before they are ordered.
struct Tree<'a> {
    item: &'a Item<'a>,
    drafts: Vec<Draft>,
}

impl<'a> Tree<'a> {
    fn new(item: &'a Item<'a>, drafts: Vec<Draft>) -> Self {
        Self { item, drafts }
    }

    /// Orders parents before children and converts shares to rates; `None` after an error has been reported.
    fn resolve(&self, whole: Rate) -> Option<Vec<Class>> {
        let order = self.order()?;
        let mut place = vec![0; self.drafts.len()];
        let mut classes: Vec<Class> = Vec::with_capacity(order.len());
        for &at in &order {
            let draft = &self.drafts[at];
            let parent = draft.parent.as_ref().and_then(|(name, _)| self.find(name)).map(|p| place[p]);
            let above = parent.map_or((whole, whole), |p: usize| (classes[p].rate, classes[p].ceiling));
            let rate = draft.rate?.of(above.0);
            // A share as ceiling is a share of the parent's ceiling, the maximum that can be borrowed.
            let ceiling = draft.ceiling.map_or(rate, |c| c.of(above.1));
            self.check_rates(draft, rate, ceiling, above.1);
            place[at] = classes.len();
            classes.push(Class {
                name: draft.name.clone(),
                parent,
                rate,
                ceiling,
                priority: draft.priority,
                queue: draft.queue,
                burst: draft.burst,
                matches: draft.matches.clone(),
            });
        }
        self.check_sums(&classes, whole);
        self.check_leaves(&classes);
        Some(classes)
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.drafts.iter().position(|d| d.name == name)
    }

    /// The drafts, each after its parent; otherwise in the order of the file.
    fn order(&self) -> Option<Vec<usize>> {
        let report = self.item.report;
        let mut order: Vec<usize> = Vec::with_capacity(self.drafts.len());
        let mut placed = vec![false; self.drafts.len()];
        let mut known = true;
        for draft in &self.drafts {
            let Some((name, spot)) = &draft.parent else { continue };
            if self.find(name).is_none() {
                let names: Vec<&str> = self.drafts.iter().map(|d| d.name.as_str()).collect();
                let fault = Fault::new(format!("there is no class `{name}`"), known_names(name, &names, ""));
                spot.complain(report, fault);
                known = false;
            }
        }
        while known && order.len() < self.drafts.len() {
            let before = order.len();
            for (at, draft) in self.drafts.iter().enumerate() {
                let ready = draft.parent.as_ref().and_then(|(name, _)| self.find(name)).is_none_or(|p| placed[p]);
                if ready && !placed[at] {
                    placed[at] = true;
                    order.push(at);
                }
            }
            if order.len() == before {
                let stuck = self.drafts.iter().zip(&placed).find(|(_, placed)| !**placed);
                if let Some((draft, _)) = stuck {
                    let fault =
                        Fault::new("is its own ancestor", "let one of its parents stand directly below the rate");
                    draft.spot.complain(report, fault);
                }
                return None;
            }
        }
        known.then_some(order)
    }

    fn check_rates(&self, draft: &Draft, rate: Rate, ceiling: Rate, above: Rate) {
        let report = self.item.report;
        let text = describe::rate;
        if rate < RATE_MIN {
            draft.rate_spot.complain(report, too_slow());
        }
        if ceiling < rate {
            let message = format!("{} is below the rate of {}", text(ceiling), text(rate));
            draft.ceiling_spot.complain(report, Fault::new(message, "the ceiling must be at least the rate"));
        }
        if ceiling > above {
            let message = format!("{} is above the {} available to borrow", text(ceiling), text(above));
            draft.ceiling_spot.complain(report, Fault::new(message, format!("at most {}", text(above))));
        }
    }

    /// The rates of the children must not exceed the rate of their parent.
    fn check_sums(&self, classes: &[Class], whole: Rate) {
        let mut parents: Vec<Option<usize>> = classes.iter().map(|c| c.parent).collect();
        parents.sort_unstable();
        parents.dedup();
        for parent in parents {
            let children = classes.iter().filter(|c| c.parent == parent);
            let sum = Rate::from_bps(children.map(|c| c.rate.as_bps()).sum());
            let (has, name, spot) = match parent.and_then(|p| classes.get(p)) {
                None => (whole, "the direction".to_owned(), self.item.spot()),
                Some(class) => {
                    let spot = self.find(&class.name).map_or_else(|| self.item.spot(), |d| self.drafts[d].spot.clone());
                    (class.rate, format!("class {}", class.name), spot)
                }
            };
            if sum > has {
                let (sum, has) = (describe::rate(sum), describe::rate(has));
                let message = format!("the rates of its classes sum to {sum}, more than the {has} of {name}");
                spot.complain(
                    self.item.report,
                    Fault::new(message, "lower them; each ceiling may be as high as the whole rate"),
                );
            }
        }
    }

    fn check_leaves(&self, classes: &[Class]) {
        for (at, class) in classes.iter().enumerate() {
            let is_leaf = !classes.iter().any(|c| c.parent == Some(at));
            let Some(draft) = self.find(&class.name).map(|d| &self.drafts[d]) else { continue };
            for spot in [&draft.match_spot, &draft.queue_spot].into_iter().flatten().filter(|_| !is_leaf) {
                let fault = Fault::new("only a class without children has a queue", "move it to such a class");
                spot.complain(self.item.report, fault);
            }
        }
    }

    /// The class for packets that match no other class.
    fn default(&self, item: Option<&Item<'_>>, spot: &Spot, classes: &[Class]) -> Option<usize> {
        let is_leaf = |at: usize| !classes.iter().any(|c| c.parent == Some(at));
        let names: Vec<&str> =
            classes.iter().enumerate().filter(|(at, _)| is_leaf(*at)).map(|(_, c)| c.name.as_str()).collect();
        let Some(item) = item else {
            let open = classes.iter().enumerate().filter(|(at, c)| is_leaf(*at) && c.matches.is_empty());
            let open: Vec<(usize, &str)> = open.map(|(at, c)| (at, c.name.as_str())).collect();
            if let [(at, _)] = open.as_slice() {
                return Some(*at);
            }
            let usual = open.first().map(|(_, name)| name).or_else(|| names.first())?;
            let hint = format!("name the class for packets that match no other: default = \"{usual}\"");
            spot.complain(self.item.report, Fault::new("has no default class", hint));
            return None;
        };
        let name = item.read(quantity::text)?;
        let found = classes.iter().position(|c| c.name == name);
        match found {
            Some(at) if is_leaf(at) => Some(at),
            _ => {
                let what = if found.is_some() { "has child classes" } else { "does not exist" };
                item.complain(Fault::new(format!("class `{name}` {what}"), known_names(&name, &names, "")));
                None
            }
        }
    }
}
