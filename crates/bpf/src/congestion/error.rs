use std::io;

/// Why a congestion control was not loaded, listed or unloaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CongestionError {
    /// The process may not.
    #[error(
        "{operation}: not permitted. It needs CAP_BPF and CAP_NET_ADMIN in the host's own user namespace; run it as root"
    )]
    Privilege {
        /// What was tried.
        operation: &'static str,
    },
    /// The kernel does not describe its types.
    #[error(
        "this kernel has no BTF (/sys/kernel/btf/vmlinux), by which the program finds the kernel's fields: it was built without \
         CONFIG_DEBUG_INFO_BTF"
    )]
    NoBtf,
    /// The kernel cannot have congestion controls in BPF.
    #[error(
        "this kernel (Linux {release}) takes no congestion control in BPF: it takes 5.6 or later, built with CONFIG_BPF_JIT; pacing and the fields that these use take 6.1"
    )]
    TooOld {
        /// The running kernel.
        release: String,
    },
    /// The verifier refused the program.
    #[error("the verifier of this kernel (Linux {release}) refused {name}: {source}. The end of its log:\n{log}")]
    Refused {
        /// Which.
        name: String,
        /// The running kernel.
        release: String,
        /// The last lines of the verifier's log.
        log: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The name cannot be one.
    #[error("`{name}` cannot be the name of a congestion control: {reason}")]
    Name {
        /// As given.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// It is loaded.
    #[error(
        "{name} is loaded already; `longhaul cc unload {name}` first, or load it under another name, such as {name}_2"
    )]
    Loaded {
        /// Which.
        name: String,
    },
    /// The kernel has one of that name that is not longhaul's.
    #[error(
        "this kernel has a congestion control {name} that longhaul did not load; load ours under another name, such as {name}_bpf"
    )]
    Taken {
        /// Which.
        name: String,
    },
    /// None of that name is loaded by longhaul.
    #[error("longhaul has loaded no {name}")]
    NotLoaded {
        /// Which.
        name: String,
    },
    /// Any other refusal.
    #[error("{operation}: {source}")]
    System {
        /// What was tried.
        operation: String,
        /// What the kernel answered.
        source: io::Error,
    },
}

impl CongestionError {
    pub(super) fn system(operation: impl Into<String>, source: io::Error) -> Self {
        Self::System { operation: operation.into(), source }
    }
}
