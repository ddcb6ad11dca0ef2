//! Many hosts: agents start agents, and the loss of one takes along only those behind it, cleanly.
//!
//! The hosts are all here: the remote shell is a command that runs its words. Real networks are in `hosts.rs`.

mod common;

use std::io::Write;
use std::process::{Child, Command, Stdio};

use common::{BAREWIRE, Folder, Ran, mark, nothing_is_left, signal, sleepers, wait_for_sleepers};

/// Hosts with agents whose command lines carry a mark, so that what is left of them is found.
struct Many {
    folder: Folder,
    mark: String,
    list: String,
}

impl Many {
    fn new(name: &str, hosts: u32) -> Self {
        let mark = mark(name);
        let folder = Folder::new(&mark);
        std::os::unix::fs::symlink(BAREWIRE, folder.path().join("barewire")).unwrap();
        let list = (1..=hosts).map(|host| format!("h{host}")).collect::<Vec<_>>().join(",");
        Self { folder, mark, list }
    }

    fn command(&self, fan_out: &str, words: &[&str]) -> Command {
        let program = self.folder.path().join("barewire");
        let common =
            ["--hosts", &self.list, "--fan-out", fan_out, "--remote-program", program.to_str().unwrap()];
        common::command(&[&common[..], words].concat())
    }

    fn start(&self, fan_out: &str, words: &[&str]) -> Child {
        let words = [&["--remote-shell", SHELL], words].concat();
        self.command(fan_out, &words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn run(&self, fan_out: &str, words: &[&str]) -> Ran {
        Ran::from(self.start(fan_out, words).wait_with_output().unwrap())
    }
}

const SHELL: &str = "env HOST={host}";

fn children(pid: u32) -> Vec<u32> {
    let listed = Command::new("ps").args(["-o", "pid=", "--ppid", &pid.to_string()]).output().unwrap();
    String::from_utf8_lossy(&listed.stdout).split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// An agent of the launcher's that has agents behind it.
fn inner_agent(launcher: u32) -> u32 {
    let is_agent = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.windows(7).any(|w| w == b"\0agent\0"))
    };
    let leads = |pid: &u32| children(*pid).iter().any(is_agent);
    children(launcher).into_iter().filter(is_agent).find(leads).expect("an agent with agents behind it")
}

#[test]
fn forty_hosts_meet_through_a_tree_of_agents() {
    let many = Many::new("meet", 40);
    let ran = many.run("3", &[BAREWIRE, "hello", "--exchange"]);
    ran.expect(0, "");
    for rank in 0..40 {
        let line = format!("hello from rank {rank} of 40 on h{}, one of 1 there", rank + 1);
        assert!(ran.out.contains(&line), "no {line:?} in {ran:#?}");
    }
    let talked = many.run("3", &[BAREWIRE, "hello", "--rounds", "5"]);
    talked.expect(0, "");
    assert_eq!(talked.out.matches("5 round trips").count(), 40, "{talked:#?}");
    nothing_is_left(&many.mark);
}

#[test]
fn nobody_starts_more_agents_than_the_fan_out() {
    let many = Many::new("width", 30);
    let child = many.start("3", &["sleep", &many.mark]);
    wait_for_sleepers(&many.mark, 30);
    assert_eq!(children(child.id()).len(), 3);
    let inner = inner_agent(child.id());
    // Its rank, and the agents it started.
    assert!(children(inner).len() <= 4, "{:?}", children(inner));
    signal(child.id(), "TERM");
    Ran::from(child.wait_with_output().unwrap()).expect(143, "30 ranks were ended");
    nothing_is_left(&many.mark);
}

#[test]
fn input_output_and_signals_travel_through_the_tree() {
    let many = Many::new("travel", 20);
    let script = "echo $PMI_RANK $HOST $(wc -c)";
    let words = ["--remote-shell", SHELL, "--stdin", "19", "sh", "-c", script];
    let mut command = many.command("2", &words);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::thread::spawn(move || input.write_all(&[b'x'; 300_000]).unwrap());
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert!(ran.out.contains("19 h20 300000\n") && ran.out.contains("7 h8 0\n"), "{ran:#?}");
    let much = many.run("2", &["sh", "-c", "yes barewire | head -c 300000"]);
    assert_eq!((much.code, much.out.len()), (Some(0), 20 * 300_000));
    let script = format!("trap 'echo got it; kill $!; exit 0' USR1; sleep {} & wait", many.mark);
    let child = many.start("2", &["sh", "-c", &script]);
    wait_for_sleepers(&many.mark, 20);
    signal(child.id(), "USR1");
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.out.matches("got it").count()), (Some(0), 20), "{ran:#?}");
    nothing_is_left(&many.mark);
}

