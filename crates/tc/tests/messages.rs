//! Encoded and decoded bytes against those that iproute2 6.1 sent and Linux 6.18 answered, and properties of both
//! directions.

use std::time::Duration;

use proptest::prelude::*;
use tc::{
    BpfProgram, Class, Classifier, Discipline, Filter, Handle, HtbClass, HtbRoot, Key, Object, Operation, Qdisc,
    TokenBucket, decode,
};
use units::{Bytes, Rate};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let value = |digit: u8| char::from(digit).to_digit(16).unwrap_or_default() as u8;
    digits.chunks_exact(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect()
}

fn htb() -> Object {
    let root = HtbRoot { default_class: 0x20, rate_to_quantum: 10, direct_queue: 77 };
    Object::Qdisc(Qdisc { handle: Handle::new(1, 0), parent: Handle::ROOT, discipline: Discipline::Htb(root) })
}

fn class_1_1() -> Object {
    let htb = HtbClass {
        rate: Rate::from_bps(200_000_000),
        ceiling: Rate::from_bps(50_000_000_000),
        burst: Duration::from_millis(1),
        // 25000 bytes last 4 us at 50 Gb/s; iproute2 rounds them to 0x3e ticks.
        ceiling_burst: Duration::from_nanos(0x3e * 64),
        priority: 3,
        quantum: 1514,
    };
    Object::Class(Class { handle: Handle::new(1, 1), parent: Handle::new(1, 0), htb })
}

fn u32_filter(keys: Vec<Key>, class: Option<Handle>, redirect: Option<u32>) -> Filter {
    Filter {
        parent: Handle::new(1, 0),
        preference: 5,
        protocol: 0x0800,
        handle: 0,
        classifier: Classifier::U32 { keys, class, redirect },
    }
}

fn http() -> Vec<Key> {
    let key = |offset, mask, value| Key { offset, after_ip_header: false, mask, value };
    vec![key(20, 0xffff, 80), key(8, 0x00ff_0000, 0x0006_0000)]
}

const ANY: Key = Key { offset: 0, after_ip_header: false, mask: 0, value: 0 };

#[test]
fn encoded_messages_equal_those_of_iproute2() {
    // tc qdisc add dev d0 root handle 1: htb default 20 r2q 10 direct_qlen 77
    let message = Operation::Add(htb()).message(6);
    assert_eq!((message.kind, message.flags), (36, 0x600), "RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL");
    let sent = "00000000 06000000 00000100 ffffffff 00000000 08000100 68746200 24000200
        18000200 03000000 0a000000 20000000 00000000 00000000 08000500 4d000000";
    assert_eq!(message.body, hex(sent));
    // tc qdisc add dev d0 parent 1:10 handle 10: bfifo limit 100000
    let discipline = Discipline::ByteFifo { limit: Bytes::new(100_000) };
    let leaf = Qdisc { handle: Handle::new(0x10, 0), parent: Handle::new(1, 0x10), discipline };
    let sent = "00000000 06000000 00001000 10000100 00000000 0a000100 626669666f000000 08000200 a0860100";
    assert_eq!(Operation::Replace(Object::Qdisc(leaf)).message(6).body, hex(sent));
    // tc qdisc add dev d0 clsact
    let clsact = Qdisc { handle: Handle::INGRESS_QDISC, parent: Handle::INGRESS, discipline: Discipline::Clsact };
    let sent = "00000000 06000000 0000ffff f1ffffff 00000000 0b000100 636c7361637400 00";
    assert_eq!(Operation::Add(Object::Qdisc(clsact)).message(6).body, hex(sent));
    // tc filter add dev d0 parent 1: protocol ip prio 5 u32 match ip dport 80 0xffff match ip protocol 6 0xff flowid
    // 1:10
    let filter = u32_filter(http(), Some(Handle::new(1, 0x10)), None);
    let message = Operation::Add(Object::Filter(filter)).message(6);
    let sent = "00000000 06000000 00000000 00000100 08000500 08000100 75333200 40000200 08000100 10000100 34000500
        01000200 00000000 00000000 00000000 0000ffff 00000050 14000000 00000000 00ff0000 00060000 08000000 00000000";
    assert_eq!((message.kind, message.body), (44, hex(sent)));
}

