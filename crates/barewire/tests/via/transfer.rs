//! Messages and RDMA.

use barewire::via::{Queue, ViState};

use crate::*;

pub fn messages_of_every_length_go_through_any_segments(wires: &Wires) {
    let lengths = [0usize, 1, 40, 41, 4000, 32 << 10, (32 << 10) - 8, (32 << 10) - 7, 100_003];
    run(wires, |member, _| {
        let vi = member.plain_vi(ViAttributes { flow: barewire::via::Flow::Credits, ..Default::default() });
        member.meet(vi, 1);
        let half = MEMORY / 2;
        for (salt, len) in lengths.into_iter().enumerate() {
            // Three pieces out, two in, cut at different places.
            let (a, b) = (len / 3, len / 2);
            let data = pattern(len, salt as u64);
            member.write(0, &data[..a]);
            member.write(150_000, &data[a..b]);
            member.write(200_000, &data[b..]);
            let (a, b, n) = (a as u64, b as u64, len as u64);
            let out = Descriptor::send()
                .segment(member.handle, 0, a)
                .segment(member.handle, 150_000, b - a)
                .segment(member.handle, 200_000, n - b);
            let cut = n / 5;
            let into = Descriptor::receive().segment(member.handle, half as u64, cut).segment(
                member.handle,
                half as u64 + 200_000,
                n - cut + 7,
            );
            member.nic.post_receive(vi, into).unwrap();
            member.nic.post_send(vi, out).unwrap();
            let got = member.received(vi);
            assert_eq!((got.status, got.length, got.immediate), (Status::Success, n, None));
            let cut = cut as usize;
            let seen = [member.read(half, cut), member.read(half + 200_000, len - cut)].concat();
            assert!(seen == data, "length {len}");
            let sent = member.nic.send_wait(vi, PATIENCE).unwrap();
            assert_eq!((sent.status, sent.length), (Status::Success, n));
        }
    });
}

pub fn the_immediate_has_64_bits_and_an_rdma_write_with_one_takes_a_receive(wires: &Wires) {
    run(wires, |member, meeting| {
        let vi = member.plain_vi(ViAttributes::default());
        member.receive(vi, 0, 8);
        member.receive(vi, 0, 8);
        member.meet(vi, 1);
        // Both made the same things in the same order, so the other's handle is ours.
        let remote = member.handle.remote();
        member.write(1000, &pattern(50_000, 3));
        let quiet = Descriptor::rdma_write(remote, 200_000).segment(member.handle, 1000, 50_000);
        member.nic.post_send(vi, quiet.clone()).unwrap();
        let loud = Descriptor::rdma_write(remote, 300_000)
            .segment(member.handle, 1000, 20_000)
            .segment(member.handle, 21_000, 30_000)
            .immediate(u64::MAX - 5);
        member.nic.post_send(vi, loud).unwrap();
        let none = Descriptor::send().immediate(1 << 63 | 1);
        member.nic.post_send(vi, none).unwrap();
        for _ in 0..3 {
            assert_eq!(member.sent(vi), Status::Success);
        }
        let first = member.received(vi);
        assert_eq!(
            (first.immediate, first.length, first.status),
            (Some(u64::MAX - 5), 50_000, Status::Success)
        );
        assert!(member.read(200_000, 50_000) == pattern(50_000, 3), "no receive was taken for it");
        assert!(
            member.read(300_000, 50_000) == pattern(50_000, 3),
            "the data is there before the word of it"
        );
        let second = member.received(vi);
        assert_eq!((second.immediate, second.length), (Some(1 << 63 | 1), 0));
        meeting.meet(|| {
            member.nic.poll();
        });
    });
}

pub fn rdma_reads_what_the_other_end_has(wires: &Wires) {
    run(wires, |member, meeting| {
        let vi = member.plain_vi(ViAttributes::default());
        member.write(0, &pattern(100_000, u64::from(member.me())));
        member.meet(vi, 1);
        meeting.meet(|| {
            member.nic.poll();
        });
        let read = Descriptor::rdma_read(member.handle.remote(), 500)
            .segment(member.handle, 200_000, 70_000)
            .segment(member.handle, 300_000, 1);
        member.nic.post_send(vi, read).unwrap();
        let done = member.nic.send_wait(vi, PATIENCE).unwrap();
        assert_eq!((done.status, done.length), (Status::Success, 70_001));
        let theirs = pattern(100_000, u64::from(member.other().0));
        assert!(member.read(200_000, 70_000) == theirs[500..70_500]);
        assert_eq!(member.read(300_000, 1), theirs[70_500..70_501]);
    });
}

