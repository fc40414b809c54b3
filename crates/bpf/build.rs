//! Compiles the BPF programs with clang.

use std::path::{Path, PathBuf};
use std::{env, error, ffi};

use libbpf_cargo::SkeletonBuilder;

const SOURCE: &str = "../../bpf/classify.bpf.c";

fn main() -> Result<(), Box<dyn error::Error>> {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=CLANG");
    let object = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?).join("classify.bpf.o");
    let mut builder = SkeletonBuilder::new();
    builder.source(SOURCE).obj(&object).clang_args(arguments());
    if let Some(clang) = env::var_os("CLANG") {
        builder.clang(clang);
    }
    builder.build().map_err(|e| format!("compiling {SOURCE} needs clang and the kernel's headers: {e:#}"))?;
    Ok(())
}

/// `v3` has 32-bit arithmetic; every kernel with `bpf_loop` has it. For the target `bpf`, clang does not look where Debian
/// and Ubuntu keep the headers of an architecture (`asm/types.h`).
fn arguments() -> Vec<ffi::OsString> {
    let mut arguments: Vec<ffi::OsString> = ["-mcpu=v3", "-Wall", "-Wextra", "-Werror"].map(Into::into).to_vec();
    let headers = format!("/usr/include/{}-linux-gnu", env::consts::ARCH);
    if Path::new(&headers).is_dir() {
        arguments.extend(["-idirafter".into(), headers.into()]);
    }
    arguments
}
