//! `longhaul overlay`.

pub(crate) mod cli;
mod init;
mod replay;
mod show;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use kernel::Shutdown;
use overlay::{Node, Question, Settings, ask};

use crate::logs;
use crate::standard_output::standard_output;
use cli::{AskOptions, CaCommand, OverlayCommand, OverlayOptions, PeerCommand, UpOptions};

pub(crate) fn run(options: OverlayOptions) -> anyhow::Result<ExitCode> {
    match options.command {
        OverlayCommand::Init(options) => init::init(&options),
        OverlayCommand::Peer(PeerCommand::Add(options)) => init::peer_add(&options),
        OverlayCommand::Ca(CaCommand::Init(options)) => init::ca_init(&options),
        OverlayCommand::Ca(CaCommand::Sign(options)) => init::ca_sign(&options),
        OverlayCommand::Up(options) => up(&options),
        OverlayCommand::Status(options) => query(&options, &Question::Status, show::status),
        OverlayCommand::Routes(options) => query(&options, &Question::Routes, show::routes),
        OverlayCommand::Flows(options) => query(&options, &Question::Flows, show::flows),
        OverlayCommand::Events(options) => query(&options, &Question::Events, show::events),
        OverlayCommand::Reload(options) => query(&options, &Question::Reload, show::reloaded),
        OverlayCommand::Down(options) => query(&options, &Question::Down, |_| String::new()),
        OverlayCommand::Replay(options) => replay::run(&options),
        OverlayCommand::Why(options) => {
            query(&options.ask, &Question::Why { destination: options.destination.clone() }, show::why)
        }
    }
}

fn up(options: &UpOptions) -> anyhow::Result<ExitCode> {
    // Disable core dumps before a secret is in memory.
    kernel::disable_core_dump();
    let mut settings = Settings::read(&options.config.config)?;
    settings.single_path |= options.single_path;
    if options.dry_run {
        Node::check(&settings)?;
        for warning in settings.fill_in_from_host() {
            writeln!(io::stderr(), "longhaul: {warning}")?;
        }
        write!(standard_output(), "{}", show::plan(&settings))?;
        return Ok(ExitCode::SUCCESS);
    }
    logs::start(options.log_format);
    Shutdown::install().context("handling signals")?;
    let (name, peers) = (settings.device.clone(), show::peers(settings.members.get().len()));
    let ran = Node::start(settings).and_then(|node| {
        let _ = writeln!(
            io::stderr(),
            "longhaul: member started on device {name} with {peers}; stop it with Ctrl-C or `overlay down`"
        );
        node.run(|| Shutdown::requests() > 0)
    });
    match ran {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(e) if e.is_of_settings() => Err(e.into()),
        // The error is not one of the configuration, so a restart by the service manager may succeed.
        Err(e) => {
            crate::print_error(&e.into());
            Ok(ExitCode::FAILURE)
        }
    }
}

fn query(
    options: &AskOptions,
    question: &Question,
    text: impl Fn(&serde_json::Value) -> String,
) -> anyhow::Result<ExitCode> {
    let answer = ask(&options.config.config, question)?;
    let value: serde_json::Value = serde_json::from_str(&answer).context("invalid reply from the member")?;
    if let Some(error) = value.get("error").and_then(|e| e.as_str()) {
        anyhow::bail!("{error}");
    }
    let shown = match (options.json, question) {
        (true, Question::Events) => show::event_lines(&value),
        (true, _) => format!("{value}\n"),
        (false, _) => text(&value),
    };
    write!(standard_output(), "{shown}")?;
    Ok(ExitCode::SUCCESS)
}
