//! Sample sort in Split-C: everybody learns where to cut from a sample of all keys, stores each key to the processor it belongs to, and
//! sorts what came. Runs at 2 and at 4 processors, or as ranks of `barewire run`.

use barewire::core::Endpoint;
use barewire::splitc::{Error, SplitC};
use barewire::spmd;

/// Keys on each processor at the beginning.
const KEYS: usize = 20_000;
/// Keys of each processor in the sample.
const SAMPLE: usize = 64;

fn sort(endpoint: Endpoint) -> Result<(), Error> {
    let room = 2 * KEYS;
    let sc = SplitC::new(endpoint, room * 8 + (64 << 10))?;
    let (me, procs) = (sc.my_proc() as usize, sc.procs() as usize);
    let mut keys: Vec<u64> = (0..KEYS).map(|i| scramble((me * KEYS + i) as u64) >> 20).collect();
    let before = digest(&sc, &keys)?;

    // A sample of everybody's keys, and every 64th of them in order as a splitter.
    let samples = sc.all_spread_malloc::<u64>(procs, SAMPLE)?;
    let sample: Vec<u64> = keys.iter().step_by(KEYS / SAMPLE).take(SAMPLE).copied().collect();
    let mut all = Vec::new();
    sc.bulk_write(samples.block(me as u64), &sample)?;
    sc.barrier()?;
    for proc in 0..procs as u64 {
        let mut part = [0; SAMPLE];
        sc.bulk_read(samples.block(proc), &mut part)?;
        all.extend(part);
    }
    all.sort_unstable();
    let splitters: Vec<u64> = (1..procs).map(|i| all[i * SAMPLE]).collect();

    // Which processor each key belongs to, and where there its keys of ours begin.
    keys.sort_unstable();
    let cuts: Vec<usize> = splitters.iter().map(|s| keys.partition_point(|key| key < s)).collect();
    let bounds = [&[0], &cuts[..], &[KEYS]].concat();
    let mut counts = [0u64; 64];
    (0..procs).for_each(|proc| counts[proc] = (bounds[proc + 1] - bounds[proc]) as u64);
    let everybodys = sc.all_gather(counts)?;

    // One way, and counted where it arrives.
    let bucket = sc.all_spread_malloc::<u64>(procs, room)?;
    for proc in 0..procs {
        let before_mine: u64 = everybodys[..me].iter().map(|counts| counts[proc]).sum();
        let mine = &keys[bounds[proc]..bounds[proc + 1]];
        sc.bulk_store(bucket.block(proc as u64).add(before_mine), mine)?;
    }
    sc.all_store_sync()?;
    let here: u64 = everybodys.iter().map(|counts| counts[me]).sum();
    let mut sorted = vec![0; here as usize];
    sc.bulk_read(bucket.block(me as u64), &mut sorted)?;
    sorted.sort_unstable();

    // The same keys, in order here and from processor to processor.
    assert_eq!(digest(&sc, &sorted)?, before, "no key was lost or changed");
    let ends = sc.all_gather([sorted[0], sorted[sorted.len() - 1]])?;
    assert!(ends.windows(2).all(|pair| pair[0][1] <= pair[1][0]), "processors follow each other");
    if me == 0 {
        println!("{} keys sorted by {procs} processors; the first has {here}", procs * KEYS);
    }
    sc.barrier()
}

/// What is the same for the same keys in any order: how many, their sum, and the sum of their scrambles.
fn digest(sc: &SplitC, keys: &[u64]) -> Result<[u64; 3], Error> {
    let sum = |f: fn(u64) -> u64| keys.iter().fold(0u64, |sum, &key| sum.wrapping_add(f(key)));
    let mut digest = [keys.len() as u64, sum(|key| key), sum(scramble)];
    sc.all_reduce(&mut digest, |a, b| a.wrapping_add(b))?;
    Ok(digest)
}

fn scramble(n: u64) -> u64 {
    let x = (n ^ n >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    let x = (x ^ x >> 27).wrapping_mul(0x81da_def4_bc2d_d44d);
    x ^ x >> 33
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    spmd::launch(&[2, 4], sort)
}
