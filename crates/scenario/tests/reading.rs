//! Each key of an experiment file means what the reference says.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{ms, problems, read, read_with, set};
use estimate::probe::MethodName;
use link::{Capacity, Discipline, Jitter, JitterShape, Loss, Overhead, Queue, QueueLimit, Reorder, Settings, Trace};
use scenario::{Extent, Medium, Metric, Model, Options, Scenario, Transport, describe};
use units::{Bytes, Rate};

/// Two nodes, one link, one flow; the link's other keys are added.
fn path(keys: &str) -> String {
    format!(
        "duration = \"60s\"\nnodes = [\"a\", \"b\"]\n[flows.f]\nfrom = \"a\"\nto = \"b\"\n[links.path]\nbetween = [\"a\", \"b\"]\n{keys}\n"
    )
}

fn forward(keys: &str) -> Settings {
    read(&path(keys)).links[0].forward.clone()
}

#[test]
fn a_link_without_keys_is_a_wire() {
    let s = read(&path(""));
    assert_eq!((&s.links[0].forward, &s.links[0].backward), (&Settings::default(), &Settings::default()));
    assert_eq!((s.links[0].mtu, s.links[0].between, s.repeat, s.seed), (1500, [0, 1], 1, 1));
    assert_eq!(s.name, "x");
    assert_eq!(s.record.interval, Duration::from_secs(1));
    assert_eq!((s.validity.lateness_p99, s.record.snap), (None, 128));
}

