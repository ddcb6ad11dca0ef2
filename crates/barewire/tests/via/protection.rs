//! Tags, handles and bounds: who may touch what.

use barewire::via::{Cause, OnRefusal, Reliability, ViState};

use crate::*;

/// Unreliable, so that a refusal is all that happens.
fn lenient() -> ViAttributes {
    ViAttributes { reliability: Reliability::Unreliable, ..ViAttributes::default() }
}

pub fn other_tags_set_a_status_and_touch_nothing(wires: &Wires) {
    run(wires, |member, meeting| {
        let foreign = member.nic.create_ptag().unwrap();
        let secret = Memory::private(64);
        assert!(secret.write(0, &[7; 64]));
        let secret_handle = member.nic.register(&secret, foreign, MemAttributes::default()).unwrap();
        let vi = member.plain_vi(lenient());
        // A good segment first: it is not touched either.
        let receive = Descriptor::receive().segment(member.handle, 0, 4).segment(secret_handle, 0, 64);
        member.nic.post_receive(vi, receive).unwrap();
        let beyond = Descriptor::receive().segment(member.handle, MEMORY as u64 - 4, 64);
        member.nic.post_receive(vi, beyond).unwrap();
        member.receive(vi, 0, 64);
        member.meet(vi, 1);
        meeting.meet(|| {
            member.nic.poll();
        });
        let bad = [
            Descriptor::send().segment(secret_handle, 0, 8),
            Descriptor::send().segment(member.handle, MEMORY as u64 - 4, 8),
            Descriptor::send().segment(member.handle, u64::MAX, 8),
        ];
        for send in bad {
            member.nic.post_send(vi, send).unwrap();
            assert_eq!(member.sent(vi), Status::Protection);
        }
        for _ in 0..3 {
            member.write(1000, &[9; 8]);
            member.send(vi, 1000, 8);
        }
        let ended: Vec<_> = (0..3).map(|_| member.received(vi).status).collect();
        assert_eq!(ended, [Status::Protection, Status::Protection, Status::Success]);
        let mut untouched = [0; 64];
        assert!(secret.read(0, &mut untouched));
        assert_eq!(untouched, [7; 64]);
        assert_eq!(member.read(MEMORY - 4, 4), [0; 4]);
        // On a reliable VI the connection breaks, too.
        let vi = member.plain_vi(ViAttributes::default());
        member.meet(vi, 2);
        if member.me() == 0 {
            member.nic.post_send(vi, Descriptor::send().segment(secret_handle, 0, 8)).unwrap();
            assert_eq!(member.sent(vi), Status::Protection);
            assert_eq!(member.nic.state(vi), Ok(ViState::Error(Cause::Protection)));
        } else {
            member
                .nic
                .wait("the end", PATIENCE, |nic| {
                    (nic.state(vi) == Ok(ViState::Error(Cause::RemoteProtection))).then_some(())
                })
                .unwrap();
        }
    });
}

/// What a member told the other of its memory: it is the same on both sides.
struct Offers {
    open: MemHandle,
    read_only: MemHandle,
    foreign: MemHandle,
}

fn offers(member: &mut Member) -> (Offers, [Memory; 2]) {
    let other_tag = member.nic.create_ptag().unwrap();
    let (closed, foreign) = (Memory::shared(4096).unwrap(), Memory::shared(4096).unwrap());
    let open = MemAttributes { rdma_write: true, rdma_read: true };
    let read_only = MemAttributes { rdma_read: true, ..MemAttributes::default() };
    let offers = Offers {
        open: member.handle,
        read_only: member.nic.register(&closed, member.tag, read_only).unwrap(),
        foreign: member.nic.register(&foreign, other_tag, open).unwrap(),
    };
    (offers, [closed, foreign])
}

fn write_to(member: &mut Member, vi: Vi, to: MemHandle, offset: u64, len: u64) -> Status {
    let write = Descriptor::rdma_write(to.remote(), offset).segment(member.handle, 0, len);
    member.nic.post_send(vi, write).unwrap();
    member.sent(vi)
}

