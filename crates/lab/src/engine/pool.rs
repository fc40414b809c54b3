use kernel::LARGEST_PACKET;

/// Packets of at most this many bytes get a buffer of their own size: a long link holds very many of them.
const SMALL: usize = 32 << 10;

/// Large buffers that are kept for reuse: what 10 ms at 16 Gb/s hold, 20 MB. What a link holds comes and goes with TCP's
/// bursts, and a new buffer costs the clearing of 64 KiB.
const KEPT: usize = 320;

/// Buffers for packets, reused from the top: the last one given back is still in the cache.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: Vec<Box<[u8]>>,
}

impl Pool {
    /// A buffer that holds any packet.
    pub(crate) fn large(&mut self) -> Box<[u8]> {
        self.free.pop().unwrap_or_else(|| vec![0; LARGEST_PACKET].into_boxed_slice())
    }

    /// The buffer in which a packet of `length` bytes, just read into `large`, stays: a smaller one where that saves much.
    pub(crate) fn settle(&mut self, large: Box<[u8]>, length: usize) -> Box<[u8]> {
        match large.get(..length) {
            Some(bytes) if length <= SMALL => {
                let own = Box::from(bytes);
                self.give(large);
                own
            }
            _ => large,
        }
    }

    /// Takes a buffer back.
    pub(crate) fn give(&mut self, buffer: Box<[u8]>) {
        if buffer.len() == LARGEST_PACKET && self.free.len() < KEPT {
            self.free.push(buffer);
        }
    }
}
