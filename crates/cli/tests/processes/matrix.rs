//! Killed or stopped at every step of the protocol, on either side of it, over either wire.
//!
//! Three ranks: a survivor, a victim, and a third one that works with the survivor all along. A killed victim is an error on
//! the survivor's operations with it, and only on those; one that was stopped for a while has lost nothing.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::Case;
use crate::common::signal;
use crate::folder::{Stage, named_files_of, now_ns};

/// How late an error may come in a test; what is promised is a second, but a test machine may have other things to do.
const SLACK: Duration = Duration::from_secs(5);
/// Longer than death may go unnoticed.
const STOPPED_FOR: Duration = Duration::from_millis(1500);

/// What goes on when the victim is struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The victim has joined the job but has no endpoint.
    Join,
    /// It has an endpoint that nobody has connected to.
    Open,
    /// Connected, the victim asleep in a wait; the survivor looks again and again.
    Idle,
    /// Connected, and the survivor asleep in a wait.
    Asleep,
    /// Like that, and a child that the victim has started keeps its sockets open.
    Kept,
    /// A stream of short messages.
    Stream,
    /// A long message.
    Long,
    /// The wire is full, and its sender blocked.
    Full,
    /// A put by packets.
    Put,
    /// A get by packets.
    Get,
    /// Atomic updates by packets.
    Atomic,
    /// Atomic updates of mapped memory.
    Direct,
    /// A tagged message is offered, and nobody has asked for it.
    Offer,
    /// The rest of a tagged message is on its way.
    Rendezvous,
    /// A message that the survivor has not heard yet when it hears of the death.
    LastWords,
}

/// What the victim does in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Sends,
    Receives,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub what: What,
    pub side: Side,
}

const NAMES: [(&str, What); 15] = [
    ("join", What::Join),
    ("open", What::Open),
    ("idle", What::Idle),
    ("asleep", What::Asleep),
    ("kept", What::Kept),
    ("stream", What::Stream),
    ("long", What::Long),
    ("full", What::Full),
    ("put", What::Put),
    ("get", What::Get),
    ("atomic", What::Atomic),
    ("direct", What::Direct),
    ("offer", What::Offer),
    ("rendezvous", What::Rendezvous),
    ("last-words", What::LastWords),
];

impl Step {
    pub fn named(what: &str, side: &str) -> Step {
        let (_, what) = NAMES.into_iter().find(|(name, _)| *name == what).expect("a step's name");
        Step { what, side: if side == "sends" { Side::Sends } else { Side::Receives } }
    }

    pub fn is_before_meeting(self) -> bool {
        matches!(self.what, What::Join | What::Open)
    }
}

/// What happens to the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    /// Killed; the launcher tells the others.
    Kill,
    /// Killed while the launcher's agent is stopped: the others have to find out by themselves.
    KillUnseen,
    /// Stopped for a while.
    Stop,
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, what) in NAMES {
        for wire in ["shm", "tcp"] {
            let sides: &[&str] = match what {
                What::Join | What::Open | What::Idle | What::Asleep | What::Kept | What::Direct => {
                    &["receives"]
                }
                What::LastWords => &["sends"],
                _ => &["sends", "receives"],
            };
            for side in sides {
                for blow in [Blow::Kill, Blow::KillUnseen, Blow::Stop] {
                    let sensible = match what {
                        What::Join | What::Open => blow != Blow::KillUnseen,
                        What::LastWords => blow != Blow::Stop,
                        What::Direct => wire == "shm",
                        What::Kept => wire == "shm" && blow != Blow::Stop,
                        _ => true,
                    };
                    if sensible {
                        let case = format!("matrix::{wire}::{name}::victim_{side}::{blow:?}");
                        cases.push(Case::new(case, move || strike(wire, name, side, blow)));
                    }
                }
            }
        }
    }
    cases
}