pub fn rdma_is_checked_by_the_owner(wires: &Wires) {
    run(wires, |member, meeting| {
        let (offers, memories) = offers(member);
        member.write(0, &[5; 64]);
        let vi = member.plain_vi(lenient());
        let closed_vi = member.plain_vi(ViAttributes { rdma_write: false, ..lenient() });
        member.meet(vi, 1);
        member.meet(closed_vi, 2);
        meeting.meet(|| {
            member.nic.poll();
        });
        for round in 0..2 {
            // The second time access is known, or known to be refused.
            assert_eq!(write_to(member, vi, offers.open, 2048, 16), Status::Success, "round {round}");
            assert_eq!(write_to(member, vi, offers.read_only, 0, 16), Status::RemoteProtection);
            assert_eq!(write_to(member, vi, offers.foreign, 0, 16), Status::RemoteProtection);
            assert_eq!(write_to(member, closed_vi, offers.open, 0, 16), Status::RemoteProtection);
            assert_eq!(write_to(member, vi, offers.open, MEMORY as u64 - 8, 16), Status::RemoteProtection);
            assert_eq!(write_to(member, vi, offers.open, u64::MAX - 3, 16), Status::RemoteProtection);
        }
        let read = Descriptor::rdma_read(offers.read_only.remote(), 0).segment(member.handle, 0, 4);
        member.nic.post_send(vi, read).unwrap();
        assert_eq!(member.sent(vi), Status::Format, "an unreliable VI does not read");
        let astray = Descriptor::rdma_write(barewire::via::RemoteMem(0x1234_5678_9abc), 0);
        member.nic.post_send(vi, astray.segment(member.handle, 0, 4)).unwrap();
        assert_eq!(member.sent(vi), Status::RemoteProtection, "a handle that was never given");
        meeting.meet(|| {
            member.nic.poll();
        });
        for memory in memories {
            let mut bytes = [1; 64];
            assert!(memory.read(0, &mut bytes));
            assert_eq!(bytes, [0; 64], "nothing was touched");
        }
        assert_eq!(member.read(2048, 16), [5; 16]);
        assert_eq!(member.nic.state(vi), Ok(ViState::Connected));
    });
}

pub fn a_revoked_tag_opens_nothing(wires: &Wires) {
    run(wires, |member, meeting| {
        let tag = member.nic.create_ptag().unwrap();
        let memory = Memory::shared(4096).unwrap();
        let open = MemAttributes { rdma_write: true, rdma_read: true };
        let handle = member.nic.register(&memory, tag, open).unwrap();
        let vi = member.nic.create_vi(tag, lenient(), Cqs::default()).unwrap();
        let receive = Descriptor::receive().segment(handle, 0, 64);
        member.nic.post_receive(vi, receive).unwrap();
        member.meet(vi, 1);
        meeting.meet(|| {
            member.nic.poll();
        });
        assert!(memory.write(1024, &[3; 16]));
        let write = || Descriptor::rdma_write(handle.remote(), 2048).segment(handle, 1024, 16);
        for _ in 0..3 {
            member.nic.post_send(vi, write()).unwrap();
            assert_eq!(member.sent(vi), Status::Success);
        }
        meeting.meet(|| {
            member.nic.poll();
        });
        if member.me() == 0 {
            assert!(memory.write(2048, &[0; 16]));
            member.nic.revoke_ptag(tag).unwrap();
            assert!(member.nic.revoke_ptag(tag).is_err(), "once");
            assert!(member.nic.register(&memory, tag, open).is_err());
            meeting.meet(|| {});
            assert_eq!(member.received(vi).status, Status::Protection, "its own receives do not reach it");
            member.nic.post_send(vi, Descriptor::send().segment(handle, 0, 4)).unwrap();
            assert_eq!(member.sent(vi), Status::Protection, "nor its own sends");
        } else {
            meeting.meet(|| {
                member.nic.poll();
            });
            member.nic.post_send(vi, write()).unwrap();
            assert_eq!(member.sent(vi), Status::RemoteProtection);
            member.nic.post_send(vi, Descriptor::send().segment(handle, 1024, 16)).unwrap();
            assert_eq!(member.sent(vi), Status::Success);
        }
        meeting.meet(|| {
            member.nic.poll();
        });
        let mut bytes = [9; 16];
        assert!(memory.read(if member.me() == 0 { 2048 } else { 0 }, &mut bytes));
        assert_eq!(bytes, [0; 16]);
    });
}

