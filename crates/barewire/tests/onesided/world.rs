//! The base of all three: collectives, symmetric memory, groups that lose a member.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use barewire::core::Peer;
use barewire::core::region::{Atomic, Key, RegionError, Width};
use barewire::spmd::{Error, Group, Quiet, World};

use crate::kit::{PATIENCE, Wire, scramble};

fn run(wire: &Wire, size: u32, body: impl Fn(&mut World<Quiet>) + Sync) {
    wire.run(size, |endpoint| {
        let mut world = World::new(endpoint, Quiet);
        world.set_timeout(PATIENCE);
        body(&mut world);
    });
}

pub fn collectives_agree_for_every_size_and_root(wire: &Wire) {
    for size in 1..=5 {
        run(wire, size, |world| {
            let (all, me) = (world.all(), world.rank());
            for root in 0..size {
                world.barrier(all).unwrap();
                let mut word = [if me == root { 7 + root } else { 0 }];
                world.broadcast(all, root, &mut word).unwrap();
                assert_eq!(word, [7 + root]);
                let mut sums = [me, 1, me * me];
                world.reduce(all, &mut sums, |a, b| a + b).unwrap();
                assert_eq!(sums, [size * (size - 1) / 2, size, (0..size).map(|r| r * r).sum()]);
                let parts = world.gather_all(all, &vec![me as u8; me as usize * 3]).unwrap();
                let expected: Vec<Vec<u8>> = (0..size).map(|r| vec![r as u8; r as usize * 3]).collect();
                assert_eq!(parts, expected);
                let mine: Vec<Vec<u8>> = (0..size).map(|to| vec![me as u8, to as u8]).collect();
                let mine: Vec<&[u8]> = mine.iter().map(Vec::as_slice).collect();
                let theirs = world.exchange(all, &mine).unwrap();
                let expected: Vec<Vec<u8>> = (0..size).map(|from| vec![from as u8, me as u8]).collect();
                assert_eq!(theirs, expected);
            }
        });
    }
}

pub fn long_letters_go_round_in_a_circle(wire: &Wire) {
    let long = wire.times(3 << 20) as usize;
    run(wire, 3, |world| {
        let me = world.rank();
        let bytes = vec![me as u8 + 1; long];
        let all = world.all();
        let theirs = world.exchange(all, &[&bytes, &bytes, &bytes]).unwrap();
        for (from, part) in theirs.iter().enumerate() {
            assert!(part.len() == long && part.iter().all(|&byte| byte == from as u8 + 1));
        }
        let mut words: Vec<u64> = (0..long as u64 / 8).map(|i| scramble(i) * u64::from(me == 1)).collect();
        world.broadcast(all, 1, &mut words).unwrap();
        assert!(words.iter().enumerate().all(|(i, &word)| word == scramble(i as u64)));
    });
}

pub fn groups_do_not_mix(wire: &Wire) {
    run(wire, 5, |world| {
        let (all, me) = (world.all(), world.rank());
        let even = Group::strided(0, 1, 3).unwrap();
        let odd = world.split(all, 1, 2, 2).unwrap();
        let own = if me % 2 == 0 { even } else { odd };
        let other = if me % 2 == 0 { odd } else { even };
        for round in 0..20 {
            let mut sum = [me + round];
            world.reduce(own, &mut sum, |a, b| a + b).unwrap();
            assert_eq!(sum[0], if me % 2 == 0 { 6 + 3 * round } else { 4 + 2 * round });
            if round % 7 == 0 {
                let mut most = [me];
                world.reduce(all, &mut most, Ord::max).unwrap();
                assert_eq!(most, [4]);
            }
        }
        assert_eq!(world.barrier(other), Err(Error::NotMember));
        let beyond = Group::strided(0, 3, 2).unwrap();
        assert_eq!(world.barrier(beyond), Err(Error::NoSuchRank { rank: 8, size: 5 }));
        // A part of a part.
        if me % 2 == 0 {
            let outer = world.split(even, 0, 2, 2).unwrap();
            assert_eq!(outer.index(me), [Some(0), None, Some(1)][me as usize / 2]);
            if outer.index(me).is_some() {
                let mut sum = [me];
                world.reduce(outer, &mut sum, |a, b| a + b).unwrap();
                assert_eq!(sum, [4]);
            }
        }
    });
}

