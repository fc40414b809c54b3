use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Stream of the generator for [`draw`]; schedules use the first stream.
const STREAM: u64 = 1;

/// A uniform number from 0 (included) to 1 (not included), for this index.
///
/// It is a function of seed and index alone, independent of earlier draws, and equal on every host and in every
/// release.
pub fn draw(seed: u64, index: u64) -> f64 {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    rng.set_stream(STREAM);
    // Two 32-bit outputs of the generator per index.
    rng.set_word_pos(u128::from(index) * 2);
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_uniform_and_a_function_of_seed_and_index() {
        const N: u64 = 20_000;
        let mut all: Vec<f64> = (0..N).map(|i| draw(7, i)).collect();
        assert_eq!(draw(7, 123), all[123]);
        assert_ne!(draw(8, 123), all[123]);
        assert!(draw(7, u64::MAX) < 1.0);
        // Kolmogorov-Smirnov distance from the uniform distribution; 1 % critical value 1.63 / sqrt(N).
        all.sort_unstable_by(f64::total_cmp);
        let distance =
            |(i, x): (usize, &f64)| (x - i as f64 / N as f64).abs().max(((i + 1) as f64 / N as f64 - x).abs());
        let largest = all.iter().enumerate().map(distance).fold(0.0, f64::max);
        assert!(largest < 1.63 / (N as f64).sqrt(), "{largest}");
    }
}
