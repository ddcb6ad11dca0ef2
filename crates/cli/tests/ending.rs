//! However a job ends: the right status, the right words, and nothing left.

mod common;

use std::process::{Command, Stdio};

use common::{
    BAREWIRE, Ran, mark, nothing_is_left, processes, run, signal, sleepers, start, wait_for_sleepers,
    wait_until,
};

#[test]
fn the_first_failing_rank_gives_the_status() {
    let ran =
        run(&["-n", "4", "sh", "-c", "[ $PMI_RANK = 2 ] && { echo out of cheese >&2; exit 7; }; sleep 100"]);
    ran.expect(7, "rank 2 on");
    assert!(ran.err.contains("ended with status 7"), "{ran:#?}");
    assert!(ran.err.contains("last words: out of cheese"), "{ran:#?}");
    assert!(ran.err.contains("the other 3 ranks were ended"), "{ran:#?}");
}

#[test]
fn a_signal_is_named() {
    run(&["-n", "2", "sh", "-c", "[ $PMI_RANK = 1 ] && kill -SEGV $$; sleep 100"])
        .expect(139, "SIGSEGV (segmentation fault)");
    run(&["-n", "2", "sh", "-c", "[ $PMI_RANK = 1 ] && kill -KILL $$; sleep 100"]).expect(137, "SIGKILL");
}

