//! What holds for active messages over virtual interfaces alone: the numbers of the paper.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use barewire::am::{Code, Ctx, Memory, RequestError, Tag};
use barewire::core::{Ignore, Port};

use crate::*;

pub fn bulk_data_is_written_by_rdma_and_sources_stay_registered(wire: &Wire) {
    const ROUNDS: u64 = 10;
    const LEN: usize = 200_000;
    let turns = Meeting::new(2);
    run(2, wire, |member| {
        let (ep, bundle, other) = (member.ep, member.bundle, member.other());
        member.node.set_seg(ep, Memory::shared(LEN).unwrap()).unwrap();
        let count = |ctx: &mut Ctx<'_, Log>, args: &[u64]| {
            let mut last = [0];
            assert!(ctx.segment().unwrap().read(LEN - 1, &mut last));
            assert_eq!(u64::from(last[0]), args[0] % 256);
            ctx.state.count += 1;
        };
        member.node.set_handler(ep, 1, count).unwrap();
        let source = Memory::private(LEN);
        for round in 0..ROUNDS {
            assert!(source.write(0, &vec![round as u8; LEN]));
            member.node.request_xfer(ep, other, 1, &[round], 0, (&source, 0..LEN)).unwrap();
            member.wait(|log| log.count > round);
            // The next one would overwrite it.
            turns.meet(|| {
                member.node.poll(bundle);
            });
        }
        let rdma = member.node.nic().unwrap().counters().rdma;
        assert!(rdma >= ROUNDS, "{rdma} writes");
        let cache = member.node.cache_counters().unwrap();
        assert_eq!(cache.misses, 1, "one source is registered once");
        assert!(cache.hits >= ROUNDS - 1);
    });
}

pub fn changing_the_tag_closes_the_segment(wire: &Wire) {
    const LEN: usize = 100_000;
    let turns = Meeting::new(2);
    run(2, wire, |member| {
        let (ep, bundle) = (member.ep, member.bundle);
        member.log_messages(1);
        let segment = Memory::shared(LEN).unwrap();
        member.node.set_seg(ep, segment.clone()).unwrap();
        if member.me == 1 {
            member.node.request_xfer(ep, 0, 1, &[1], 0, &vec![1; LEN]).unwrap();
        } else {
            member.wait(|log| log.count == 1);
            member.node.set_tag(ep, Tag(555)).unwrap();
        }
        turns.meet(|| {
            member.node.poll(bundle);
        });
        if member.me == 1 {
            // It knows the segment from before, and is not welcome any more.
            member.node.request_xfer(ep, 0, 1, &[2], 0, &vec![2; LEN]).unwrap();
            member.wait(|log| log.returned.len() == 1);
            let (returned, args, _) = &member.node.state().returned[0];
            assert_eq!((returned.code, returned.place.unwrap().len), (Code::BadTag, LEN as u64));
            assert_eq!(args, &[2]);
        }
        turns.meet(|| {
            member.node.poll(bundle);
        });
        if member.me == 0 {
            let mut bytes = vec![0; LEN];
            assert!(segment.read(0, &mut bytes));
            assert!(bytes == vec![1; LEN], "nothing was touched");
            assert_eq!(member.node.state().count, 1);
        }
    });
}

pub fn one_interface_serves_all_translations_of_a_pair(wire: &Wire) {
    let credits = u64::from(wire.via.unwrap().credits);
    let turns = Meeting::new(2);
    run(2, wire, |member| {
        member.log_messages(1);
        let (ep, bundle, other) = (member.ep, member.bundle, member.other());
        let (name, _) = member.node.translation(ep, other).unwrap();
        for slot in 10..30 {
            member.node.map(ep, slot, name, TAG).unwrap();
        }
        member.request(other, 1, &[]);
        member.wait(|log| log.count == 1);
        turns.meet(|| {
            member.node.poll(bundle);
        });
        turns.meet(|| {});
        if member.me == 0 {
            // Nobody takes anything: the pool ends, through whichever translation they go.
            let sent = (0..100).map_while(|i| member.node.try_request(ep, 10 + i % 20, 1, &[]).ok()).count();
            assert!(sent as u64 <= credits, "{sent} requests with {credits} credits");
            assert_eq!(member.node.try_request(ep, 25, 1, &[]), Err(RequestError::WouldBlock));
        }
        turns.meet(|| {});
    });
}

