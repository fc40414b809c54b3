//! Decoder of route netlink messages: the inverse of `encode`.
//!
//! A discipline, class or filter is decoded to a known kind only if that kind describes it completely. All others keep
//! their raw options.

use std::time::Duration;

use units::{Bytes, Rate};

use crate::arithmetic::time_of;
use crate::attribute::{self, Attribute, Writer, exactly, text, u32_at, u64_at, words};
use crate::encode::*;
use crate::filter::{BpfProgram, Classifier, Filter, Key};
use crate::handle::Handle;
use crate::object::{Class, Discipline, HtbClass, HtbRoot, Object, OtherClass, Qdisc, Statistics, TokenBucket};
use crate::statistics;

const TCA_XSTATS: u16 = 4;
const TCA_U32_HASH: u16 = 2;
const TCA_U32_ACT: u16 = 7;
const TCA_STATS2: u16 = 7;
/// Attributes that hold counters or state instead of settings: TCA_STATS, TCA_XSTATS, TCA_RATE, TCA_FCNT, TCA_STATS2,
/// TCA_PAD, TCA_DUMP_INVISIBLE, TCA_HW_OFFLOAD, TCA_DUMP_FLAGS, TCA_EXT_WARN_MSG.
const NOT_SETTINGS: [u16; 10] = [3, TCA_XSTATS, 5, 6, TCA_STATS2, 9, 10, 12, 15, 16];
/// Length of struct tcmsg in bytes.
const TCMSG_BYTES: usize = 20;

/// Reason why a message cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The message has another kind.
    #[error("message kind {0} of route netlink does not describe a qdisc, class or filter")]
    Kind(u16),
    /// The message is truncated, or an attribute has an invalid length.
    #[error("the kernel's message about traffic control is cut or has an attribute of impossible length")]
    Damaged,
    /// The message has no TCA_KIND.
    #[error("the kernel's message about traffic control does not name a kind")]
    NoKind,
}

/// A decoded message.
struct Parts<'a> {
    handle: Handle,
    parent: Handle,
    info: u32,
    kind: String,
    options: &'a [u8],
    /// Settings outside kind and options.
    attributes: Vec<u8>,
    statistics: Statistics,
}

/// Decodes the body of RTM_NEWQDISC, RTM_NEWTCLASS or RTM_NEWTFILTER to the device index, the object and its counters.
///
/// A class directly below its discipline gets the discipline as its parent, where the kernel reports "root".
///
/// # Errors
/// The message is of another kind, is truncated, or has no object kind.
pub fn decode(kind: u16, body: &[u8]) -> Result<(u32, Object, Statistics), DecodeError> {
    if ![36, 40, 44].contains(&kind) {
        return Err(DecodeError::Kind(kind));
    }
    let device = u32_at(body, 4).ok_or(DecodeError::Damaged)?;
    let parts = parts(body)?;
    let statistics = parts.statistics;
    let object = match kind {
        36 => Object::Qdisc(Qdisc { handle: parts.handle, parent: parts.parent, discipline: discipline(parts) }),
        40 => class(parts),
        _ => Object::Filter(filter(parts)),
    };
    Ok((device, object, statistics))
}

fn parts(body: &[u8]) -> Result<Parts<'_>, DecodeError> {
    let word = |n: usize| u32_at(body, 4 * n).ok_or(DecodeError::Damaged);
    let rows = body.get(TCMSG_BYTES..).and_then(attribute::read).ok_or(DecodeError::Damaged)?;
    let find = |kind: u16| rows.iter().find(|a| a.kind == kind).map(|a| a.value);
    let kind = text(find(TCA_KIND).ok_or(DecodeError::NoKind)?);
    let mut attributes = Writer::default();
    for a in rows.iter().filter(|a| is_setting(a)) {
        attributes.put(a.kind, a.value);
    }
    let htb = if kind == "htb" { find(TCA_XSTATS) } else { None };
    Ok(Parts {
        handle: Handle::from_raw(word(2)?),
        parent: Handle::from_raw(word(3)?),
        info: word(4)?,
        options: find(TCA_OPTIONS).unwrap_or_default(),
        attributes: attributes.into_bytes(),
        statistics: statistics::read(find(TCA_STATS2), htb),
        kind,
    })
}

fn is_setting(attribute: &Attribute<'_>) -> bool {
    match attribute.kind {
        TCA_KIND | TCA_OPTIONS => false,
        TCA_CHAIN => attribute.value.iter().any(|b| *b != 0),
        kind => !NOT_SETTINGS.contains(&kind),
    }
}

