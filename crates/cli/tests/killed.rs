//! A rank is killed while others use its memory, or wait for it, through Split-C, Shmem, Global Arrays and VMMC: every survivor gets the
//! documented error, soon, and nothing else.
//!
//! A test program without the usual harness, because it is also the ranks that it starts. Words on its command line are filters on
//! the names of the cases.

mod common;

use std::cell::RefCell;
use std::fmt::Debug;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use barewire::ga::Ga;
use barewire::shmem::{Cmp, Op, Shmem, Team};
use barewire::splitc::SplitC;
use barewire::spmd::Error;
use barewire::vmmc::{Notify, TransferError, Vmmc, Why};
use barewire_core::region::{Memory, Who};
use barewire_core::{Config, Endpoint, Peer, boot};

const RANKS: u32 = 3;
const VICTIM: u32 = 1;
/// A wait that is not ended by the death ends with another error.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

/// What survivors do when it happens.
const CASES: [&str; 24] = [
    "splitc/read",
    "splitc/write",
    "splitc/get",
    "splitc/put",
    "splitc/store",
    "splitc/store_sync",
    "splitc/all_store_sync",
    "splitc/barrier",
    "splitc/all_reduce",
    "shmem/put",
    "shmem/get",
    "shmem/atomic",
    "shmem/wait_until",
    "shmem/set_lock",
    "shmem/barrier_all",
    "shmem/reduce",
    "ga/get",
    "ga/put",
    "ga/acc",
    "ga/read_inc",
    "ga/matmul",
    "vmmc/send",
    "vmmc/write",
    "vmmc/next_event",
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, wire, case] = words.as_slice() {
        if first == "rank" {
            rank(wire == "shm", case);
            return ExitCode::SUCCESS;
        }
    }
    let filters: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let me = std::env::current_exe().expect("this program has a path");
    let mut failed = 0;
    for (wire, case) in ["shm", "tcp"].iter().flat_map(|wire| CASES.iter().map(move |case| (wire, case))) {
        let name = format!("{wire}/{case}");
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str())) {
            continue;
        }
        let program = me.to_str().expect("cargo's paths are text");
        let ran = common::run(&["-n", "3", "--keep-going", "--", program, "rank", wire, case]);
        let survived = (0..RANKS).filter(|&rank| rank != VICTIM);
        let good =
            survived.clone().all(|rank| ran.out.lines().any(|line| line == format!("survivor {rank}")));
        println!("test {name} ... {}", if good { "ok" } else { "FAILED" });
        if !good {
            println!("{ran:#?}");
            failed += 1;
        }
    }
    if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn rank(shm: bool, case: &str) {
    let job = boot::from_environment().expect("started by barewire run");
    let me = job.rank;
    let endpoint = Endpoint::open(job, Config { shm, ..Config::default() }).expect("an endpoint");
    let (layer, what) = case.split_once('/').expect("cases are layer/what");
    match layer {
        "splitc" => splitc(endpoint, what),
        "shmem" => shmem(endpoint, what),
        "vmmc" => vmmc(endpoint, what),
        _ => ga(endpoint, what),
    }
    println!("survivor {me}");
}

/// The victim serves for a while, and is gone; the others act until that is an error, and come back.
fn act(me: u32, serve: impl Fn(), act: impl FnMut() -> Result<(), Error>) {
    act_until(me, serve, act, Error::Lost(Peer(VICTIM)));
}

/// The same for a layer with an error of its own.
fn act_until<E: PartialEq + Debug>(
    me: u32,
    serve: impl Fn(),
    mut act: impl FnMut() -> Result<(), E>,
    expected: E,
) {
    let began = Instant::now();
    if me == VICTIM {
        while began.elapsed() < Duration::from_millis(30) {
            serve();
            std::thread::yield_now();
        }
        let pid = rustix::process::getpid();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("one may kill oneself");
        unreachable!("nobody survives that");
    }
    let error = loop {
        match act() {
            Ok(()) => assert!(began.elapsed() < Duration::from_secs(30), "nobody notices"),
            Err(error) => break error,
        }
    };
    assert_eq!(error, expected);
    assert_eq!(act(), Err(error), "it stays so");
}

fn splitc(endpoint: Endpoint, what: &str) {
    let sc = SplitC::new(endpoint, 1 << 16).expect("a heap");
    sc.set_timeout(PATIENCE);
    let words = sc.all_spread_malloc::<u64>(RANKS as usize, 1000).expect("room");
    let place = words.block(u64::from(VICTIM));
    sc.barrier().expect("all are there");
    act(
        sc.my_proc(),
        || sc.poll(),
        || match what {
            "read" => sc.read(place).map(|_| ()),
            "write" => sc.write(place, 1),
            "get" => sc.get(place).and_then(|_| sc.sync()),
            "put" => sc.bulk_put(place, &[1; 1000]).and_then(|_| sc.sync()),
            "store" => sc.bulk_store(place, &[1; 1000]),
            "store_sync" => sc.store_sync(8),
            "all_store_sync" => sc.all_store_sync(),
            "barrier" => sc.barrier(),
            _ => sc.all_reduce(&mut [1], |a, b| a + b),
        },
    );
    let own = words.block(u64::from(sc.my_proc()));
    sc.write(own, 5).expect("one's own memory is still there");
    assert_eq!(sc.read(own), Ok(5));
}

