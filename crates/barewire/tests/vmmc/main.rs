//! What holds for virtual memory-mapped communication, whatever the wire.

#[macro_use]
#[path = "../../../core/tests/wires/mod.rs"]
mod wires;
#[path = "../common/mod.rs"]
mod common;

mod automatic;
mod returning;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use automatic::*;
use barewire::core::region::{Memory, Who};
use barewire::core::{Deliver, Endpoint, Flow, Incoming, Peer, Port};
use barewire::vmmc::{
    Arrival, CacheCounters, ExportError, ExportOptions, Import, ImportError, Notify, RedirectError,
    Redirected, TransferError, Vmmc, Why,
};
use common::{Meeting, pattern};
use returning::*;
use wires::{PATIENCE, Wires};

for_every_wire! {
    deliberate_update_writes_where_it_says
    writes_out_of_range_unauthorised_or_unexported_fail_and_touch_nothing
    a_transfer_redirected_in_time_is_not_copied_and_a_late_one_once
    redirections_keep_their_order_whatever_the_timing
    blocked_notifications_queue_until_the_last_block_is_gone
    the_cache_of_registered_buffers_is_bounded
    what_is_freed_twice_is_an_error
    an_import_that_nobody_waits_for_is_no_import
    automatic_update_appears_within_its_bound
    automatic_update_finds_what_was_written_behind_its_back
    automatic_update_touches_nothing_but_what_was_written
    what_is_found_behind_the_back_is_what_changed_and_its_neighbours_stay
    a_value_written_through_the_binding_is_sent_each_time
    a_binding_that_is_never_due_is_sent_when_it_is_flushed
    a_peer_that_leaves_invalidates_its_imports_and_nothing_else
}

/// One end of a test: a node with a buffer that everybody may write to, the other's proxy, and a log of notifications.
struct Member {
    node: Vmmc,
    me: u32,
    buffer: Memory,
    proxy: Import,
    told: Arc<Mutex<Vec<Arrival>>>,
}

const BUFFER: usize = 1 << 19;
const NUMBER: u32 = 10;

/// Runs `body` on two threads, one node each. Neither leaves, nor stops polling, before both are done.
fn run(wires: &Wires, body: impl Fn(&mut Member, &Meeting) + Sync) {
    let meeting = Meeting::new(2);
    wires.run(2, |core| {
        let mut node = Vmmc::new(core);
        let me = node.core().me().0;
        let buffer = Memory::shared(BUFFER).unwrap();
        let export = node.export(&buffer, NUMBER, Who::Anyone).unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&told);
        node.set_notification(export, move |arrival| log.lock().unwrap().push(*arrival)).unwrap();
        let proxy = node.import(Peer(1 - me), NUMBER, PATIENCE).unwrap();
        let mut member = Member { node, me, buffer, proxy, told };
        body(&mut member, &meeting);
        member.meet(&meeting);
    });
}

impl Member {
    fn other(&self) -> Peer {
        Peer(1 - self.me)
    }

    fn meet(&mut self, meeting: &Meeting) {
        meeting.meet(|| {
            self.node.poll();
        });
    }

    /// Sends bytes into an imported buffer, and waits until they are there.
    fn put(&mut self, to: Import, offset: u64, bytes: &[u8], notify: Notify) -> Result<(), TransferError> {
        let source = Memory::private(bytes.len());
        assert!(source.write(0, bytes));
        let transfer = self.node.send(to, offset, (&source, 0, bytes.len() as u64), notify)?;
        self.node.finish(transfer, PATIENCE)
    }

    /// A word to the other, and waiting for one: what either sent before has arrived then.
    fn tell(&mut self) {
        self.put(self.proxy, 0, &[1], Notify::Tell).unwrap();
    }

    fn hear(&mut self, words: usize) {
        let told = Arc::clone(&self.told);
        self.node.wait("a word", PATIENCE, |_| (told.lock().unwrap().len() >= words).then_some(())).unwrap();
    }
}

fn read(memory: &Memory, at: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    assert!(memory.read(at, &mut bytes));
    bytes
}

