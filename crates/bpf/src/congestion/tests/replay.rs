use congestion::{Ack, Connection, Fast, FastSettings, Htcp, HtcpSettings, Settings};
use libbpf_rs::{MapCore, MapFlags, ObjectBuilder, ProgramInput};
use proptest::prelude::*;
use testbed::or_skip;

/// The compiled `bpf/replay.bpf.c`.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/replay.bpf.o"));

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Acknowledged,
    AcknowledgedInRecovery,
    Lost,
    TimedOut,
    Undone,
    Idle,
    Recovered,
}

/// An event of a connection: struct step of the program.
#[derive(Debug, Clone, Copy)]
struct Step {
    now_us: u64,
    kind: Kind,
    acked: u32,
    rtt_us: Option<u32>,
    flight: u32,
    delivered: u32,
    limited: bool,
    open: bool,
    disorder: bool,
}

impl Step {
    fn to_bytes(self) -> Vec<u8> {
        let rtt = self.rtt_us.map_or(-1, u32::cast_signed);
        let words = [self.kind as u32, self.acked, rtt.cast_unsigned(), self.flight, self.delivered];
        let flags = [u32::from(self.limited), u32::from(self.open), u32::from(self.disorder)];
        let words = words.into_iter().chain(flags).flat_map(u32::to_ne_bytes);
        self.now_us.to_ne_bytes().into_iter().chain(words).collect()
    }

    fn ack(self) -> Ack {
        Ack { packets: self.acked, rtt_us: self.rtt_us, flight: self.flight }
    }
}

