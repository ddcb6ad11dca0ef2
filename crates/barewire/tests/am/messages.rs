//! Short and medium messages, and the rules of request and reply.

use barewire::am::{Node, ReplyError, RequestError, Tag};
use barewire::core::{Endpoint, Flow, Incoming, Peer, Port};

use crate::*;

pub fn each_message_runs_its_handler_once_and_in_order(wire: &Wire) {
    let each = wire.wires.times(1000);
    run(3, wire, |member| {
        // A request carries its number and is replied to with it.
        member.log_messages(2);
        let tell = |ctx: &mut barewire::am::Ctx<'_, Log>, args: &[u64]| {
            ctx.state.data.push(vec![ctx.source().peer.0 as u8]);
            ctx.state.got.push(vec![1, u64::from(ctx.source().peer.0), args[0]]);
            ctx.reply(2, &[2, u64::from(ctx.endpoint().index()), args[0], args[1]]).unwrap();
        };
        member.node.set_handler(member.ep, 1, tell).unwrap();
        for number in 0..each {
            for to in 0..3 {
                member.request(to, 1, &[number, u64::from(to)]);
            }
        }
        member.wait(|log| log.got.len() as u64 == 6 * each);
        for peer in 0..3 {
            let numbers = |kind, from: usize, number: usize| {
                let of = |args: &&Vec<u64>| args[0] == kind && args[from] == peer;
                member.node.state().got.iter().filter(of).map(|args| args[number]).collect::<Vec<_>>()
            };
            let all: Vec<u64> = (0..each).collect();
            assert_eq!(numbers(1, 1, 2), all, "requests from {peer}");
            assert_eq!(numbers(2, 3, 2), all, "replies from {peer}");
        }
    });
}

pub fn eight_arguments_arrive_and_nine_are_refused(wire: &Wire) {
    run(2, wire, |member| {
        member.log_messages(1);
        let all = [1, u64::MAX, 3, 4, 5, 6, 7, 8, 9];
        let other = member.other();
        for count in 0..=8 {
            member.request(other, 1, &all[..count]);
        }
        assert_eq!(member.node.request(member.ep, other, 1, &all), Err(RequestError::TooManyArgs(9)));
        member.wait(|log| log.got.len() == 9);
        for count in 0..=8 {
            assert_eq!(member.node.state().got[count], all[..count]);
        }
    });
}

pub fn medium_messages_carry_from_nothing_to_a_packet(wire: &Wire) {
    run(2, wire, |member| {
        member.log_messages(2);
        let echo = |ctx: &mut barewire::am::Ctx<'_, Log>, args: &[u64]| {
            let mut data = vec![0; ctx.remaining()];
            // In two goes, to see that reading goes on where it stopped.
            let half = data.len() / 2;
            assert_eq!(ctx.read(&mut data[..half]), half);
            assert_eq!(ctx.read(&mut data[half..]), data.len() - half);
            assert_eq!(ctx.read(&mut [0]), 0);
            ctx.reply_medium(2, args, &data).unwrap();
        };
        member.node.set_handler(member.ep, 1, echo).unwrap();
        let (ep, other) = (member.ep, member.other());
        // How much a packet holds is known for certain once there is a wire.
        member.node.request_medium(ep, other, 1, &[], &[]).unwrap();
        member.wait(|log| log.got.len() == 1);
        let max = member.node.medium_max(ep, other).unwrap();
        assert!(max >= 512);
        let lengths = [0, 1, 7, 8, 40, 512, 3000, 4096, max].map(|len: usize| len.min(max));
        for (i, len) in lengths.into_iter().enumerate() {
            member.node.request_medium(ep, other, 1, &[i as u64; 8], &pattern(len, i as u64)).unwrap();
        }
        let long = member.node.request_medium(ep, other, 1, &[], &vec![0; max + 1]);
        assert_eq!(long, Err(RequestError::TooLong { len: max + 1, max }));
        member.wait(|log| log.got.len() == lengths.len() + 1);
        for (i, len) in lengths.into_iter().enumerate() {
            assert_eq!(member.node.state().got[i + 1], [i as u64; 8]);
            assert_eq!(member.node.state().data[i + 1], pattern(len, i as u64));
        }
    });
}

