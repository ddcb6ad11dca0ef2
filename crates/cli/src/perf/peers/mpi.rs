//! MPIs, all running one C program: MPICH, Intel's and ours the very same binary, by the standard ABI; Open MPI its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Peer, Running, first_line, home};
use crate::perf::driver::launcher;
use crate::perf::options::Via;
use crate::perf::session::Session;

const SOURCE: &str = include_str!("mpi_bench.c");
const HEADER: &str = include_str!("../../../../mpi-abi/include/mpi.h");

/// An MPI that can run the same program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpi {
    Open,
    Mpich,
    Intel,
}

impl Mpi {
    pub const ALL: [Mpi; 3] = [Mpi::Open, Mpi::Mpich, Mpi::Intel];

    /// The package that brings it, and the folder it goes into.
    fn package(self) -> (&'static str, &'static str) {
        match self {
            Mpi::Open => ("openmpi", "openmpi"),
            Mpi::Mpich => ("mpich==5.0.2", "mpich"),
            Mpi::Intel => ("impi-rt", "impi-rt"),
        }
    }

    fn prefix(self) -> Result<PathBuf> {
        Ok(home()?.join(self.package().1))
    }

    /// The benchmark for this library. MPICH and Intel MPI share a binary: the standard ABI.
    fn compile(self) -> Result<PathBuf> {
        let (compiler, name) = match self {
            Mpi::Open => (self.prefix()?.join("bin/mpicc"), "mpi_bench_openmpi"),
            Mpi::Mpich | Mpi::Intel => (Mpi::Mpich.prefix()?.join("bin/mpicc_abi"), "mpi_bench_abi"),
        };
        compile(&home()?.join("bench"), name, SOURCE, &mut Command::new(compiler), &[])
    }

    /// The command that starts `ranks` of the benchmark on it.
    fn command(self, ranks: u32, via: Via) -> Result<Command> {
        let (prefix, tcp) = (self.prefix()?, via == Via::Tcp);
        let mut command = Command::new(prefix.join("bin/mpiexec"));
        command.args(["-n", &ranks.to_string()]);
        match self {
            Mpi::Open => {
                command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
                if tcp {
                    command.args(["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]);
                }
            }
            Mpi::Mpich => {
                command.env("LD_LIBRARY_PATH", prefix.join("lib"));
                if tcp {
                    // UCX, which carries it then, would find shared memory by itself.
                    command.env("MPIR_CVAR_NOLOCAL", "1").env("UCX_TLS", "tcp,self");
                }
            }
            Mpi::Intel => {
                command.env("LD_LIBRARY_PATH", prefix.join("lib")).env("I_MPI_PIN", "0");
                command
                    .env("FI_PROVIDER_PATH", prefix.join("lib/libfabric/prov"))
                    .env("I_MPI_FABRICS", if tcp { "ofi" } else { "shm" });
                if tcp {
                    command.env("FI_PROVIDER", "tcp");
                }
            }
        }
        command.arg(self.compile()?);
        Ok(command)
    }
}

impl Peer for Mpi {
    fn name(&self) -> &'static str {
        match self {
            Mpi::Open => "Open MPI",
            Mpi::Mpich => "MPICH",
            Mpi::Intel => "Intel MPI",
        }
    }

    fn beside(&self) -> &'static str {
        "mpi"
    }

    fn missing(&self) -> Option<String> {
        let is_there = self.prefix().is_ok_and(|prefix| prefix.join("bin/mpiexec").exists());
        // Intel's package has no compiler; MPICH's makes the binary that both run.
        let compiles = *self != Mpi::Intel || Mpi::Mpich.missing().is_none();
        (!is_there || !compiles)
            .then(|| format!("barewire perf peers --install   # {} from PyPI", self.package().0))
    }

