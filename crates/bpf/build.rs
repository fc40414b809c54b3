//! Compiles the BPF programs with clang.

use std::path::{Path, PathBuf};
use std::{env, error, ffi};

use libbpf_cargo::SkeletonBuilder;

const SOURCE_DIRECTORY: &str = "../../bpf";
const PROGRAMS: [&str; 5] = ["classify", "fast", "htcp", "replay", "trace"];

fn main() -> Result<(), Box<dyn error::Error>> {
    println!("cargo::rerun-if-changed={SOURCE_DIRECTORY}");
    println!("cargo::rerun-if-env-changed=CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    PROGRAMS.iter().try_for_each(|program| compile(program, &out))
}

fn compile(program: &str, out: &Path) -> Result<(), Box<dyn error::Error>> {
    let source = format!("{SOURCE_DIRECTORY}/{program}.bpf.c");
    let mut builder = SkeletonBuilder::new();
    builder.source(&source).obj(out.join(format!("{program}.bpf.o"))).clang_args(arguments());
    if let Some(clang) = env::var_os("CLANG") {
        builder.clang(clang);
    }
    builder.build().map_err(|e| format!("compiling {source} needs clang and the kernel's headers: {e:#}"))?;
    Ok(())
}

/// Compiler arguments.
///
/// Hooks have all parameters of the kernel's interface, including unused ones. `v3` has 32-bit arithmetic; every kernel
/// with `bpf_loop` supports it. For the target `bpf`, clang does not search the architecture's header directory of
/// Debian and Ubuntu (`asm/types.h`).
fn arguments() -> Vec<ffi::OsString> {
    let mut arguments: Vec<ffi::OsString> =
        ["-mcpu=v3", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"].map(Into::into).to_vec();
    let headers = format!("/usr/include/{}-linux-gnu", env::consts::ARCH);
    if Path::new(&headers).is_dir() {
        arguments.extend(["-idirafter".into(), headers.into()]);
    }
    arguments
}
