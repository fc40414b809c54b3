//! A minimal lab: one host, one program. The tests run it, kill it and inspect what is left.
#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::print_stdout,
    reason = "helpers of tests are tests too"
)]

use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, ExitCode};

use kernel::{KernelError, LinkSettings, NamespaceInit, Netlink, Spawn};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["keeper"] => kernel::run_keeper(None),
        ["keeper", hosts] => kernel::run_keeper(Some(Path::new(hosts))),
        ["lab", script] => lab(&["keeper"], script),
        ["lab", script, hosts] => lab(&["keeper", hosts], script),
        ["threaded"] => {
            let _other = std::thread::spawn(std::thread::park);
            kernel::gain().map(|privilege| println!("{privilege}"))
        }
        ["join", keeper, network, script] => join(keeper.parse().unwrap(), Path::new(network), script),
        _ => panic!("{arguments:?}"),
    };
    if let Err(e) = done {
        println!("{e}");
        return ExitCode::from(2);
    }
    ExitCode::SUCCESS
}

/// Prints its state in a first line, runs the script on the host, and waits until standard input ends.
fn lab(keeper: &[&str], script: &str) -> Result<(), KernelError> {
    let privilege = kernel::gain()?;
    kernel::tun_available()?;
    let network = kernel::new_namespace().unwrap();
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            kernel::enter_namespace(&network).unwrap();
            kernel::write_sysctl("net.ipv4.ip_forward", "1")?;
            Netlink::open()?.set_link(1, &LinkSettings { up: Some(true), ..LinkSettings::default() })
        });
        inside.join().unwrap()
    })?;
    let program = std::env::current_exe().unwrap();
    let keeper = NamespaceInit::start(&program, keeper)?;
    println!("{} {} {} {privilege}", keeper.pid(), keeper.pid_namespace_inode(), network.as_raw_fd());
    let hostname = Some("node1".to_owned());
    let mut child = keeper.spawn(Spawn { network: &network, hostname, share_terminal: false, command: sh(script) })?;
    // The init process reaps the script at its own end: the lab need not wait for the program first.
    let _ = std::io::stdin().read_line(&mut String::new());
    keeper.end()?;
    println!("ended");
    assert!(child.try_wait().is_err(), "its status was taken");
    Ok(())
}

fn join(keeper: u32, network: &Path, script: &str) -> Result<(), KernelError> {
    kernel::join(keeper, network, Some("node1"))?;
    sh(script).status().unwrap();
    Ok(())
}

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args([OsStr::new("-c"), OsStr::new(script)]);
    command
}
