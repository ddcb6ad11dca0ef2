//! Bulk transfers.

use barewire::am::{Code, Ctx, Memory, RequestError, TableError, Tag};

use crate::*;

const LENGTHS: [usize; 9] = [0, 1, 47, 4096, 8192, 32 << 10, (32 << 10) - 16, (32 << 10) + 1, 1_000_003];

/// Handler `index` writes down what lies in its place when it runs.
fn log_places(member: &mut Member, index: u8) {
    let look = |ctx: &mut Ctx<'_, Log>, args: &[u64]| {
        let place = ctx.place().unwrap();
        let mut data = vec![0; place.len as usize];
        assert!(ctx.segment().unwrap().read(place.offset as usize, &mut data));
        ctx.state.data.push(data);
        ctx.state.got.push([&[place.offset], args].concat());
    };
    member.node.set_handler(member.ep, index, look).unwrap();
    member.node.set_seg(member.ep, Memory::shared(8 << 20).unwrap()).unwrap();
}

/// Where transfer `number` goes, each to a place of its own: data may be put into place before earlier handlers have run.
fn place_of(number: usize) -> u64 {
    let lengths = (0..number).map(|number| LENGTHS[number % LENGTHS.len()] + 1);
    lengths.sum::<usize>() as u64
}

pub fn data_is_in_place_before_the_handler_runs(wire: &Wire) {
    run(2, wire, |member| {
        log_places(member, 1);
        let (ep, other) = (member.ep, member.other());
        for (i, len) in LENGTHS.into_iter().enumerate() {
            let (places, data) = ([place_of(i), place_of(i + LENGTHS.len())], pattern(len, i as u64));
            let i = i as u64;
            member.node.request_xfer(ep, other, 1, &[i, 1], places[0], &data).unwrap();
            let memory = Memory::private(len + 10);
            assert!(memory.write(10, &data));
            member.node.request_xfer(ep, other, 1, &[i; 8], places[1], (&memory, 10..len + 10)).unwrap();
            let outside = member.node.request_xfer(ep, other, 1, &[], i, (&memory, 10..len + 11));
            assert_eq!(outside, Err(RequestError::SourceRange));
        }
        member.wait(|log| log.data.len() == 2 * LENGTHS.len());
        for (i, len) in LENGTHS.into_iter().enumerate() {
            let log = member.node.state();
            let i64 = i as u64;
            assert_eq!(log.got[2 * i], [place_of(i), i64, 1]);
            let second = [&[place_of(i + LENGTHS.len())][..], &[i64; 8]].concat();
            assert_eq!(log.got[2 * i + 1], second);
            assert!(log.data[2 * i] == pattern(len, i64) && log.data[2 * i + 1] == pattern(len, i64));
        }
    });
}

pub fn replies_put_data_into_the_requesters_segment(wire: &Wire) {
    run(2, wire, |member| {
        log_places(member, 2);
        let give = |ctx: &mut Ctx<'_, Log>, args: &[u64]| {
            let (len, data) = (args[0] as usize, pattern(args[0] as usize, args[1]));
            let place = place_of(args[1] as usize);
            if args[1] % 2 == 0 {
                ctx.reply_xfer(2, &[args[1]], place, &data).unwrap();
            } else {
                let memory = Memory::private(len);
                assert!(memory.write(0, &data));
                ctx.reply_xfer(2, &[args[1]], place, (&memory, 0..len)).unwrap();
            }
        };
        member.node.set_handler(member.ep, 1, give).unwrap();
        // A short reply behind long ones must not overtake them.
        member.node.set_handler(member.ep, 3, |ctx, args| ctx.reply(4, args).unwrap()).unwrap();
        member.node.set_handler(member.ep, 4, |ctx, args| ctx.state.got.push(args.to_vec())).unwrap();
        let other = member.other();
        for (i, len) in LENGTHS.into_iter().enumerate() {
            member.request(other, 1, &[len as u64, i as u64]);
            member.request(other, 3, &[99, i as u64]);
        }
        member.wait(|log| log.got.len() == 2 * LENGTHS.len());
        for (i, len) in LENGTHS.into_iter().enumerate() {
            let log = member.node.state();
            assert_eq!(log.got[2 * i], [place_of(i), i as u64]);
            assert_eq!(log.got[2 * i + 1], [99, i as u64]);
            assert!(log.data[i] == pattern(len, i as u64), "length {len}");
        }
    });
}

