//! The scenarios of the suite, with what is known of them: the best routes at each time, and the oracle.

/// An experiment file with a variant and overrides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    /// File below `scenarios/`.
    pub(crate) file: &'static str,
    pub(crate) variant: Option<&'static str>,
    pub(crate) overrides: Vec<(&'static str, &'static str)>,
}

impl Setting {
    fn of(file: &'static str, variant: &'static str) -> Self {
        Self { file, variant: Some(variant).filter(|v| !v.is_empty()), overrides: Vec::new() }
    }

    fn with(mut self, key: &'static str, value: &'static str) -> Self {
        self.overrides.push((key, value));
        self
    }
}

/// Routes between the ends of each flow that are best from a time on, in seconds since the start of the run.
pub(crate) type Best = (f64, &'static [&'static str]);

/// A scenario of the suite.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) setting: Setting,
    /// The same traffic over the best path at any time.
    pub(crate) oracle: Option<Setting>,
    /// The best routes, in the order of their times. Empty: no change of a route is necessary.
    pub(crate) best: Vec<Best>,
    /// Time from which control traffic counts, in seconds.
    pub(crate) control_from_s: f64,
}

impl Case {
    fn new(name: &'static str, setting: Setting, best: &[Best]) -> Self {
        Self { name, setting, oracle: None, best: best.to_vec(), control_from_s: 0.0 }
    }

    fn oracle(mut self, setting: Setting) -> Self {
        self.oracle = Some(setting);
        self
    }

    /// Control traffic counts from this time on.
    fn control_from(mut self, seconds: f64) -> Self {
        self.control_from_s = seconds;
        self
    }
}

const DIRECT: &[&str] = &["direct"];
const NORTH: &[&str] = &["via north"];
const SOUTH: &[&str] = &["via south"];
/// Paths without losses and with the same rate.
const RELAYS: &[&str] = &["via north", "via south"];

/// SAFIRE's two topologies with both periods (Mark et al. 2008, figures 5 to 8).
fn safire() -> Vec<Case> {
    let domestic = |t: &'static str| Setting::of("overlay-domestic.toml", "").with("parameters.T", t);
    let forward = |t: &'static str| Setting::of("overlay-forward.toml", "").with("parameters.T", t);
    let oracle = |s: Setting| Setting { variant: Some("oracle"), ..s };
    let halved = |s: Setting| s.with("duration", "360s");
    let far: &[&str] = &["via north, east0", "via south, east0"];
    let sides = |t: f64, [first, second]: [&'static [&'static str]; 2]| -> Vec<Best> {
        (0..5).map(|n| (f64::from(n) * t, if n % 2 == 0 { first } else { second })).collect()
    };
    let case =
        |name, setting: Setting, best: Vec<Best>| Case::new(name, setting.clone(), &best).oracle(oracle(setting));
    vec![
        case("domestic-60", domestic("60"), sides(60.0, [SOUTH, NORTH])),
        case("domestic-120", halved(domestic("120")), sides(120.0, [SOUTH, NORTH])),
        case("forward-60", forward("60"), sides(60.0, [far, DIRECT])),
        case("forward-120", halved(forward("120")), sides(120.0, [far, DIRECT])),
    ]
}

/// One change of a direct link beside two relays.
fn diamond() -> Vec<Case> {
    let of = |variant| Setting::of("overlay-suite/diamond.toml", variant);
    let case = |name, variant, best: &[Best]| Case::new(name, of(variant), best).oracle(of("oracle"));
    let flaps: Vec<Best> =
        (0..10).flat_map(|n| [(10.0 * f64::from(n) + 5.0, RELAYS), (10.0 * f64::from(n) + 8.0, DIRECT)]).collect();
    let flaps = [vec![(0.0, DIRECT)], flaps].concat();
    let middle: &[Best] = &[(0.0, DIRECT), (30.0, RELAYS), (90.0, DIRECT)];
    vec![
        case("steady", "", &[(0.0, DIRECT)]),
        case("dies", "dies", &[(0.0, DIRECT), (40.0, RELAYS)]),
        case("returns", "returns", &[(0.0, DIRECT), (30.0, RELAYS), (70.0, DIRECT)]),
        case("flaps", "flaps", &flaps),
        case("silent", "silent", &[(0.0, DIRECT), (40.0, RELAYS)]),
        case("silent-back", "silent-back", &[(0.0, DIRECT), (40.0, RELAYS)]),
        case("fills", "fills", middle),
        case("shares", "shares", middle),
        case("loss", "loss", middle),
        case("loss-one-way", "loss-one-way", middle),
        case("loss-back", "loss-back", &[(0.0, DIRECT)]),
        case("bursts", "bursts", middle),
        case("bursts-one-way", "bursts-one-way", middle),
        case("narrows", "narrows", &[(0.0, DIRECT), (40.0, RELAYS), (80.0, DIRECT)]),
        case("widens", "widens", &[(0.0, DIRECT), (40.0, NORTH)]).oracle(of("widens-oracle")),
        case("jitter", "jitter", &[(0.0, DIRECT)]),
        case("reorder", "reorder", &[(0.0, DIRECT)]),
    ]
}

