//! Split-C.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use barewire::core::Peer;
use barewire::core::region::RegionError;
use barewire::splitc::{Error, Global, SplitC, Spread};

use crate::kit::{PATIENCE, Wire, scramble};

const HEAP: usize = 1 << 20;

fn run(wire: &Wire, procs: u32, body: impl Fn(&SplitC) + Sync) {
    wire.run(procs, |endpoint| {
        let sc = SplitC::new(endpoint, HEAP).unwrap();
        sc.set_timeout(PATIENCE);
        body(&sc);
        sc.barrier().unwrap();
    });
}

pub fn what_is_written_is_read(wire: &Wire) {
    let rounds = wire.times(200);
    run(wire, 3, |sc| {
        let (me, procs) = (u64::from(sc.my_proc()), u64::from(sc.procs()));
        let words = sc.all_spread_malloc::<u64>(procs as usize, procs as usize).unwrap();
        for round in 0..rounds {
            for proc in 0..procs {
                sc.write(words.block(proc).add(me), scramble(round) + me * procs + proc).unwrap();
            }
            for proc in 0..procs {
                let read = sc.read(words.block(proc).add(me)).unwrap();
                assert_eq!(read, scramble(round) + me * procs + proc);
            }
        }
        // Types of all sizes.
        let small = sc.alloc::<u8>(3).unwrap();
        sc.write(small.add(1), 200).unwrap();
        assert_eq!((sc.read(small), sc.read(small.add(1)), sc.read(small.add(2))), (Ok(0), Ok(200), Ok(0)));
        let large = sc.alloc::<[f64; 5]>(2).unwrap();
        sc.write(large.add(1), [1.0, 2.0, 3.0, 4.0, f64::INFINITY]).unwrap();
        assert_eq!(sc.read(large.add(1)).unwrap()[4], f64::INFINITY);
    });
}

pub fn gets_are_valid_only_after_sync(wire: &Wire) {
    let rounds = wire.times(100);
    run(wire, 2, |sc| {
        let other = 1 - sc.my_proc();
        let numbers = sc.all_spread_malloc::<u64>(2, 64).unwrap();
        for i in 0..64 {
            sc.write(numbers.block(u64::from(sc.my_proc())).add(i), scramble(i)).unwrap();
        }
        sc.barrier().unwrap();
        for _ in 0..rounds {
            let place = numbers.block(u64::from(other));
            let gets: Vec<_> = (0..64).map(|i| sc.get(place.add(i)).unwrap()).collect();
            assert!(gets.iter().all(|get| get.value() == Err(Error::NotSynced)));
            sc.sync().unwrap();
            assert!(gets.iter().enumerate().all(|(i, get)| get.value() == Ok(scramble(i as u64))));
            let late = sc.get(place).unwrap();
            assert_eq!(late.value(), Err(Error::NotSynced), "an earlier sync does not count");
            sc.sync().unwrap();
        }
        sc.barrier().unwrap();
        for i in 0..64 {
            sc.put(numbers.block(u64::from(other)).add(i), 1000 + i).unwrap();
        }
        sc.sync().unwrap();
        sc.barrier().unwrap();
        for i in 0..64 {
            assert_eq!(sc.read(numbers.block(u64::from(sc.my_proc())).add(i)), Ok(1000 + i));
        }
    });
}

pub fn futures_end_in_any_order(wire: &Wire) {
    run(wire, 3, |sc| {
        let (me, procs) = (u64::from(sc.my_proc()), u64::from(sc.procs()));
        let words = sc.all_spread_malloc::<u64>(3, 3).unwrap();
        sc.barrier().unwrap();
        let sum = sc.block_on(async {
            let puts: Vec<_> = (0..procs).map(|p| sc.put(words.block(p).add(me), 10 * me + p)).collect();
            for put in puts {
                put?.await?;
            }
            let mut gets = Vec::new();
            for proc in 0..procs {
                gets.push(sc.get(words.block(proc).add(me))?);
            }
            let mut sum = 0;
            for get in gets.into_iter().rev() {
                sum += get.await?;
            }
            let outside = sc.get(Global::<u64>::new((sc.my_proc() + 1) % 3, u64::MAX - 100));
            let outside = match outside {
                Ok(get) => get.await,
                Err(error) => Err(error),
            };
            assert_eq!(outside, Err(Error::Region(RegionError::OutOfRange)));
            Ok::<u64, Error>(sum)
        });
        assert_eq!(sum.unwrap(), Ok(3 * 10 * me + 3));
    });
}

