//! Capture files, read by independent programs.

use std::fs::File;
use std::io::BufReader;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};

use crate::common::lab::turn_of_root;
use crate::common::udp::{Burst, FAR, over_path};
use crate::tcp;

struct Interface {
    name: String,
    packets: u64,
    bytes: u64,
    last: Duration,
}

/// Reads a capture, checking every packet.
fn read(path: &Path) -> Vec<Interface> {
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut reader = PcapNgReader::new(BufReader::new(File::open(path).unwrap())).unwrap();
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(block) => {
                let name = block.options.iter().find_map(|o| match o {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                });
                interfaces.push(Interface { name: name.unwrap(), packets: 0, bytes: 0, last: Duration::ZERO });
            }
            Block::EnhancedPacket(packet) => {
                let interface = &mut interfaces[packet.interface_id as usize];
                interface.packets += 1;
                interface.bytes += u64::from(packet.original_len);
                assert!(packet.timestamp >= interface.last, "{} goes back in time", interface.name);
                interface.last = packet.timestamp;
                check(&packet.data, packet.original_len);
            }
            other => panic!("{other:?}"),
        }
    }
    interfaces
}

/// The IPv4 header's length field and checksum (RFC 791 §3.1).
fn check(data: &[u8], original: u32) {
    assert_eq!(data[0], 0x45);
    assert_eq!(u32::from(u16::from_be_bytes([data[2], data[3]])), original, "a super-packet was not segmented");
    let sum: u32 = data[..20].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "checksum of the IP header");
}

#[test]
fn a_capture_has_all_offered_and_delivered_packets() {
    let Some(turn) = turn_of_root() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("path.pcapng");
    let lab = turn.path(&["--rtt", "4ms", "--set", "forward.loss=0.05", "--pcapng", &file.display().to_string()]);
    let burst = Burst { packets: 2000, gap: Duration::from_micros(200), length: 500 };
    over_path(&lab, burst, Duration::from_millis(300));
    // The capture contains the segments of a super-packet.
    tcp::transfer(lab.node("near"), lab.node("far"), IpAddr::from(FAR), 500_000);
    // The last acknowledgement takes 2 ms: the model counts it as delivered before it arrives.
    kernel::sleep_for(Duration::from_millis(50));
    let ended = lab.end();
    let interfaces = read(&file);
    let (forward, backward) = (ended.forward(), ended.link("path", "far"));
    let expected = [
        ("near > far sent", forward.offered),
        ("near > far delivered", forward.delivered),
        ("far > near sent", backward.offered),
        ("far > near delivered", backward.delivered),
    ];
    for (interface, (name, volume)) in interfaces.iter().zip(expected) {
        assert_eq!(interface.name, name);
        assert_eq!((interface.packets, interface.bytes), (volume.packets, volume.bytes), "{name}");
    }
    assert_eq!(interfaces.len(), 4);
    assert!(forward.offered.packets > 2300, "{forward:?}");
    assert_tshark_reads(&file, interfaces.iter().map(|i| i.packets).sum());
}

/// Checks the capture with Wireshark's reader, if it is installed.
#[allow(clippy::print_stderr, reason = "a skipped check must not look like a passed one")]
fn assert_tshark_reads(file: &Path, packets: u64) {
    let mut tshark = Command::new("tshark");
    // ip.checksum.status: 1 is good (IPv4 preference `check_checksum`).
    tshark.args(["-n", "-o", "ip.check_checksum:TRUE", "-T", "fields", "-e", "ip.checksum.status", "-r"]).arg(file);
    let Ok(output) = tshark.output() else {
        eprintln!("tshark is not installed: only pcap-file has checked the capture");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(shown.lines().count() as u64, packets);
    assert!(shown.lines().all(|status| status.trim() == "1"));
}