/// Two lossy relays without a direct path.
fn bridges() -> Vec<Case> {
    let of = |variant| Setting::of("overlay-suite/bridges.toml", variant);
    let case = |name, variant, best: &[Best]| Case::new(name, of(variant), best).oracle(of("oracle"));
    let middle: &[Best] = &[(0.0, NORTH), (40.0, SOUTH), (80.0, NORTH)];
    vec![
        case("rtt-step", "rtt-step", middle).oracle(of("switch-oracle")),
        case("remote-loss", "remote-loss", middle).oracle(of("switch-oracle")),
        case("remote-loss-back", "remote-loss-back", &[(0.0, NORTH)]),
        case("remote-bursts", "remote-bursts", middle).oracle(of("switch-oracle")),
        case("remote-dies", "remote-dies", middle).oracle(of("switch-oracle")),
        case("twins", "twins", &[]),
        case("near-twins", "near-twins", &[(0.0, NORTH)]),
        case("long-fat", "long-fat", &[(0.0, NORTH), (60.0, SOUTH)]).oracle(of("long-fat-oracle")),
    ]
}

/// Twelve and twenty members, of which some leave and return.
fn members() -> Vec<Case> {
    const BOTH: &[&str] = &["via m4", "via m14"];
    const FIRST_FAR: &[&str] = &["via m1, m5, m9", "via m19, m3, m7", "via m14"];
    const SECOND_FAR: &[&str] = &["via m4", "via m11, m15, m19", "via m9, m13, m17"];
    const BOTH_FAR: &[&str] = &["via m1, m5, m9", "via m19, m3, m7", "via m11, m15, m19", "via m9, m13, m17"];
    let of = |file, variant| Setting::of(file, variant);
    let (mesh, star) = ("overlay-suite/mesh.toml", "overlay-suite/star.toml");
    let best: &[Best] = &[
        (0.0, BOTH),
        (15.0, FIRST_FAR),
        (25.0, BOTH_FAR),
        (30.0, SECOND_FAR),
        (40.0, BOTH),
        (45.0, FIRST_FAR),
        (53.0, BOTH),
    ];
    vec![
        Case::new("mesh-churn", of(mesh, ""), best).oracle(of(mesh, "oracle")),
        Case::new("star-churn", of(star, ""), &[(0.0, DIRECT)]).oracle(of(star, "oracle")),
    ]
}

/// Small transfers.
fn mice() -> Vec<Case> {
    let of = |variant| Setting::of("overlay-suite/mice.toml", variant);
    vec![
        Case::new("mice", of(""), &[(0.0, DIRECT)]),
        Case::new("mice-elephants", of("elephants"), &[(0.0, DIRECT)]),
        Case::new("mice-loss", of("loss"), &[(0.0, DIRECT), (30.0, RELAYS), (70.0, DIRECT)]),
        Case::new("mice-dies", of("dies"), &[(0.0, DIRECT), (30.0, RELAYS), (70.0, DIRECT)]),
    ]
}

/// Members without traffic, or a minute after it.
fn idle() -> Vec<Case> {
    let of = |name, file, variant, from_s| Case::new(name, Setting::of(file, variant), &[]).control_from(from_s);
    vec![
        of("idle-pair", "overlay-suite/diamond.toml", "idle-pair", 70.0),
        of("idle", "overlay-suite/diamond.toml", "idle", 70.0),
        of("idle-after", "overlay-suite/diamond.toml", "idle-after", 101.0),
        of("idle-fast", "overlay-suite/bridges.toml", "idle", 70.0),
        of("idle-mesh", "overlay-suite/mesh.toml", "idle", 70.0),
        of("idle-star", "overlay-suite/star.toml", "idle", 70.0),
    ]
}

/// All scenarios.
pub(crate) fn all() -> Vec<Case> {
    [safire(), diamond(), bridges(), mice(), members(), idle()].concat()
}
