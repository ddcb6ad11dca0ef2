//! Messages from one rank to another, and communicators.

use barewire::mpi::group::Process;
use barewire::mpi::{Any, Error, Status};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::kit::{Wire, scramble};
use crate::{run, run_until_they_leave};

fn values(len: usize, salt: u64) -> Vec<u64> {
    (0..len as u64).map(|i| scramble(i ^ salt << 32)).collect()
}

pub fn messages_of_all_lengths_arrive_expected_or_not(wire: &Wire) {
    let longest = wire.times(4 << 20) as usize / 8;
    let lengths = [0, 1, 7, 100, 1000, 1024, 2100, 5000, 40_000, longest];
    run(wire, 2, |comm| {
        for (round, &len) in lengths.iter().enumerate() {
            for expected in [true, false] {
                let sent = values(len, round as u64);
                if comm.rank() == 0 {
                    if expected {
                        comm.receive::<u8>(&mut [], 1, 0).unwrap();
                    }
                    comm.send(&sent, 1, 7).unwrap();
                } else {
                    let mut got = vec![0u64; len];
                    let status = if expected {
                        let receive = comm.ireceive(got, 0, 7).unwrap();
                        comm.send::<u8>(&[], 0, 0).unwrap();
                        let (values, status) = receive.wait().unwrap();
                        got = values;
                        status
                    } else {
                        comm.probe::<u64>(0, 7).unwrap();
                        comm.receive(&mut got, 0, 7).unwrap()
                    };
                    assert_eq!(status, Status { source: 0, tag: 7, len });
                    assert!(got == sent, "{len} values, expected: {expected}");
                }
            }
        }
    });
}

pub fn messages_do_not_overtake_each_other(wire: &Wire) {
    let count = wire.times(2000);
    run(wire, 2, |comm| {
        for i in 0..count {
            // Short ones among long ones.
            let len = if i % 17 == 3 { 40_000 } else { (i % 50) as usize + 1 };
            if comm.rank() == 0 {
                let mut sent = vec![0; len];
                sent[0] = i;
                comm.send(&sent, 1, 1).unwrap();
            } else {
                let (got, _) = comm.receive_vec::<u64>(0, 1).unwrap();
                assert_eq!((got[0], got.len()), (i, len));
            }
        }
    });
}

pub fn wildcards_take_what_comes_first(wire: &Wire) {
    let each = wire.times(100) as u32;
    run(wire, 4, |comm| {
        if comm.rank() > 0 {
            for i in 0..each {
                comm.send(&[i], 0, (comm.rank() + i) as i32 % 3).unwrap();
            }
            return;
        }
        let mut next = [0; 4];
        for _ in 0..3 * each {
            let mut got = [0];
            let status = comm.receive(&mut got, Any, Any).unwrap();
            let from = status.source as usize;
            assert_eq!(got, [next[from]], "in order from each");
            assert_eq!(status.tag, (status.source + got[0]) as i32 % 3);
            next[from] += 1;
        }
        assert_eq!(next, [0, each, each, each]);
        // Tags alone, sources alone.
        assert_eq!(comm.try_probe::<u8>(Any, 1).unwrap(), None);
    });
}

pub fn a_message_that_is_too_long_says_by_how_much(wire: &Wire) {
    for len in [100, 100_000] {
        run(wire, 2, |comm| {
            let mut place = vec![0u32; len - 3];
            if comm.rank() == 0 {
                comm.send(&vec![9u32; len], 1, 0).unwrap();
                comm.send(&vec![9u32; len], 1, 0).unwrap();
            } else {
                let room = (len as u64 - 3) * 4;
                let truncated = Error::Truncated { over: 12, room };
                assert_eq!(comm.receive(&mut place, 0, 0), Err(truncated.clone()));
                assert!(place.iter().all(|&value| value == 9));
                assert_eq!(comm.ireceive(place, 0, 0).unwrap().wait(), Err(truncated));
            }
        });
    }
}

pub fn messages_of_other_elements_are_ragged(wire: &Wire) {
    run(wire, 2, |comm| {
        if comm.rank() == 0 {
            comm.send(b"seven b", 1, 0).unwrap();
            comm.send(b"eight by", 1, 0).unwrap();
        } else {
            let ragged = Err(Error::Ragged { bytes: 7, element: 4 });
            assert_eq!(comm.probe::<u32>(0, 0), ragged);
            assert_eq!(comm.receive(&mut [0u32; 4], 0, 0), ragged);
            assert_eq!(comm.receive_vec::<u32>(0, 0).unwrap().0.len(), 2);
        }
    });
}

