//! The command line: one binary, many names.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use barewire_core::boot::environment;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::{agent, run};

/// Start, measure and inspect parallel programs.
#[derive(Debug, Parser)]
#[command(name = "barewire", version, arg_required_else_help = true, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Sub,
}

#[derive(Debug, Subcommand)]
enum Sub {
    /// Start a parallel program on this host or on several
    Run(Box<run::options::RunOptions>),
    /// Say who this process is in its job: the smallest parallel program
    Hello(crate::hello::HelloOptions),
    /// Measure what each layer costs, beside the physical limit
    Perf(crate::perf::PerfOptions),
    /// Keep a place where programs that start by themselves meet
    Rendezvous(crate::rendezvous::RendezvousOptions),
    /// Show what is here: processors, wires, interfaces, limits, variables, job
    Info(crate::info::InfoOptions),
    /// Look for what hurts people, and say what to type
    Doctor(crate::doctor::DoctorOptions),
    /// Lay out programs, libraries, headers, man pages and completions under a prefix
    Install(crate::install::InstallOptions),
    /// Print the completions of a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Started by `doctor`: finds out who reaches whom
    #[command(hide = true)]
    Probe(crate::doctor::ProbeOptions),
    /// Started by `run`: looks after the ranks of one host
    #[command(hide = true)]
    Agent(agent::AgentOptions),
}

impl Sub {
    /// Whether it can end wherever it is when nobody reads what it prints: it looks after nobody, and nobody after it.
    fn only_prints(&self) -> bool {
        let is_rank = std::env::var_os(environment::BOOT_FD).is_some();
        match self {
            Self::Perf(_) | Self::Info(_) | Self::Doctor(_) | Self::Install(_) | Self::Completions { .. } => {
                !is_rank
            }
            Self::Run(_) | Self::Hello(_) | Self::Rendezvous(_) | Self::Probe(_) | Self::Agent(_) => false,
        }
    }
}

/// Runs the command line `words`, the program's name first.
pub fn main(words: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let name = words.first().and_then(|name| Path::new(name).file_name()).and_then(|name| name.to_str());
    if let Some(name @ ("mpirun" | "mpiexec")) = name {
        return run::run(name, words.iter().skip(1).cloned());
    }
    // `run` has habits of its own: its words are read where they are understood.
    if words.get(1).is_some_and(|word| word == "run") {
        return run::run("barewire run", words.into_iter().skip(2));
    }
    let matches = definition().get_matches_from(words);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if cli.command.only_prints() {
        crate::signals::end_at_broken_pipes()?;
    }
    match cli.command {
        Sub::Run(options) => run::start(&[*options]),
        Sub::Hello(options) => crate::hello::run(&options),
        Sub::Perf(options) => crate::perf::run(&options),
        Sub::Rendezvous(options) => crate::rendezvous::run(&options),
        Sub::Info(options) => crate::info::run(&options),
        Sub::Doctor(options) => crate::doctor::run(&options),
        Sub::Install(options) => crate::install::run(&options),
        Sub::Completions { shell } => {
            std::io::stdout().write_all(&crate::install::completions(shell))?;
            Ok(ExitCode::SUCCESS)
        }
        Sub::Probe(options) => crate::doctor::probe(&options),
        Sub::Agent(options) => agent::run(&options).map(|()| ExitCode::SUCCESS),
    }
}

/// The whole command, for help, completions and man pages.
pub fn definition() -> clap::Command {
    Cli::command()
}
