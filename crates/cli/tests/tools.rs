//! `info`, `doctor`, `install` and what comes from the command's own definitions.

mod common;

use std::path::Path;
use std::process::Command;

use common::hosts::{Hosts, SHELL};
use common::{BAREWIRE, Folder, Ran};

fn barewire(words: &[&str]) -> Ran {
    Command::new(BAREWIRE).args(words).output().expect("barewire starts").into()
}

#[test]
fn info_shows_processors_interfaces_limits_and_variables() {
    let ran = barewire(&["info"]);
    for words in ["processors", "interfaces", "127.0.0.1", "open files", "BAREWIRE_RENDEZVOUS", "rank 0 of 1"]
    {
        ran.expect(0, words);
    }
    barewire(&["info", "--explain"]).expect(0, "a handshake proves reachable");
}

#[test]
fn info_knows_the_job_it_runs_in() {
    common::run(&["-n", "3", BAREWIRE, "info"]).expect(0, "this process is rank 2 of 3");
}

#[test]
fn the_doctor_looks_at_everything_and_says_so() {
    let ran = barewire(&["doctor", "--verbose"]);
    for words in [
        "processors",
        "memfd",
        "locked memory",
        "huge pages",
        "clock",
        "leftover processes",
        "checks are fine",
    ] {
        assert!(ran.out.contains(words), "no {words:?} in {ran:#?}");
    }
    let advised =
        ran.out.lines().filter(|line| line.starts_with("note") || line.starts_with("PROBLEM")).count();
    let advice = ran.out.lines().filter(|line| line.starts_with("    ")).count();
    assert_eq!(advised, advice, "every complaint comes with advice: {ran:#?}");
}

#[test]
#[ignore = "needs root: ./test hosts"]
fn the_doctor_measures_the_way_between_hosts() {
    let hosts = Hosts::new(120, 3);
    let list = hosts.list(1);
    let ran = barewire(&["doctor", "--hosts", &list, "--remote-shell", SHELL]);
    assert_eq!(ran.out.matches("µs one way").count(), 6, "{ran:#?}");
}

#[test]
fn an_installation_works_from_its_own_place() {
    let folder = Folder::new("install");
    let prefix = folder.path().join("pre fix");
    barewire(&["install", "--prefix", prefix.to_str().unwrap()]).expect(0, "installed under");
    for path in [
        "bin/barewire",
        "bin/mpirun",
        "bin/mpiexec",
        "share/man/man1/barewire.1",
        "share/man/man1/barewire-run.1",
        "share/bash-completion/completions/barewire",
        "share/zsh/site-functions/_barewire",
        "share/fish/vendor_completions.d/barewire.fish",
    ] {
        assert!(prefix.join(path).is_file(), "{path}");
    }
    let ran = Command::new(prefix.join("bin/mpiexec")).args(["-n", "2", "echo", "hi"]).output().unwrap();
    assert_eq!(Ran::from(ran).out, "hi\nhi\n");
    // Again, over itself.
    barewire(&["install", "--prefix", prefix.to_str().unwrap()]).expect(0, "installed under");
}

#[test]
fn libraries_that_were_built_are_installed_with_their_pkg_config() {
    let folder = Folder::new("libraries");
    let built = folder.path().join("barewire");
    // Copied by another process: this one forks in other threads, and a copy open for writing there cannot be executed.
    assert!(Command::new("cp").arg(BAREWIRE).arg(&built).status().unwrap().success());
    folder.file("libmpi_abi.so", "a library");
    let prefix = folder.path().join("prefix");
    let ran = Command::new(&built).args(["install", "--prefix", prefix.to_str().unwrap()]).output().unwrap();
    Ran::from(ran).expect(0, "not built, so not installed: libbmi.so");
    let read = |path: &str| std::fs::read_to_string(prefix.join(path)).unwrap();
    assert_eq!(read("lib/libmpi_abi.so.1"), "a library");
    assert!(
        read("include/mpi.h").contains("MPI_ABI_VERSION")
            && read("include/mpif.h").contains("MPI_COMM_WORLD")
    );
    let shown = Command::new(prefix.join("bin/mpicc")).args(["-show", "a.c"]).output().unwrap();
    let shown = Ran::from(shown);
    shown.expect(0, "-lmpi_abi");
    shown.expect(0, &format!("-I{}/include", prefix.display()));
    let compiled = Command::new(prefix.join("bin/mpicxx")).args(["-show", "-c", "a.cc"]).output().unwrap();
    assert!(!Ran::from(compiled).out.contains("-lmpi_abi"), "what is only compiled is not linked");
    assert_eq!(std::fs::read_link(prefix.join("lib/libmpi_abi.so")).unwrap(), Path::new("libmpi_abi.so.1"));
    assert!(read("lib/pkgconfig/barewire-mpi.pc").contains("-lmpi_abi"));
    folder.file("libbmi.so", "another library");
    let ran = Command::new(&built).args(["install", "--prefix", prefix.to_str().unwrap()]).output().unwrap();
    Ran::from(ran).expect(0, "installed under");
    assert_eq!(read("lib/libbmi.so"), "another library");
    assert!(read("include/bmi.h").contains("int BMI_finalize(void);"));
    assert!(read("lib/pkgconfig/barewire-bmi.pc").contains("-lbmi"));
}

#[test]
fn an_mpirun_of_somebody_else_is_not_replaced_unasked() {
    let folder = Folder::new("theirs");
    std::fs::create_dir_all(folder.path().join("bin")).unwrap();
    folder.file("bin/mpirun", "theirs");
    let prefix = folder.path().to_str().unwrap();
    barewire(&["install", "--prefix", prefix]).expect(2, "belongs to something else");
    assert_eq!(std::fs::read_to_string(folder.path().join("bin/mpirun")).unwrap(), "theirs");
    barewire(&["install", "--prefix", prefix, "--no-mpi-names"]).expect(0, "");
    barewire(&["install", "--prefix", prefix, "--force"]).expect(0, "");
    assert_eq!(std::fs::read_link(folder.path().join("bin/mpirun")).unwrap(), Path::new("barewire"));
}

#[test]
fn completions_and_help_know_all_options() {
    for shell in ["bash", "zsh", "fish"] {
        barewire(&["completions", shell]).expect(0, "tag-output");
    }
    let help = barewire(&["run", "--help"]);
    for option in ["--hosts", "--hostfile", "--bind-to", "--timeout", "--keep-going", "Examples:"] {
        help.expect(0, option);
    }
    barewire(&["help", "run"]).expect(0, "--tag-output");
}
