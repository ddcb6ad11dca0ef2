//! How VIs find each other.

use barewire::via::{ConnectError, Flow, Reliability, ViState};

use crate::*;

pub fn clients_find_their_servers_by_discriminator(wires: &Wires) {
    const DOORS: u64 = 3;
    run(wires, |member, _| {
        if member.me() == 0 {
            // Served in another order than they ask.
            for door in (0..DOORS).rev() {
                let request = member.nic.connect_wait(door, PATIENCE).unwrap();
                assert_eq!((request.from, request.discriminator), (Peer(1), door));
                let vi = member.plain_vi(ViAttributes::default());
                member.receive(vi, 0, 100);
                member.nic.accept(request, vi).unwrap();
                assert_eq!(member.received(vi).immediate, Some(door));
            }
            let request = member.nic.connect_wait(99, PATIENCE).unwrap();
            member.nic.reject(request).unwrap();
            return;
        }
        let vis: Vec<Vi> = (0..DOORS).map(|_| member.plain_vi(ViAttributes::default())).collect();
        for (door, vi) in vis.iter().enumerate() {
            member.nic.connect_request(*vi, Peer(0), door as u64).unwrap();
            // What is posted meanwhile goes out when the connection stands.
            let hello = Descriptor::send().segment(member.handle, 0, 4).immediate(door as u64);
            member.nic.post_send(*vi, hello).unwrap();
        }
        for vi in vis {
            member.nic.connected(vi, PATIENCE).unwrap();
            assert_eq!((member.nic.state(vi), member.nic.peer(vi)), (Ok(ViState::Connected), Some(Peer(0))));
            assert_eq!(member.sent(vi), Status::Success);
            assert_eq!(member.nic.connect_request(vi, Peer(0), 0), Err(ConnectError::NotIdle));
        }
        let vi = member.plain_vi(ViAttributes::default());
        assert_eq!(member.nic.connect(vi, Peer(0), 99, PATIENCE), Err(ConnectError::Rejected));
        assert_eq!(member.nic.state(vi), Ok(ViState::Idle));
    });
}

pub fn concurrent_discriminators_match(wires: &Wires) {
    const PAIRS: u64 = 20;
    run(wires, |member, _| {
        let (me, other) = (u64::from(member.me()), member.other());
        let vis: Vec<Vi> = (0..PAIRS).map(|_| member.plain_vi(ViAttributes::default())).collect();
        for step in 0..PAIRS {
            // Each side goes through them in its own order.
            let at = if me == 0 { step } else { (step * 7 + 3) % PAIRS };
            member.receive(vis[at as usize], 100 * at, 100);
            member.nic.connect_peer_request(vis[at as usize], other, 1000 + at).unwrap();
            member.nic.poll();
        }
        let again = member.plain_vi(ViAttributes::default());
        member.nic.connect_peer_request(again, other, 5).unwrap();
        let twice = member.plain_vi(ViAttributes::default());
        let taken = member.nic.connect_peer_request(twice, other, 5);
        assert!(
            taken == Err(ConnectError::DiscriminatorTaken)
                || member.nic.state(again) == Ok(ViState::Connected)
        );
        for vi in &vis {
            member.nic.connected(*vi, PATIENCE).unwrap();
        }
        for (at, vi) in vis.iter().enumerate() {
            member.write(50_000 + at, &[at as u8]);
            member.send(*vi, 50_000 + at as u64, 1);
        }
        for (at, vi) in vis.iter().enumerate() {
            assert_eq!(member.received(*vi).length, 1);
            assert_eq!(member.read(100 * at, 1), [at as u8], "the VI with the same discriminator");
        }
    });
}

pub fn who_asks_for_too_much_leaves_room_for_others(wires: &Wires) {
    const MOST: usize = 2048;
    run(wires, |member, meeting| {
        if member.me() == 1 {
            let vis: Vec<Vi> = (0..MOST + 3).map(|_| member.plain_vi(ViAttributes::default())).collect();
            vis.iter().for_each(|vi| member.nic.connect_request(*vi, Peer(0), 1).unwrap());
            for vi in &vis[MOST..] {
                assert_eq!(member.nic.connected(*vi, PATIENCE), Err(ConnectError::Crowded));
            }
            meeting.meet(|| {
                member.nic.poll();
            });
            assert_eq!(member.nic.connected(vis[0], PATIENCE), Ok(()));
        } else {
            meeting.meet(|| {
                member.nic.poll();
            });
            let [own, for_own, for_theirs] = [(); 3].map(|()| member.plain_vi(ViAttributes::default()));
            member.nic.connect_request(own, Peer(0), 2).unwrap();
            let request = member.nic.connect_wait(2, PATIENCE).unwrap();
            member.nic.accept(request, for_own).unwrap();
            assert_eq!(member.nic.connected(own, PATIENCE), Ok(()), "there was room for another");
            let request = member.nic.connect_wait(1, PATIENCE).unwrap();
            member.nic.accept(request, for_theirs).unwrap();
        }
        meeting.meet(|| {
            member.nic.poll();
        });
    });
}

