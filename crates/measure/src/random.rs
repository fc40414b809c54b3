use crate::MeasureError;

/// Bytes from the operating system's generator, for nonces and session names.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], MeasureError> {
    let mut out = [0; N];
    getrandom::fill(&mut out)
        .map_err(|e| MeasureError::Unsupported(format!("the operating system gives no random numbers: {e}")))?;
    Ok(out)
}
