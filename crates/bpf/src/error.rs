use std::io;

use libbpf_rs::ErrorKind;

/// Reason why the classifier cannot be loaded or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfError {
    /// The process may not use BPF.
    #[error("{operation}: not permitted; this needs {capabilities} in the host's own user namespace: run it as root")]
    Privilege {
        /// The operation.
        operation: &'static str,
        /// The required capabilities.
        capabilities: &'static str,
    },
    /// The kernel has no BPF, or no classifiers.
    #[error("this kernel was built without BPF for traffic control (CONFIG_BPF_SYSCALL, CONFIG_NET)")]
    Missing,
    /// The kernel lacks a helper that the program calls.
    #[error("this kernel's BPF is too old: the classifier calls bpf_loop, which needs Linux 5.17 or later")]
    TooOld,
    /// The kernel's verifier refused the program.
    #[error("the kernel's verifier refused the classifier: {source}. The end of its log:\n{log}")]
    Refused {
        /// The last lines of the verifier's log.
        log: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A cgroup of a match does not exist.
    #[error(
        "the cgroup `{path}` cannot be opened: {reason}; the path is relative to the root of the version 2 hierarchy"
    )]
    Cgroup {
        /// The path from the policy.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The matches expand to too many rules.
    #[error("the matches expand to {rules} rules, more than {max}; networks and ports of one match multiply")]
    TooManyRules {
        /// Number of rules.
        rules: usize,
        /// Maximum number.
        max: usize,
    },
    /// The flow table would be too large.
    #[error("flow table size = {flows} is out of range (0-{max})")]
    TooManyFlows {
        /// Requested number of flows.
        flows: u32,
        /// Maximum number.
        max: u32,
    },
    /// There is no such program, or it is not the classifier.
    #[error("BPF program {program} is not a classifier of this version of longhaul, or was unloaded")]
    NotOurs {
        /// The requested program id.
        program: u32,
    },
    /// Any other refusal.
    #[error("{operation}: {source}")]
    System {
        /// The operation.
        operation: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl BpfError {
    /// Error of an operation that needs `capabilities`.
    pub(crate) fn failed(operation: &'static str, capabilities: &'static str, error: &libbpf_rs::Error) -> Self {
        Self::from_io(operation, capabilities, as_io(error))
    }

    pub(crate) fn from_io(operation: &'static str, capabilities: &'static str, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::PermissionDenied {
            Self::Privilege { operation, capabilities }
        } else if source.kind() == io::ErrorKind::Unsupported {
            Self::Missing
        } else {
            Self::System { operation, source }
        }
    }
}

/// I/O error equivalent of an error of libbpf, which exposes only its kind and text.
pub(crate) fn as_io(error: &libbpf_rs::Error) -> io::Error {
    const KINDS: [(ErrorKind, io::ErrorKind); 3] = [
        (ErrorKind::PermissionDenied, io::ErrorKind::PermissionDenied),
        (ErrorKind::Unsupported, io::ErrorKind::Unsupported),
        (ErrorKind::OutOfMemory, io::ErrorKind::OutOfMemory),
    ];
    let kind = KINDS.iter().find(|(theirs, _)| *theirs == error.kind()).map_or(io::ErrorKind::Other, |(_, kind)| *kind);
    io::Error::new(kind, format!("{error:#}"))
}
