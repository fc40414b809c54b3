//! Compiles the BPF programs with clang.

use std::path::{Path, PathBuf};
use std::{env, error, ffi};

use libbpf_cargo::SkeletonBuilder;

const FOLDER: &str = "../../bpf";
const PROGRAMS: [&str; 5] = ["classify", "fast", "htcp", "replay", "trace"];

fn main() -> Result<(), Box<dyn error::Error>> {
    println!("cargo::rerun-if-changed={FOLDER}");
    println!("cargo::rerun-if-env-changed=CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    PROGRAMS.iter().try_for_each(|program| compile(program, &out))
}

fn compile(program: &str, out: &Path) -> Result<(), Box<dyn error::Error>> {
    let source = format!("{FOLDER}/{program}.bpf.c");
    let mut builder = SkeletonBuilder::new();
    builder.source(&source).obj(out.join(format!("{program}.bpf.o"))).clang_args(arguments());
    if let Some(clang) = env::var_os("CLANG") {
        builder.clang(clang);
    }
    builder.build().map_err(|e| format!("compiling {source} needs clang and the kernel's headers: {e:#}"))?;
    Ok(())
}

/// Hooks have the parameters that the kernel gives them, needed or not. `v3` has 32-bit arithmetic; every kernel with `bpf_loop` has it. For the target `bpf`, clang does not look where Debian
/// and Ubuntu keep the headers of an architecture (`asm/types.h`).
fn arguments() -> Vec<ffi::OsString> {
    let mut arguments: Vec<ffi::OsString> =
        ["-mcpu=v3", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"].map(Into::into).to_vec();
    let headers = format!("/usr/include/{}-linux-gnu", env::consts::ARCH);
    if Path::new(&headers).is_dir() {
        arguments.extend(["-idirafter".into(), headers.into()]);
    }
    arguments
}