fn deliberate_update_writes_where_it_says(wires: &Wires) {
    let lengths = [0usize, 1, 63, 4096, 100_001];
    run(wires, |member, meeting| {
        for (i, len) in lengths.into_iter().enumerate() {
            let source = Memory::private(len + 3);
            assert!(source.write(3, &pattern(len, i as u64)));
            let to = 1000 + i as u64 * 2000;
            let quiet = member.node.send(member.proxy, to, (&source, 3, len as u64), Notify::Quiet).unwrap();
            member.node.finish(quiet, PATIENCE).unwrap();
            let loud = member.node.send(member.proxy, to, (&source, 3, len as u64), Notify::Tell).unwrap();
            member.node.finish(loud, PATIENCE).unwrap();
            member.hear(i + 1);
            let arrival = *member.told.lock().unwrap().last().unwrap();
            assert_eq!((arrival.from, arrival.offset, arrival.len), (member.other(), to, len as u64));
            assert!(read(&member.buffer, to as usize, len) == pattern(len, i as u64), "length {len}");
            member.meet(meeting);
        }
        assert_eq!(member.node.counters().notifications, lengths.len() as u64, "quiet ones tell nobody");
    });
}

fn writes_out_of_range_unauthorised_or_unexported_fail_and_touch_nothing(wires: &Wires) {
    run(wires, |member, meeting| {
        let other = member.other();
        let private = Memory::shared(4096).unwrap();
        // Only the owner itself may import the first; the second is taken back later.
        member.node.export(&private, 1, Who::Only(vec![Peer(member.me)])).unwrap();
        let soon_gone = Memory::shared(4096).unwrap();
        let doomed = member.node.export(&soon_gone, 2, Who::Only(vec![other])).unwrap();
        member.meet(meeting);
        assert_eq!(member.node.import(other, 1, PATIENCE), Err(ImportError::Denied));
        let missing = member.node.import_request(other, 99).unwrap();
        let answer = member.node.wait("an answer", PATIENCE, |node| node.import_done(missing)).unwrap();
        assert_eq!(answer, Err(ImportError::NotExported));
        let proxy = member.node.import(other, 2, PATIENCE).unwrap();
        assert_eq!(member.node.import_len(proxy), Some(4096));
        member.put(proxy, 4000, &[7; 96], Notify::Quiet).unwrap();
        for (offset, len) in [(4000, 97), (4097, 0), (u64::MAX, 2), (0, 5000)] {
            let wrong = member.put(proxy, offset, &vec![7; len], Notify::Tell);
            assert_eq!(wrong, Err(TransferError::OutOfRange), "{len} at {offset}");
        }
        let source = Memory::private(4);
        let beyond = member.node.send(proxy, 0, (&source, 1, 4), Notify::Quiet);
        assert_eq!(beyond, Err(TransferError::SourceRange));
        member.meet(meeting);
        member.node.unexport(doomed).unwrap();
        // Nobody has heard of it yet, and it is refused all the same.
        meeting.meet(|| {});
        let unexported = TransferError::Invalid(Why::Unexported);
        assert_eq!(member.put(proxy, 0, &[9; 64], Notify::Tell), Err(unexported));
        let event = member.node.wait("the news", PATIENCE, |node| node.next_event()).unwrap();
        assert_eq!((event.import, event.peer, event.why), (proxy, other, Why::Unexported));
        assert_eq!(member.node.import_done(proxy), Some(Err(ImportError::Invalid(Why::Unexported))));
        assert_eq!(member.put(proxy, 0, &[8; 64], Notify::Tell), Err(unexported));
        member.meet(meeting);
        let expected = [vec![0; 4000], vec![7; 96]].concat();
        assert!(read(&soon_gone, 0, 4096) == expected, "nothing but what was allowed is there");
        assert_eq!(read(&private, 0, 4096), [0; 4096]);
        assert!(member.told.lock().unwrap().is_empty());
        assert_eq!(member.node.next_event(), None, "one event");
    });
}