#[test]
fn kernel_messages_are_decoded() {
    let reported = [
        // qdisc htb 1: root, with 11 unshaped packets
        (
            36,
            "000000000600000000000100ffffffff0300000008000100687462002400020018000200110003000a000000200000000000000000000000080005004d000000",
            htb(),
        ),
        // class htb 1:1 root ... level 7
        (
            40,
            "000000000600000001000100ffffffff0000000008000100687462004000020030000100000100000000000040787d010001000000000000ffffffff093d00003e000000ea05000007000000030000000c000700806e877401000000",
            class_1_1(),
        ),
        // filter 1: pref 5 fh 800::800
        (
            44,
            "0000000006000000000800800000010008000500080001007533320008000b00000000005000020034000500010002000000000000000000000000000000ffff00000050140000000000000000ff00000006000008000000000000000800020000000080080001001000010008000b0008000000",
            Object::Filter(Filter { handle: 0x8000_0800, ..u32_filter(http(), Some(Handle::new(1, 0x10)), None) }),
        ),
        // filter 1: pref 6 fh 801::800 action mirred egress redirect
        (
            44,
            "0000000006000000000810800000010000030600080001007533320008000b0000000000e0000200240005000100010000000000000000000000000000000000000000000000000000000000080002000000108008000b0008000000a8000700a40001000b0001006d69727265640000440004001400010000000000000000000000000000000000140007000000000000000000000000000000000018000300000000000000000000000000000000000000000008000a0000000000480002002000020003000000000000000400000001000000010000000100000002000000240001001600000000000000160000000000000000000000000000000000000000000000",
            Object::Filter(Filter {
                handle: 0x8010_0800,
                preference: 6,
                protocol: 3,
                ..u32_filter(vec![ANY], None, Some(2))
            }),
        ),
    ];
    for (kind, bytes, object) in reported {
        assert_eq!(decode(kind, &hex(bytes)).map(|(device, object, _)| (device, object)), Ok((6, object)));
    }
    // qdisc tbf 8001: root rate 1Mbit burst 10000b, 1336 bytes in 18 packets
    let reported = "000000000200000000000180ffffffff0200000008000100746266002c00020028000100000100000000000048e8010000000000000000000000000030750000d01213000000000005000c00000000003000070014000100380500000000000012000000000000001800030000000000000000000000000000000000000000002c00030038050000000000001200000000000000000000000000000000000000000000000000000000000000";
    let (_, object, counted) = decode(36, &hex(reported)).unwrap();
    let Object::Qdisc(Qdisc { discipline: Discipline::Tbf(bucket), .. }) = object else { panic!("{object:?}") };
    let burst = Duration::from_millis(80);
    assert_eq!(bucket, TokenBucket { rate: Rate::from_bps(1_000_000), burst, limit: Bytes::new(30_000) });
    assert_eq!((counted.bytes, counted.packets, counted.drops), (Bytes::new(1336), 18, 0));
}

#[test]
fn unknown_settings_are_kept_raw_and_can_be_sent_again() {
    // class htb 2:1 with overhead 18
    let reported = "000000000300000001000200ffffffff0000000008000100687462003400020030000100000112000000000048e80100000112000000000048e80100400d0300400d0300d43000000000000000000000";
    let (_, object, _) = decode(40, &hex(reported)).unwrap();
    let Object::OtherClass(class) = &object else { panic!("{object:?}") };
    assert_eq!((class.kind.as_str(), class.parent), ("htb", Handle::new(2, 0)));
    let again = Operation::Add(object.clone()).message(3);
    assert_eq!(decode(40, &again.body).unwrap().1, object);
    // The same qdisc with a size table (TCA_STAB) and in chain 3 of a shared block: all attributes are kept.
    let mut reported = hex(
        "000000000600000000000100ffffffff0300000008000100687462002400020018000200110003000a000000200000000000000000000000080005004d000000",
    );
    reported.extend(hex("0c000800 08000100 18000000"));
    let (_, object, _) = decode(36, &reported).unwrap();
    let Object::Qdisc(Qdisc { discipline: Discipline::Other { kind, options, attributes }, .. }) = &object else {
        panic!("{object:?}")
    };
    assert_eq!((kind.as_str(), attributes), ("htb", &hex("0c000800 08000100 18000000")));
    assert_eq!(options[4..8], [3, 0, 0, 0], "the kernel accepts another version than it reports");
    let again = Operation::Add(object.clone()).message(6);
    assert_eq!(decode(36, &again.body).unwrap().1, object);
}

