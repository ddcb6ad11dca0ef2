//! `barewire install`: lays everything out under a prefix, in the usual way.

mod layout;
mod pages;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;

pub use pages::completions;

use crate::shell;
use layout::Layout;

/// Options of `barewire install`.
#[derive(Debug, clap::Args)]
pub struct InstallOptions {
    /// Where to: bin/, lib/, include/, share/ are made below it
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
    /// Replace files that something else installed there
    #[arg(long)]
    force: bool,
    /// Install no mpirun, mpiexec, mpicc, mpicxx and mpifort
    #[arg(long)]
    no_mpi_names: bool,
}

/// Installs this program and what belongs to it; the status is 1 if MPI programs cannot be built with it.
pub fn run(options: &InstallOptions) -> anyhow::Result<ExitCode> {
    let prefix = std::path::absolute(&options.prefix).context("--prefix")?;
    let here = std::env::current_exe().context("where this program is")?;
    let beside = here.parent().context("this program is in no folder")?;
    let mpi_names: &[&str] = if options.no_mpi_names { &[] } else { &["mpirun", "mpiexec"] };
    let mut layout = Layout::new(prefix.clone());
    layout.program("bin/barewire", read(&here)?);
    mpi_names.iter().for_each(|name| layout.link(format!("bin/{name}"), "barewire"));
    let mut missing = Vec::new();
    for library in LIBRARIES {
        match newest_of(beside, library.file) {
            Some(found) => library.add(&mut layout, read(&found)?),
            None => missing.push(library),
        }
    }
    let mpi_is_missing = missing.iter().any(|library| library.headers == MPI_HEADERS);
    let no_module = if options.no_mpi_names || mpi_is_missing { None } else { wrappers(&mut layout).err() };
    pages::add(&mut layout, mpi_names)?;
    layout.check(options.force)?;
    layout.write()?;
    println!("installed under {}", prefix.display());
    if let Some(reason) = no_module {
        println!("no Fortran module: {reason}");
    }
    for Library { file, what, package, .. } in missing {
        println!("not built, so not installed: {file} ({what})");
        println!("  build it with `cargo build --release -p {package}`, then install again");
    }
    if !on_path(&prefix.join("bin")) {
        let folder = shell::quoted(prefix.join("bin").as_os_str());
        println!("add it to your path: export PATH={}:\"$PATH\"", folder.to_string_lossy());
    }
    Ok(if mpi_is_missing && !options.no_mpi_names { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The compiler wrappers, and the Fortran module in the form of the compiler that is here; or why there is none.
fn wrappers(layout: &mut Layout) -> Result<(), String> {
    for Wrapper { name, language, compiler, variable, package, flags } in WRAPPERS {
        let script = include_str!("wrapper.sh")
            .replace("@language@", language)
            .replace("@compiler@", compiler)
            .replace("@variable@", variable)
            .replace("@package@", package)
            .replace("@flags@", flags)
            .replace("@version@", env!("CARGO_PKG_VERSION"));
        layout.program(format!("bin/{name}"), script);
    }
    fortran_module().map(|module| layout.file("include/mpi.mod", module))
}

/// What `use mpi` reads, as gfortran writes it.
fn fortran_module() -> Result<Vec<u8>, String> {
    let folder = std::env::temp_dir().join(format!("barewire-install-{}", std::process::id()));
    let made = fs::create_dir(&folder)
        .and_then(|()| MPI_HEADERS.iter().try_for_each(|(name, text)| fs::write(folder.join(name), text)));
    let module = made.map_err(|error| format!("{}: {error}", folder.display())).and_then(|()| {
        let output = Command::new("gfortran")
            .current_dir(&folder)
            .args(["-fsyntax-only", "mpi.f90"])
            .output()
            .map_err(|_| {
                "there is no gfortran here; mpif.h works without it, \
                 and for `use mpi` install it (Debian: gfortran) and run this again"
            })?;
        let complaint = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
        fs::read(folder.join("mpi.mod")).ok().filter(|_| output.status.success()).ok_or_else(complaint)
    });
    // What cannot be removed stays in the temporary folder.
    let _ = fs::remove_dir_all(&folder);
    module
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}

/// A library for C programs.
struct Library {
    name: &'static str,
    what: &'static str,
    package: &'static str,
    file: &'static str,
    versioned: Option<&'static str>,
    headers: &'static [(&'static str, &'static str)],
    link: &'static str,
}

impl Library {
    /// Adds the library with this content, and what programs need in order to be built with it.
    fn add(&self, layout: &mut Layout, bytes: Vec<u8>) {
        match self.versioned {
            Some(versioned) => {
                layout.program(format!("lib/{versioned}"), bytes);
                layout.link(format!("lib/{}", self.file), versioned);
            }
            None => layout.program(format!("lib/{}", self.file), bytes),
        }
        self.headers.iter().for_each(|(name, text)| layout.file(format!("include/{name}"), *text));
        layout.file(format!("lib/pkgconfig/{}.pc", self.name), self.pkg_config());
    }

    /// Paths are seen from the file itself, of which pkg-config writes blanks as it should: they stay right whatever the
    /// prefix is called, and when it is moved.
    fn pkg_config(&self) -> String {
        let Self { name, what, link, .. } = self;
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "prefix=${{pcfiledir}}/../..\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\n\
             Name: {name}\nDescription: {what}\nVersion: {version}\n\
             Cflags: -I${{includedir}}\nLibs: -L${{libdir}} -l{link} -Wl,-rpath,${{libdir}}\n"
        )
    }
}

const MPI_HEADERS: &[(&str, &str)] = &[
    ("mpi.h", include_str!("../../mpi-abi/include/mpi.h")),
    ("mpif.h", include_str!("../../mpi-abi/include/mpif.h")),
    ("mpi.f90", include_str!("../../mpi-abi/include/mpi.f90")),
];

/// A compiler that knows of MPI.
struct Wrapper {
    name: &'static str,
    language: &'static str,
    /// The compiler behind it, unless the variable names another.
    compiler: &'static str,
    variable: &'static str,
    /// Where Debian has it.
    package: &'static str,
    /// What the compiler needs beside the usual.
    flags: &'static str,
}

impl Wrapper {
    const fn of(name: &'static str, compiler: &'static str) -> Self {
        let (language, variable, package, flags) = match compiler.as_bytes() {
            b"cc" => ("C", "BAREWIRE_CC", "gcc", ""),
            b"c++" => ("C++", "BAREWIRE_CXX", "g++", ""),
            _ => ("Fortran", "BAREWIRE_FC", "gfortran", "-fallow-argument-mismatch"),
        };
        Self { name, language, compiler, variable, package, flags }
    }
}

const WRAPPERS: &[Wrapper] = &[
    Wrapper::of("mpicc", "cc"),
    Wrapper::of("mpicxx", "c++"),
    Wrapper::of("mpic++", "c++"),
    Wrapper::of("mpifort", "gfortran"),
    Wrapper::of("mpif90", "gfortran"),
    Wrapper::of("mpif77", "gfortran"),
];

const LIBRARIES: &[Library] = &[
    Library {
        name: "barewire-mpi",
        what: "Barewire's MPI, standard ABI",
        package: "barewire-mpi-abi",
        file: "libmpi_abi.so",
        versioned: Some("libmpi_abi.so.1"),
        headers: MPI_HEADERS,
        link: "mpi_abi",
    },
    Library {
        name: "barewire-bmi",
        what: "Barewire's BMI",
        package: "barewire-bmi-abi",
        file: "libbmi.so",
        versioned: None,
        headers: &[("bmi.h", include_str!("../../bmi-abi/include/bmi.h"))],
        link: "bmi",
    },
];

/// The library where builds and installations put it; of several the one built last.
fn newest_of(folder: &Path, file: &str) -> Option<PathBuf> {
    let places = [folder.join(file), folder.join("deps").join(file), folder.join("../lib").join(file)];
    let built = |path: &PathBuf| fs::metadata(path).and_then(|found| found.modified()).ok();
    places.into_iter().filter(|path| path.is_file()).max_by_key(built)
}

fn on_path(folder: &Path) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|known| known == folder))
}
