//! Sixty-four processes on one host, each talking to each: what all of that costs in memory.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use barewire_core::{Config, Endpoint, Flow, Incoming, Peer, Port, SendError, WaitError, boot};

use crate::Case;
use crate::folder::{Board, Stage};
use crate::rank::{LONG, PATIENCE, SHORT};

const RANKS: u32 = 64;
/// Short messages to each peer: more than a ring holds, so that all of it is in use.
const SHORTS: u64 = 700;
/// Bytes of the long message to each peer, too many for a ring.
const LONG_BYTES: usize = 100_000;
const MEMORY_MAX: u64 = 256 << 20;

pub fn cases() -> Vec<Case> {
    vec![Case::new("crowd::sixty_four_processes_all_to_all_stay_under_256_MiB", measure).alone()]
}

fn measure() {
    let mut stage = Stage::start(RANKS, &["crowd"], "");
    let pids: Vec<u64> = (0..RANKS).map(|rank| stage.number(&format!("ready.{rank}"))).collect();
    let mut sums: HashMap<&str, u64> = HashMap::new();
    for pid in &pids {
        let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
        for name in ["Pss:", "Pss_Anon:", "Pss_File:", "Pss_Shmem:"] {
            let line = rollup.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            let kib: u64 = line.trim().strip_suffix("kB").unwrap().trim().parse().unwrap();
            *sums.entry(name).or_default() += kib << 10;
        }
    }
    let shared = shared_memory(&pids);
    // Pages of shared memory that nobody has touched are in no PSS, but they are taken all the same.
    let all = sums["Pss_Anon:"] + sums["Pss_File:"] + shared;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "{RANKS} processes all to all: {:.1} MiB PSS ({:.1} private, {:.1} files, {:.1} shared); \
         with every page of shared memory, touched or not: {:.1} MiB",
        mib(sums["Pss:"]),
        mib(sums["Pss_Anon:"]),
        mib(sums["Pss_File:"]),
        mib(sums["Pss_Shmem:"]),
        mib(all)
    );
    stage.board.note("enough", "");
    stage.end();
    assert!(sums["Pss_Shmem:"] > 0 && shared > 0, "the measurement sees shared memory");
    assert!(sums["Pss:"].max(all) < MEMORY_MAX, "{:.1} MiB", mib(sums["Pss:"].max(all)));
}

/// Bytes of all memory files that these processes have open, each counted once.
fn shared_memory(pids: &[u64]) -> u64 {
    let mut files = HashMap::new();
    for pid in pids {
        for link in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten() {
            let name = std::fs::read_link(link.path()).unwrap_or_default();
            let is_memory = name.to_string_lossy().starts_with("/memfd:");
            if let (true, Ok(file)) = (is_memory, std::fs::metadata(link.path())) {
                files.insert((file.dev(), file.ino()), file.blocks() * 512);
            }
        }
    }
    files.values().sum()
}

/// Sends short and long messages to everybody, takes everybody's, and stays until it has been measured.
pub fn rank(board: &Board) {
    let mut ep = Endpoint::open(boot::from_environment().unwrap(), Config::default()).unwrap();
    let (mut shorts, mut bytes) = (0, 0);
    let mut take = |_: &mut Endpoint, mut packet: Incoming<'_>| {
        match packet.port {
            SHORT => shorts += 1,
            _ => bytes += packet.to_vec().len(),
        }
        Flow::Continue
    };
    let others: Vec<Peer> = (0..ep.size()).map(Peer).filter(|&peer| peer != ep.me()).collect();
    for _ in 0..SHORTS {
        for &to in &others {
            send(&mut ep, &mut take, to, SHORT);
        }
    }
    let long = vec![7; LONG_BYTES];
    for &to in &others {
        let mut sending = ep.begin(to, LONG, 0, long.len() as u64).unwrap();
        ep.wait(&mut take, Some(PATIENCE), |ep, _| {
            let rest = &long[sending.sent() as usize..];
            match ep.push(&mut sending, rest) {
                Ok(_) | Err(SendError::Full) => sending.is_done(),
                Err(error) => panic!("{error}"),
            }
        })
        .unwrap();
    }
    let everything = |ep: &mut Endpoint| {
        let stats = ep.stats();
        stats.received_bytes >= others.len() as u64 * (8 * SHORTS + LONG_BYTES as u64)
    };
    ep.wait(&mut take, Some(PATIENCE), |ep, _| everything(ep)).unwrap();
    board.note(&format!("ready.{}", ep.me()), &std::process::id().to_string());
    while !board.has("enough") {
        let nap = ep.wait(&mut take, Some(Duration::from_millis(50)), |_, _| false);
        assert_eq!(nap, Err(WaitError::TimedOut));
    }
    assert_eq!((shorts, bytes), (others.len() * SHORTS as usize, others.len() * LONG_BYTES));
}

fn send(ep: &mut Endpoint, take: &mut impl barewire_core::Deliver, to: Peer, port: Port) {
    ep.wait(take, Some(PATIENCE), |ep, _| match ep.send(to, port, 0, &[1; 8]) {
        Ok(()) => true,
        Err(SendError::Full) => false,
        Err(error) => panic!("{error}"),
    })
    .unwrap();
}
