//! MPI programs in C on several ranks: built against our `mpi.h`, started by `barewire run`, on our library.
//!
//! With `BAREWIRE_MPICH` naming the prefix of an MPICH 5, the same binary runs on that too, and has to print the same.

mod common;

use common::{MPICH, Ran, run};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn every_way_to_send_meets_every_way_to_receive() {
    same_output("p2p", &[2, 3, 4]);
}

#[test]
fn sends_of_some_length_meet_head_on_and_synchronous_ones_wait() {
    goes_well("head_on", &[2, 4]);
}

#[test]
fn collectives_move_and_combine_the_right_elements() {
    same_output("collectives", &[1, 2, 3, 4, 5]);
}

#[test]
fn operations_go_on_while_the_program_does_something_else() {
    same_output("nonblocking", &[1, 2, 3, 4]);
}

#[test]
fn two_groups_talk_to_each_other() {
    same_output("inter", &[2, 3, 4]);
}

#[test]
fn windows_are_read_written_and_updated() {
    same_output("onesided", &[1, 2, 3, 4]);
}

#[test]
fn a_program_may_have_sessions_alone() {
    same_output("sessions", &[1, 2, 3]);
}

/// MPICH's ranks wait for each other at the end of each session, and so for ever here.
#[test]
fn sessions_come_and_go_and_not_as_many_at_every_rank() {
    goes_well("sessions_uneven", &[1, 2, 3]);
}

/// MPICH hangs now and then when it begins again.
#[test]
fn a_program_may_begin_after_a_session_and_end_before_one() {
    goes_well("sessions_init", &[1, 2, 3]);
}

#[test]
fn wrong_calls_are_refused_and_leave_nothing_behind() {
    goes_well("refused", &[2, 3]);
}

#[test]
fn the_lock_of_a_killed_rank_is_free() {
    let libraries = libraries("killed_lock");
    let program = compile("killed_lock", &libraries);
    let path = format!("LD_LIBRARY_PATH={}", libraries.display());
    let program = program.to_str().expect("a path of ours is text");
    let ran = run(&["--keep-going", "-n", "3", "env", &path, program]);
    let had = ran.lines().iter().filter(|line| line.ends_with(" had the lock")).count();
    assert_eq!(had, 2, "{ran:#?}");
}

#[test]
fn floods_are_bounded_and_receives_are_found_in_any_order() {
    same_output("queues", &[2]);
}

#[test]
fn random_traffic_arrives_whole_and_in_order() {
    same_output("traffic", &[2, 3, 4]);
}

/// Collective calls by their number in `killed.c`; 15 is a receive from anybody, 17 and 18 look for a message of anybody's.
#[test]
fn a_killed_rank_is_told_to_those_in_a_collective_call_with_it() {
    let libraries = libraries("killed");
    let program = compile("killed", &libraries);
    let path = format!("LD_LIBRARY_PATH={}", libraries.display());
    for which in 0..=18 {
        let which = which.to_string();
        let program = program.to_str().expect("a path of ours is text");
        let ran = run(&["--keep-going", "-n", "4", "env", &path, program, &which]);
        let told = ran.lines().iter().filter(|line| line.ends_with(" was told")).count();
        assert_eq!(told, 3, "{which}: {ran:#?}");
    }
}

#[test]
fn what_was_sent_arrives_while_its_sender_does_something_else() {
    let libraries = libraries("passed_on");
    let program = compile("passed_on", &libraries);
    let path = format!("LD_LIBRARY_PATH={}", libraries.display());
    let (program, mark) = (program.to_str().expect("a path of ours is text"), libraries.join("arrived"));
    for tcp in ["BAREWIRE_TCP=1", "BAREWIRE_TCP=0"] {
        let ran = run(&["-n", "2", "env", &path, tcp, program, mark.to_str().expect("so is this")]);
        ran.expect(0, "");
        assert_eq!(ran.lines(), ["all arrived"], "{tcp}: {ran:#?}");
    }
}

#[test]
fn a_forked_child_is_refused_and_its_parents_messages_are_left_alone() {
    let libraries = libraries("forked");
    let program = compile("forked", &libraries);
    for wire in ["BAREWIRE_TCP=0", "BAREWIRE_TCP=1"] {
        let ran = on_ours(&program, &libraries, 2, wire);
        ran.expect(0, "");
        assert_eq!(ran.lines(), ["all are there"], "{wire}: {ran:#?}");
    }
}

