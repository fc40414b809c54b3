/// Sums of weights below any position, while weights are added (Fenwick 1994). Both operations take time `log n`.
#[derive(Debug, Clone)]
pub(super) struct Fenwick {
    /// Index 1 is the first; 0 is unused.
    sums: Vec<u64>,
}

impl Fenwick {
    /// Creates a tree for the positions from 0 to `positions`, the last excluded.
    pub(super) fn new(positions: usize) -> Self {
        Self { sums: vec![0; positions + 1] }
    }

    /// Adds a weight; a position out of range has no effect.
    pub(super) fn add(&mut self, position: usize, weight: u64) {
        self.change(position, |sum| sum.wrapping_add(weight));
    }

    /// Removes a weight that was added.
    pub(super) fn remove(&mut self, position: usize, weight: u64) {
        self.change(position, |sum| sum.wrapping_sub(weight));
    }

    /// Sum of the weights at positions smaller than this one.
    pub(super) fn below(&self, position: usize) -> u64 {
        let mut at = position.min(self.sums.len() - 1);
        let mut sum = 0_u64;
        while at > 0 {
            sum = sum.wrapping_add(self.sums.get(at).copied().unwrap_or(0));
            at &= at - 1;
        }
        sum
    }

    fn change(&mut self, position: usize, by: impl Fn(u64) -> u64) {
        let mut at = position + 1;
        while let Some(sum) = self.sums.get_mut(at) {
            *sum = by(*sum);
            at += at & at.wrapping_neg();
        }
    }
}
