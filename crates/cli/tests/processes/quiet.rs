//! What a rank leaves alone: the processor while it sleeps, and the program's signal handlers always.

use std::time::Duration;

use barewire_core::{Config, Peer, boot};
use barewire_sys::cpu::cpu_time;

use crate::Case;
use crate::folder::{Board, Stage};
use crate::rank::{LONG_BYTES, Rank, pattern};

/// How long a rank sleeps until the other sends it something.
const ASLEEP: Duration = Duration::from_millis(1500);
/// Processor time it may use for that: to fall asleep, and to look round now and then.
const USED_MAX: Duration = Duration::from_millis(200);
/// Messages both ways before it sleeps.
const ROUNDS: u64 = 1000;

pub fn cases() -> Vec<Case> {
    let each = |wire: &'static str| {
        [
            Case::new(format!("quiet::a_sleeping_rank_uses_no_processor_time_{wire}"), move || sleep(wire)),
            Case::new(format!("quiet::no_signal_handler_is_installed_{wire}"), move || signals(wire)),
        ]
    };
    ["shm", "tcp"].into_iter().flat_map(each).collect()
}

fn sleep(wire: &str) {
    let mut stage = Stage::start(2, &["quiet", wire], "");
    let used = Duration::from_micros(stage.number("used"));
    println!("{ASLEEP:?} of waiting over {wire} took {used:?} of processor time");
    assert!(used < USED_MAX);
    stage.end();
}

fn signals(wire: &str) {
    let mut stage = Stage::start(2, &["quiet", wire], "");
    for rank in 0..2 {
        let [before, after] = ["before", "after"].map(|when| stage.await_note(&format!("{when}.{rank}")));
        assert_eq!(before, after, "signals that rank {rank} catches");
    }
    stage.end();
}

/// Two ranks talk, then one sleeps until the other wakes it.
pub fn rank(board: &Board, wire: &str) {
    let job = boot::from_environment().unwrap();
    let (rank, other) = (job.rank, Peer(1 - job.rank));
    board.note(&format!("before.{rank}"), &caught());
    let config = Config { shm: wire == "shm", ..Config::default() };
    let mut me = Rank::open(job, config, board.clone());
    me.send_shorts(other, ROUNDS, b"eight by").unwrap();
    me.receive_shorts(other, ROUNDS).unwrap();
    if rank == 0 {
        me.send_long(other, &pattern(LONG_BYTES)).unwrap();
        me.next_command(other).unwrap();
        let before = used();
        me.command(other, 1).unwrap();
        me.next_command(other).unwrap();
        board.note("used", &(used() - before).as_micros().to_string());
    } else {
        me.receive_long(other, LONG_BYTES).unwrap();
        me.command(other, 0).unwrap();
        me.next_command(other).unwrap();
        std::thread::sleep(ASLEEP);
        me.command(other, 2).unwrap();
    }
    drop(me);
    board.note(&format!("after.{rank}"), &caught());
}

fn used() -> Duration {
    let (user, system) = cpu_time();
    user + system
}

/// The signals for which this process has handlers, as the kernel says it.
fn caught() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find(|line| line.starts_with("SigCgt:")).expect("the kernel says it").to_owned()
}
