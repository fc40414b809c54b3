use crate::MeasureError;

/// Random bytes from the operating system, for nonces and session identifiers.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], MeasureError> {
    let mut out = [0; N];
    getrandom::fill(&mut out)
        .map_err(|e| MeasureError::Unsupported(format!("the operating system gives no random numbers: {e}")))?;
    Ok(out)
}
