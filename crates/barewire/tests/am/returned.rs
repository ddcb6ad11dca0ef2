//! Messages that come back, with every code.

use barewire::am::{Code, Ctx, EventMask, Memory, Tag};

use crate::*;

/// Sends what `wrong` sends from peer 1 to peer 0, whose endpoint counts what it runs. All must come back with `code`, and
/// nothing must run.
fn comes_back(
    wire: &Wire,
    code: Code,
    setup: impl Fn(&mut Member) + Sync,
    wrong: impl Fn(&mut Member) -> usize + Sync,
) {
    let turns = Meeting::new(2);
    run(2, wire, |member| {
        let bundle = member.bundle;
        member.log_messages(1);
        if member.me == 0 {
            setup(member);
        }
        turns.meet(|| {
            member.node.poll(bundle);
        });
        if member.me == 1 {
            let sent = wrong(member);
            member.wait(|log| log.returned.len() == sent);
            for (returned, ..) in &member.node.state().returned {
                assert_eq!((returned.code, returned.in_doubt), (code, 0));
            }
        }
        turns.meet(|| {
            member.node.poll(bundle);
        });
        assert_eq!(member.node.state().count, 0, "nothing ran");
    });
}

/// One message of each kind through translation `to`: what comes back must be what was sent.
fn one_of_each(member: &mut Member, to: u8, handler: u8) -> usize {
    let ep = member.ep;
    let (name, _) = member.node.translation(ep, to).unwrap();
    member.node.request(ep, to, handler, &[1, 2, 3]).unwrap();
    member.node.request_medium(ep, to, handler, &[4; 8], b"a medium message").unwrap();
    member.node.request_xfer(ep, to, handler, &[5], 6, b"in one packet").unwrap();
    member.node.request_xfer(ep, to, handler, &[7], 8, &vec![9; 200_000]).unwrap();
    member.wait(|log| log.returned.len() == 4);
    let log = member.node.state();
    let args: Vec<&[u64]> = log.returned.iter().map(|(_, args, _)| &args[..]).collect();
    assert_eq!(args, [&[1, 2, 3][..], &[4; 8], &[5], &[7]]);
    assert_eq!(log.returned[1].2, b"a medium message");
    for (returned, ..) in &log.returned {
        assert_eq!((returned.to, returned.translation, returned.handler), (name, Some(to), handler));
    }
    let places: Vec<_> = log.returned.iter().map(|(r, ..)| r.place.map(|p| (p.offset, p.len))).collect();
    assert_eq!(places, [None, None, Some((6, 13)), Some((8, 200_000))]);
    4
}

pub fn bad_tag(wire: &Wire) {
    let change = |member: &mut Member| member.node.set_tag(member.ep, Tag(1)).unwrap();
    comes_back(wire, Code::BadTag, change, |member| one_of_each(member, 0, 1));
}

pub fn bad_handler(wire: &Wire) {
    let seg = |member: &mut Member| member.node.set_seg(member.ep, Memory::private(1 << 20)).unwrap();
    comes_back(wire, Code::BadHandler, seg, |member| one_of_each(member, 0, 77));
}

pub fn bad_endpoint(wire: &Wire) {
    let nothing = |_: &mut Member| {};
    let to_nobody = |member: &mut Member| {
        let name = Name { peer: Peer(0), index: 4321 };
        member.node.map(member.ep, 20, name, TAG).unwrap();
        one_of_each(member, 20, 1)
    };
    comes_back(wire, Code::BadEndpoint, nothing, to_nobody);
    let free = |member: &mut Member| member.node.free_endpoint(member.ep).unwrap();
    comes_back(wire, Code::BadEndpoint, free, |member| one_of_each(member, 0, 1));
    let no_peer = |member: &mut Member| {
        member.node.map(member.ep, 20, Name { peer: Peer(99), index: 0 }, TAG).unwrap();
        one_of_each(member, 20, 1)
    };
    comes_back(wire, Code::BadEndpoint, nothing, no_peer);
}

pub fn bad_segment_offset(wire: &Wire) {
    let send = |member: &mut Member| {
        let ep = member.ep;
        member.node.request_xfer(ep, 0, 1, &[], 101, b"").unwrap();
        member.node.request_xfer(ep, 0, 1, &[], u64::MAX, b"x").unwrap();
        member.node.request_xfer(ep, 0, 1, &[], 101, &vec![0; 100_000]).unwrap();
        3
    };
    comes_back(wire, Code::BadSegmentOffset, |_| {}, send);
    let seg = |member: &mut Member| member.node.set_seg(member.ep, Memory::private(100)).unwrap();
    comes_back(wire, Code::BadSegmentOffset, seg, send);
}

