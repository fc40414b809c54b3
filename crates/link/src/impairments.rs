//! Random impairments of packets.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};
use units::nanos;

use crate::{Jitter, JitterShape, Loss, Settings};

/// Suffix of the key, so that the link's random numbers differ from those of other users of the same seed.
const KEY_LABEL: &[u8; 24] = b"longhaul link direction.";
/// Streams of the generator, one per purpose. The numbers are fixed, so that a seed gives the same results in every
/// release.
const LOSS: u64 = 0;
const TRANSITION: u64 = 1;
const DUPLICATE: u64 = 2;
const REORDER: u64 = 3;
const JITTER: u64 = 4;
/// Bound of the normal distribution, in standard deviations.
const NORMAL_BOUND: f64 = 4.0;
/// Bound of the exponential distribution, in means.
const EXPONENTIAL_BOUND: f64 = 20.0;

/// Outcome of a packet that has left the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) end: Arrival,
    /// The packet arrives twice.
    pub(crate) copied: bool,
    /// Additional delay for reordering.
    pub(crate) held_ns: u64,
    /// Variation of the propagation delay.
    pub(crate) jitter_ns: i64,
}

/// Whether a packet arrives, or the cause of its loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    Arrives,
    /// Lost at random.
    Lost,
    /// Lost by its index.
    Listed,
}

impl Outcome {
    /// Outcome of a packet without impairments.
    pub(crate) const PLAIN: Self = Self { end: Arrival::Arrives, copied: false, held_ns: 0, jitter_ns: 0 };

    /// Whether the packet arrives once, and in order, if at all.
    pub(crate) const fn is_in_order(&self) -> bool {
        !self.copied && self.held_ns == 0
    }
}

/// Random draws of one direction.
///
/// The draw for a purpose and a packet is a function of seed, purpose and packet index alone. The generator is a
/// counter (ChaCha with 8 rounds), and a purpose that is not in use skips its numbers.
#[derive(Debug)]
pub(crate) struct Impairments {
    loss: Stream,
    transition: Stream,
    duplicate: Stream,
    reorder: Stream,
    jitter: Stream,
    /// Whether the Gilbert-Elliott chain is in the bad state.
    bad: bool,
}

impl Impairments {
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

    /// Resets the Gilbert-Elliott chain to the good state.
    pub(crate) const fn reset_chain(&mut self) {
        self.bad = false;
    }

    /// Outcome of the packet with this index. The caller passes each index once, in ascending order.
    pub(crate) fn outcome(&mut self, index: u64, settings: &Settings) -> Outcome {
        let lost = self.lost(index, settings.loss);
        let listed = settings.loss_list.binary_search(&index).is_ok();
        let held = self.reorder.happens(index, settings.reorder.probability);
        Outcome {
            end: match (listed, lost) {
                (true, _) => Arrival::Listed,
                (false, true) => Arrival::Lost,
                (false, false) => Arrival::Arrives,
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
        let value = self.jitter.value(index);
        let factor = match jitter.shape {
            JitterShape::Uniform => 2.0 * unit(value) - 1.0,
            JitterShape::Normal => normal(value).clamp(-NORMAL_BOUND, NORMAL_BOUND),
            JitterShape::Exponential => (-(1.0 - unit(value)).ln()).min(EXPONENTIAL_BOUND),
        };
        (nanos(jitter.amount) as f64 * factor).round() as i64
    }
}

/// Whether these settings need random draws or a list of losses.
pub(crate) fn impairs(settings: &Settings) -> bool {
    settings.loss != Loss::None
        || !settings.loss_list.is_empty()
        || settings.duplicate > 0.0
        || settings.reorder.probability > 0.0
        || !settings.jitter.amount.is_zero()
}

/// Uniform variate in [0, 1) with the 53 bits of a double.
fn unit(value: u64) -> f64 {
    (value >> 11) as f64 / (1u64 << 53) as f64
}

/// Standard normal variate from one 64-bit value (Box and Muller 1958). The 32 bits of each half reach 6.7 standard
/// deviations.
fn normal(value: u64) -> f64 {
    let half = (1u64 << 32) as f64;
    let radius = ((value >> 32) as f64 + 1.0) / half;
    let angle = (value & 0xffff_ffff) as f64 / half;
    (-2.0 * radius.ln()).sqrt() * (core::f64::consts::TAU * angle).cos()
}

/// A stream with one random number per index.
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

    fn value(&mut self, index: u64) -> u64 {
        if index != self.next {
            // Each index uses two words of 32 bits.
            self.rng.set_word_pos(u128::from(index) * 2);
        }
        self.next = index.wrapping_add(1);
        self.rng.next_u64()
    }

    /// Whether an event of this probability happens. Values outside 0..=1 are clamped.
    fn happens(&mut self, index: u64, probability: f64) -> bool {
        probability > 0.0 && unit(self.value(index)) < probability
    }
}

#[cfg(test)]
mod tests;
