use std::io;
use std::path::{Path, PathBuf};

/// Why an experiment could not be made. What goes wrong during a run is in its verdict instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The experiment file is wrong.
    #[error("{0}")]
    Scenario(#[from] scenario::Problems),
    /// The machine refused something.
    #[error("{what}: {source}{}", hint(.source))]
    System {
        /// What was attempted.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A node could not be set up.
    #[error("{place}: {source}{}", hint(&.source.source))]
    Kernel {
        /// Where.
        place: String,
        /// What failed.
        source: kernel::KernelError,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A server in a node did not come up.
    #[error("the server in node {node} did not start: {detail}")]
    Server {
        /// The node.
        node: String,
        /// What it printed.
        detail: String,
    },
    /// A node's device could not be shaped.
    #[error("node {node}: {source}")]
    Shape {
        /// The node.
        node: String,
        /// What went wrong.
        source: Box<host::shape::ShapeError>,
    },
    /// One of longhaul's congestion controls could not be loaded.
    #[error("congestion control {name}: {source}")]
    Congestion {
        /// As in the experiment's file.
        name: String,
        /// What went wrong.
        source: Box<bpf::congestion::CongestionError>,
    },
    /// There is no such lab or node.
    #[error("{0}")]
    Unknown(String),
}

impl LabError {
    pub(crate) fn system(what: impl ToString) -> impl FnOnce(io::Error) -> Self {
        let what = what.to_string();
        move |source| Self::System { what, source }
    }

    pub(crate) fn kernel(place: impl ToString) -> impl FnOnce(kernel::KernelError) -> Self {
        let place = place.to_string();
        move |source| Self::Kernel { place, source }
    }

    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::File { path: path.to_owned(), source }
    }
}

/// What to do about it, where the kernel's words do not tell.
fn hint(source: &io::Error) -> &'static str {
    // EMFILE and ENFILE of Linux; std has no kind for them.
    match source.raw_os_error() {
        Some(24) => {
            "; the process has no descriptor left: raise the limit (ulimit -n), each link takes two and each node one"
        }
        Some(23) => "; the machine has no descriptor left (fs.file-max)",
        _ => "",
    }
}
