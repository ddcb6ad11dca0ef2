//! `barewire info`: what is here, and what Barewire would use of it.

use std::process::ExitCode;

use anyhow::Context;
use barewire_core::boot::{self, environment};
use barewire_core::job::Directory;
use rustix::process::Resource;

use crate::agent::Topology;
use crate::machine;
use crate::run::ask;

/// Options of `barewire info`.
#[derive(Debug, clap::Args)]
pub struct InfoOptions {
    /// Say why each thing was chosen, too, and which wires the jobs use that run here now
    #[arg(long)]
    explain: bool,
    /// Of the job of this launcher (its process id), say which wire each pair of ranks uses, and why
    #[arg(long, value_name = "PID")]
    job: Option<u32>,
}

/// Prints what is here.
pub fn run(options: &InfoOptions) -> anyhow::Result<ExitCode> {
    if let Some(launcher) = options.job {
        print!("{}", running(launcher)?);
        return Ok(ExitCode::SUCCESS);
    }
    host();
    wires(options.explain);
    interfaces(options.explain);
    limits();
    variables();
    job();
    if options.explain {
        for launcher in ask::launchers() {
            if let Some(text) = ask::ask(launcher) {
                println!("running     the job of launcher {launcher}; {text}");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Which wires a running job uses.
fn running(launcher: u32) -> anyhow::Result<String> {
    ask::ask(launcher).with_context(|| {
        let others: Vec<_> = ask::launchers().iter().map(ToString::to_string).collect();
        let others = if others.is_empty() {
            "no launcher runs here".into()
        } else {
            format!("running here: {}", others.join(", "))
        };
        format!("process {launcher} is no launcher of yours that answers; {others}")
    })
}

fn host() {
    let system = rustix::system::uname();
    let topology = Topology::here();
    let cores: std::collections::BTreeSet<_> =
        topology.processors().iter().map(|p| (p.package, p.core)).collect();
    println!("barewire {}", env!("CARGO_PKG_VERSION"));
    println!(
        "host        {}, Linux {}",
        system.nodename().to_string_lossy(),
        system.release().to_string_lossy()
    );
    println!("processors  {} usable, on {} cores", topology.processors().len(), cores.len());
    if let Some(granted) = machine::cgroup_processors() {
        println!("            {granted:.1} granted by the control group");
    }
    if let (Some(total), Some(free)) = (machine::memory("MemTotal"), machine::memory("MemAvailable")) {
        println!("memory      {}, {} available", machine::bytes(total), machine::bytes(free));
    }
}

fn wires(explain: bool) {
    println!("wires       self  within a process");
    let shm = rustix::fs::memfd_create("barewire-info", rustix::fs::MemfdFlags::CLOEXEC);
    match shm {
        Ok(_) => println!("            shm   between processes of one host"),
        Err(error) => println!("            shm   not available: memfd_create: {error}"),
    }
    println!("            tcp   between hosts");
    if explain {
        println!(
            "            the first that reaches a peer is used: self, then shm if both processes are on one host and"
        );
        println!(
            "            can pass each other memory, then tcp at the first address a handshake proves reachable"
        );
    }
}

fn interfaces(explain: bool) {
    for (index, interface) in machine::interfaces().iter().enumerate() {
        let title = if index == 0 { "interfaces" } else { "" };
        let speed = interface.speed.map(|speed| format!(", {speed} Mb/s")).unwrap_or_default();
        let mtu = interface.mtu.map(|mtu| format!(", mtu {mtu}")).unwrap_or_default();
        let addresses =
            if interface.addresses.is_empty() { "no address".into() } else { interface.addresses.join(" ") };
        println!(
            "{title:<11} {:<8} {} ({}, {}{mtu}{speed})",
            interface.name, addresses, interface.state, interface.driver
        );
        if explain {
            let reason = match (interface.name.as_str(), interface.addresses.is_empty()) {
                ("lo", _) => "reaches this host only: offered last",
                (_, true) => "has no address: not offered to others",
                _ => "offered to others; used if they reach it (choose one with --interface)",
            };
            println!("{:<20} {reason}", "");
        }
    }
}

fn limits() {
    let names = [
        ("open files", Resource::Nofile),
        ("processes", Resource::Nproc),
        ("locked bytes", Resource::Memlock),
    ];
    for (index, (name, resource)) in names.into_iter().enumerate() {
        let title = if index == 0 { "limits" } else { "" };
        let (now, most) = machine::limit(resource);
        println!(
            "{title:<11} {name:<12} {} (can be raised to {})",
            machine::shown(now),
            machine::shown(most)
        );
    }
}

fn variables() {
    for (index, (name, meaning)) in environment::KNOWN.iter().enumerate() {
        let title = if index == 0 { "variables" } else { "" };
        let value = std::env::var(name).map(|value| format!("={value}")).unwrap_or_default();
        println!("{title:<11} {name}{value}: {meaning}");
    }
}

fn job() {
    match boot::from_environment() {
        Ok(job) => {
            let how = match job.directory {
                Directory::Boot(_) => "found through its launcher",
                _ => "nobody else was started with it",
            };
            println!("job         this process is rank {} of {}: {how}", job.rank, job.size);
        }
        Err(error) => println!("job         a program started like this one would refuse: {error}"),
    }
}
