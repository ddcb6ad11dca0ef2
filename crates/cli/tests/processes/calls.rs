//! System calls of small messages over shared memory: none.
//!
//! Counted by `strace`, from outside. Whoever finds nothing to do looks at its sockets now and then, which takes system calls;
//! how often does not depend on the number of messages but on how long one waits for them. So two endpoints of one thread,
//! which never wait, must get by without one but those for newcomers, who would else knock in vain, and two processes without any
//! that their idle looks do not explain.

use std::process::Command;

use barewire_core::job::Job;
use barewire_core::{Config, Endpoint, Flow, Incoming, Peer, Port, SendError, boot};

use crate::Case;
use crate::folder::{Board, Stage};

const MESSAGES: u64 = 200_000;
/// Looks that find nothing before an endpoint looks at its sockets, and the calls that takes: to `epoll`, and to the launcher.
const IDLE_LOOKS: u64 = 256;
const CALLS_A_LOOK: u64 = 2;
/// Messages for which there may be one call: whoever always finds something looks for newcomers once in 65536 packets, and to
/// start, meet and end takes a few calls more in one run than in another.
const MESSAGES_A_CALL: u64 = 2_000;
/// Calls to start, meet and end, and then some.
const CALLS_BESIDE: u64 = 5_000;

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("calls::messages_of_one_thread_take_no_system_call", one_thread).alone(),
        Case::new("calls::messages_between_processes_take_no_system_call", two_processes).alone(),
    ]
}

fn one_thread() {
    let [once, twice] = [MESSAGES, 2 * MESSAGES].map(|count| counted(1, "thread", count)[0].calls);
    println!("{MESSAGES} messages: {once} system calls in all; {}: {twice}", 2 * MESSAGES);
    assert!(twice <= once + MESSAGES / MESSAGES_A_CALL);
}

fn two_processes() {
    for count in [MESSAGES, 2 * MESSAGES] {
        for (rank, Count { calls, idle }) in counted(2, "process", count).into_iter().enumerate() {
            let waiting = idle / IDLE_LOOKS * CALLS_A_LOOK;
            println!(
                "rank {rank}, {count} messages: {calls} system calls, of which waiting explains {waiting}"
            );
            assert!(calls <= waiting + CALLS_BESIDE);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Count {
    calls: u64,
    /// Looks that found nothing.
    idle: u64,
}

/// What each rank did in all to exchange `count` messages.
fn counted(ranks: u32, what: &str, count: u64) -> Vec<Count> {
    let found = Command::new("strace").arg("-V").output();
    assert!(found.is_ok_and(|ran| ran.status.success()), "this needs strace, which ./test installs");
    let strace = "strace -f -c -o \"$FOLDER/calls.$PMI_RANK\"";
    let mut stage = Stage::start(ranks, &["calls", what, &count.to_string()], strace);
    let board = stage.board.clone();
    let idle: Vec<u64> = (0..ranks).map(|rank| stage.number(&format!("idle.{rank}"))).collect();
    // The count is written when the rank has ended.
    let calls = |rank: u32| {
        crate::common::wait_until("strace's count", || {
            board.read(&format!("calls.{rank}")).is_some_and(|text| text.contains("total"))
        });
        total_calls(&board.read(&format!("calls.{rank}")).expect("it is there"))
    };
    let counts = (0..ranks).map(|rank| Count { calls: calls(rank), idle: idle[rank as usize] }).collect();
    stage.end();
    counts
}

/// The sum below the column "calls" of strace's table.
fn total_calls(table: &str) -> u64 {
    let heads = table.lines().find(|line| line.contains("calls")).expect("the table's heads");
    let column = heads.split_whitespace().collect::<Vec<_>>().join(" ").replace("% time", "time");
    let column = column.split(' ').position(|head| head == "calls").expect("a column of calls");
    let total = table.lines().find(|line| line.ends_with("total")).expect("a sum");
    total.split_whitespace().nth(column).expect("a number of calls").parse().unwrap()
}

pub fn rank(board: &Board, what: &str, count: u64) {
    let job = boot::from_environment().unwrap();
    let rank = job.rank;
    let idle = if what == "thread" { in_one_thread(count) } else { in_two_processes(job, count) };
    board.note(&format!("idle.{rank}"), &idle.to_string());
}

/// Two endpoints that take turns: each finds what it looks for.
fn in_one_thread(count: u64) -> u64 {
    let mut jobs = Job::threads(2).unwrap().into_iter();
    let [mut a, mut b] = [(); 2].map(|()| Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap());
    let mut got = 0;
    let mut take = |_: &mut Endpoint, packet: Incoming<'_>| {
        got += packet.imm;
        Flow::Continue
    };
    // Meeting takes calls, the same ones for however many messages.
    for _ in 0..10_000 {
        let _ = a.send(Peer(1), Port(1), 0, b"");
        let _ = b.send(Peer(0), Port(1), 0, b"");
        a.progress(&mut take, usize::MAX);
        b.progress(&mut take, usize::MAX);
    }
    for _ in 0..count {
        a.send(Peer(1), Port(1), 1, b"eight by").unwrap();
        b.progress(&mut take, usize::MAX);
        b.send(Peer(0), Port(1), 1, b"eight by").unwrap();
        a.progress(&mut take, usize::MAX);
    }
    assert_eq!(got, 2 * count);
    0
}

/// Ping-pong between processes, with spinning only.
fn in_two_processes(job: Job, count: u64) -> u64 {
    let (me, other) = (job.rank, Peer(1 - job.rank));
    let mut ep = Endpoint::open(job, Config::default()).unwrap();
    let (mut got, mut idle) = (0, 0);
    for round in 0..count {
        if me == 0 {
            send(&mut ep, other);
        }
        while got <= round {
            let mut take = |_: &mut Endpoint, _: Incoming<'_>| {
                got += 1;
                Flow::Continue
            };
            if ep.progress(&mut take, usize::MAX) == 0 {
                idle += 1;
                std::hint::spin_loop();
            }
        }
        if me == 1 {
            send(&mut ep, other);
        }
    }
    idle
}

fn send(ep: &mut Endpoint, to: Peer) {
    while let Err(error) = ep.send(to, Port(1), 1, b"eight by") {
        assert_eq!(error, SendError::Full);
        ep.progress(&mut barewire_core::Ignore, usize::MAX);
    }
}