pub fn nonsense_from_a_peer_is_dropped(wire: &Wire) {
    let done = Meeting::new(2);
    run_cores(2, wire, |mut core| {
        if core.me() == Peer(0) {
            let mut random = numbers();
            for _ in 0..4000 {
                // Most of them look like what NICs say to each other.
                let mark = if random() % 8 == 0 { 0 } else { 0xB000 };
                let port = Port(mark | random() as u16 & 0xfff);
                let bytes: Vec<u8> = (0..random() % 60).map(|_| random() as u8 & 3).collect();
                let (imm, long) = (random() & 0xffff_0003, random() % 4 == 0);
                shove(&mut core, port, imm, &bytes, long);
            }
            done.meet(|| {
                core.progress(&mut Ignore, usize::MAX);
            });
        } else {
            let mut node = Node::over_via(core, wire.via.unwrap(), 0);
            let bundle = node.allocate_bundle().unwrap();
            let ep = node.allocate_endpoint(bundle).unwrap();
            node.set_tag(ep, TAG).unwrap();
            node.set_handler(ep, 1, |ctx, _| *ctx.state += 1).unwrap();
            node.map(ep, 0, node.name(ep), TAG).unwrap();
            done.meet(|| {
                node.poll(bundle);
            });
            // It still serves its own.
            node.request(ep, 0, 1, &[]).unwrap();
            node.wait(bundle, PATIENCE, |count| *count == 1).unwrap();
            // What was sent over a socket may still be on its way.
            let began = Instant::now();
            while node.nic().unwrap().counters().strays <= 1000 && began.elapsed() < PATIENCE.unwrap() {
                node.poll(bundle);
            }
            assert!(node.nic().unwrap().counters().strays > 1000);
        }
    });
}

/// A storm both ways in which every handler replies and then lets the NIC take more before it returns.
fn storm(credits: u16) {
    const EACH: u64 = 2000;
    let wire = Wire { via: Some(ViaConfig { credits, ..ViaConfig::default() }), ..shm() };
    run(2, &wire, |member| {
        let (ep, other) = (member.ep, member.other());
        let serve = move |ctx: &mut Ctx<'_, Log>, _: &[u64]| {
            ctx.reply(2, &[]).unwrap();
            // A request that finds no credit lets the NIC take what has come: perhaps the request that the reply made room for.
            for _ in 0..50 {
                if ctx.request(other, 3, &[]) == Err(RequestError::WouldBlock) {
                    thread::yield_now();
                }
            }
        };
        member.node.set_handler(ep, 1, serve).unwrap();
        member.node.set_handler(ep, 2, |ctx, _| ctx.state.count += 1).unwrap();
        member.node.set_handler(ep, 3, |_, _| {}).unwrap();
        for _ in 0..EACH {
            member.request(other, 1, &[]);
        }
        member.wait(|log| log.count == EACH);
        assert!(member.node.state().returned.is_empty());
    });
}

/// One credit each way. A handler of rank 1 replies, requests something itself, and returns only when all that this brings has been
/// sent: the next request, for which the reply gave credit, and the reply to its own. Whether the connection outlives it, by rank.
fn outlives(spare_receives: u16) -> Vec<bool> {
    let via = ViaConfig { credits: 1, spare_receives, ..ViaConfig::default() };
    let wire = Wire { via: Some(via), ..shm() };
    let (sent, fine) = (Arc::new(AtomicBool::new(false)), Mutex::new(vec![false; 2]));
    run(2, &wire, |member| {
        let (ep, other) = (member.ep, member.other());
        let all_sent = Arc::clone(&sent);
        let serve = move |ctx: &mut Ctx<'_, Log>, _: &[u64]| {
            ctx.reply(2, &[]).unwrap();
            if all_sent.load(Ordering::SeqCst) {
                return;
            }
            ctx.request(other, 3, &[]).unwrap();
            let mut last = false;
            while !last {
                // Finds no credit, so the NIC takes what has come.
                last = all_sent.load(Ordering::SeqCst);
                assert_eq!(ctx.request(other, 3, &[]), Err(RequestError::WouldBlock));
                thread::yield_now();
            }
        };
        member.node.set_handler(ep, 1, serve).unwrap();
        member.node.set_handler(ep, 2, |ctx, _| ctx.state.count += 1).unwrap();
        let answer = |ctx: &mut Ctx<'_, Log>, _: &[u64]| {
            ctx.reply(2, &[]).unwrap();
            ctx.state.got.push(Vec::new());
        };
        member.node.set_handler(ep, 3, answer).unwrap();
        let done = if member.me == 0 {
            member.request(other, 1, &[]);
            member.wait(|log| log.count == 1);
            member.request(other, 1, &[]);
            member.wait(|log| log.got.len() == 1);
            sent.store(true, Ordering::SeqCst);
            2
        } else {
            1
        };
        member.wait(|log| log.count == done || !log.returned.is_empty());
        fine.lock().unwrap()[member.me as usize] = member.node.state().returned.is_empty();
    });
    fine.into_inner().unwrap()
}

#[test]
fn two_receives_a_credit_and_one_more_are_enough() {
    [1, 2, 8].into_iter().for_each(storm);
    assert_eq!(outlives(1), [true, true]);
}

#[test]
fn two_receives_a_credit_are_not_enough() {
    // Rank 1 may have had its reply before the connection broke.
    assert!(!outlives(0)[0]);
}
