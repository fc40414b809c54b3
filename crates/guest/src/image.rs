//! The kernel of the guest: where it is kept, and how it is built.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::GuestError;
use crate::error::last_lines;

/// Debian's packages that the build needs.
pub const PACKAGES: &str = "linux-source-6.1 flex bison bc make gcc libc6-dev xz-utils";
/// Programs that the build calls.
const TOOLS: [&str; 8] = ["sh", "make", "gcc", "flex", "bison", "bc", "tar", "xz"];
/// Directory of Debian's sources.
const SOURCES: &str = "/usr/src";
/// Name of Debian's archive with the only source that the build was tested with.
const ARCHIVE: &str = "linux-source-6.1.tar.xz";
/// Steps of the build.
const SCRIPT: &str = include_str!("build.sh");
/// Interval at which the build is checked.
const POLL: Duration = Duration::from_millis(500);

/// Source of a guest kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Debian's package of Linux 6.1 in /usr/src.
    Package,
    /// Archive or directory of a source tree of Linux 6.1.
    Tree(PathBuf),
    /// A kernel that is built already, with CONFIG_UML_TIME_TRAVEL_SUPPORT.
    Kernel(PathBuf),
}

/// The kernel in the user's cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    directory: PathBuf,
}

impl Image {
    /// The place of the kernel: `longhaul/guest` in the directory for caches of the XDG Base Directory Specification
    /// 0.8, by default ~/.cache.
    ///
    /// # Errors
    /// The environment names no such directory, or the machine is not x86-64.
    pub fn in_cache(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<Self, GuestError> {
        if std::env::consts::ARCH != "x86_64" {
            return Err(GuestError::Architecture(std::env::consts::ARCH));
        }
        let given = |name: &str| variable(name).filter(|directory| directory.is_absolute());
        let cache = given("XDG_CACHE_HOME").or_else(|| given("HOME").map(|home| home.join(".cache")));
        Ok(Self { directory: cache.ok_or(GuestError::NoCache)?.join("longhaul/guest") })
    }

    /// File of the kernel.
    ///
    /// # Errors
    /// It was not built yet.
    pub fn kernel(&self) -> Result<PathBuf, GuestError> {
        let file = self.place();
        if file.is_file() { Ok(file) } else { Err(GuestError::NoImage(file)) }
    }

    /// File of the kernel, whether it exists or not.
    pub fn place(&self) -> PathBuf {
        self.directory.join("linux")
    }

    /// Removes the kernel and what a build has left; returns whether there was a kernel.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(&self) -> Result<bool, GuestError> {
        let existed = self.place().exists();
        match fs::remove_dir_all(&self.directory) {
            Ok(()) => Ok(existed),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(GuestError::host(format!("cannot remove {}", self.directory.display()))(e)),
        }
    }

    /// Copies or builds a kernel, checks it with `check`, and keeps it in the place of an earlier one.
    ///
    /// `asked` returns how many times the user asked for an end.
    ///
    /// # Errors
    /// Tools or sources are missing, the build or the check failed, or the user interrupted it. An earlier kernel then
    /// stays.
    pub fn install(
        &self,
        source: &Source,
        asked: &dyn Fn() -> usize,
        check: &dyn Fn(&Path) -> Result<(), GuestError>,
    ) -> Result<PathBuf, GuestError> {
        let place = self.place();
        fs::create_dir_all(&self.directory)
            .map_err(GuestError::host(format!("cannot create {}", self.directory.display())))?;
        let work = tempfile::Builder::new()
            .prefix("build-")
            .tempdir_in(&self.directory)
            .map_err(GuestError::host(format!("cannot create a directory in {}", self.directory.display())))?;
        let new = work.path().join("linux");
        match source {
            Source::Kernel(file) => {
                fs::copy(file, &new).map_err(GuestError::host(format!("cannot copy {}", file.display())))?;
                let mode = fs::Permissions::from_mode(0o755);
                fs::set_permissions(&new, mode).map_err(GuestError::host("cannot make the kernel executable"))?;
            }
            Source::Tree(tree) => self.build(tree, work.path(), &new, asked)?,
            Source::Package => self.build(&packaged()?, work.path(), &new, asked)?,
        }
        check(&new)?;
        fs::rename(&new, &place).map_err(GuestError::host(format!("cannot create {}", place.display())))?;
        Ok(place)
    }

    /// Builds the kernel of a source tree.
    fn build(&self, tree: &Path, work: &Path, new: &Path, asked: &dyn Fn() -> usize) -> Result<(), GuestError> {
        let missing: Vec<&str> = TOOLS.into_iter().filter(|tool| !is_installed(tool)).collect();
        if !missing.is_empty() {
            return Err(GuestError::Tools { missing: missing.join(", ") });
        }
        if !tree.exists() {
            let missing = std::io::ErrorKind::NotFound.into();
            return Err(GuestError::host(format!("cannot read {}", tree.display()))(missing));
        }
        let build = work.join("tree");
        fs::create_dir(&build).map_err(GuestError::host(format!("cannot create {}", build.display())))?;
        let log = work.join("build.log");
        let file = File::create(&log).map_err(GuestError::host(format!("cannot create {}", log.display())))?;
        let copy = file.try_clone().map_err(GuestError::host(format!("cannot open {}", log.display())))?;
        let mut command = Command::new("sh");
        command.arg("-s").arg(tree).arg(&build).arg(new).stdin(Stdio::piped()).stdout(file).stderr(copy);
        kernel::lead_group(&mut command, Vec::new());
        let mut child = command.spawn().map_err(GuestError::host("cannot start sh"))?;
        if let Some(mut input) = child.stdin.take() {
            // A shell that ended early has a status that says so.
            let _ = input.write_all(SCRIPT.as_bytes());
        }
        let status = loop {
            match kernel::wait_child(&mut child, POLL).map_err(GuestError::host("cannot wait for the build"))? {
                Some(status) => break status,
                None if asked() > 0 => {
                    // Both fail only for a build that has ended.
                    let _ = kernel::kill_group(&child);
                    let _ = child.wait();
                    return Err(GuestError::Interrupted);
                }
                None => {}
            }
        };
        if status.success() {
            return Ok(());
        }
        let kept = self.directory.join("build.log");
        fs::copy(&log, &kept).map_err(GuestError::host(format!("cannot write {}", kept.display())))?;
        Err(GuestError::Build { reason: last_lines(&kept), log: kept })
    }
}

/// Debian's source of Linux 6.1.
fn packaged() -> Result<PathBuf, GuestError> {
    let archive = Path::new(SOURCES).join(ARCHIVE);
    if archive.is_file() { Ok(archive) } else { Err(GuestError::NoSource) }
}

/// Whether a program is in a directory of PATH.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
