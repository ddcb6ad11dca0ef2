//! Global Arrays.

use std::ops::Range;

use barewire::core::Peer;
use barewire::core::region::RegionError;
use barewire::ga::{Array, Blocks, Error, Ga};

use crate::kit::{PATIENCE, Wire, scramble};

fn run(wire: &Wire, ranks: u32, body: impl Fn(&Ga) + Sync) {
    wire.run(ranks, |endpoint| {
        let ga = Ga::new(endpoint);
        ga.set_timeout(PATIENCE);
        body(&ga);
        ga.sync().unwrap();
    });
}

/// What element `[i, j]` is in most tests.
fn element(i: usize, j: usize) -> f64 {
    (i * 1000 + j) as f64
}

/// Everybody writes its own block.
fn number(a: &Array<'_, f64>, ga: &Ga) {
    if let Some(block) = a.distribution(ga.node_id()) {
        let elements = block[0].clone().flat_map(|i| block[1].clone().map(move |j| element(i, j)));
        a.set_local(&elements.collect::<Vec<_>>()).unwrap();
    }
    ga.sync().unwrap();
}

fn numbers(patch: &[Range<usize>]) -> Vec<f64> {
    patch[0].clone().flat_map(|i| patch[1].clone().map(move |j| element(i, j))).collect()
}

pub fn patches_across_owners(wire: &Wire) {
    let rounds = wire.times(60);
    run(wire, 4, |ga| {
        let a = ga.create::<f64>(&[37, 53]).unwrap();
        number(&a, ga);
        for round in 0..rounds {
            let range = |n: u64, len: usize| {
                let (x, y) = (scramble(n) as usize % (len + 1), scramble(n + 1) as usize % (len + 1));
                x.min(y)..x.max(y)
            };
            let seed = round * 8 + u64::from(ga.node_id());
            let patch = [range(seed, 37), range(seed + 4000, 53)];
            assert_eq!(a.get(&patch).unwrap(), numbers(&patch), "{patch:?}");
            let parts = a.locate_region(&patch).unwrap();
            let covered: usize = parts.iter().map(|(_, part)| part[0].len() * part[1].len()).sum();
            assert_eq!(covered, patch[0].len() * patch[1].len());
        }
        ga.sync().unwrap();
        // One writes over everybody's blocks, another reads.
        if ga.node_id() == 3 {
            a.put(&[5..30, 10..50], &vec![-1.0; 25 * 40]).unwrap();
            a.nb_put(&[0..1, 0..53], &vec![-2.0; 53]).unwrap();
        }
        ga.sync().unwrap();
        let all = a.get(&[0..37, 0..53]).unwrap();
        for (i, j) in (0..37).flat_map(|i| (0..53).map(move |j| (i, j))) {
            let inside = (5..30).contains(&i) && (10..50).contains(&j);
            let expected = if i == 0 {
                -2.0
            } else if inside {
                -1.0
            } else {
                element(i, j)
            };
            assert_eq!(all[i * 53 + j], expected, "[{i}, {j}]");
        }
    });
}

pub fn accumulation_is_exact_under_concurrency(wire: &Wire) {
    let rounds = wire.times(100);
    run(wire, 4, |ga| {
        let me = u64::from(ga.node_id());
        let floats = ga.create::<f64>(&[20, 30]).unwrap();
        let longs = ga.create::<i64>(&[7]).unwrap();
        let narrow = ga.create::<i32>(&[7]).unwrap();
        let single = ga.create::<f32>(&[3, 3, 3]).unwrap();
        for round in 0..rounds {
            floats.acc(&[3..17, 5..25], 2.0, &vec![1.5; 14 * 20]).unwrap();
            longs.acc(&[0..7], -1, &[1, 2, 3, 4, 5, 6, 7]).unwrap();
            narrow.acc(&[2..5], 3, &[1; 3]).unwrap();
            single.acc(&[0..3, 1..2, 0..3], 0.25, &[1.0; 9]).unwrap();
            // Counting on the same elements at the same time.
            if round % 10 == me {
                longs.read_inc(&[3], 1000).unwrap();
            }
        }
        ga.sync().unwrap();
        let total = 4 * rounds;
        let patch = floats.get(&[0..20, 0..30]).unwrap();
        for (i, j) in (0..20).flat_map(|i| (0..30).map(move |j| (i, j))) {
            let inside = (3..17).contains(&i) && (5..25).contains(&j);
            assert_eq!(patch[i * 30 + j], if inside { 3.0 * total as f64 } else { 0.0 });
        }
        let counted = (0..4).map(|me| (0..rounds).filter(|round| round % 10 == me).count()).sum::<usize>();
        let expected = (1..=7).map(|k| -k * total as i64 + if k == 4 { 1000 * counted as i64 } else { 0 });
        assert_eq!(longs.get(&[0..7]).unwrap(), expected.collect::<Vec<_>>());
        let three = 3 * total as i32;
        assert_eq!(narrow.get(&[0..7]).unwrap(), [0, 0, three, three, three, 0, 0]);
        assert_eq!(single.get(&[1..2, 0..3, 2..3]).unwrap(), [0.0, total as f32 / 4.0, 0.0]);
    });
}

