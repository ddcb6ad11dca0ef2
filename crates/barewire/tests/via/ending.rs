//! How connections end, in good order and otherwise.

use barewire::via::{Cause, ConnectError, EndError, NicError, Reliability, ViState};

use crate::*;

pub fn disconnecting_flushes_everything_at_both_ends(wires: &Wires) {
    run(wires, |member, meeting| {
        let attributes = ViAttributes { flow: barewire::via::Flow::Credits, ..ViAttributes::default() };
        let vi = member.plain_vi(attributes);
        if member.me() == 0 {
            (0..3).for_each(|at| member.receive(vi, at, 1));
        }
        member.meet(vi, 1);
        if member.me() == 0 {
            // Without credit from the other end these wait.
            (0..4).for_each(|_| member.send(vi, 0, 1));
            assert!(member.nic.send_done(vi).is_none());
            member.nic.disconnect(vi).unwrap();
            assert_eq!(member.nic.state(vi), Ok(ViState::Idle));
        } else {
            member
                .nic
                .wait("the end", PATIENCE, |nic| {
                    (nic.state(vi) == Ok(ViState::Error(Cause::Disconnected))).then_some(())
                })
                .unwrap();
            // What is posted to a broken VI comes straight back.
            (0..4).for_each(|_| member.send(vi, 0, 1));
            (0..3).for_each(|at| member.receive(vi, at, 1));
        }
        for _ in 0..4 {
            assert_eq!(member.nic.send_done(vi).unwrap().status, Status::Flushed);
        }
        for at in 0..3 {
            let flushed = member.nic.receive_done(vi).unwrap();
            assert_eq!((flushed.status, flushed.cookie), (Status::Flushed, at));
        }
        assert!(member.nic.send_done(vi).is_none() && member.nic.receive_done(vi).is_none());
        meeting.meet(|| {
            member.nic.poll();
        });
    });
}

pub fn a_wait_for_what_cannot_come_says_why(wires: &Wires) {
    run(wires, |member, meeting| {
        let vi = member.plain_vi(ViAttributes::default());
        assert_eq!(member.nic.send_wait(vi, None).unwrap_err(), EndError::NotConnected);
        assert_eq!(member.nic.receive_wait(vi, None).unwrap_err(), EndError::NotConnected);
        let queued = member.vi(ViAttributes::default());
        assert_eq!(member.nic.connected(queued, None), Err(ConnectError::NotAsked));
        member.meet(queued, 1);
        assert_eq!(member.nic.connected(queued, None), Ok(()), "it is");
        assert_eq!(member.nic.send_wait(queued, None).unwrap_err(), EndError::OnQueue);
        assert_eq!(member.nic.receive_wait(queued, None).unwrap_err(), EndError::OnQueue);
        member.receive(vi, 0, 8);
        member.meet(vi, 2);
        meeting.meet(|| {
            member.nic.poll();
        });
        if member.me() == 0 {
            member.nic.disconnect(vi).unwrap();
            assert_eq!(member.received(vi).status, Status::Flushed);
            assert_eq!(member.nic.receive_wait(vi, None).unwrap_err(), EndError::NotConnected);
        } else {
            // It waits already when the connection ends.
            let gone = EndError::Broken(Cause::Disconnected);
            assert_eq!(member.nic.send_wait(vi, None).unwrap_err(), gone);
            assert_eq!(member.received(vi).status, Status::Flushed, "what is left comes first");
            assert_eq!(member.nic.receive_wait(vi, None).unwrap_err(), gone);
        }
        member.nic.destroy_vi(vi).unwrap();
        assert_eq!(member.nic.send_wait(vi, None).unwrap_err(), EndError::NoSuch);
        assert_eq!(member.nic.receive_wait(vi, None).unwrap_err(), EndError::NoSuch);
        assert_eq!(member.nic.destroy_cq(member.cq), Err(NicError::InUse));
        member.nic.disconnect(queued).unwrap();
        member.nic.destroy_vi(queued).unwrap();
        member.nic.destroy_cq(member.cq).unwrap();
        assert_eq!(member.nic.cq_wait(member.cq, None).unwrap_err(), EndError::NoSuch);
    });
}

