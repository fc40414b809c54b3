//! Atomically written file: a draft in the same directory is renamed once it is complete, so that a full disk leaves no
//! partial file.
//!
//! Anything but a regular file (a device, a FIFO, standard output as `/dev/stdout`) is opened and written directly. A
//! symbolic link still points to the file that is replaced.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use tempfile::NamedTempFile;

use crate::output::print_message;
use crate::target;

/// Mode of a new file before the umask: readable by all users.
const NEW_FILE_MODE: u32 = 0o644;
/// Mask of the owner's permissions.
const OWNER_MASK: u32 = 0o700;
/// Maximum number of symbolic links that are followed, as in Linux (`MAXSYMSYMLINKS_MAX`).
const SYMLINKS_MAX: usize = 40;

/// Writable target, without content so far.
#[derive(Debug)]
pub(crate) struct WholeFile {
    /// Path as given by the user.
    path: PathBuf,
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// Draft that replaces or creates `target`.
    Draft { draft: NamedTempFile, target: PathBuf, existing: Option<Box<Metadata>> },
    /// Device, FIFO or standard output.
    Direct(File),
}

impl WholeFile {
    /// Opens the target early, so that an unwritable path fails before the work. Opening a FIFO waits for its reader,
    /// until the user interrupts the command.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let target = target(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: path.to_owned(), target })
    }

    /// Writes the whole content and renames the draft.
    pub(crate) fn write(
        self,
        write: &mut dyn FnMut(&mut BufWriter<&mut File>) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let Self { path, target } = self;
        let fill = |file: &mut File| {
            let mut out = BufWriter::new(file);
            write(&mut out).and_then(|()| out.flush())
        };
        fill_and_rename(target, fill).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Replaces the content of a file, or creates it.
pub(crate) fn write_text(path: &Path, text: &str) -> anyhow::Result<()> {
    WholeFile::open(path)?.write(&mut |out| out.write_all(text.as_bytes()))
}

fn target(path: &Path) -> anyhow::Result<Target> {
    let existing = match fs::metadata(path) {
        Ok(metadata) => Some(metadata),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(e.into()),
    };
    if let Some(existing) = &existing {
        // `/dev/stdout` of `longhaul ... > file` is that file, to which the shell may write more later.
        let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        if stdout.metadata().is_ok_and(|m| (m.dev(), m.ino()) == (existing.dev(), existing.ino())) {
            return Ok(Target::Direct(stdout));
        }
        ensure!(!existing.is_dir(), "it is a directory");
        ensure!(!existing.file_type().is_socket(), "it is a socket");
        if !existing.is_file() {
            return Ok(Target::Direct(target::open(path, OpenOptions::new().write(true))?));
        }
        // A rename would replace a file that its mode protects against writing.
        OpenOptions::new().write(true).open(path)?;
    }
    let target = resolve_links(path)?;
    let directory = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let mode = existing.as_ref().map_or(NEW_FILE_MODE, |m| m.mode() & OWNER_MASK);
    let draft = tempfile::Builder::new()
        .prefix(".longhaul-")
        .permissions(fs::Permissions::from_mode(mode))
        .tempfile_in(directory)
        .map_err(|e| without_draft(&e))
        .with_context(|| format!("cannot create a file in {}", directory.display()))?;
    Ok(Target::Draft { draft, target, existing: existing.map(Box::new) })
}

/// Error without the random name of the draft, which `tempfile` appends.
fn without_draft(error: &io::Error) -> io::Error {
    let text = error.to_string();
    io::Error::new(error.kind(), text.split(" at path ").next().unwrap_or_default().to_owned())
}

/// Resolves symbolic links; the target need not exist.
fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    let mut at = path.to_owned();
    for _ in 0..SYMLINKS_MAX {
        match fs::read_link(&at) {
            Ok(to) => at = at.parent().unwrap_or_else(|| Path::new("")).join(to),
            // Not a link, or it does not exist.
            Err(_) => return Ok(at),
        }
    }
    Err(io::Error::other(format!("more than {SYMLINKS_MAX} symbolic links in a row")))
}

fn fill_and_rename(output: Target, fill: impl FnOnce(&mut File) -> io::Result<()>) -> anyhow::Result<()> {
    match output {
        Target::Direct(mut file) => Ok(fill(&mut file)?),
        Target::Draft { mut draft, target, existing } => {
            fill(draft.as_file_mut())?;
            if let Some(existing) = existing {
                copy_owner_and_mode(&existing, draft.as_file(), &target)?;
            }
            // The rename must not replace a file that has changed its type meanwhile.
            let is_replaceable = fs::symlink_metadata(&target).map_or(true, |m| m.is_file());
            ensure!(is_replaceable, "{} is no longer a regular file", target.display());
            draft.persist(&target)?;
            Ok(())
        }
    }
}

/// Copies owner and mode of the replaced file; without the privilege, only the user gets access, and a warning is
/// printed.
fn copy_owner_and_mode(before: &Metadata, new: &File, target: &Path) -> io::Result<()> {
    let now = new.metadata()?;
    let is_alike = (before.uid(), before.gid()) == (now.uid(), now.gid());
    match if is_alike { Ok(()) } else { fchown(new, Some(before.uid()), Some(before.gid())) } {
        Ok(()) => new.set_permissions(before.permissions()),
        Err(e) => {
            print_message(&format!(
                "longhaul: {} now belongs to user {} and group {} instead of user {} and group {}: {e}",
                target.display(),
                now.uid(),
                now.gid(),
                before.uid(),
                before.gid()
            ));
            Ok(())
        }
    }
}
