//! `longhaul generate`: what is derived from the command definition and the record types.

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
    let folder = &options.folder;
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    match options.what {
        What::Man => man(folder)?,
        What::Completions => {
            for shell in Shell::value_variants() {
                clap_complete::generate_to(*shell, &mut Cli::command(), "longhaul", folder)
                    .with_context(|| format!("cannot write into {}", folder.display()))?;
            }
        }
        What::Schema => {
            schema(folder, "longhaul.test-1.schema.json", &schemars::schema_for!(results::Record))?;
            schema(folder, "longhaul.lab-1.schema.json", &schemars::schema_for!(results::lab::LabRecord))?;
            schema(folder, "longhaul.shape-1.schema.json", &schemars::schema_for!(results::shape::ShapeRecord))?;
            schema(folder, "longhaul.cc-1.schema.json", &schemars::schema_for!(results::cc::CcRecord))?;
            schema(folder, "longhaul.trace-1.schema.json", &schemars::schema_for!(results::trace::TraceRecord))?;
            schema(folder, "longhaul.model-1.schema.json", &schemars::schema_for!(results::model::ModelRecord))?;
            schema(
                folder,
                "longhaul.estimate-1.schema.json",
                &schemars::schema_for!(results::estimate::EstimateRecord),
            )?;
            schema(folder, "longhaul.choose-1.schema.json", &schemars::schema_for!(results::choose::ChooseRecord))?;
            schema(
                folder,
                "longhaul.evaluate-1.schema.json",
                &schemars::schema_for!(results::evaluate::EvaluateRecord),
            )?;
            schema(folder, "longhaul.history-1.schema.json", &schemars::schema_for!(results::history::HistoryRecord))?;
            schema(folder, "longhaul.tune-1.schema.json", &schemars::schema_for!(results::tune::TuneRecord))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn man(folder: &Path) -> anyhow::Result<()> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    clap_mangen::generate_to(root, folder).with_context(|| format!("cannot write into {}", folder.display()))?;
    for page in reference::PAGES {
        let path = folder.join(format!("{}.5", page.0));
        write_text(&path, &reference::page(page))?;
    }
    Ok(())
}

fn schema(folder: &Path, name: &str, schema: &schemars::Schema) -> anyhow::Result<()> {
    let path = folder.join(name);
    let text = serde_json::to_string_pretty(schema)? + "\n";
    write_text(&path, &text)
}