/// A second buffer whose transfers can be re-aimed, and the other's.
fn redirectable(member: &mut Member) -> (Memory, barewire::vmmc::Export, Import) {
    let buffer = Memory::shared(1 << 16).unwrap();
    let options = ExportOptions { redirectable: true };
    let export = member.node.export_with(&buffer, 20, Who::Anyone, options).unwrap();
    let proxy = member.node.import(member.other(), 20, PATIENCE).unwrap();
    (buffer, export, proxy)
}

fn a_transfer_redirected_in_time_is_not_copied_and_a_late_one_once(wires: &Wires) {
    run(wires, |member, meeting| {
        let (default, export, proxy) = redirectable(member);
        let other = member.other();
        assert!(matches!(member.node.import(other, 20, PATIENCE), Err(ImportError::Twice)));
        let place = Memory::shared(20_000).unwrap();
        // In time: the word that follows the redirection arrives after it.
        let early = member.node.redirect(export, other, (&place, 100, 9000)).unwrap();
        member.tell();
        member.hear(1);
        member.put(proxy, 5000, &pattern(9000, 1), Notify::Quiet).unwrap();
        let redirected = member.node.redirected(early, PATIENCE).unwrap();
        assert_eq!(redirected, Redirected { len: 9000, copies: 0 });
        assert!(read(&place, 100, 9000) == pattern(9000, 1));
        assert_eq!(read(&default, 5000, 9000), vec![0; 9000], "it never was in the default buffer");
        member.meet(meeting);
        // Late: the data is here already.
        member.put(proxy, 5000, &pattern(8000, 2), Notify::Quiet).unwrap();
        member.tell();
        member.hear(2);
        let late = member.node.redirect(export, other, (&place, 0, 9000)).unwrap();
        let redirected = member.node.redirected(late, PATIENCE).unwrap();
        assert_eq!(redirected, Redirected { len: 8000, copies: 1 });
        assert!(read(&place, 0, 8000) == pattern(8000, 2));
        // Too long for its new place: it stays where it was sent.
        let small = member.node.redirect(export, other, (&place, 0, 10)).unwrap();
        member.put(proxy, 0, &[3; 50], Notify::Quiet).unwrap();
        assert_eq!(member.node.redirected(small, PATIENCE), Err(RedirectError::TooLong));
        assert_eq!(read(&default, 0, 50), [3; 50]);
        // One that nobody re-aims is announced.
        member.put(proxy, 100, &[4; 5], Notify::Quiet).unwrap();
        let arrival = member.node.wait("it", PATIENCE, |node| node.next_arrival(export)).unwrap();
        assert_eq!((arrival.offset, arrival.len), (100, 5));
        let counters = member.node.counters();
        assert_eq!((counters.early, counters.late), (1, 1));
        assert_eq!(member.node.redirect(export, other, (&place, 19_999, 2)), Err(RedirectError::Range));
    });
}

fn redirections_keep_their_order_whatever_the_timing(wires: &Wires) {
    let rounds = wires.times(300).max(20);
    run(wires, |member, _| {
        let (_, export, proxy) = redirectable(member);
        let other = member.other();
        let places: Vec<Memory> = (0..4).map(|_| Memory::shared(4096).unwrap()).collect();
        let source = Memory::private(rounds as usize * 64);
        let mut pending = std::collections::VecDeque::new();
        let (mut sent, mut posted, mut got) = (0, 0, 0);
        let mut transfers = Vec::new();
        while got < rounds || sent < rounds {
            // Sends and redirections cross in every way.
            if sent < rounds && sent <= got + 6 {
                assert!(source.write(sent as usize * 64, &[sent as u8; 64]));
                let from = (&source, sent * 64, 64);
                transfers.push(member.node.send(proxy, sent * 64, from, Notify::Quiet).unwrap());
                sent += 1;
            }
            let whim = pending.len() < 4 && (posted * 7 + sent) % 3 != 0;
            if posted < rounds && (whim || pending.is_empty()) {
                let place = &places[(posted % 4) as usize];
                pending.push_back(member.node.redirect(export, other, (place, 0, 64)).unwrap());
                posted += 1;
            }
            member.node.poll();
            if let Some(first) = pending.front().copied() {
                if let Some(redirected) = member.node.redirect_done(first) {
                    assert_eq!(redirected.unwrap().len, 64);
                    let place = &places[(got % 4) as usize];
                    assert_eq!(read(place, 0, 64), [got as u8; 64], "transfer {got}");
                    pending.pop_front();
                    got += 1;
                }
            }
            std::thread::yield_now();
        }
        for transfer in transfers {
            member.node.finish(transfer, PATIENCE).unwrap();
        }
        let counters = member.node.counters();
        assert_eq!(counters.early + counters.late, rounds);
    });
}