fn shmem(endpoint: Endpoint, what: &str) {
    let shmem = Shmem::init(endpoint, 1 << 16).expect("a heap");
    shmem.set_timeout(PATIENCE);
    let words = shmem.calloc::<u64>(1000).expect("room");
    let is_locked = what == "set_lock";
    if is_locked && shmem.my_pe() == VICTIM {
        shmem.set_lock(words).expect("nobody else wants it yet");
    }
    shmem.barrier_all().expect("all are there");
    act(
        shmem.my_pe(),
        || shmem.poll(),
        || match what {
            "put" => shmem.put(words, 0, &[1; 1000], VICTIM).and_then(|()| shmem.quiet()),
            "get" => shmem.get(&mut [0; 1000], words, 0, VICTIM),
            "atomic" => shmem.atomic_fetch_inc(words, 0, VICTIM).map(|_| ()),
            "wait_until" => shmem.wait_until(words, 0, Cmp::Ne, 0).map(|_| ()),
            "set_lock" => shmem.set_lock(words),
            "barrier_all" => shmem.barrier_all(),
            _ => shmem.reduce(shmem.team_world(), Op::Sum, &[1.0]).map(|_| ()),
        },
    );
    if is_locked {
        // The lock is at rank 0: it stays until the other has asked for it.
        let survivors = Team::active_set(0, 1, 2).expect("ranks 0 and 2");
        shmem.team_sync(survivors).expect("both are there");
    }
    shmem.write(words, 0, &[5]).expect("one's own memory is still there");
}

fn ga(endpoint: Endpoint, what: &str) {
    let ga = Ga::new(endpoint);
    ga.set_timeout(PATIENCE);
    let a = ga.create::<i64>(&[30, 30]).expect("room");
    ga.sync().expect("all are there");
    // Only what the victim owns: another survivor may be done, and gone, before this one.
    let theirs = a.distribution(VICTIM).expect("three ranks have three blocks");
    let ones = vec![1; theirs.iter().map(std::ops::Range::len).product()];
    act(
        ga.node_id(),
        || ga.poll(),
        || match what {
            "get" => a.get(&theirs).map(|_| ()),
            "put" => a.put(&theirs, &ones),
            "acc" => a.acc(&theirs, 1, &ones).and_then(|()| ga.fence()),
            "read_inc" => a.read_inc(&[theirs[0].start, theirs[1].start], 1).map(|_| ()),
            _ => a.matmul(1, &a, &a, 0),
        },
    );
    a.local().expect("one's own block is still there");
}

fn vmmc(endpoint: Endpoint, what: &str) {
    let mut node = Vmmc::new(endpoint);
    let me = node.core().me().0;
    let buffer = Memory::shared(1000).expect("room");
    node.export(&buffer, 1, Who::Anyone).expect("the first export");
    let mut proxy =
        node.import(Peer(if me == VICTIM { 0 } else { VICTIM }), 1, PATIENCE).expect("all export");
    // The victim lives until the others have what they want of it: they export once more.
    node.export(&buffer, 2, Who::Anyone).expect("another number");
    for other in (0..RANKS).filter(|&other| me == VICTIM && other != me) {
        proxy = node.import(Peer(other), 2, PATIENCE).expect("all export");
    }
    let binding = node.bind(proxy, (0, 1000), Duration::from_millis(1)).expect("it is valid");
    let node = RefCell::new(node);
    let lost = TransferError::Invalid(Why::PeerLost);
    let seen = RefCell::new(None);
    act_until(
        me,
        || {
            node.borrow_mut().poll();
        },
        || {
            let node = &mut *node.borrow_mut();
            match what {
                "send" => {
                    let transfer = node.send(proxy, 0, (&buffer, 0, 1000), Notify::Tell)?;
                    node.finish(transfer, PATIENCE)
                }
                "write" => node.write(binding, 0, &[1]).and_then(|()| node.flush(binding, PATIENCE)),
                _ => {
                    node.poll();
                    let mut seen = seen.borrow_mut();
                    *seen = seen.or(node.next_event());
                    seen.map_or(Ok(()), |event| Err(TransferError::Invalid(event.why)))
                }
            }
        },
        lost,
    );
    let event = seen.take().or_else(|| node.borrow_mut().wait("it", PATIENCE, Vmmc::next_event).ok());
    assert_eq!(event.map(|event| (event.import, event.peer)), Some((proxy, Peer(VICTIM))));
}
