//! Packet captures: one pcapng file per link. For each direction it has one interface for packets that enter and one
//! for packets that leave; a packet only in the first was dropped.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use units::Instant;

use crate::packet_handle::PacketHandle;

/// Maximum number of packets queued for the disk: about 10 ms at 1 Gb/s. Further packets are missing in the file and
/// are counted.
const QUEUE_PACKETS_MAX: usize = 4096;

/// Resolution of the timestamps: 10^-9 s (pcapng, option if_tsresol).
const NANOSECONDS: u8 = 9;

struct Captured {
    interface: u32,
    at: Instant,
    length: u32,
    bytes: Box<[u8]>,
}

/// The input of a capture file for one direction of a link. A separate thread writes the file, so the disk does not
/// delay packets.
#[derive(Debug)]
pub struct Tap {
    packets: SyncSender<Captured>,
    missing: Arc<AtomicU64>,
    /// Interface of the packets that enter; packets that leave have the next one.
    interface: u32,
    snap: usize,
}

/// A capture file that is being written.
#[derive(Debug)]
pub struct Capture {
    thread: JoinHandle<io::Result<()>>,
    missing: Arc<AtomicU64>,
}

impl Capture {
    /// Starts a file for a link with these directions, named as Wireshark is to show them. Returns one tap for each
    /// direction. The file ends when all taps are dropped.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn start(path: &Path, directions: &[String], ethernet: bool, snap: u32) -> io::Result<(Self, Vec<Tap>)> {
        let out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        let mut writer = PcapNgWriter::new(out).map_err(io::Error::other)?;
        for direction in directions {
            for what in ["sent", "delivered"] {
                let block = interface(format!("{direction} {what}"), ethernet, snap);
                writer.write_pcapng_block(block).map_err(io::Error::other)?;
            }
        }
        let (send, packets) = mpsc::sync_channel(QUEUE_PACKETS_MAX);
        let missing = Arc::new(AtomicU64::new(0));
        let taps = (0..directions.len()).map(|d| Tap {
            packets: send.clone(),
            missing: missing.clone(),
            interface: 2 * d as u32,
            snap: snap as usize,
        });
        let taps = taps.collect();
        let thread = std::thread::Builder::new().name("capture".to_owned()).spawn(move || write(writer, &packets))?;
        Ok((Self { thread, missing }, taps))
    }

    /// Waits until the file is complete. Returns the number of packets that are missing because the disk was too slow.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn finish(self) -> io::Result<u64> {
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the capture's thread panicked")))?;
        Ok(self.missing.load(Ordering::Relaxed))
    }
}

impl Tap {
    pub(crate) fn offered(&self, at: Instant, packet: &PacketHandle) {
        self.record(self.interface, at, packet);
    }

    pub(crate) fn delivered(&self, at: Instant, packet: &PacketHandle) {
        self.record(self.interface + 1, at, packet);
    }

    fn record(&self, interface: u32, at: Instant, packet: &PacketHandle) {
        packet.each_segment(|headers, payload| {
            let length = headers.len() + payload.len();
            let mut bytes: Vec<u8> = Vec::with_capacity(length.min(self.snap));
            bytes.extend(headers.iter().chain(payload).take(self.snap));
            let captured =
                Captured { interface, at, length: u32::try_from(length).unwrap_or(u32::MAX), bytes: bytes.into() };
            if self.packets.try_send(captured).is_err() {
                self.missing.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}

fn interface(name: String, ethernet: bool, snap: u32) -> InterfaceDescriptionBlock<'static> {
    InterfaceDescriptionBlock {
        linktype: if ethernet { DataLink::ETHERNET } else { DataLink::RAW },
        snaplen: snap,
        options: vec![
            InterfaceDescriptionOption::IfName(Cow::Owned(name)),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ],
    }
}

fn write(mut out: PcapNgWriter<BufWriter<File>>, packets: &Receiver<Captured>) -> io::Result<()> {
    let origin = origin();
    for packet in packets {
        let block = EnhancedPacketBlock {
            interface_id: packet.interface,
            timestamp: origin.saturating_add(Duration::from_nanos(packet.at.as_nanos())),
            original_len: packet.length,
            data: Cow::Borrowed(&packet.bytes),
            options: Vec::new(),
        };
        out.write_pcapng_block(block).map_err(io::Error::other)?;
    }
    io::Write::flush(out.get_mut())
}

/// The origin of the monotonic clock as a UTC time since 1970, accurate to some microseconds: for timestamps in
/// captures.
fn origin() -> Duration {
    let (seconds, ns) = kernel::utc_seconds();
    Duration::new(seconds, ns).saturating_sub(Duration::from_nanos(kernel::now().as_nanos()))
}

#[cfg(test)]
mod tests;
