//! The rank that must not suffer: leads the victim through a step, and sees what is left when that is gone.

use barewire_core::region::{Atomic, Key, Memory, RegionError, Rights, Who, Width};
use barewire_core::tagged::{Envelope, Mode, Received, Request, Sent, Sink, Source, Want};
use barewire_core::{Peer, PeerState, SendError};

use crate::folder::now_ns;
use crate::matrix::{Side, Step, What};
use crate::rank::{
    KEY, LONG_BYTES, Lost, PATIENCE, POOLED_BYTES, Rank, SHORT, THIRD, THIRD_END, THIRD_TAGGED, VICTIM,
    pattern,
};

/// Commands to the victim.
pub const HELLO: u64 = 1;
pub const STEP: u64 = 2;
pub const DONE: u64 = 3;
pub const END: u64 = 4;

/// Short messages in one round of a stream.
pub const STREAM: u64 = 20_000;
/// Short messages, and bytes of each, that no wire holds at once.
pub const FLOOD: (u64, usize) = (20_000, 200);
/// Bytes of a message that is offered.
pub const OFFERED: usize = 1 << 20;
/// Atomic updates in one round.
pub const ATOMICS: u64 = 500;
/// The context of messages that belong to a step.
const STEPS: u32 = 1;
/// The context in which a receive from anybody stands all along.
const ANYBODY: u32 = 9;

pub fn rank(mut me: Rank, step: Step) {
    me.receive_long(THIRD, POOLED_BYTES).unwrap();
    me.send_long(THIRD, &pattern(POOLED_BYTES)).unwrap();
    let ours = Memory::private(LONG_BYTES);
    let our_key = me.ep.export(&ours, Rights::ALL, Who::Anyone).unwrap();
    let standing = stand_open(&mut me);
    // By then the third rank has answered our hello, too, with its doorbell.
    me.wait(THIRD, |_, mail| mail.pings >= 3).unwrap();
    let before = descriptors().len();
    let mut theirs = None;
    let end = play(&mut me, step, our_key, &mut theirs);
    match &end {
        Err(Lost(how)) => me.board.note("lost", &format!("{} {how}", now_ns())),
        Ok(()) => me.board.note("finished", ""),
    }
    me.wait(THIRD, |_, mail| mail.lost.contains(&VICTIM)).unwrap();
    let state = me.ep.peer_state(VICTIM);
    match end {
        Err(_) => {
            assert!(matches!(state, PeerState::Lost(_)), "{state:?}");
            if step == Step::named("full", "sends") {
                assert!(me.mail.shorts > 0, "what a peer sent before it died arrives");
            }
            nothing_more_with_the_lost(&mut me, theirs);
        }
        Ok(()) => assert_eq!(state, PeerState::Left),
    }
    the_others_are_as_before(&mut me, standing, before);
}

/// Everything that needs the lost peer fails, also what is begun only now.
fn nothing_more_with_the_lost(me: &mut Rank, theirs: Option<Key>) {
    assert_eq!(me.ep.send(VICTIM, SHORT, 0, b""), Err(SendError::Lost(VICTIM)));
    assert_eq!(me.ep.begin(VICTIM, SHORT, 0, 1 << 20).unwrap_err(), SendError::Lost(VICTIM));
    me.wait(VICTIM, |_, _| false).unwrap_err();
    send_tagged(me, VICTIM, Mode::Standard, 8).unwrap_err();
    receive_tagged(me, VICTIM, 8).unwrap_err();
    if let Some(key) = theirs {
        let error = RegionError::Send(SendError::Lost(VICTIM));
        assert_eq!(me.ep.put(key, 0, b"hello"), Err(error));
        assert_eq!(me.ep.atomic(key, 0, Width::U64, Atomic::Add(1)), Err(error));
        assert_eq!(me.ep.get(key, 0, &Memory::private(8), 0, 8), Err(error));
    }
}