#[test]
fn tc_commands_are_equivalent() {
    let filter = |keys, class, redirect| Object::Filter(u32_filter(keys, class, redirect));
    let after = Key { after_ip_header: true, ..ANY };
    let lines = [
        (Operation::Add(htb()), "tc qdisc add dev d0 root handle 1: htb default 0x20 r2q 10 direct_qlen 77"),
        (Operation::Delete(htb()), "tc qdisc del dev d0 root handle 1:"),
        (
            Operation::Change(class_1_1()),
            "tc class change dev d0 parent 1: classid 1:1 htb rate 200000000bit ceil 50000000000bit burst 25000b \
             cburst 24800b prio 3 quantum 1514",
        ),
        (
            Operation::Add(filter(http(), Some(Handle::new(1, 0x10)), None)),
            "tc filter add dev d0 parent 1: protocol ip prio 5 u32 match u32 0x00000050 0x0000ffff at 20 \
             match u32 0x00060000 0x00ff0000 at 8 flowid 1:10",
        ),
        (
            Operation::Add(filter(vec![after], None, Some(2))),
            "tc filter add dev d0 parent 1: protocol ip prio 5 u32 match u32 0x00000000 0x00000000 at nexthdr+0 \
             action mirred egress redirect dev ifb0",
        ),
    ];
    for (operation, line) in lines {
        assert_eq!(operation.command("d0", |index| format!("ifb{}", index - 2)), line);
    }
}

#[test]
fn counters_of_a_filter_are_not_settings() {
    // Debian's Linux 6.1 has CONFIG_CLS_U32_PERF and reports TCA_U32_PCNT (9) in addition to the settings.
    let filter = u32_filter(vec![], None, Some(0x3b9a_ca05));
    let mut body = Operation::Add(Object::Filter(filter.clone())).message(6).body;
    let options = body.len();
    let counted = hex("14000900 0100000000000000 0000000000000000 04000c00");
    // The options are the last attribute.
    let at = (20..options - 4)
        .step_by(4)
        .find(|at| body[at + 2..at + 4] == [2, 0] && usize::from(body[*at]) + at == options);
    let at = at.expect("TCA_OPTIONS at the end");
    let length = u16::try_from(options - at + counted.len()).unwrap();
    body[at..at + 2].copy_from_slice(&length.to_ne_bytes());
    body.extend(counted);
    assert_eq!(decode(44, &body).unwrap().1, Object::Filter(filter));
}

#[test]
fn a_filter_with_too_many_keys_is_not_truncated_silently() {
    let filter = Object::Filter(u32_filter(vec![ANY; 256], None, None));
    let body = Operation::Add(filter.clone()).message(1).body;
    assert_ne!(decode(44, &body).unwrap().1, filter);
    // The message announces 255 keys and contains none, so that the kernel rejects it.
    assert!(body.len() < 100);
}

fn handle() -> impl Strategy<Value = Handle> {
    (1..0xfff0_u16, 1..u16::MAX).prop_map(|(major, minor)| Handle::new(major, minor))
}

fn rate() -> impl Strategy<Value = Rate> {
    prop_oneof![0..100_u64, 0..u64::MAX / 8, Just(u64::from(u32::MAX)), Just(1 << 32)]
        .prop_map(|bytes| Rate::from_bps(bytes.saturating_mul(8)))
}

fn ticks() -> impl Strategy<Value = Duration> {
    any::<u32>().prop_map(|ticks| Duration::from_nanos(64 * u64::from(ticks)))
}

