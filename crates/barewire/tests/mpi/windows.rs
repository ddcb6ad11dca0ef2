//! Windows: what is put is got, updates in one step, locks, spans, and errors.

use barewire::mpi::group::Process;
use barewire::mpi::{self, Error, Lock};

use crate::kit::{Wire, scramble};
use crate::{run, run_until_they_leave};

pub fn what_is_put_is_got(wire: &Wire) {
    let len = wire.times(200_000) as usize;
    run(wire, 3, |comm| {
        let (me, window) = (comm.rank(), comm.window::<u64>(len).unwrap());
        let values: Vec<u64> = (0..len as u64).map(|i| scramble(i + u64::from(me))).collect();
        for round in 0..3 {
            window.put((me + 1) % 3, 1, &values[1..len - 1]).unwrap();
            window.put((me + 1) % 3, 0, &[round]).unwrap();
            window.fence().unwrap();
            let left: Vec<u64> = (0..len as u64).map(|i| scramble(i + u64::from((me + 2) % 3))).collect();
            let here = window.local().to_vec().unwrap();
            assert!(here[0] == round && here[1..len - 1] == left[1..len - 1] && here[len - 1] == 0);
            let mut there = vec![0; len];
            window.get((me + 1) % 3, 0, &mut there).unwrap();
            assert!(there[1..len - 1] == values[1..len - 1]);
            window.fence().unwrap();
        }
        window.free().unwrap();
    });
}

pub fn concurrent_updates_lose_nothing(wire: &Wire) {
    let times = wire.times(400);
    run(wire, 4, |comm| {
        let (sums, counts) = (comm.window::<f64>(2).unwrap(), comm.window::<u32>(3).unwrap());
        let mut tickets = Vec::new();
        for i in 0..times {
            sums.accumulate(0, 0, &[0.5, 1.0], |a, b| a + b).unwrap();
            counts.add(1, 0, &[1, 2]).unwrap();
            tickets.push(counts.fetch_and(2, 2, 1, |a, b| a + b).unwrap());
            if i % 50 == 7 {
                comm.poll().unwrap();
            }
        }
        sums.fence().unwrap();
        counts.fence().unwrap();
        let all = 4.0 * times as f64;
        let mut seen = [0.0; 2];
        sums.get(0, 0, &mut seen).unwrap();
        assert_eq!(seen, [all / 2.0, all]);
        let mut seen = [0; 2];
        counts.get(1, 0, &mut seen).unwrap();
        assert_eq!(seen, [4 * times as u32, 8 * times as u32]);
        let mut everybodys = vec![0; 4 * times as usize];
        comm.all_gather(&tickets, &mut everybodys).unwrap();
        everybodys.sort_unstable();
        assert!(everybodys.iter().enumerate().all(|(at, &ticket)| at as u32 == ticket), "each once");
        sums.free().unwrap();
    });
}

pub fn locks_exclude(wire: &Wire) {
    let times = wire.times(60) as u32;
    run(wire, 4, |comm| {
        let window = comm.window::<u32>(2).unwrap();
        for _ in 0..times {
            let locked = window.lock(1, Lock::Exclusive).unwrap();
            // Two elements that are always equal, and an update that is no single step.
            let mut pair = [0; 2];
            window.get(1, 0, &mut pair).unwrap();
            assert_eq!(pair[0], pair[1]);
            window.put(1, 0, &[pair[0] + 1]).unwrap();
            window.put(1, 1, &[pair[1] + 1]).unwrap();
            drop(locked);
        }
        window.fence().unwrap();
        let mut pair = [0; 2];
        window.get(1, 0, &mut pair).unwrap();
        assert_eq!(pair, [4 * times; 2]);
        window.free().unwrap();
    });
}

pub fn shared_locks_let_others_in(wire: &Wire) {
    run(wire, 3, |comm| {
        let window = comm.window::<u32>(1).unwrap();
        let shared = window.lock(0, Lock::Shared).unwrap();
        // All have it at the same time.
        comm.barrier().unwrap();
        shared.unlock().unwrap();
        let all = window.lock_all().unwrap();
        comm.barrier().unwrap();
        window.add(0, 0, &[1]).unwrap();
        all.unlock().unwrap();
        let alone = window.lock(0, Lock::Exclusive).unwrap();
        window.add(0, 0, &[10]).unwrap();
        alone.unlock().unwrap();
        window.fence().unwrap();
        assert!(comm.rank() > 0 || window.local().to_vec().unwrap() == [33]);
        window.free().unwrap();
    });
}

pub fn spans_of_two_sides(wire: &Wire) {
    run(wire, 4, |comm| {
        let (me, window) = (comm.rank(), comm.window::<u32>(4).unwrap());
        let (even, odd) = (comm.group().include(&[0, 2]).unwrap(), comm.group().include(&[1, 3]).unwrap());
        for round in 1..10 {
            // The even ones write into the windows of the odd ones, in every round something else.
            if me % 2 == 0 {
                window.begin(&odd).unwrap();
                for rank in [1, 3] {
                    window.put(rank, me as usize, &[100 * round + me]).unwrap();
                }
                window.complete().unwrap();
            } else {
                window.post(&even).unwrap();
                assert!(matches!(window.post(&even), Err(Error::OutOfOrder(_))));
                window.wait().unwrap();
                assert_eq!(window.local().to_vec().unwrap(), [100 * round, 0, 100 * round + 2, 0]);
            }
        }
        window.free().unwrap();
    });
}

