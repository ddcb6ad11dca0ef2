//! Collective calls against what one computes plainly, and with members that fail.

use barewire::mpi::group::Process;
use barewire::mpi::{Any, Comm, Error};

use crate::common::Meeting;
use crate::kit::{Wire, scramble};
use crate::{run, run_until_they_leave};

/// What a rank passes to a call.
fn mine(rank: u32, len: usize) -> Vec<u64> {
    (0..len as u64).map(|i| scramble(i ^ u64::from(rank) << 40) >> 8).collect()
}

fn ranks(comm: &Comm) -> impl Iterator<Item = u32> + use<> {
    0..comm.size()
}

fn everybodys(comm: &Comm, len: usize) -> Vec<u64> {
    ranks(comm).flat_map(|rank| mine(rank, len)).collect()
}

/// The values of some ranks, combined from left to right.
fn combined(some: impl Iterator<Item = u32>, len: usize) -> Vec<u64> {
    let all = some.map(|rank| mine(rank, len));
    all.reduce(|a, b| a.iter().zip(&b).map(|(a, b)| a.wrapping_add(*b)).collect()).unwrap_or_default()
}

pub fn everything_agrees_with_a_plain_computation(wire: &Wire) {
    for size in 1..=5 {
        run(wire, size, |comm| {
            for len in [0, 1, 3, 1000, 6000] {
                for root in if len == 3 { 0..size } else { 0..1 } {
                    with_root(comm, len, root);
                }
                without_root(comm, len);
            }
        });
    }
}

fn with_root(comm: &Comm, len: usize, root: u32) {
    let (me, is_root) = (comm.rank(), comm.rank() == root);
    let mut values = if is_root { mine(root, len) } else { vec![0; len] };
    comm.broadcast(&mut values, root).unwrap();
    assert_eq!(values, mine(root, len));
    values = mine(me, len);
    comm.reduce(&mut values, root, u64::wrapping_add).unwrap();
    assert_eq!(values, if is_root { combined(ranks(comm), len) } else { mine(me, len) });
    let mut all = vec![0; if is_root { len * comm.size() as usize } else { 0 }];
    comm.gather(&mine(me, len), &mut all, root).unwrap();
    assert_eq!(all, if is_root { everybodys(comm, len) } else { vec![] });
    let mut part = vec![0; len];
    comm.scatter(&all, &mut part, root).unwrap();
    assert_eq!(part, mine(me, len), "what was gathered is scattered again");
}

fn without_root(comm: &Comm, len: usize) {
    let (me, size) = (comm.rank(), comm.size() as usize);
    comm.barrier().unwrap();
    let mut values = mine(me, len);
    comm.all_reduce(&mut values, u64::wrapping_add).unwrap();
    assert_eq!(values, combined(ranks(comm), len));
    let mut all = vec![0; len * size];
    comm.all_gather(&mine(me, len), &mut all).unwrap();
    assert_eq!(all, everybodys(comm, len));
    let mut theirs = vec![0; len * size];
    comm.all_to_all(&mine(me, len * size), &mut theirs).unwrap();
    let parts = ranks(comm).flat_map(|rank| mine(rank, len * size)[me as usize * len..][..len].to_vec());
    assert_eq!(theirs, parts.collect::<Vec<_>>());
    let mut part = vec![0; len];
    comm.reduce_scatter_block(&mine(me, len * size), &mut part, u64::wrapping_add).unwrap();
    assert_eq!(part, combined(ranks(comm), len * size)[me as usize * len..][..len]);
    let mut sums = mine(me, len);
    comm.scan(&mut sums, u64::wrapping_add).unwrap();
    assert_eq!(sums, combined(0..=me, len));
    sums = mine(me, len);
    comm.exclusive_scan(&mut sums, 7, u64::wrapping_add).unwrap();
    assert_eq!(sums, if me == 0 { vec![7; len] } else { combined(0..me, len) });
}

