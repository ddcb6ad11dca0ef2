//! Bundles: polling, moving, waiting, sharing.

use std::sync::atomic::AtomicU64;

use barewire::am::{EventMask, Par, WaitError};

use crate::*;

/// A second bundle with an endpoint that counts its messages in `got`, and a translation to it from the other side.
fn second_bundle(member: &mut Member) -> (Bundle, Ep) {
    let node = &mut member.node;
    let bundle = node.allocate_bundle().unwrap();
    let ep = node.allocate_endpoint(bundle).unwrap();
    node.set_tag(ep, TAG).unwrap();
    node.set_handler(ep, 1, |ctx, args| {
        let mut data = vec![0; ctx.remaining()];
        ctx.read(&mut data);
        ctx.state.data.push(data);
        ctx.state.got.push(args.to_vec());
    })
    .unwrap();
    let peer = Peer(u32::from(1 - member.me as u8));
    node.map(member.ep, 50, Name { peer, index: ep.index() }, TAG).unwrap();
    (bundle, ep)
}

pub fn only_the_polled_bundle_runs(wire: &Wire) {
    run(2, wire, |member| {
        let (second, _) = second_bundle(member);
        member.node.set_handler(member.ep, 1, |ctx, _| ctx.state.count += 1).unwrap();
        let other = member.other();
        member.node.request(member.ep, 50, 1, &[1]).unwrap();
        member.node.request_medium(member.ep, 50, 1, &[2], b"kept").unwrap();
        member.request(other, 1, &[]);
        // What came first is for the second bundle and waits; what came after it runs.
        member.wait(|log| log.count == 1);
        assert!(member.node.state().got.is_empty());
        member.node.poll(second);
        assert_eq!(member.node.state().got, [[1], [2]]);
        assert_eq!(member.node.state().data, [b"".to_vec(), b"kept".to_vec()]);
    });
}

pub fn an_endpoint_moves_with_its_messages(wire: &Wire) {
    run(2, wire, |member| {
        let (_, ep) = second_bundle(member);
        let name = member.node.name(ep);
        member.node.set_handler(member.ep, 1, |ctx, _| ctx.state.count += 1).unwrap();
        let other = member.other();
        member.node.request(member.ep, 50, 1, &[1]).unwrap();
        member.request(other, 1, &[]);
        member.wait(|log| log.count == 1);
        let first = member.bundle;
        member.node.move_endpoint(ep, first).unwrap();
        assert_eq!((member.node.name(ep), member.node.bundle_of(ep)), (name, Ok(first)));
        member.node.request(member.ep, 50, 1, &[2]).unwrap();
        member.wait(|log| log.got.len() == 2);
        assert_eq!(member.node.state().got, [[1], [2]]);
    });
}

pub fn wait_sema_sleeps_wakes_and_runs_nothing(wire: &Wire) {
    // A sleeper is rung awake. One that was not yet asleep is not, so try until one was.
    let (turns, woken) = (Meeting::new(2), AtomicU64::new(0));
    run(2, wire, |member| {
        let (ep, bundle) = (member.ep, member.bundle);
        member.log_messages(1);
        assert_eq!(member.node.wait_sema(bundle, None), Err(WaitError::NoEvents));
        member.node.set_event_mask(bundle, EventMask::NotEmpty).unwrap();
        let soon = Some(Duration::from_millis(1));
        assert_eq!(member.node.wait_sema(bundle, soon), Err(WaitError::TimedOut));
        for round in 1..=if wire.rings { 200 } else { 20 } {
            if member.me == 0 {
                member.node.wait_sema(bundle, PATIENCE).unwrap();
                assert_eq!(member.node.state().count, round - 1, "waiting runs no handler");
                member.node.wait_sema(bundle, None).unwrap();
                member.node.poll(bundle);
                assert_eq!(member.node.state().count, round);
            } else {
                // Longer each time: on a busy machine it takes a while until somebody has looked often enough to sleep.
                thread::sleep(Duration::from_millis(10 * round.min(50)));
                let before = member.node.stats().rung;
                member.node.request(ep, 0, 1, &[]).unwrap();
                woken.fetch_add(member.node.stats().rung - before, Ordering::SeqCst);
            }
            turns.meet(|| {
                // Whoever sends may have to send again.
                if member.me == 1 {
                    member.node.poll(bundle);
                }
            });
            if woken.load(Ordering::SeqCst) > 0 {
                break;
            }
            turns.meet(|| {});
        }
        assert!(!wire.rings || woken.load(Ordering::SeqCst) > 0, "nobody slept");
    });
}

