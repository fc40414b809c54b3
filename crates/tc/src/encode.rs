//! Encoder of route netlink messages (linux/rtnetlink.h, linux/pkt_sched.h, linux/pkt_cls.h).

use units::Rate;

use crate::arithmetic::{microseconds, ticks};
use crate::attribute::{self, Writer, bytes_of};
use crate::filter::{Classifier, Filter, Key};
use crate::message::Operation;
use crate::object::{Discipline, HtbClass, HtbRoot, Object, TokenBucket};

/// Attributes of a traffic control message.
pub(crate) const TCA_KIND: u16 = 1;
pub(crate) const TCA_OPTIONS: u16 = 2;

pub(crate) const TCA_HTB_PARMS: u16 = 1;
pub(crate) const TCA_HTB_INIT: u16 = 2;
pub(crate) const TCA_HTB_DIRECT_QLEN: u16 = 5;
pub(crate) const TCA_HTB_RATE64: u16 = 6;
pub(crate) const TCA_HTB_CEIL64: u16 = 7;

pub(crate) const TCA_TBF_PARMS: u16 = 1;
pub(crate) const TCA_TBF_RATE64: u16 = 4;

/// Attributes of fq_codel: target, limit, interval, ECN, flows, quantum, drop batch, memory limit.
pub(crate) const TCA_FQ_CODEL: [u16; 8] = [1, 2, 3, 4, 5, 6, 8, 9];

/// Attributes of u32: class, hash table, selector, action, flags.
pub(crate) const TCA_U32: [u16; 5] = [1, 2, 5, 7, 11];
/// Attributes of u32 that are not settings: counters, which kernels with CONFIG_CLS_U32_PERF report, and padding.
pub(crate) const TCA_U32_PCNT: u16 = 9;
pub(crate) const TCA_U32_PAD: u16 = 12;

/// Attributes of an action (kind, options) and of mirred (parameters).
pub(crate) const TCA_ACT_KIND: u16 = 1;
pub(crate) const TCA_ACT_OPTIONS: u16 = 2;
pub(crate) const TCA_MIRRED_PARMS: u16 = 2;
/// Action code: the action consumes the packet (linux/pkt_cls.h).
pub(crate) const TC_ACT_STOLEN: u32 = 4;
/// Redirects the packet to the egress of another device (linux/tc_act/tc_mirred.h).
pub(crate) const TCA_EGRESS_REDIR: u32 = 1;

pub(crate) const TCA_BPF_FD: u16 = 6;
pub(crate) const TCA_BPF_NAME: u16 = 7;

/// Selector flag: a match ends the search (linux/pkt_cls.h).
pub(crate) const TC_U32_TERMINAL: u8 = 1;

/// Encodes struct tcmsg and the attributes.
pub(crate) fn body(operation: &Operation, device: u32) -> Vec<u8> {
    let object = operation.object();
    let (handle, parent, info) = match object {
        Object::Qdisc(q) => (q.handle.as_raw(), q.parent, 0),
        Object::Class(c) => (c.handle.as_raw(), c.parent, 0),
        Object::OtherClass(c) => (c.handle.as_raw(), c.parent, 0),
        Object::Filter(f) => {
            let protocol = u16::from_ne_bytes(f.protocol.to_be_bytes());
            (filter_handle(operation, f), f.parent, u32::from(f.preference) << 16 | u32::from(protocol))
        }
    };
    let mut body = bytes_of(&[0, device, handle, parent.as_raw(), info]);
    let mut attributes = Writer::default();
    attributes.put_text(TCA_KIND, object.kind());
    if !matches!(operation, Operation::Delete(_)) {
        put_options(&mut attributes, operation);
    }
    attributes.append(object.attributes());
    body.extend(attributes.into_bytes());
    body
}

/// Handle to request. The kernel numbers a preference's own u32 table in the order of creation, so that a request can
/// give only the last part of a filter's handle.
fn filter_handle(operation: &Operation, filter: &Filter) -> u32 {
    let number = filter.handle & 0xfff;
    let in_own_table = filter.classifier.kind() == "u32" && is_own_table(filter.handle & 0xffff_f000) && number != 0;
    if in_own_table && matches!(operation, Operation::Add(_)) { number } else { filter.handle }
}

/// Whether `table` is a u32 hash table that the kernel numbered (0x800 or higher), with bucket 0.
pub(crate) fn is_own_table(table: u32) -> bool {
    table >> 31 == 1 && table & 0xf_ffff == 0
}