/// Two affine maps after each other: associative, and not commutative.
fn after(first: [u64; 2], then: [u64; 2]) -> [u64; 2] {
    [first[0].wrapping_mul(then[0]), first[1].wrapping_mul(then[0]).wrapping_add(then[1])]
}

fn maps(rank: u32, len: usize) -> Vec<[u64; 2]> {
    (0..len as u64).map(|i| [scramble(i) | 1, scramble(i + u64::from(rank) * 1000)]).collect()
}

fn after_each_other(some: impl Iterator<Item = u32>, len: usize) -> Vec<[u64; 2]> {
    let all = some.map(|rank| maps(rank, len));
    all.reduce(|a, b| a.iter().zip(&b).map(|(a, b)| after(*a, *b)).collect()).unwrap_or_default()
}

fn reductions_in_order(comm: &Comm, len: usize) {
    let (me, size) = (comm.rank(), comm.size());
    let mut values = maps(me, len);
    comm.all_reduce(&mut values, after).unwrap();
    assert!(values == after_each_other(0..size, len));
    for root in 0..size {
        let mut values = maps(me, len);
        comm.reduce(&mut values, root, after).unwrap();
        assert!(me != root || values == after_each_other(0..size, len));
    }
    let mut values = maps(me, len);
    comm.scan(&mut values, after).unwrap();
    assert!(values == after_each_other(0..=me, len));
    let mut values = maps(me, len);
    comm.exclusive_scan(&mut values, [1, 0], after).unwrap();
    assert!(me == 0 || values == after_each_other(0..me, len));
    let counts: Vec<usize> = (0..size as usize).map(|rank| if rank == 0 { len } else { rank }).collect();
    let total = counts.iter().sum();
    let part = comm.reduce_scatter(&maps(me, total), &counts, after).unwrap();
    let start: usize = counts[..me as usize].iter().sum();
    assert!(part == after_each_other(0..size, total)[start..start + counts[me as usize]]);
}

pub fn reductions_keep_the_order_of_ranks(wire: &Wire) {
    for size in 1..=5 {
        run(wire, size, |comm| reductions_in_order(comm, 3));
    }
}

pub fn long_reductions_keep_the_order_of_ranks(wire: &Wire) {
    run(wire, 3, |comm| reductions_in_order(comm, 5000));
}

pub fn sums_are_the_same_bits_everywhere(wire: &Wire) {
    for len in [5, 4000] {
        run(wire, 5, |comm| {
            let mut sums: Vec<f64> = mine(comm.rank(), len).into_iter().map(|n| n as f64 * 1e-3).collect();
            comm.all_reduce(&mut sums, |a, b| a + b).unwrap();
            let bits: Vec<u64> = sums.iter().map(|sum| sum.to_bits()).collect();
            let mut all = vec![0; 5 * len];
            comm.all_gather(&bits, &mut all).unwrap();
            assert!(all.chunks(len).all(|theirs| theirs == bits));
        });
    }
}

pub fn parts_of_different_lengths(wire: &Wire) {
    for size in 1..=4 {
        run(wire, size, |comm| {
            let (me, n) = (comm.rank(), comm.size() as usize);
            let counts: Vec<usize> = (0..n).map(|rank| rank * 700 % 1500).collect();
            let own = mine(me, counts[me as usize]);
            let expected: Vec<u64> = ranks(comm).flat_map(|rank| mine(rank, counts[rank as usize])).collect();
            let mut all = vec![0; expected.len()];
            comm.all_gather_varied(&own, &mut all, &counts).unwrap();
            assert_eq!(all, expected);
            for root in 0..size {
                let mut all = vec![0; if me == root { expected.len() } else { 0 }];
                comm.gather_varied(&own, &mut all, if me == root { &counts } else { &[] }, root).unwrap();
                assert!(me != root || all == expected);
                let mut part = vec![0; own.len()];
                comm.scatter_varied(&all, if me == root { &counts } else { &[] }, &mut part, root).unwrap();
                assert_eq!(part, own);
            }
            // Rank i gives i + j values to rank j.
            let gives: Vec<usize> = (0..n).map(|to| to + me as usize).collect();
            let mut theirs = vec![0; gives.iter().sum()];
            comm.all_to_all_varied(&mine(me, theirs.len()), &gives, &mut theirs, &gives).unwrap();
            let part = |from: usize| {
                let start: usize = (0..me as usize).map(|to| to + from).sum();
                mine(from as u32, 1000)[start..start + from + me as usize].to_vec()
            };
            assert_eq!(theirs, (0..n).flat_map(part).collect::<Vec<_>>());
        });
    }
}