pub fn bad_length(wire: &Wire) {
    let memory = Memory::private(100);
    let seg = |member: &mut Member| member.node.set_seg(member.ep, memory.clone()).unwrap();
    let send = |member: &mut Member| {
        let ep = member.ep;
        member.node.request_xfer(ep, 0, 1, &[], 100, b"x").unwrap();
        member.node.request_xfer(ep, 0, 1, &[], 1, &vec![1; 100]).unwrap();
        member.node.request_xfer(ep, 0, 1, &[], 0, &vec![1; 100_000]).unwrap();
        3
    };
    comes_back(wire, Code::BadLength, seg, send);
    let mut all = [1; 100];
    assert!(memory.read(0, &mut all));
    assert_eq!(all, [0; 100], "nothing was touched");
}

pub fn congestion(wire: &Wire) {
    // The receiver expects two requests of one endpoint and polls another bundle.
    let turns = Meeting::new(2);
    run(2, wire, |member| {
        let ep = member.ep;
        member.log_messages(1);
        let elsewhere = member.node.allocate_bundle().unwrap();
        if member.me == 0 {
            member.node.set_expected_resources(ep, 1, 2).unwrap();
            turns.meet(|| {
                member.node.poll(elsewhere);
            });
            assert_eq!(member.node.state().count, 0);
            member.wait(|log| log.count == 2);
            assert_eq!(member.node.state().got, [[0], [1]]);
        } else {
            (0..5).for_each(|number| member.request(0, 1, &[number]));
            member.wait(|log| log.returned.len() == 3);
            let log = member.node.state();
            assert!(log.returned.iter().all(|(returned, ..)| returned.code == Code::Congestion));
            let back: Vec<u64> = log.returned.iter().map(|(_, args, _)| args[0]).collect();
            assert_eq!(back, [2, 3, 4]);
            turns.meet(|| {
                member.node.poll(elsewhere);
            });
        }
    });
}

/// Peer 0 leaves when `left` says so; peer 1 runs `body`.
fn with_leaver(wire: &Wire, body: impl Fn(&mut Member, &Meeting) + Sync) {
    let turns = Meeting::new(2);
    run_cores(2, wire, |core| {
        let mut member = Member::new(core, wire);
        member.log_messages(1);
        member.node.set_seg(member.ep, Memory::private(1 << 20)).unwrap();
        if member.me == 0 {
            member.wait(|log| log.count == 1);
            // Looks away from now on, and leaves.
            turns.meet(|| {});
            turns.meet(|| {});
            drop(member);
            turns.meet(|| {});
        } else {
            member.request(0, 1, &[0]);
            body(&mut member, &turns);
        }
    });
}

pub fn unreachable_after_the_peer_left(wire: &Wire) {
    with_leaver(wire, |member, turns| {
        let (ep, bundle) = (member.ep, member.bundle);
        turns.meet(|| {
            member.node.poll(bundle);
        });
        turns.meet(|| {});
        turns.meet(|| {});
        // The first request was handled, but its acknowledgement not asked for.
        member.wait(|log| log.returned.len() == 1);
        assert_eq!(member.node.state().returned[0].0.in_doubt, 1);
        assert!(member.node.core().is_gone(Peer(0)));
        member.node.state_mut().returned.clear();
        one_of_each(member, 0, 1);
        assert!(
            member.node.state().returned.iter().all(|(r, ..)| r.code == Code::Unreachable && r.in_doubt == 0)
        );
        let memory = Memory::private(100_000);
        member.node.request_xfer_async(ep, 0, 1, &[3], 5, (&memory, 0..100_000)).unwrap();
        member.wait(|log| log.returned.len() == 5);
        let (returned, args, _) = &member.node.state().returned[4];
        assert_eq!(
            (returned.code, returned.place.unwrap().len, &args[..]),
            (Code::Unreachable, 100_000, &[3][..])
        );
        assert_eq!((member.node.is_sending(ep, 0), member.node.outstanding(ep, 0)), (Ok(false), Ok(0)));
    });
}