pub fn a_refusal_may_be_reported_without_breaking(wires: &Wires) {
    run(wires, |member, meeting| {
        let (offers, _memories) = offers(member);
        let report = ViAttributes { on_refusal: OnRefusal::Report, ..ViAttributes::default() };
        let (strict, relaxed) = (member.plain_vi(ViAttributes::default()), member.plain_vi(report));
        member.meet(strict, 1);
        member.meet(relaxed, 2);
        meeting.meet(|| {
            member.nic.poll();
        });
        assert_eq!(write_to(member, relaxed, offers.foreign, 0, 16), Status::RemoteProtection);
        assert_eq!(write_to(member, relaxed, offers.open, 0, 16), Status::Success);
        assert_eq!(member.nic.state(relaxed), Ok(ViState::Connected));
        meeting.meet(|| {
            member.nic.poll();
        });
        if member.me() == 0 {
            assert_eq!(write_to(member, strict, offers.foreign, 0, 16), Status::RemoteProtection);
        }
        member
            .nic
            .wait("the end", PATIENCE, |nic| matches!(nic.state(strict), Ok(ViState::Error(_))).then_some(()))
            .unwrap();
    });
}

pub fn a_message_too_long_for_its_descriptor_breaks_the_connection(wires: &Wires) {
    run(wires, |member, _| {
        for (round, len) in [20u64, 200_000].into_iter().enumerate() {
            let vi = member.plain_vi(ViAttributes::default());
            member.receive(vi, 0, len - 1);
            member.meet(vi, round as u64);
            if member.me() == 0 {
                let got = member.received(vi);
                assert_eq!(got.status, Status::Length);
                assert_eq!(member.read(0, 10), [0; 10], "nothing was touched");
                assert_eq!(member.nic.state(vi), Ok(ViState::Error(Cause::Length)));
            } else {
                member.write(300_000, &vec![1; len as usize]);
                member.send(vi, 300_000, len);
                member
                    .nic
                    .wait("the end", PATIENCE, |nic| {
                        (nic.state(vi) == Ok(ViState::Error(Cause::Length))).then_some(())
                    })
                    .unwrap();
            }
        }
    });
}