pub fn a_wrong_key_touches_nothing(wire: &Wire) {
    run(wire, 2, |world| {
        let (all, other) = (world.all(), 1 - world.rank());
        let memory = world.symmetric(4096).unwrap();
        let mut bytes = memory.key(other).unwrap().to_bytes();
        bytes[9] ^= 1;
        let wrong = memory.clone().with_key(other, Key::from_bytes(bytes));
        // Twice: by packets first, then, if the memory allows, on the spot.
        for _ in 0..2 {
            let refused = Err(Error::Region(RegionError::BadKey));
            assert_eq!(world.put_and_wait(&wrong, other, 0, b"x"), refused);
            assert_eq!(world.get(&wrong, other, 0, &mut [0]), refused);
            world.put(&wrong, other, 0, b"x").unwrap();
            assert_eq!(world.quiet(), refused, "what nobody waited for is told by quiet");
            assert_eq!(world.quiet(), Ok(()), "once");
            let outside = Err(Error::Region(RegionError::OutOfRange));
            assert_eq!(world.put_and_wait(&memory, other, 4090, b"seven b"), outside);
            assert_eq!(world.put_and_wait(&memory, other, u64::MAX, b"x"), outside);
            assert_eq!(world.get(&memory, other, 4096, &mut [0]), outside);
            let outcome = world.atomic(&memory, other, 4096, Width::U64, Atomic::Add(1));
            assert_eq!(outcome, Err(Error::Region(RegionError::OutOfRange)));
            let outcome = world.atomic(&memory, other, 4, Width::U64, Atomic::Add(1));
            assert_eq!(outcome, Err(Error::Region(RegionError::Misaligned)));
            let nobody = Err(Error::NoSuchRank { rank: 2, size: 2 });
            assert_eq!(world.put_and_wait(&memory, 2, 0, b"x"), nobody);
            world.get(&memory, other, 0, &mut [0; 8]).unwrap();
        }
        world.barrier(all).unwrap();
        let mut seen = vec![1; 4096];
        assert!(memory.local().read(0, &mut seen));
        assert!(seen.iter().all(|&byte| byte == 0));
    });
}

pub fn memory_that_one_rank_has_not_nobody_has(wire: &Wire) {
    run(wire, 3, |world| {
        let bytes = if world.rank() == 1 { usize::MAX / 2 } else { 64 };
        assert!(matches!(world.symmetric(bytes), Err(Error::Memory(_))));
        world.symmetric(64).unwrap();
    });
}

pub fn a_revoked_block_is_an_error(wire: &Wire) {
    run(wire, 3, |world| {
        let (all, me) = (world.all(), world.rank());
        let memory = world.symmetric(64).unwrap();
        for _ in 0..3 {
            world.get(&memory, 0, 0, &mut [0; 8]).unwrap();
        }
        world.barrier(all).unwrap();
        if me == 0 {
            assert!(world.revoke(&memory));
            assert!(!world.revoke(&memory), "only once");
        }
        world.barrier(all).unwrap();
        let stale = Err(Error::Region(RegionError::BadKey));
        assert_eq!(world.put_and_wait(&memory, 0, 0, b"late"), stale);
        assert_eq!(world.get(&memory, 0, 0, &mut [0]), stale);
        world.put_and_wait(&memory, 1, 8 * u64::from(me), b"other").unwrap();
        world.barrier(all).unwrap();
        let mut seen = [1; 8];
        assert!(memory.local().read(0, &mut seen));
        assert_eq!(&seen[..4], if me == 1 { b"othe" } else { &[0; 4] });
    });
}