/// The third rank works on, a receive from anybody still stands, and the victim's descriptors are closed.
fn the_others_are_as_before(me: &mut Rank, standing: Request, before: usize) {
    let pings = me.mail.pings;
    me.wait(THIRD, |_, mail| mail.pings >= pings + 5).unwrap();
    assert!(!me.mail.tagged.is_done(standing), "a receive from anybody does not need the victim");
    me.command(THIRD, THIRD_TAGGED).unwrap();
    me.finish_tagged(THIRD, standing).unwrap();
    let closed = me.ep.wait(&mut me.mail, Some(PATIENCE), |_, _| descriptors().len() == before);
    closed.unwrap_or_else(|error| panic!("{error}: descriptors of the victim stay: {:#?}", descriptors()));
    assert_eq!(me.ep.peer_state(THIRD), PeerState::Connected);
    assert_eq!(me.mail.lost, [VICTIM], "one peer is lost, and that is told once");
    me.board.note("after", "");
    me.command(THIRD, THIRD_END).unwrap();
    me.ep.wait(&mut me.mail, Some(PATIENCE), |_, mail| mail.lost.contains(&THIRD)).unwrap();
}

fn play(me: &mut Rank, step: Step, ours: Key, theirs: &mut Option<Key>) -> Result<(), Lost> {
    if step.is_before_meeting() {
        me.ready();
    }
    me.command(VICTIM, HELLO)?;
    assert_eq!(me.next_command(VICTIM)?, HELLO);
    me.send(VICTIM, KEY, 0, &ours.to_bytes())?;
    me.wait(VICTIM, |_, mail| !mail.keys.is_empty())?;
    let key = me.mail.keys.pop_front().expect("waited for");
    *theirs = Some(key);
    let long = pattern(LONG_BYTES);
    loop {
        me.command(VICTIM, STEP)?;
        me.ready();
        round(me, step, key, &long)?;
        if me.board.has("enough") {
            return me.command(VICTIM, END);
        }
    }
}

/// One round of a step; a step that has only one waits in it for what happens to the victim.
fn round(me: &mut Rank, step: Step, key: Key, long: &[u8]) -> Result<(), Lost> {
    use Side::{Receives, Sends};
    match (step.what, step.side) {
        (What::Join | What::Open, _) => {
            me.board.await_note("enough");
            Ok(())
        }
        (What::Idle, _) => stay_idle(me),
        (What::Asleep | What::Kept, _) => hear_done(me),
        (What::Stream, Receives) => {
            me.send_shorts(VICTIM, STREAM, b"a word")?;
            hear_done(me)
        }
        (What::Stream, Sends) => me.receive_shorts(VICTIM, STREAM),
        (What::Long, Receives) => {
            me.send_long(VICTIM, long)?;
            hear_done(me)
        }
        (What::Long, Sends) => me.receive_long(VICTIM, LONG_BYTES),
        (What::Full, Receives) => {
            me.send_shorts(VICTIM, FLOOD.0, &[7; FLOOD.1])?;
            hear_done(me)
        }
        (What::Full, Sends) => {
            me.board.await_note("struck");
            me.receive_shorts(VICTIM, FLOOD.0)
        }
        (What::Put | What::Get | What::Atomic, Receives) => operate(me, VICTIM, step.what, key),
        (What::Put | What::Get | What::Atomic, Sends) => hear_done(me),
        (What::Direct, _) => operate_directly(me, key),
        (What::Offer, Receives) => send_tagged(me, VICTIM, Mode::Synchronous, OFFERED),
        (What::Offer, Sends) => {
            while !me.board.has("struck") {
                me.ep.progress(&mut me.mail, usize::MAX);
            }
            receive_tagged(me, VICTIM, OFFERED)
        }
        (What::Rendezvous, Receives) => send_tagged(me, VICTIM, Mode::Standard, LONG_BYTES),
        (What::Rendezvous, Sends) => receive_tagged(me, VICTIM, LONG_BYTES),
        (What::LastWords, _) => {
            receive_tagged(me, VICTIM, 8).expect("what a peer said before it died is heard");
            hear_done(me)
        }
    }
}