pub fn groups_make_their_calls_apart(wire: &Wire) {
    run(wire, 5, |comm| {
        let me = comm.rank();
        let half = comm.split(Some(me % 2), 0).unwrap().unwrap();
        for round in 0..10 {
            let mut sum = [me + round];
            half.all_reduce(&mut sum, |a, b| a + b).unwrap();
            assert_eq!(sum[0], if me % 2 == 0 { 6 + 3 * round } else { 4 + 2 * round });
            if round % 3 == 0 {
                let mut most = [me];
                comm.all_reduce(&mut most, Ord::max).unwrap();
                assert_eq!(most, [4]);
            }
        }
    });
}

pub fn calls_that_do_not_wait_overlap(wire: &Wire) {
    for size in [1, 2, 4] {
        run(wire, size, |comm| {
            let (me, n) = (comm.rank(), size as usize);
            for len in [1, 5000] {
                let own = || mine(me, len);
                let sum = comm.iall_reduce(own(), u64::wrapping_add).unwrap();
                let all = comm.iall_gather(own()).unwrap();
                let barrier = comm.ibarrier().unwrap();
                let told = comm.ibroadcast(if me == 0 { own() } else { vec![0; len] }, 0).unwrap();
                let to_root = comm.ireduce(own(), size - 1, u64::wrapping_add).unwrap();
                let gathered = comm.igather(own(), 0).unwrap();
                let whole = if me == 0 { everybodys(comm, len) } else { vec![] };
                let part = comm.iscatter(whole, len, 0).unwrap();
                let theirs = comm.iall_to_all(mine(me, len * n)).unwrap();
                // A call that waits, and messages, beside them.
                let mut most = [me];
                comm.all_reduce(&mut most, Ord::max).unwrap();
                comm.send(&[me], (me + 1) % size, 0).unwrap();
                comm.receive(&mut most, Any, 0).unwrap();
                let parts =
                    ranks(comm).flat_map(|rank| mine(rank, len * n)[me as usize * len..][..len].to_vec());
                assert_eq!(theirs.wait().unwrap(), parts.collect::<Vec<_>>());
                assert_eq!(part.wait().unwrap(), own());
                assert_eq!(gathered.wait().unwrap(), if me == 0 { everybodys(comm, len) } else { vec![] });
                let total = combined(0..size, len);
                assert_eq!(to_root.wait().unwrap(), if me == size - 1 { total.clone() } else { own() });
                assert_eq!(told.wait().unwrap(), mine(0, len));
                barrier.wait().unwrap();
                assert_eq!(all.wait().unwrap(), everybodys(comm, len));
                assert_eq!(sum.wait().unwrap(), total);
            }
        });
    }
}

pub fn a_task_goes_on_while_others_wait(wire: &Wire) {
    run(wire, 4, |comm| {
        // Rank 0 waits for a word of rank 3, which needs rank 0 and all others in a call that nobody else waits for.
        let sum = comm.iall_reduce(vec![1; 3000], |a, b| a + b).unwrap();
        if comm.rank() == 3 {
            assert_eq!(sum.wait().unwrap(), [4; 3000]);
            (0..3).for_each(|rank| comm.send(&[1], rank, 9).unwrap());
        } else {
            comm.receive(&mut [0], 3, 9).unwrap();
            assert_eq!(sum.wait().unwrap(), [4; 3000]);
        }
    });
}