pub fn a_member_that_leaves_breaks_the_group_for_all(wire: &Wire) {
    for by_barrier in [true, false] {
        run(wire, 4, |world| {
            let (all, me) = (world.all(), world.rank());
            let pair = Group::strided(2, 0, 2).unwrap();
            world.barrier(all).unwrap();
            if me == 1 {
                return;
            }
            // Some wait for rank 1 itself, the others for somebody who waits for it.
            let outcome =
                if by_barrier { world.barrier(all) } else { world.reduce(all, &mut [me], |a, b| a + b) };
            assert_eq!(outcome, Err(Error::Lost(Peer(1))));
            assert_eq!(world.barrier(all), Err(Error::Lost(Peer(1))), "and it stays so");
            if me >= 2 {
                world.barrier(pair).unwrap();
            }
        });
    }
}

pub fn a_member_that_fails_breaks_the_group_for_all(wire: &Wire) {
    let (timed_out, done) = (AtomicBool::new(false), AtomicU32::new(0));
    run(wire, 4, |world| {
        let (all, me) = (world.all(), world.rank());
        let (last_two, failed) = (Group::strided(2, 0, 2).unwrap(), Err(Error::Failed(Peer(0))));
        let first_three = Group::strided(0, 0, 3).unwrap();
        // A length that only rank 1 has, and only rank 0 sees.
        let outcome = world.reduce(all, &mut vec![me; if me == 1 { 2 } else { 1 }], |a, b| a + b);
        match me {
            0 => assert!(matches!(outcome, Err(Error::Mismatch(_))), "{outcome:?}"),
            _ => assert_eq!(outcome, failed),
        }
        assert_eq!(world.barrier(all), failed, "and it stays so");
        // Rank 0 has waited for long enough, and without it there is no result.
        let sum = |world: &mut World<Quiet>| world.reduce(first_three, &mut [1], |a, b| a + b);
        if me == 0 {
            world.set_timeout(Some(Duration::from_millis(20)));
            assert_eq!(sum(world), Err(Error::TimedOut));
            timed_out.store(true, Ordering::SeqCst);
        } else if me == 1 {
            while !timed_out.load(Ordering::SeqCst) {
                world.look();
            }
        }
        if me == 1 || me == 2 {
            assert_eq!(sum(world), failed);
        }
        if me >= 2 {
            world.barrier(last_two).unwrap();
            let parts: [&[u8]; 2] = [b"one", b"two"];
            let outcome = world.exchange(last_two, &parts[..me as usize - 1]);
            match me {
                2 => assert!(matches!(outcome, Err(Error::Mismatch(_))), "{outcome:?}"),
                _ => assert_eq!(outcome, Err(Error::Failed(Peer(2)))),
            }
        }
        // That somebody leaves could be heard of first.
        done.fetch_add(1, Ordering::SeqCst);
        let patience = Instant::now() + PATIENCE.unwrap();
        while done.load(Ordering::SeqCst) < 4 && Instant::now() < patience {
            world.look();
        }
    });
}

pub fn operations_on_a_rank_that_left_fail(wire: &Wire) {
    run(wire, 2, |world| {
        let all = world.all();
        let memory = world.symmetric(64).unwrap();
        for _ in 0..3 {
            world.get(&memory, 1, 0, &mut [0; 8]).unwrap();
        }
        world.barrier(all).unwrap();
        if world.rank() == 1 {
            return;
        }
        let lost = loop {
            match world.put_and_wait(&memory, 1, 0, b"x") {
                Ok(()) => std::thread::yield_now(),
                Err(error) => break error,
            }
        };
        assert_eq!(lost, Error::Lost(Peer(1)));
        assert_eq!(world.get(&memory, 1, 0, &mut [0]), Err(lost.clone()));
        let outcome = world.atomic(&memory, 1, 0, Width::U64, Atomic::Add(1));
        assert_eq!(outcome, Err(lost));
        assert_eq!(world.quiet(), Ok(()));
    });
}
