//! Shmem.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use barewire::core::Peer;
use barewire::core::region::RegionError;
use barewire::shmem::{Cmp, Error, Op, Shmem, Signal, Team};

use crate::kit::{PATIENCE, Wire, scramble};

const HEAP: usize = 1 << 20;

fn run(wire: &Wire, pes: u32, body: impl Fn(&Shmem) + Sync) {
    wire.run(pes, |endpoint| {
        let shmem = Shmem::init(endpoint, HEAP).unwrap();
        shmem.set_timeout(PATIENCE);
        body(&shmem);
        shmem.finalize().unwrap();
    });
}

pub fn puts_and_gets_of_all_forms(wire: &Wire) {
    let long = wire.times(20_000) as usize;
    run(wire, 3, |shmem| {
        let (me, right) = (shmem.my_pe(), (shmem.my_pe() + 1) % 3);
        let left = (me + 2) % 3;
        let words = shmem.calloc::<u64>(long).unwrap();
        let other = shmem.calloc::<u64>(long).unwrap();
        let values =
            |pe: u32| (0..long as u64).map(|i| scramble(i ^ u64::from(pe) << 40)).collect::<Vec<_>>();
        shmem.put(words, 0, &values(me), right).unwrap();
        shmem.barrier_all().unwrap();
        assert!(shmem.read(words, 0, long).unwrap() == values(left), "put");
        let mut got = vec![0; long - 3];
        shmem.get(&mut got, words, 3, right).unwrap();
        assert!(got == values(me)[3..], "get");
        shmem.get_nbi((other, 0), (words, 0), long, right).unwrap();
        shmem.quiet().unwrap();
        assert!(shmem.read(other, 0, long).unwrap() == values(me), "get_nbi");
        shmem.barrier_all().unwrap();
        for i in 0..10 {
            shmem.put_nbi(words, i, &[i as u64 * 100 + u64::from(me)], right).unwrap();
        }
        shmem.barrier_all().unwrap();
        let expected: Vec<u64> = (0..10).map(|i| i * 100 + u64::from(left)).collect();
        assert_eq!(shmem.read(words, 0, 10).unwrap(), expected, "put_nbi");
        assert_eq!(shmem.g(words, 9, right).unwrap(), 900 + u64::from(me));
        shmem.barrier_all().unwrap();
        shmem.p(words, 9, 1, me).unwrap();
        assert_eq!(shmem.g(words, 9, me).unwrap(), 1, "one's own memory too");
        shmem.barrier_all().unwrap();
        shmem.iput(words, 2, 7, &[1, 2, 3, 4, 5, 6], 2, 3, right).unwrap();
        shmem.barrier_all().unwrap();
        assert_eq!([2, 9, 16].map(|i| shmem.read(words, i, 1).unwrap()[0]), [1, 3, 5]);
        let mut spaced = [0; 5];
        shmem.iget(&mut spaced, 2, words, 2, 7, 3, right).unwrap();
        assert_eq!(spaced, [1, 0, 3, 0, 5]);
    });
}

pub fn a_fence_orders_puts(wire: &Wire) {
    let rounds = wire.times(200);
    run(wire, 2, |shmem| {
        let me = shmem.my_pe();
        let data = shmem.calloc::<u64>(2000).unwrap();
        let flag = shmem.calloc::<u64>(1).unwrap();
        for round in 1..=rounds {
            // Long, then short: without the fence the flag could be first.
            if me == 0 {
                shmem.put(data, 0, &vec![round; 2000], 1).unwrap();
                shmem.fence().unwrap();
                shmem.p(flag, 0, round, 1).unwrap();
                shmem.wait_until(flag, 0, Cmp::Eq, round).unwrap();
            } else {
                assert_eq!(shmem.wait_until(flag, 0, Cmp::Ge, round).unwrap(), round);
                assert!(shmem.read(data, 0, 2000).unwrap().iter().all(|&word| word == round));
                shmem.p(flag, 0, round, 0).unwrap();
            }
        }
    });
}