pub fn two_vis_of_one_nic_connect_as_equals(wires: &Wires) {
    run(wires, |member, _| {
        let me = Peer(member.me());
        let [a, b, c] = [(); 3].map(|()| member.plain_vi(ViAttributes::default()));
        // Whether the first request has arrived when the second is made, or not; and again, with their ends under way.
        for round in 0..6 {
            member.nic.connect_peer_request(a, me, 4).unwrap();
            if round % 2 == 1 {
                member.nic.poll();
                assert_eq!(member.nic.state(a), Ok(ViState::Connecting), "it does not mean itself");
            }
            member.nic.connect_peer_request(b, me, 4).unwrap();
            if round % 2 == 0 {
                let third = member.nic.connect_peer_request(c, me, 4);
                assert_eq!(third, Err(ConnectError::DiscriminatorTaken));
            }
            for vi in [a, b] {
                member.receive(vi, 100, 10);
                member.nic.connected(vi, PATIENCE).unwrap();
            }
            for (from, to) in [(a, b), (b, a)] {
                member.write(0, &[round; 3]);
                member.send(from, 0, 3);
                assert_eq!((member.sent(from), member.received(to).length), (Status::Success, 3));
                assert_eq!(member.read(100, 3), [round; 3]);
            }
            member.nic.disconnect(a).unwrap();
            member.nic.disconnect(b).unwrap();
        }
        let soon = Some(Duration::from_millis(5));
        assert_eq!(member.nic.connect_peer(a, me, 5, soon), Err(ConnectError::NoMatch));
        let other = ViAttributes { flow: Flow::Credits, ..ViAttributes::default() };
        let unlike = member.plain_vi(other);
        member.nic.connect_peer_request(a, me, 6).unwrap();
        assert_eq!(member.nic.connect_peer(unlike, me, 6, PATIENCE), Err(ConnectError::Attributes));
        assert_eq!(member.nic.connected(a, PATIENCE), Err(ConnectError::Attributes));
    });
}

pub fn a_client_and_an_equal_are_not_taken_for_each_other(wires: &Wires) {
    run(wires, |member, meeting| {
        let vi = member.plain_vi(ViAttributes::default());
        let other = member.other();
        match member.me() {
            0 => member.nic.connect_request(vi, other, 1).unwrap(),
            _ => member.nic.connect_peer_request(vi, other, 1).unwrap(),
        }
        let heard = |nic: &mut Nic| (nic.counters().packets > 0).then_some(());
        member.nic.wait("the other's", PATIENCE, heard).unwrap();
        assert_eq!(member.nic.state(vi), Ok(ViState::Connecting));
        meeting.meet(|| {
            member.nic.poll();
        });
    });
}

pub fn an_answer_to_an_earlier_request_is_not_taken(wires: &Wires) {
    run(wires, |member, meeting| {
        let vi = member.plain_vi(ViAttributes::default());
        let meet = |nic: &mut Nic| {
            meeting.meet(|| {
                nic.poll();
            })
        };
        if member.me() == 0 {
            member.nic.connect_request(vi, Peer(1), 1).unwrap();
            meet(&mut member.nic);
            member.nic.disconnect(vi).unwrap();
            member.nic.connect_request(vi, Peer(1), 2).unwrap();
            assert_eq!(member.nic.connected(vi, PATIENCE), Err(ConnectError::Rejected));
        } else {
            let first = member.nic.connect_wait(1, PATIENCE).unwrap();
            meet(&mut member.nic);
            let second = member.nic.connect_wait(2, PATIENCE).unwrap();
            // The first was taken before it was withdrawn.
            member.nic.accept(first, vi).unwrap();
            member.nic.wait("word that nobody wants it", PATIENCE, Nic::next_fault).unwrap();
            member.nic.reject(second).unwrap();
        }
    });
}

pub fn attributes_must_agree(wires: &Wires) {
    run(wires, |member, _| {
        let mine = match member.me() {
            0 => ViAttributes::default(),
            _ => ViAttributes { reliability: Reliability::Reception, ..ViAttributes::default() },
        };
        let vi = member.vi(mine);
        let other = member.other();
        assert_eq!(member.nic.connect_peer(vi, other, 1, PATIENCE), Err(ConnectError::Attributes));
        let mine = match member.me() {
            0 => ViAttributes::default(),
            _ => ViAttributes { flow: Flow::Credits, ..ViAttributes::default() },
        };
        let vi = member.vi(mine);
        if member.me() == 0 {
            let request = member.nic.connect_wait(2, PATIENCE).unwrap();
            assert_eq!(member.nic.accept(request, vi), Err(ConnectError::Attributes));
        } else {
            assert_eq!(member.nic.connect(vi, Peer(0), 2, PATIENCE), Err(ConnectError::Attributes));
        }
        assert_eq!(member.nic.state(vi), Ok(ViState::Idle));
    });
}

pub fn a_request_that_nobody_takes_is_withdrawn(wires: &Wires) {
    run(wires, |member, meeting| {
        let soon = Some(Duration::from_millis(20));
        if member.me() == 1 {
            let vi = member.plain_vi(ViAttributes::default());
            member.receive(vi, 0, 10);
            assert_eq!(member.nic.connect(vi, Peer(0), 1, soon), Err(ConnectError::NoMatch));
            assert_eq!(member.nic.connect_peer(vi, Peer(0), 2, soon), Err(ConnectError::NoMatch));
            assert_eq!(member.nic.state(vi), Ok(ViState::Idle));
            meeting.meet(|| {
                member.nic.poll();
            });
            // The VI is as good as new, and what was posted to receive still is.
            member.meet(vi, 3);
            assert_eq!(member.received(vi).length, 5);
            assert!(matches!(member.nic.connect_request(vi, Peer(77), 1), Err(ConnectError::NotIdle)));
            let nobody = member.plain_vi(ViAttributes::default());
            assert!(matches!(member.nic.connect_request(nobody, Peer(77), 1), Err(ConnectError::Send(_))));
            return;
        }
        meeting.meet(|| {
            member.nic.poll();
        });
        let vi = member.plain_vi(ViAttributes::default());
        member.meet(vi, 3);
        assert!(member.nic.connect_request_done(1).is_none(), "the request is gone");
        assert_eq!(member.nic.next_peer_request(), None, "and so is the other");
        member.send(vi, 0, 5);
    });
}