fn discipline(parts: Parts<'_>) -> Discipline {
    let options = parts.options;
    let known = match parts.kind.as_str() {
        _ if !parts.attributes.is_empty() => None,
        "htb" => htb_root(options),
        "tbf" => token_bucket(options),
        "pfifo" => words(options).map(|[limit]| Discipline::PacketFifo { limit }),
        "bfifo" => words(options).map(|[limit]| Discipline::ByteFifo { limit: Bytes::new(limit.into()) }),
        "fq_codel" => fq_codel(options),
        "ingress" if options.is_empty() => Some(Discipline::Ingress),
        "clsact" if options.is_empty() => Some(Discipline::Clsact),
        _ => None,
    };
    known.unwrap_or_else(|| Discipline::Other {
        options: acceptable(&parts.kind, true, options),
        kind: parts.kind,
        attributes: parts.attributes,
    })
}

fn htb_root(options: &[u8]) -> Option<Discipline> {
    let [init, queue] = exactly(options, [TCA_HTB_INIT, TCA_HTB_DIRECT_QLEN])?;
    // Requests have version 3; dumps add a minor number (HTB_VER). The last field counts packets that bypassed shaping.
    let [version, rate_to_quantum, default, 0, _] = words(init?)? else { return None };
    let [direct_queue] = words(queue?)?;
    let default_class = u16::try_from(default).ok()?;
    (version == 3 || version >> 16 == 3).then_some(())?;
    Some(Discipline::Htb(HtbRoot { default_class, rate_to_quantum, direct_queue }))
}

/// Rate of a struct tc_ratespec, or of the 64-bit attribute; `None` if the structure has other settings.
fn rate(spec: [u32; 3], large: Option<&[u8]>) -> Option<Rate> {
    let [head, 0, small] = [spec[0], spec[1], spec[2]] else { return None };
    (head == u32::from_ne_bytes(RATE_HEAD)).then_some(())?;
    let bytes = match large {
        Some(value) => u64_at(value, 0).filter(|bytes| small == u32::MAX && *bytes > u32::MAX.into())?,
        None => small.into(),
    };
    bytes.checked_mul(8).map(Rate::from_bps)
}

fn token_bucket(options: &[u8]) -> Option<Discipline> {
    let [parameters, large] = exactly(options, [TCA_TBF_PARMS, TCA_TBF_RATE64])?;
    let [a, b, c, peak @ .., limit, buffer, mtu] = words::<9>(parameters?)?;
    (peak == [0; 3] && mtu == 0).then_some(())?;
    Some(Discipline::Tbf(TokenBucket {
        rate: rate([a, b, c], large)?,
        burst: time_of(buffer),
        limit: Bytes::new(limit.into()),
    }))
}

fn fq_codel(options: &[u8]) -> Option<Discipline> {
    /// The kernel's default for the maximum number of packets dropped at once (fq_codel_init).
    const DROP_BATCH_DEFAULT: u32 = 64;
    let values = exactly(options, TCA_FQ_CODEL)?;
    let [target, limit, interval, ecn, flows, quantum, batch, memory] = values.map(|v| v.and_then(words::<1>));
    let ([ecn], [batch]) = (ecn?, batch.unwrap_or([DROP_BATCH_DEFAULT]));
    (ecn <= 1 && batch == DROP_BATCH_DEFAULT).then_some(())?;
    let micros = |[n]: [u32; 1]| Duration::from_micros(n.into());
    Some(Discipline::FqCodel {
        limit: limit?[0],
        target: micros(target?),
        interval: micros(interval?),
        flows: flows?[0],
        quantum: quantum?[0],
        memory_limit: Bytes::new(memory?[0].into()),
        ecn: ecn == 1,
    })
}

fn class(parts: Parts<'_>) -> Object {
    let handle = parts.handle;
    let parent = if parts.parent == Handle::ROOT { Handle::new(handle.major(), 0) } else { parts.parent };
    let known = if parts.kind == "htb" && parts.attributes.is_empty() { htb_class(parts.options) } else { None };
    match known {
        Some(htb) => Object::Class(Class { handle, parent, htb }),
        None => Object::OtherClass(OtherClass {
            handle,
            parent,
            kind: parts.kind,
            options: parts.options.to_vec(),
            attributes: parts.attributes,
        }),
    }
}