pub fn a_handler_knows_source_tag_and_endpoint(wire: &Wire) {
    run(2, wire, |member| {
        let (me, other) = (member.me, member.other());
        let node = &mut member.node;
        let second = node.allocate_endpoint(member.bundle).unwrap();
        node.set_tag(second, Tag::ALL).unwrap();
        node.map(second, 9, Name { peer: Peer(1 - me), index: second.index() }, Tag(1234)).unwrap();
        let note = |ctx: &mut barewire::am::Ctx<'_, Log>, args: &[u64]| {
            let seen = vec![ctx.source().to_bits(), ctx.tag().0, u64::from(ctx.endpoint().index())];
            ctx.state.got.push(seen);
            if args[0] == 0 {
                ctx.reply(1, &[1]).unwrap();
            }
        };
        node.set_handler(second, 1, note).unwrap();
        let meeting = node.name(second);
        node.request(second, 9, 1, &[0]).unwrap();
        member.wait(|log| log.got.len() == 2);
        let source = Name { peer: Peer(u32::from(other)), index: meeting.index };
        let seen = vec![source.to_bits(), 1234, u64::from(second.index())];
        assert_eq!(member.node.state().got, [seen.clone(), seen]);
    });
}

pub fn a_reply_handler_may_neither_request_nor_reply(wire: &Wire) {
    run(2, wire, |member| {
        let (ep, other) = (member.ep, member.other());
        member.node.set_handler(ep, 1, |ctx, _| ctx.reply(2, &[]).unwrap()).unwrap();
        let in_reply = move |ctx: &mut barewire::am::Ctx<'_, Log>, _: &[u64]| {
            assert_eq!(ctx.request(other, 3, &[]), Err(RequestError::FromReply));
            assert_eq!(ctx.reply(3, &[]), Err(ReplyError::NotARequest));
            assert_eq!(ctx.reply_medium(3, &[], b"x"), Err(ReplyError::NotARequest));
            assert_eq!(ctx.reply_xfer(3, &[], 0, b"x"), Err(ReplyError::NotARequest));
            ctx.state.count += 1;
        };
        member.node.set_handler(ep, 2, in_reply).unwrap();
        member.log_messages(3);
        member.request(other, 1, &[]);
        member.wait(|log| log.count == 1);
        assert!(member.node.state().got.is_empty(), "nothing of it was sent");
    });
}

pub fn a_request_is_replied_to_once(wire: &Wire) {
    run(2, wire, |member| {
        let (ep, other) = (member.ep, member.other());
        let reply = |ctx: &mut barewire::am::Ctx<'_, Log>, _: &[u64]| {
            assert_eq!(ctx.reply(0, &[]), Err(ReplyError::ReservedHandler));
            assert_eq!(ctx.reply(2, &[0; 9]), Err(ReplyError::TooManyArgs(9)));
            ctx.reply(2, &[7]).unwrap();
            assert_eq!(ctx.reply(2, &[8]), Err(ReplyError::Twice));
            assert_eq!(ctx.reply_medium(2, &[8], b"x"), Err(ReplyError::Twice));
            assert_eq!(ctx.reply_xfer(2, &[8], 0, b"x"), Err(ReplyError::Twice));
        };
        member.node.set_handler(ep, 1, reply).unwrap();
        member.log_messages(2);
        member.request(other, 1, &[]);
        member.request(other, 1, &[]);
        member.wait(|log| log.got.len() == 2);
        assert_eq!(member.node.state().got, [[7], [7]]);
    });
}

