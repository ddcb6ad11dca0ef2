//! What happens when nobody has posted a receive, and how that is kept from happening.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use barewire::via::{Cause, Flow, Reliability, ViState};

use crate::*;

fn level(reliability: Reliability) -> ViAttributes {
    ViAttributes { reliability, ..ViAttributes::default() }
}

pub fn no_posted_receive_drops_or_breaks_by_level(wires: &Wires) {
    run(wires, |member, meeting| {
        let told = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&told);
        member.nic.set_error_handler(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        });
        // Unreliable: dropped, and what comes later arrives.
        let vi = member.plain_vi(level(Reliability::Unreliable));
        member.meet(vi, 1);
        if member.me() == 0 {
            member.nic.wait("a drop", PATIENCE, |nic| (nic.counters().dropped == 2).then_some(())).unwrap();
            member.receive(vi, 0, 8);
            meeting.meet(|| {});
            assert_eq!(member.received(vi).immediate, Some(3));
        } else {
            for lost in 1..=2 {
                member.nic.post_send(vi, Descriptor::send().immediate(lost)).unwrap();
                assert_eq!(member.sent(vi), Status::Success, "it says nothing");
            }
            meeting.meet(|| {
                member.nic.poll();
            });
            member.nic.post_send(vi, Descriptor::send().immediate(3)).unwrap();
        }
        assert_eq!(member.nic.state(vi), Ok(ViState::Connected));
        assert_eq!(told.load(Ordering::SeqCst), 0);
        for (round, reliability) in [Reliability::Delivery, Reliability::Reception].into_iter().enumerate() {
            let vi = member.plain_vi(level(reliability));
            member.meet(vi, 2 + round as u64);
            let broken = |nic: &mut Nic| matches!(nic.state(vi), Ok(ViState::Error(_))).then_some(());
            if member.me() == 0 {
                member.nic.wait("the end", PATIENCE, broken).unwrap();
                assert_eq!(member.nic.state(vi), Ok(ViState::Error(Cause::NoReceive)));
            } else {
                member.nic.post_send(vi, Descriptor::send().immediate(9)).unwrap();
                member.nic.wait("the end", PATIENCE, broken).unwrap();
                assert_eq!(member.nic.state(vi), Ok(ViState::Error(Cause::RemoteNoReceive)));
                let status = if reliability == Reliability::Delivery {
                    Status::Success
                } else {
                    Status::RemoteNoReceive
                };
                assert_eq!(member.sent(vi), status);
            }
            member.nic.poll();
            assert_eq!(told.load(Ordering::SeqCst), 1 + round as u32, "the handler was told");
        }
    });
}

pub fn reliable_reception_ends_only_in_the_targets_memory(wires: &Wires) {
    run(wires, |member, meeting| {
        let delivery = member.plain_vi(level(Reliability::Delivery));
        let reception = member.plain_vi(level(Reliability::Reception));
        member.receive(delivery, 0, 100);
        member.receive(reception, 100, 100);
        member.meet(delivery, 1);
        member.meet(reception, 2);
        meeting.meet(|| {
            member.nic.poll();
        });
        // Nobody polls any more when the other sends.
        meeting.meet(|| {});
        if member.me() == 0 {
            // Looks away until the other has sent.
            meeting.meet(|| {});
            assert_eq!(member.read(100, 3), [0; 3]);
            assert_eq!(member.received(reception).length, 3);
            assert_eq!(member.read(100, 3), b"abc");
        } else {
            member.write(500, b"abc");
            member.send(reception, 500, 3);
            member.send(delivery, 500, 3);
            assert_eq!(member.sent(delivery), Status::Success, "the network has it");
            idle(member);
            assert!(member.nic.send_done(reception).is_none(), "it is not in the target's memory");
            meeting.meet(|| {
                member.nic.poll();
            });
            assert_eq!(member.sent(reception), Status::Success);
        }
    });
}

fn rnr(tries: u32) -> ViAttributes {
    ViAttributes { flow: Flow::Rnr { tries, pause: Duration::from_millis(1) }, ..ViAttributes::default() }
}

