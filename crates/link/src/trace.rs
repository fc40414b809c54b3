/// Delivery opportunities of a varying link, in mahimahi's form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Milliseconds since the begin of each opportunity, not decreasing.
    pub(crate) opportunities_ms: Vec<u64>,
}
