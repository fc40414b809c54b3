//! New members: keys and settings.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use overlay::{Certificate, DEFAULT_PORT, Identity, OverlayError, Settings, joined, member_lines as read_lines};

use super::cli::{AuthorityOptions, CertifyOptions, InitOptions, JoinOptions};
use super::show;
use crate::whole_file::write_text;

pub(super) fn init(options: &InitOptions) -> anyhow::Result<ExitCode> {
    let config = &options.config.config;
    let key = config.with_extension("key");
    if key == *config {
        let other = config.with_extension("toml");
        bail!("{} is the file of the key that `init` makes; call the settings {}", key.display(), other.display());
    }
    for file in [config, &key] {
        if file.exists() {
            bail!("{} exists already; it is left as it is", file.display());
        }
    }
    let identity = Identity::generate()?;
    let given = given_secret(options)?;
    let is_new = given.is_none();
    let secret = match given {
        Some(secret) => secret,
        // A public key of nobody is as random as can be, and of the usual alphabet.
        None => Identity::generate()?.public().to_string(),
    };
    let text = settings_text(options, &key, &secret);
    identity.write(&key)?;
    if let Err(e) = new_file(config, &text) {
        let _ = fs::remove_file(&key);
        return Err(e);
    }
    // What was asked for may not be what a member can be: nothing stays of it.
    let made = Settings::read(config).map_err(anyhow::Error::from);
    let lines = made.and_then(|settings| member_lines(options, &settings)).inspect_err(|_| {
        let _ = (fs::remove_file(&key), fs::remove_file(config));
    })?;
    writeln!(io::stderr(), "wrote {} and {}; the other members need these lines:", config.display(), key.display())?;
    write!(io::stdout(), "{lines}")?;
    if is_new {
        writeln!(io::stderr(), "and the same secret, for `init --secret-file`: {secret}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The secret of an overlay that there is already, without the end of its line.
fn given_secret(options: &InitOptions) -> anyhow::Result<Option<String>> {
    let Some(file) = &options.secret_file else { return Ok(options.secret.clone()) };
    let text = if file == Path::new("-") {
        io::read_to_string(io::stdin()).context("reading the secret from standard input")?
    } else {
        fs::read_to_string(file).with_context(|| format!("reading the secret from {}", file.display()))?
    };
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.contains('\n') {
        bail!("what `--secret-file` names has several lines; it takes the secret alone");
    }
    Ok(Some(secret.to_owned()))
}

fn quoted(items: impl Iterator<Item = String>) -> String {
    items.map(|i| format!("\"{i}\"")).collect::<Vec<_>>().join(", ")
}

fn settings_text(options: &InitOptions, key: &Path, secret: &str) -> String {
    let file = key.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let mut text = format!(
        "# A member of an overlay: longhaul overlay up --config {}\n\nkey = \"{file}\"\nnetwork_secret = {}\naddresses = [{}]\n",
        options.config.config.display(),
        // Quoted as JSON, which is TOML's way, too.
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

/// The lines by which others know the member, which is called as its settings are.
fn member_lines(options: &InitOptions, settings: &Settings) -> anyhow::Result<String> {
    let name = settings.path.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let name = serde_json::Value::from(name);
    let mut text = format!("[[member]]\nname = {name}\nkey = \"{}\"\n", settings.identity.public());
    if let Some(endpoint) = &options.endpoint {
        let _ = writeln!(text, "endpoint = \"{}\"", with_port(endpoint, settings.listen.port()));
    }
    let _ = writeln!(text, "subnets = [{}]", quoted(settings.serves().iter().map(ToString::to_string)));
    let read = read_lines(&text).map_err(anyhow::Error::msg);
    read.context("the member is called as the file of its settings, whatever is behind the last dot left out")?;
    Ok(text)
}

/// The endpoint with the port where the member listens, if it names none and that is not the usual one.
fn with_port(endpoint: &str, port: u16) -> String {
    // Port 0 is whatever the kernel gives.
    let is_usual = port == DEFAULT_PORT || port == 0;
    match endpoint.parse::<IpAddr>() {
        Ok(ip) if !is_usual => SocketAddr::new(ip, port).to_string(),
        Err(_) if !is_usual && !endpoint.contains(':') => format!("{endpoint}:{port}"),
        Err(_) if !is_usual && endpoint.contains('%') && !endpoint.starts_with('[') => format!("[{endpoint}]:{port}"),
        Ok(_) | Err(_) => endpoint.to_owned(),
    }
}

/// Makes a file for its owner only: the secret of the overlay is in it.
fn new_file(path: &Path, text: &str) -> anyhow::Result<()> {
    // Half of it is of no use to anybody, and would be in the way the next time.
    let half = |_: &io::Error| drop(fs::remove_file(path));
    let written = kernel::create_private(path).and_then(|mut f| f.write_all(text.as_bytes()).inspect_err(half));
    written.with_context(|| format!("writing {}", path.display()))
}

pub(super) fn authority(options: &AuthorityOptions) -> anyhow::Result<ExitCode> {
    let identity = Identity::generate()?;
    identity.write(&options.key)?;
    writeln!(
        io::stderr(),
        "wrote {}; keep it off the members' hosts; their settings need this line:",
        options.key.display()
    )?;
    writeln!(io::stdout(), "ca_public_key = \"{}\"", identity.public())?;
    Ok(ExitCode::SUCCESS)
}

/// Lines of members on standard input.
fn lines_from_input() -> anyhow::Result<String> {
    let mut lines = String::new();
    io::stdin().read_to_string(&mut lines).context("reading the member's lines from standard input")?;
    if !lines.contains("[[member]]") {
        bail!("no `[[member]]` on standard input: it takes the lines that `longhaul overlay init` printed");
    }
    Ok(lines)
}

pub(super) fn certify(options: &CertifyOptions) -> anyhow::Result<ExitCode> {
    if options.valid.as_secs() == 0 {
        bail!("`--valid` is less than a second: nobody would be let in");
    }
    let authority = Identity::read(&options.key)?;
    let lines = lines_from_input()?;
    let members = read_lines(&lines).map_err(anyhow::Error::msg)?;
    let [member] = members.as_slice() else {
        bail!("lines of {} members on standard input; a certificate is for one", members.len());
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
    writeln!(io::stdout(), "{text}")?;
    writeln!(
        io::stderr(),
        "{} is a member until {}; its settings need `certificate` and `ca_public_key`",
        member.name,
        measure::utc_at(certificate.until_utc_s, 0)
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses members whom the settings list already, perhaps by another name.
fn none_is_listed(config: &Path, lines: &str) -> anyhow::Result<()> {
    let listed = Settings::read(config)?.members.get();
    for new in read_lines(lines).map_err(anyhow::Error::msg).context("the member's lines")? {
        if let Some(there) = listed.values().find(|m| m.key == new.key) {
            bail!(
                "{} lists the member {} already, as {}; what is there stays: to change it, edit its lines there",
                config.display(),
                new.name,
                there.name
            );
        }
    }
    Ok(())
}

/// Checks what a file is to have in it, before it takes the place of what is there, beside which are the files that it names.
fn checked(config: &Path, text: &str) -> anyhow::Result<Settings> {
    let draft = config.with_extension("toml.new");
    let _ = fs::remove_file(&draft);
    new_file(&draft, text)?;
    let read = Settings::read(&draft);
    let _ = fs::remove_file(&draft);
    // The draft is nothing that anybody knows.
    let of_file = |e| {
        if let OverlayError::Settings { what, .. } = e {
            OverlayError::Settings { path: config.to_owned(), what }
        } else {
            e
        }
    };
    Ok(read.map_err(of_file)?)
}

pub(super) fn join(options: &JoinOptions) -> anyhow::Result<ExitCode> {
    let config = &options.config.config;
    let before = fs::read_to_string(config).with_context(|| format!("reading {}", config.display()))?;
    let lines = lines_from_input()?;
    let after = joined(&before, &lines)
        .map_err(anyhow::Error::msg)
        .with_context(|| format!("adding to {}", config.display()))?;
    none_is_listed(config, &lines)?;
    let members = checked(config, &after)?.members.get().len();
    write_text(config, &after)?;
    let (file, others) = (config.display(), show::others(members));
    writeln!(
        io::stderr(),
        "{file} has {others}; where it runs, `longhaul overlay reload --config {file}`, as its user or root, lets it know them"
    )?;
    Ok(ExitCode::SUCCESS)
}
