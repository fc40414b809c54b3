use std::io;

/// Reason why a congestion control was not loaded, listed or unloaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CongestionError {
    /// The process lacks the privilege.
    #[error(
        "{operation}: not permitted; this needs CAP_BPF and CAP_NET_ADMIN in the host's own user namespace: run it as root"
    )]
    Privilege {
        /// The operation.
        operation: &'static str,
    },
    /// The kernel does not describe its types.
    #[error(
        "this kernel has no BTF (/sys/kernel/btf/vmlinux), which the program needs to find the kernel's fields: it was built without \
         CONFIG_DEBUG_INFO_BTF"
    )]
    NoBtf,
    /// The kernel does not support congestion controls in BPF.
    #[error(
        "Linux {release} does not support these congestion controls in BPF, which need Linux 6.1 or later with CONFIG_BPF_JIT"
    )]
    TooOld {
        /// The running kernel.
        release: String,
    },
    /// The verifier refused the program.
    #[error("the verifier of this kernel (Linux {release}) refused {name}: {source}. The end of its log:\n{log}")]
    Refused {
        /// Name of the congestion control.
        name: String,
        /// The running kernel.
        release: String,
        /// The last lines of the verifier's log.
        log: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The name is not valid.
    #[error("`{name}` cannot be the name of a congestion control: {reason}")]
    Name {
        /// The given name.
        name: String,
        /// The fault.
        reason: &'static str,
    },
    /// The congestion control is loaded already.
    #[error(
        "{name} is loaded already; `longhaul cc unload {name}` first, or load it under another name, such as {name}_2"
    )]
    Loaded {
        /// Name of the congestion control.
        name: String,
    },
    /// The kernel has a congestion control of that name that longhaul did not load.
    #[error("this kernel has another congestion control {name}; load this one under another name, such as {name}_bpf")]
    Taken {
        /// Name of the congestion control.
        name: String,
    },
    /// longhaul has loaded no congestion control of that name.
    #[error("longhaul has loaded no {name}")]
    NotLoaded {
        /// Name of the congestion control.
        name: String,
    },
    /// Any other refusal.
    #[error("{operation}: {source}")]
    System {
        /// The operation.
        operation: String,
        /// The kernel's error.
        source: io::Error,
    },
}

impl CongestionError {
    pub(super) fn system(operation: impl Into<String>, source: io::Error) -> Self {
        Self::System { operation: operation.into(), source }
    }
}
