/// Result on one path at one time: the throughput of a transfer, and the estimate of each method before it.
///
/// `E` names an end: a small integer, a name. The same path measured twice is two measurements, as in the thesis (ch.
/// 5).
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement<E> {
    /// Sender.
    pub from: E,
    /// Receiver.
    pub to: E,
    /// Measured bulk transfer capacity in b/s. A negative value or NaN excludes the measurement.
    pub truth_bps: f64,
    /// The estimate of each method, by the index of the method. Decisions accept any scale with the order of rates;
    /// ratios need b/s. `None`, a missing entry and NaN mean that the method gave no estimate.
    pub estimates: Vec<Option<f64>>,
}

impl<E> Measurement<E> {
    /// The truth, if it is valid. Zero is valid: nothing arrived.
    pub(super) fn truth(&self) -> Option<f64> {
        // Adding zero makes -0 into 0, which is the same rate.
        (self.truth_bps >= 0.0).then_some(self.truth_bps + 0.0)
    }

    /// The method's estimate, if it is valid. Infinity is valid: it prefers this path to any finite one.
    pub(super) fn estimate(&self, method: usize) -> Option<f64> {
        self.estimates.get(method).copied().flatten().filter(|e| !e.is_nan()).map(|e| e + 0.0)
    }

    /// The estimates of two methods, if both gave one.
    pub(super) fn both(&self, method: usize, other: usize) -> Option<(f64, f64)> {
        Some((self.estimate(method)?, self.estimate(other)?))
    }
}
