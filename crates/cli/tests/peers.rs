//! Beside other launchers and other MPIs: ours under theirs, theirs under ours.
//!
//! Peers are found by `PEER_MPICH`, `PEER_INTEL` and `PEER_OPENMPI`, the prefixes they are installed under; Slurm's `srun`
//! by PATH. These tests are ignored by default, because not every machine has the peers; run with `-- --ignored` and
//! without a peer, they fail and say which variable to set.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{BAREWIRE, Folder, Ran};

/// The prefix of a peer.
#[track_caller]
fn peer(variable: &str) -> PathBuf {
    let prefix = std::env::var_os(variable).map(PathBuf::from);
    let prefix = prefix.unwrap_or_else(|| panic!("set {variable} to the prefix the peer is installed under"));
    assert!(prefix.join("bin/mpiexec").exists(), "{variable}: no bin/mpiexec in {}", prefix.display());
    prefix
}

fn ran(command: &mut Command) -> Ran {
    command.output().expect("it starts").into()
}

fn hello_under(prefix: &Path) {
    let ran =
        ran(Command::new(prefix.join("bin/mpiexec")).args(["-n", "5", BAREWIRE, "hello", "--exchange"]));
    ran.expect(0, "");
    let ranks: Vec<_> =
        ran.lines().iter().map(|line| line.split(" on ").next().unwrap().to_owned()).collect();
    assert_eq!(
        ranks,
        (0..5).map(|rank| format!("hello from rank {rank} of 5")).collect::<Vec<_>>(),
        "{ran:#?}"
    );
    assert!(ran.out.contains("one of 5 there"), "{ran:#?}");
}

/// The status of a job that a rank aborts with 42; `None` if the launcher chose to end by a signal.
fn abort_under(prefix: &Path) -> Option<i32> {
    let words = ["-n", "3", BAREWIRE, "hello", "--abort", "1", "--linger-ms", "100000"];
    ran(Command::new(prefix.join("bin/mpiexec")).args(words)).code
}

/// An MPI program, built for the standard ABI, that finds its library by LD_LIBRARY_PATH.
fn build(folder: &Folder, mpich: &Path) -> PathBuf {
    let source = folder.file("sum.c", PROGRAM);
    let program = folder.path().join("sum");
    let include = format!("-I{}", mpich.join("include").display());
    let library = format!("-L{}", mpich.join("lib").display());
    let built = ran(Command::new("cc")
        .args(["-DMPI_ABI", &include, &library, "-Wl,--unresolved-symbols=ignore-in-shared-libs", "-o"])
        .arg(&program)
        .arg(&source)
        .arg("-lmpi_abi"));
    built.expect(0, "");
    program
}

fn theirs_under_ours(library: &Path, program: &Path) {
    let run = |words: &[&str]| {
        let mut command = common::command(&[&["-n", "4", program.to_str().unwrap()], words].concat());
        ran(command.env("LD_LIBRARY_PATH", library))
    };
    let good = run(&[]);
    good.expect(0, "");
    assert_eq!(good.lines(), ["0 of 4: 6", "1 of 4: 6", "2 of 4: 6", "3 of 4: 6"]);
    run(&["abort"]).expect(9, "rank 1 on");
}

#[test]
#[ignore = "needs MPICH: PEER_MPICH"]
fn ours_starts_and_aborts_under_mpich() {
    hello_under(&peer("PEER_MPICH"));
    assert_eq!(abort_under(&peer("PEER_MPICH")), Some(42));
}

#[test]
#[ignore = "needs Intel MPI: PEER_INTEL"]
fn ours_starts_and_aborts_under_intel() {
    hello_under(&peer("PEER_INTEL"));
    // Its launcher sometimes ends as its ranks do: by a signal.
    assert!(matches!(abort_under(&peer("PEER_INTEL")), Some(42) | None));
}

#[test]
#[ignore = "needs MPICH and a C compiler: PEER_MPICH"]
fn programs_of_mpich_run_under_ours() {
    let mpich = peer("PEER_MPICH");
    let folder = Folder::new("mpich");
    theirs_under_ours(&mpich.join("lib"), &build(&folder, &mpich));
}

#[test]
#[ignore = "needs Intel MPI, MPICH's headers and a C compiler: PEER_INTEL, PEER_MPICH"]
fn programs_of_intel_run_under_ours() {
    let folder = Folder::new("intel");
    let program = build(&folder, &peer("PEER_MPICH"));
    theirs_under_ours(&peer("PEER_INTEL").join("lib"), &program);
}

#[test]
#[ignore = "needs Open MPI: PEER_OPENMPI"]
fn open_mpis_launcher_is_refused_by_name() {
    let mpiexec = peer("PEER_OPENMPI").join("bin/mpiexec");
    let words = ["--allow-run-as-root", "--oversubscribe", "-n", "2", BAREWIRE, "hello"];
    let ran = ran(Command::new(mpiexec).args(words));
    assert_ne!(ran.code, Some(0));
    assert!(ran.err.contains("started by Open MPI's mpirun"), "{ran:#?}");
    assert_eq!(ran.out, "", "nobody may believe to be alone");
}

#[test]
#[ignore = "needs a running Slurm: srun in PATH"]
fn ours_starts_under_srun() {
    let pmi = ran(Command::new("srun").args(["--mpi=pmi2", "-n", "2", BAREWIRE, "hello", "--exchange"]));
    pmi.expect(0, "rank 1 of 2");
    let none = ran(Command::new("srun").args(["--mpi=none", "-n", "2", BAREWIRE, "hello"]));
    assert!(none.err.contains("srun --mpi=pmi2"), "{none:#?}");
}

const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, size, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1 && rank == 1) MPI_Abort(MPI_COMM_WORLD, 9);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("%d of %d: %d\n", rank, size, sum);
    MPI_Finalize();
    return 0;
}
"#;