pub fn concurrent_atomics_lose_nothing(wire: &Wire) {
    let each = wire.times(500);
    run(wire, 4, |shmem| {
        let me = u64::from(shmem.my_pe());
        let word = shmem.calloc::<u64>(3).unwrap();
        let narrow = shmem.calloc::<i32>(2).unwrap();
        let mut seen = Vec::new();
        for _ in 0..each {
            seen.push(shmem.atomic_fetch_inc(word, 0, 1).unwrap());
            shmem.atomic_add(word, 1, 1 + me, 1).unwrap();
            shmem.atomic_add(narrow, 0, -1, 2).unwrap();
        }
        shmem.barrier_all().unwrap();
        assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "nobody gets a number twice");
        assert_eq!(shmem.atomic_fetch(word, 0, 1).unwrap(), 4 * each);
        assert_eq!(shmem.atomic_fetch(word, 1, 1).unwrap(), 10 * each);
        assert_eq!(shmem.atomic_fetch(narrow, 0, 2).unwrap(), -4 * each as i32);
        assert_eq!(shmem.atomic_fetch(narrow, 1, 2).unwrap(), 0, "the neighbour word is untouched");
        shmem.barrier_all().unwrap();
        shmem.atomic_or(word, 2, 1 << me, 0).unwrap();
        shmem.barrier_all().unwrap();
        assert_eq!(shmem.atomic_fetch_xor(word, 2, 0, 0).unwrap(), 0b1111);
        shmem.barrier_all().unwrap();
        shmem.atomic_and(word, 2, !(1 << me), 0).unwrap();
        shmem.barrier_all().unwrap();
        assert_eq!(shmem.atomic_fetch(word, 2, 0).unwrap(), 0);
        shmem.barrier_all().unwrap();
        // One of all wins.
        let won = shmem.atomic_compare_swap(word, 2, 0, 10 + me, 0).unwrap() == 0;
        let winners = shmem.reduce(shmem.team_world(), Op::Sum, &[u32::from(won)]).unwrap();
        assert_eq!(winners, [1]);
        assert_eq!(shmem.atomic_fetch(word, 2, 0).unwrap() == 10 + me, won);
        shmem.barrier_all().unwrap();
        shmem.atomic_set(word, 2, 5, 0).unwrap();
        shmem.barrier_all().unwrap();
        assert_eq!(shmem.atomic_swap(word, 2, 5, 0).unwrap(), 5);
    });
}

pub fn a_sleeper_is_woken_by_a_put(wire: &Wire) {
    run(wire, 2, |shmem| {
        let flag = shmem.calloc::<u32>(1).unwrap();
        // So that memory is mapped where it can be, and no packet wakes the sleeper.
        for _ in 0..5 {
            shmem.g(flag, 0, 1 - shmem.my_pe()).unwrap();
        }
        shmem.barrier_all().unwrap();
        for round in 1..=5 {
            if shmem.my_pe() == 0 {
                // Long enough for the other to fall asleep, and then to be found asleep.
                std::thread::sleep(Duration::from_millis(15));
                shmem.p(flag, 0, round, 1).unwrap();
                shmem.quiet().unwrap();
            } else {
                // The other does not wait: it may be further by now.
                shmem.wait_until(flag, 0, Cmp::Ge, round).unwrap();
            }
        }
    });
}

pub fn waits_find_any_some_and_all(wire: &Wire) {
    run(wire, 4, |shmem| {
        let me = shmem.my_pe();
        let flags = shmem.calloc::<i64>(4).unwrap();
        if me > 0 {
            shmem.p(flags, me as usize, -i64::from(me), 0).unwrap();
            shmem.quiet().unwrap();
            return;
        }
        let first = shmem.wait_until_any(flags, 0, 4, Cmp::Lt, 0).unwrap();
        assert!((1..4).contains(&first));
        let some = shmem.wait_until_some(flags, 1, 3, Cmp::Ne, 0).unwrap();
        assert!(some.contains(&first));
        shmem.wait_until_all(flags, 1, 3, Cmp::Le, -1).unwrap();
        assert_eq!(shmem.read(flags, 0, 4).unwrap(), [0, -1, -2, -3]);
        assert_eq!(shmem.test(flags, 0, Cmp::Gt, 0), Ok(false));
        assert_eq!(shmem.test(flags, 0, Cmp::Ge, 0), Ok(true));
    });
}