pub fn a_message_never_overtakes_an_rdma_write(wires: &Wires) {
    let rounds = wires.times(40).max(3);
    run(wires, |member, _| {
        let vi = member.plain_vi(ViAttributes { flow: barewire::via::Flow::Credits, ..Default::default() });
        member.receive(vi, 0, 8);
        member.meet(vi, 1);
        for round in 1..=rounds {
            let len = 1 + (round as usize * 7919) % 60_000;
            // The other may be one round ahead, not two.
            let place = 300_000 + round % 2 * 100_000;
            member.write(100_000, &vec![round as u8; len]);
            let write = Descriptor::rdma_write(member.handle.remote(), place).segment(
                member.handle,
                100_000,
                len as u64,
            );
            member.nic.queue_send(vi, write).unwrap();
            member.nic.queue_send(vi, Descriptor::send().immediate(len as u64)).unwrap();
            member.nic.ring(vi);
            let word = member.received(vi);
            assert_eq!(word.immediate, Some(len as u64));
            let got = member.read(place as usize, len);
            assert!(got.iter().all(|byte| *byte == round as u8), "round {round}");
            assert_eq!((member.sent(vi), member.sent(vi)), (Status::Success, Status::Success));
            member.receive(vi, 0, 8);
        }
    });
}

pub fn several_descriptors_go_with_one_doorbell(wires: &Wires) {
    run(wires, |member, _| {
        let vi = member.plain_vi(ViAttributes::default());
        (0..10).for_each(|_| member.receive(vi, 0, 8));
        member.meet(vi, 1);
        let before = member.nic.counters().doorbells;
        for number in 0..10 {
            member.nic.queue_send(vi, Descriptor::send().immediate(number)).unwrap();
        }
        assert!(member.nic.send_done(vi).is_none(), "nobody has rung");
        member.nic.ring(vi);
        assert_eq!(member.nic.counters().doorbells, before + 1);
        for number in 0..10 {
            assert_eq!(member.received(vi).immediate, Some(number));
            assert_eq!(member.sent(vi), Status::Success);
        }
    });
}

pub fn one_queue_serves_a_thousand_vis_and_costs_what_ended(wires: &Wires) {
    let count = wires.times(1000).max(200);
    run(wires, |member, meeting| {
        let vis: Vec<Vi> = (0..count).map(|_| member.vi(ViAttributes::default())).collect();
        for (at, vi) in vis.iter().enumerate() {
            let receive = Descriptor::receive().segment(member.handle, 0, 64).cookie(at as u64);
            member.nic.post_receive(*vi, receive).unwrap();
            member.nic.connect_peer_request(*vi, member.other(), at as u64).unwrap();
        }
        member
            .nic
            .wait("all VIs", PATIENCE, |nic| {
                vis.iter().all(|vi| nic.state(*vi) == Ok(ViState::Connected)).then_some(())
            })
            .unwrap();
        let before = member.nic.counters();
        meeting.meet(|| {
            member.nic.poll();
        });
        // A few of the many are used.
        let used: Vec<usize> = (0..count as usize).step_by(97).collect();
        for at in &used {
            member
                .nic
                .post_send(vis[*at], Descriptor::send().immediate(*at as u64).cookie(*at as u64))
                .unwrap();
        }
        let mut seen = Vec::new();
        while seen.len() < used.len() {
            let done = member.nic.cq_wait(member.cq, PATIENCE).unwrap();
            assert_eq!(done.vi, vis[done.descriptor.cookie as usize], "the event says which VI");
            if done.queue == Queue::Receive {
                // It brought its descriptor along: nothing has to be asked again.
                assert_eq!(done.descriptor.immediate, Some(done.descriptor.cookie));
                seen.push(done.descriptor.cookie as usize);
            }
        }
        assert_eq!(seen, used);
        while let Some(done) = member.nic.cq_done(member.cq) {
            assert_eq!(done.queue, Queue::Send);
        }
        let after = member.nic.counters();
        assert_eq!(after.completions - before.completions, 2 * used.len() as u64);
        let empty = member.nic.cq_done(member.cq);
        assert!(empty.is_none());
    });
}