pub fn a_storm_both_ways_ends_at_any_credit(wire: &Wire) {
    let each = wire.wires.times(1500);
    for (size, credit) in [(2, 1), (2, 2), (3, 1), (2, 64), (2, 1000)] {
        run(size, wire, |member| {
            let (ep, me) = (member.ep, member.me);
            member.node.set_expected_resources(ep, 8, credit).unwrap();
            // Half of the requests are replied to, the others only acknowledged.
            let serve = |ctx: &mut barewire::am::Ctx<'_, Log>, args: &[u64]| {
                ctx.state.count += 1;
                if args[0] % 2 == 0 {
                    ctx.reply(2, &[args[0]; 6]).unwrap();
                }
            };
            member.node.set_handler(ep, 1, serve).unwrap();
            member.node.set_handler(ep, 2, |ctx, _| ctx.state.count += 1).unwrap();
            for number in 0..each {
                for to in (0..size).filter(|&to| to != me) {
                    member.request(to as u8, 1, &[number; 7]);
                    assert!(member.node.outstanding(ep, to as u8).unwrap() <= credit);
                }
            }
            let expect = u64::from(size - 1) * (each + each.div_ceil(2));
            member.wait(|log| log.count == expect);
        });
    }
}

pub fn a_request_handler_may_request_but_never_waits(wire: &Wire) {
    run(2, wire, |member| {
        let (ep, other) = (member.ep, member.other());
        member.node.set_expected_resources(ep, 1, 3).unwrap();
        // Passes a number on until credit ends: inside of one handler none of it comes back.
        let pass_on = move |ctx: &mut barewire::am::Ctx<'_, Log>, _: &[u64]| {
            let sent = (0..10).map_while(|i| ctx.request(other, 2, &[i]).ok()).count();
            assert_eq!(ctx.request(other, 2, &[]), Err(RequestError::WouldBlock));
            assert_eq!(sent, 3);
            ctx.state.count += 100;
        };
        if member.me == 0 {
            member.node.set_handler(ep, 1, pass_on).unwrap();
            member.wait(|log| log.count == 100);
        } else {
            member.log_messages(2);
            member.request(0, 1, &[]);
            member.wait(|log| log.count == 3);
        }
    });
}

pub fn changing_a_tag_revokes_old_senders(wire: &Wire) {
    let turns = Meeting::new(2);
    run(2, wire, |member| {
        let (ep, bundle) = (member.ep, member.bundle);
        member.log_messages(1);
        if member.me == 0 {
            member.wait(|log| log.count == 1);
            member.node.set_tag(ep, Tag(555)).unwrap();
            turns.meet(|| {
                member.node.poll(bundle);
            });
            member.wait(|log| log.count == 2);
            assert_eq!(member.node.state().got, [[1], [3]]);
        } else {
            member.request(0, 1, &[1]);
            turns.meet(|| {
                member.node.poll(bundle);
            });
            member.request(0, 1, &[2]);
            member.wait(|log| log.returned.len() == 1);
            assert_eq!(member.node.state().returned[0].0.code, barewire::am::Code::BadTag);
            let (name, _) = member.node.translation(ep, 0).unwrap();
            member.node.unmap(ep, 0).unwrap();
            assert_eq!(member.node.request(ep, 0, 1, &[]), Err(RequestError::NotMapped(0)));
            member.node.map(ep, 0, name, Tag(555)).unwrap();
            member.request(0, 1, &[3]);
        }
    });
}

pub fn a_new_endpoint_accepts_nothing_and_all_accepts_everything(wire: &Wire) {
    run(2, wire, |member| {
        let (node, peer) = (&mut member.node, Peer(1 - member.me));
        let new = node.allocate_endpoint(member.bundle).unwrap();
        let open = node.allocate_endpoint(member.bundle).unwrap();
        assert_eq!(node.tag(new), Ok(Tag::NONE));
        node.set_tag(open, Tag::ALL).unwrap();
        for ep in [new, open] {
            node.set_handler(ep, 1, |ctx, args| ctx.state.got.push(args.to_vec())).unwrap();
        }
        let tags = [Tag::NONE, Tag::ALL, Tag(1)];
        for (i, tag) in tags.into_iter().enumerate() {
            let slot = 100 + 2 * i as u8;
            node.map(member.ep, slot, Name { peer, index: new.index() }, tag).unwrap();
            node.map(member.ep, slot + 1, Name { peer, index: open.index() }, tag).unwrap();
            node.request(member.ep, slot, 1, &[u64::from(slot)]).unwrap();
            node.request(member.ep, slot + 1, 1, &[u64::from(slot + 1)]).unwrap();
        }
        member.wait(|log| log.got.len() + log.returned.len() == 6);
        assert_eq!(member.node.state().got, [[101], [103], [105]]);
        let back: Vec<u64> = member.node.state().returned.iter().map(|r| r.1[0]).collect();
        assert_eq!(back, [100, 102, 104]);
    });
}

