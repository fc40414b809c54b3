//! Random numbers that a seed fixes.

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 (included) to 1 (not included).
    pub(crate) fn share(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, n: u32) -> u32 {
        (self.share() * f64::from(n)) as u32
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.share()
    }

    /// How many of `n` packets are lost, each with probability `p`.
    pub(crate) fn lost(&mut self, n: u32, p: f64) -> u32 {
        if n <= 200 {
            return (0..n).filter(|_| self.share() < p).count() as u32;
        }
        // Normal by the sum of twelve; whole blocks of a few hundred packets are not told apart from binomial.
        let (mean, normal) = (f64::from(n) * p, (0..12).map(|_| self.share()).sum::<f64>() - 6.0);
        (mean + normal * (mean * (1.0 - p)).sqrt()).round().clamp(0.0, f64::from(n)) as u32
    }
}
