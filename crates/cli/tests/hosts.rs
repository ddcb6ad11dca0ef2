//! Several hosts: real processes in real network namespaces, links that are cut, hosts that die.
//!
//! They need root and iproute2, and are ignored by default for that reason.

mod common;

use std::process::Command;

use common::hosts::{Hosts, SHELL};
use common::{BAREWIRE, Ran, mark, processes, run, signal, sleepers, start, wait_for_sleepers, wait_until};

fn over<'a>(list: &'a str, words: &[&'a str]) -> Vec<&'a str> {
    [&["--remote-shell", SHELL, "--hosts", list], words].concat()
}

#[test]
#[ignore = "needs root: ./test hosts"]
fn ranks_on_four_hosts_meet() {
    let hosts = Hosts::new(101, 4);
    let list = hosts.list(2);
    let ran = run(&over(&list, &[BAREWIRE, "hello", "--exchange"]));
    ran.expect(0, "");
    for rank in 0..8 {
        let line = format!("hello from rank {rank} of 8 on {}, one of 2 there", hosts.host(rank / 2 + 1));
        assert!(ran.out.contains(&line), "no {line:?} in {ran:#?}");
    }
    hosts.are_empty();
}

#[test]
#[ignore = "needs root: ./test hosts"]
fn ranks_talk_by_shared_memory_inside_a_host_and_by_tcp_between() {
    let hosts = Hosts::new(113, 4);
    let list = hosts.list(2);
    let talked = run(&over(&list, &[BAREWIRE, "hello", "--rounds", "20"]));
    talked.expect(0, "");
    assert_eq!(talked.out.matches("20 round trips").count(), 8, "{talked:#?}");
    let job = start(&over(&list, &[BAREWIRE, "hello", "--seconds", "300"]));
    let mut answer = String::new();
    wait_until("all pairs to talk", || {
        let asked = Command::new(BAREWIRE).args(["info", "--job", &job.id().to_string()]).output();
        answer = Ran::from(asked.unwrap()).out;
        answer.starts_with("pairs in use: shm 8, tcp 8\n")
    });
    for rank in 0..8 {
        let (host, next) = (hosts.host(rank / 2 + 1), (rank + 1) % 8);
        let wire = if rank % 2 == 0 { "shm: it is on the same host" } else { "tcp " };
        let line = format!("rank {rank} on {host} to {next}: {wire}");
        assert!(answer.contains(&line), "no {line:?} in {answer}");
    }
    signal(job.id(), "TERM");
    Ran::from(job.wait_with_output().unwrap()).expect(143, "");
    hosts.are_empty();
}

#[test]
#[ignore = "needs root: ./test hosts"]
fn variables_directory_output_and_input_travel() {
    use std::io::Write;
    let hosts = Hosts::new(102, 2);
    let list = hosts.list(1);
    let script = "echo $PMI_RANK $TRAVELS $SET $(pwd) $(cat)";
    let words = over(&list, &["-x", "SET=2", "--tag-output", "--stdin", "1", "sh", "-c", script]);
    let mut command = common::command(&words);
    command.env("TRAVELS", "1").current_dir("/usr").stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"input").unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    let tag = |rank: u32| format!("[{rank}@{}]", hosts.host(rank + 1));
    assert_eq!(ran.lines(), [format!("{} 0 1 2 /usr", tag(0)), format!("{} 1 1 2 /usr input", tag(1))]);
}

#[test]
#[ignore = "needs root: ./test hosts"]
fn a_failing_rank_ends_all_hosts() {
    let hosts = Hosts::new(103, 3);
    let (list, mark) = (hosts.list(2), mark("fail"));
    let script = format!("[ $PMI_RANK = 3 ] && exit 5; setsid sleep {mark} & sleep {mark}");
    let ran = run(&over(&list, &["sh", "-c", &script]));
    ran.expect(5, &format!("rank 3 on {}", hosts.host(2)));
    hosts.are_empty();
    assert_eq!(processes(&mark), []);
}

