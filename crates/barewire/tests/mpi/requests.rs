//! Requests: in any order, forgotten, cancelled, left behind.

use std::time::Duration;

use barewire::mpi::{self, Any, Error};

use crate::kit::Wire;
use crate::{run, run_until_they_leave};

pub fn requests_end_in_any_order(wire: &Wire) {
    run(wire, 2, |comm| {
        let other = 1 - comm.rank();
        let mut receives: Vec<_> = (0..8).map(|tag| comm.ireceive(vec![0], other, tag).unwrap()).collect();
        for tag in [5, 1, 7, 0, 2, 6, 3, 4] {
            comm.send(&[10 * tag], other, tag).unwrap();
        }
        let (last, status) = receives.pop().unwrap().wait().unwrap();
        assert_eq!((last, status.tag), (vec![70], 7));
        let mut seen = [false; 7];
        while let Some((at, outcome)) = mpi::wait_any(&mut receives) {
            assert_eq!(outcome.unwrap().0, [10 * at as i32]);
            assert!(!std::mem::replace(&mut seen[at], true), "once each");
        }
        assert_eq!(seen, [true; 7]);
        assert_eq!(receives[0].test(), Err(Error::Taken));
    });
}

pub fn many_requests_of_all_lengths(wire: &Wire) {
    let count = wire.times(200) as usize;
    run(wire, 3, |comm| {
        let me = comm.rank();
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for i in 0..count {
            let len = i * i % 40_000;
            for other in (0..3).filter(|&other| other != me) {
                receives.push(comm.ireceive(vec![0u32; len], other, i as i32).unwrap());
                sends.push(comm.isend(vec![me * 1000 + i as u32; len], other, i as i32).unwrap());
            }
        }
        let mut ended = 0;
        while ended < receives.len() {
            for (_, outcome) in mpi::wait_some(&mut receives) {
                let (values, status) = outcome.unwrap();
                assert_eq!(values.len(), status.len);
                let expected = status.source * 1000 + status.tag as u32;
                assert!(values.iter().all(|&value| value == expected));
                ended += 1;
            }
        }
        assert_eq!(mpi::wait_all(sends).unwrap().len(), 2 * count);
    });
}

pub fn forgotten_requests_do_no_harm(wire: &Wire) {
    run(wire, 2, |comm| {
        let other = 1 - comm.rank();
        for round in 0..20 {
            // A receive that is dropped takes nothing away; a send that is dropped arrives.
            drop(comm.ireceive(vec![0; 100_000], other, 1).unwrap());
            comm.barrier().unwrap();
            drop(comm.isend(vec![round; 100_000], other, 1).unwrap());
            drop(comm.ibarrier().unwrap());
            let (values, _) = comm.receive_vec::<u64>(other, 1).unwrap();
            assert_eq!((values[0], values.len()), (round, 100_000));
        }
        comm.barrier().unwrap();
    });
}

pub fn a_cancelled_receive_takes_nothing(wire: &Wire) {
    run(wire, 2, |comm| {
        let other = 1 - comm.rank();
        let mut receive = comm.ireceive(vec![0], other, 1).unwrap();
        assert!(receive.cancel().unwrap());
        assert_eq!(receive.wait(), Err(Error::Cancelled));
        let mut send = comm.isend(vec![3], other, 1).unwrap();
        assert!(!send.cancel().unwrap(), "what was sent is sent");
        send.wait().unwrap();
        let mut receive = comm.ireceive(vec![0], Any, Any).unwrap();
        while receive.test().unwrap().is_none() {}
        assert!(!receive.cancel().unwrap(), "its message has come");
    });
}

pub fn what_nobody_receives_does_not_keep_anybody(wire: &Wire) {
    run(wire, 2, |comm| {
        let other = 1 - comm.rank();
        drop(comm.isend(vec![1u8; 1 << 20], other, 1).unwrap());
        drop(comm.isend_synchronous(vec![1u8], other, 2).unwrap());
        comm.send(&[1u8], other, 3).unwrap();
        let kept = comm.ireceive(vec![0], other, 4).unwrap();
        drop((kept, comm.ireceive(vec![0], Any, 5).unwrap()));
    });
}

pub fn a_dropped_communicator_leaves_in_good_order(wire: &Wire) {
    run_until_they_leave(wire, 3, |comm| {
        let part = comm.split(Some(0), 0).unwrap().unwrap();
        let barrier = part.ibarrier().unwrap();
        drop(comm);
        part.send(&[1], (part.rank() + 1) % 3, 0).unwrap();
        assert_eq!(part.receive_vec::<i32>((part.rank() + 2) % 3, 0).unwrap().0, [1]);
        // The last name of it is the request's.
        drop(part);
        let outcome = barrier.wait();
        assert!(matches!(outcome, Ok(()) | Err(Error::Lost(_) | Error::GaveUp(_))), "{outcome:?}");
    });
}

pub fn a_timeout_leaves_the_slice_alone(wire: &Wire) {
    run(wire, 2, |comm| {
        comm.barrier().unwrap();
        if comm.rank() == 0 {
            comm.receive::<u8>(&mut [], 1, 0).unwrap();
            comm.send(&vec![9u8; 200_000], 1, 1).unwrap();
        } else {
            comm.set_timeout(Some(Duration::from_millis(1))).unwrap();
            let mut place = vec![0u8; 200_000];
            assert_eq!(comm.receive(&mut place, 0, 1), Err(Error::TimedOut));
            comm.set_timeout(crate::PATIENCE).unwrap();
            comm.send::<u8>(&[], 0, 0).unwrap();
            // What was given up does not take the message of what comes after it.
            comm.receive(&mut place, 0, 1).unwrap();
            assert!(place.iter().all(|&byte| byte == 9));
        }
    });
}

pub fn everything_after_finish_is_an_error(wire: &Wire) {
    run_until_they_leave(wire, 2, |comm| {
        let (other, window) = (1 - comm.rank(), comm.window::<u32>(4).unwrap());
        let receive = comm.ireceive(vec![0], other, 1).unwrap();
        comm.clone().finish().unwrap();
        assert_eq!(comm.send(&[1], other, 0), Err(Error::Finished));
        assert_eq!(comm.receive(&mut [1], other, 0), Err(Error::Finished));
        assert_eq!(comm.barrier(), Err(Error::Finished));
        assert_eq!(comm.ibarrier().unwrap_err(), Error::Finished);
        assert_eq!(receive.wait(), Err(Error::Finished));
        assert_eq!(window.put(other, 0, &[1]), Err(Error::Finished));
        assert_eq!(comm.clone().finish(), Err(Error::Finished));
    });
}