fn htb_class(options: &[u8]) -> Option<HtbClass> {
    let [parameters, large, large_ceiling] = exactly(options, [TCA_HTB_PARMS, TCA_HTB_RATE64, TCA_HTB_CEIL64])?;
    // The kernel sets the level, so the level is not a setting.
    let [a, b, c, d, e, f, buffer, ceiling_buffer, quantum, _, priority] = words(parameters?)?;
    Some(HtbClass {
        rate: rate([a, b, c], large)?,
        ceiling: rate([d, e, f], large_ceiling)?,
        burst: time_of(buffer),
        ceiling_burst: time_of(ceiling_buffer),
        priority,
        quantum,
    })
}

fn filter(parts: Parts<'_>) -> Filter {
    let handle = parts.handle.as_raw();
    let known = match parts.kind.as_str() {
        _ if !parts.attributes.is_empty() => None,
        "u32" => u32_filter(handle, parts.options),
        "bpf" => bpf(parts.options),
        _ => None,
    };
    Filter {
        parent: parts.parent,
        preference: (parts.info >> 16) as u16,
        protocol: u16::from_be_bytes((parts.info as u16).to_ne_bytes()),
        handle,
        classifier: known.unwrap_or_else(|| Classifier::Other {
            options: acceptable(&parts.kind, false, parts.options),
            kind: parts.kind,
            attributes: parts.attributes,
        }),
    }
}

/// Flags that state whether the hardware executes the filter (TCA_CLS_FLAGS_IN_HW, TCA_CLS_FLAGS_NOT_IN_HW). The kernel
/// reports these flags and rejects them in requests.
const READ_ONLY_FLAGS: u32 = 4 | 8;

fn has_only_read_only(flags: Option<&[u8]>) -> bool {
    flags.is_none_or(|v| words(v).is_some_and(|[flags]| flags & !READ_ONLY_FLAGS == 0))
}

/// Decodes a filter in bucket 0 of a preference's own hash table. The kernel numbers these tables from 0x800 on.
fn u32_filter(handle: u32, options: &[u8]) -> Option<Classifier> {
    let settings = TCA_U32;
    let known = [settings[0], settings[1], settings[2], settings[3], settings[4], TCA_U32_PCNT, TCA_U32_PAD];
    let [class, table, selector, actions, flags, ..] = exactly(options, known)?;
    let own = is_own_table;
    let in_own = table.is_none_or(|v| words(v).is_some_and(|[table]| own(table) && table == handle & 0xffff_f000));
    // A filter that does not exist yet has only the last part of its handle, or no handle.
    let named = handle >> 12 == 0 || (own(handle & 0xffff_f000) && handle & 0xfff != 0);
    (in_own && named && has_only_read_only(flags)).then_some(())?;
    Some(Classifier::U32 {
        keys: keys(selector?)?,
        class: match class {
            Some(value) => Some(Handle::from_raw(words::<1>(value)?[0])),
            None => None,
        },
        redirect: match actions {
            Some(actions) => Some(redirection(actions)?),
            None => None,
        },
    })
}

/// Keys of a struct tc_u32_sel; `None` if the selector links or hashes.
fn keys(selector: &[u8]) -> Option<Vec<Key>> {
    let (head, keys) = selector.split_at_checked(16)?;
    let mut plain = [0; 16];
    (plain[0], plain[2]) = (TC_U32_TERMINAL, head[2]);
    (head == plain && keys.len() == 16 * usize::from(head[2])).then_some(())?;
    keys.chunks_exact(16).map(key).collect()
}

fn key(bytes: &[u8]) -> Option<Key> {
    let [mask, value, offset, moved] = words(bytes)?;
    let signed = |word: u32| i32::from_ne_bytes(word.to_ne_bytes());
    let after_ip_header = match signed(moved) {
        0 => false,
        -1 => true,
        _ => return None,
    };
    let number = |word: u32| u32::from_be_bytes(word.to_ne_bytes());
    Some(Key { offset: signed(offset), after_ip_header, mask: number(mask), value: number(value) })
}

