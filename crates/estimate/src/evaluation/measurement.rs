/// What was found on one path at one time: what a transfer got, and what each method had said.
///
/// `E` names an end: a small integer, a name. The same path measured twice is two measurements, as in the thesis (ch.
/// 5).
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement<E> {
    /// Sender.
    pub from: E,
    /// Receiver.
    pub to: E,
    /// Bulk transfer capacity as measured, in b/s. What is negative or no number leaves the measurement out.
    pub truth_bps: f64,
    /// What each method said, by the number of the method. Any scale whose order is that of rates will do for
    /// decisions; ratios need b/s. `None`, missing and NaN: the method gave no answer.
    pub estimates: Vec<Option<f64>>,
}

impl<E> Measurement<E> {
    /// The truth, if it is one. Zero is: nothing arrived.
    pub(super) fn truth(&self) -> Option<f64> {
        // Adding zero makes -0 into 0, which is the same rate.
        (self.truth_bps >= 0.0).then_some(self.truth_bps + 0.0)
    }

    /// The method's answer, if it is one. Infinity is: it prefers this path to any finite one.
    pub(super) fn estimate(&self, method: usize) -> Option<f64> {
        self.estimates.get(method).copied().flatten().filter(|e| !e.is_nan()).map(|e| e + 0.0)
    }

    /// The answers of two methods, if both gave one.
    pub(super) fn both(&self, method: usize, other: usize) -> Option<(f64, f64)> {
        Some((self.estimate(method)?, self.estimate(other)?))
    }
}
