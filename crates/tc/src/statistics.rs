use units::Bytes;

use crate::attribute::{self, u32_at, u64_at};
use crate::object::Statistics;

/// Attributes of TCA_STATS2 (linux/gen_stats.h): bytes and packets, the queue, 64-bit packet count.
const BASIC: u16 = 1;
const QUEUE: u16 = 3;
const PACKETS: u16 = 8;

/// Decodes the counters of an object: TCA_STATS2, and TCA_XSTATS (struct tc_htb_xstats) for an HTB class. Absent
/// counters, such as those of filters, are zero.
pub(crate) fn read(counters: Option<&[u8]>, htb: Option<&[u8]>) -> Statistics {
    let mut read = Statistics::default();
    for attribute in counters.and_then(attribute::read).unwrap_or_default() {
        let word = |n: usize| u64::from(u32_at(attribute.value, 4 * n).unwrap_or(0));
        match attribute.kind {
            BASIC => {
                read.bytes = Bytes::new(u64_at(attribute.value, 0).unwrap_or(0));
                // A separate attribute follows for packet counts above 32 bits.
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
