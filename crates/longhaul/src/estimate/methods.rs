//! Runs a method given by its name and returns its result as a record.

use estimate::probe::{Bounds, Known, MethodName, NamedMethod};
use kernel::Shutdown;
use measure::probe::Prober;
use results::estimate::EstimateResult;

use super::cli::EstimateOptions;
use super::transfer;

/// Runs a method within its bounds.
pub(super) fn run(
    name: MethodName,
    options: &EstimateOptions,
    prober: &mut Prober,
    known: Known,
    bounds: Bounds,
) -> anyhow::Result<EstimateResult> {
    match NamedMethod::new(name, options.faithful_2002, prober.path(), known, bounds.bytes) {
        Some(mut method) => {
            let run = prober.run(&mut method, bounds, &|| Shutdown::requests() > 0)?;
            Ok(method.result(&run))
        }
        None => transfer::run(name, options, bounds),
    }
}