#[test]
#[ignore = "needs root: ./test hosts"]
fn a_killed_host_ends_the_job_and_is_named() {
    let hosts = Hosts::new(104, 3);
    let (list, mark) = (hosts.list(2), mark("host"));
    let child = start(&over(&list, &["sleep", &mark]));
    wait_for_sleepers(&mark, 6);
    hosts.kill(2);
    Ran::from(child.wait_with_output().unwrap()).expect(1, &format!("host {} was lost", hosts.host(2)));
    hosts.are_empty();
}

#[test]
#[ignore = "needs root: ./test hosts"]
fn a_cut_link_ends_both_sides() {
    let hosts = Hosts::new(105, 3);
    let (list, mark) = (hosts.list(1), mark("cut"));
    let child = start(&over(&list, &["sleep", &mark]));
    wait_for_sleepers(&mark, 3);
    hosts.link(3, false);
    Ran::from(child.wait_with_output().unwrap()).expect(1, &format!("host {} was lost", hosts.host(3)));
    // The host that is cut off notices by itself.
    hosts.are_empty();
    assert_eq!(sleepers(&mark), []);
}

/// Ranks on three hosts that talk all the time, when something happens to them.
fn talking(hosts: &Hosts) -> (std::process::Child, String) {
    let list = hosts.list(2);
    let job = start(&over(&list, &[BAREWIRE, "hello", "--seconds", "300"]));
    wait_until("all pairs to talk", || {
        let asked = Command::new(BAREWIRE).args(["info", "--job", &job.id().to_string()]).output();
        Ran::from(asked.unwrap()).out.starts_with("pairs in use: shm 6, tcp 6\n")
    });
    let socket = format!("@barewire-job-{}", job.id());
    assert!(abstract_sockets().contains(&socket), "the launcher listens for questions");
    (job, socket)
}

fn abstract_sockets() -> String {
    std::fs::read_to_string("/proc/net/unix").unwrap()
}

/// Nothing is left on any host, and nothing of the launcher's.
#[track_caller]
fn all_is_gone(hosts: &Hosts, socket: &str) {
    hosts.are_empty();
    assert!(!abstract_sockets().contains(socket), "{socket} is left");
    for index in 1..=3 {
        assert_eq!(hosts.listening(index), Vec::<String>::new());
    }
}

#[test]
#[ignore = "needs root: ./test hosts"]
fn a_link_cut_while_ranks_talk_ends_the_job_on_both_sides() {
    let hosts = Hosts::new(115, 3);
    let (job, socket) = talking(&hosts);
    hosts.link(3, false);
    let ran = Ran::from(job.wait_with_output().unwrap());
    // Whoever notices first, a rank that talks with the lost host or the launcher, the status says so.
    assert!(matches!(ran.code, Some(1 | 2)), "{ran:#?}");
    assert!(ran.err.contains(&hosts.host(3)) || ran.err.contains("is gone"), "{ran:#?}");
    all_is_gone(&hosts, &socket);
}

#[test]
#[ignore = "needs root: ./test hosts"]
fn a_host_killed_while_ranks_talk_ends_the_job() {
    let hosts = Hosts::new(116, 3);
    let (job, socket) = talking(&hosts);
    hosts.kill(2);
    let ran = Ran::from(job.wait_with_output().unwrap());
    assert!(matches!(ran.code, Some(1 | 2 | 137)), "{ran:#?}");
    assert!(ran.err.contains(&hosts.host(2)) || ran.err.contains("is gone"), "{ran:#?}");
    all_is_gone(&hosts, &socket);
}

#[test]
#[ignore = "needs root: ./test hosts"]
fn a_rank_killed_while_ranks_talk_ends_the_job() {
    let hosts = Hosts::new(117, 3);
    let (job, socket) = talking(&hosts);
    let is_rank = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.windows(7).any(|w| w == b"\0hello\0"))
    };
    let rank = hosts.processes(3).into_iter().find(is_rank).expect("a rank runs there");
    signal(rank, "KILL");
    let ran = Ran::from(job.wait_with_output().unwrap());
    // Its neighbours may notice, and fail, before its agent has said how it ended.
    assert!(matches!(ran.code, Some(2 | 137)), "{ran:#?}");
    assert!(ran.err.contains("SIGKILL") || ran.err.contains("is gone"), "{ran:#?}");
    all_is_gone(&hosts, &socket);
}

