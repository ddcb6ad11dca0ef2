//! `barewire run` on one host, as a new user meets it.

mod common;

use std::io::Write;
use std::process::{Command, Stdio};

use common::{BAREWIRE, Folder, Ran, command, run};

#[test]
fn ranks_know_themselves_and_meet() {
    let ran = run(&["-n", "4", BAREWIRE, "hello", "--exchange"]);
    ran.expect(0, "");
    let ranks: Vec<_> = ran.lines().iter().map(|line| line.split(" on ").next().unwrap()).collect();
    assert_eq!(ranks, (0..4).map(|rank| format!("hello from rank {rank} of 4")).collect::<Vec<_>>());
}

#[test]
fn scripts_learn_their_rank_from_the_environment() {
    let script =
        "echo $BAREWIRE_RANK/$BAREWIRE_SIZE $BAREWIRE_LOCAL_RANK/$BAREWIRE_LOCAL_SIZE $PMI_RANK/$PMI_SIZE";
    assert_eq!(run(&["-n", "2", "sh", "-c", script]).lines(), ["0/2 0/2 0/2", "1/2 1/2 1/2"]);
}

#[test]
fn one_program_after_the_other_may_join_the_job() {
    let script = format!("{BAREWIRE} hello --exchange && {BAREWIRE} hello");
    let ran = run(&["-n", "2", "sh", "-c", &script]);
    ran.expect(0, "");
    assert_eq!(ran.lines().len(), 4, "{ran:#?}");
}

#[test]
fn lines_are_never_mixed() {
    // Each rank writes its lines in small pieces, without buffering.
    let script =
        "i=0; while [ $i -lt 50 ]; do printf a; printf b; printf \"c$BAREWIRE_RANK\\n\"; i=$((i+1)); done";
    let ran = run(&["-n", "8", "sh", "-c", script]);
    let mut lines = ran.lines();
    assert_eq!(lines.len(), 400);
    lines.dedup();
    assert_eq!(lines, (0..8).map(|rank| format!("abc{rank}")).collect::<Vec<_>>());
}

#[test]
fn tagged_lines_name_their_rank() {
    assert_eq!(run(&["-n", "2", "--tag-output", "echo", "hi"]).lines(), ["[0] hi", "[1] hi"]);
}

#[test]
fn the_last_line_needs_no_newline() {
    assert_eq!(run(&["-n", "1", "printf", "half"]).out, "half");
    assert_eq!(run(&["-n", "2", "--tag-output", "printf", "half"]).lines(), ["[0] half", "[1] half"]);
}

#[test]
fn output_goes_to_files_if_asked() {
    let folder = Folder::new("output");
    let directory = folder.path().join("deep/er");
    let ran = run(&[
        "-n",
        "11",
        "--output-dir",
        directory.to_str().unwrap(),
        "sh",
        "-c",
        "echo $PMI_RANK; echo e >&2",
    ]);
    assert_eq!((ran.out.as_str(), ran.code), ("", Some(0)));
    assert_eq!(std::fs::read_to_string(directory.join("rank.07.out")).unwrap(), "7\n");
    assert_eq!(std::fs::read_to_string(directory.join("rank.10.err")).unwrap(), "e\n");
}