pub fn words_are_compared_each_with_its_own_value(wire: &Wire) {
    run(wire, 3, |shmem| {
        let me = shmem.my_pe();
        let steps = shmem.calloc::<i32>(3).unwrap();
        let none = [None; 3];
        assert_eq!(shmem.test_any(steps, 0, 3, Cmp::Ne, 0), Ok(None));
        assert_eq!(shmem.test_some(steps, 1, 2, Cmp::Eq, 0), Ok(vec![1, 2]));
        assert_eq!(shmem.test_all(steps, 3, 0, Cmp::Ne, 0), Ok(true), "all of none");
        assert!(shmem.test_all(steps, 1, 3, Cmp::Eq, 0).is_err(), "one too many");
        assert!(shmem.test_any_vector(steps, 1, Cmp::Eq, &none).is_err(), "one too many");
        assert!(shmem.wait_until_any_vector(steps, 0, Cmp::Eq, &none).is_err(), "it would never end");
        assert!(shmem.wait_until_some_vector(steps, 0, Cmp::Eq, &none).is_err(), "it would never end");
        assert_eq!(shmem.wait_until_all_vector(steps, 0, Cmp::Eq, &none), Ok(()));
        shmem.barrier_all().unwrap();
        for pe in (0..3).filter(|&pe| pe != me) {
            shmem.p(steps, me as usize, -1 - me as i32, pe).unwrap();
        }
        let mut wanted = [Some(-1), Some(-2), Some(-3)];
        wanted[me as usize] = None;
        // Each other PE once: who has been is left out.
        let mut left = wanted;
        while left.iter().any(Option::is_some) {
            for which in shmem.wait_until_some_vector(steps, 0, Cmp::Eq, &left).unwrap() {
                assert!(left[which].take().is_some());
            }
        }
        shmem.wait_until_all_vector(steps, 0, Cmp::Eq, &wanted).unwrap();
        assert_eq!(shmem.test_all_vector(steps, 0, Cmp::Eq, &wanted), Ok(true));
        let first = usize::from(me == 0);
        assert_eq!(shmem.wait_until_any_vector(steps, 0, Cmp::Eq, &wanted), Ok(first));
        assert_eq!(shmem.test_any_vector(steps, 0, Cmp::Eq, &wanted), Ok(Some(first)));
        let others: Vec<usize> = (0..3).filter(|&pe| pe != me as usize).collect();
        assert_eq!(shmem.test_some_vector(steps, 0, Cmp::Le, &wanted), Ok(others.clone()));
        assert_eq!(shmem.test_some(steps, 0, 3, Cmp::Lt, 0), Ok(others));
        assert_eq!(shmem.test_all(steps, 0, 3, Cmp::Lt, 0), Ok(false), "nobody has written ours");
    });
}

