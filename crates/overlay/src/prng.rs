use std::time::Duration;

/// Pseudo-random numbers for times and identifiers, not for secrets.
pub(crate) struct Prng {
    seed: u64,
    index: u64,
}

impl Prng {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, index: 0 }
    }

    /// A number in (0, 1].
    pub(crate) fn unit(&mut self) -> f64 {
        self.index += 1;
        1.0 - estimate::draw(self.seed, self.index)
    }

    /// A number of 32 bits.
    pub(crate) fn number(&mut self) -> u32 {
        (self.unit() * f64::from(u32::MAX)) as u32
    }

    /// Time to the next event of a Poisson process.
    pub(crate) fn exponential(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(-self.unit().ln())
    }
}
