//! Statistics over several runs.

/// The value below which a share `q` of all values lies (nearest rank); NaN without values.
pub(crate) fn quantile(mut values: Vec<f64>, q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * q).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// The median; of an even number of values the lower of the middle two.
pub(crate) fn median(values: Vec<f64>) -> f64 {
    quantile(values, 0.5)
}

/// Runs `a` and `b` in pairs. The order alternates, so that a drift of the machine favours neither.
pub(crate) fn in_pairs<T, E>(
    pairs: u64,
    mut a: impl FnMut() -> Result<T, E>,
    mut b: impl FnMut() -> Result<T, E>,
) -> Result<Vec<(T, T)>, E> {
    (0..pairs)
        .map(|pair| {
            if pair % 2 == 0 {
                let first = a()?;
                Ok((first, b()?))
            } else {
                let first = b()?;
                Ok((a()?, first))
            }
        })
        .collect()
}