#[test]
fn a_failing_rank_ends_the_whole_tree() {
    let many = Many::new("fail", 30);
    let script = format!("[ $PMI_RANK = 23 ] && exit 5; setsid sleep {0} & sleep {0}", many.mark);
    many.run("2", &["sh", "-c", &script]).expect(5, "rank 23 on h24");
    nothing_is_left(&many.mark);
}

#[test]
fn a_lost_inner_agent_ends_its_subtree_and_the_job() {
    let many = Many::new("inner", 30);
    let child = many.start("3", &["sh", "-c", &format!("setsid sleep {0} & sleep {0}", many.mark)]);
    wait_for_sleepers(&many.mark, 60);
    signal(inner_agent(child.id()), "KILL");
    let ran = Ran::from(child.wait_with_output().unwrap());
    ran.expect(1, "was lost").expect(1, "with it the 9 hosts that are reached through it");
    nothing_is_left(&many.mark);
}

#[test]
fn a_job_that_keeps_going_outlives_a_subtree() {
    let many = Many::new("outlive", 12);
    // Ranks 0-3 are behind the first agent.
    let script = format!("[ $PMI_RANK -lt 4 ] && exec sleep {}; exec {BAREWIRE} hello --mourn", many.mark);
    let child = many.start("3", &["--keep-going", "sh", "-c", &script]);
    wait_for_sleepers(&many.mark, 4);
    let inner = children(child.id()).into_iter().min().unwrap();
    signal(inner, "KILL");
    let ran = Ran::from(child.wait_with_output().unwrap());
    ran.expect(0, "was lost");
    assert_eq!(ran.out.matches("is gone: its host was lost").count(), 8, "{ran:#?}");
    assert_eq!(sleepers(&many.mark), []);
    nothing_is_left(&many.mark);
}

#[test]
fn a_request_to_end_while_the_tree_grows_leaves_nothing() {
    let many = Many::new("early", 24);
    for round in 0..6 {
        let child = many.start("2", &["sleep", &many.mark]);
        std::thread::sleep(std::time::Duration::from_millis(round * 25));
        // An interrupt may be ignored until it is caught: see `ending`.
        signal(child.id(), "TERM");
        assert!(!child.wait_with_output().unwrap().status.success());
        nothing_is_left(&many.mark);
    }
}

#[test]
fn a_killed_launcher_leaves_nothing_of_the_tree() {
    let many = Many::new("launcher", 20);
    let child = many.start("2", &["sh", "-c", &format!("setsid sleep {0} & sleep {0}", many.mark)]);
    wait_for_sleepers(&many.mark, 40);
    signal(child.id(), "KILL");
    child.wait_with_output().unwrap();
    nothing_is_left(&many.mark);
}

#[test]
fn a_host_that_cannot_be_started_by_another_is_named_with_what_to_do() {
    let many = Many::new("deep", 12);
    let shell = r#"sh -c '[ {host} = h12 ] && { echo no such luck >&2; exit 9; }; exec "$@"' sh"#;
    let child = many.command("2", &["--remote-shell", shell, "sleep", &many.mark]);
    let ran = Ran::from({ child }.output().unwrap());
    ran.expect(1, "host h12: the remote shell ended with status 9")
        .expect(1, "no such luck")
        .expect(1, "--fan-out");
    nothing_is_left(&many.mark);
}
