//! Beside other launchers and other MPIs: ours under theirs, theirs under ours.
//!
//! Peers are where `barewire perf peers --install` puts them: under `BAREWIRE_PEERS`, or in the user's cache. Slurm comes from
//! Debian's packages and is started by the test. These tests are ignored by default, because not every machine has the peers;
//! `./test peers` installs them and runs these. Without a peer they fail and say what to do.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::slurm::Slurm;
use common::{BAREWIRE, Folder, Ran};

/// The prefix of a peer.
#[track_caller]
fn peer(name: &str) -> PathBuf {
    let cache =
        || PathBuf::from(std::env::var_os("HOME").expect("HOME is set")).join(".cache/barewire/peers");
    let prefix = std::env::var_os("BAREWIRE_PEERS").map_or_else(cache, PathBuf::from).join(name);
    assert!(
        prefix.join("bin/mpiexec").exists(),
        "no {}: run `barewire perf peers --install`, or `./test peers`",
        prefix.join("bin/mpiexec").display()
    );
    prefix
}

fn ran(command: &mut Command) -> Ran {
    command.output().expect("it starts").into()
}

fn mpiexec(name: &str) -> Command {
    let mut command = Command::new("timeout");
    command.arg("60").arg(peer(name).join("bin/mpiexec")).env_remove(common::MPICH);
    if name == "openmpi" {
        command.args(["--allow-run-as-root", "--map-by", ":oversubscribe"]);
    }
    command
}

/// Ranks, sizes and hosts are right, and the ranks reach each other through what the launcher passed on.
#[track_caller]
fn five_ranks_meet_and_talk(launcher: &dyn Fn() -> Command) {
    let met = ran(launcher().args(["-n", "5", BAREWIRE, "hello", "--exchange"]));
    met.expect(0, "one of 5 there");
    let ranks: Vec<_> =
        met.lines().iter().map(|line| line.split(" on ").next().unwrap().to_owned()).collect();
    assert_eq!(
        ranks,
        (0..5).map(|rank| format!("hello from rank {rank} of 5")).collect::<Vec<_>>(),
        "{met:#?}"
    );
    let talked = ran(launcher().args(["-n", "5", BAREWIRE, "hello", "--rounds", "20"]));
    talked.expect(0, "");
    for rank in 0..5 {
        let next = (rank + 1) % 5;
        let line = format!("rank {rank} of 5: 20 round trips with rank {next}, all correct, by shm");
        assert!(talked.out.contains(&line), "no {line:?} in {talked:#?}");
    }
}

/// The status of a job that a rank aborts with 42; `None` if the launcher chose to end by a signal.
fn abort_under(name: &str) -> Option<i32> {
    let words = ["-n", "3", BAREWIRE, "hello", "--abort", "1", "--linger-ms", "100000"];
    ran(mpiexec(name).args(words)).code
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
#[ignore = "needs MPICH: ./test peers"]
fn ours_starts_and_aborts_under_mpich() {
    five_ranks_meet_and_talk(&|| mpiexec("mpich"));
    assert_eq!(abort_under("mpich"), Some(42));
}

#[test]
#[ignore = "needs Intel MPI: ./test peers"]
fn ours_starts_and_aborts_under_intel() {
    five_ranks_meet_and_talk(&|| mpiexec("impi-rt"));
    // Its launcher sometimes ends as its ranks do: by a signal.
    assert!(matches!(abort_under("impi-rt"), Some(42) | None));
}

#[test]
#[ignore = "needs Open MPI: ./test peers"]
fn ours_starts_and_aborts_under_open_mpi_by_pmix() {
    five_ranks_meet_and_talk(&|| mpiexec("openmpi"));
    assert_eq!(abort_under("openmpi"), Some(42));
}

#[test]
#[ignore = "needs MPICH and a C compiler: ./test peers"]
fn programs_of_mpich_run_under_ours() {
    let mpich = peer("mpich");
    let folder = Folder::new("mpich");
    theirs_under_ours(&mpich.join("lib"), &build(&folder, &mpich));
}

#[test]
#[ignore = "needs Intel MPI, MPICH's headers and a C compiler: ./test peers"]
fn programs_of_intel_run_under_ours() {
    let folder = Folder::new("intel");
    let program = build(&folder, &peer("mpich"));
    theirs_under_ours(&peer("impi-rt").join("lib"), &program);
}

#[test]
#[ignore = "needs root and Slurm: ./test peers"]
fn ours_starts_under_a_real_slurm_by_pmi2_and_pmix() {
    let slurm = Slurm::start();
    for mpi in ["--mpi=pmi2", "--mpi=pmix"] {
        five_ranks_meet_and_talk(&|| {
            let mut srun = slurm.command("srun");
            srun.arg(mpi);
            srun
        });
    }
    let none = ran(slurm.command("srun").args(["--mpi=none", "-n", "2", BAREWIRE, "hello"]));
    assert!(none.err.contains("srun --mpi=pmi2") && none.out.is_empty(), "{none:#?}");
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