/// Polls a future only if it was woken, as collections of futures do.
struct WhenWoken<F> {
    inner: F,
    woken: Arc<Woken>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl<F: Future + Unpin> WhenWoken<F> {
    fn new(inner: F) -> WhenWoken<F> {
        WhenWoken { inner, woken: Arc::new(Woken(AtomicBool::new(true))) }
    }
}

impl<F: Future + Unpin> Future for WhenWoken<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<F::Output> {
        if !self.woken.0.swap(false, Ordering::SeqCst) {
            return Poll::Pending;
        }
        let waker = Waker::from(self.woken.clone());
        Pin::new(&mut self.inner).poll(&mut Context::from_waker(&waker))
    }
}

pub fn a_future_that_is_polled_only_when_woken_ends(wire: &Wire) {
    run(wire, 2, |sc| {
        let words = sc.all_spread_malloc::<u64>(2, 1).unwrap();
        let other = words.at(u64::from(1 - sc.my_proc()));
        // `block_on` itself sees the end of it.
        let put = WhenWoken::new(sc.put(other, 7).unwrap());
        assert_eq!(sc.block_on(put).unwrap(), Ok(()));
        sc.barrier().unwrap();
        // So does whoever else waits: here a sync, or a barrier and a poll.
        for by_sync in [true, false] {
            let mut get = pin!(WhenWoken::new(sc.get(other).unwrap()));
            let mut context = Context::from_waker(Waker::noop());
            let mut outcome = get.as_mut().poll(&mut context);
            if by_sync {
                sc.sync().unwrap();
            } else {
                // The first asks for the get's answer, the second comes after it.
                sc.barrier().unwrap();
                sc.barrier().unwrap();
                sc.poll();
            }
            if outcome.is_pending() {
                outcome = get.as_mut().poll(&mut context);
            }
            assert_eq!(outcome, Poll::Ready(Ok(7)), "after a sync: {by_sync}");
        }
    });
}

pub fn stores_are_counted_in_flight(wire: &Wire) {
    let each = wire.times(2000);
    run(wire, 4, |sc| {
        let (me, procs) = (u64::from(sc.my_proc()), u64::from(sc.procs()));
        let words = sc.all_spread_malloc::<u64>(4, 4 * each as usize).unwrap();
        for round in 1..=3 {
            // Everybody stores to everybody, unequally much, and nobody waits for anybody before the sync.
            for proc in 0..procs {
                for i in 0..each / (1 + me) {
                    sc.store(words.block(proc).add(me * each + i), scramble(i ^ me << 32) ^ round).unwrap();
                }
            }
            sc.all_store_sync().unwrap();
            for from in 0..procs {
                let mut seen = vec![0u64; (each / (1 + from)) as usize];
                sc.bulk_read(words.block(me).add(from * each), &mut seen).unwrap();
                let right = |(i, &word): (usize, &u64)| word == scramble(i as u64 ^ from << 32) ^ round;
                assert!(seen.iter().enumerate().all(right), "round {round} from {from}");
            }
            // Others may run ahead into the next round and write over what we look at.
            sc.barrier().unwrap();
        }
        sc.all_store_sync().unwrap();
    });
}

pub fn store_sync_counts_bytes(wire: &Wire) {
    let rounds = wire.times(300);
    run(wire, 2, |sc| {
        let words = sc.all_spread_malloc::<u32>(2, 2).unwrap();
        let other = 1 - sc.my_proc();
        for round in 0..rounds as u32 {
            // Ping-pong by nothing but stores.
            if sc.my_proc() == 0 {
                sc.bulk_store(words.block(u64::from(other)), &[round, !round]).unwrap();
            }
            sc.store_sync(8).unwrap();
            assert_eq!(sc.read(words.block(u64::from(sc.my_proc()))), Ok(round));
            assert_eq!(sc.read(words.block(u64::from(sc.my_proc())).add(1)), Ok(!round));
            if sc.my_proc() == 1 {
                sc.bulk_store(words.block(u64::from(other)), &[round, !round]).unwrap();
            }
        }
        assert_eq!(sc.stored_here(), 8 * rounds);
        sc.all_store_sync().unwrap();
    });
}