pub fn all_handlers_and_translations_can_be_used(wire: &Wire) {
    run(2, wire, |member| {
        let (node, ep, peer) = (&mut member.node, member.ep, Peer(1 - member.me));
        for index in 1..=255u8 {
            let note = move |ctx: &mut barewire::am::Ctx<'_, Log>, args: &[u64]| {
                assert_eq!(args, [u64::from(index)]);
                ctx.state.count += 1;
            };
            node.set_handler(ep, index, note).unwrap();
        }
        let name = Name { peer, ..node.name(ep) };
        for index in 2..=255 {
            assert_eq!(node.map_any(ep, name, TAG), Ok(index));
        }
        assert!(node.map_any(ep, name, TAG).is_err() && node.set_handler_any(ep, |_, _| {}).is_err());
        assert_eq!(node.request(ep, 2, 0, &[]), Err(RequestError::ReservedHandler));
        for index in 2..=255u8 {
            node.request(ep, index, index, &[u64::from(index)]).unwrap();
        }
        member.wait(|log| log.count == 254);
    });
}

pub fn nonsense_from_a_peer_is_dropped(wire: &Wire) {
    let done = Meeting::new(2);
    run_cores(2, wire, |mut core| {
        if core.me() == Peer(0) {
            let mut drop_all = |_: &mut Endpoint, _: Incoming<'_>| Flow::Continue;
            let mut random = numbers();
            for round in 0..4000u64 {
                // Half of them look like active messages to an endpoint that exists.
                let mark = if random() % 2 == 0 { 0xA000 } else { 0 };
                let port = Port(mark | random() as u16 & 0xfff);
                let imm = if round % 3 == 0 { random() } else { random() & 0xffff_ffff_ffff };
                let bytes: Vec<u8> = (0..random() % 120).map(|_| random() as u8).collect();
                let long = random() % 4 == 0;
                shove(&mut core, port, imm, &bytes, long);
            }
            // After all that, an honest message still gets through: it leads to an honest answer.
            while core.send(Peer(1), Port(0xA080), 1 << 24 | 0xffff, &TAG.0.to_le_bytes()).is_err() {
                core.progress(&mut drop_all, usize::MAX);
            }
            let answers = std::cell::Cell::new(0);
            let mut count = |_: &mut Endpoint, packet: Incoming<'_>| {
                let is_answer = packet.port == Port(0xA600) && packet.imm & 0xffff == 0xffff;
                answers.set(answers.get() + u32::from(is_answer));
                Flow::Continue
            };
            core.wait(&mut count, PATIENCE, |_, _| answers.get() == 1).unwrap();
            done.meet(|| {
                core.progress(&mut count, usize::MAX);
            });
            assert_eq!(answers.get(), 1);
        } else {
            let mut node = Node::new(core, 0);
            let bundle = node.allocate_bundle().unwrap();
            let ep = node.allocate_endpoint(bundle).unwrap();
            node.set_tag(ep, TAG).unwrap();
            node.set_seg(ep, barewire::am::Memory::private(100)).unwrap();
            node.set_handler(ep, 1, |ctx, _| *ctx.state += 1).unwrap();
            node.map(ep, 0, node.name(ep), TAG).unwrap();
            node.wait(bundle, PATIENCE, |count| *count == 1).unwrap();
            assert!(node.dropped() > 1000);
            done.meet(|| {
                node.poll(bundle);
            });
        }
    });
}
