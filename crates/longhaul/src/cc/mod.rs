//! `longhaul cc`.

pub(crate) mod cli;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Context as _;
use bpf::congestion::{self as loader, DIRECTORY, Loaded};
use congestion::{Algorithm, Settings};
use results::cc::{CC_SCHEMA, CcControl, CcOrigin, CcRecord, CcStart};
use results::lab::KeyValue;

use crate::standard_output::standard_output;
use cli::{CcCommand, CcOptions, LoadOptions, ShowOptions, UnloadOptions};

pub(crate) fn run(options: CcOptions) -> anyhow::Result<ExitCode> {
    match options.command {
        CcCommand::List(options) => list(options.json),
        CcCommand::Load(options) => load(&options),
        CcCommand::Unload(options) => unload(&options),
        CcCommand::Show(options) => show(&options),
    }
}

fn load(options: &LoadOptions) -> anyhow::Result<ExitCode> {
    // Parse all names and parameters before loading any control.
    let mut chosen = Vec::new();
    for name in &options.names {
        let algorithm = Algorithm::of_name(name).with_context(|| {
            format!("unknown congestion control {name}; use fast or htcp, optionally with a suffix such as fast_a200")
        })?;
        let mut settings = Settings::of(algorithm);
        for (key, value) in &options.param {
            settings.set(key, value)?;
        }
        chosen.push((name, settings));
    }
    for (name, settings) in chosen {
        loader::load(Path::new(DIRECTORY), name, &settings)?;
        writeln!(io::stderr(), "{name} loaded: {settings}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn unload(options: &UnloadOptions) -> anyhow::Result<ExitCode> {
    let directory = Path::new(DIRECTORY);
    let loaded = loaded()?;
    let names: Vec<String> =
        if options.all { loaded.iter().map(|l| l.name.clone()).collect() } else { options.names.clone() };
    for name in &names {
        loader::unload(directory, name)?;
        let users = loaded.iter().find(|l| l.name == *name).map_or(0, |l| l.users);
        let kept = match users {
            0 => "",
            1 => "; about 1 connection keeps it until it closes",
            _ => &format!("; about {users} connections keep it until they close"),
        };
        writeln!(io::stderr(), "{name} unloaded{kept}")?;
    }
    if names.is_empty() {
        writeln!(io::stderr(), "longhaul has not loaded any congestion control")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list(json: bool) -> anyhow::Result<ExitCode> {
    let (start, controls) = all()?;
    let mut out = standard_output();
    if json {
        write_json(start, controls, &mut out)?;
    } else {
        report::cc::write_list(&start, &controls, &mut out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(options: &ShowOptions) -> anyhow::Result<ExitCode> {
    let (start, controls) = all()?;
    let known: Vec<String> = controls.iter().map(|c| c.name.clone()).collect();
    let Some(control) = controls.into_iter().find(|c| c.name == options.name) else {
        anyhow::bail!("unknown congestion control {}; known: {}", options.name, known.join(", "));
    };
    let mut out = standard_output();
    if options.json {
        write_json(start, vec![control], &mut out)?;
    } else {
        report::cc::write_control(&start, &control, &mut out)?;
        let meanings = Algorithm::of_name(&control.name).map(|a| Settings::of(a).parameters()).unwrap_or_default();
        if control.origin == CcOrigin::Longhaul {
            writeln!(out, "parameters:")?;
            meanings.iter().try_for_each(|p| writeln!(out, "  {:<18} {}", p.key, p.meaning))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write_json(start: CcStart, controls: Vec<CcControl>, out: &mut impl Write) -> io::Result<()> {
    let records = std::iter::once(CcRecord::Start(start)).chain(controls.into_iter().map(CcRecord::Control));
    for record in records {
        serde_json::to_writer(&mut *out, &record)?;
        writeln!(out)?;
    }
    Ok(())
}

/// Controls that longhaul has loaded in any mount namespace, except those of labs, which unload them at their end.
fn loaded() -> anyhow::Result<Vec<Loaded>> {
    let mut loaded = loader::list(Path::new(DIRECTORY))?;
    loaded.extend(loader::unpinned().into_iter().filter(|l| lab::lab_of_control(&l.name).is_none()));
    Ok(loaded)
}

/// Controls of the kernel, followed by those that longhaul can load.
fn all() -> anyhow::Result<(CcStart, Vec<CcControl>)> {
    let read = |key: &str| {
        let text = kernel::read_sysctl(&format!("net.ipv4.{key}"))?;
        anyhow::Ok(text.split_whitespace().map(str::to_owned).collect::<Vec<String>>())
    };
    let available = read("tcp_available_congestion_control")?;
    let allowed = read("tcp_allowed_congestion_control")?;
    let start = CcStart {
        schema: CC_SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: kernel::kernel_release(),
        default: read("tcp_congestion_control")?.join(" "),
    };
    let loaded = loaded()?;
    let mut controls: Vec<CcControl> = available
        .iter()
        .map(|name| match loaded.iter().find(|l| l.name == *name) {
            Some(loaded) => of_longhaul(loaded),
            None => CcControl { unprivileged: allowed.contains(name), ..plain(name, CcOrigin::Kernel) },
        })
        .collect();
    let mut unfinished = loader::unfinished(Path::new(DIRECTORY))?;
    // The kernel may have a control of the same name.
    unfinished.retain(|name| !available.contains(name));
    let is_missing = |a: &Algorithm| !available.iter().chain(&unfinished).any(|n| n == a.name());
    let missing = Algorithm::ALL.into_iter().filter(is_missing);
    controls.extend(missing.map(|a| CcControl {
        available: false,
        about: Some(a.about().to_owned()),
        parameters: pairs(&Settings::of(a)),
        ..plain(a.name(), CcOrigin::Longhaul)
    }));
    controls.extend(unfinished.iter().map(|name| CcControl {
        available: false,
        about: Some(
            "loading is incomplete: the loader is still running or was killed; load or unload it again".to_owned(),
        ),
        ..plain(name, CcOrigin::Longhaul)
    }));
    Ok((start, controls))
}

fn plain(name: &str, origin: CcOrigin) -> CcControl {
    CcControl {
        name: name.to_owned(),
        origin,
        available: true,
        unprivileged: true,
        about: None,
        parameters: Vec::new(),
        age_s: None,
        connections: None,
    }
}

fn of_longhaul(loaded: &Loaded) -> CcControl {
    CcControl {
        about: Algorithm::of_name(&loaded.name).map(|a| a.about().to_owned()),
        parameters: loaded.settings.as_ref().map(pairs).unwrap_or_default(),
        age_s: SystemTime::now().duration_since(loaded.since).ok().map(|d| d.as_secs_f64()),
        connections: Some(loaded.users),
        ..plain(&loaded.name, CcOrigin::Longhaul)
    }
}

fn pairs(settings: &Settings) -> Vec<KeyValue> {
    settings.parameters().into_iter().map(|p| KeyValue { key: p.key.to_owned(), value: p.value }).collect()
}
