use kernel::LARGEST_PACKET;

/// Maximum size in bytes of packets that get a buffer of their own length, since a long link holds very many packets.
const SMALL_BYTES_MAX: usize = 32 << 10;

/// Maximum number of large buffers kept for reuse: 20 MB, the content of a link for 10 ms at 16 Gb/s. The content of a
/// link varies with TCP's bursts, and a new buffer costs the clearing of 64 KiB.
const FREE_BUFFERS_MAX: usize = 320;

/// Packet buffers, reused last in, first out: the last returned buffer is still in the cache.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: Vec<Box<[u8]>>,
}

impl Pool {
    /// A buffer for a packet of any size.
    pub(crate) fn large(&mut self) -> Box<[u8]> {
        self.free.pop().unwrap_or_else(|| vec![0; LARGEST_PACKET].into_boxed_slice())
    }

    /// The buffer that stores a packet of `length` bytes, just read into `large`: a smaller one if that saves much
    /// memory.
    pub(crate) fn settle(&mut self, large: Box<[u8]>, length: usize) -> Box<[u8]> {
        match large.get(..length) {
            Some(bytes) if length <= SMALL_BYTES_MAX => {
                let own = Box::from(bytes);
                self.give(large);
                own
            }
            _ => large,
        }
    }

    /// Returns a buffer to the pool.
    pub(crate) fn give(&mut self, buffer: Box<[u8]>) {
        if buffer.len() == LARGEST_PACKET && self.free.len() < FREE_BUFFERS_MAX {
            self.free.push(buffer);
        }
    }
}