fn discipline() -> impl Strategy<Value = Discipline> {
    let bytes = || any::<u32>().prop_map(|n| Bytes::new(n.into()));
    let micros = || any::<u32>().prop_map(|n| Duration::from_micros(n.into()));
    let htb = (any::<u16>(), any::<u32>(), any::<u32>()).prop_map(|(default_class, rate_to_quantum, direct_queue)| {
        Discipline::Htb(HtbRoot { default_class, rate_to_quantum, direct_queue })
    });
    let tbf =
        (rate(), ticks(), bytes()).prop_map(|(rate, burst, limit)| Discipline::Tbf(TokenBucket { rate, burst, limit }));
    let codel = (any::<[u32; 3]>(), micros(), micros(), bytes(), any::<bool>()).prop_map(
        |([limit, flows, quantum], target, interval, memory_limit, ecn)| Discipline::FqCodel {
            limit,
            target,
            interval,
            flows,
            quantum,
            memory_limit,
            ecn,
        },
    );
    prop_oneof![
        htb,
        tbf,
        codel,
        any::<u32>().prop_map(|limit| Discipline::PacketFifo { limit }),
        bytes().prop_map(|limit| Discipline::ByteFifo { limit }),
        Just(Discipline::Ingress),
        Just(Discipline::Clsact),
        proptest::collection::vec(any::<u8>(), 1..50).prop_map(|options| Discipline::Other {
            kind: "cake".to_owned(),
            options,
            attributes: Vec::new(),
        }),
    ]
}

fn key() -> impl Strategy<Value = Key> {
    (any::<i32>(), any::<bool>(), any::<u32>(), any::<u32>()).prop_map(|(offset, after_ip_header, mask, value)| Key {
        offset,
        after_ip_header,
        mask,
        value,
    })
}

fn object() -> impl Strategy<Value = Object> {
    let qdisc = (handle(), handle(), discipline())
        .prop_map(|(handle, parent, discipline)| Object::Qdisc(Qdisc { handle, parent, discipline }));
    let class = (handle(), handle(), rate(), rate(), ticks(), ticks(), any::<[u32; 2]>()).prop_map(
        |(handle, parent, rate, ceiling, burst, ceiling_burst, [priority, quantum])| {
            let htb = HtbClass { rate, ceiling, burst, ceiling_burst, priority, quantum };
            Object::Class(Class { handle, parent, htb })
        },
    );
    let u32_filter = (
        proptest::collection::vec(key(), 0..20),
        proptest::option::of(handle()),
        proptest::option::of(any::<u32>()),
        0..0x1000_u32,
    )
        .prop_map(|(keys, class, redirect, handle)| (Classifier::U32 { keys, class, redirect }, handle));
    let bpf = (any::<i32>(), "[a-z]{0,20}", any::<u32>()).prop_map(|(descriptor, name, handle)| {
        (Classifier::Bpf(BpfProgram { descriptor: Some(descriptor), id: 0, name }), handle)
    });
    let filter = (handle(), any::<u16>(), any::<u16>(), prop_oneof![u32_filter, bpf]).prop_map(
        |(parent, preference, protocol, (classifier, handle))| {
            Object::Filter(Filter { parent, preference, protocol, handle, classifier })
        },
    );
    prop_oneof![qdisc, class, filter]
}

proptest! {
    #[test]
    fn encoded_messages_decode_to_the_same_objects(object in object(), device in any::<u32>()) {
        let message = Operation::Add(object.clone()).message(device);
        let (of, back, _) = decode(message.kind, &message.body).unwrap();
        prop_assert_eq!((of, back), (device, object));
    }

    #[test]
    fn no_bytes_cause_a_panic(kind in 30..50_u16, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(kind, &bytes);
    }

    #[test]
    fn a_damaged_message_is_an_error_or_another_valid_object(object in object(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let message = Operation::Add(object).message(1);
        let mut body = message.body;
        *at.get_mut(&mut body) = byte;
        if let Ok((device, other, _)) = decode(message.kind, &body) {
            let again = Operation::Add(other).message(device);
            prop_assert!(decode(message.kind, &again.body).is_ok());
        }
    }
}
