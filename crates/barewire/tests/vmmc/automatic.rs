//! Automatic update.

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