pub fn bulk_transfers_of_all_lengths(wire: &Wire) {
    run(wire, 2, |sc| {
        let other = 1 - sc.my_proc();
        let space = sc.all_spread_malloc::<u8>(2, 300_000).unwrap();
        let mine = sc.alloc::<u8>(300_000).unwrap();
        let place = space.block(u64::from(other));
        for (i, len) in [0, 1, 7, 8, 1000, 1025, 40_000, 300_000].into_iter().enumerate() {
            if wire.times(20) == 1 && len > 40_000 {
                continue;
            }
            let bytes: Vec<u8> = (0..len).map(|k| scramble(k as u64 ^ (i as u64) << 40) as u8).collect();
            let mut seen = vec![0; len];
            sc.bulk_write(place, &bytes).unwrap();
            sc.bulk_read(place, &mut seen).unwrap();
            assert!(seen == bytes, "{len} bytes written");
            sc.bulk_put(place, &vec![9; len]).unwrap();
            sc.sync().unwrap();
            sc.bulk_get(place, mine, len).unwrap();
            sc.sync().unwrap();
            sc.bulk_read(mine, &mut seen).unwrap();
            assert!(seen.iter().all(|&byte| byte == 9), "{len} bytes put and got");
            sc.barrier().unwrap();
            sc.bulk_store(place, &bytes).unwrap();
            sc.store_sync(len as u64).unwrap();
            sc.bulk_read(space.block(u64::from(sc.my_proc())), &mut seen).unwrap();
            assert!(seen == bytes, "{len} bytes stored");
            sc.barrier().unwrap();
        }
    });
}

pub fn spread_arrays_lie_on_all_processors(wire: &Wire) {
    run(wire, 3, |sc| {
        let (me, procs) = (u64::from(sc.my_proc()), u64::from(sc.procs()));
        let cyclic = sc.all_spread_malloc::<u32>(100, 1).unwrap();
        for i in (0..100).filter(|i| i % procs == me) {
            assert_eq!(u64::from(cyclic.at(i).proc()), me, "the owner computes");
            sc.write(cyclic.at(i), i as u32 * i as u32).unwrap();
        }
        sc.barrier().unwrap();
        let sum: u32 = (0..100).map(|i| sc.read(cyclic.at(i)).unwrap()).sum();
        assert_eq!(sum, (0..100).map(|i| i * i).sum());
        let mut total = [u64::from(sum)];
        sc.all_reduce(&mut total, |a, b| a + b).unwrap();
        assert_eq!(total, [3 * u64::from(sum)]);
        assert_eq!(sc.all_gather(me * 2).unwrap(), [0, 2, 4]);
        let mut word = [me];
        sc.all_bcast(2, &mut word).unwrap();
        assert_eq!(word, [2]);
        let again = sc.all_spread_malloc::<u32>(100, 1).unwrap();
        assert_ne!(again.offset(), cyclic.offset());
        sc.all_spread_free(cyclic).unwrap();
        assert_eq!(sc.all_spread_free(cyclic), Err(Error::NotAllocated), "only once");
        assert_eq!(sc.all_spread_malloc::<u32>(100, 1).unwrap().offset(), cyclic.offset());
    });
}

pub fn places_outside_of_the_heap_are_errors(wire: &Wire) {
    run(wire, 2, |sc| {
        let other = 1 - sc.my_proc();
        let words = sc.all_spread_malloc::<u64>(2, 8).unwrap();
        sc.read(words.block(u64::from(other))).unwrap();
        let outside = || Error::Region(RegionError::OutOfRange);
        let bad = [
            Global::<u64>::new(other, 0),
            Global::new(other, HEAP as u64 * 2),
            Global::new(other, u64::MAX - 7),
        ];
        for place in bad {
            assert_eq!(sc.write(place, 1), Err(outside()));
            assert_eq!(sc.store(place, 1), Err(outside()));
            assert_eq!(sc.put(place, 1).map(|_| ()), Err(outside()));
        }
        assert_eq!(sc.read(bad[1]), Err(outside()));
        assert_eq!(sc.read(bad[2]), Err(outside()));
        assert_eq!(sc.bulk_store(words.block(u64::from(other)), &vec![0u64; HEAP]), Err(outside()));
        let nobody = Err(Error::NoSuchRank { rank: 7, size: 2 });
        assert_eq!(sc.read(Global::<u64>::new(7, 1024)).map(|_| ()), nobody);
        assert_eq!(sc.store(Global::<u64>::new(7, 1024), 1), nobody);
        assert_eq!(sc.write(Global::<u64>::new(7, 1024), 1), nobody);
        sc.all_store_sync().unwrap();
        assert_eq!(sc.stored_here(), 0, "nothing of it arrived");
    });
}

