//! When two objects are the same, given what the kernel makes of numbers.

use crate::arithmetic::{kernel_burst, kernel_codel_time, kernel_rate};
use crate::encode::is_own_table;
use crate::filter::{Classifier, Filter};
use crate::object::{Discipline, HtbClass, Qdisc, TokenBucket};

/// The settings of a discipline as the kernel stores them.
fn kept(discipline: &Discipline) -> Discipline {
    let mut kept = discipline.clone();
    if let Discipline::Tbf(TokenBucket { rate, burst, .. }) = &mut kept {
        (*rate, *burst) = (kernel_rate(*rate), kernel_burst(*burst));
    }
    if let Discipline::FqCodel { target, interval, .. } = &mut kept {
        (*target, *interval) = (kernel_codel_time(*target), kernel_codel_time(*interval));
    }
    kept
}

/// Whether a discipline is as wanted. What was read back has been rounded; what is restored was rounded when it was read.
pub(super) fn discipline(wanted: &Discipline, found: &Discipline) -> bool {
    wanted == found || kept(wanted) == *found
}

/// Whether the kernel can turn one discipline into the other without losing what waits in it. It can change no setting of an
/// HTB discipline (htb_qdisc_ops has no `change`), nor the number of queues of fq_codel.
pub(super) fn changeable(wanted: &Qdisc, found: &Qdisc) -> bool {
    match (&wanted.discipline, &found.discipline) {
        (Discipline::FqCodel { flows: a, .. }, Discipline::FqCodel { flows: b, .. }) => a == b,
        (Discipline::Tbf(_), Discipline::Tbf(_))
        | (Discipline::PacketFifo { .. }, Discipline::PacketFifo { .. })
        | (Discipline::ByteFifo { .. }, Discipline::ByteFifo { .. }) => true,
        _ => false,
    }
}

/// What the kernel makes of the settings of a class, next to settings that were found. A quantum of 0 leaves the choice to the
/// kernel. A class that has classes below keeps whatever quantum and priority it had (htb_change_class).
pub(super) fn kept_class(wanted: &HtbClass, inner: bool, found: &HtbClass) -> HtbClass {
    /// The last priority (TC_HTB_NUMPRIO - 1).
    const LAST: u32 = 7;
    HtbClass {
        rate: kernel_rate(wanted.rate),
        ceiling: kernel_rate(wanted.ceiling),
        burst: kernel_burst(wanted.burst),
        ceiling_burst: kernel_burst(wanted.ceiling_burst),
        priority: if inner { found.priority } else { wanted.priority.min(LAST) },
        quantum: if inner || wanted.quantum == 0 { found.quantum } else { wanted.quantum },
    }
}

/// Whether a filter is as wanted. If the number of the wanted BPF program is not known, `by_name` takes a program of the same
/// name for the same; otherwise one that is to be handed in is another one.
pub(super) fn filter(wanted: &Filter, found: &Filter, by_name: bool) -> bool {
    let (named, decides) = match (&wanted.classifier, &found.classifier) {
        (Classifier::Bpf(a), Classifier::Bpf(b)) => {
            let known = if a.id == 0 { by_name || a.descriptor.is_none() } else { a.id == b.id };
            (wanted.handle == found.handle, a.name == b.name && known)
        }
        // The kernel numbers the table: only the last part of the name can be asked for.
        (a, b) if a.kind() == "u32" && in_own_table(wanted) && in_own_table(found) => {
            (wanted.handle & 0xfff == found.handle & 0xfff, a == b)
        }
        (a, b) => (wanted.handle == found.handle, a == b),
    };
    wanted.protocol == found.protocol && (named || wanted.handle == 0) && decides
}

fn in_own_table(filter: &Filter) -> bool {
    let (table, number) = (filter.handle & 0xffff_f000, filter.handle & 0xfff);
    number != 0 && (table == 0 || is_own_table(table))
}
