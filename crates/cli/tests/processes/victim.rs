//! The rank that is killed or stopped: does what the survivor asks until then.

use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use barewire_core::job::Job;
use barewire_core::region::{Key, Memory, Rights, Who};
use barewire_core::tagged::Mode;
use barewire_core::{Config, WaitError};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

use crate::folder::Board;
use crate::matrix::{Side, Step, What};
use crate::rank::{KEY, LONG_BYTES, Rank, SURVIVOR, pattern};
use crate::survivor::{DONE, END, FLOOD, HELLO, OFFERED, STEP, STREAM, operate, receive_tagged, send_tagged};

pub fn rank(job: Job, config: Config, board: Board, step: Step) {
    if step.what == What::Join {
        board.note("ready.1", &std::process::id().to_string());
        board.await_note("struck");
    }
    let mut me = Rank::open(job, config, board);
    if step.what == What::Open {
        me.ready();
        me.board.await_note("struck");
    }
    let direct = step.what == What::Direct;
    let memory = if direct { Memory::shared(LONG_BYTES).unwrap() } else { Memory::private(LONG_BYTES) };
    let key = me.ep.export(&memory, Rights::ALL, Who::Anyone).unwrap();
    let (long, mut theirs) = (pattern(LONG_BYTES), None);
    loop {
        match me.next_command(SURVIVOR).unwrap() {
            HELLO => {
                me.command(SURVIVOR, HELLO).unwrap();
                me.send(SURVIVOR, KEY, 0, &key.to_bytes()).unwrap();
                me.wait(SURVIVOR, |_, mail| !mail.keys.is_empty()).unwrap();
                theirs = me.mail.keys.pop_front();
            }
            STEP => {
                if step.what == What::Kept {
                    leave_sockets_to_a_child(&me.board);
                }
                me.ready();
                round(&mut me, step, theirs.expect("it comes before the first step"), &long);
            }
            END => return,
            other => panic!("{other}"),
        }
    }
}

fn round(me: &mut Rank, step: Step, key: Key, long: &[u8]) {
    use Side::{Receives, Sends};
    match (step.what, step.side) {
        (What::Join | What::Open | What::Idle | What::Direct, _) => {}
        (What::Put | What::Get | What::Atomic, Receives) => {}
        (What::Asleep | What::Kept, _) => {
            me.board.await_note("struck");
            done(me);
        }
        (What::Stream, Receives) => {
            me.receive_shorts(SURVIVOR, STREAM).unwrap();
            done(me);
        }
        (What::Stream, Sends) => me.send_shorts(SURVIVOR, STREAM, b"a word").unwrap(),
        (What::Long, Receives) => {
            me.receive_long(SURVIVOR, LONG_BYTES).unwrap();
            done(me);
        }
        (What::Long, Sends) => me.send_long(SURVIVOR, long).unwrap(),
        (What::Full, Receives) => {
            me.board.await_note("struck");
            me.receive_shorts(SURVIVOR, FLOOD.0).unwrap();
            done(me);
        }
        (What::Full, Sends) => me.send_shorts(SURVIVOR, FLOOD.0, &[7; FLOOD.1]).unwrap(),
        (What::Put | What::Get | What::Atomic, Sends) => {
            operate(me, SURVIVOR, step.what, key).unwrap();
            done(me);
        }
        (What::Offer, Receives) => {
            while !me.board.has("struck") {
                let nap = me.ep.wait(&mut me.mail, Some(Duration::from_millis(5)), |_, _| false);
                assert_eq!(nap, Err(WaitError::TimedOut));
            }
            receive_tagged(me, SURVIVOR, OFFERED).unwrap();
        }
        (What::Offer, Sends) => send_tagged(me, SURVIVOR, Mode::Synchronous, OFFERED).unwrap(),
        (What::Rendezvous, Receives) => receive_tagged(me, SURVIVOR, LONG_BYTES).unwrap(),
        (What::Rendezvous, Sends) => send_tagged(me, SURVIVOR, Mode::Standard, LONG_BYTES).unwrap(),
        (What::LastWords, _) => {
            me.board.await_note("speak");
            send_tagged(me, SURVIVOR, Mode::Standard, 8).unwrap();
            me.ep.flush();
            me.board.note("spoken", "");
            std::thread::sleep(Duration::from_secs(3600));
        }
    }
    me.ep.flush();
}

/// Starts a child that has all our sockets and does nothing: like one that is forked, for which there is no safe call.
// It is killed before it could wait for the child, which is the point.
#[allow(clippy::zombie_processes)]
fn leave_sockets_to_a_child(board: &Board) {
    let ourselves = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let sockets = open.filter(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
    });
    let numbers = sockets.map(|entry| entry.file_name().to_str().unwrap().parse().unwrap());
    let kept: Vec<OwnedFd> = numbers
        .map(|number| {
            let copy = pidfd_getfd(&ourselves, number, PidfdGetfdFlags::empty()).unwrap();
            fcntl_setfd(&copy, FdFlags::empty()).unwrap();
            copy
        })
        .collect();
    assert!(!kept.is_empty());
    let quiet = || Stdio::null();
    let child =
        Command::new("sleep").arg("60").stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn().unwrap();
    board.note("child", &child.id().to_string());
}

fn done(me: &mut Rank) {
    me.command(SURVIVOR, DONE).unwrap();
}