fn blocked_notifications_queue_until_the_last_block_is_gone(wires: &Wires) {
    run(wires, |member, meeting| {
        member.node.block_notifications();
        member.node.block_notifications();
        member.meet(meeting);
        for i in 0..5 {
            member.put(member.proxy, 100 * i, &[i as u8], Notify::Tell).unwrap();
        }
        member.meet(meeting);
        // The answer to this comes behind all that the other has told us before.
        member.node.import(member.other(), NUMBER, PATIENCE).unwrap();
        assert_eq!(read(&member.buffer, 400, 1), [4]);
        assert!(member.told.lock().unwrap().is_empty(), "blocked");
        assert_eq!(member.node.unblock_notifications(), 1);
        member.node.poll();
        assert!(member.told.lock().unwrap().is_empty(), "still blocked once");
        assert_eq!(member.node.unblock_notifications(), 0);
        let offsets: Vec<u64> = member.told.lock().unwrap().iter().map(|arrival| arrival.offset).collect();
        assert_eq!(offsets, [0, 100, 200, 300, 400], "in order, none lost");
    });
}

fn the_cache_of_registered_buffers_is_bounded(wires: &Wires) {
    const BUFFERS: usize = 6;
    run(wires, |member, meeting| {
        member.node.set_utlb_capacity(3);
        let (_, export, proxy) = redirectable(member);
        let other = member.other();
        let places: Vec<Memory> = (0..BUFFERS).map(|_| Memory::shared(4096).unwrap()).collect();
        for round in 0..2 * BUFFERS {
            // Each buffer twice in a row: the second time it is known.
            let place = &places[round / 2];
            let redirection = member.node.redirect(export, other, (place, 0, 100)).unwrap();
            assert!(member.node.utlb().1 <= 3);
            member.meet(meeting);
            member.put(proxy, 0, &[round as u8; 100], Notify::Quiet).unwrap();
            member.node.redirected(redirection, PATIENCE).unwrap();
            assert_eq!(read(place, 0, 100), [round as u8; 100]);
        }
        let (CacheCounters { hits, misses, evictions, .. }, held) = member.node.utlb();
        assert_eq!((hits, misses, evictions, held), (6, 6, 3, 3));
        // All of them in use: what comes then is copied, and comes all the same.
        let waiting: Vec<_> = places
            .iter()
            .map(|place| member.node.redirect(export, other, (place, 0, 100)).unwrap())
            .collect();
        assert_eq!(member.node.utlb().1, 3);
        member.meet(meeting);
        for round in 0..BUFFERS {
            member.put(proxy, 0, &[round as u8 + 100; 100], Notify::Quiet).unwrap();
            // The default buffer has room for one.
            member.meet(meeting);
            member.node.redirected(waiting[round], PATIENCE).unwrap();
            member.meet(meeting);
            assert_eq!(read(&places[round], 0, 100), [round as u8 + 100; 100]);
        }
        assert!(member.node.counters().late >= 3);
    });
}