pub fn a_receiver_that_is_not_ready_is_tried_again(wires: &Wires) {
    const MESSAGES: u64 = 30;
    run(wires, |member, _| {
        let vi = member.plain_vi(rnr(u32::MAX));
        member.meet(vi, 1);
        if member.me() == 0 {
            for number in 0..MESSAGES {
                member.nic.poll();
                if number % 10 == 0 {
                    idle(member);
                }
                member.receive(vi, 0, 50_000);
                let got = member.received(vi);
                let len = if number % 4 == 3 { 40_000 } else { 8 };
                assert_eq!((got.immediate, got.length), (Some(number), len), "in order and once");
                assert!(member.read(0, len as usize) == pattern(len as usize, number));
            }
            assert!(member.nic.counters().not_ready > 0, "it was not ready");
        } else {
            for number in 0..MESSAGES {
                let len = if number % 4 == 3 { 40_000 } else { 8 };
                let at = number * 45_000 % 800_000;
                // Each has bytes of its own until it has ended.
                let memory = Memory::private(len as usize);
                assert!(memory.write(0, &pattern(len as usize, number)));
                let handle = member.nic.register(&memory, member.tag, MemAttributes::default()).unwrap();
                let send = Descriptor::send().segment(handle, 0, len).immediate(number).cookie(at);
                member.nic.post_send(vi, send).unwrap();
            }
            for _ in 0..MESSAGES {
                assert_eq!(member.sent(vi), Status::Success);
            }
            assert!(member.nic.counters().not_ready > 0);
        }
    });
}

/// Wires that hold no more than a part of a message of [`LONG`] bytes.
fn narrow(wires: &Wires) -> Wires {
    wires.with(|config| (config.pool_bytes, config.credit_bytes) = (Some(1 << 16), 1 << 16))
}

const LONG: usize = 600_000;

/// Connects, and goes on polling until the other end is connected too.
fn meet_both(member: &mut Member, meeting: &Meeting, vi: Vi, discriminator: u64) {
    member.meet(vi, discriminator);
    meeting.meet(|| {
        member.nic.poll();
    });
}

/// Every level with every flow control it can have.
fn levels() -> Vec<ViAttributes> {
    let pause = Duration::from_millis(1);
    let flows = [Flow::None, Flow::Rnr { tries: u32::MAX, pause }, Flow::Credits];
    let reliable = [Reliability::Delivery, Reliability::Reception]
        .map(|reliability| flows.map(|flow| ViAttributes { reliability, flow, ..ViAttributes::default() }));
    let mut levels = vec![level(Reliability::Unreliable)];
    levels.extend(reliable.into_iter().flatten());
    levels
}

/// Whether a send with these attributes ends only when its data is there.
fn ends_there(attributes: &ViAttributes) -> bool {
    attributes.reliability == Reliability::Reception || matches!(attributes.flow, Flow::Rnr { .. })
}

pub fn a_message_that_is_half_in_is_acknowledged_when_it_is_whole(wires: &Wires) {
    let target = Mutex::new(None);
    run(&narrow(wires), |member, meeting| {
        if member.me() == 0 {
            *target.lock().unwrap() = Some(member.memory.clone());
        }
        for (round, attributes) in levels().into_iter().enumerate() {
            let vi = member.plain_vi(attributes);
            let data = pattern(LONG, 1 + round as u64);
            if member.me() == 0 {
                member.receive(vi, 0, 8);
                member.receive(vi, 8, LONG as u64);
                meet_both(member, meeting, vi, round as u64);
                meeting.meet(|| {});
                // The sender looks away: no more than the wire holds can be here.
                idle(member);
                let mut got: Vec<_> = std::iter::from_fn(|| member.nic.receive_done(vi)).collect();
                assert!(got.len() < 2, "the long one is half in at most");
                member.receive(vi, 0, 8);
                idle(member);
                meeting.meet(|| {});
                while got.len() < 3 {
                    got.push(member.received(vi));
                }
                assert!(got.iter().all(|got| got.status == Status::Success));
                assert_eq!(got.iter().map(|got| got.length).collect::<Vec<_>>(), [8, LONG as u64, 5]);
                assert!(member.read(8, LONG) == data);
            } else {
                meet_both(member, meeting, vi, round as u64);
                member.write(0, &data);
                for len in [8, LONG as u64, 5] {
                    member.send(vi, 0, len);
                }
                meeting.meet(|| {});
                meeting.meet(|| {});
                for _ in 0..2 {
                    assert_eq!(member.sent(vi), Status::Success);
                }
                if ends_there(&attributes) {
                    let mut last = [0; 64];
                    let target = target.lock().unwrap();
                    assert!(target.as_ref().unwrap().read(8 + LONG - 64, &mut last));
                    assert!(last == data[LONG - 64..], "{attributes:?}: it is in the target's memory");
                }
                assert_eq!(member.sent(vi), Status::Success);
            }
            meeting.meet(|| {
                member.nic.poll();
            });
        }
    });
}