pub fn old_values_come_with_quiet(wire: &Wire) {
    let each = wire.times(200) as usize;
    run(wire, 3, |shmem| {
        let (next, bits) = (shmem.calloc::<u32>(1).unwrap(), shmem.calloc::<u64>(1).unwrap());
        let tickets = shmem.calloc::<u32>(each).unwrap();
        for i in 0..each {
            shmem.atomic_fetch_inc_nbi((tickets, i), next, 0, 2).unwrap();
        }
        let old = shmem.calloc::<u64>(1).unwrap();
        shmem.atomic_fetch_or_nbi((old, 0), bits, 0, 1 << 63 | 1 << shmem.my_pe(), 1).unwrap();
        assert!(shmem.atomic_fetch_inc_nbi((tickets, each), next, 0, 2).is_err(), "nowhere to land");
        assert!(shmem.atomic_fetch_inc_nbi((tickets, 0), next, 0, 3).is_err(), "nobody");
        shmem.quiet().unwrap();
        let mine = shmem.read(tickets, 0, each).unwrap();
        assert!(mine.is_sorted_by(|a, b| a < b), "in the order in which they were drawn");
        let mut all = shmem.fcollect(shmem.team_world(), &mine).unwrap();
        all.sort();
        assert!(all.iter().copied().eq(0..3 * each as u32), "each was given once");
        let firsts = u64::from(shmem.g(old, 0, shmem.my_pe()).unwrap() == 0);
        assert_eq!(shmem.reduce(shmem.team_world(), Op::Sum, &[firsts]), Ok(vec![1]));
        assert_eq!(shmem.g(bits, 0, 1), Ok(1 << 63 | 0b111));
        shmem.barrier_all().unwrap();
    });
}

pub fn floats_are_read_set_and_swapped(wire: &Wire) {
    run(wire, 2, |shmem| {
        let (me, other) = (shmem.my_pe(), 1 - shmem.my_pe());
        let (small, large) = (shmem.calloc::<f32>(2).unwrap(), shmem.calloc::<f64>(2).unwrap());
        shmem.atomic_set(small, 1, -0.5, other).unwrap();
        assert_eq!(shmem.atomic_swap(large, 1, f64::from(me) + 0.25, other), Ok(0.0));
        shmem.atomic_swap_nbi((large, 0), large, 1, f64::NAN, other).unwrap();
        shmem.barrier_all().unwrap();
        assert_eq!(shmem.read(small, 0, 2).unwrap(), [0.0, -0.5]);
        assert_eq!(shmem.atomic_fetch(small, 1, other), Ok(-0.5));
        assert_eq!(shmem.read(large, 0, 1).unwrap(), [f64::from(me) + 0.25]);
        assert!(shmem.atomic_fetch(large, 1, me).unwrap().is_nan());
        shmem.barrier_all().unwrap();
    });
}

pub fn objects_grow_and_shrink(wire: &Wire) {
    run(wire, 2, |shmem| {
        let (me, other) = (shmem.my_pe(), 1 - shmem.my_pe());
        let row = shmem.malloc::<u64>(100).unwrap();
        let behind = shmem.calloc::<u64>(8).unwrap();
        shmem.put(row, 0, &[u64::from(me) + 7; 100], other).unwrap();
        let long = shmem.realloc(row, 1000).unwrap();
        assert_eq!(shmem.read(long, 0, 100).unwrap(), [u64::from(other) + 7; 100], "what was put is kept");
        shmem.put(long, 900, &[u64::from(me); 100], other).unwrap();
        shmem.barrier_all().unwrap();
        assert_eq!(shmem.read(behind, 0, 8).unwrap(), [0; 8], "nobody else's");
        assert_eq!(shmem.read(long, 900, 100).unwrap(), [u64::from(other); 100]);
        assert!(matches!(shmem.realloc(long, HEAP), Err(Error::HeapFull { .. })));
        assert!(matches!(shmem.realloc(long, usize::MAX), Err(Error::HeapFull { .. })));
        let short = shmem.realloc(long, 3).unwrap();
        assert_eq!(shmem.read(short, 0, 3).unwrap(), [u64::from(other) + 7; 3]);
        assert_eq!(shmem.realloc(short.part(1, 1).unwrap(), 5).unwrap_err(), Error::NotAllocated);
        let page = shmem.align::<u8>(1 << 12, 10).unwrap();
        assert_eq!(page.len(), 10);
        assert!(matches!(shmem.align::<u8>(1 << 63, 1), Ok(_) | Err(Error::HeapFull { .. })));
        assert!(shmem.align::<u8>(0, 1).is_err());
        shmem.free(short).unwrap();
    });
}

