//! The receive window: fixed, or grown with the data that the application reads.

/// The window grows to twice the bytes of a round trip (tcp_rcv_space_adjust).
const GROWTH: u64 = 2;

/// Receive window with dynamic right-sizing (tcp_rcv_space_adjust).
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceiveWindow {
    bytes: u64,
    maximum: u64,
    /// Round trip as the receiver sees it: it ends when a whole window has arrived (tcp_rcv_rtt_measure).
    round_start: u64,
    round_end: u64,
}

impl ReceiveWindow {
    pub(crate) fn new(bytes: u64, maximum: u64) -> Self {
        Self { bytes, maximum: maximum.max(bytes), round_start: 0, round_end: bytes }
    }

    /// First byte beyond the window, when all bytes before `next` are read.
    pub(crate) const fn end(&self, next: u64) -> u64 {
        next.saturating_add(self.bytes)
    }

    /// Handles in-order data up to `next`. Each segment also raises the window by two segments at most
    /// (tcp_grow_window), which lets it follow slow start.
    pub(crate) fn advance(&mut self, next: u64, segments: u64, mss: u64) {
        if self.bytes >= self.maximum {
            return;
        }
        self.bytes = (self.bytes + GROWTH * segments * mss).min(self.maximum);
        if next >= self.round_end {
            let read = next - self.round_start;
            self.bytes = self.bytes.max(GROWTH * read).min(self.maximum);
            (self.round_start, self.round_end) = (next, next + self.bytes);
        }
    }
}