pub fn a_shared_node_is_polled_by_several_threads(wire: &Wire) {
    let each = wire.wires.times(2000);
    const THREADS: u64 = 3;
    let done = Meeting::new(2);
    run_cores(2, wire, |core| {
        let Member { mut node, bundle, ep, me, .. } = Member::new(core, wire);
        node.set_handler(ep, 1, |ctx, args| {
            ctx.state.got.push(args.to_vec());
            ctx.reply(2, args).unwrap();
        })
        .unwrap();
        node.set_handler(ep, 2, |ctx, _| ctx.state.count += 1).unwrap();
        node.set_expected_resources(ep, 4, 8).unwrap();
        let par = Par::new(node).unwrap();
        let finished = |par: &Par<Log>| {
            par.with(|node| {
                let log = node.state();
                log.got.len() as u64 == each * THREADS && log.count == each * THREADS
            })
        };
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let par = par.clone();
                scope.spawn(move || {
                    for number in 0..each {
                        par.request(ep, 1 - me as u8, 1, &[thread, number]).unwrap();
                        par.poll(bundle);
                    }
                    while !finished(&par) {
                        par.poll(bundle);
                        thread::yield_now();
                    }
                });
            }
        });
        for thread in 0..THREADS {
            let of = |args: &&Vec<u64>| args[0] == thread;
            let numbers: Vec<u64> =
                par.with(|node| node.state().got.iter().filter(of).map(|args| args[1]).collect());
            assert_eq!(numbers, (0..each).collect::<Vec<_>>());
        }
        done.meet(|| {
            par.poll(bundle);
        });
    });
}

pub fn threads_wait_for_different_bundles_of_a_shared_node(wire: &Wire) {
    const ROUNDS: u64 = 40;
    let done = Meeting::new(2);
    run_cores(2, wire, |core| {
        let mut member = Member::new(core, wire);
        member.node.set_handler(member.ep, 1, |ctx, _| ctx.state.count += 1).unwrap();
        let (second, _) = second_bundle(&mut member);
        let Member { mut node, bundle, ep, me, .. } = member;
        for bundle in [bundle, second] {
            node.set_event_mask(bundle, EventMask::NotEmpty).unwrap();
        }
        let par = Par::new(node).unwrap();
        let soon = Some(Duration::from_millis(1));
        assert_eq!(par.wait_sema(second, soon), Err(WaitError::TimedOut));
        thread::scope(|scope| {
            if me == 0 {
                for bundle in [bundle, second] {
                    let par = par.clone();
                    let seen = move |node: &Node<Log>| {
                        if bundle == second { node.state().got.len() as u64 } else { node.state().count }
                    };
                    scope.spawn(move || {
                        while par.with(|node| seen(node)) < ROUNDS {
                            par.wait_sema(bundle, PATIENCE).unwrap();
                            par.poll(bundle);
                        }
                    });
                }
            } else {
                for round in 0..ROUNDS {
                    if round % 8 == 0 {
                        thread::sleep(Duration::from_millis(5));
                    }
                    par.request(ep, 50, 1, &[round]).unwrap();
                    par.request(ep, 0, 1, &[round]).unwrap();
                }
            }
        });
        done.meet(|| {
            par.poll(bundle);
        });
    });
}
