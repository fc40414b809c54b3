//! Keys, configurations and certificates of new members.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use overlay::{Certificate, DEFAULT_PORT, Identity, OverlayError, Settings, joined, member_lines as parse_entries};

use super::cli::{CaInitOptions, CaSignOptions, InitOptions, PeerAddOptions};
use super::show;
use crate::input::{FILE_BYTES_MAX, SMALL_BYTES_MAX};
use crate::standard_output::standard_output;
use crate::whole_file::write_text;

pub(super) fn init(options: &InitOptions) -> anyhow::Result<ExitCode> {
    let config = &options.config.config;
    let key = config.with_extension("key");
    if key == *config {
        let other = config.with_extension("toml");
        bail!(
            "{} is the name of the key file that `init` creates; name the configuration {}",
            key.display(),
            other.display()
        );
    }
    for file in [config, &key] {
        if file.exists() {
            bail!("{} already exists; choose another name", file.display());
        }
    }
    let identity = Identity::generate()?;
    let given = given_secret(options)?;
    let is_new = given.is_none();
    let secret = match given {
        Some(secret) => secret,
        // The public key of a discarded identity is random, and its characters need no escapes.
        None => Identity::generate()?.public().to_string(),
    };
    let text = settings_text(options, &key, &secret);
    identity.write(&key)?;
    if let Err(e) = new_file(config, &text) {
        let _ = fs::remove_file(&key);
        return Err(e);
    }
    // Invalid options are found by reading the new configuration; its files are then removed.
    let made = Settings::read(config).map_err(anyhow::Error::from);
    let lines = made.and_then(|settings| peer_entry(options, &settings)).inspect_err(|_| {
        let _ = (fs::remove_file(&key), fs::remove_file(config));
    })?;
    writeln!(
        io::stderr(),
        "wrote {} and {}; add this peer entry to the other members:",
        config.display(),
        key.display()
    )?;
    write!(standard_output(), "{lines}")?;
    if is_new {
        writeln!(io::stderr(), "use the same network secret on the other nodes (`init --secret-file`): {secret}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the secret of an existing overlay, without its line end.
fn given_secret(options: &InitOptions) -> anyhow::Result<Option<String>> {
    let Some(file) = &options.secret_file else { return Ok(options.secret.clone()) };
    let text = if file == Path::new("-") {
        kernel::read_at_most(io::stdin(), SMALL_BYTES_MAX).context("cannot read the secret from standard input")?
    } else {
        // The file may be a pipe of the shell.
        let read = File::open(file).and_then(|file| kernel::read_at_most(file, SMALL_BYTES_MAX));
        read.with_context(|| format!("cannot read the secret from {}", file.display()))?
    };
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.contains('\n') {
        bail!("the file of `--secret-file` has several lines; it must contain the secret only");
    }
    Ok(Some(secret.to_owned()))
}

fn quoted(items: impl Iterator<Item = String>) -> String {
    items.map(|i| format!("\"{i}\"")).collect::<Vec<_>>().join(", ")
}

fn settings_text(options: &InitOptions, key: &Path, secret: &str) -> String {
    let file = key.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let mut text = format!(
        "# Configuration of an overlay member: longhaul overlay up --config {}\n\nkey = \"{file}\"\nnetwork_secret = {}\naddresses = [{}]\n",
        options.config.config.display(),
        // JSON quoting is also valid TOML.
        serde_json::Value::from(secret),
        quoted(options.address.iter().map(ToString::to_string)),
    );
    if !options.subnet.is_empty() {
        let _ = writeln!(text, "subnets = [{}]", quoted(options.subnet.iter().map(ToString::to_string)));
    }
    if let Some(listen) = options.listen {
        let _ = writeln!(text, "listen = \"{listen}\"");
    }
    let stem = options.config.config.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let _ = writeln!(text, "control_socket = \"{stem}.sock\"");
    text
}

/// Peer entry for the other members; the name of the member is that of its configuration file.
fn peer_entry(options: &InitOptions, settings: &Settings) -> anyhow::Result<String> {
    let name = settings.path.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let name = serde_json::Value::from(name);
    let mut text = format!("[[member]]\nname = {name}\nkey = \"{}\"\n", settings.identity.public());
    if let Some(endpoint) = &options.endpoint {
        let _ = writeln!(text, "endpoint = \"{}\"", with_port(endpoint, settings.listen.port()));
    }
    let _ = writeln!(text, "subnets = [{}]", quoted(settings.serves().iter().map(ToString::to_string)));
    parse_entries(&text).map_err(|e| {
        let is_name = e.starts_with("`name`");
        let hint = "the name of the member is that of its configuration file without the extension";
        if is_name { anyhow::Error::msg(e).context(hint) } else { anyhow::Error::msg(e) }
    })?;
    Ok(text)
}

/// Adds the listening port to an endpoint without a port, unless it is the default port.
fn with_port(endpoint: &str, port: u16) -> String {
    // With port 0 the kernel selects the port.
    let is_default = port == DEFAULT_PORT || port == 0;
    match endpoint.parse::<IpAddr>() {
        Ok(ip) if !is_default => SocketAddr::new(ip, port).to_string(),
        Err(_) if !is_default && !endpoint.contains(':') => format!("{endpoint}:{port}"),
        Err(_) if !is_default && endpoint.contains('%') && !endpoint.starts_with('[') => format!("[{endpoint}]:{port}"),
        Ok(_) | Err(_) => endpoint.to_owned(),
    }
}

/// Creates a file that only its owner can access, because it contains the network secret.
fn new_file(path: &Path, text: &str) -> anyhow::Result<()> {
    // A partial file is removed, so that the command can be repeated.
    let remove = |_: &io::Error| drop(fs::remove_file(path));
    let written = kernel::create_private(path).and_then(|mut f| f.write_all(text.as_bytes()).inspect_err(remove));
    written.with_context(|| format!("cannot write {}", path.display()))
}

pub(super) fn ca_init(options: &CaInitOptions) -> anyhow::Result<ExitCode> {
    let identity = Identity::generate()?;
    identity.write(&options.key)?;
    writeln!(
        io::stderr(),
        "wrote {}; do not store it on the members; add this line to the configuration of each member:",
        options.key.display()
    )?;
    writeln!(standard_output(), "ca_public_key = \"{}\"", identity.public())?;
    Ok(ExitCode::SUCCESS)
}

/// Reads peer entries from standard input.
fn entries_from_input() -> anyhow::Result<String> {
    let read = kernel::read_at_most(io::stdin(), SMALL_BYTES_MAX);
    let lines = read.context("cannot read the peer entry from standard input")?;
    if !lines.contains("[[member]]") {
        bail!("no `[[member]]` on standard input; pass the peer entry that `longhaul overlay init` printed");
    }
    Ok(lines)
}

pub(super) fn ca_sign(options: &CaSignOptions) -> anyhow::Result<ExitCode> {
    if options.valid.as_secs() == 0 {
        bail!("`--valid` is out of range (at least 1s)");
    }
    let authority = Identity::read(&options.key)?;
    let lines = entries_from_input()?;
    let members = parse_entries(&lines).map_err(anyhow::Error::msg)?;
    let [member] = members.as_slice() else {
        bail!("{} peer entries on standard input; a certificate needs exactly one", members.len());
    };
    let (now, _) = kernel::utc_seconds();
    let certificate = Certificate {
        key: member.key.to_string(),
        name: member.name.clone(),
        subnets: member.subnets.clone(),
        until_utc_s: now.saturating_add(options.valid.as_secs()),
    };
    let text = certificate.sign(&authority).map_err(anyhow::Error::msg)?;
    certificate.note_signed(&options.key)?;
    writeln!(standard_output(), "{text}")?;
    writeln!(
        io::stderr(),
        "the certificate of {} is valid until {}; the member's configuration needs `certificate` and `ca_public_key`",
        member.name,
        measure::utc_at(certificate.until_utc_s, 0)
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Rejects peers whose keys the configuration already lists, possibly under another name.
fn reject_listed(config: &Path, lines: &str) -> anyhow::Result<()> {
    let listed = Settings::read(config)?.members.get();
    for new in parse_entries(lines).map_err(anyhow::Error::msg).context("invalid peer entry")? {
        if let Some(there) = listed.values().find(|m| m.key == new.key) {
            bail!(
                "{} already lists the peer {} as {}; edit that entry to change it",
                config.display(),
                new.name,
                there.name
            );
        }
    }
    Ok(())
}

/// Checks a new configuration in a draft in the same directory, before it replaces the file; relative paths then
/// resolve.
fn checked(config: &Path, text: &str) -> anyhow::Result<Settings> {
    let directory = directory_of(config);
    // Only its owner can read it, because it contains the network secret.
    let mut draft = tempfile::Builder::new()
        .prefix(".longhaul-")
        .suffix(".toml")
        .tempfile_in(&directory)
        .with_context(|| format!("cannot create a file in {}", directory.display()))?;
    draft.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", draft.path().display()))?;
    let read = Settings::read(draft.path());
    // Errors name the configuration, not the draft.
    let of_file = |e| {
        if let OverlayError::Settings { what, .. } = e {
            OverlayError::Settings { path: config.to_owned(), what }
        } else {
            e
        }
    };
    Ok(read.map_err(of_file)?)
}

fn directory_of(file: &Path) -> PathBuf {
    file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new(".")).to_owned()
}

/// Keeps other calls from changing the configuration until the lock is dropped. The lock is that of the directory,
/// because the file is replaced.
fn lock(config: &Path) -> anyhow::Result<File> {
    let file = fs::canonicalize(config).with_context(|| format!("cannot read {}", config.display()))?;
    let directory = directory_of(&file);
    let locked = File::open(&directory).and_then(|d| d.lock().map(|()| d));
    locked.with_context(|| format!("cannot lock {}", directory.display()))
}

pub(super) fn peer_add(options: &PeerAddOptions) -> anyhow::Result<ExitCode> {
    let config = &options.config.config;
    let lines = entries_from_input()?;
    let _lock = lock(config)?;
    let before =
        kernel::read_regular(config, FILE_BYTES_MAX).with_context(|| format!("cannot read {}", config.display()))?;
    let after = joined(&before, &lines)
        .map_err(anyhow::Error::msg)
        .with_context(|| format!("cannot add to {}", config.display()))?;
    reject_listed(config, &lines)?;
    let members = checked(config, &after)?.members.get().len();
    write_text(config, &after)?;
    let (file, peers) = (config.display(), show::peers(members));
    writeln!(
        io::stderr(),
        "{file} has {peers}; for a running member, run `longhaul overlay reload --config {file}` as root or as its user"
    )?;
    Ok(ExitCode::SUCCESS)
}
