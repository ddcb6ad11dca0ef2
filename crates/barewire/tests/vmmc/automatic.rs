//! Automatic update.

use std::time::Instant;

use barewire_sys::watch::WriteWatch;

use crate::*;

const EVERY: Duration = Duration::from_millis(2);

/// Waits until `len` bytes of our own buffer are all `value`.
fn appears(member: &mut Member, at: usize, len: usize, value: u8) {
    let buffer = member.buffer.clone();
    member
        .node
        .wait("an automatic update", PATIENCE, |_| (read(&buffer, at, len) == vec![value; len]).then_some(()))
        .unwrap();
}

pub fn automatic_update_appears_within_its_bound(wires: &Wires) {
    let near = wires.config.shm && !wires.config.tcp;
    run(wires, |member, meeting| {
        let binding = member.node.bind(member.proxy, (4096, 100_000), EVERY).unwrap();
        member.meet(meeting);
        let before = member.node.core().stats();
        for i in 0..1000u64 {
            member.node.write(binding, i * 100, &[5; 100]).unwrap();
        }
        if near {
            let after = member.node.core().stats();
            assert_eq!(after.sent, before.sent, "writing to a neighbour's memory sends nothing");
            assert_eq!(member.node.counters().updates, 0);
        }
        // Nobody flushes: polling is enough.
        appears(member, 4096, 100_000, 5);
        assert_eq!(read(&member.buffer, 4095, 1), [0]);
        member.meet(meeting);
        // Only what changed is sent.
        let before = member.node.counters();
        member.node.write(binding, 50_000, &[6; 10]).unwrap();
        member.node.flush(binding, PATIENCE).unwrap();
        let after = member.node.counters();
        let sent = after.update_bytes - before.update_bytes;
        assert_eq!(sent, if near { 0 } else { 10 });
        appears(member, 54_096, 10, 6);
        let beyond = member.node.write(binding, 99_999, &[1; 2]);
        assert_eq!(beyond, Err(TransferError::OutOfRange));
        member.meet(meeting);
        member.node.unbind(binding).unwrap();
        assert_eq!(member.node.unbind(binding), Err(TransferError::NoSuch));
        assert_eq!(member.node.write(binding, 0, &[1]), Err(TransferError::NoSuch));
        let wide = member.node.bind(member.proxy, (1, BUFFER as u64), EVERY);
        assert_eq!(wide, Err(TransferError::OutOfRange));
    });
}

pub fn automatic_update_finds_what_was_written_behind_its_back(wires: &Wires) {
    run(wires, |member, meeting| {
        let binding = member.node.bind(member.proxy, (64, 50_000), EVERY).unwrap();
        let (memory, base) = member.node.binding_memory(binding).unwrap();
        for round in 1..=5u8 {
            assert!(memory.write(base as usize + 7777, &vec![round; 9000]));
            assert!(memory.write(base as usize + 49_999, &[round]));
            appears(member, 64 + 7777, 9000, round);
            appears(member, 64 + 49_999, 1, round);
            member.meet(meeting);
        }
    });
}

pub fn automatic_update_touches_nothing_but_what_was_written(wires: &Wires) {
    run(wires, |member, meeting| {
        assert!(member.buffer.write(0, &[9; 1000]));
        member.meet(meeting);
        let [first, second] = [0; 2].map(|_| member.node.bind(member.proxy, (0, 1000), EVERY).unwrap());
        // Two bindings of one place, and the owner's own: each byte is whose it is. What is written may be zero.
        for at in (0..900).step_by(10) {
            member.node.write(first, at, &[0, 1]).unwrap();
            member.node.write(second, at + 2, &[2, 0, 2]).unwrap();
        }
        member.node.flush(first, PATIENCE).unwrap();
        member.node.flush(second, PATIENCE).unwrap();
        member.meet(meeting);
        let expected = [[0, 1, 2, 0, 2, 9, 9, 9, 9, 9].repeat(90), vec![9; 100]].concat();
        assert!(read(&member.buffer, 0, 1000) == expected);
        member.meet(meeting);
        // Without its import a binding is bound to nothing.
        member.node.unimport(member.proxy).unwrap();
        assert_eq!(member.node.write(first, 0, &[5]), Err(TransferError::NoSuch));
        assert_eq!(member.node.flush(second, PATIENCE), Err(TransferError::NoSuch));
        member.meet(meeting);
        assert!(read(&member.buffer, 0, 1000) == expected);
    });
}

