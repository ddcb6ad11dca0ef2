//! C programs, one an area, built against our `mpi.h` and run on our library: each prints what is written beside it. Programs in
//! Fortran say themselves whether all is well; they need gfortran, which `./test` installs.
//!
//! With `BAREWIRE_MPICH` naming the prefix of an MPICH 5, the same binary runs on that too, and has to print the same.
//! `BAREWIRE_BLESS=1` writes the expected output anew.

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn datatypes_have_the_sizes_bounds_and_contents_of_the_standard() {
    same_output("datatypes");
}

#[test]
fn packing_and_unpacking_move_the_right_bytes() {
    same_output("pack");
}

#[test]
fn groups_and_communicators_of_one_process_behave() {
    same_output("groups");
}

#[test]
fn infos_keep_keys_and_values() {
    same_output("info");
}

#[test]
fn attributes_call_back_and_errors_are_handled() {
    same_output("attributes");
}

#[test]
fn operations_compute_what_they_should() {
    same_output("ops");
}

#[test]
fn random_datatypes_have_the_same_bytes_everywhere() {
    same_output("random_types");
}

#[test]
fn topologies_know_their_neighbours() {
    same_output("topology");
}

#[test]
fn handles_and_statuses_go_to_fortran_and_back() {
    same_output("fortran_integers");
}

#[test]
fn a_program_may_put_its_own_functions_in_front() {
    same_output("profiled");
}

#[test]
fn fortran_is_called_back_and_knows_old_names() {
    all_is_well("callbacks.f90");
}

#[test]
fn a_program_in_fortran_may_put_its_own_subroutines_in_front() {
    all_is_well("profiled.f");
}

/// Others crash here, so there is nobody to compare with.
#[test]
fn bad_handles_and_missing_functions_are_errors_not_crashes() {
    expected_output("handles");
}

#[test]
fn a_fatal_error_names_the_call_and_the_reason() {
    let libraries = libraries("fatal");
    let program = compile("fatal", &libraries);
    let output = command(&program, &libraries).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{errors}");
    assert!(output.stdout.is_empty());
    assert!(
        errors.contains("rank 0: MPI_Comm_size:") && errors.contains("the handle is MPI_COMM_NULL"),
        "{errors}"
    );
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c")
}

fn expected_output(name: &str) -> (PathBuf, String) {
    let libraries = libraries(name);
    let program = compile(name, &libraries);
    let ours = run(&program, &libraries);
    let expected = source().join(name).with_extension("out");
    if std::env::var_os("BAREWIRE_BLESS").is_some() {
        std::fs::write(&expected, &ours).unwrap();
    }
    let expected = std::fs::read_to_string(expected).unwrap();
    assert_same(&ours, &expected, "the expected output");
    (program, ours)
}

fn same_output(name: &str) {
    let (program, ours) = expected_output(name);
    if let Some(prefix) = std::env::var_os("BAREWIRE_MPICH") {
        assert_same(&ours, &run(&program, &Path::new(&prefix).join("lib")), "MPICH");
    }
}

/// Builds a program in Fortran and runs it.
fn all_is_well(name: &str) {
    let libraries = libraries(&format!("fortran_{name}"));
    let (include, program) = (source().join("../../include"), libraries.join("program"));
    let compile = |arguments: &[&std::ffi::OsStr]| {
        let output = Command::new("gfortran")
            .arg("-I")
            .arg(&include)
            .arg("-J")
            .arg(&libraries)
            .args(arguments)
            .output();
        let output = match output {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                println!("not run, because gfortran is not installed");
                return false;
            }
            output => output.unwrap(),
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        true
    };
    let module = include.join("mpi.f90");
    if compile(&["-fsyntax-only".as_ref(), module.as_ref()]) {
        let file = source().join("../fortran").join(name);
        let flags = ["-fallow-argument-mismatch", "-w", "-g", "-o"].map(std::ffi::OsStr::new);
        let [mismatch, quiet, debug, output] = flags;
        let link = ["-L".as_ref(), libraries.as_ref(), "-lmpi_abi".as_ref()];
        let inputs = [mismatch, quiet, debug, output, program.as_ref(), file.as_ref()];
        compile(&[&inputs[..], &link[..]].concat());
        assert_eq!(run(&program, &libraries), "all is well\n");
    }
}

/// A directory of our library under the names the linker and the loader look for.
fn libraries(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.parent().unwrap().join("libmpi_abi.so");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&directory).unwrap();
    for alias in ["libmpi_abi.so", "libmpi_abi.so.1"] {
        let link = directory.join(alias);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&library, link).unwrap();
    }
    directory
}

fn compile(name: &str, libraries: &Path) -> PathBuf {
    let source = source();
    let program = libraries.join(name);
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]);
    // gcc takes addresses that are only marks, such as MPI_UNWEIGHTED, for arrays that are too short.
    compiler.args(["-Wno-stringop-overflow", "-Wno-stringop-overread"]);
    compiler.arg("-I").arg(source.join("../../include")).arg(source.join(name).with_extension("c"));
    compiler.arg("-o").arg(&program).arg("-L").arg(libraries).arg("-lmpi_abi");
    let output = compiler.output().expect("a C compiler is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// A program on some library; the library does not know, and so would refuse, the variables that are for these tests.
fn command(program: &Path, libraries: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", libraries).env_remove("BAREWIRE_BLESS").env_remove("BAREWIRE_MPICH");
    command
}

fn run(program: &Path, libraries: &Path) -> String {
    let output = command(program, libraries).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program:?} on {libraries:?}: {}\n{text}{errors}", output.status);
    text
}

fn assert_same(ours: &str, theirs: &str, who: &str) {
    let differences: Vec<String> = ours
        .lines()
        .zip(theirs.lines())
        .filter(|(our, their)| our != their)
        .map(|(our, their)| format!("ours:   {our}\ntheirs: {their}"))
        .collect();
    assert!(differences.is_empty(), "unlike {who}:\n{}", differences.join("\n"));
    assert_eq!(ours.lines().count(), theirs.lines().count(), "unlike {who}");
}