/// How long the survivors of all cases took to notice, over which wire, and in which operation.
static NOTICED: Mutex<Vec<(Duration, String, String)>> = Mutex::new(Vec::new());

/// What is promised; not checked here, because what takes longer may be the test machine.
const PROMISED: Duration = Duration::from_secs(1);

pub fn print_summary() {
    let mut noticed = NOTICED.lock().unwrap();
    noticed.sort();
    for wire in ["shm", "tcp"] {
        let of_wire: Vec<_> = noticed.iter().filter(|(_, over, _)| over == wire).collect();
        let Some((longest, _, how)) = of_wire.last() else { continue };
        let (median, late) =
            (of_wire[of_wire.len() / 2].0, of_wire.iter().filter(|n| n.0 > PROMISED).count());
        println!(
            "deaths noticed over {wire}: {}, median {median:?}, longest {longest:?} ({how}), later than promised: {late}",
            of_wire.len(),
        );
    }
}

fn strike(wire: &str, what: &str, side: &str, blow: Blow) {
    let mut stage = Stage::start(3, &[wire, what, side], "");
    let board = stage.board.clone();
    let pids = ["ready.0", "ready.1", "ready.2"].map(|note| stage.number(note) as u32);
    let [survivor, victim, _] = pids;
    std::thread::sleep(Duration::from_millis(20 + now_ns() % 30));
    for pid in pids {
        let mut named = named_files_of(pid);
        // The notes that the ranks write for this test are not the library's.
        named.retain(|path| !path.to_string_lossy().contains(".draft-"));
        assert!(named.is_empty(), "files with names: {named:?}");
    }
    let agent = (blow == Blow::KillUnseen).then(|| Stopped::new(parent_of(victim)));
    let last_words = (what == "last-words").then(|| Stopped::new(survivor));
    if last_words.is_some() {
        board.note("speak", "");
        stage.await_note("spoken");
    }
    let mut struck = now_ns();
    if blow == Blow::Stop {
        let stopped = Stopped::new(victim);
        std::thread::sleep(STOPPED_FOR);
        assert!(!board.has("lost"), "a stopped process was taken for dead: {:?}", board.read("lost"));
        drop(stopped);
        board.note("enough", "");
    } else {
        signal(victim, "KILL");
    }
    board.note("struck", "");
    if last_words.is_some() {
        // Time for the launcher to hear of it, so that the survivor finds the message and the news at once.
        std::thread::sleep(Duration::from_millis(200));
        struck = now_ns();
        drop(last_words);
    }
    if blow == Blow::Stop {
        stage.await_note("finished");
    } else {
        let lost = stage.await_note("lost");
        let (at, how) = lost.split_once(' ').expect("a time and an operation");
        let after = Duration::from_nanos(at.parse::<u64>().unwrap().saturating_sub(struck));
        assert!(after < SLACK, "{how} failed only after {after:?}");
        NOTICED.lock().unwrap().push((after, wire.to_owned(), format!("{what} {side}: {how}")));
    }
    // While the agent is stopped nobody reads what ranks print, and they are through before it matters.
    stage.await_note("after");
    drop(agent);
    if what == "kept" {
        let child = stage.number("child") as u32;
        assert!(state_of(child).is_some(), "the child outlives the victim");
        signal(child, "KILL");
    }
    stage.end();
}

/// A process that is stopped while this lives.
struct Stopped(u32);

impl Stopped {
    fn new(pid: u32) -> Stopped {
        signal(pid, "STOP");
        let since = Instant::now();
        while state_of(pid) != Some('T') {
            assert!(since.elapsed() < SLACK, "process {pid} does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal(self.0, "CONT");
    }
}

/// The words behind a process's name in its status line.
fn status_of(pid: u32) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    rest.split(' ').map(str::to_owned).collect()
}

fn state_of(pid: u32) -> Option<char> {
    status_of(pid).first()?.chars().next()
}

fn parent_of(pid: u32) -> u32 {
    status_of(pid)[1].parse().unwrap()
}