pub fn a_receiver_that_is_not_ready_for_a_long_message_is_tried_again(wires: &Wires) {
    run(&narrow(wires), |member, meeting| {
        let vi = member.plain_vi(rnr(u32::MAX));
        meet_both(member, meeting, vi, 1);
        if member.me() == 0 {
            meeting.meet(|| {});
            // It hears of this while the message is going out.
            idle(member);
            meeting.meet(|| {});
            member.nic.wait("a no", PATIENCE, |nic| (nic.counters().not_ready > 0).then_some(())).unwrap();
            member.receive(vi, 0, LONG as u64);
            member.receive(vi, 0, 8);
            assert_eq!(member.received(vi).length, LONG as u64);
            assert!(member.read(8, LONG - 8) == pattern(LONG, 1)[8..]);
            assert_eq!(member.received(vi).length, 8);
        } else {
            member.write(0, &pattern(LONG, 1));
            member.send(vi, 0, LONG as u64);
            member.send(vi, 0, 8);
            meeting.meet(|| {});
            meeting.meet(|| {});
            assert_eq!((member.sent(vi), member.sent(vi)), (Status::Success, Status::Success));
            assert!(member.nic.counters().not_ready > 0);
        }
    });
}

pub fn a_receiver_that_never_is_ready_for_a_long_message_breaks_the_connection(wires: &Wires) {
    run(&narrow(wires), |member, _| {
        let vi = member.plain_vi(rnr(2));
        member.meet(vi, 1);
        if member.me() == 0 {
            let broken = |nic: &mut Nic| matches!(nic.state(vi), Ok(ViState::Error(_))).then_some(());
            member.nic.wait("the end", PATIENCE, broken).unwrap();
        } else {
            member.send(vi, 0, LONG as u64);
            member.send(vi, 0, 8);
            assert_eq!((member.sent(vi), member.sent(vi)), (Status::NotReady, Status::Flushed));
        }
    });
}

pub fn no_pause_is_too_long(wires: &Wires) {
    run(wires, |member, meeting| {
        let flow = Flow::Rnr { tries: 3, pause: Duration::MAX };
        let vi = member.plain_vi(ViAttributes { flow, ..ViAttributes::default() });
        member.meet(vi, 1);
        if member.me() == 1 {
            member.send(vi, 0, 8);
            member.nic.wait("a no", PATIENCE, |nic| (nic.counters().not_ready == 1).then_some(())).unwrap();
        }
        meeting.meet(|| {
            member.nic.poll();
        });
        member.receive(vi, 0, 8);
        idle(member);
        assert_eq!(member.nic.state(vi), Ok(ViState::Connected));
        assert!(member.nic.send_done(vi).is_none() && member.nic.receive_done(vi).is_none());
        meeting.meet(|| {
            member.nic.poll();
        });
        member.nic.disconnect(vi).unwrap();
        if member.me() == 1 {
            assert_eq!(member.sent(vi), Status::Flushed);
        }
    });
}