#[test]
fn every_key_of_a_link_reaches_its_settings() {
    let s = forward(
        "rate = \"1Gb/s\"\noverhead = \"ip\"\ndelay = \"93.5ms\"\njitter = { amount = \"2ms\", shape = \"normal\", reorder = true }
         queue = { limit = \"24MB\", discipline = \"codel\", target = \"10ms\" }\nloss = \"0.1%\"\nloss_list = [101, 100, 101]
         duplicate = 0.5\nreorder = { probability = 0.01, by = \"5ms\" }\nmtu = 9000\nup = false\nforward = { mtu = 1400 }",
    );
    let codel = Discipline::CoDel { target: ms(10), interval: ms(100) };
    let expected = Settings {
        capacity: Capacity::Constant(Rate::from_bps(1_000_000_000)),
        overhead: Overhead::IP,
        delay: Duration::from_micros(93_500),
        jitter: Jitter { amount: ms(2), shape: JitterShape::Normal, reorders: true },
        queue: Queue { limit: QueueLimit::Bytes(Bytes::new(24_000_000)), discipline: codel },
        loss: Loss::Independent(0.001),
        loss_list: [100, 101].into(),
        duplicate: 0.5,
        reorder: Reorder { probability: 0.01, by: ms(5) },
        mtu: Some(1400),
        up: false,
    };
    assert_eq!(s, expected);
}

#[test]
fn a_queue_is_read_by_its_unit() {
    let limit = |text: &str| forward(&format!("rate = \"100Mb/s\"\ndelay = \"30ms\"\nqueue = \"{text}\"")).queue.limit;
    assert_eq!(limit("1000 packets"), QueueLimit::Packets(1000));
    assert_eq!(limit("64KiB"), QueueLimit::Bytes(Bytes::new(65_536)));
    assert_eq!(limit("50ms"), QueueLimit::Time(ms(50)));
    assert_eq!(limit("unlimited"), QueueLimit::Unlimited);
    // 100 Mb/s x 60 ms / 8 = 750 kB.
    assert_eq!(limit("1 bdp"), QueueLimit::Bytes(Bytes::new(750_000)));
    assert_eq!(limit("0.1 bdp"), QueueLimit::Bytes(Bytes::new(75_000)));
}

#[test]
fn a_bandwidth_delay_product_uses_the_delays_of_both_directions_and_the_rate_of_one() {
    let s = read(&path(
        "queue = \"1 bdp\"\nrate = \"8Mb/s\"\ndelay = \"10ms\"\nbackward = { delay = \"30ms\", rate = \"1Mb/s\" }",
    ));
    assert_eq!(s.links[0].forward.queue.limit, QueueLimit::Bytes(Bytes::new(40_000)));
    assert_eq!(s.links[0].backward.queue.limit, QueueLimit::Bytes(Bytes::new(5_000)));
}

#[test]
fn the_other_forms_of_loss_overhead_and_jitter() {
    let bursts = Loss::GilbertElliott { to_bad: 0.01, to_good: 0.2, loss_bad: 1.0, loss_good: 0.0 };
    assert_eq!(forward("loss = { to_bad = 0.01, to_good = \"20%\" }").loss, bursts);
    assert_eq!(forward("loss = 0").loss, Loss::None);
    assert_eq!(forward("overhead = 24").overhead, Overhead { per_packet: 24, minimum: 0 });
    assert_eq!(forward("overhead = \"ethernet-frame\"").overhead, Overhead::ETHERNET_FRAME);
    assert_eq!(forward("jitter = \"2ms\"").jitter, Jitter { amount: ms(2), ..Jitter::default() });
    assert_eq!(forward("rate = \"unlimited\"").capacity, Capacity::Unlimited);
}

#[test]
fn a_direction_overrides_its_link_and_a_link_overrides_the_defaults() {
    let s = read(
        "duration = \"1s\"\nnodes = [\"a\", \"b\", \"c\"]\n[defaults]\nmtu = 9000\ndelay = \"5ms\"\njitter = { amount = \"1ms\", shape = \"normal\" }
         [links.one]\nbetween = [\"a\", \"b\"]\n[links.two]\nbetween = [\"b\", \"c\"]\ndelay = \"7ms\"\nmtu = 1500\njitter = \"2ms\"\nbackward = { delay = \"9ms\" }
         [lans.lan]\nmembers = [\"a\", \"c\"]\nrate = \"10Mb/s\"\nloss = 0.1",
    );
    let delays: Vec<_> = s.links.iter().map(|l| (l.mtu, l.forward.delay, l.backward.delay)).collect();
    assert_eq!(delays, [(9000, ms(5), ms(5)), (1500, ms(7), ms(9))]);
    assert_eq!(s.links[1].forward.jitter, Jitter { amount: ms(2), shape: JitterShape::Normal, reorders: false });
    let lan = &s.lans[0];
    assert_eq!(
        (lan.up.delay, lan.down.delay, lan.up.loss, lan.down.loss),
        (ms(0), ms(5), Loss::None, Loss::Independent(0.1))
    );
    assert_eq!((&lan.up.capacity, &lan.members), (&lan.down.capacity, &vec![0, 2]));
}

#[test]
fn nodes_carry_their_sysctls_as_text() {
    let s = read(
        "duration = \"1s\"\n[nodes.a]\nsysctl = { \"net.ipv4.tcp_rmem\" = \"4096 131072 67108864\", \"net.ipv4.tcp_sack\" = true, \"net.core.x\" = 5 }\n[nodes.b]",
    );
    let sysctl: Vec<_> = s.nodes[0].sysctl.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(
        sysctl,
        [("net.core.x", "5"), ("net.ipv4.tcp_rmem", "4096 131072 67108864"), ("net.ipv4.tcp_sack", "1")]
    );
}

#[test]
fn a_flow_without_an_end_lasts_until_the_end_of_the_run() {
    let s = read(
        &(path("")
            + "[flows.g]\nfrom = \"b\"\nto = \"a\"\nstart = \"10s\"\n[flows.h]\nfrom = \"a\"\nto = \"b\"\nstart = \"10s\"\nstop = \"25s\"\n[flows.i]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1GB\""),
    );
    let extents: Vec<_> = s.flows.iter().map(|f| (f.start, f.extent)).collect();
    let seconds = Duration::from_secs;
    assert_eq!(
        extents[..3],
        [
            (ms(0), Extent::Duration(seconds(60))),
            (ms(10_000), Extent::Duration(seconds(50))),
            (ms(10_000), Extent::Duration(seconds(15))),
        ]
    );
    assert_eq!(extents[3].1, Extent::Bytes(Bytes::new(1_000_000_000)));
    assert_eq!(s.flows[0].congestion_control.as_deref(), Some("cubic"));
}

#[test]
fn a_run_without_a_duration_ends_with_its_last_flow() {
    let text = path("").replace("duration = \"60s\"\n", "")
        + "[flows.g]\nfrom = \"b\"\nto = \"a\"\nduration = \"20s\"\nstart = \"5s\"\n";
    let ended = text.replace("[flows.f]\n", "[flows.f]\nduration = \"10s\"\n");
    assert_eq!(read(&ended).duration, Duration::from_secs(25));
    assert!(problems(&text, &Options::default()).contains("x.toml: duration: is missing"), "one flow has no end");
}

#[test]
fn every_key_of_traffic_reaches_its_field() {
    let s = read(
        &(path("")
            + "[flows.t]\nfrom = \"a\"\nto = \"b\"\ncongestion_control = \"reno\"\nwindow = \"32MB\"\npacing = \"200Mb/s\"\nstreams = 4\nmss = 8948\nblock = \"64KiB\"\ndscp = 46\nipv6 = true
               [flows.u]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"udp\"\nrate = \"10Mb/s\"\narrivals = \"poisson\"\nblock = \"1200B\"
               [mice.m]\nfrom = \"b\"\nto = \"a\"\nbytes = \"100kB\"\nevery = \"200ms\"\nstart = \"1s\"
               [programs.p]\nnode = \"b\"\ncommand = \"sleep 1; echo $HOME\"\nstart = \"10s\"\nenv = { A = \"b\", N = 3 }
               [estimates.e]\nfrom = \"b\"\nto = \"a\"\nmethods = [\"adr\", \"auto loss\"]\nbudget = \"41kB\"\ntime = \"2s\"\nstart = \"3s\"\nreverse = true
               [programs.q]\nnode = \"a\"\ncommand = [\"iperf3\", \"-s\"]
               [record]\ninterval = \"100ms\"\npcapng = [\"path\"]\nsnap = \"all\"\n[validity]\nlateness_p99 = \"1ms\""),
    );
    let t = &s.flows[1];
    assert_eq!(
        (t.congestion_control.as_deref(), t.streams, t.mss, t.dscp, t.ipv6),
        (Some("reno"), 4, Some(8948), Some(46), true)
    );
    assert_eq!(
        (t.window, t.rate, t.block),
        (Some(Bytes::new(32_000_000)), Some(Rate::from_bps(200_000_000)), Some(Bytes::new(65_536)))
    );
    let u = &s.flows[2];
    assert_eq!(
        (u.transport, &u.congestion_control, u.rate),
        (Transport::UdpPoisson, &None, Some(Rate::from_bps(10_000_000)))
    );
    let m = &s.mice[0];
    assert_eq!(
        (m.from, m.to, m.bytes, m.every, m.poisson),
        (1, 0, scenario::Sizes::Fixed(Bytes::new(100_000)), ms(200), true)
    );
    assert_eq!((m.start, m.stop), (ms(1000), Duration::from_secs(60)));
    let e = &s.estimates[0];
    assert_eq!(e.methods, [MethodName::Adr, MethodName::Auto, MethodName::Loss]);
    assert_eq!((e.from, e.to, e.budget, e.time, e.reverse), (1, 0, Some(Bytes::new(41_000)), Some(ms(2000)), true));
    assert_eq!((e.start, e.stop), (ms(3000), Duration::from_secs(60)));
    assert_eq!(s.programs[0].command, ["/bin/sh", "-c", "sleep 1; echo $HOME"]);
    assert_eq!((s.programs[0].start, s.programs[1].start), (Some(ms(10_000)), None));
    assert_eq!(s.programs[0].env.get("N").map(String::as_str), Some("3"));
    assert_eq!((s.record.interval, s.record.pcapng.as_slice(), s.record.snap), (ms(100), &[0][..], 65_535));
    assert_eq!(s.validity.lateness_p99, Some(ms(1)));
}

#[test]
fn the_flows_of_a_group_start_one_after_the_other() {
    let text = path("") + "[flows.elephant]\nfrom = \"a\"\nto = \"b\"\nstart = \"5s\"\ncount = 3\nevery = \"2s\"\n";
    let group = |more: &str| {
        let flows = read(&format!("{text}{more}")).flows.split_off(1);
        flows.into_iter().map(|f| (f.name, f.start, f.extent)).collect::<Vec<_>>()
    };
    let flow = |n: u64, extent| (format!("elephant-{n}"), ms(3000 + 2000 * n), extent);
    let lasting = Extent::Duration(ms(30_000));
    assert_eq!(group("duration = \"30s\""), [flow(1, lasting), flow(2, lasting), flow(3, lasting)]);
    // Flows that end together, or with the run, get shorter and shorter.
    let until = |end: u64| (1..4).map(|n| flow(n, Extent::Duration(ms(end - 3000 - 2000 * n)))).collect::<Vec<_>>();
    assert_eq!((group("stop = \"30s\""), group("")), (until(30_000), until(60_000)));
    assert_eq!(group("bytes = \"1MB\"")[2], flow(3, Extent::Bytes(Bytes::new(1_000_000))));
    // All at once.
    assert_eq!(read(&text.replace("every = \"2s\"", "")).flows[3].start, ms(5000));
}

#[test]
fn mice_use_a_share_of_the_slowest_link_or_of_a_named_one() {
    let text = "duration = \"60s\"\nnodes = [\"a\", \"b\", \"c\"]\n[links.fast]\nbetween = [\"a\", \"b\"]\nrate = \"80Mb/s\"\n\
                backward.rate = \"1Mb/s\"\n[links.slow]\nbetween = [\"b\", \"c\"]\nrate = \"40Mb/s\"\n[mice.m]\nfrom = \"a\"\nto = \"c\"\n";
    let every = |more: &str| read(&format!("{text}{more}")).mice[0].every;
    // 100 kB are 0.8 Mbit: at 20 % of 40 Mb/s ten a second.
    assert_eq!(every("bytes = \"100kB\"\nload = 0.2"), ms(100));
    assert_eq!(every("bytes = \"100kB\"\nload = \"20%\"\nof = \"fast\""), ms(50));
    // Sizes of 86 250 B / 0.7 on average.
    let web = every("bytes = { distribution = \"web-search\", most = \"1MB\" }\nload = 0.2");
    assert!((web.as_secs_f64() - 86_250.0 / 0.7 * 8.0 / 8e6).abs() < 1e-8, "{web:?}");
}

#[test]
fn published_values_are_kept_and_a_variant_may_have_its_own() {
    let text = path("")
        + "[[published]]\nmetric = \"flow.f.packets\"\nvalue = 80265\nsource = \"table 3.1\"\n\
           [variants.half]\npublished = [{ metric = \"run.packets\", value = 1277522, source = \"table 3.1, row 2\" }]\n";
    let values = |variant: Option<&str>| {
        let options = Options { variant: variant.map(str::to_owned), ..Options::default() };
        let scenario = read_with(&text, &options).unwrap_or_else(|e| panic!("{e}")).scenarios.remove(0);
        assert_eq!(scenario.variant.as_deref(), variant);
        scenario.published.into_iter().map(|p| (p.metric, p.value, p.source)).collect::<Vec<_>>()
    };
    assert_eq!(values(None), [("flow.f.packets".to_owned(), 80_265.0, "table 3.1".to_owned())]);
    assert_eq!(values(Some("half")), [("run.packets".to_owned(), 1_277_522.0, "table 3.1, row 2".to_owned())]);
}

#[test]
fn a_sweep_makes_every_combination_and_the_first_key_varies_slowest() {
    let text = path("")
        + "[[sweep]]\nkey = \"links.path.loss\"\nvalues = [1e-5, 1e-4]\n[[sweep]]\nkey = \"flows.f.congestion_control\"\nvalues = [\"reno\", \"cubic\"]
           [plot]\nx = \"links.path.loss\"\ny = \"throughput\"\nseries = \"flows.f.congestion_control\"\nlog = true\nmodels = [\"mathis\"]";
    let scenarios = read_with(&text, &Options::default()).unwrap().scenarios;
    let points: Vec<Vec<&str>> = scenarios.iter().map(|s| s.point.iter().map(|(_, v)| v.as_str()).collect()).collect();
    assert_eq!(points, [["1e-5", "reno"], ["1e-5", "cubic"], ["1e-4", "reno"], ["1e-4", "cubic"]]);
    assert_eq!(scenarios[2].links[0].backward.loss, Loss::Independent(1e-4));
    assert_eq!(scenarios[2].flows[0].congestion_control.as_deref(), Some("reno"));
    let plot = scenarios[0].plot.as_ref().unwrap();
    assert_eq!(
        (plot.x.as_str(), plot.y, plot.log, plot.models.as_slice()),
        ("links.path.loss", Metric::Throughput, true, &[Model::Mathis][..])
    );
}

#[test]
fn a_swept_parameter_names_its_points_by_its_value() {
    let text = path("rate = \"1Mb/s * $mbps\"")
        + "[parameters]\nmbps = 1\n[[sweep]]\nkey = \"parameters.mbps\"\nvalues = [10, 20]\n";
    let scenarios = read_with(&text, &Options::default()).unwrap().scenarios;
    let points: Vec<_> = scenarios.iter().map(|s| (s.point.clone(), s.links[0].forward.capacity.clone())).collect();
    let point = |mbps: u64| {
        let named = vec![("parameters.mbps".to_owned(), mbps.to_string())];
        (named, Capacity::Constant(Rate::from_bps(mbps * 1_000_000)))
    };
    assert_eq!(points, [point(10), point(20)]);
}

#[test]
fn parameters_stand_for_values_and_scale_quantities() {
    let text = path(
        "rate = \"1Gb/s * $scale\"\ndelay = \"$delay\"\nloss = \"$loss\"\nqueue = \"1000 packets / $slower * $scale\"",
    ) + "[parameters]\nscale = 0.1\ndelay = \"12ms\"\nloss = 0.25\nslower = 4\n[programs.p]\nnode = \"a\"\ncommand = [\"echo\", \"$$scale\", \"$loss\", \"a * b\"]";
    let s = read(&text);
    let f = &s.links[0].forward;
    assert_eq!(
        (&f.capacity, f.delay, f.loss),
        (&Capacity::Constant(Rate::from_bps(100_000_000)), ms(12), Loss::Independent(0.25))
    );
    assert_eq!(f.queue.limit, QueueLimit::Packets(25));
    assert_eq!(s.programs[0].command, ["echo", "$scale", "0.25", "a * b"]);
    let faster = read_with(&text, &set(&[("parameters.scale", "0.2")])).unwrap();
    assert_eq!(faster.scenarios[0].links[0].forward.capacity, Capacity::Constant(Rate::from_bps(200_000_000)));
}

#[test]
fn overrides_come_after_the_variant_and_take_toml_or_bare_text() {
    let text = path("rate = \"1Gb/s\"\ndelay = \"5ms\"")
        + "[[schedule]]\nat = \"5s\"\nlink = \"path\"\nloss = 0.5\n[variants.short]\nduration = \"8s\"\n\"links.path.rate\" = \"5Mb/s\"\nlinks.path.delay = \"7ms\"\n\"schedule.0.at\" = \"1s\"";
    let overrides = set(&[
        ("links.path.rate", "6Mb/s"),
        ("links.path.loss", "0.1%"),
        ("nodes", "['a', 'b', 'c']"),
        ("record.interval", "\"2s\""),
    ]);
    let options = Options { variant: Some("short".to_owned()), repeat: Some(3), ..overrides };
    let s = &read_with(&text, &options).unwrap_or_else(|p| panic!("{p}")).scenarios[0];
    assert_eq!((s.duration, s.repeat, s.nodes.len(), s.record.interval), (ms(8000), 3, 3, ms(2000)));
    let f = &s.links[0].forward;
    assert_eq!(
        (&f.capacity, f.delay, f.loss),
        (&Capacity::Constant(Rate::from_bps(6_000_000)), ms(7), Loss::Independent(0.001))
    );
    assert_eq!(s.schedule[0].at, ms(1000));
    assert_eq!(s.nodes[0].routes[0].over, Medium::Link(0));
}

#[test]
fn a_trace_is_read_once_beside_the_experiment_file_and_drives_every_direction() {
    let requested = std::cell::RefCell::new(Vec::new());
    let file = |path: &Path| {
        requested.borrow_mut().push(path.display().to_string());
        Ok("0\n5\n10\n".to_owned())
    };
    let text = path("trace = \"cell/up.trace\"") + "[[sweep]]\nkey = \"seed\"\nvalues = [1, 2]\n";
    let s = scenario::read(Path::new("lab/x.toml"), &text, &Options::default(), &file).unwrap().scenarios;
    assert_eq!(*requested.borrow(), ["lab/cell/up.trace"]);
    let trace = Capacity::Trace(Arc::new(Trace::parse("0\n5\n10\n").unwrap()));
    assert_eq!((&s[0].links[0].forward.capacity, &s[1].links[0].backward.capacity), (&trace, &trace));
    // Three opportunities of 1504 bytes in 10 ms.
    assert_eq!(describe(&s[0].links[0].forward), "a trace of 3.6096 Mb/s on average, 0 s, queue 1000 packets");
}

#[test]
fn a_problem_in_a_trace_has_its_line() {
    let message = |trace: &str| {
        let file = |_: &Path| Ok(trace.to_owned());
        let text = path("trace = \"up.trace\"");
        scenario::read(Path::new("lab/x.toml"), &text, &Options::default(), &file).unwrap_err().to_string()
    };
    let expected = "lab/up.trace:3: 4 ms comes after 5 ms; the numbers must not decrease; it is the links.path.trace";
    assert_eq!(message("0\n5\n4\n"), expected);
    assert_eq!(message(""), "lab/up.trace: the trace has no delivery opportunity; it is the links.path.trace");
}

#[test]
fn a_load_of_zero_is_left_out() {
    let load = |percent: u32| {
        let flow = "[flows.u]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"udp\"\nrate = \"1Mb/s * $percent\"\n";
        read(&(path("") + &format!("{flow}[parameters]\npercent = {percent}\n")))
    };
    let names = |s: Scenario| s.flows.into_iter().map(|f| f.name).collect::<Vec<_>>();
    assert_eq!(names(load(1)), ["f", "u"]);
    assert_eq!(names(load(0)), ["f"]);
    let without_streams = "[flows.t]\nfrom = \"a\"\nto = \"b\"\nstreams = 0\n";
    assert_eq!(names(read(&(path("") + without_streams))), ["f"]);
}

#[test]
fn methods_are_names_in_a_list_or_a_text() {
    let call = |methods: &str| path("") + &format!("[estimates.e]\nfrom = \"a\"\nto = \"b\"\n{methods}");
    assert_eq!(read(&call("")).estimates[0].methods, [MethodName::Auto]);
    assert_eq!(read(&call("methods = \"all\"")).estimates[0].methods, MethodName::ALL);
    for (methods, message) in [
        ("methods = \"pathlode\"", "`pathlode` is not a method of longhaul estimate"),
        ("methods = []", "names no method"),
        ("methods = \"all all all all all\"", "65 methods are too many; at most 64"),
        ("stop = \"61s\"", "after the end of the run"),
    ] {
        let error = problems(&call(methods), &Options::default());
        assert!(error.contains(message), "{methods}: {error}");
    }
}