pub fn what_is_found_behind_the_back_is_what_changed_and_its_neighbours_stay(wires: &Wires) {
    const LEN: usize = 300_000;
    run(wires, |member, meeting| {
        for (round, tracked) in [true, false].into_iter().enumerate() {
            let value = round as u8 + 1;
            assert!(member.buffer.write(0, &[9; LEN]));
            member.meet(meeting);
            member.node.set_write_tracking(tracked);
            let [first, second] =
                [0; 2].map(|_| member.node.bind(member.proxy, (0, LEN as u64), EVERY).unwrap());
            let places = [first, second].map(|binding| member.node.binding_memory(binding).unwrap());
            // Two bindings and the owner share every page of some; each byte is whose it is.
            for at in (0..LEN).filter(|at| at / 4096 % 7 == 0).step_by(1500) {
                for (i, (memory, base)) in places.iter().enumerate() {
                    assert!(memory.write(*base as usize + at + i, &[value + i as u8]));
                }
            }
            member.node.flush(first, PATIENCE).unwrap();
            member.node.flush(second, PATIENCE).unwrap();
            member.meet(meeting);
            let mut expected = vec![9; LEN];
            for at in (0..LEN).filter(|at| at / 4096 % 7 == 0).step_by(1500) {
                expected[at..at + 2].copy_from_slice(&[value, value + 1]);
            }
            assert!(read(&member.buffer, 0, LEN) == expected, "tracked: {tracked}");
            member.node.unbind(first).unwrap();
            member.node.unbind(second).unwrap();
            member.meet(meeting);
        }
    });
}

pub fn a_value_written_through_the_binding_is_sent_each_time(wires: &Wires) {
    let near = wires.config.shm && !wires.config.tcp;
    run(wires, |member, meeting| {
        let binding = member.node.bind(member.proxy, (0, 200_000), EVERY).unwrap();
        let (memory, base) = member.node.binding_memory(binding).unwrap();
        for _ in 0..3 {
            member.node.write(binding, 100_000, &[1]).unwrap();
            appears(member, 100_000, 1, 1);
            assert!(member.buffer.write(100_000, &[0]), "the owner clears the flag");
            member.meet(meeting);
        }
        // By hand it appears with a neighbour only, for elsewhere it is no change.
        assert!(memory.write(base as usize + 100_000, &[1]));
        member.node.flush(binding, PATIENCE).unwrap();
        member.meet(meeting);
        assert_eq!(read(&member.buffer, 100_000, 1), [u8::from(near)]);
    });
}

pub fn a_binding_that_is_never_due_is_sent_when_it_is_flushed(wires: &Wires) {
    run(wires, |member, meeting| {
        let binding = member.node.bind(member.proxy, (0, 1000), Duration::MAX).unwrap();
        member.node.write(binding, 0, &[1; 10]).unwrap();
        let (memory, base) = member.node.binding_memory(binding).unwrap();
        for value in 2..4 {
            assert!(memory.write(base as usize + 10, &[value; 10]));
            member.node.flush(binding, PATIENCE).unwrap();
            member.meet(meeting);
            assert_eq!(read(&member.buffer, 0, 20), [[1; 10], [value; 10]].concat());
            member.meet(meeting);
        }
    });
}

/// Writes one word into a binding of 64 MiB and flushes it; how many pages that looked at, each time.
fn pages_looked_at(tracked: bool) -> Vec<u64> {
    const LARGE: usize = 64 << 20;
    let looked = Mutex::new(Vec::new());
    run(&Wires::tcp(), |member, meeting| {
        if member.me == 1 {
            let large = Memory::shared(LARGE).unwrap();
            member.node.export(&large, 30, Who::Anyone).unwrap();
            member.meet(meeting);
            return;
        }
        let proxy = member.node.import(Peer(1), 30, PATIENCE).unwrap();
        member.node.set_write_tracking(tracked);
        let binding = member.node.bind(proxy, (0, LARGE as u64), Duration::MAX).unwrap();
        let (memory, base) = member.node.binding_memory(binding).unwrap();
        for round in 1..=5 {
            let before = member.node.counters();
            assert!(memory.write(base as usize + LARGE / 7 * round, &[1; 8]));
            let start = Instant::now();
            member.node.flush(binding, PATIENCE).unwrap();
            let took = start.elapsed();
            let after = member.node.counters();
            assert_eq!(after.update_bytes - before.update_bytes, 8);
            looked.lock().unwrap().push(after.compared - before.compared);
            eprintln!("tracked: {tracked}, a flush of 64 MiB took {took:?}");
        }
        member.meet(meeting);
    });
    looked.into_inner().unwrap()
}

#[test]
fn a_flush_looks_at_the_written_pages_of_a_large_binding() {
    if WriteWatch::new(&Memory::private(1 << 20)).is_none() {
        eprintln!(
            "SKIPPED: the kernel tracks no writes here (that takes Linux 6.7, and userfaultfd allowed)"
        );
        return;
    }
    let page = barewire_sys::rustix::param::page_size() as u64;
    // The written page, or two, and what shares its page with other memory, at either end.
    let most = 4 * (page / 4096);
    let looked = pages_looked_at(true);
    assert!(looked.iter().all(|&pages| (1..=most).contains(&pages)), "{looked:?}");
}

#[test]
fn without_tracking_a_flush_looks_at_every_page() {
    assert_eq!(pages_looked_at(false), [(64 << 20) / 4096; 5]);
}
