//! Random impairments of each packet.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};
use units::nanos;

use crate::{Jitter, JitterShape, Loss, Settings};

/// Completes the key, so that the link's numbers differ from those of anything else that uses the same seed.
const KEY_LABEL: &[u8; 24] = b"longhaul link direction.";
/// Streams of the generator, one for each purpose. Fixed: a seed decides the same in every release.
const LOSS: u64 = 0;
const TRANSITION: u64 = 1;
const DUPLICATE: u64 = 2;
const REORDER: u64 = 3;
const JITTER: u64 = 4;
/// Where the normal distribution is cut, in standard deviations.
const NORMAL_CUT: f64 = 4.0;
/// Where the exponential distribution is cut, in means.
const EXPONENTIAL_CUT: f64 = 20.0;

/// Outcome of a packet that has left the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) end: End,
    /// Arrives twice.
    pub(crate) copied: bool,
    /// Arrives that much later than it would.
    pub(crate) held_ns: u64,
    /// Variation of its propagation delay.
    pub(crate) jitter_ns: i64,
}

/// Whether a packet arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Arrives,
    /// Lost by chance.
    Lost,
    /// Lost by its index.
    Listed,
}

impl Fate {
    /// Nothing happens to it.
    pub(crate) const PLAIN: Self = Self { end: End::Arrives, copied: false, held_ns: 0, jitter_ns: 0 };
}

/// The random draws of one direction.
///
/// The draw for a purpose and a packet is a function of seed, purpose and the packet's index alone: the generator is a
/// counter (ChaCha with 8 rounds), and a purpose that is not in use skips its numbers.
#[derive(Debug)]
pub(crate) struct Chance {
    loss: Stream,
    transition: Stream,
    duplicate: Stream,
    reorder: Stream,
    jitter: Stream,
    /// State of the Gilbert-Elliott chain.
    bad: bool,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        let stream = |purpose| Stream::new(seed, purpose);
        Self {
            loss: stream(LOSS),
            transition: stream(TRANSITION),
            duplicate: stream(DUPLICATE),
            reorder: stream(REORDER),
            jitter: stream(JITTER),
            bad: false,
        }
    }

    /// The Gilbert-Elliott chain starts in the good state.
    pub(crate) const fn begin_chain(&mut self) {
        self.bad = false;
    }

    /// The fate of the packet with this index. To be asked in ascending order, once for each.
    pub(crate) fn fate(&mut self, index: u64, settings: &Settings) -> Fate {
        let lost = self.lost(index, settings.loss);
        let listed = settings.loss_list.binary_search(&index).is_ok();
        let held = self.reorder.happens(index, settings.reorder.probability);
        Fate {
            end: match (listed, lost) {
                (true, _) => End::Listed,
                (false, true) => End::Lost,
                (false, false) => End::Arrives,
            },
            copied: self.duplicate.happens(index, settings.duplicate),
            held_ns: if held { nanos(settings.reorder.by) } else { 0 },
            jitter_ns: self.jitter_ns(index, settings.jitter),
        }
    }

    fn lost(&mut self, index: u64, loss: Loss) -> bool {
        match loss {
            Loss::None => false,
            Loss::Independent(p) => self.loss.happens(index, p),
            Loss::GilbertElliott { to_bad, to_good, loss_bad, loss_good } => {
                let leave = if self.bad { to_good } else { to_bad };
                self.bad ^= self.transition.happens(index, leave);
                self.loss.happens(index, if self.bad { loss_bad } else { loss_good })
            }
        }
    }

    fn jitter_ns(&mut self, index: u64, jitter: Jitter) -> i64 {
        if jitter.amount.is_zero() {
            return 0;
        }
        let word = self.jitter.word(index);
        let factor = match jitter.shape {
            JitterShape::Uniform => 2.0 * unit(word) - 1.0,
            JitterShape::Normal => normal(word).clamp(-NORMAL_CUT, NORMAL_CUT),
            JitterShape::Exponential => (-(1.0 - unit(word)).ln()).min(EXPONENTIAL_CUT),
        };
        (nanos(jitter.amount) as f64 * factor).round() as i64
    }
}

/// Whether these settings use random numbers at all.
pub(crate) fn impairs(settings: &Settings) -> bool {
    settings.loss != Loss::None
        || !settings.loss_list.is_empty()
        || settings.duplicate > 0.0
        || settings.reorder.probability > 0.0
        || !settings.jitter.amount.is_zero()
}

/// Evenly distributed over [0, 1), with the 53 bits that a double holds.
fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / (1u64 << 53) as f64
}

/// Standard normal variate from one 64-bit value (Box and Muller 1958). 32 bits a half reach 6.7 standard deviations.
fn normal(word: u64) -> f64 {
    let half = (1u64 << 32) as f64;
    let radius = ((word >> 32) as f64 + 1.0) / half;
    let angle = (word & 0xffff_ffff) as f64 / half;
    (-2.0 * radius.ln()).sqrt() * (core::f64::consts::TAU * angle).cos()
}

/// One number for each index.
#[derive(Debug)]
struct Stream {
    rng: ChaCha8Rng,
    next: u64,
}

impl Stream {
    fn new(seed: u64, purpose: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..].copy_from_slice(KEY_LABEL);
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(purpose);
        Self { rng, next: 0 }
    }

    fn word(&mut self, index: u64) -> u64 {
        if index != self.next {
            // Two words of 32 bits an index.
            self.rng.set_word_pos(u128::from(index) * 2);
        }
        self.next = index.wrapping_add(1);
        self.rng.next_u64()
    }

    /// Whether something of this probability happens; what is no probability counts as 0 or 1, whichever is nearer.
    fn happens(&mut self, index: u64, probability: f64) -> bool {
        probability > 0.0 && unit(self.word(index)) < probability
    }
}

#[cfg(test)]
mod tests;