pub fn different_lengths_are_an_error_for_all(wire: &Wire) {
    run(wire, 4, |comm| {
        let part = comm.dup().unwrap();
        let mut values = vec![1; if comm.rank() == 2 { 3 } else { 2 }];
        let error = part.all_reduce(&mut values, |a, b| a + b).unwrap_err();
        assert!(matches!(error, Error::Length { .. } | Error::GaveUp(_)), "{error}");
        assert!(part.barrier().is_err(), "it is of no use any more");
        // Others are.
        comm.barrier().unwrap();
    });
}

pub fn wrong_arguments_do_nothing(wire: &Wire) {
    run(wire, 2, |comm| {
        let nobody = Error::NoSuchRank { rank: 2, size: 2 };
        assert_eq!(comm.broadcast(&mut [0], 2), Err(nobody.clone()));
        assert_eq!(comm.ireduce(vec![0], 2, |a, _| a).unwrap_err(), nobody);
        let length = |expected, got| move |error: Error| matches!(error, Error::Length { expected: e, got: g, .. } if (e, g) == (expected, got));
        assert!(length(4, 3)(comm.all_gather(&[1, 2], &mut [0; 3]).unwrap_err()));
        assert!(length(2, 3)(comm.all_to_all(&[1, 2, 3], &mut [0; 3]).unwrap_err()));
        assert!(length(2, 1)(comm.reduce_scatter(&[1], &[1], |a, _| a).unwrap_err()));
        assert!(comm.all_gather_varied(&[1], &mut [0; 2], &[usize::MAX, 1]).is_err());
        if comm.rank() == 0 {
            assert!(length(2, 5)(comm.gather(&[1], &mut [0; 5], 0).unwrap_err()));
            assert!(length(4, 5)(comm.iscatter(vec![1; 5], 2, 0).unwrap_err()));
        }
        // The calls that follow find each other.
        let mut all = [0; 2];
        comm.all_gather(&[comm.rank()], &mut all).unwrap();
        assert_eq!(all, [0, 1]);
    });
}

pub fn a_member_that_dies_is_an_error_for_all(wire: &Wire) {
    for call in 0..5 {
        let survivors = Meeting::new(3);
        run_until_they_leave(wire, 4, |comm| {
            let pair = comm.split(Some(comm.rank() / 2), 0).unwrap().unwrap();
            comm.barrier().unwrap();
            if comm.rank() == 1 {
                return;
            }
            let (mut all, mut values) = ([0; 4], [comm.rank(); 4]);
            let error = match call {
                0 => comm.barrier(),
                1 => comm.all_reduce(&mut values, |a, b| a + b),
                2 => comm.all_gather(&values[..1], &mut all),
                3 => comm.all_to_all(&values, &mut all),
                _ => comm.broadcast(&mut values, 1),
            };
            assert_eq!(error, Err(Error::Lost(Process(1))), "call {call}");
            assert_eq!(comm.barrier(), Err(Error::Lost(Process(1))), "and it stays so");
            if comm.rank() >= 2 {
                pair.barrier().unwrap();
            }
            // Who leaves at once is a loss of its own.
            survivors.meet(|| comm.poll().unwrap());
        });
    }
}

pub fn a_member_that_dies_ends_calls_under_way(wire: &Wire) {
    let (started, survivors) = (Meeting::new(4), Meeting::new(3));
    run_until_they_leave(wire, 4, |comm| {
        let one = comm.dup().unwrap();
        let calls = (comm.rank() != 3).then(|| {
            [
                one.iall_reduce(vec![1u64; 5000], |a, b| a + b).unwrap(),
                one.iall_gather(vec![1; 10]).unwrap(),
                one.ibroadcast(vec![1; 10], 3).unwrap(),
            ]
        });
        started.meet(|| comm.poll().unwrap());
        let Some(calls) = calls else { return };
        for call in calls {
            assert_eq!(call.wait(), Err(Error::Lost(Process(3))));
        }
        survivors.meet(|| comm.poll().unwrap());
    });
}
