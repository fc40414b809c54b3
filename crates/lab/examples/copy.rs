//! spike: bare TUN-to-TUN copy
use kernel::*;
use std::io::IoSlice;
use std::sync::Arc;
use testbed::Namespace;
fn main() {
    let mode = std::env::args().nth(1).unwrap_or("1".into());
    let a = Namespace::new().unwrap();
    let b = Namespace::new().unwrap();
    let mk = |ns: &Namespace, ip: &str, peer: &str| {
        let t = ns.run(|| Tun::new("l0", TunKind::Tun, true).unwrap()).unwrap();
        ns.iproute(&format!(
            "ip link set l0 mtu {} txqueuelen 10000 up",
            std::env::var("MTU").unwrap_or("9000".into())
        ))
        .unwrap();
        ns.set("net/ipv4/tcp_rmem", "4096 131072 134217728").unwrap();
        ns.set("net/ipv4/tcp_wmem", "4096 65536 134217728").unwrap();
        ns.iproute(&format!("ip addr add {ip} peer {peer} dev l0")).unwrap();
        t
    };
    let ta = Arc::new(mk(&a, "10.0.0.1", "10.0.0.2"));
    let tb = Arc::new(mk(&b, "10.0.0.2", "10.0.0.1"));
    println!("{:?}", ta.offloads());
    let copy = |dirs: Vec<(Arc<Tun>, Arc<Tun>)>| {
        move || {
            tight_timers();
            let mut p = Poller::new().unwrap();
            for (i, d) in dirs.iter().enumerate() {
                p.add(std::os::fd::AsFd::as_fd(&*d.0), i as u64).unwrap();
            }
            let mut buf = vec![0u8; LARGEST_PACKET];
            let mut ready = Vec::new();
            let mut n = 0u64;
            let mut bytes = 0u64;
            let mut sleeps = 0u64;
            let start = now();
            let mut last = now();
            loop {
                ready.clear();
                p.wait(Some(std::time::Duration::from_millis(500)), &mut ready).unwrap();
                sleeps += 1;
                for &i in &ready {
                    let d = &dirs[i as usize];
                    for _ in 0..64 {
                        match d.0.receive(&mut buf).unwrap() {
                            Some(k) => {
                                n += 1;
                                bytes += k as u64;
                                let _ = d.1.send(&[IoSlice::new(&buf[..k])]);
                            }
                            None => break,
                        }
                    }
                }
                if now().nanos_since(last) > 2_000_000_000 {
                    last = now();
                    eprintln!(
                        "packets {n} mean {} sleeps {sleeps} cpu {:?} of {:?}",
                        bytes / n.max(1),
                        thread_cpu(),
                        now().saturating_since(start)
                    );
                }
            }
        }
    };
    if mode.starts_with('e') {
        use lab::engine::*;
        use link::*;
        let (ta, tb) = (Arc::into_inner(ta).unwrap(), Arc::into_inner(tb).unwrap());
        let get = |k: &str| std::env::var(k).ok();
        let st = Settings {
            delay: std::time::Duration::from_micros(get("DELAY_US").map_or(10_000, |v| v.parse().unwrap())),
            queue: Queue { limit: QueueLimit::Unlimited, discipline: Discipline::TailDrop },
            capacity: get("RATE").map_or(Capacity::Unlimited, |r| Capacity::Constant(r.parse().unwrap())),
            ..Settings::default()
        };
        let w = |p| WirePlan { settings: st.clone(), seed: 1, exit: Exit::Port(p), tap: None };
        let plan = Plan {
            ports: vec![PortPlan { tun: ta, wire: 0 }, PortPlan { tun: tb, wire: 1 }],
            wires: vec![w(1), w(0)],
            interval: std::time::Duration::from_secs(1),
            memory: 4 << 30,
            ..Plan::default()
        };
        let e = Engine::start(plan, 1).unwrap();
        e.begin(now());
        let mut srv = b
            .start(std::process::Command::new("iperf3").args(["-s", "-1"]).stdout(std::process::Stdio::null()))
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        let extra: Vec<String> = std::env::args().skip(2).collect();
        let mut cli = a
            .start(
                std::process::Command::new("iperf3")
                    .args(["-c", "10.0.0.2", "-t", "5", "-C", "cubic", "-f", "m"])
                    .args(&extra),
            )
            .unwrap();
        cli.wait().unwrap();
        srv.wait().unwrap();
        for r in e.stop().unwrap() {
            let mut l = r.wires[0].lateness.clone();
            l.sort();
            let mut u = r.uncertainty.clone();
            u.sort();
            let q = |v: &Vec<u32>, p: f64| v.get((v.len() as f64 * p) as usize).copied().unwrap_or(0) / 1000;
            println!(
                "{:?} cpu {:?} off {:?} late us p50 {} p99 {} max {}  unc p50 {} p99 {}",
                r.end,
                r.cpu,
                r.wires[0].tally.offered,
                q(&l, 0.5),
                q(&l, 0.99),
                l.last().copied().unwrap_or(0) / 1000,
                q(&u, 0.5),
                q(&u, 0.99)
            );
        }
        return;
    }
    let d1 = (ta.clone(), tb.clone());
    let d2 = (tb.clone(), ta.clone());
    if mode == "1" {
        std::thread::spawn(copy(vec![d1, d2]));
    } else {
        std::thread::spawn(copy(vec![d1]));
        std::thread::spawn(copy(vec![d2]));
    }
    let mut srv =
        b.start(std::process::Command::new("iperf3").args(["-s", "-1"]).stdout(std::process::Stdio::null())).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let extra: Vec<String> = std::env::args().skip(2).collect();
    let mut cli = a
        .start(
            std::process::Command::new("iperf3")
                .args(["-c", "10.0.0.2", "-t", "5", "-C", "cubic", "-f", "m"])
                .args(&extra),
        )
        .unwrap();
    cli.wait().unwrap();
    srv.wait().unwrap();
}
