//! Equality of objects after the kernel's rounding.

use crate::arithmetic::{kernel_burst, kernel_codel_time, kernel_rate};
use crate::encode::is_own_table;
use crate::filter::{Classifier, Filter};
use crate::object::{Discipline, HtbClass, Qdisc, TokenBucket};

/// Settings of a discipline as the kernel stores them.
fn stored(discipline: &Discipline) -> Discipline {
    let mut stored = discipline.clone();
    if let Discipline::Tbf(TokenBucket { rate, burst, .. }) = &mut stored {
        (*rate, *burst) = (kernel_rate(*rate), kernel_burst(*burst));
    }
    if let Discipline::FqCodel { target, interval, .. } = &mut stored {
        (*target, *interval) = (kernel_codel_time(*target), kernel_codel_time(*interval));
    }
    stored
}

/// Whether a found discipline equals the wanted one. The comparison rounds the wanted settings, because found settings
/// are rounded.
pub(super) fn discipline(wanted: &Discipline, found: &Discipline) -> bool {
    wanted == found || stored(wanted) == *found
}

/// Whether the kernel can change one discipline into the other without losing its queue. It can change neither HTB
/// disciplines (htb_qdisc_ops has no `change`) nor the number of queues of fq_codel.
pub(super) fn changeable(wanted: &Qdisc, found: &Qdisc) -> bool {
    match (&wanted.discipline, &found.discipline) {
        (Discipline::FqCodel { flows: a, .. }, Discipline::FqCodel { flows: b, .. }) => a == b,
        (Discipline::Tbf(_), Discipline::Tbf(_))
        | (Discipline::PacketFifo { .. }, Discipline::PacketFifo { .. })
        | (Discipline::ByteFifo { .. }, Discipline::ByteFifo { .. }) => true,
        _ => false,
    }
}

/// Settings of a class as the kernel would store them next to the found settings. A quantum of 0 leaves the choice to
/// the kernel. A class with child classes keeps its previous quantum and priority (htb_change_class).
pub(super) fn stored_class(wanted: &HtbClass, inner: bool, found: &HtbClass) -> HtbClass {
    /// The lowest priority (TC_HTB_NUMPRIO - 1).
    const PRIORITY_MAX: u32 = 7;
    HtbClass {
        rate: kernel_rate(wanted.rate),
        ceiling: kernel_rate(wanted.ceiling),
        burst: kernel_burst(wanted.burst),
        ceiling_burst: kernel_burst(wanted.ceiling_burst),
        priority: if inner { found.priority } else { wanted.priority.min(PRIORITY_MAX) },
        quantum: if inner || wanted.quantum == 0 { found.quantum } else { wanted.quantum },
    }
}

/// Whether a found filter equals the wanted one. If the id of the wanted BPF program is not known, `by_name` accepts a
/// program of the same name; otherwise a program that is still to be installed differs.
pub(super) fn filter(wanted: &Filter, found: &Filter, by_name: bool) -> bool {
    let (named, decides) = match (&wanted.classifier, &found.classifier) {
        (Classifier::Bpf(a), Classifier::Bpf(b)) => {
            let known = if a.id == 0 { by_name || a.descriptor.is_none() } else { a.id == b.id };
            (wanted.handle == found.handle, a.name == b.name && known)
        }
        // The kernel numbers the table, so that a request can give only the last part of the handle.
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
