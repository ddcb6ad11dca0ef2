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
    for words in
        ["processors", "memfd", "variables", "huge pages", "clock", "leftover processes", "checks are fine"]
    {
        assert!(ran.out.contains(words), "no {words:?} in {ran:#?}");
    }
    let advised =
        ran.out.lines().filter(|line| line.starts_with("note") || line.starts_with("PROBLEM")).count();
    let advice = ran.out.lines().filter(|line| line.starts_with("    ")).count();
    assert_eq!(advised, advice, "every complaint comes with advice: {ran:#?}");
}

#[test]
fn the_doctor_names_a_misspelt_variable() {
    let ran = Command::new(BAREWIRE).arg("doctor").env("BAREWIRE_INTERFACES", "eth0").output().unwrap();
    Ran::from(ran).expect(1, "did you mean BAREWIRE_INTERFACE?");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    for words in ["info", "doctor --verbose", "completions bash", "--help", "help run"] {
        let line = format!("{BAREWIRE} {words} | head -n 1; echo ${{PIPESTATUS[0]}}");
        let ran = Ran::from(Command::new("bash").args(["-c", &line]).output().unwrap());
        assert_eq!((ran.err.as_str(), ran.lines().len()), ("", 2), "{words}: {ran:#?}");
    }
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
    let ran = barewire(&["install", "--prefix", prefix.to_str().unwrap()]);
    ran.expect(0, "installed under").expect(0, &format!("export PATH='{}/bin':\"$PATH\"", prefix.display()));
    for path in [
        "bin/barewire",
        "bin/mpirun",
        "bin/mpiexec",
        "share/man/man1/barewire.1",
        "share/man/man1/barewire-run.1",
        "share/man/man1/barewire-perf-compare.1",
        "share/man/man1/mpirun.1",
        "share/barewire/files",
        "share/bash-completion/completions/barewire",
        "share/zsh/site-functions/_barewire",
        "share/fish/vendor_completions.d/barewire.fish",
    ] {
        assert!(prefix.join(path).is_file(), "{path}");
    }
    let ran = Command::new(prefix.join("bin/mpiexec")).args(["-n", "2", "echo", "hi"]).output().unwrap();
    assert_eq!(Ran::from(ran).out, "hi\nhi\n");
    // Again, over itself, and over what an earlier release had written there.
    for path in ["bin/mpicc", "share/man/man1/barewire.1"] {
        std::fs::write(prefix.join(path), "of an earlier release").unwrap();
    }
    barewire(&["install", "--prefix", prefix.to_str().unwrap()]).expect(0, "installed under");
    assert!(std::fs::read_to_string(prefix.join("bin/mpicc")).unwrap().starts_with("#!/bin/sh"));
}