fn hear_done(me: &mut Rank) -> Result<(), Lost> {
    me.next_command(VICTIM).map(|code| assert_eq!(code, DONE))
}

/// Looks for messages without ever sleeping.
fn stay_idle(me: &mut Rank) -> Result<(), Lost> {
    loop {
        for _ in 0..1000 {
            me.ep.progress(&mut me.mail, usize::MAX);
        }
        match me.ep.peer_state(VICTIM) {
            PeerState::Connected if me.board.has("enough") => return Ok(()),
            PeerState::Connected => {}
            PeerState::Lost(_) => return Err(Lost("a look at its state")),
            state => panic!("{state:?}"),
        }
    }
}

/// Operations on the other's region, for either side.
pub fn operate(me: &mut Rank, with: Peer, what: What, key: Key) -> Result<(), Lost> {
    let (memory, len) = (Memory::private(LONG_BYTES), LONG_BYTES as u64);
    let many = if what == What::Atomic { ATOMICS } else { 1 };
    for _ in 0..many {
        me.operate(with, |ep| match what {
            What::Put => ep.put_from(key, 0, &memory, 0, len),
            What::Get => ep.get(key, 0, &memory, 0, len),
            _ => ep.atomic(key, 64, Width::U64, Atomic::Add(1)),
        })?;
    }
    Ok(())
}

/// Operations on mapped memory, which end by themselves; nothing else is called meanwhile.
fn operate_directly(me: &mut Rank, key: Key) -> Result<(), Lost> {
    while !me.board.has("enough") {
        operate(me, VICTIM, What::Atomic, key)?;
    }
    Ok(())
}

/// Sends a tagged message of a step, for either side.
pub fn send_tagged(me: &mut Rank, to: Peer, mode: Mode, len: usize) -> Result<(), Lost> {
    send_in(me, to, STEPS, mode, len)
}

/// A short tagged message to whom a receive from anybody stands open.
pub fn send_word(me: &mut Rank, to: Peer) {
    send_in(me, to, ANYBODY, Mode::Standard, 8).unwrap();
}

fn send_in(me: &mut Rank, to: Peer, context: u32, mode: Mode, len: usize) -> Result<(), Lost> {
    let (envelope, source) = (Envelope { context, tag: 1 }, Source::Memory(Memory::private(len), 0));
    match me.mail.tagged.send(&mut me.ep, to, envelope, mode, len as u64, source) {
        Ok(Sent::Done) => Ok(()),
        Ok(Sent::Pending(request)) => me.finish_tagged(to, request),
        Err(SendError::Lost(peer)) if peer == to => Err(Lost("a tagged send")),
        Err(error) => panic!("a tagged send: {error}"),
    }
}

/// Receives a tagged message of a step, for either side.
pub fn receive_tagged(me: &mut Rank, from: Peer, len: usize) -> Result<(), Lost> {
    let want = Want { context: STEPS, from: Some(from), tag: Some(1) };
    match me.mail.tagged.receive(&mut me.ep, want, Sink::Memory(Memory::private(len), 0, len)) {
        Received::Done(status) if status.failure.is_some() => Err(Lost("a tagged receive")),
        Received::Done(_) => Ok(()),
        Received::Pending(request) => me.finish_tagged(from, request),
    }
}

/// A receive from anybody.
fn stand_open(me: &mut Rank) -> Request {
    let want = Want { context: ANYBODY, from: None, tag: None };
    match me.mail.tagged.receive(&mut me.ep, want, Sink::Memory(Memory::private(8), 0, 8)) {
        Received::Pending(request) => request,
        Received::Done(status) => panic!("nobody has sent anything: {status:?}"),
    }
}

/// What this process has open.
fn descriptors() -> Vec<String> {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    links.map(|link| format!("{:?} {:?}", link.file_name(), std::fs::read_link(link.path()))).collect()
}