fn what_is_freed_twice_is_an_error(wires: &Wires) {
    run(wires, |member, meeting| {
        let memory = Memory::shared(100).unwrap();
        let export = member.node.export(&memory, 5, Who::Anyone).unwrap();
        assert!(matches!(member.node.export(&memory, 5, Who::Anyone), Err(ExportError::NumberTaken(5))));
        let proxy = member.node.import(member.other(), 5, PATIENCE).unwrap();
        member.node.unimport(proxy).unwrap();
        assert_eq!(member.node.unimport(proxy), Err(ImportError::NoSuch));
        assert_eq!(member.node.import_done(proxy), Some(Err(ImportError::NoSuch)));
        assert_eq!(member.put(proxy, 0, &[1], Notify::Quiet), Err(TransferError::NoSuch));
        member.meet(meeting);
        member.node.unexport(export).unwrap();
        assert!(matches!(member.node.unexport(export), Err(ExportError::NoSuch)));
        assert!(matches!(
            member.node.redirect(export, member.other(), (&memory, 0, 1)),
            Err(RedirectError::NoSuch)
        ));
        let plain = member.node.export(&memory, 5, Who::Anyone).unwrap();
        let not = member.node.redirect(plain, member.other(), (&memory, 0, 1));
        assert_eq!(not, Err(RedirectError::NotRedirectable));
        let (_, aimed, _) = redirectable(member);
        let nobody = member.node.redirect(aimed, Peer(77), (&memory, 0, 1));
        assert_eq!(nobody, Err(RedirectError::NoSuch), "there is no such peer");
        let source = Memory::private(1);
        let transfer = member.node.send(member.proxy, 0, (&source, 0, 1), Notify::Quiet).unwrap();
        member.node.finish(transfer, PATIENCE).unwrap();
        assert_eq!(member.node.transfer_done(transfer), Some(Err(TransferError::NoSuch)));
        assert!(member.node.import_request(Peer(77), 1).is_err(), "there is no such peer");
        assert_eq!(member.node.next_event(), None, "nothing of that is a failure");
    });
}

#[test]
fn a_peer_that_imports_without_end_leaves_room_for_others() {
    struct Granted(usize, usize);
    impl Deliver for Granted {
        fn deliver(&mut self, _: &mut Endpoint, mut packet: Incoming<'_>) -> Flow {
            self.0 += 1;
            self.1 += usize::from(packet.read_u64() == Some(0));
            Flow::Continue
        }
    }
    const ASKED: usize = 5000;
    let meeting = Meeting::new(3);
    Wires::shm().run(3, |mut core| {
        if core.me() == Peer(1) {
            // By the nodes' own packets, because a node frees what it does not want.
            let mut granted = Granted(0, 0);
            for name in 0..ASKED as u64 {
                let mut sent = false;
                let (port, bytes) = (Port(0xC000), name.to_le_bytes());
                let ask = |core: &mut Endpoint, _: &mut Granted| {
                    sent = sent || core.send(Peer(0), port, u64::from(NUMBER), &bytes).is_ok();
                    sent
                };
                core.wait(&mut granted, PATIENCE, ask).unwrap();
            }
            core.wait(&mut granted, PATIENCE, |_, granted| granted.0 == ASKED).unwrap();
            assert_eq!(granted.1, 4096);
            return (0..2).for_each(|_| {
                meeting.meet(|| {
                    core.progress(&mut granted, usize::MAX);
                })
            });
        }
        let mut node = Vmmc::new(core);
        let buffer = Memory::shared(BUFFER).unwrap();
        node.export(&buffer, NUMBER, Who::Anyone).unwrap();
        meeting.meet(|| {
            node.poll();
        });
        if node.core().me() == Peer(2) {
            node.import(Peer(0), NUMBER, PATIENCE).unwrap();
        }
        meeting.meet(|| {
            node.poll();
        });
    });
}

fn an_import_that_nobody_waits_for_is_no_import(wires: &Wires) {
    run(wires, |member, _| {
        let (_, _, proxy) = redirectable(member);
        member.node.unimport(proxy).unwrap();
        for _ in 0..5 {
            // Freed before its owner can have answered. Each peer has one import of such a buffer at most.
            let early = member.node.import_request(member.other(), 20).unwrap();
            member.node.unimport(early).unwrap();
        }
        // The owner hears of the last answer that it was not wanted after it has heard this question.
        let again = member.node.wait("its turn", PATIENCE, |node| {
            let import = node.import_request(Peer(1 - member.me), 20).ok()?;
            let answer = node.wait("an answer", PATIENCE, |node| node.import_done(import)).unwrap();
            assert!(matches!(answer, Ok(()) | Err(ImportError::Twice)), "{answer:?}");
            answer.is_ok().then_some(import)
        });
        member.put(again.unwrap(), 0, &[1; 10], Notify::Quiet).unwrap();
    });
}
