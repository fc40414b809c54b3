use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use congestion::{Algorithm, Settings};
use libbpf_rs::query::ProgInfoIter;
use socket2::SockRef;
use testbed::or_skip;

use crate::congestion::{CongestionError, list, load, unload};

/// A directory of the BPF file system for one test; dropping it unloads its congestion controls.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Option<Self> {
        or_skip(kernel::new_namespace())?;
        Some(Self(PathBuf::from(format!("/sys/fs/bpf/longhaul-test-{}-{name}", std::process::id()))))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        for loaded in list(&self.0).unwrap_or_default() {
            let _ = unload(&self.0, &loaded.name);
        }
    }
}

fn available() -> String {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap()
}

fn has(name: &str) -> bool {
    available().split_whitespace().any(|n| n == name)
}

/// Ids of FAST's programs in the kernel's list.
fn programs_of_fast() -> BTreeSet<u32> {
    ProgInfoIter::default().filter(|p| p.name.as_encoded_bytes().starts_with(b"fast_")).map(|p| p.id).collect()
}

#[test]
fn a_loaded_control_is_selectable_until_unloaded_and_connections_keep_it() {
    let Some(directory) = Directory::new("chosen") else { return };
    let mut settings = Settings::of(Algorithm::Fast);
    settings.set("alpha", "200").unwrap();
    let others = programs_of_fast();
    load(&directory.0, "fast_t1", &settings).unwrap();
    assert!(has("fast_t1"));
    let own: BTreeSet<u32> = programs_of_fast().difference(&others).copied().collect();
    assert!(!own.is_empty());
    let listed = list(&directory.0).unwrap();
    assert_eq!((listed[0].name.as_str(), listed[0].settings), ("fast_t1", Some(settings)), "the state in the kernel");
    let again = load(&directory.0, "fast_t1", &settings).unwrap_err();
    assert!(matches!(again, CongestionError::Loaded { .. }), "{again}");

    assert_eq!(listed[0].users, 0);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    SockRef::from(&stream).set_tcp_congestion(b"fast_t1").unwrap();
    let (mut far, _) = listener.accept().unwrap();
    let reader = thread::spawn(move || io::copy(&mut far, &mut io::sink()).unwrap());
    (&stream).write_all(&[1; 1_000_000]).unwrap();
    assert!(list(&directory.0).unwrap()[0].users >= 1);
    unload(&directory.0, "fast_t1").unwrap();
    assert!(!has("fast_t1") && !directory.0.exists(), "no pin remains");
    assert_eq!(SockRef::from(&stream).tcp_congestion().unwrap().split(|b| *b == 0).next().unwrap(), b"fast_t1");
    let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    assert!(SockRef::from(&other).set_tcp_congestion(b"fast_t1").is_err());
    let error = unload(&directory.0, "fast_t1").unwrap_err();
    assert!(matches!(error, CongestionError::NotLoaded { .. }), "{error}");

    (&stream).write_all(&[2; 1_000_000]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(reader.join().unwrap(), 2_000_000, "existing connections continue");
    drop(stream);
    let start = Instant::now();
    // The kernel frees the programs one grace period after the last connection ends.
    while !programs_of_fast().is_disjoint(&own) {
        assert!(start.elapsed() < Duration::from_secs(30), "programs remain");
        kernel::sleep_for(Duration::from_millis(10));
    }
}

#[test]
fn foreign_names_are_refused() {
    let Some(directory) = Directory::new("names") else { return };
    let Some(other) = Directory::new("others") else { return };
    let settings = Settings::of(Algorithm::Htcp);
    load(&other.0, "htcp_t2", &settings).unwrap();
    let taken = load(&directory.0, "htcp_t2", &settings).unwrap_err();
    assert!(matches!(taken, CongestionError::Taken { .. }), "{taken}");
    assert!(list(&directory.0).unwrap().is_empty() && !directory.0.join("htcp_t2").exists(), "no pin remains");
    for (name, reason) in [
        ("cubic", "fast or htcp"),
        ("fast_of_a_long_name", "15 characters"),
        ("fast/../x", "letters, digits"),
        ("fast-a200", "letters, digits"),
    ] {
        let error = load(&directory.0, name, &settings).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    assert!(has("htcp_t2"));
}