pub fn a_signal_comes_after_its_data(wire: &Wire) {
    let rounds = wire.times(100);
    run(wire, 3, |shmem| {
        let me = shmem.my_pe();
        let data = shmem.calloc::<u64>(3 * 500).unwrap();
        let signal = shmem.calloc::<u64>(1).unwrap();
        for round in 1..=rounds {
            let mine = vec![round * 10 + u64::from(me); 500];
            for pe in (0..3).filter(|&pe| pe != me) {
                shmem.put_signal(data, 500 * me as usize, &mine, signal, Signal::Add(1), pe).unwrap();
            }
            shmem.signal_wait_until(signal, Cmp::Ge, 2 * round).unwrap();
            for from in (0..3).filter(|&pe| pe != me) {
                let seen = shmem.read(data, 500 * from as usize, 500).unwrap();
                assert!(seen.iter().all(|&word| word == round * 10 + u64::from(from)));
            }
            shmem.barrier_all().unwrap();
        }
        assert_eq!(shmem.signal_fetch(signal).unwrap(), 2 * rounds);
    });
}

pub fn locks_exclude(wire: &Wire) {
    let each = wire.times(60);
    run(wire, 3, |shmem| {
        let lock = shmem.calloc::<u64>(1).unwrap();
        let count = shmem.calloc::<u64>(1).unwrap();
        for _ in 0..each {
            shmem.set_lock(lock).unwrap();
            let seen = shmem.g(count, 0, 2).unwrap();
            shmem.p(count, 0, seen + 1, 2).unwrap();
            shmem.clear_lock(lock).unwrap();
        }
        shmem.barrier_all().unwrap();
        assert_eq!(shmem.g(count, 0, 2).unwrap(), 3 * each);
        assert!(shmem.clear_lock(lock).is_err(), "it is nobody's");
    });
}

pub fn collectives_over_active_sets_and_teams(wire: &Wire) {
    run(wire, 5, |shmem| {
        let me = shmem.my_pe();
        let world = shmem.team_world();
        let odd = Team::active_set(1, 1, 2).unwrap();
        let tail = shmem.team_split_strided(world, 2, 1, 3).unwrap();
        assert_eq!(tail.is_some(), me >= 2);
        for team in [Some(world), (me % 2 == 1).then_some(odd), tail].into_iter().flatten() {
            let (n, index) = (team.n_pes() as usize, team.pe_of(me).unwrap());
            let ranks: Vec<u32> = (0..team.n_pes()).map(|i| team.translate(i).unwrap()).collect();
            for root in 0..team.n_pes() {
                let mut values = [if index == root { root + 100 } else { 0 }; 3];
                shmem.broadcast(team, root, &mut values).unwrap();
                assert_eq!(values, [root + 100; 3]);
            }
            let sum = shmem.reduce(team, Op::Sum, &[me, 1]).unwrap();
            assert_eq!(sum, [ranks.iter().sum(), n as u32]);
            assert_eq!(shmem.reduce(team, Op::Max, &[me]).unwrap(), [*ranks.iter().max().unwrap()]);
            assert_eq!(shmem.reduce(team, Op::Min, &[me]).unwrap(), [*ranks.iter().min().unwrap()]);
            assert_eq!(
                shmem.reduce(team, Op::Xor, &[1u8 << me]).unwrap(),
                [ranks.iter().map(|r| 1 << r).sum()]
            );
            assert_eq!(shmem.reduce(team, Op::Prod, &[2.0]).unwrap(), [2f64.powi(n as i32)]);
            assert!(shmem.reduce(team, Op::Or, &[1.0]).is_err());
            let uneven = shmem.collect(team, &vec![me; me as usize]).unwrap();
            let expected: Vec<u32> = ranks.iter().flat_map(|&r| vec![r; r as usize]).collect();
            assert_eq!(uneven, expected);
            assert_eq!(shmem.fcollect(team, &[me]).unwrap(), ranks);
            let out: Vec<u32> = ranks.iter().flat_map(|&to| [me * 10, to]).collect();
            let came = shmem.alltoall(team, &out, 2).unwrap();
            let expected: Vec<u32> = ranks.iter().flat_map(|&from| [from * 10, me]).collect();
            assert_eq!(came, expected);
            let (mut into, spaced) = (vec![0; 2 * n], (0..3 * n as u32).collect::<Vec<_>>());
            for (stride, count) in [(1 << 63, 2), (0, 1), (1, usize::MAX), (usize::MAX, 2)] {
                let refused = shmem.alltoalls(team, &mut into, stride, &spaced, 1, count);
                assert!(matches!(refused, Err(Error::Mismatch(_) | Error::Region(_))), "{refused:?}");
            }
            shmem.alltoalls(team, &mut into, 2, &spaced, 3, 1).unwrap();
            assert!((0..n).all(|i| into[2 * i] == 3 * index && into[2 * i + 1] == 0));
            shmem.barrier(team).unwrap();
        }
        if me % 2 == 0 {
            assert_eq!(shmem.team_sync(odd), Err(Error::NotMember));
        }
    });
}

