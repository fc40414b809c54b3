//! `--dry-run` and `--list`: print the network, the runs and the points of an experiment.

use std::io::{self, Write};

use lab::{Place, Selection};
use results::lab::KeyValue;
use results::points::{POINTS_SCHEMA, SweepPoint, SweepPoints};
use scenario::{Experiment, Scenario};

pub(crate) fn show(experiment: &Experiment, out: &mut impl Write) -> io::Result<()> {
    let points = experiment.scenarios.len();
    for (number, scenario) in experiment.scenarios.iter().enumerate() {
        if points > 1 {
            writeln!(out, "point {number} of 0-{}: {}", points - 1, values_text(&scenario.point))?;
            if number > 0 {
                continue;
            }
        }
        show_scenario(scenario, out)?;
    }
    Ok(())
}

/// Prints the points with selected runs, as text or as a JSON document.
pub(crate) fn list(
    experiment: &Experiment,
    selection: &Selection,
    is_json: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let Some(first) = experiment.scenarios.first() else { return Ok(()) };
    let places = selection.places(experiment.scenarios.len() as u32, first.repeat);
    let point = |(point, scenario): (u32, &Scenario)| {
        let own = places.iter().filter(|place| place.point == point);
        SweepPoint {
            point,
            values: scenario.point.iter().map(|(k, v)| KeyValue { key: k.clone(), value: v.clone() }).collect(),
            repetitions: own.map(|Place { repetition, .. }| *repetition).collect(),
            duration_s: scenario.duration.as_secs_f64(),
        }
    };
    let all = (0..).zip(&experiment.scenarios).map(point);
    let points: Vec<SweepPoint> = all.filter(|p| !p.repetitions.is_empty()).collect();
    if is_json {
        let document =
            SweepPoints { schema: POINTS_SCHEMA.to_owned(), name: first.name.clone(), seed: first.seed, points };
        serde_json::to_writer_pretty(&mut *out, &document)?;
        return writeln!(out);
    }
    for p in points {
        let runs = p.repetitions.len();
        let values = values_text(&experiment.scenarios[p.point as usize].point);
        writeln!(out, "{}  {runs} {}  {values}", p.point, if runs == 1 { "run" } else { "runs" })?;
    }
    Ok(())
}

fn values_text(values: &[(String, String)]) -> String {
    let all: Vec<String> = values.iter().map(|(k, v)| format!("{k} = {v}")).collect();
    all.join(", ")
}

fn show_scenario(scenario: &Scenario, out: &mut impl Write) -> io::Result<()> {
    let name = |node: usize| scenario.nodes[node].name.as_str();
    writeln!(
        out,
        "{}: {} s, {} {}, seed {}",
        scenario.name,
        scenario.duration.as_secs_f64(),
        scenario.repeat,
        if scenario.repeat == 1 { "repetition" } else { "repetitions" },
        scenario.seed
    )?;
    for node in &scenario.nodes {
        writeln!(out, "node {} {} {}", node.name, node.ipv4, node.ipv6)?;
        for (key, value) in &node.sysctl {
            writeln!(out, "    {key} = {value}")?;
        }
        for (_, policy) in &node.shape {
            for (direction, side) in [("egress", &policy.egress), ("ingress", &policy.ingress)] {
                let Some(side) = side else { continue };
                let classes: Vec<String> =
                    side.classes.iter().map(|c| format!("{} {} up to {}", c.name, c.rate, c.ceiling)).collect();
                writeln!(out, "    {direction} of {} limited to {}: {}", policy.device, side.rate, classes.join(", "))?;
            }
        }
    }
    for link in &scenario.links {
        let [a, b] = link.between.map(name);
        writeln!(out, "link {} mtu {}", link.name, link.mtu)?;
        writeln!(out, "    {a} > {b}: {}", scenario::describe(&link.forward))?;
        writeln!(out, "    {b} > {a}: {}", scenario::describe(&link.backward))?;
    }
    for lan in &scenario.lans {
        let members: Vec<&str> = lan.members.iter().map(|m| name(*m)).collect();
        writeln!(out, "lan {} mtu {}: {}", lan.name, lan.mtu, members.join(", "))?;
        writeln!(out, "    to the switch: {}", scenario::describe(&lan.up))?;
        writeln!(out, "    from the switch: {}", scenario::describe(&lan.down))?;
    }
    for mark in lab::schedule_marks(scenario) {
        writeln!(out, "at {} s {}", mark.at_s, mark.text)?;
    }
    for flow in lab::flow_descriptions(scenario) {
        writeln!(out, "flow {} {} > {}: {}", flow.flow, flow.from, flow.to, flow.settings)?;
        if let Some(command) = flow.command {
            writeln!(out, "    {command}")?;
        }
    }
    for call in &scenario.estimates {
        let arguments = lab::estimate_arguments(scenario, call, scenario.seed).join(" ");
        let start = call.start.as_secs_f64();
        writeln!(out, "estimates {} in {} at {start} s: longhaul {arguments}", call.name, name(call.from))?;
    }
    for program in &scenario.programs {
        let start = program.start.map_or_else(|| "before the run".to_owned(), |t| format!("at {} s", t.as_secs_f64()));
        writeln!(out, "program {} in {} {start}: {}", program.name, name(program.node), program.command.join(" "))?;
    }
    Ok(())
}
