//! Calls of `longhaul estimate` in nodes, as programs of a run.

use std::collections::BTreeMap;
use std::path::Path;

use scenario::{EstimateCall, Program, Scenario};

/// Arguments of longhaul for a call in a run with seed `seed`.
pub fn estimate_arguments(scenario: &Scenario, call: &EstimateCall, seed: u64) -> Vec<String> {
    let mut arguments = vec!["estimate".to_owned(), scenario.nodes[call.to].name.clone()];
    for method in &call.methods {
        arguments.extend(["-m".to_owned(), method.name().to_owned()]);
    }
    let budget = call.budget.map(|bytes| ("--budget", format!("{}B", bytes.as_u64())));
    let time = call.time.map(|time| ("--time", format!("{}ms", time.as_millis().max(1))));
    let options = budget.into_iter().chain(time).chain([("--seed", seed.to_string())]);
    arguments.extend(options.flat_map(|(option, value)| [option.to_owned(), value]));
    arguments.extend(call.reverse.then(|| "--reverse".to_owned()));
    arguments.push("--json".to_owned());
    arguments
}

/// The scenario with a program for each of its calls, after its own programs. `longhaul` is the program.
pub(crate) fn with_programs(mut scenario: Scenario, longhaul: &Path, seed: u64) -> Scenario {
    let program = |call: &EstimateCall| Program {
        name: call.name.clone(),
        node: call.from,
        command: [vec![longhaul.to_string_lossy().into_owned()], estimate_arguments(&scenario, call, seed)].concat(),
        start: Some(call.start),
        stop: (call.stop < scenario.duration).then_some(call.stop),
        env: BTreeMap::new(),
    };
    let programs: Vec<Program> = scenario.estimates.iter().map(program).collect();
    scenario.programs.extend(programs);
    scenario
}

/// Exit status of `longhaul estimate` when no method found a value.
const NO_VALUE_STATUS: i32 = 1;

/// Whether the exit status of a program is that of a call which found no value: a result, not a failure of the run.
pub(crate) fn is_without_value(scenario: &Scenario, program: &str, code: Option<i32>) -> bool {
    code == Some(NO_VALUE_STATUS) && scenario.estimates.iter().any(|call| call.name == program)
}