fn put_options(attributes: &mut Writer, operation: &Operation) {
    match operation.object() {
        Object::Qdisc(q) => put_discipline(attributes, &q.discipline, matches!(operation, Operation::Change(_))),
        Object::Class(c) => attributes.put_row(TCA_OPTIONS, htb_class(&c.htb)),
        Object::OtherClass(c) => put_raw(attributes, &c.options),
        Object::Filter(f) => put_classifier(attributes, &f.classifier),
    }
}

fn put_raw(attributes: &mut Writer, options: &[u8]) {
    if !options.is_empty() {
        attributes.put(TCA_OPTIONS, options);
    }
}

fn put_discipline(attributes: &mut Writer, discipline: &Discipline, change: bool) {
    match discipline {
        Discipline::Htb(root) => attributes.put_row(TCA_OPTIONS, htb_root(root)),
        Discipline::Tbf(bucket) => attributes.put_row(TCA_OPTIONS, token_bucket(bucket)),
        Discipline::PacketFifo { limit } => attributes.put_u32(TCA_OPTIONS, *limit),
        Discipline::ByteFifo { limit } => attributes.put_u32(TCA_OPTIONS, capped(limit.as_u64())),
        Discipline::FqCodel { limit, target, interval, flows, quantum, memory_limit, ecn } => {
            let mut row = Writer::default();
            row.put_u32(1, microseconds(*target));
            row.put_u32(2, *limit);
            row.put_u32(3, microseconds(*interval));
            row.put_u32(4, u32::from(*ecn));
            // The kernel rejects a change that contains the number of queues, even an equal one.
            if !change {
                row.put_u32(5, *flows);
            }
            row.put_u32(6, *quantum);
            row.put_u32(9, capped(memory_limit.as_u64()));
            attributes.put_row(TCA_OPTIONS, row);
        }
        Discipline::Other { options, .. } => put_raw(attributes, options),
        Discipline::Ingress | Discipline::Clsact => {}
    }
}

