//! A pipeline by redirection: each rank produces blocks for the next one, which takes each straight into the array where it
//! belongs. What arrives before its consumer has said where is copied once; the rest is not copied at all.

use std::collections::VecDeque;
use std::time::Duration;

use barewire::core::region::{Memory, Who};
use barewire::core::{Config, Endpoint, Peer, job::Job};
use barewire::vmmc::{ExportOptions, Notify, Vmmc};

const INBOX: u32 = 1;
const BLOCK: u64 = 16 << 10;
const BLOCKS: u64 = 64;
/// Blocks that a producer may be ahead: places in its consumer's inbox.
const AHEAD: u64 = 4;
const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

/// Block `number` of rank `rank`.
fn block(rank: u32, number: u64) -> Vec<u8> {
    (0..BLOCK).map(|at| (at * 31 + number * 7 + u64::from(rank) + (at >> 8)) as u8).collect()
}

/// How many blocks the next one says it has taken.
fn count(taken: &Memory) -> u64 {
    let mut count = [0; 8];
    assert!(taken.read(0, &mut count));
    u64::from_le_bytes(count)
}

/// What a rank did with the blocks it got: how many were not copied, and how many once.
fn rank_main(job: Job) -> Result<(u64, u64), Box<dyn std::error::Error>> {
    let mut node = Vmmc::new(Endpoint::open(job, Config::default())?);
    let (me, size) = (node.core().me().0, node.core().size());
    let (next, last) = (Peer((me + 1) % size), Peer((me + size - 1) % size));
    let inbox = Memory::shared((AHEAD * BLOCK) as usize)?;
    let options = ExportOptions { redirectable: true };
    let export = node.export_with(&inbox, INBOX, Who::Only(vec![last]), options)?;
    // How many blocks the next one has taken: it writes that number here.
    let taken = Memory::shared(8)?;
    node.export(&taken, INBOX + 1, Who::Only(vec![next]))?;
    let outbox = node.import(next, INBOX, PATIENCE)?;
    let progress = node.import(last, INBOX + 1, PATIENCE)?;

    let result = Memory::shared((BLOCKS * BLOCK) as usize)?;
    let (mut sent, mut got) = (0, 0);
    let mut places = VecDeque::new();
    let mut tell = false;
    while sent < BLOCKS || got < BLOCKS || tell {
        // The producer hears of a place before it hears that it may fill it.
        while got + (places.len() as u64) < BLOCKS && (places.len() as u64) < AHEAD {
            let at = (got + places.len() as u64) * BLOCK;
            places.push_back(node.redirect(export, last, (&result, at, BLOCK))?);
        }
        if std::mem::take(&mut tell) {
            let word = Memory::private(8);
            assert!(word.write(0, &u64::to_le_bytes(got)));
            let transfer = node.send(progress, 0, (&word, 0, 8), Notify::Quiet)?;
            node.finish(transfer, PATIENCE)?;
        }
        let may_send = count(&taken) + AHEAD;
        node.poll();
        if sent < BLOCKS && sent < may_send {
            let source = Memory::private(BLOCK as usize);
            assert!(source.write(0, &block(me, sent)));
            let transfer = node.send(outbox, sent % AHEAD * BLOCK, (&source, 0, BLOCK), Notify::Quiet)?;
            node.finish(transfer, PATIENCE)?;
            sent += 1;
        }
        if let Some(redirected) = places.front().and_then(|&place| node.redirect_done(place)) {
            assert_eq!(redirected?.len, BLOCK);
            places.pop_front();
            (got, tell) = (got + 1, true);
        }
        std::thread::yield_now();
    }
    for number in 0..BLOCKS {
        let mut bytes = vec![0; BLOCK as usize];
        assert!(result.read((number * BLOCK) as usize, &mut bytes));
        assert!(bytes == block(last.0, number), "block {number} of rank {last}");
    }
    // Serve the others until the last of our blocks is taken.
    node.wait("the consumer", PATIENCE, |_| (count(&taken) == BLOCKS).then_some(()))?;
    let counters = node.counters();
    Ok((counters.early, counters.late))
}

fn main() {
    for ranks in [2, 4] {
        let jobs = Job::threads(ranks).expect("a job of threads");
        let running: Vec<_> = jobs
            .into_iter()
            .map(|job| std::thread::spawn(move || rank_main(job).expect("nothing goes wrong in one process")))
            .collect();
        let counts: Vec<(u64, u64)> = running.into_iter().map(|rank| rank.join().expect("a rank")).collect();
        let (early, late) = counts.iter().fold((0, 0), |(e, l), (early, late)| (e + early, l + late));
        println!("{ranks} ranks: {early} blocks without a copy, {late} with one, all of them right");
        assert_eq!(early + late, u64::from(ranks) * BLOCKS);
    }
}