#[test]
fn a_rank_that_was_killed_is_named_though_another_failed_first() {
    // It kills itself when it is asked to end, which is after the other's failure.
    let ready = std::env::temp_dir().join(format!("barewire-killed-{}", std::process::id()));
    let script = "if [ $PMI_RANK = 1 ]; then trap 'kill -KILL $$' TERM; : >\"$0\"; sleep 100 & wait; fi
        while [ ! -e \"$0\" ]; do sleep 0.01; done; exit 3";
    let ran = run(&["-n", "2", "sh", "-c", script, ready.to_str().expect("a path of ours is text")]);
    let _ = std::fs::remove_file(&ready);
    ran.expect(3, "ended with status 3");
    assert!(ran.err.contains("rank 1") && ran.err.contains("was killed by SIGKILL"), "{ran:#?}");
    assert!(!ran.err.contains("was ended"), "nobody ended it: {ran:#?}");
}

#[test]
fn quiet_means_quiet() {
    assert_eq!(run(&["-n", "2", "-q", "false"]).err, "");
}

#[test]
fn a_job_that_keeps_going_outlives_a_killed_rank() {
    let script = "[ $PMI_RANK = 1 ] && kill -KILL $$; exec \"$0\" hello --mourn";
    let ran = run(&["-n", "3", "--keep-going", "sh", "-c", script, BAREWIRE]);
    ran.expect(0, "rank 1 on");
    assert_eq!(ran.out.matches("rank 1 is gone: signal 9 killed it").count(), 2, "{ran:#?}");
    run(&["-n", "2", "--keep-going", "sh", "-c", "exit $PMI_RANK"]).expect(1, "status 1");
}

#[test]
fn an_abort_ends_everybody() {
    let ran = run(&["-n", "4", BAREWIRE, "hello", "--abort", "2", "--linger-ms", "100000"]);
    ran.expect(42, "rank 2 on").expect(42, "aborted the job with status 42: asked to by --abort");
}

#[test]
fn a_timeout_says_what_every_rank_waits_for() {
    let ran = run(&["-n", "3", "--timeout", "1", BAREWIRE, "hello", "--stick"]);
    ran.expect(124, "rank 2 on").expect(124, "waits for a message from rank 0");
}

#[test]
fn a_timeout_describes_ranks_that_cannot_speak() {
    let ran = run(&["-n", "3", "--timeout", "0.3", "sleep", "100"]);
    ran.expect(124, "ranks 0-2: sleeping");
}

#[test]
fn interrupts_end_everything_with_their_status() {
    for (name, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let mark = mark(name);
        let child = start(&["-n", "3", "sh", "-c", &format!("sleep {mark} & wait")]);
        wait_for_sleepers(&mark, 3);
        signal(child.id(), name);
        Ran::from(child.wait_with_output().unwrap()).expect(status, &format!("ended by SIG{name}"));
        assert_eq!(processes(&mark), [], "left after SIG{name}");
    }
}

#[test]
fn a_request_to_end_while_starting_leaves_nothing() {
    // As early as possible, and a little later each time. Not by an interrupt: that is ignored until it is caught, where a
    // shell has started these tests in the background.
    for round in 0..10 {
        let mark = mark(&format!("early{round}"));
        let child = start(&["-n", "40", "sleep", &mark]);
        std::thread::sleep(std::time::Duration::from_millis(round * 4));
        // Before it has caught its first signal the launcher ends by that signal, with nothing started.
        signal(child.id(), "TERM");
        let ended = child.wait_with_output().unwrap();
        assert!(!ended.status.success());
        nothing_is_left(&mark);
    }
}

#[test]
fn ranks_that_ignore_the_request_are_killed() {
    let mark = mark("stubborn");
    let child = start(&[
        "-n",
        "2",
        "--kill-after",
        "0.2",
        "sh",
        "-c",
        &format!("trap '' TERM INT; sleep {mark}; sleep {mark}"),
    ]);
    wait_for_sleepers(&mark, 2);
    signal(child.id(), "TERM");
    Ran::from(child.wait_with_output().unwrap()).expect(143, "2 ranks were ended");
    assert_eq!(processes(&mark), []);
}

#[test]
fn asking_twice_kills_at_once() {
    let mark = mark("twice");
    let child = start(&[
        "-n",
        "2",
        "--kill-after",
        "3000",
        "sh",
        "-c",
        &format!("trap '' TERM INT; sleep {mark}; sleep {mark}"),
    ]);
    wait_for_sleepers(&mark, 2);
    signal(child.id(), "INT");
    std::thread::sleep(std::time::Duration::from_millis(300));
    signal(child.id(), "INT");
    let ran = Ran::from(child.wait_with_output().unwrap());
    ran.expect(130, "ended by SIGINT").expect(130, "2 ranks were ended");
    assert!(!ran.err.contains("SIGKILL"), "nobody but us killed them: {ran:#?}");
    assert_eq!(processes(&mark), []);
}

#[test]
fn an_interrupt_of_a_job_that_kept_going_counts_each_rank_once() {
    let mark = mark("counted");
    let script = format!("[ $PMI_RANK = 1 ] && kill -KILL $$; exec sleep {mark}");
    let child = start(&["-n", "3", "--keep-going", "sh", "-c", &script]);
    wait_for_sleepers(&mark, 2);
    // The killed rank is known to be gone when its agent has said so.
    std::thread::sleep(std::time::Duration::from_millis(500));
    signal(child.id(), "INT");
    let ran = Ran::from(child.wait_with_output().unwrap());
    ran.expect(130, "ended by SIGINT").expect(130, "barewire: 2 ranks were ended");
    assert!(ran.err.contains("rank 1 on") && !ran.err.contains("SIGTERM"), "{ran:#?}");
    assert_eq!(processes(&mark), []);
}

#[test]
fn a_killed_launcher_leaves_nothing() {
    let mark = mark("launcher");
    // A grandchild in a session of its own is found as well.
    let child = start(&["-n", "3", "sh", "-c", &format!("setsid sleep {mark} & sleep {mark}")]);
    wait_for_sleepers(&mark, 6);
    signal(child.id(), "KILL");
    child.wait_with_output().unwrap();
    nothing_is_left(&mark);
}

#[test]
fn a_killed_agent_leaves_nothing_and_is_reported() {
    let mark = mark("agent");
    let child = start(&["-n", "3", "sh", "-c", &format!("setsid sleep {mark} & sleep {mark}")]);
    wait_for_sleepers(&mark, 6);
    let agent = agent_of(child.id());
    signal(agent, "KILL");
    Ran::from(child.wait_with_output().unwrap()).expect(1, "its agent was killed by SIGKILL");
    assert_eq!(processes(&mark), []);
}

#[test]
fn daemons_of_a_finished_job_are_ended() {
    let mark = mark("daemon");
    let ran = run(&["-n", "2", "sh", "-c", &format!("setsid sleep {mark} & exit 0")]);
    ran.expect(0, "");
    assert_eq!(processes(&mark), []);
}

#[test]
fn a_stopped_job_is_not_taken_for_dead() {
    let mark = mark("stopped");
    let child = start(&["-n", "2", "sleep", &mark]);
    wait_for_sleepers(&mark, 2);
    sleepers(&mark).into_iter().for_each(|pid| signal(pid, "STOP"));
    signal(agent_of(child.id()), "STOP");
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(sleepers(&mark).len(), 2);
    signal(agent_of(child.id()), "CONT");
    sleepers(&mark).into_iter().for_each(|pid| signal(pid, "CONT"));
    signal(child.id(), "TERM");
    Ran::from(child.wait_with_output().unwrap()).expect(143, "");
    assert_eq!(processes(&mark), []);
}

#[test]
fn user_signals_reach_the_ranks() {
    let mark = mark("usr1");
    let script = format!("trap 'echo got it; kill $!; exit 0' USR1; sleep {mark} & wait");
    let child = start(&["-n", "2", "sh", "-c", &script]);
    wait_for_sleepers(&mark, 2);
    signal(child.id(), "USR1");
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.out.as_str(), ran.code), ("got it\ngot it\n", Some(0)));
}

#[test]
fn output_nobody_takes_does_not_stop_an_interrupt() {
    let mut child =
        common::command(&["-n", "2", "yes"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let out = child.stdout.take().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(out);
}

#[test]
fn nonsense_on_the_boot_connection_is_reported_and_harms_nobody() {
    let script = "[ $PMI_RANK = 1 ] && { printf '\\377\\377nonsense' >&$BAREWIRE_BOOT_FD; exit 0; }; exit 0";
    run(&["-n", "3", "bash", "-c", script]).expect(0, "rank 1 on");
}

fn agent_of(launcher: u32) -> u32 {
    let mut agent = None;
    wait_until("the agent", || {
        let children =
            Command::new("ps").args(["-o", "pid=", "--ppid", &launcher.to_string()]).output().unwrap();
        agent = String::from_utf8_lossy(&children.stdout)
            .split_whitespace()
            .next()
            .and_then(|pid| pid.parse().ok());
        agent.is_some()
    });
    agent.unwrap()
}