pub fn one_rank_sees_its_own_order(wire: &Wire) {
    let rounds = wire.times(100);
    run(wire, 3, |ga| {
        let a = ga.create::<i64>(&[3, 3000]).unwrap();
        let me = ga.node_id() as usize;
        // A row that lies on several ranks and that nobody else uses.
        let row = [me..me + 1, 0..3000];
        for round in 0..rounds as i64 {
            a.nb_put(&row, &vec![round; 3000]).unwrap();
            a.acc(&row, 2, &vec![5; 3000]).unwrap();
            assert_eq!(a.read_inc(&[me, 2999], 1).unwrap(), round + 10);
            let seen = a.get(&row).unwrap();
            assert!(seen[..2999].iter().all(|&x| x == round + 10) && seen[2999] == round + 11);
        }
    });
}

pub fn single_elements_scatter_and_gather(wire: &Wire) {
    run(wire, 4, |ga| {
        let a = ga.create::<i64>(&[40, 40]).unwrap();
        let me = ga.node_id() as usize;
        let places: Vec<[usize; 2]> = (0..40).map(|k| [k, (k * 7 + me * 10) % 40]).collect();
        let places: Vec<&[usize]> = places.iter().map(|place| &place[..]).collect();
        let values: Vec<i64> = (0..40).map(|k| (me * 100 + k) as i64).collect();
        a.scatter(&places, &values).unwrap();
        a.scatter_acc(&places, 10, &[1; 40]).unwrap();
        ga.sync().unwrap();
        assert_eq!(a.gather(&places).unwrap(), values.iter().map(|v| v + 10).collect::<Vec<_>>());
        let sum: i64 = a.get(&[0..40, 0..40]).unwrap().iter().sum();
        assert_eq!(sum, (0..4).map(|me| (0..40).map(|k| me * 100 + k + 10).sum::<i64>()).sum());
        assert!(a.gather(&[&[1, 40]]).is_err() && a.gather(&[&[1]]).is_err());
        assert!(a.scatter(&places, &values[1..]).is_err());
    });
}

pub fn nobody_gets_a_number_twice(wire: &Wire) {
    let each = wire.times(200);
    run(wire, 4, |ga| {
        let counter = ga.create::<i64>(&[2]).unwrap();
        let mine: Vec<i64> = (0..each).map(|_| counter.read_inc(&[1], 3).unwrap()).collect();
        let mut seen = vec![0i64; 4 * each as usize];
        for number in mine {
            assert_eq!(number % 3, 0);
            seen[number as usize / 3] += 1;
        }
        ga.gop(&mut seen, |a, b| a + b).unwrap();
        assert!(seen.iter().all(|&count| count == 1));
    });
}

pub fn ones_own_block(wire: &Wire) {
    run(wire, 3, |ga| {
        let a = ga.create::<f64>(&[10, 10]).unwrap();
        number(&a, ga);
        a.update_local(|mine| mine.iter_mut().for_each(|x| *x = -*x)).unwrap();
        ga.sync().unwrap();
        let all = a.get(&[0..10, 0..10]).unwrap();
        assert!(all.iter().zip(numbers(&[0..10, 0..10])).all(|(a, b)| *a == -b));
        for i in 0..10 {
            let owner = a.locate(&[i, 3]).unwrap();
            let block = a.distribution(owner).unwrap();
            assert!(block[0].contains(&i) && block[1].contains(&3));
        }
        assert!(a.set_local(&[1.0]).is_err());
        assert_eq!(a.distribution(3), None);
        // More ranks than elements: some have nothing, and it all works.
        let small = ga.create::<i32>(&[1]).unwrap();
        small.fill(7).unwrap();
        assert_eq!(small.get(&[0..1]).unwrap(), [7]);
        assert_eq!(small.local().unwrap().len(), usize::from(ga.node_id() == 0));
    });
}

