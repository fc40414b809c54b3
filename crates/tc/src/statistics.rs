use units::Bytes;

use crate::attribute::{self, u32_at, u64_at};
use crate::object::Statistics;

/// Attributes of TCA_STATS2 (linux/gen_stats.h): bytes and packets, the queue, packets with 64 bits.
const BASIC: u16 = 1;
const QUEUE: u16 = 3;
const PACKETS: u16 = 8;

/// Reads what an object counted: TCA_STATS2, and for a class of HTB TCA_XSTATS (struct tc_htb_xstats). What is absent is zero:
/// filters count nothing.
pub(crate) fn read(counters: Option<&[u8]>, htb: Option<&[u8]>) -> Statistics {
    let mut read = Statistics::default();
    for attribute in counters.and_then(attribute::read).unwrap_or_default() {
        let word = |n: usize| u64::from(u32_at(attribute.value, 4 * n).unwrap_or(0));
        match attribute.kind {
            BASIC => {
                read.bytes = Bytes::new(u64_at(attribute.value, 0).unwrap_or(0));
                // Counts that need more than 32 bits follow in an attribute of their own.
                read.packets = read.packets.max(word(2));
            }
            PACKETS => read.packets = u64_at(attribute.value, 0).unwrap_or(0),
            QUEUE => {
                read.backlog_packets = word(0);
                read.backlog = Bytes::new(word(1));
                (read.drops, read.requeues, read.overlimits) = (word(2), word(3), word(4));
            }
            _ => {}
        }
    }
    if let Some(htb) = htb {
        let word = |n: usize| u64::from(u32_at(htb, 4 * n).unwrap_or(0));
        (read.lends, read.borrows, read.giants) = (word(0), word(1), word(2));
    }
    read
}
