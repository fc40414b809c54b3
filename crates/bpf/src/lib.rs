//! The BPF programs of longhaul, and what loads them into the kernel.
