//! `barewire run`: starts a parallel program and stays until nothing of it is left.
//!
//! The launcher plans ([`plan`]), starts one agent a host ([`mod@start`], [`door`]), keeps the job's directory (the core's
//! hub), prints what ranks print ([`output`]) and decides how it all ends ([`outcome`]).

pub mod arguments;
pub mod ask;
pub mod door;
mod explain;
mod hosts;
mod input;
mod launch;
pub mod options;
pub mod outcome;
mod output;
mod plan;
mod printer;
pub mod remotes;
pub mod start;
pub mod tree;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::bail;
use barewire_core::boot::Environment;
use clap::{Args, Command, FromArgMatches};
use options::RunOptions;

/// Runs the job that `words` describe; `name` is what the user typed before them.
pub fn run(name: &str, words: impl IntoIterator<Item = OsString>) -> anyhow::Result<ExitCode> {
    let command = command(name);
    let mut parts = Vec::new();
    for (index, part) in arguments::normalise(&command, words).into_iter().enumerate() {
        arguments::check_variables(&part)?;
        let line = std::iter::once(OsString::from(name)).chain(part);
        let matches = command.clone().try_get_matches_from(line).unwrap_or_else(|error| refuse(name, &error));
        if index > 0 {
            refuse_job_options(&matches)?;
        }
        parts.push(RunOptions::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()));
    }
    start(&parts)
}

/// Says what is wrong with the words, and for a program that was forgotten how it is written.
fn refuse(name: &str, error: &clap::Error) -> ! {
    if error.kind() == clap::error::ErrorKind::MissingRequiredArgument {
        eprintln!(
            "error: there is no program to start\n\n  write it after the options: {name} -n 4 ./program arguments"
        );
        eprintln!(
            "  to see whether starting works here: {name} -n 4 barewire hello\n\nFor all options, try '--help'."
        );
        std::process::exit(2);
    }
    error.exit()
}

/// Runs a job of these programs; the first one's options hold for the job.
pub fn start(parts: &[RunOptions]) -> anyhow::Result<ExitCode> {
    Environment::capture()?;
    let plan = plan::Plan::new(parts)?;
    if parts[0].explain {
        eprint!("{}", explain::explain(&plan, &parts[0]));
    }
    let code = launch::Launch::new(plan, &parts[0])?.run()?;
    Ok(ExitCode::from(code))
}

/// The command line's definition under this name.
pub fn command(name: &str) -> Command {
    let about = "Start a parallel program on this host or on several";
    let usage = format!("{name} [OPTIONS] [--] PROGRAM [ARGUMENTS] [: [-n N] PROGRAM [ARGUMENTS]]…");
    let command = RunOptions::augment_args(Command::new(name.to_owned()));
    command.about(about).version(env!("CARGO_PKG_VERSION")).override_usage(usage).max_term_width(110)
}

/// Options after a colon belong to that program alone.
fn refuse_job_options(matches: &clap::ArgMatches) -> anyhow::Result<()> {
    let typed =
        |id: &&clap::Id| matches.value_source(id.as_str()) == Some(clap::parser::ValueSource::CommandLine);
    let of_the_job = |id: &&clap::Id| !options::OF_ONE_PROGRAM.contains(&id.as_str());
    match matches.ids().filter(typed).find(|id| of_the_job(id) && id.as_str() != "RunOptions") {
        Some(id) => bail!(
            "--{} holds for the whole job: write it before the first program",
            id.as_str().replace('_', "-")
        ),
        None => Ok(()),
    }
}
