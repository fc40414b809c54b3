#![allow(clippy::wildcard_enum_match_arm, reason = "any other block is a failure")]

use pcap_file::pcapng::{Block, PcapNgReader};

use super::*;
use packet::Packet;

#[test]
fn packets_are_cut_to_the_snap_length_and_keep_their_own() {
    let path = std::env::temp_dir().join(format!("longhaul-capture-{}.pcapng", std::process::id()));
    let names = ["a > b".to_owned(), "b > a".to_owned()];
    let (capture, taps) = Capture::start(&path, &names, false, 64).unwrap();
    let raw: Vec<u8> = [vec![0; kernel::VNET_HEADER], (0..200).collect()].concat();
    let packet = Packet::new(raw.clone().into(), raw.len(), false).unwrap();
    let packet = PacketHandle::train(packet).payload;
    taps[1].offered(Instant::from_nanos(1_000), &packet);
    taps[1].delivered(Instant::from_nanos(2_500), &packet);
    drop(taps);
    assert_eq!(capture.finish().unwrap(), 0);

    let mut reader = PcapNgReader::new(File::open(&path).unwrap()).unwrap();
    let mut packets = Vec::new();
    let mut interfaces = 0;
    while let Some(block) = reader.next_block() {
        let block = block.unwrap();
        if let Block::EnhancedPacket(packet) = block {
            assert_eq!((packet.data.as_ref(), packet.original_len), (&raw[kernel::VNET_HEADER..][..64], 200));
            packets.push((packet.interface_id, packet.timestamp));
        } else {
            interfaces += u32::from(matches!(block, Block::InterfaceDescription(_)));
        }
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(interfaces, 4);
    let [(2, sent), (3, delivered)] = packets.as_slice() else { panic!("{packets:?}") };
    assert_eq!(delivered.saturating_sub(*sent), Duration::from_nanos(1_500));
}