#[test]
fn a_wait_that_lasts_says_whom_it_waits_for_whatever_others_send() {
    let libraries = libraries("stuck");
    let program = compile("stuck", &libraries);
    let path = format!("LD_LIBRARY_PATH={}", libraries.display());
    let program = program.to_str().expect("a path of ours is text");
    for threads in [&[][..], &["threads"]] {
        let with = |after: &str| {
            let limit = format!("BAREWIRE_WATCHDOG={after}");
            let ran = run(&[&["-n", "3", "env", &path, &limit, program], threads].concat());
            ran.expect(0, "");
            ran.err
        };
        let said = with("0.2");
        assert!(said.contains("barewire: rank 0 ") && said.contains(" has waited 0."), "{threads:?}: {said}");
        assert!(!with("0").contains("has waited"), "{threads:?}: it was not to be said");
    }
}

#[test]
fn abort_ends_all_ranks_with_its_code() {
    let libraries = libraries("abort");
    let ran = on_ours(&compile("abort", &libraries), &libraries, 3, "BAREWIRE_TCP=0");
    ran.expect(7, "MPI_Abort was called with error code 7");
}

#[test]
fn threads_may_all_call_at_once() {
    same_output("threads", &[2, 3]);
}

/// Runs a program on several numbers of ranks: nobody finds a failure, and what is printed is what MPICH prints.
fn same_output(name: &str, sizes: &[u32]) {
    let libraries = libraries(name);
    let program = compile(name, &libraries);
    for &size in sizes {
        let ours = on_both_wires(&program, &libraries, size);
        // With more ranks than processors MPICH spins for minutes.
        if let Some(prefix) = std::env::var_os(MPICH).filter(|_| size <= 3) {
            let theirs = on_mpich(&program, Path::new(&prefix), size);
            assert_eq!(ours.lines(), theirs.lines(), "{size} ranks: {theirs:#?}");
        }
    }
}

/// The same on our library alone, where MPICH does something else.
fn goes_well(name: &str, sizes: &[u32]) {
    let libraries = libraries(name);
    let program = compile(name, &libraries);
    for &size in sizes {
        on_both_wires(&program, &libraries, size);
    }
}

/// Runs a program in which no rank finds a failure.
fn on_both_wires(program: &Path, libraries: &Path, size: u32) -> Ran {
    let [over_tcp, ours] = ["BAREWIRE_TCP=1", "BAREWIRE_TCP=0"].map(|wire| {
        let ran = on_ours(program, libraries, size, wire);
        assert_eq!(ran.code, Some(0), "{size} ranks, {wire}: {ran:#?}");
        let well = ran.lines().iter().filter(|line| line.ends_with(": 0 failures")).count();
        assert_eq!(well, size as usize, "{size} ranks, {wire}: {ran:#?}");
        ran
    });
    assert_eq!(ours.lines(), over_tcp.lines(), "{size} ranks");
    ours
}

fn on_ours(program: &Path, libraries: &Path, size: u32, wire: &str) -> Ran {
    let path = format!("LD_LIBRARY_PATH={}", libraries.display());
    let program = program.to_str().expect("a path of ours is text");
    run(&["-n", &size.to_string(), "env", &path, wire, program])
}

fn on_mpich(program: &Path, prefix: &Path, size: u32) -> Ran {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "300"]).arg(prefix.join("bin/mpiexec"));
    command.args(["-n", &size.to_string()]).arg(program).env("LD_LIBRARY_PATH", prefix.join("lib"));
    command.output().expect("timeout and mpiexec start").into()
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpi-abi")
}

/// A directory of our library under the names the linker and the loader look for. Cargo has built it beside this test,
/// because this package's tests depend on it.
fn libraries(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let library = test.with_file_name("libmpi_abi.so");
    assert!(library.exists(), "{library:?} is there");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mpi-{name}"));
    std::fs::create_dir_all(&directory).expect("a folder can be made");
    for alias in ["libmpi_abi.so", "libmpi_abi.so.1"] {
        let link = directory.join(alias);
        // It is not there the first time.
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&library, link).expect("a link can be made");
    }
    directory
}

fn compile(name: &str, libraries: &Path) -> PathBuf {
    let program = libraries.join(name);
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror"]);
    // gcc takes addresses that are only marks, such as MPI_IN_PLACE, for arrays that are too short.
    compiler.args(["-Wno-stringop-overflow", "-Wno-stringop-overread"]);
    compiler.arg("-I").arg(sources().join("include"));
    compiler.arg(sources().join("tests/c").join(name).with_extension("c"));
    compiler.arg("-o").arg(&program).arg("-L").arg(libraries).arg("-lmpi_abi").arg("-pthread");
    let output = compiler.output().expect("a C compiler is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}