pub fn a_receiver_that_never_is_ready_breaks_the_connection(wires: &Wires) {
    run(wires, |member, _| {
        let vi = member.plain_vi(rnr(3));
        member.receive(vi, 0, 8);
        member.meet(vi, 1);
        let broken = |nic: &mut Nic| matches!(nic.state(vi), Ok(ViState::Error(_))).then_some(());
        if member.me() == 1 {
            for number in 0..3 {
                member.nic.post_send(vi, Descriptor::send().immediate(number)).unwrap();
            }
            member.nic.wait("the end", PATIENCE, broken).unwrap();
            let ended: Vec<Status> = (0..3).map(|_| member.sent(vi)).collect();
            assert_eq!(ended, [Status::Success, Status::NotReady, Status::Flushed]);
            assert_eq!(member.nic.state(vi), Ok(ViState::Error(Cause::NotReady)));
        } else {
            assert_eq!(member.received(vi).immediate, Some(0));
            member.nic.wait("the end", PATIENCE, broken).unwrap();
        }
    });
}

pub fn credits_keep_the_sender_from_overrunning(wires: &Wires) {
    const RECEIVES: u64 = 3;
    let messages = wires.times(1000).max(50);
    run(wires, |member, _| {
        let vi = member.vi(ViAttributes { flow: Flow::Credits, ..ViAttributes::default() });
        (0..RECEIVES).for_each(|at| member.receive(vi, 100 * at, 100));
        member.meet(vi, 1);
        for number in 0..messages {
            member
                .nic
                .post_send(vi, Descriptor::send().segment(member.handle, 0, 9).immediate(number))
                .unwrap();
        }
        let (mut sent, mut got) = (0, 0);
        while sent < messages || got < messages {
            let done = member.nic.cq_wait(member.cq, PATIENCE).unwrap();
            assert_eq!(done.descriptor.status, Status::Success);
            match done.queue {
                barewire::via::Queue::Send => sent += 1,
                barewire::via::Queue::Receive => {
                    assert_eq!(done.descriptor.immediate, Some(got));
                    got += 1;
                    let mut again = done.descriptor;
                    again.immediate = None;
                    member.nic.post_receive(vi, again).unwrap();
                }
            }
        }
        let counters = member.nic.counters();
        assert!(counters.acks > 0 && counters.acks <= messages + 1, "{counters:?}");
        assert_eq!(member.nic.state(vi), Ok(ViState::Connected));
    });
}

pub fn vis_share_a_receive_queue(wires: &Wires) {
    const VIS: u64 = 5;
    run(wires, |member, _| {
        let srq = member.nic.create_srq(member.tag).unwrap();
        let vis: Vec<Vi> = (0..VIS)
            .map(|_| {
                member.nic.create_shared_vi(member.tag, ViAttributes::default(), member.cq, srq).unwrap()
            })
            .collect();
        for at in 0..2 * VIS {
            let receive = Descriptor::receive().segment(member.handle, 16 * at, 16);
            member.nic.post_shared(srq, receive).unwrap();
        }
        let refused = member.nic.post_receive(vis[0], Descriptor::receive()).unwrap_err();
        assert_eq!(refused.error, barewire::via::PostError::Shared);
        for (at, vi) in vis.iter().enumerate() {
            member.meet(*vi, at as u64);
        }
        for round in 0..2 {
            for (at, vi) in vis.iter().enumerate() {
                // All through the first, then one through each: the queue does not mind.
                let vi = if round == 0 { vis[0] } else { *vi };
                member.nic.post_send(vi, Descriptor::send().immediate(at as u64)).unwrap();
            }
        }
        let mut got = Vec::new();
        while got.len() < 2 * VIS as usize {
            let done = member.nic.cq_wait(member.cq, PATIENCE).unwrap();
            if done.queue == barewire::via::Queue::Receive {
                got.push((done.vi, done.descriptor.immediate.unwrap()));
            }
        }
        let first = (0..VIS).map(|at| (vis[0], at));
        let second = vis.iter().enumerate().map(|(at, vi)| (*vi, at as u64));
        assert_eq!(got, first.chain(second).collect::<Vec<_>>());
        assert_eq!(member.nic.destroy_srq(srq).unwrap_err(), barewire::via::NicError::InUse);
    });
}