#[test]
fn input_goes_to_one_rank_and_is_not_lost() {
    for (option, rank) in [(&[][..], "0"), (&["--stdin", "2"][..], "2")] {
        let words = [&["-n", "3"], option, &["sh", "-c", "echo $PMI_RANK $(wc -c)"]].concat();
        let mut child =
            command(&words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("barewire starts");
        let mut input = child.stdin.take().unwrap();
        std::thread::spawn(move || input.write_all(&[b'x'; 1_000_000]).unwrap());
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert!(ran.lines().contains(&format!("{rank} 1000000").as_str()), "{ran:#?}");
    }
}

#[test]
fn input_may_be_a_file_or_nothing() {
    let folder = Folder::new("input");
    let path = folder.file("in", "from a file\n");
    let ran = command(&["-n", "2", "cat"]).stdin(std::fs::File::open(path).unwrap()).output().unwrap();
    assert_eq!(Ran::from(ran).out, "from a file\n");
    assert_eq!(run(&["-n", "2", "--stdin", "none", "cat"]).code, Some(0));
}

#[test]
fn a_program_need_not_read_its_input() {
    let mut child = command(&["-n", "2", "true"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::thread::spawn(move || while input.write_all(&[b'x'; 65536]).is_ok() {});
    assert!(child.wait().unwrap().success());
}

#[test]
fn much_output_arrives_whole() {
    // Several times: the end of the agent must never overtake what it carried.
    for _ in 0..8 {
        let ran = run(&["-n", "4", "sh", "-c", "yes barewire | head -c 3000000"]);
        ran.expect(0, "");
        assert_eq!(ran.out.len(), 12_000_000);
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_job() {
    let line = format!("{BAREWIRE} run -n 2 yes | head -n 1; echo ${{PIPESTATUS[0]}}");
    let ran = Ran::from(Command::new("bash").args(["-c", &line]).output().unwrap());
    assert_eq!(ran.out, "y\n141\n");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let said = "standard output cannot be written: No space left on device";
    for words in [&["-n", "2", "echo", "hi"][..], &["-n", "1", "yes"], &["-q", "-n", "1", "printf", "half"]] {
        let ran = Ran::from(command(words).stdout(full()).output().unwrap());
        ran.expect(1, said);
        assert_eq!(ran.err.matches("cannot be written").count(), 1, "{ran:#?}");
    }
    let ran = command(&["-n", "2", "--keep-going", "sh", "-c", "echo hi; sleep 0.2; exit $PMI_RANK"]);
    let ran = Ran::from({ ran }.stdout(full()).output().unwrap());
    ran.expect(1, said).expect(1, "ended with status 1");
    let ran = command(&["-n", "1", "sh", "-c", "echo hi >&2"]).stderr(full()).output().unwrap();
    assert_eq!(Ran::from(ran).code, Some(1));

    let folder = Folder::new("full");
    std::os::unix::fs::symlink("/dev/full", folder.path().join("rank.0.out")).unwrap();
    let ran = run(&["-n", "2", "--output-dir", folder.path().to_str().unwrap(), "echo", "hi"]);
    ran.expect(1, "rank.0.out cannot be written: No space left on device");
}

#[test]
fn several_programs_form_one_job() {
    let words =
        ["-n", "1", "sh", "-c", "echo a$PMI_RANK/$PMI_SIZE", ":", "-n", "2", "sh", "-c", "echo b$PMI_RANK"];
    assert_eq!(run(&words).lines(), ["a0/3", "b1", "b2"]);
    run(&["-n", "1", "true", ":", "--timeout", "3", "true"]).expect(2, "before the first program");
}

#[test]
fn the_names_and_options_of_other_launchers_work() {
    let folder = Folder::new("names");
    for name in ["mpirun", "mpiexec"] {
        let path = folder.path().join(name);
        std::os::unix::fs::symlink(BAREWIRE, &path).unwrap();
        let script = "echo $A $B $C $(pwd)";
        let ran = Command::new(&path)
            .args([
                "-np",
                "1",
                "-genv",
                "A",
                "1",
                "-env",
                "B",
                "2",
                "-x",
                "C",
                "-wdir",
                "/",
                "--oversubscribe",
            ])
            .args([
                "-host",
                "localhost",
                "-ppn",
                "1",
                "--bind-to",
                "core",
                "--timeout",
                "60",
                "--mca",
                "btl",
                "tcp",
            ])
            .args(["sh", "-c", script])
            .env("C", "3")
            .output();
        assert_eq!(Ran::from(ran.unwrap()).out, "1 2 3 /\n");
    }
    let hostfile = folder.file("hosts", "# here\nlocalhost slots=2\n");
    for option in ["-f", "-hostfile", "-machinefile"] {
        assert_eq!(run(&[option, hostfile.to_str().unwrap(), "echo", "hi"]).out, "hi\nhi\n");
    }
}

#[test]
fn variables_can_be_kept_back() {
    let ran = command(&["-n", "1", "-genvnone", "-env", "A", "1", "/bin/sh", "-c", "echo $A-$SECRET"])
        .env("SECRET", "x")
        .output();
    assert_eq!(Ran::from(ran.unwrap()).out, "1-\n");
}

#[test]
fn the_marks_of_other_launchers_do_not_reach_the_ranks() {
    let ran = command(&["-n", "1", BAREWIRE, "hello"])
        .env("PMIX_RANK", "3")
        .env("OMPI_COMM_WORLD_SIZE", "9")
        .output();
    Ran::from(ran.unwrap()).expect(0, "rank 0 of 1");
}

#[test]
fn bindings_are_applied_and_drawn() {
    let ran = run(&[
        "-n",
        "1",
        "--bind-to",
        "hwthread",
        "--report-bindings",
        "grep",
        "Cpus_allowed_list",
        "/proc/self/status",
    ]);
    assert!(ran.err.contains("rank 0  x"), "{ran:#?}");
    let allowed = ran.out.split_whitespace().last().unwrap();
    assert!(allowed.parse::<u32>().is_ok(), "one processor, not {allowed}");
}

#[test]
fn mistakes_are_answered_with_what_to_do() {
    let folder = Folder::new("mistakes");
    let script = folder.file("script.py", "print(1)\n");
    let script = script.to_str().unwrap();
    let bad = folder.script("bad", "#!/no/such/interpreter");
    let bad = bad.to_str().unwrap();
    for (words, code, answer) in [
        (&["-n", "4", "--tag-outptu", "true"][..], 2, "--tag-output"),
        (&["-n", "four", "true"], 2, "invalid value 'four'"),
        (&["-n", "0", "true"], 2, "at least one rank"),
        (&["-n", "1000000", "true"], 1, "use more hosts"),
        (&["-n", "99999999", "true"], 2, "was another number meant?"),
        (&[], 2, "there is no program to start"),
        (&["-n", "2"], 2, "write it after the options"),
        (&["-n", "-3", "true"], 2, "a number of ranks from 1 up"),
        (&["-n", "2", "./nope"], 127, "./nope does not exist here: no /"),
        (&["-n", "2", "slepe", "1"], 127, "did you mean `sleep`?"),
        (&["-n", "2", "/no/such/program"], 127, "does not exist"),
        (&["-n", "2", "/tmp"], 126, "is a directory"),
        (&["-n", "2", script], 126, "chmod +x"),
        (&["-n", "2", bad], 126, "/no/such/interpreter"),
        (&["-n", "2", "--wdir", "/no/such", "true"], 127, "working directory"),
        (&["-n", "2", "--hosts", "a:x", "true"], 2, "number of slots"),
        (&["-n", "2", "--hostfile", "/no/such", "true"], 2, "host file"),
        (&["-n", "2", "--wdir", script, "true"], 127, "is not a folder"),
        (&["-n", "2", ""], 127, "the name of the program is empty"),
        (&["-n", "2", "--bind-to", "moon", "true"], 2, "possible values: none, hwthread, core, numa, socket"),
        (&["-n", "2", "--bind-to", "core:2", "true"], 2, "`:2` is not known"),
        (&["-n", "2", "--kill-after", "1e19", "true"], 2, "seconds from 0 to"),
        (&["-n", "2", "--timeout", "0", "true"], 2, "no job ends in no time"),
        (&["-n", "2", "--env", "A=1", "true"], 2, "write --env A 1, or -x A=1"),
        (&["-n", "2", "-x", "NO_SUCH_VARIABLE", "true"], 0, "-x NO_SUCH_VARIABLE: it is not set here"),
        (&["-n", "2", "--stdin", "5", "true"], 2, "no rank 5"),
    ] {
        let ran = run(words);
        ran.expect(code, answer);
        assert!(ran.err.lines().count() <= 24, "more than a screen: {ran:#?}");
    }
}

#[test]
fn an_unknown_variable_is_refused_by_launcher_and_rank() {
    let ran = command(&["-n", "1", "true"]).env("BAREWIRE_RENDEVOUS", "x").output();
    Ran::from(ran.unwrap()).expect(2, "did you mean BAREWIRE_RENDEZVOUS?");
    let ran = run(&["-n", "1", "env", "BAREWIRE_PORTRANGE=1-2", BAREWIRE, "hello"]);
    ran.expect(2, "did you mean BAREWIRE_PORT_RANGE?");
}

#[test]
fn another_launcher_is_refused_by_name() {
    let ran = Command::new(BAREWIRE)
        .arg("hello")
        .env("OMPI_COMM_WORLD_RANK", "0")
        .env("OMPI_COMM_WORLD_SIZE", "4")
        .output();
    Ran::from(ran.unwrap()).expect(2, "Open MPI");
}

#[test]
fn three_hundred_ranks_start_and_meet() {
    let ran = run(&["-n", "300", BAREWIRE, "hello", "--exchange"]);
    ran.expect(0, "");
    assert_eq!(ran.lines().len(), 300);
}

#[test]
fn a_plan_is_explained() {
    let ran = run(&["-n", "3", "--explain", "true"]);
    ran.expect(0, "ranks 0-2");
    assert!(ran.err.contains("0-2 among themselves: shm, because they are on one host"), "{ran:#?}");
    let shell = ["--hosts", "a:2,b:2", "--remote-shell", "env HOST={host}", "--explain", "true"];
    run(&shell).expect(0, "0-1 with 2-3: tcp, because they are on different hosts");
}

#[test]
fn a_running_job_says_which_wire_each_pair_uses() {
    for (option, wire) in [(&[][..], "shm: it is on the same host"), (&["--tcp"][..], "tcp to 127.0.0.1:")] {
        let words = [&["-n", "3", BAREWIRE, "hello", "--seconds", "60"], option].concat();
        let mut job = common::start(&words);
        let mut answer = None;
        common::wait_until("all pairs to talk", || {
            let asked = Command::new(BAREWIRE).args(["info", "--job", &job.id().to_string()]).output();
            let ran = Ran::from(asked.unwrap());
            answer = (ran.out.starts_with(&format!("pairs in use: {} 6\n", &wire[..3]))).then_some(ran.out);
            answer.is_some()
        });
        let answer = answer.unwrap();
        for rank in 0..3 {
            let next = (rank + 1) % 3;
            let named = |line: &str| line.starts_with(&format!("rank {rank} on ")) && line.contains(wire);
            let leads =
                |line: &str| line.split(&[' ', ',', ':', '-'][..]).any(|word| word == next.to_string());
            assert!(answer.lines().any(|line| named(line) && leads(line)), "rank {rank}: {answer}");
        }
        common::signal(job.id(), "TERM");
        job.wait().unwrap();
    }
    let nobody = Command::new(BAREWIRE).args(["info", "--job", "1"]).output().unwrap();
    Ran::from(nobody).expect(2, "is no launcher of yours");
}
