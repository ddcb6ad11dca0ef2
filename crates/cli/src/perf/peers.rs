//! The libraries we are compared with: where they are, and how they are started.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// What is installed, and how to install the rest
#[derive(Debug, clap::Args)]
pub struct PeersOptions {
    /// Install what is missing, each into a Python environment of its own
    #[arg(long)]
    install: bool,
}

/// An MPI that can run the same program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    OpenMpi,
    Mpich,
    IntelMpi,
}

impl Peer {
    pub const ALL: [Peer; 3] = [Peer::OpenMpi, Peer::Mpich, Peer::IntelMpi];

    pub fn name(self) -> &'static str {
        match self {
            Peer::OpenMpi => "Open MPI",
            Peer::Mpich => "MPICH",
            Peer::IntelMpi => "Intel MPI",
        }
    }

    /// The package that brings it, and the folder it goes into.
    fn package(self) -> (&'static str, &'static str) {
        match self {
            Peer::OpenMpi => ("openmpi", "openmpi"),
            Peer::Mpich => ("mpich==5.0.2", "mpich"),
            Peer::IntelMpi => ("impi-rt", "impi-rt"),
        }
    }

    fn prefix(self) -> Result<PathBuf> {
        Ok(home()?.join(self.package().1))
    }

    /// Whether it is there.
    pub fn is_installed(self) -> bool {
        self.prefix().is_ok_and(|prefix| prefix.join("bin/mpiexec").exists())
    }

    /// Its launcher.
    pub fn launcher(self) -> Result<PathBuf> {
        Ok(self.prefix()?.join("bin/mpiexec"))
    }

    /// The command that starts `ranks` of the benchmark on it, compiled for it if need be.
    pub fn command(self, ranks: u32, tcp: bool) -> Result<Command> {
        let prefix = self.prefix()?;
        let program = self.compile(&prefix)?;
        let mut command = Command::new(prefix.join("bin/mpiexec"));
        command.args(["-n", &ranks.to_string()]);
        match self {
            Peer::OpenMpi => {
                command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
                if tcp {
                    command.args(["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]);
                }
            }
            Peer::Mpich => {
                command.env("LD_LIBRARY_PATH", prefix.join("lib"));
                if tcp {
                    command.env("MPIR_CVAR_NOLOCAL", "1");
                }
            }
            Peer::IntelMpi => {
                command.env("LD_LIBRARY_PATH", prefix.join("lib")).env("I_MPI_PIN", "0");
                command
                    .env("FI_PROVIDER_PATH", prefix.join("lib/libfabric/prov"))
                    .env("I_MPI_FABRICS", if tcp { "ofi" } else { "shm" });
                if tcp {
                    command.env("FI_PROVIDER", "tcp");
                }
            }
        }
        command.arg(program);
        Ok(command)
    }

    /// The benchmark for this library. MPICH and Intel MPI share a binary: the standard ABI.
    fn compile(self, prefix: &Path) -> Result<PathBuf> {
        const SOURCE: &str = include_str!("peers/mpi_bench.c");
        let (compiler, name) = match self {
            Peer::OpenMpi => (prefix.join("bin/mpicc"), "mpi_bench_openmpi"),
            Peer::Mpich | Peer::IntelMpi => (Peer::Mpich.prefix()?.join("bin/mpicc_abi"), "mpi_bench_abi"),
        };
        let folder = home()?.join("bench");
        std::fs::create_dir_all(&folder)?;
        let (source, program) = (folder.join("mpi_bench.c"), folder.join(name));
        if std::fs::read_to_string(&source).is_ok_and(|text| text == SOURCE) && program.exists() {
            return Ok(program);
        }
        std::fs::write(&source, SOURCE)?;
        let compiled = Command::new(&compiler).arg("-O2").arg(&source).arg("-o").arg(&program).status();
        let status = compiled.with_context(|| format!("running {}", compiler.display()))?;
        if !status.success() {
            bail!("{} could not compile the benchmark", compiler.display());
        }
        Ok(program)
    }
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

/// Lists the peers, or installs them.
pub fn run(options: &PeersOptions) -> Result<()> {
    for peer in Peer::ALL {
        let (package, _) = peer.package();
        if peer.is_installed() {
            println!("{:<10} installed in {}", peer.name(), peer.prefix()?.display());
        } else if options.install {
            println!("{:<10} installing {package} …", peer.name());
            install(&peer.prefix()?, package)?;
        } else {
            println!(
                "{:<10} missing; `barewire perf peers --install` installs {package} from PyPI",
                peer.name()
            );
        }
    }
    Ok(())
}

fn install(prefix: &Path, package: &str) -> Result<()> {
    let steps: [(&Path, Vec<&str>); 3] = [
        (Path::new("python3"), vec!["-m", "venv"]),
        (&prefix.join("bin/pip"), vec!["install", "--quiet", "--upgrade", "pip"]),
        (&prefix.join("bin/pip"), vec!["install", "--quiet", package]),
    ];
    for (at, (program, arguments)) in steps.into_iter().enumerate() {
        let mut command = Command::new(program);
        command.args(&arguments);
        if at == 0 {
            command.arg(prefix);
        }
        let status = command.status().with_context(|| format!("running {}", program.display()))?;
        if !status.success() {
            bail!("{command:?} failed; is python3-venv installed?");
        }
    }
    Ok(())
}