    fn install(&self) -> Result<bool> {
        let prefix = self.prefix()?;
        let package = self.package().0;
        println!("{:<12} installing {package} …", self.name());
        let pip = prefix.join("bin/pip");
        let steps: [(&Path, Vec<&str>); 3] = [
            (Path::new("python3"), vec!["-m", "venv"]),
            (&pip, vec!["install", "--quiet", "--upgrade", "pip"]),
            (&pip, vec!["install", "--quiet", package]),
        ];
        for (at, (program, arguments)) in steps.into_iter().enumerate() {
            let mut command = Command::new(program);
            command.args(&arguments);
            if at == 0 {
                command.arg(&prefix);
            }
            let status = command.status().with_context(|| format!("running {}", program.display()))?;
            if !status.success() {
                bail!("{command:?} failed; is python3-venv installed?");
            }
            println!("{:<12} step {} of 3 done", self.name(), at + 1);
        }
        Ok(true)
    }

    fn version(&self) -> String {
        let Ok(prefix) = self.prefix() else { return String::new() };
        let package = self.package().1;
        // What pip put there has its version in the name of a folder.
        let site = std::fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten();
        let found = site
            .flat_map(|entry| std::fs::read_dir(entry.path().join("site-packages")).into_iter().flatten())
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .find_map(|name| {
                let rest = name.strip_suffix(".dist-info")?.to_owned();
                let (found, version) = rest.split_once('-')?;
                (found.replace('_', "-") == package).then(|| version.to_owned())
            });
        found.unwrap_or_else(|| first_line(Command::new(prefix.join("bin/mpiexec")).arg("--version")))
    }

    fn can(&self, what: &str, via: Via, ranks: u32, bytes: usize) -> bool {
        // The program has so much memory for what everybody sends everybody.
        let shares = matches!(what, "alltoall" | "allgather" | "gather" | "scatter" | "reduce-scatter");
        let fits = !shares || bytes * ranks as usize <= 8 << 20;
        fits && via != Via::Sim
    }

    fn start(&self, ranks: u32, via: Via, pin: bool) -> Result<Box<dyn Running>> {
        Ok(Box::new(Session::start(self.name(), self.command(ranks, via)?, pin)?))
    }
}

/// The command that starts `ranks` of the same benchmark on our own library.
pub fn ours(ranks: u32, via: Via) -> Result<Command> {
    let library = library().context(
        "libmpi_abi.so is not beside this program; build it with `cargo build --release -p barewire-mpi-abi`",
    )?;
    let folder = home()?.join("bench/ours");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("mpi.h"), HEADER)?;
    for alias in ["libmpi_abi.so", "libmpi_abi.so.1"] {
        // It is not there the first time.
        let _ = std::fs::remove_file(folder.join(alias));
        std::os::unix::fs::symlink(&library, folder.join(alias))?;
    }
    let words = [format!("-I{}", folder.display()), format!("-L{}", folder.display()), "-lmpi_abi".into()];
    let program = compile(&folder, "mpi_bench", SOURCE, &mut Command::new("cc"), &words)?;
    let mut command = launcher(ranks)?;
    command.arg("env").arg(format!("LD_LIBRARY_PATH={}", folder.display())).arg(program);
    if via == Via::Tcp {
        command.env("BAREWIRE_TCP", "1");
    }
    Ok(command)
}

/// Our library, as cargo or an installation leaves it; the newest, if there are several.
fn library() -> Option<PathBuf> {
    let here = std::env::current_exe().ok()?;
    let beside = here.parent()?;
    let places = ["libmpi_abi.so", "deps/libmpi_abi.so", "../lib/libmpi_abi.so.1"];
    let found = places.iter().map(|place| beside.join(place)).filter(|path| path.exists());
    found.max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok())?.canonicalize().ok()
}

/// A C program, compiled into `folder` unless it is there already.
pub fn compile(
    folder: &Path,
    name: &str,
    source: &str,
    compiler: &mut Command,
    words: &[String],
) -> Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
    if std::fs::read_to_string(&file).is_ok_and(|text| text == source) && program.exists() {
        return Ok(program);
    }
    std::fs::write(&file, source)?;
    compiler.arg("-O2").arg(&file).arg("-o").arg(&program).args(words);
    let status = compiler.status().with_context(|| format!("running {compiler:?}"))?;
    if !status.success() {
        // The next attempt shall not take the source for compiled.
        let _ = std::fs::remove_file(&file);
        bail!("{compiler:?} failed");
    }
    Ok(program)
}