pub fn teams_split_in_rows_and_columns(wire: &Wire) {
    run(wire, 5, |shmem| {
        // 0 1 2
        // 3 4
        let me = shmem.my_pe();
        let (row, column) = shmem.team_split_2d(shmem.team_world(), 3).unwrap();
        assert_eq!((row.pe_of(me), column.pe_of(me)), (Some(me % 3), Some(me / 3)));
        assert_eq!(
            (row.n_pes(), column.n_pes()),
            (if me < 3 { 3 } else { 2 }, if me % 3 == 2 { 1 } else { 2 })
        );
        let rows = shmem.reduce(row, Op::Sum, &[me]).unwrap();
        let columns = shmem.reduce(column, Op::Sum, &[me]).unwrap();
        assert_eq!(rows, [if me < 3 { 3 } else { 7 }]);
        assert_eq!(columns, [[3, 5, 2][me as usize % 3]]);
        assert_eq!(row.translate_pe(0, column), (me % 3 == 0).then_some(me / 3));
    });
}

pub fn the_heap_is_symmetric_and_bounded(wire: &Wire) {
    run(wire, 2, |shmem| {
        assert!(matches!(shmem.malloc::<u8>(2 * HEAP), Err(Error::HeapFull { .. })));
        let a = shmem.malloc::<u8>(HEAP / 2).unwrap();
        shmem.write(a, 0, &vec![7; HEAP / 2]).unwrap();
        assert!(matches!(shmem.calloc::<u8>(HEAP / 2 + 1), Err(Error::HeapFull { .. })));
        shmem.free(a).unwrap();
        assert_eq!(shmem.free(a), Err(Error::NotAllocated), "only once");
        let b = shmem.calloc::<u8>(HEAP / 2).unwrap();
        assert!(shmem.read(b, 0, HEAP / 2).unwrap().iter().all(|&byte| byte == 0));
    });
}

pub fn what_does_not_fit_is_an_error_and_touches_nothing(wire: &Wire) {
    run(wire, 2, |shmem| {
        let other = 1 - shmem.my_pe();
        let words = shmem.calloc::<u32>(8).unwrap();
        let outside = || Error::Region(RegionError::OutOfRange);
        assert_eq!(shmem.put(words, 5, &[1; 4], other), Err(outside()));
        assert_eq!(shmem.put(words, usize::MAX, &[1], other), Err(outside()));
        assert_eq!(shmem.get(&mut [0; 9], words, 0, other), Err(outside()));
        assert_eq!(shmem.iput(words, 1, 7, &[1, 1], 1, 2, other), Err(outside()));
        assert_eq!(shmem.atomic_add(words, 8, 1, other), Err(outside()));
        assert_eq!(shmem.get_nbi((words, 4), (words, 0), 5, other), Err(outside()));
        assert_eq!(shmem.write(words, 8, &[1]), Err(outside()));
        assert_eq!(shmem.wait_until(words, 8, Cmp::Eq, 0), Err(outside()));
        let nobody = Err(Error::NoSuchRank { rank: 2, size: 2 });
        assert_eq!(shmem.p(words, 0, 1, 2), nobody);
        assert_eq!(shmem.g(words, 0, 2).map(|_| ()), nobody);
        assert!(!shmem.pe_accessible(2) && shmem.pe_accessible(other));
        shmem.barrier_all().unwrap();
        assert_eq!(shmem.read(words, 0, 8).unwrap(), [0; 8]);
    });
}