fn capped(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Encodes struct tc_htb_glob of version 3, and the queue length of unshaped traffic.
fn htb_root(root: &HtbRoot) -> Writer {
    let mut row = Writer::default();
    row.put_words(TCA_HTB_INIT, &[3, root.rate_to_quantum, root.default_class.into(), 0, 0]);
    row.put_u32(TCA_HTB_DIRECT_QLEN, root.direct_queue);
    row
}

/// First word of struct tc_ratespec. The link layer is Ethernet, so that the kernel requires no rate table, and the
/// overhead is 0.
pub(crate) const RATE_HEAD: [u8; 4] = [0, 1, 0, 0];

/// Encodes struct tc_ratespec.
fn rate_words(rate: Rate) -> [u32; 3] {
    [u32::from_ne_bytes(RATE_HEAD), 0, capped(rate.as_bytes_per_second())]
}

/// Adds a 64-bit attribute for a rate that exceeds struct tc_ratespec.
fn put_large_rate(row: &mut Writer, kind: u16, rate: Rate) {
    let bytes = rate.as_bytes_per_second();
    if bytes > u32::MAX.into() {
        row.put_u64(kind, bytes);
    }
}

/// Encodes struct tc_htb_opt and the attributes for larger values.
fn htb_class(class: &HtbClass) -> Writer {
    let mut words = Vec::from(rate_words(class.rate));
    words.extend(rate_words(class.ceiling));
    words.extend([ticks(class.burst), ticks(class.ceiling_burst), class.quantum, 0, class.priority]);
    let mut row = Writer::default();
    row.put_words(TCA_HTB_PARMS, &words);
    put_large_rate(&mut row, TCA_HTB_RATE64, class.rate);
    put_large_rate(&mut row, TCA_HTB_CEIL64, class.ceiling);
    row
}

/// Encodes struct tc_tbf_qopt. The bucket is sent as a time instead of bytes (TCA_TBF_BURST), so that the kernel stores
/// it without rounding.
fn token_bucket(bucket: &TokenBucket) -> Writer {
    let mut words = Vec::from(rate_words(bucket.rate));
    words.extend([0, 0, 0, capped(bucket.limit.as_u64()), ticks(bucket.burst), 0]);
    let mut row = Writer::default();
    row.put_words(TCA_TBF_PARMS, &words);
    put_large_rate(&mut row, TCA_TBF_RATE64, bucket.rate);
    row
}

fn put_classifier(attributes: &mut Writer, classifier: &Classifier) {
    let mut row = Writer::default();
    match classifier {
        Classifier::U32 { keys, class, redirect } => {
            if let Some(class) = class {
                row.put_u32(TCA_U32[0], class.as_raw());
            }
            row.put(TCA_U32[2], &selector(keys));
            if let Some(device) = redirect {
                row.put_row(TCA_U32[3], redirection(*device));
            }
        }
        Classifier::Bpf(program) => {
            if let Some(descriptor) = program.descriptor {
                row.put_u32(TCA_BPF_FD, u32::from_ne_bytes(descriptor.to_ne_bytes()));
            }
            row.put_text(TCA_BPF_NAME, &program.name);
        }
        Classifier::Other { options, .. } => return put_raw(attributes, options),
    }
    attributes.put_row(TCA_OPTIONS, row);
}

/// Encodes struct tc_u32_sel and its keys.
fn selector(keys: &[Key]) -> Vec<u8> {
    // A count above the limit is announced without keys, so that the kernel rejects the filter.
    let (count, keys) = u8::try_from(keys.len()).map_or((u8::MAX, &[][..]), |count| (count, keys));
    let mut bytes = vec![TC_U32_TERMINAL, 0, count];
    bytes.resize(16, 0);
    for key in keys {
        bytes.extend(key.mask.to_be_bytes());
        bytes.extend(key.value.to_be_bytes());
        bytes.extend(key.offset.to_ne_bytes());
        bytes.extend(if key.after_ip_header { -1_i32 } else { 0 }.to_ne_bytes());
    }
    bytes
}

/// Encodes one action, at position 1: mirred with struct tc_mirred.
fn redirection(device: u32) -> Writer {
    let mut parameters = Writer::default();
    parameters.put_words(TCA_MIRRED_PARMS, &[0, 0, TC_ACT_STOLEN, 0, 0, TCA_EGRESS_REDIR, device]);
    let mut action = Writer::default();
    action.put_text(TCA_ACT_KIND, "mirred");
    action.put_row(TCA_ACT_OPTIONS, parameters);
    let mut actions = Writer::default();
    actions.put_row(1, action);
    actions
}

impl Object {
    /// Kind, as in TCA_KIND.
    pub(crate) fn kind(&self) -> &str {
        match self {
            Self::Qdisc(q) => q.discipline.kind(),
            Self::Class(_) => "htb",
            Self::OtherClass(c) => &c.kind,
            Self::Filter(f) => f.classifier.kind(),
        }
    }

    /// Attributes outside kind and options.
    fn attributes(&self) -> &[u8] {
        match self {
            Self::Qdisc(q) => {
                if let Discipline::Other { attributes, .. } = &q.discipline {
                    attributes
                } else {
                    &[]
                }
            }
            Self::Class(_) => &[],
            Self::OtherClass(c) => &c.attributes,
            Self::Filter(f) => f.attributes(),
        }
    }
}

impl Discipline {
    /// Kind, as in tc(8) and TCA_KIND.
    pub fn kind(&self) -> &str {
        match self {
            Self::Htb(_) => "htb",
            Self::Tbf(_) => "tbf",
            Self::PacketFifo { .. } => "pfifo",
            Self::ByteFifo { .. } => "bfifo",
            Self::FqCodel { .. } => "fq_codel",
            Self::Ingress => "ingress",
            Self::Clsact => "clsact",
            Self::Other { kind, .. } => kind,
        }
    }
}

impl Classifier {
    /// Kind, as in tc(8) and TCA_KIND.
    pub fn kind(&self) -> &str {
        match self {
            Self::U32 { .. } => "u32",
            Self::Bpf(_) => "bpf",
            Self::Other { kind, .. } => kind,
        }
    }
}

impl Filter {
    fn attributes(&self) -> &[u8] {
        match &self.classifier {
            Classifier::Other { attributes, .. } => attributes,
            Classifier::U32 { .. } | Classifier::Bpf(_) => &[],
        }
    }

    /// Chain of the filter (TCA_CHAIN); 0 by default.
    pub fn chain(&self) -> u32 {
        let rows = attribute::read(self.attributes()).unwrap_or_default();
        let chain = rows.iter().find(|a| a.kind == TCA_CHAIN);
        chain.and_then(|a| attribute::u32_at(a.value, 0)).unwrap_or(0)
    }
}

pub(crate) const TCA_CHAIN: u16 = 11;