pub fn the_heap_is_bounded(wire: &Wire) {
    run(wire, 2, |sc| {
        assert!(matches!(sc.alloc::<u8>(2 * HEAP), Err(Error::HeapFull { .. })));
        assert!(matches!(sc.alloc::<u64>(usize::MAX / 4), Err(Error::HeapFull { .. })));
        // One of us has no room: then nobody gets any.
        let hog = if sc.my_proc() == 1 { Some(sc.alloc::<u8>(HEAP / 2).unwrap()) } else { None };
        assert!(matches!(sc.all_spread_malloc::<u8>(2, HEAP / 2 + 64), Err(Error::HeapFull { .. })));
        if let Some(hog) = hog {
            sc.free(hog).unwrap();
            assert_eq!(sc.free(hog), Err(Error::NotAllocated));
        }
        let array = sc.all_spread_malloc::<u8>(2, HEAP / 2 + 64).unwrap();
        sc.all_spread_free(array).unwrap();
    });
}

pub fn empty_blocks_and_no_processors_are_errors(wire: &Wire) {
    run(wire, 2, |sc| {
        assert!(matches!(sc.all_spread_malloc::<u64>(2, 0), Err(Error::Mismatch(_))));
        // One of us is wrong: then nobody gets any, and nobody waits.
        let block = if sc.my_proc() == 1 { 0 } else { 8 };
        assert!(sc.all_spread_malloc::<u64>(2, block).is_err());
        let nobody = Err(Error::NoSuchRank { rank: u32::MAX, size: 2 });
        assert_eq!(sc.read(Spread::<u64>::new(1024, 2, 0).at(3)), nobody);
        assert_eq!(sc.read(Spread::<u64>::new(1024, 0, 4).at(3)), nobody);
        assert_eq!(sc.read(Spread::<u64>::new(1024, 0, 4).add(1).block(0)), nobody);
        sc.all_spread_malloc::<u64>(2, 8).unwrap();
    });
}

pub fn waiting_for_stores_of_the_dead_is_an_error(wire: &Wire) {
    let ready = AtomicBool::new(false);
    wire.run(2, |endpoint| {
        let sc = SplitC::new(endpoint, HEAP).unwrap();
        sc.set_timeout(PATIENCE);
        let words = sc.all_spread_malloc::<u64>(2, 1).unwrap();
        if sc.my_proc() == 1 {
            sc.store(words.block(0), 5).unwrap();
            sc.poll();
            while !ready.load(Ordering::SeqCst) {
                sc.poll();
                std::thread::yield_now();
            }
            return;
        }
        sc.store_sync(8).unwrap();
        ready.store(true, Ordering::SeqCst);
        assert_eq!(sc.store_sync(8), Err(Error::Lost(Peer(1))));
        assert!(matches!(sc.all_store_sync(), Err(Error::Lost(_))));
        assert_eq!(sc.read(words.block(0)), Ok(5), "what is ours is still there");
    });
}

pub fn a_processor_that_leaves_early_is_an_error_for_all_that_wait(wire: &Wire) {
    wire.run(3, |endpoint| {
        let sc = SplitC::new(endpoint, HEAP).unwrap();
        sc.set_timeout(PATIENCE);
        if sc.my_proc() == 2 {
            return;
        }
        assert_eq!(sc.store_sync(8), Err(Error::Lost(Peer(2))));
        assert_eq!(sc.store_sync(8), Err(Error::Lost(Peer(2))), "it stays so");
        assert_eq!(sc.all_store_sync(), Err(Error::Lost(Peer(2))));
    });
}