pub fn a_synchronous_send_waits_for_its_receive(wire: &Wire) {
    run(wire, 2, |comm| {
        if comm.rank() == 0 {
            let mut send = comm.isend_synchronous(vec![1], 1, 0).unwrap();
            comm.send_synchronous(&[2], 1, 1).unwrap();
            assert_eq!(send.test(), Ok(None), "its receive comes later");
            comm.send(&[3], 1, 2).unwrap();
            assert_eq!(send.wait(), Ok(vec![1]));
        } else {
            let mut got = [0];
            for tag in [1, 2, 0] {
                comm.receive(&mut got, 0, tag).unwrap();
            }
            assert_eq!(got, [1]);
        }
    });
}

pub fn probed_and_claimed_messages_are_the_ones_received(wire: &Wire) {
    run(wire, 2, |comm| {
        if comm.rank() == 0 {
            for len in [3, 30_000, 0] {
                comm.send(&vec![len as u16; len], 1, len as i32).unwrap();
            }
            return;
        }
        let long = comm.claim(0, 30_000).unwrap();
        assert_eq!(comm.probe::<u16>(Any, Any).unwrap(), Status { source: 0, tag: 3, len: 3 });
        assert_eq!(long.status::<u16>().unwrap().len, 30_000);
        let (got, status) = comm.receive_vec::<u16>(Any, 3).unwrap();
        assert_eq!((got, status.len), (vec![3; 3], 3));
        assert_eq!(long.receive_vec::<u16>().unwrap().0, vec![30_000; 30_000]);
        assert_eq!(comm.claim(Any, Any).unwrap().receive_vec::<u16>().unwrap().0, []);
        assert!(comm.try_claim(Any, Any).unwrap().is_none());
    });
}

pub fn a_claimed_message_is_nobody_elses(wire: &Wire) {
    run(wire, 2, |comm| {
        if comm.rank() == 0 {
            // The first is dropped, and its sender does not wait for ever.
            comm.send_synchronous(&vec![1u8; 300_000], 1, 5).unwrap();
            comm.send(&[2u8], 1, 5).unwrap();
        } else {
            drop(comm.claim(0, 5).unwrap());
            let mut got = [0u8];
            comm.receive(&mut got, 0, 5).unwrap();
            assert_eq!(got, [2]);
        }
    });
}

pub fn long_messages_go_round_in_a_circle(wire: &Wire) {
    let len = wire.times(1 << 20) as usize / 8;
    run(wire, 3, |comm| {
        let (me, mut got) = (comm.rank(), vec![0; len]);
        let sent = values(len, u64::from(me));
        let status = comm.send_receive(&sent, (me + 1) % 3, 4, &mut got, (me + 2) % 3, 4).unwrap();
        assert_eq!(status, Status { source: (me + 2) % 3, tag: 4, len });
        assert!(got == values(len, u64::from((me + 2) % 3)));
    });
}

pub fn parts_arrive_as_one_message(wire: &Wire) {
    run(wire, 2, |comm| {
        for len in [3, 2000, 30_000] {
            let all = values(4 * len, 9);
            if comm.rank() == 0 {
                let parts: Vec<&[u64]> = all.chunks(len).collect();
                comm.send_parts(&[parts[2], &[], parts[0], parts[3]], 1, 0).unwrap();
            } else {
                let (got, _) = comm.receive_vec::<u64>(0, 0).unwrap();
                assert!(got == [&all[2 * len..3 * len], &all[..len], &all[3 * len..]].concat());
            }
        }
    });
}

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Particle {
    place: [f64; 3],
    mass: f32,
    kind: u32,
}

pub fn elements_of_the_program(wire: &Wire) {
    run(wire, 2, |comm| {
        let sent = Particle { place: [1.0, -2.0, 0.5], mass: 2.5, kind: 7 };
        comm.send(&[sent; 5], 1 - comm.rank(), 0).unwrap();
        let (got, status) = comm.receive_vec::<Particle>(Any, Any).unwrap();
        assert_eq!((got, status.len), (vec![sent; 5], 5));
        let mut heaviest = [Particle { mass: comm.rank() as f32, ..sent }];
        comm.all_reduce(&mut heaviest, |a, b| if a.mass >= b.mass { a } else { b }).unwrap();
        assert_eq!(heaviest[0].mass, 1.0);
    });
}