/// Window, threshold and count after each step in the kernel.
fn in_kernel(settings: &Settings, steps: &[Step]) -> Vec<[u32; 3]> {
    let mut object = ObjectBuilder::default().open_memory(OBJECT).unwrap();
    for mut map in object.maps_mut() {
        match map.name().to_str() {
            Some("steps" | "seen") => map.set_max_entries(steps.len() as u32).unwrap(),
            Some(name) if name.ends_with(".rodata") => {
                let of = |wanted: Settings| {
                    if wanted.algorithm() == settings.algorithm() { settings.to_words() } else { wanted.to_words() }
                };
                let is_htcp = u32::from(matches!(settings, Settings::Htcp(_)));
                let (fast, htcp) = (Settings::Fast(FastSettings::default()), Settings::Htcp(HtcpSettings::default()));
                let words = [vec![is_htcp], of(fast), of(htcp)].concat();
                let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
                map.set_initial_value(&bytes).unwrap();
            }
            _ => {}
        }
    }
    let object = object.load().unwrap();
    let map = |name: &str| object.maps().find(|m| m.name() == name).unwrap();
    for (at, step) in (0_u32..).zip(steps) {
        map("steps").update(&at.to_ne_bytes(), &step.to_bytes(), MapFlags::ANY).unwrap();
    }
    for _ in steps {
        let output = object.progs_mut().next().unwrap().test_run(ProgramInput::default()).unwrap();
        assert_eq!(output.return_value, 0);
    }
    let read = |at: u32| {
        let bytes = map("seen").lookup(&at.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        [word(0), word(4), word(8)]
    };
    (0..steps.len() as u32).map(read).collect()
}

enum Reference {
    Fast(FastSettings, Fast),
    Htcp(HtcpSettings, Htcp),
}

/// Window, threshold and count after each step in the reference.
fn by_reference(settings: &Settings, steps: &[Step]) -> Vec<[u32; 3]> {
    let mut c = Connection::new();
    let mut control = match settings {
        Settings::Fast(s) => Reference::Fast(*s, Fast::default()),
        Settings::Htcp(s) => Reference::Htcp(*s, Htcp::new(s, &c)),
    };
    let mut all = Vec::new();
    for step in steps {
        (c.now_us, c.delivered) = (step.now_us, step.delivered);
        (c.limited, c.open, c.disorder) = (step.limited, step.open, step.disorder);
        apply(&mut control, &mut c, step);
        all.push([c.window, c.threshold, c.window_count]);
    }
    all
}

fn apply(control: &mut Reference, c: &mut Connection, step: &Step) {
    match (control, step.kind) {
        (Reference::Fast(s, fast), Kind::Acknowledged) => fast.ack(s, c, step.ack()),
        (Reference::Htcp(s, htcp), Kind::Acknowledged) => htcp.ack(s, c, step.ack()),
        (Reference::Fast(s, fast), Kind::AcknowledgedInRecovery) => fast.measure(s, c, step.ack()),
        (Reference::Htcp(s, htcp), Kind::AcknowledgedInRecovery) => htcp.measure(s, c, step.ack()),
        (Reference::Fast(_, fast), Kind::Lost | Kind::TimedOut) => {
            c.prior_window = c.window;
            c.threshold = fast.after_loss(c);
            c.window = if step.kind == Kind::Lost { c.threshold } else { 1 };
            if step.kind == Kind::TimedOut {
                fast.timeout();
            }
        }
        (Reference::Htcp(s, htcp), Kind::Lost | Kind::TimedOut) => {
            c.prior_window = c.window;
            c.threshold = htcp.after_loss(s, c);
            c.window = if step.kind == Kind::Lost { c.threshold } else { 1 };
            htcp.congestion(s, c);
        }
        (Reference::Fast(_, fast), Kind::Undone) => c.window = fast.undo(c),
        (Reference::Htcp(_, htcp), Kind::Undone) => c.window = htcp.undo(c),
        (Reference::Fast(_, fast), Kind::Idle) => fast.idle(),
        (Reference::Htcp(s, htcp), Kind::Recovered) => htcp.open(s, c),
        (Reference::Fast(..), Kind::Recovered) | (Reference::Htcp(..), Kind::Idle) => {}
    }
}

prop_compose! {
    /// Generates mostly acknowledgements, at rates from a few packets to millions per second.
    fn a_step()(
        kind in prop_oneof![
            90 => Just(Kind::Acknowledged),
            4 => Just(Kind::AcknowledgedInRecovery),
            2 => Just(Kind::Lost),
            1 => Just(Kind::TimedOut),
            1 => Just(Kind::Undone),
            1 => Just(Kind::Idle),
            1 => Just(Kind::Recovered),
        ],
        after_us in prop_oneof![0_u64..100, 100_u64..100_000, Just(5_000_000_u64)],
        acked in prop_oneof![1_u32..3, 0_u32..50, Just(5000_u32)],
        rtt_us in prop_oneof![6 => (20_000_u32..200_000).prop_map(Some), 1 => Just(None), 1 => (0_u32..u32::MAX / 2).prop_map(Some)],
        flight in prop_oneof![0_u32..200, 0_u32..100_000, Just(u32::MAX)],
        limited in prop::bool::weighted(0.9),
        (open, disorder) in prop_oneof![18 => Just((true, false)), 1 => Just((false, true)), 1 => Just((false, false))],
    ) -> (u64, Step) {
        (after_us, Step { now_us: 0, kind, acked, rtt_us, flight, delivered: 0, limited, open, disorder })
    }
}

prop_compose! {
    fn a_connection()(steps in prop::collection::vec(a_step(), 1..400), initial_delivered in prop_oneof![Just(0_u32), Just(u32::MAX - 100)]) -> Vec<Step> {
        let (mut now_us, mut delivered) = (0, initial_delivered);
        steps.into_iter().map(|(after, step)| {
            now_us += after;
            delivered = delivered.wrapping_add(step.acked);
            Step { now_us, delivered, ..step }
        }).collect()
    }
}

prop_compose! {
    fn some_settings()(
        fast in any::<bool>(),
        flags in any::<[bool; 4]>(),
        alpha in prop_oneof![Just(100_u32), 1_u32..10_000],
        gamma in 1_u32..=256,
        divisor_min in prop_oneof![Just(4_u32), Just(256_u32), Just(0_u32)],
        threshold_us in prop_oneof![Just(750_u32), Just(0_u32), Just(50_000_u32)],
        tick_us in prop_oneof![Just(0_u32), Just(4_000_u32)],
    ) -> Settings {
        let [every_other, rtt_scaling, adaptive_backoff, bandwidth_switch] = flags;
        if fast {
            Settings::Fast(FastSettings { alpha, gamma, period_us: 10_000, threshold_us, average_divisor_min: divisor_min, every_other })
        } else {
            Settings::Htcp(HtcpSettings { rtt_scaling, adaptive_backoff, bandwidth_switch, tick_us })
        }
    }
}

#[test]
fn kernel_and_reference_have_the_same_window_after_every_step() {
    if or_skip(kernel::new_namespace()).is_none() {
        return;
    }
    proptest!(ProptestConfig { cases: 200, max_shrink_iters: 1000, ..ProptestConfig::default() }, |(settings in some_settings(), steps in a_connection())| {
        prop_assert_eq!(in_kernel(&settings, &steps), by_reference(&settings, &steps));
    });
}