pub fn ghosts_wrap_around(wire: &Wire) {
    run(wire, 4, |ga| {
        let a = ga.create_with::<f64>(&[9, 12], &Blocks::Even, &[2, 1]).unwrap();
        number(&a, ga);
        a.update_ghosts().unwrap();
        let block = a.distribution(ga.node_id()).unwrap();
        let (padded, dims) = a.local_with_ghosts().unwrap();
        assert_eq!(dims, [block[0].len() + 4, block[1].len() + 2]);
        for (i, j) in (0..dims[0]).flat_map(|i| (0..dims[1]).map(move |j| (i, j))) {
            let global = ((block[0].start + i + 9 - 2) % 9, (block[1].start + j + 12 - 1) % 12);
            assert_eq!(padded[i * dims[1] + j], element(global.0, global.1), "[{i}, {j}] of {block:?}");
        }
        // Ghosts are not part of the array.
        assert_eq!(a.get(&[0..9, 0..12]).unwrap(), numbers(&[0..9, 0..12]));
    });
}

pub fn blocks_as_described(wire: &Wire) {
    run(wire, 4, |ga| {
        let starts = Blocks::Starts(vec![vec![0, 1], vec![0, 7]]);
        let a = ga.create_with::<f64>(&[10, 10], &starts, &[0, 0]).unwrap();
        assert_eq!(a.distribution(3).unwrap(), [1..10, 7..10]);
        number(&a, ga);
        assert_eq!(a.get(&[0..3, 5..9]).unwrap(), numbers(&[0..3, 5..9]));
        let rows = ga.create_with::<f64>(&[10, 10], &Blocks::AtLeast(vec![1, 10]), &[0, 0]).unwrap();
        assert_eq!(rows.distribution(1).unwrap(), [2..5, 0..10]);
        rows.copy_from(&a).unwrap();
        assert_eq!(rows.get(&[0..10, 0..10]).unwrap(), numbers(&[0..10, 0..10]));
        let cube = ga.create::<i32>(&[4, 4, 4]).unwrap();
        cube.put(&[1..3, 1..3, 1..3], &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        ga.sync().unwrap();
        assert_eq!(cube.get(&[2..3, 0..4, 2..3]).unwrap(), [0, 6, 8, 0]);
    });
}

pub fn whole_arrays(wire: &Wire) {
    run(wire, 3, |ga| {
        let (a, b) = (ga.create::<f64>(&[11, 5]).unwrap(), ga.create::<f64>(&[11, 5]).unwrap());
        number(&a, ga);
        b.fill(2.0).unwrap();
        let expected: f64 = numbers(&[0..11, 0..5]).iter().map(|x| 2.0 * x).sum();
        assert_eq!(a.dot(&b).unwrap(), expected);
        b.scale(0.5).unwrap();
        let c = ga.create::<f64>(&[11, 5]).unwrap();
        c.add(3.0, &a, -1.0, &b).unwrap();
        assert!(
            c.get(&[0..11, 0..5])
                .unwrap()
                .iter()
                .zip(numbers(&[0..11, 0..5]))
                .all(|(c, a)| *c == 3.0 * a - 1.0)
        );
        // One of the terms may be the sum.
        c.add(1.0, &c, 1.0, &c).unwrap();
        assert_eq!(c.get(&[10..11, 4..5]).unwrap(), [2.0 * (3.0 * element(10, 4) - 1.0)]);
        c.zero().unwrap();
        assert!(c.get(&[0..11, 0..5]).unwrap().iter().all(|&x| x == 0.0));
        let mut word = [ga.node_id()];
        ga.brdcst(1, &mut word).unwrap();
        assert_eq!(word, [1]);
    });
}

pub fn products_and_transposes(wire: &Wire) {
    for ranks in [1, 4] {
        run(wire, ranks, |ga| {
            let (m, k, n) = (13, 150, 9);
            let (a, b) = (ga.create::<f64>(&[m, k]).unwrap(), ga.create::<f64>(&[k, n]).unwrap());
            number(&a, ga);
            number(&b, ga);
            let c = ga.create::<f64>(&[m, n]).unwrap();
            c.fill(1.0).unwrap();
            c.matmul(0.5, &a, &b, 10.0).unwrap();
            let product = c.get(&[0..m, 0..n]).unwrap();
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let sum: f64 = (0..k).map(|l| element(i, l) * element(l, j)).sum();
                let difference = (product[i * n + j] - (0.5 * sum + 10.0)).abs();
                assert!(difference <= 1e-9 * sum, "[{i}, {j}]");
            }
            let turned = ga.create::<f64>(&[k, m]).unwrap();
            turned.transpose(&a).unwrap();
            let whole = turned.get(&[0..k, 0..m]).unwrap();
            assert!((0..k * m).all(|at| whole[at] == element(at % m, at / m)));
            assert!(c.matmul(1.0, &b, &a, 0.0).is_err() && c.transpose(&a).is_err());
        });
    }
}