pub fn a_peer_that_leaves_fails_what_needs_it_and_nothing_else(wires: &Wires) {
    let meeting = Meeting::new(3);
    wires.run(3, |core| {
        let mut member = Member::new(core);
        let me = member.me();
        let attributes = ViAttributes { reliability: Reliability::Reception, ..ViAttributes::default() };
        // Rank 2 leaves; 0 and 1 have connections to it and to each other.
        let others: Vec<u32> = (0..3).filter(|&rank| rank != me).collect();
        let vis: Vec<(u32, Vi)> = others.iter().map(|&rank| (rank, member.plain_vi(attributes))).collect();
        for (rank, vi) in &vis {
            member.receive(*vi, 0, 8);
            member.receive(*vi, 0, 8);
            member.nic.connect_peer_request(*vi, Peer(*rank), 1).unwrap();
        }
        vis.iter().for_each(|(_, vi)| member.nic.connected(*vi, PATIENCE).unwrap());
        meeting.meet(|| {
            member.nic.poll();
        });
        if me == 2 {
            drop(member);
            meeting.meet(|| {});
            return;
        }
        let to_lost = vis[1].1;
        let to_friend = vis[0].1;
        // A message, an RDMA write, and a connection asked for: all of it may be on its way when the peer goes.
        member.send(to_lost, 0, 4);
        let write = Descriptor::rdma_write(member.handle.remote(), 4096).segment(member.handle, 0, 100_000);
        member.nic.post_send(to_lost, write).unwrap();
        let asking = member.plain_vi(attributes);
        let asked = member.nic.connect_request(asking, Peer(2), 9);
        member
            .nic
            .wait("the end", PATIENCE, |nic| {
                matches!(nic.state(to_lost), Ok(ViState::Error(Cause::PeerLost))).then_some(())
            })
            .unwrap();
        for _ in 0..2 {
            let status = member.sent(to_lost);
            assert!(matches!(status, Status::PeerLost | Status::Flushed | Status::Success), "{status:?}");
        }
        for _ in 0..2 {
            assert_eq!(member.received(to_lost).status, Status::Flushed);
        }
        if asked.is_ok() {
            assert!(matches!(member.nic.connected(asking, PATIENCE), Err(ConnectError::Send(_))));
        }
        let late = member.plain_vi(attributes);
        assert!(matches!(member.nic.connect(late, Peer(2), 9, PATIENCE), Err(ConnectError::Send(_))));
        // The rest goes on.
        member.write(64, b"still");
        member.send(to_friend, 64, 5);
        assert_eq!(member.received(to_friend).length, 5);
        assert_eq!(member.sent(to_friend), Status::Success);
        meeting.meet(|| {
            member.nic.poll();
        });
    });
}

pub fn a_vi_connects_again_after_it_broke(wires: &Wires) {
    run(wires, |member, meeting| {
        let vi = member.plain_vi(ViAttributes::default());
        for round in 0..3 {
            member.receive(vi, 0, 8);
            member.meet(vi, round);
            member.nic.post_send(vi, Descriptor::send().immediate(round)).unwrap();
            assert_eq!(member.received(vi).immediate, Some(round));
            assert_eq!(member.sent(vi), Status::Success);
            meeting.meet(|| {
                member.nic.poll();
            });
            if member.me() == 0 {
                // Breaks it: nothing is posted over there.
                member.nic.post_send(vi, Descriptor::send().immediate(0)).unwrap();
            }
            member
                .nic
                .wait("the end", PATIENCE, |nic| matches!(nic.state(vi), Ok(ViState::Error(_))).then_some(()))
                .unwrap();
            member.nic.disconnect(vi).unwrap();
            while member.nic.send_done(vi).is_some() || member.nic.receive_done(vi).is_some() {}
            meeting.meet(|| {
                member.nic.poll();
            });
        }
    });
}
