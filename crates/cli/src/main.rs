//! The `barewire` command.
#![forbid(unsafe_code)]

mod agent;
mod cli;
mod doctor;
mod hello;
mod info;
mod install;
mod machine;
mod perf;
mod poller;
mod proc;
mod rendezvous;
mod run;
mod shell;
mod signals;
mod wire;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::main(std::env::args_os().collect()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("barewire: {error:#}");
            ExitCode::from(2)
        }
    }
}