#[test]
fn what_is_freed_twice_or_still_used_is_an_error() {
    use barewire::core::{Config, job::Job};
    use barewire::via::{Flow, NicError, PostError};
    let mut member = Member::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    let vi = member.vi(ViAttributes::default());
    let Member { nic, tag, cq, handle, .. } = &mut member;
    assert_eq!(nic.destroy_ptag(*tag), Err(NicError::InUse));
    assert_eq!(nic.destroy_cq(*cq), Err(NicError::InUse));
    let refused = nic.post_send(vi, Descriptor::send()).unwrap_err();
    assert_eq!(refused.error, PostError::NotConnected);
    assert_eq!(nic.post_send(vi, Descriptor::receive()).unwrap_err().error, PostError::WrongQueue);
    assert_eq!(nic.post_receive(vi, Descriptor::send()).unwrap_err().error, PostError::WrongQueue);
    let mut many = Descriptor::receive();
    (0..300).for_each(|_| many.segments.push(barewire::via::Segment { memory: *handle, offset: 0, len: 1 }));
    assert_eq!(nic.post_receive(vi, many).unwrap_err().error, PostError::Segments(300));
    // To itself: a connection like any other.
    let there = nic.create_vi(*tag, ViAttributes::default(), *cq).unwrap();
    nic.connect_request(vi, Peer(0), 4).unwrap();
    assert_eq!(nic.destroy_vi(vi), Err(NicError::NotIdle));
    let request = nic.connect_wait(4, PATIENCE).unwrap();
    nic.accept(request, there).unwrap();
    nic.connected(vi, PATIENCE).unwrap();
    assert_eq!(nic.destroy_vi(there), Err(NicError::NotIdle));
    nic.disconnect(vi).unwrap();
    nic.poll();
    nic.destroy_vi(vi).unwrap();
    nic.disconnect(there).unwrap();
    nic.destroy_vi(there).unwrap();
    assert_eq!(nic.destroy_vi(vi), Err(NicError::NoSuch));
    assert_eq!(nic.state(vi), Err(NicError::NoSuch));
    assert_eq!(nic.disconnect(vi), Err(NicError::NoSuch));
    assert_eq!(nic.post_send(vi, Descriptor::send()).unwrap_err().error, PostError::NoSuch);
    assert!(nic.send_done(vi).is_none() && nic.receive_done(vi).is_none());
    nic.deregister(*handle).unwrap();
    assert_eq!(nic.deregister(*handle), Err(NicError::NoSuch));
    nic.destroy_cq(*cq).unwrap();
    assert_eq!(nic.destroy_cq(*cq), Err(NicError::NoSuch));
    assert!(nic.cq_done(*cq).is_none());
    nic.destroy_ptag(*tag).unwrap();
    assert_eq!(nic.destroy_ptag(*tag), Err(NicError::NoSuch));
    assert!(nic.create_vi(*tag, ViAttributes::default(), Cqs::default()).is_err());
    let tag = nic.create_ptag().unwrap();
    let lax =
        ViAttributes { reliability: Reliability::Unreliable, flow: Flow::Credits, ..Default::default() };
    assert!(matches!(nic.create_vi(tag, lax, Cqs::default()), Err(NicError::Attributes(_))));
}

pub fn an_answer_that_nobody_asked_for_is_not_kept(wires: &Wires) {
    const LIES: u64 = 50;
    run(wires, |member, meeting| {
        let vi = member.plain_vi(ViAttributes::default());
        member.meet(vi, 1);
        meeting.meet(|| {
            member.nic.poll();
        });
        let there = member.handle.remote();
        if member.me() == 1 {
            // "No access", by the NICs' own packets, to the first VI of a NIC: the name of that is 0.
            let answer = barewire::core::Port(0xBA00);
            for handle in (there.0..).take(LIES as usize) {
                let send = |nic: &mut Nic| nic.core_mut().send(Peer(0), answer, handle, &[0; 24]).ok();
                member.nic.wait("room", PATIENCE, send).unwrap();
            }
        } else {
            let heard = |nic: &mut Nic| (nic.counters().strays == LIES).then_some(());
            member.nic.wait("all of it", PATIENCE, heard).unwrap();
        }
        meeting.meet(|| {
            member.nic.poll();
        });
        if member.me() == 0 {
            // Both NICs have made the same things: the handle is the other's too.
            let write = Descriptor::rdma_write(there, 0).segment(member.handle, 0, 8);
            member.nic.post_send(vi, write).unwrap();
            assert_eq!(member.sent(vi), Status::Success);
            assert_eq!(member.nic.counters().resolves, 1, "it asked for itself");
        }
    });
}

#[test]
fn an_old_handle_opens_nothing_however_many_came_after_it() {
    let job = barewire::core::job::Job::alone().unwrap();
    let mut member = Member::new(Endpoint::open(job, Default::default()).unwrap());
    let mine = Memory::private(8);
    let register = |nic: &mut Nic| nic.register(&mine, member.tag, MemAttributes::default()).unwrap();
    let old = register(&mut member.nic);
    let mut last = old;
    for _ in 0..1 << 14 {
        member.nic.deregister(last).unwrap();
        last = register(&mut member.nic);
        assert!(member.nic.memory(old).is_none());
        assert_eq!(member.nic.deregister(old), Err(barewire::via::NicError::NoSuch), "freed once");
    }
    assert!(member.nic.memory(last).is_some());
}
