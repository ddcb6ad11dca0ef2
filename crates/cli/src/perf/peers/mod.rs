//! The libraries we are compared with: where they are, how they are started, and what installs them.

mod mpi;
mod programs;
mod rust;
mod tools;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use barewire_core::boot::environment::edits;

use super::driver::Driver;
use super::options::Via;
use super::session::Session;
use super::worker::{Answer, Command};

pub use mpi::ours;

/// What is installed, and how to install the rest
#[derive(Debug, clap::Args)]
pub struct PeersOptions {
    /// Install what is missing: what comes from PyPI into a Python environment each, the Rust libraries by building a program
    /// over them
    #[arg(long)]
    install: bool,
    /// Only these, by their names or parts of them [default: all]
    #[arg(value_name = "PEER")]
    only: Vec<String>,
}

/// Somebody to be compared with. Adding one is an implementation of this and a line in [`all`].
pub trait Peer {
    /// What people call it.
    fn name(&self) -> &'static str;
    /// Which layer of ours does the same job.
    fn beside(&self) -> &'static str;
    /// What to type if it is not here.
    fn missing(&self) -> Option<String>;
    /// Gets it, if that is ours to do; says whether it was.
    fn install(&self) -> Result<bool> {
        Ok(false)
    }
    /// Its version, as it tells itself.
    fn version(&self) -> String;
    /// Whether it can do this at all.
    fn can(&self, what: &str, via: Via, ranks: u32, bytes: usize) -> bool;
    /// Starts it.
    fn start(&self, ranks: u32, via: Via, pin: bool) -> Result<Box<dyn Running>>;
}

/// A peer that has been started.
pub trait Running {
    /// Does what a command says, and waits for what it came to.
    fn ask(&mut self, command: &Command) -> Result<Answer>;
}

impl Running for Session {
    fn ask(&mut self, command: &Command) -> Result<Answer> {
        let verb = command.parts().1.to_owned();
        Session::ask(self, &Command { what: verb, ..command.clone() })
    }
}

/// Everybody we know.
pub fn all() -> Vec<Box<dyn Peer>> {
    let mut all: Vec<Box<dyn Peer>> = Vec::new();
    all.extend(mpi::Mpi::ALL.into_iter().map(|peer| Box::new(peer) as Box<dyn Peer>));
    all.extend(tools::all());
    all.extend(programs::all());
    all
}

/// One of our own layers in the place of a peer: a comparison with ourselves has to end in a tie.
pub struct Ourselves {
    driver: Driver,
    api: String,
    via: Via,
    ranks: u32,
}

impl Ourselves {
    pub fn new(driver: Driver, api: &str, via: Via, ranks: u32) -> Ourselves {
        Ourselves { driver, api: api.to_owned(), via, ranks }
    }
}

impl Running for Ourselves {
    fn ask(&mut self, command: &Command) -> Result<Answer> {
        let (_, verb) = command.parts();
        self.driver.ask_command(
            &self.api,
            self.via,
            self.ranks,
            &Command { what: format!("{}/{verb}", self.api), ..command.clone() },
        )
    }
}

/// The launcher of the MPI in this folder, if it is installed.
pub fn mpiexec(folder: &str) -> Option<PathBuf> {
    home().ok().map(|home| home.join(folder).join("bin/mpiexec")).filter(|launcher| launcher.exists())
}

/// Where peers live: `BAREWIRE_PEERS`, or a folder in the user's cache.
fn home() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("BAREWIRE_PEERS") {
        return Ok(folder.into());
    }
    let home = std::env::var_os("HOME")
        .context("HOME is not set; set BAREWIRE_PEERS to a folder for other libraries")?;
    Ok(PathBuf::from(home).join(".cache/barewire/peers"))
}

/// The first line that a command prints, or nothing.
fn first_line(command: &mut std::process::Command) -> String {
    let output = command.stdin(std::process::Stdio::null()).output();
    let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

/// Whether a command is in PATH.
fn in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Whether one of those asked for is called so, or so in part.
pub fn is_asked(asked: &[String], name: &str) -> bool {
    let plain = |name: &str| name.replace([' ', '-', '_'], "").to_lowercase();
    asked.iter().any(|asked| plain(name).contains(&plain(asked)))
}

/// Fails if nobody is called like one of those asked for; says whom we know.
pub fn check(asked: &[String], known: &[&str]) -> Result<()> {
    let is_known = |one: &String| known.iter().any(|name| is_asked(std::slice::from_ref(one), name));
    let Some(wrong) = asked.iter().find(|one| !is_known(one)) else { return Ok(()) };
    let edits = |name: &str| edits(&wrong.to_lowercase(), &name.to_lowercase());
    let near = known.iter().min_by_key(|name| edits(name)).filter(|name| edits(name) <= 2);
    let hint = near.map_or(String::new(), |near| format!("did you mean {near}? "));
    bail!("there is no peer called {wrong}; {hint}there are {}", known.join(", "));
}

/// Lists the peers, or installs them. One that cannot be had does not keep the others away.
pub fn run(options: &PeersOptions) -> Result<()> {
    let (all, mut failed) = (all(), Vec::new());
    check(&options.only, &all.iter().map(|peer| peer.name()).collect::<Vec<_>>())?;
    let wanted = |name: &str| options.only.is_empty() || is_asked(&options.only, name);
    for peer in all.into_iter().filter(|peer| wanted(peer.name())) {
        let name = peer.name();
        let Some(command) = peer.missing() else {
            println!("{name:<12} {}", peer.version());
            continue;
        };
        match if options.install { peer.install() } else { Ok(false) } {
            Ok(true) => println!("{name:<12} installed: {}", peer.version()),
            Ok(false) => println!("{name:<12} missing; install it with: {command}"),
            Err(error) => {
                eprintln!("{name:<12} not installed: {error:#}");
                failed.push(name);
            }
        }
    }
    if !failed.is_empty() {
        bail!("not installed: {}", failed.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nobody_has_is_told_with_the_nearest_that_somebody_has() {
        let known = ["Open MPI", "MPICH", "zenoh"];
        let check = |asked: &str| check(&[asked.to_owned()], &known).map_err(|error| error.to_string());
        assert_eq!((check("mpi"), check("OPEN"), check("zenoh")), (Ok(()), Ok(()), Ok(())));
        let near = "there is no peer called mpihc; did you mean MPICH? there are Open MPI, MPICH, zenoh";
        assert_eq!(check("mpihc"), Err(near.to_owned()));
        assert_eq!(
            check("nobody"),
            Err("there is no peer called nobody; there are Open MPI, MPICH, zenoh".to_owned())
        );
    }
}
