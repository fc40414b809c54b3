//! `longhaul generate`: man pages, completions and schemas, derived from the command definition and the record types.

mod reference;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;

use crate::cli::{Cli, GenerateOptions, What};
use crate::whole_file::write_text;

pub(crate) fn run(options: &GenerateOptions) -> anyhow::Result<ExitCode> {
    let directory = &options.directory;
    fs::create_dir_all(directory).with_context(|| format!("cannot create the directory {}", directory.display()))?;
    match options.what {
        What::Man => man(directory)?,
        What::Completions => {
            for shell in Shell::value_variants() {
                clap_complete::generate_to(*shell, &mut Cli::command(), "longhaul", directory)
                    .with_context(|| format!("cannot write into {}", directory.display()))?;
            }
        }
        What::Schema => {
            schema(directory, "longhaul.test-2.schema.json", &schemars::schema_for!(results::Record))?;
            schema(directory, "longhaul.lab-2.schema.json", &schemars::schema_for!(results::lab::LabRecord))?;
            schema(directory, "longhaul.points-1.schema.json", &schemars::schema_for!(results::points::SweepPoints))?;
            schema(directory, "longhaul.shape-2.schema.json", &schemars::schema_for!(results::shape::ShapeRecord))?;
            schema(directory, "longhaul.cc-2.schema.json", &schemars::schema_for!(results::cc::CcRecord))?;
            schema(directory, "longhaul.trace-2.schema.json", &schemars::schema_for!(results::trace::TraceRecord))?;
            schema(directory, "longhaul.model-2.schema.json", &schemars::schema_for!(results::model::ModelRecord))?;
            schema(
                directory,
                "longhaul.estimate-2.schema.json",
                &schemars::schema_for!(results::estimate::EstimateRecord),
            )?;
            schema(directory, "longhaul.choose-2.schema.json", &schemars::schema_for!(results::choose::ChooseRecord))?;
            schema(
                directory,
                "longhaul.evaluate-2.schema.json",
                &schemars::schema_for!(results::evaluate::EvaluateRecord),
            )?;
            schema(
                directory,
                "longhaul.history-2.schema.json",
                &schemars::schema_for!(results::history::HistoryRecord),
            )?;
            schema(directory, "longhaul.tune-2.schema.json", &schemars::schema_for!(results::tune::TuneRecord))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn man(directory: &Path) -> anyhow::Result<()> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    clap_mangen::generate_to(root, directory).with_context(|| format!("cannot write into {}", directory.display()))?;
    for page in reference::PAGES {
        let path = directory.join(format!("{}.5", page.0));
        write_text(&path, &reference::page(page))?;
    }
    Ok(())
}

fn schema(directory: &Path, name: &str, schema: &schemars::Schema) -> anyhow::Result<()> {
    let path = directory.join(name);
    let text = serde_json::to_string_pretty(schema)? + "\n";
    write_text(&path, &text)
}