pub fn what_is_not_in_the_array_is_an_error(wire: &Wire) {
    run(wire, 2, |ga| {
        let a = ga.create::<i32>(&[4, 4]).unwrap();
        let outside = || Error::Region(RegionError::OutOfRange);
        assert_eq!(a.get(&[0..5, 0..1]), Err(outside()));
        assert_eq!(a.get(&[0..1]), Err(outside()));
        assert_eq!(a.put(&[3..5, 0..4], &[1; 8]), Err(outside()));
        assert_eq!(a.acc(&[0..4, 1..5], 1, &[1; 16]), Err(outside()));
        assert_eq!(a.read_inc(&[4, 0], 1), Err(outside()));
        assert_eq!(a.locate(&[0, 4]), Err(outside()));
        assert!(matches!(a.put(&[0..4, 0..4], &[1; 15]), Err(Error::Mismatch(_))));
        assert_eq!(a.get(&[2..2, 0..4]).unwrap(), []);
        assert!(ga.create::<i32>(&[]).is_err() && ga.create::<i32>(&[3, 0]).is_err());
        assert!(ga.create::<f64>(&[usize::MAX, 2]).is_err());
        ga.sync().unwrap();
        assert_eq!(a.get(&[0..4, 0..4]).unwrap(), [0; 16]);
    });
}

pub fn a_destroyed_array_is_an_error(wire: &Wire) {
    run(wire, 2, |ga| {
        let a = ga.create::<i64>(&[8]).unwrap();
        let kept = ga.create::<i64>(&[8]).unwrap();
        a.get(&[0..8]).unwrap();
        let stale = a.clone();
        a.destroy().unwrap();
        let gone = Error::Region(RegionError::BadKey);
        assert_eq!(stale.get(&[0..8]), Err(gone.clone()));
        assert_eq!(stale.put(&[0..8], &[1; 8]), Err(gone.clone()));
        assert_eq!(stale.read_inc(&[7], 1), Err(gone.clone()));
        let (own, other) = if ga.node_id() == 0 { (0..4, 4..8) } else { (4..8, 0..4) };
        assert_eq!(stale.scatter_acc(&[&[own.start]], 1, &[1]), Err(gone.clone()));
        assert_eq!(stale.acc(&[own], 1, &[1; 4]), Err(gone.clone()), "one's own part, too");
        assert_eq!(stale.local(), Err(gone.clone()));
        assert_eq!(stale.local_with_ghosts(), Err(gone.clone()));
        stale.acc(&[other], 1, &[1; 4]).unwrap();
        assert_eq!(ga.fence(), Err(gone), "the owner refused");
        assert_eq!(ga.fence(), Ok(()), "it is told once");
        kept.put(&[0..8], &[2; 8]).unwrap();
        ga.sync().unwrap();
        assert_eq!(stale.destroy(), Err(Error::NotAllocated));
        assert_eq!(kept.get(&[0..8]).unwrap(), [2; 8]);
    });
}

pub fn arrays_of_the_dead_are_errors(wire: &Wire) {
    wire.run(2, |endpoint| {
        let ga = Ga::new(endpoint);
        ga.set_timeout(PATIENCE);
        let a = ga.create::<i64>(&[8]).unwrap();
        a.get(&[0..8]).unwrap();
        ga.sync().unwrap();
        if ga.node_id() == 1 {
            return;
        }
        let lost = Error::Lost(Peer(1));
        assert_eq!(ga.sync(), Err(lost.clone()));
        assert_eq!(a.get(&[0..8]), Err(lost.clone()));
        assert_eq!(a.put(&[4..8], &[1; 4]), Err(lost.clone()));
        assert_eq!(a.acc(&[4..8], 1, &[1; 4]), Err(lost.clone()));
        assert_eq!(a.read_inc(&[7], 1), Err(lost));
        assert_eq!(a.get(&[0..4]).unwrap(), [0; 4], "what is ours is still there");
    });
}
