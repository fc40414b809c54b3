use std::io;
use std::path::{Path, PathBuf};

/// Why an experiment could not run. Failures during a run are in its verdict instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// There is no such experiment, lab or node.
    #[error("{0}")]
    Scenario(#[from] scenario::Problems),
    /// An operating system call failed.
    #[error("{what}: {source}{}", hint(.source))]
    System {
        /// The operation that failed.
        what: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A node could not be set up.
    #[error("{place}: {source}{}", hint(&.source.source))]
    Kernel {
        /// The node.
        place: String,
        /// The failed operation and its error.
        source: kernel::KernelError,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A server in a node did not start.
    #[error("the server in node {node} did not start: {detail}")]
    Server {
        /// The node.
        node: String,
        /// Output of the server.
        detail: String,
    },
    /// A node's device could not be shaped.
    #[error("node {node}: {source}")]
    Shape {
        /// The node.
        node: String,
        /// The error.
        source: Box<host::shape::ShapeError>,
    },
    /// One of longhaul's congestion controls could not be loaded.
    #[error("congestion control {name}: {source}")]
    Congestion {
        /// Name in the experiment file.
        name: String,
        /// The error.
        source: Box<bpf::congestion::CongestionError>,
    },
    /// There is no such lab or node.
    #[error("{0}")]
    Unknown(String),
    /// Results cannot be merged.
    #[error("{0}")]
    Merge(String),
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

/// A hint where the message of the operating system has none.
fn hint(source: &io::Error) -> &'static str {
    // EMFILE and ENFILE of Linux; std::io::ErrorKind has no variant for them.
    match source.raw_os_error() {
        Some(24) => {
            "; the process is out of file descriptors: raise the limit (ulimit -n); each link needs two and each node one"
        }
        Some(23) => "; the machine is out of file descriptors: raise fs.file-max",
        _ => "",
    }
}