pub fn unreachable_while_requests_are_outstanding(wire: &Wire) {
    with_leaver(wire, |member, turns| {
        let bundle = member.bundle;
        turns.meet(|| {
            member.node.poll(bundle);
        });
        (0..5).for_each(|number| member.request(0, 1, &[number]));
        turns.meet(|| {});
        turns.meet(|| {});
        member.wait(|log| !log.returned.is_empty());
        let (returned, args, _) = &member.node.state().returned[0];
        assert_eq!((returned.code, returned.translation, &args[..]), (Code::Unreachable, Some(0), &[][..]));
        assert!((5..=6).contains(&returned.in_doubt), "{returned:?}");
        assert_eq!(member.node.outstanding(member.ep, 0), Ok(0));
    });
}

pub fn an_unwanted_reply_comes_back_to_the_replier(wire: &Wire) {
    run(2, wire, |member| {
        let ep = member.ep;
        if member.me == 0 {
            // Handler 9 is not there at the requester; nor is a segment.
            let reply = |ctx: &mut Ctx<'_, Log>, args: &[u64]| {
                let replied = match args[0] {
                    0 => ctx.reply(9, &[1, 2]),
                    1 => ctx.reply_medium(9, &[3], b"hello"),
                    2 => ctx.reply_xfer(1, &[4], 7, b"data"),
                    _ => ctx.reply_xfer(1, &[5], 7, &vec![0; 90_000]),
                };
                replied.unwrap();
            };
            member.node.set_handler(ep, 1, reply).unwrap();
            member.wait(|log| log.returned.len() == 4);
            let log = member.node.state();
            let back: Vec<_> = log
                .returned
                .iter()
                .map(|(r, args, data)| (r.code, r.translation, r.handler, &args[..], &data[..]))
                .collect();
            assert_eq!(back[0], (Code::BadHandler, None, 9, &[1, 2][..], &b""[..]));
            assert_eq!(back[1], (Code::BadHandler, None, 9, &[3][..], &b"hello"[..]));
            assert_eq!(back[2], (Code::BadSegmentOffset, None, 1, &[4][..], &b""[..]));
            assert_eq!(back[3], (Code::BadSegmentOffset, None, 1, &[5][..], &b""[..]));
        } else {
            member.log_messages(1);
            (0..4).for_each(|number| member.request(0, 1, &[number]));
        }
    });
}

pub fn unwanted_replies_give_their_credit_back(wire: &Wire) {
    run(2, wire, |member| {
        let (ep, other) = (member.ep, member.other());
        member.node.set_handler(ep, 1, |ctx, _| ctx.reply(200, &[]).unwrap()).unwrap();
        member.log_messages(2);
        for _ in 0..100 {
            member.request(other, 1, &[]);
        }
        member.wait(|log| log.returned.len() == 100);
        member.request(other, 2, &[]);
        member.wait(|log| log.count == 1);
    });
}

pub fn messages_that_wait_for_a_freed_endpoint_come_back(wire: &Wire) {
    let turns = Meeting::new(2);
    run(2, wire, |member| {
        let (ep, bundle) = (member.ep, member.bundle);
        let elsewhere = member.node.allocate_bundle().unwrap();
        member.log_messages(1);
        if member.me == 0 {
            member.node.move_endpoint(ep, elsewhere).unwrap();
            member.node.set_event_mask(elsewhere, EventMask::NotEmpty).unwrap();
            member.node.wait_sema(elsewhere, PATIENCE).unwrap();
            member.node.free_endpoint(ep).unwrap();
        } else {
            member.request(0, 1, &[7]);
            member.wait(|log| log.returned.len() == 1);
            let (returned, args, _) = &member.node.state().returned[0];
            assert_eq!((returned.code, &args[..]), (Code::BadEndpoint, &[7][..]));
            assert_eq!(member.node.outstanding(ep, 0), Ok(0));
        }
        turns.meet(|| {
            member.node.poll(bundle);
        });
        assert_eq!(member.node.state().count, 0);
    });
}

pub fn returned_messages_give_their_credit_back(wire: &Wire) {
    run(2, wire, |member| {
        let (ep, other) = (member.ep, member.other());
        member.node.set_expected_resources(ep, 4, 2).unwrap();
        for number in 0..100 {
            member.request(other, 200, &[number]);
        }
        member.wait(|log| log.returned.len() == 100);
        assert_eq!(member.node.outstanding(ep, other), Ok(0));
    });
}