#[test]
#[ignore = "needs root: ./test hosts"]
fn an_inner_agent_cut_off_takes_its_subtree_along_and_nothing_is_left() {
    let hosts = Hosts::new(118, 6);
    let (list, mark) = (hosts.list(1), mark("subtree"));
    // The first and the fourth host's agents start the others.
    let child = start(&over(&list, &["--fan-out", "2", "sleep", &mark]));
    wait_for_sleepers(&mark, 6);
    hosts.link(4, false);
    let ran = Ran::from(child.wait_with_output().unwrap());
    ran.expect(1, &format!("host {} was lost", hosts.host(4)));
    ran.expect(1, "with it the 2 hosts that are reached through it");
    hosts.are_empty();
    assert_eq!(processes(&mark), []);
}

#[test]
#[ignore = "needs root: ./test hosts"]
fn a_job_that_keeps_going_outlives_a_host() {
    let hosts = Hosts::new(106, 3);
    let (list, mark) = (hosts.list(1), mark("outlive"));
    let script = format!("[ $PMI_RANK = 1 ] && exec sleep {mark}; exec {BAREWIRE} hello --mourn");
    let child = start(&over(&list, &["--keep-going", "sh", "-c", &script]));
    wait_for_sleepers(&mark, 1);
    let files = || std::fs::read_dir(format!("/proc/{}/fd", child.id())).map_or(0, Iterator::count);
    let before = files();
    hosts.kill(2);
    wait_until("the launcher to close what led to the host", || files() < before);
    let ran = Ran::from(child.wait_with_output().unwrap());
    ran.expect(0, "was lost");
    assert_eq!(ran.out.matches("rank 1 is gone: its host was lost").count(), 2, "{ran:#?}");
}

#[test]
#[ignore = "needs root: ./test hosts"]
fn requests_to_end_reach_all_hosts_at_any_time() {
    let hosts = Hosts::new(107, 4);
    let list = hosts.list(4);
    for round in 0..6 {
        let mark = mark(&format!("int{round}"));
        let child = start(&over(&list, &["sh", "-c", &format!("setsid sleep {mark} & sleep {mark}")]));
        std::thread::sleep(std::time::Duration::from_millis(round * 15));
        // An interrupt may be ignored until it is caught: see `ending`.
        signal(child.id(), "TERM");
        assert!(!child.wait_with_output().unwrap().status.success());
        hosts.are_empty();
        assert_eq!(processes(&mark), []);
    }
}

#[test]
#[ignore = "needs root: ./test hosts"]
fn a_killed_launcher_leaves_nothing_on_any_host() {
    let hosts = Hosts::new(108, 3);
    let (list, mark) = (hosts.list(2), mark("dead"));
    let child = start(&over(&list, &["sh", "-c", &format!("setsid sleep {mark} & sleep {mark}")]));
    wait_for_sleepers(&mark, 12);
    signal(child.id(), "KILL");
    child.wait_with_output().unwrap();
    hosts.are_empty();
}

#[test]
#[ignore = "needs root: ./test hosts"]
fn a_stopped_launcher_is_not_taken_for_dead() {
    let hosts = Hosts::new(109, 2);
    let (list, mark) = (hosts.list(1), mark("paused"));
    let child = start(&over(&list, &["sleep", &mark]));
    wait_for_sleepers(&mark, 2);
    signal(child.id(), "STOP");
    // Longer than a cut link takes to be noticed.
    std::thread::sleep(std::time::Duration::from_secs(9));
    assert_eq!(sleepers(&mark).len(), 2);
    signal(child.id(), "CONT");
    signal(child.id(), "TERM");
    Ran::from(child.wait_with_output().unwrap()).expect(143, "");
    hosts.are_empty();
}

