//! `barewire install`: lays everything out under a prefix, in the usual way.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use clap_complete::Shell;

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

/// Installs this program and what belongs to it.
pub fn run(options: &InstallOptions) -> anyhow::Result<ExitCode> {
    let layout = Layout { prefix: options.prefix.clone(), force: options.force };
    let here = std::env::current_exe().context("where this program is")?;
    layout.copy(&here, "bin/barewire", 0o755)?;
    if !options.no_mpi_names {
        for name in ["mpirun", "mpiexec"] {
            layout.link("barewire", &format!("bin/{name}"))?;
        }
    }
    let beside = here.parent().context("this program is in no directory")?;
    libraries(&layout, beside)?;
    if !options.no_mpi_names {
        wrappers(&layout)?;
    }
    documents(&layout)?;
    println!("installed under {}", options.prefix.display());
    if !on_path(&options.prefix.join("bin")) {
        println!("add it to your path: export PATH={}:$PATH", options.prefix.join("bin").display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The libraries for C programs, as far as they were built.
fn libraries(layout: &Layout, beside: &Path) -> anyhow::Result<()> {
    for library in LIBRARIES {
        let Some(found) = first_of(beside, &[library.file, &format!("../lib/{}", library.file)]) else {
            println!("not built, so not installed: {} ({})", library.file, library.what);
            continue;
        };
        match library.versioned {
            Some(versioned) => {
                layout.copy(&found, &format!("lib/{versioned}"), 0o755)?;
                layout.link(versioned, &format!("lib/{}", library.file))?;
            }
            None => layout.copy(&found, &format!("lib/{}", library.file), 0o755)?,
        }
        for (name, text) in library.headers {
            layout.write(&format!("include/{name}"), text.as_bytes())?;
        }
        layout.write(
            &format!("lib/pkgconfig/{}.pc", library.name),
            library.pkg_config(&layout.prefix).as_bytes(),
        )?;
    }
    Ok(())
}

/// The compiler wrappers, and the Fortran module in the form of the compiler that is here.
fn wrappers(layout: &Layout) -> anyhow::Result<()> {
    for (name, compiler, flags) in WRAPPERS {
        let script = include_str!("wrapper.sh").replace("@compiler@", compiler).replace("@flags@", flags);
        let path = layout.write(&format!("bin/{name}"), script.as_bytes())?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
            .with_context(|| path.display().to_string())?;
    }
    let include = layout.prefix.join("include");
    let mut compiler = Command::new("gfortran");
    compiler
        .arg("-fsyntax-only")
        .arg("-I")
        .arg(&include)
        .arg("-J")
        .arg(&include)
        .arg(include.join("mpi.f90"));
    match compiler.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => println!("no Fortran module: {}", String::from_utf8_lossy(&output.stderr).trim()),
        Err(_) => println!("no gfortran here, so no Fortran module: mpif.h works without it"),
    }
    Ok(())
}

/// Man pages and completions, from the same definitions as the help.
fn documents(layout: &Layout) -> anyhow::Result<()> {
    for (name, page) in man_pages()? {
        layout.write(&format!("share/man/man1/{name}"), &page)?;
    }
    for (shell, path) in [
        (Shell::Bash, "share/bash-completion/completions/barewire"),
        (Shell::Zsh, "share/zsh/site-functions/_barewire"),
        (Shell::Fish, "share/fish/vendor_completions.d/barewire.fish"),
    ] {
        layout.write(path, &completions(shell))?;
    }
    Ok(())
}

/// The completions of one shell.
pub fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::cli::definition(), "barewire", &mut script);
    script
}

/// A page for the command and one for each of its subcommands.
pub fn man_pages() -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let command = crate::cli::definition();
    let mut pages = vec![("barewire.1".to_owned(), page(command.clone())?)];
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let name = format!("barewire-{}", sub.get_name());
        pages.push((format!("{name}.1"), page(sub.clone().name(name))?));
    }
    Ok(pages)
}

fn page(command: clap::Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).context("writing a man page")?;
    Ok(page)
}

/// A tree of files below a prefix.
struct Layout {
    prefix: PathBuf,
    force: bool,
}

impl Layout {
    fn copy(&self, from: &Path, to: &str, mode: u32) -> anyhow::Result<()> {
        let bytes = fs::read(from).with_context(|| format!("reading {}", from.display()))?;
        let path = self.write(to, &bytes)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))
            .with_context(|| path.display().to_string())
    }

    /// Writes beside and renames into place, so that a running program or library is never half replaced.
    fn write(&self, to: &str, bytes: &[u8]) -> anyhow::Result<PathBuf> {
        let path = self.prefix.join(to);
        let folder = path.parent().context("a file is in a directory")?;
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let fresh = folder.join(format!(".barewire-install-{}", std::process::id()));
        fs::write(&fresh, bytes).with_context(|| format!("writing {}", fresh.display()))?;
        fs::rename(&fresh, &path).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    /// Makes a link; a file of somebody else's is not replaced without being asked to.
    fn link(&self, target: &str, to: &str) -> anyhow::Result<()> {
        let path = self.prefix.join(to);
        match fs::read_link(&path) {
            Ok(old) if old == Path::new(target) => return Ok(()),
            _ if path.symlink_metadata().is_err() => {}
            _ if self.force => fs::remove_file(&path).with_context(|| path.display().to_string())?,
            _ => bail!(
                "{} belongs to something else: --force replaces it, --no-mpi-names leaves it",
                path.display()
            ),
        }
        symlink(target, &path).with_context(|| path.display().to_string())
    }
}

/// A library for C programs.
struct Library {
    name: &'static str,
    what: &'static str,
    file: &'static str,
    versioned: Option<&'static str>,
    headers: &'static [(&'static str, &'static str)],
    link: &'static str,
}

impl Library {
    fn pkg_config(&self, prefix: &Path) -> String {
        let Self { name, what, link, .. } = self;
        let (prefix, version) = (prefix.display(), env!("CARGO_PKG_VERSION"));
        format!(
            "prefix={prefix}\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\n\
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

/// The compiler wrappers: a name, the compiler, and what the compiler needs beside the usual.
const WRAPPERS: &[(&str, &str, &str)] = &[
    ("mpicc", "${BAREWIRE_CC:-cc}", ""),
    ("mpicxx", "${BAREWIRE_CXX:-c++}", ""),
    ("mpic++", "${BAREWIRE_CXX:-c++}", ""),
    ("mpifort", "${BAREWIRE_FC:-gfortran}", "-fallow-argument-mismatch"),
    ("mpif90", "${BAREWIRE_FC:-gfortran}", "-fallow-argument-mismatch"),
    ("mpif77", "${BAREWIRE_FC:-gfortran}", "-fallow-argument-mismatch"),
];

const LIBRARIES: &[Library] = &[
    Library {
        name: "barewire-mpi",
        what: "Barewire's MPI, standard ABI",
        file: "libmpi_abi.so",
        versioned: Some("libmpi_abi.so.1"),
        headers: MPI_HEADERS,
        link: "mpi_abi",
    },
    Library {
        name: "barewire-bmi",
        what: "Barewire's BMI",
        file: "libbmi.so",
        versioned: None,
        headers: &[("bmi.h", include_str!("../../bmi-abi/include/bmi.h"))],
        link: "bmi",
    },
];

fn first_of(folder: &Path, names: &[&str]) -> Option<PathBuf> {
    names.iter().map(|name| folder.join(name)).find(|path| path.is_file())
}

fn on_path(folder: &Path) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|known| known == folder))
}