#[test]
fn man_pages_show_what_to_type_and_refer_to_pages_that_exist() {
    let folder = Folder::new("pages");
    barewire(&["install", "--prefix", folder.path().to_str().unwrap()]).expect(0, "installed under");
    let pages = folder.path().join("share/man/man1");
    let mut seen = 0;
    for page in std::fs::read_dir(&pages).unwrap().flatten() {
        let name = page.file_name().into_string().unwrap();
        let text = std::fs::read_to_string(page.path()).unwrap();
        assert!(!name.contains("help"), "{name}");
        // Names in a page have their dashes escaped: barewire\-run(1).
        for word in text
            .replace('\\', "")
            .split_whitespace()
            .filter(|word| word.starts_with("barewire") && word.ends_with("(1)"))
        {
            let other = word.replace("(1)", ".1");
            assert!(pages.join(&other).is_file(), "{name} refers to {other}");
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen} references");
    let run = std::fs::read_to_string(pages.join("barewire-run.1")).unwrap();
    assert!(run.contains("barewire run") && run.contains("hwthread"), "{run}");
    assert_eq!(std::fs::read_to_string(pages.join("mpirun.1")).unwrap(), ".so man1/barewire-run.1\n");
}

#[test]
fn a_relative_prefix_is_as_good_as_another() {
    let folder = Folder::new("relative");
    let ran =
        Command::new(BAREWIRE).args(["install", "--prefix", "here"]).current_dir(folder.path()).output();
    let prefix = folder.path().join("here");
    Ran::from(ran.unwrap()).expect(0, &format!("export PATH={}/bin:", prefix.display()));
    let shown =
        Command::new(prefix.join("bin/mpicc")).args(["-show", "a.c"]).current_dir("/").output().unwrap();
    Ran::from(shown).expect(0, &format!("-I{}/include", prefix.display()));
}

#[test]
fn wrappers_keep_words_apart_and_say_what_is_missing() {
    let folder = Folder::new("wrappers");
    let prefix = folder.path().join("pre fix");
    barewire(&["install", "--prefix", prefix.to_str().unwrap()]).expect(0, "installed under");
    let wrapper = |name: &str, words: &[&str]| {
        Ran::from(Command::new(prefix.join("bin").join(name)).args(words).output().unwrap())
    };
    let shown = wrapper("mpicc", &["-show", r#"-DA="a\nb c""#, "-DB=$x"]);
    shown.expect(0, &format!("cc -I\"{}/include\"", prefix.display()));
    // What is shown is what a shell makes the same words of.
    let line = format!("set -- {}; printf '%s\n' \"$@\"", shown.out.trim());
    let again = Ran::from(Command::new("sh").args(["-c", &line]).output().unwrap());
    let words: Vec<_> = again.out.lines().collect();
    let expected = [
        "cc",
        &format!("-I{}/include", prefix.display()),
        r#"-DA="a\nb c""#,
        "-DB=$x",
        &format!("-L{}/lib", prefix.display()),
        &format!("-Wl,-rpath,{}/lib", prefix.display()),
        "-lmpi_abi",
    ];
    assert_eq!(words, expected);
    let line = "eval set -- $(pkg-config --libs barewire-mpi); printf '%s\n' \"$@\"";
    let mut pkg_config = Command::new("sh");
    pkg_config.args(["-c", line]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let asked = Ran::from(pkg_config.output().unwrap());
    if !asked.err.contains("not found") {
        let library = asked.out.lines().next().and_then(|word| word.strip_prefix("-L")).unwrap_or_default();
        assert!(Path::new(library).join("libmpi_abi.so").exists(), "{asked:#?}");
    }
    wrapper("mpicc", &["-showme:command"]).expect(0, "cc");
    wrapper("mpicc", &["-showme:incdirs"]).expect(0, "include");
    wrapper("mpicc", &["-showme:libdirs"]).expect(0, "lib");
    wrapper("mpicxx", &["-showme:version"]).expect(0, "mpicxx: Barewire");
    wrapper("mpicc", &["-cc=clang -m64", "-show", "-c", "a.c"]).expect(0, "clang -m64 -I");
    wrapper("mpicc", &["-static", "a.c"]).expect(1, "no static library");
    wrapper("mpicc", &["-cc=no-such-compiler", "a.c"]).expect(127, "BAREWIRE_CC");
    let no_fortran =
        Command::new(prefix.join("bin/mpifort")).arg("a.f90").env("BAREWIRE_FC", "no-such").output();
    Ran::from(no_fortran.unwrap()).expect(127, "Debian: gfortran");
}

#[test]
fn without_the_library_there_are_no_wrappers() {
    let folder = Folder::new("bare");
    let built = folder.path().join("barewire");
    assert!(Command::new("cp").arg(BAREWIRE).arg(&built).status().unwrap().success());
    let prefix = folder.path().join("prefix");
    let install = |more: &[&str]| {
        let mut command = Command::new(&built);
        command.args(["install", "--prefix", prefix.to_str().unwrap()]).args(more);
        Ran::from(command.output().unwrap())
    };
    install(&[]).expect(1, "cargo build --release -p barewire-mpi-abi");
    assert!(prefix.join("bin/mpirun").exists() && !prefix.join("bin/mpicc").exists());
    install(&["--no-mpi-names"]).expect(0, "installed under");
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
    let theirs = ["bin/mpirun", "bin/mpicc"].map(|name| folder.file(name, "theirs"));
    let prefix = folder.path().to_str().unwrap();
    let ran = barewire(&["install", "--prefix", prefix]);
    ran.expect(2, "belong to something else").expect(2, "bin/mpicc").expect(2, "--force");
    theirs.iter().for_each(|path| assert_eq!(std::fs::read_to_string(path).unwrap(), "theirs"));
    assert!(!folder.path().join("bin/barewire").exists(), "all or nothing");
    barewire(&["install", "--prefix", prefix, "--no-mpi-names"]).expect(0, "");
    let header = folder.file("include/mpi.h", "theirs");
    barewire(&["install", "--prefix", prefix, "--force"]).expect(0, "");
    assert_ne!(std::fs::read_to_string(header).unwrap(), "theirs");
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