#[test]
#[ignore = "needs root: ./test hosts"]
fn hosts_that_cannot_be_used_are_named_with_what_to_do() {
    let hosts = Hosts::new(110, 2);
    let unknown = format!("{},nowhere:1", hosts.list(1));
    run(&over(&unknown, &["true"])).expect(1, "host nowhere: the remote shell ended");
    let list = hosts.list(1);
    run(&["--hosts", &list, "--remote-shell", "no-such-shell", "true"])
        .expect(1, "cannot run the remote shell");
    let missing = ["--remote-program", "/no/such/barewire", "true"];
    run(&over(&list, &missing)).expect(1, "/no/such/barewire");
    run(&over(&list, &["no-such-program"])).expect(127, "there is no `no-such-program` in PATH");
    // A host that is there but has no ssh server refuses.
    let refusing = format!("{}:1", hosts.address(1));
    run(&["--hosts", &refusing, "true"]).expect(1, "Connection refused");
    hosts.are_empty();
}

#[test]
#[ignore = "needs root: ./test hosts"]
fn an_unreachable_launcher_is_reported_by_the_host() {
    let hosts = Hosts::new(111, 1);
    hosts.link(1, false);
    let list = hosts.list(1);
    let ran = run(&over(&list, &["true"]));
    ran.expect(1, "cannot reach the launcher");
    assert!(ran.err.contains("have not answered after 3 s"), "progress is shown: {ran:#?}");
    hosts.are_empty();
}

#[test]
#[ignore = "needs root: ./test hosts"]
fn ports_and_interfaces_can_be_chosen() {
    let hosts = Hosts::new(112, 1);
    let list = hosts.list(1);
    let slow = "sh -c 'sleep 1; exec \"$@\"' sh ip netns exec {host}";
    let words = ["--hosts", &list, "--remote-shell", slow, "--port-range", "41234-41239", "sleep", "1"];
    let open = |port: &u16| std::net::TcpStream::connect(("127.0.0.1", *port)).is_ok();
    let child = start(&words);
    wait_until("the launcher to listen", || (41234..=41239).filter(open).count() == 1);
    wait_until("the port to be closed once all are in", || (41234..=41239).filter(open).count() == 0);
    Ran::from(child.wait_with_output().unwrap()).expect(0, "");
    run(&over(&list, &["--interface", "nothere0", "true"])).expect(2, "no such interface");
}

#[test]
#[ignore = "needs root: ./test hosts"]
fn ranks_listen_only_where_they_are_told() {
    let hosts = Hosts::new(114, 2);
    let list = hosts.list(2);
    // The launcher itself has no such interface, so only the ranks are told.
    let told = ["-x", "BAREWIRE_INTERFACE=eth0", "-x", "BAREWIRE_PORT_RANGE=41250-41251"];
    let words = [&told[..], &[BAREWIRE, "hello", "--seconds", "60"]].concat();
    let job = start(&over(&list, &words));
    for index in [1, 2] {
        let mut listening = Vec::new();
        let expected = [41250, 41251].map(|port| format!("{}:{port}", hosts.address(index)));
        wait_until("the ranks to listen", || {
            listening = hosts.listening(index);
            listening.len() >= 2
        });
        assert_eq!(listening, expected);
    }
    signal(job.id(), "TERM");
    Ran::from(job.wait_with_output().unwrap()).expect(143, "");
    let few = ["-x", "BAREWIRE_PORT_RANGE=41250", BAREWIRE, "hello", "--rounds", "1"];
    run(&over(&list, &few)).expect(2, "no port from 41250 to 41250 is free here");
    let none = ["-x", "BAREWIRE_INTERFACE=eth7", BAREWIRE, "hello", "--rounds", "1"];
    run(&over(&list, &none)).expect(2, "there is no network interface eth7");
    hosts.are_empty();
}