pub fn waiting_for_the_dead_is_an_error(wire: &Wire) {
    wire.run(2, |endpoint| {
        let shmem = Shmem::init(endpoint, HEAP).unwrap();
        shmem.set_timeout(PATIENCE);
        let flag = shmem.calloc::<u64>(1).unwrap();
        shmem.barrier_all().unwrap();
        if shmem.my_pe() == 1 {
            return;
        }
        assert_eq!(shmem.wait_until(flag, 0, Cmp::Ne, 0), Err(Error::Lost(Peer(1))));
        assert_eq!(shmem.barrier_all(), Err(Error::Lost(Peer(1))));
        assert!(!shmem.pe_accessible(1));
        assert_eq!(shmem.p(flag, 0, 1, 1), Err(Error::Lost(Peer(1))));
        assert_eq!(shmem.set_lock(flag), Ok(()), "the lock is at PE 0, which is here");
    });
}

pub fn a_pe_that_leaves_early_is_an_error_for_all_that_wait(wire: &Wire) {
    wire.run(3, |endpoint| {
        let shmem = Shmem::init(endpoint, HEAP).unwrap();
        shmem.set_timeout(PATIENCE);
        let flag = shmem.calloc::<u64>(1).unwrap();
        if shmem.my_pe() == 2 {
            return;
        }
        // The first of the two to know leaves, too, but is not to blame.
        assert_eq!(shmem.wait_until(flag, 0, Cmp::Ne, 0), Err(Error::Lost(Peer(2))));
        assert_eq!(shmem.wait_until(flag, 0, Cmp::Ne, 0), Err(Error::Lost(Peer(2))), "it stays so");
        assert_eq!(shmem.wait_until(flag, 0, Cmp::Eq, 0), Ok(0), "what is there is found");
    });
}

pub fn a_pe_that_has_finished_disturbs_nobody(wire: &Wire) {
    let rounds = wire.times(100);
    run(wire, 3, |shmem| {
        let (me, flag) = (shmem.my_pe(), shmem.calloc::<u64>(1).unwrap());
        // PE 2 is in `finalize` meanwhile.
        for round in (1..=rounds).take_while(|_| me < 2) {
            shmem.p(flag, 0, round, 1 - me).unwrap();
            shmem.wait_until(flag, 0, Cmp::Ge, round).unwrap();
        }
    });
}

pub fn a_lock_whose_holder_is_gone_is_an_error(wire: &Wire) {
    let done = AtomicBool::new(false);
    wire.run(3, |endpoint| {
        let shmem = Shmem::init(endpoint, HEAP).unwrap();
        shmem.set_timeout(PATIENCE);
        let (me, locks) = (shmem.my_pe(), shmem.calloc::<u64>(2).unwrap());
        let (kept, given_back) = (locks.part(0, 1).unwrap(), locks.part(1, 1).unwrap());
        if me == 2 {
            shmem.set_lock(kept).unwrap();
            shmem.set_lock(given_back).unwrap();
        }
        shmem.barrier_all().unwrap();
        if me == 2 {
            shmem.clear_lock(given_back).unwrap();
            return;
        }
        assert_eq!(shmem.set_lock(kept), Err(Error::Lost(Peer(2))));
        assert_eq!(shmem.test_lock(kept), Ok(false), "it stays taken");
        shmem.set_lock(given_back).unwrap();
        shmem.clear_lock(given_back).unwrap();
        // The locks are at PE 0, which stays until PE 1 has asked for them.
        done.fetch_or(me == 1, Ordering::SeqCst);
        while !done.load(Ordering::SeqCst) {
            shmem.poll();
        }
    });
}