pub fn an_asynchronous_transfer_refuses_instead_of_waiting(wire: &Wire) {
    // More than any wire takes before its receiver looks.
    const LEN: usize = 8_000_000;
    let turns = Meeting::new(2);
    run(2, wire, |member| {
        log_places(member, 1);
        let (ep, bundle) = (member.ep, member.bundle);
        if member.me == 0 {
            // Looks away until the other has filled the wire.
            turns.meet(|| {});
            member.wait(|log| log.data.len() == 2);
            assert!(member.node.state().data.iter().all(|data| *data == pattern(LEN, 5)));
            return;
        }
        member.node.set_expected_resources(ep, 1, 1).unwrap();
        let memory = Memory::private(LEN);
        assert!(memory.write(0, &pattern(LEN, 5)));
        let send = |member: &mut Member| member.node.request_xfer_async(ep, 0, 1, &[], 0, (&memory, 0..LEN));
        send(member).unwrap();
        assert_eq!(member.node.is_sending(ep, 0), Ok(true));
        assert_eq!(send(member), Err(RequestError::WouldBlock));
        assert_eq!(member.node.unmap(ep, 0), Err(TableError::Busy(0)));
        turns.meet(|| {});
        while member.node.is_sending(ep, 0).unwrap() {
            member.node.poll(bundle);
        }
        // The wire has it, but its handler may not have run: there is one credit only.
        while send(member) == Err(RequestError::WouldBlock) {
            member.node.poll(bundle);
        }
        while member.node.is_sending(ep, 0).unwrap() || member.node.outstanding(ep, 0).unwrap() > 0 {
            member.node.poll(bundle);
        }
    });
}

pub fn nothing_overtakes_a_transfer(wire: &Wire) {
    const LEN: usize = 300_000;
    run(2, wire, |member| {
        log_places(member, 1);
        member.node.set_handler(member.ep, 2, |ctx, args| ctx.state.got.push(args.to_vec())).unwrap();
        let (ep, other) = (member.ep, member.other());
        let memory = Memory::private(LEN);
        for round in 0..5 {
            member.request(other, 2, &[0, round]);
            let sent = member.node.request_xfer_async(ep, other, 1, &[round], 1, (&memory, 0..LEN));
            if sent.is_err() {
                member.node.request_xfer(ep, other, 1, &[round], 1, (&memory, 0..LEN)).unwrap();
            }
            member.request(other, 2, &[2, round]);
        }
        member.wait(|log| log.got.len() == 15);
        let want: Vec<[u64; 2]> = (0..5).flat_map(|round| [[0, round], [1, round], [2, round]]).collect();
        assert_eq!(member.node.state().got, want);
    });
}

pub fn bulk_both_ways_ends_at_credit_one(wire: &Wire) {
    run(3, wire, |member| {
        log_places(member, 1);
        let ep = member.ep;
        member.node.set_expected_resources(ep, 8, 1).unwrap();
        let data = pattern(100_000, 1);
        for round in 0..20 {
            for to in 0..3 {
                member.node.request_xfer(ep, to, 1, &[round], 5 * u64::from(to), &data).unwrap();
            }
        }
        member.wait(|log| log.got.len() == 60);
        assert!(member.node.state().data.iter().all(|got| *got == data));
    });
}