pub fn requests_on_windows(wire: &Wire) {
    run(wire, 3, |comm| {
        let (me, window) = (comm.rank(), comm.window::<u64>(3000).unwrap());
        let puts =
            (0..3).map(|rank| window.rput(rank, 1000 * me as usize, &vec![u64::from(me) + 1; 1000]).unwrap());
        mpi::wait_all(puts.collect::<Vec<_>>()).unwrap();
        comm.barrier().unwrap();
        let gets: Vec<_> = (0..3).map(|part| window.rget((me + 1) % 3, 1000 * part, 1000).unwrap()).collect();
        for (part, got) in gets.into_iter().enumerate().rev() {
            assert_eq!(got.wait().unwrap(), vec![part as u64 + 1; 1000]);
        }
        let last = window.rget(0, 2999, 1).unwrap();
        assert_eq!(comm.run(last).unwrap().unwrap(), [3]);
        assert_eq!(window.rget(0, 0, 0).unwrap().wait().unwrap(), []);
        window.free().unwrap();
    });
}

pub fn windows_of_some_ranks(wire: &Wire) {
    run(wire, 4, |comm| {
        let pair = comm.split(Some(comm.rank() % 2), -i64::from(comm.rank())).unwrap().unwrap();
        let window = pair.window::<u32>(1).unwrap();
        window.put(1 - pair.rank(), 0, &[10 + comm.rank()]).unwrap();
        window.fence().unwrap();
        assert_eq!(window.local().to_vec().unwrap(), [10 + (comm.rank() + 2) % 4]);
        let own = window.rget(pair.rank(), 0, 1).unwrap().wait().unwrap();
        assert_eq!(own, [10 + (comm.rank() + 2) % 4]);
        window.free().unwrap();
    });
}

pub fn what_is_not_there_is_an_error(wire: &Wire) {
    run(wire, 2, |comm| {
        let (other, window) = (1 - comm.rank(), comm.window::<u32>(4 + comm.rank() as usize).unwrap());
        let has = 4 + other as usize;
        for (at, len) in [(has, 1), (0, has + 1), (usize::MAX, 2)] {
            let outside = Error::OutOfRange { at, len, has };
            assert_eq!(window.put(other, at, &vec![9; len]), Err(outside.clone()));
            assert_eq!(window.get(other, at, &mut vec![9; len]), Err(outside.clone()));
            assert_eq!(window.accumulate(other, at, &vec![9; len], |a, _| a), Err(outside.clone()));
            assert_eq!(window.rget(other, at, len).unwrap_err(), outside);
        }
        let nobody = Error::NoSuchRank { rank: 2, size: 2 };
        assert_eq!(window.put(2, 0, &[1]), Err(nobody.clone()));
        assert_eq!(window.lock(2, Lock::Shared).unwrap_err(), nobody);
        let bytes = comm.window::<u8>(4).unwrap();
        assert_eq!(bytes.accumulate(other, 0, &[1], |a, _| a), Err(Error::NotAWord { bytes: 1 }));
        assert_eq!(bytes.compare_and_swap(other, 0, 0, 1), Err(Error::NotAWord { bytes: 1 }));
        assert_eq!(
            window.get_accumulate(other, 0, &[1], &mut [], |a, _| a).map_err(|error| error.to_string()),
            Err("elements as they were: 0 instead of 1".to_owned())
        );
        window.fence().unwrap();
        assert!(window.local().to_vec().unwrap().iter().all(|&value| value == 0), "nothing was touched");
        // A window that one rank has no memory for nobody has.
        assert!(comm.window::<u64>(if comm.rank() == 1 { usize::MAX } else { 1 }).is_err());
        window.free().unwrap();
    });
}

pub fn a_freed_window_is_an_error(wire: &Wire) {
    run(wire, 2, |comm| {
        let window = comm.window::<u32>(4).unwrap();
        for _ in 0..3 {
            window.get(0, 0, &mut [0]).unwrap();
        }
        comm.barrier().unwrap();
        if comm.rank() == 0 {
            drop(window);
            comm.barrier().unwrap();
            comm.barrier().unwrap();
            return;
        }
        comm.barrier().unwrap();
        assert_eq!(window.get(0, 0, &mut [0]), Err(Error::Freed));
        assert_eq!(window.fetch_and(0, 0, 1, |a, _| a), Err(Error::Freed));
        let put = window.put(0, 0, &[1]).and_then(|()| window.flush(0));
        assert_eq!(put, Err(Error::Freed));
        comm.barrier().unwrap();
    });
}

pub fn a_window_of_the_dead_is_an_error(wire: &Wire) {
    run_until_they_leave(wire, 3, |comm| {
        let window = comm.window::<u32>(4).unwrap();
        window.fence().unwrap();
        if comm.rank() == 1 {
            return;
        }
        let lost = loop {
            match window.get(1, 0, &mut [0]) {
                Ok(()) | Err(Error::Freed) => std::thread::yield_now(),
                Err(error) => break error,
            }
        };
        assert_eq!(lost, Error::Lost(Process(1)));
        assert_eq!(window.fence(), Err(Error::Lost(Process(1))));
    });
}

pub fn a_lock_of_the_dead_is_an_error(wire: &Wire) {
    run_until_they_leave(wire, 3, |comm| {
        let window = comm.window::<u32>(4).unwrap();
        if comm.rank() == 2 {
            std::mem::forget(window.lock(0, Lock::Exclusive).unwrap());
            comm.barrier().unwrap();
            return;
        }
        comm.barrier().unwrap();
        if comm.rank() == 1 {
            assert_eq!(window.lock(0, Lock::Shared).unwrap_err(), Error::Lost(Process(2)));
            comm.send(&[1], 0, 0).unwrap();
        } else {
            comm.receive(&mut [0], 1, 0).unwrap();
        }
    });
}