pub fn what_makes_no_sense_is_an_error(wire: &Wire) {
    run(wire, 2, |comm| {
        let nobody = Error::NoSuchRank { rank: 2, size: 2 };
        assert_eq!(comm.send(&[1], 2, 0), Err(nobody.clone()));
        assert_eq!(comm.send(&[1], u32::MAX, 0), Err(Error::NoSuchRank { rank: u32::MAX, size: 2 }));
        assert_eq!(comm.receive(&mut [1], 2, 0), Err(nobody.clone()));
        assert_eq!(comm.isend(vec![1], 2, 0).unwrap_err(), nobody);
        assert_eq!(comm.probe::<u8>(2, 0), Err(nobody));
        assert_eq!(comm.send(&[1], 1, -1), Err(Error::NoSuchTag(-1)));
        assert_eq!(comm.receive(&mut [1], Any, i32::MIN), Err(Error::NoSuchTag(i32::MIN)));
        let stranger = barewire::mpi::group::Group::first(3);
        assert_eq!(comm.create(&stranger).unwrap_err(), Error::NotMember(Process(2)));
    });
}

pub fn communicators_do_not_mix(wire: &Wire) {
    run(wire, 3, |comm| {
        let (me, copy) = (comm.rank(), comm.dup().unwrap());
        let turned = comm.split(Some(0), -i64::from(me)).unwrap().unwrap();
        assert_eq!((turned.rank(), turned.size()), (2 - me, 3));
        for (n, one) in [comm, &copy, &turned].into_iter().enumerate() {
            one.send(&[n], (one.rank() + 1) % 3, 0).unwrap();
        }
        // In another order, and from whoever it is.
        for (n, one) in [comm, &copy, &turned].into_iter().enumerate().rev() {
            let mut got = [9];
            let status = one.receive(&mut got, Any, Any).unwrap();
            assert_eq!((got, status.source), ([n], (one.rank() + 2) % 3));
        }
    });
}

pub fn communicators_split_as_they_are_told(wire: &Wire) {
    run(wire, 5, |comm| {
        let me = comm.rank();
        let color = (me != 2).then_some(me % 2);
        let part = comm.split(color, 10 - i64::from(me)).unwrap();
        assert_eq!(part.is_none(), me == 2);
        if let Some(part) = part {
            // 4, 0 and 3, 1: the higher first.
            assert_eq!((part.rank(), part.size()), (u32::from(me < 2), 2));
            let mut sum = [me];
            part.all_reduce(&mut sum, |a, b| a + b).unwrap();
            assert_eq!(sum, [4]);
            // A part of a part.
            let alone = part.split(Some(part.rank()), 0).unwrap().unwrap();
            assert_eq!(alone.size(), 1);
        }
        let some = comm.group().include(&[3, 0, 4]).unwrap();
        let made = comm.create(&some).unwrap();
        assert_eq!(made.map(|made| made.rank()), [Some(1), None, None, Some(0), Some(2)][me as usize]);
        let host = comm.split_host().unwrap();
        assert_eq!((host.size(), host.rank()), (5, me), "threads share their host");
        let own = comm.alone();
        own.send(&[me], 0, 0).unwrap();
        assert_eq!(own.receive_vec::<u32>(Any, Any).unwrap().0, [me]);
    });
}

pub fn a_receive_from_one_who_left_is_an_error(wire: &Wire) {
    run_until_they_leave(wire, 2, |comm| {
        if comm.rank() == 1 {
            // What was sent before is received all the same.
            comm.send(&[5], 0, 0).unwrap();
            return;
        }
        let mut got = [0];
        comm.receive(&mut got, 1, 0).unwrap();
        assert_eq!(got, [5]);
        let lost = Err(Error::Lost(Process(1)));
        assert_eq!(comm.receive(&mut got, 1, 0).map(|_| ()), lost);
        assert_eq!(comm.ireceive(vec![0], 1, 0).unwrap().wait().map(|_| ()), lost);
        assert_eq!(comm.probe::<u8>(1, 0).map(|_| ()), lost);
        assert_eq!(comm.send_synchronous(&[1], 1, 0), lost);
    });
}

pub fn a_receive_from_anybody_ends_when_all_have_left(wire: &Wire) {
    run_until_they_leave(wire, 3, |comm| {
        if comm.rank() > 0 {
            comm.send(&[comm.rank()], 0, 0).unwrap();
            return;
        }
        let mut got = [0];
        comm.receive(&mut got, Any, 0).unwrap();
        comm.receive(&mut got, Any, 0).unwrap();
        assert_eq!(comm.receive(&mut got, Any, 0), Err(Error::Lost(Process(1))));
        assert_eq!(comm.ireceive(vec![0], Any, 0).unwrap().wait(), Err(Error::Lost(Process(1))));
        assert_eq!(comm.claim(Any, 0).unwrap_err(), Error::Lost(Process(1)));
    });
}