pub fn changing_the_tag_stops_a_transfer_in_the_middle(wire: &Wire) {
    // Half of it is the most that one poll takes from shared memory.
    const LEN: usize = 4 << 20;
    let turns = Meeting::new(2);
    run(2, wire, |member| {
        log_places(member, 1);
        let (ep, bundle) = (member.ep, member.bundle);
        let segment = member.node.seg(ep).unwrap().unwrap().clone();
        if member.me == 0 {
            let mut first = [0];
            while first[0] == 0 {
                member.node.poll(bundle);
                assert!(segment.read(0, &mut first));
            }
            member.node.set_tag(ep, Tag(1)).unwrap();
            turns.meet(|| {
                member.node.poll(bundle);
            });
            let mut last = [0];
            assert!(segment.read(LEN - 1, &mut last));
            assert_eq!(last, [0], "what came later was not put into place");
            assert!(member.node.state().got.is_empty());
        } else {
            member.node.request_xfer(ep, 0, 1, &[7], 0, &vec![9; LEN]).unwrap();
            member.wait(|log| log.returned.len() == 1);
            let (returned, args, _) = &member.node.state().returned[0];
            assert_eq!((returned.code, returned.place.unwrap().len), (Code::BadTag, LEN as u64));
            assert_eq!(args, &[7]);
            turns.meet(|| {
                member.node.poll(bundle);
            });
        }
    });
}

pub fn a_transfer_that_ends_early_runs_nothing_and_costs_its_sender_the_link(wire: &Wire) {
    const VICTIM: u32 = 1;
    // By rank, what a liar sends: some of the head, all of it, and some of the data.
    const LIARS: [(u32, usize); 3] = [(0, 4), (2, 16), (3, 16 + 84)];
    let (lost, done) = (Meeting::new(2), Meeting::new(5));
    run_cores(5, wire, |mut core| {
        if let Some((_, sent)) = LIARS.into_iter().find(|&(rank, _)| core.me() == Peer(rank)) {
            let bytes = [&TAG.0.to_le_bytes()[..], &[0; 8], &[9; 84]].concat();
            end_early(&mut core, &bytes[..sent], 16 + 1000);
            done.meet(|| {
                core.progress(&mut Ignore, usize::MAX);
            });
            return;
        }
        let mut member = Member::new(core, wire);
        member.log_messages(1);
        member.node.set_seg(member.ep, Memory::private(4096)).unwrap();
        let bundle = member.bundle;
        if member.me == VICTIM {
            // Never answered: they come back when the link is lost.
            LIARS.iter().for_each(|&(rank, _)| member.request(rank as u8, 1, &[]));
            member.wait(|log| log.returned.len() == LIARS.len() || log.count > 0);
            assert_eq!(member.node.state().count, 0, "a handler ran without its data");
            let unreachable = |(returned, ..): &(Returned, _, _)| returned.code == Code::Unreachable;
            assert!(member.node.state().returned.iter().all(unreachable));
        }
        lost.meet(|| {
            member.node.poll(bundle);
        });
        if member.me == VICTIM {
            member.wait(|log| log.got == [[7]]);
        } else {
            member.node.request_xfer(member.ep, VICTIM as u8, 1, &[7], 0, &[8; 100]).unwrap();
        }
        done.meet(|| {
            member.node.poll(bundle);
        });
    });
}

/// Announces a transfer of `total` bytes to handler 1 of the first endpoint at peer 1, sends fewer and says that this was all.
fn end_early(core: &mut Endpoint, bytes: &[u8], total: u64) {
    let mut sending = core.begin(Peer(1), Port(0xA400), 1 << 24, total).unwrap();
    while sending.sent() < bytes.len() as u64 {
        let at = sending.sent() as usize;
        let _ = core.push(&mut sending, &bytes[at..]);
        core.progress(&mut Ignore, usize::MAX);
    }
    while core.end(&mut sending) == Err(SendError::Full) {
        core.progress(&mut Ignore, usize::MAX);
    }
}