/// Target device of a single `mirred egress redirect`.
fn redirection(actions: &[u8]) -> Option<u32> {
    // Kind and options, followed by read-only attributes: index, statistics, padding, hardware counters.
    const KINDS: [u16; 8] = [TCA_ACT_KIND, TCA_ACT_OPTIONS, 3, 4, 5, 8, 9, 10];
    let [action] = exactly(actions, [1])?;
    let [kind, options, ..] = exactly(action?, KINDS)?;
    // Usage times and padding are not settings.
    let [parameters, ..] = exactly(options?, [TCA_MIRRED_PARMS, 1, 3])?;
    // The index and the reference counts are not settings.
    let [_, 0, TC_ACT_STOLEN, _, _, TCA_EGRESS_REDIR, device] = words(parameters?)? else { return None };
    (text(kind?) == "mirred").then_some(device)
}

fn bpf(options: &[u8]) -> Option<Classifier> {
    // Name, hardware flags, program tag, program id, and the descriptor, which only requests contain.
    let [name, flags, _, id, descriptor] = exactly(options, [TCA_BPF_NAME, 9, 10, 11, TCA_BPF_FD])?;
    has_only_read_only(flags).then_some(())?;
    let name = name?;
    let [id] = id.map_or(Some([0]), words)?;
    let descriptor = match descriptor {
        Some(value) => Some(i32::from_ne_bytes(words::<1>(value)?[0].to_ne_bytes())),
        None => None,
    };
    (id != 0 || descriptor.is_some()).then_some(Classifier::Bpf(BpfProgram { descriptor, id, name: text(name) }))
}

/// Converts options from the form that the kernel reports to the form that it accepts.
fn acceptable(kind: &str, qdisc: bool, options: &[u8]) -> Vec<u8> {
    let Some(attributes) = attribute::read(options) else { return options.to_vec() };
    let mut row = Writer::default();
    for Attribute { kind: number, value } in attributes {
        match (qdisc, kind, number, words::<1>(value)) {
            // Only dumps have the minor version and the count of unshaped packets; neither is a setting.
            (true, "htb", TCA_HTB_INIT, _) => match words(value) {
                Some([_, rate_to_quantum, default, debug, _]) => {
                    row.put_words(number, &[3, rate_to_quantum, default, debug, 0]);
                }
                None => row.put(number, value),
            },
            (false, "u32", 11, Some([flags]))
            | (false, "bpf", 9, Some([flags]))
            | (false, "flower", 22, Some([flags]))
            | (false, "matchall", 3, Some([flags])) => row.put_u32(number, flags & !READ_ONLY_FLAGS),
            (false, "u32", TCA_U32_ACT, _) => row.put(number, &actions_without_counts(value)),
            // The kernel may assign another number to a table that it numbered.
            (false, "u32", TCA_U32_HASH, Some([table])) if is_own_table(table) => {}
            (false, "u32", TCA_U32_PCNT | TCA_U32_PAD, _) => {}
            _ => row.put(number, value),
        }
    }
    row.into_bytes()
}

/// Strips counters and usage times from actions, because they would make a filter differ at each dump.
fn actions_without_counts(actions: &[u8]) -> Vec<u8> {
    let Some(actions) = attribute::read(actions) else { return actions.to_vec() };
    let mut row = Writer::default();
    for action in actions {
        let parts = attribute::read(action.value).unwrap_or_default();
        let kind = parts.iter().find(|a| a.kind == TCA_ACT_KIND).map(|a| text(a.value)).unwrap_or_default();
        let mut kept = Writer::default();
        // Omits statistics, padding and hardware offload state.
        for part in parts.iter().filter(|a| ![4, 5, 9, 10].contains(&a.kind)) {
            if part.kind == TCA_ACT_OPTIONS && ["mirred", "gact", "skbedit", "vlan"].contains(&kind.as_str()) {
                kept.put(part.kind, &action_without_times(part.value));
            } else {
                kept.put(part.kind, part.value);
            }
        }
        row.put_row(action.kind, kept);
    }
    row.into_bytes()
}

/// Options of an action whose attribute 2 holds parameters that start with `tc_gen`, and whose attribute 1 holds usage
/// times.
fn action_without_times(options: &[u8]) -> Vec<u8> {
    let Some(options) = attribute::read(options) else { return options.to_vec() };
    let mut row = Writer::default();
    for option in options.iter().filter(|o| o.kind != 1) {
        let mut value = option.value.to_vec();
        // `refcnt` and `bindcnt` follow index, capabilities and action.
        if let Some(counts) = value.get_mut(12..20).filter(|_| option.kind == TCA_MIRRED_PARMS) {
            counts.fill(0);
        }
        row.put(option.kind, &value);
    }
    row.into_bytes()
}
