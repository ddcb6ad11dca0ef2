//! What holds for regions, whatever the wire and whatever the memory.

use std::thread;
use std::time::Duration;

use barewire_core::job::Job;
use barewire_core::region::{Atomic, FinishError, Key, Memory, RegionError, Rights, Who, Width};
use barewire_core::{Config, Deliver, Endpoint, Flow, Incoming, Peer, Port, SendError};

const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

/// Owner and user of a region, and what the two tell each other beside it.
struct Pair {
    ep: Endpoint,
    mail: Mail,
}

#[derive(Default)]
struct Mail {
    keys: Vec<Key>,
    notices: Vec<(Port, u64)>,
    done: bool,
}

impl Deliver for Mail {
    fn deliver(&mut self, _: &mut Endpoint, mut p: Incoming<'_>) -> Flow {
        match p.port {
            Port(1) => self.keys.push(Key::from_bytes(p.to_vec().try_into().unwrap())),
            Port(2) => self.done = true,
            port => self.notices.push((port, p.imm)),
        }
        Flow::Continue
    }
}

impl Pair {
    fn tell(&mut self, port: Port, bytes: &[u8]) {
        let to = Peer(1 - self.ep.me().0);
        while let Err(error) = self.ep.send(to, port, 0, bytes) {
            assert_eq!(error, SendError::Full);
            self.ep.progress(&mut self.mail, usize::MAX);
        }
    }

    fn key(&mut self) -> Key {
        self.ep.wait(&mut self.mail, PATIENCE, |_, mail| !mail.keys.is_empty()).unwrap();
        self.mail.keys.remove(0)
    }

    fn until_done(&mut self) {
        self.ep.wait(&mut self.mail, PATIENCE, |_, mail| mail.done).unwrap();
        self.mail.done = false;
    }

    fn put(&mut self, key: Key, offset: u64, bytes: &[u8]) -> Result<u64, FinishError> {
        loop {
            match self.ep.put(key, offset, bytes) {
                Ok(op) => return self.ep.finish(&mut self.mail, op, PATIENCE),
                Err(RegionError::Send(SendError::Full)) => self.ep.progress(&mut self.mail, usize::MAX),
                Err(error) => return Err(error.into()),
            };
        }
    }

    fn get(&mut self, key: Key, offset: u64, len: usize) -> Result<Vec<u8>, FinishError> {
        let into = Memory::private(len);
        let op = loop {
            match self.ep.get(key, offset, &into, 0, len as u64) {
                Ok(op) => break op,
                Err(RegionError::Send(SendError::Full)) => self.ep.progress(&mut self.mail, usize::MAX),
                Err(error) => return Err(error.into()),
            };
        };
        self.ep.finish(&mut self.mail, op, PATIENCE)?;
        let mut bytes = vec![0; len];
        assert!(into.read(0, &mut bytes));
        Ok(bytes)
    }

    fn atomic(&mut self, key: Key, offset: u64, width: Width, what: Atomic) -> Result<u64, FinishError> {
        loop {
            match self.ep.atomic(key, offset, width, what) {
                Ok(op) => return self.ep.finish(&mut self.mail, op, PATIENCE),
                Err(RegionError::Send(SendError::Full)) => self.ep.progress(&mut self.mail, usize::MAX),
                Err(error) => return Err(error.into()),
            };
        }
    }
}

/// Runs owner and user on two threads, for memory of ours and for private memory, over shared memory and over TCP.
fn pairs(owner: impl Fn(Pair, Memory) + Sync, user: impl Fn(Pair) + Sync) {
    pairs_over(&[shm_only(), Config { shm: false, ..Config::default() }], owner, user);
}

fn shm_only() -> Config {
    Config { tcp: false, ..Config::default() }
}

fn pairs_over(wires: &[Config], owner: impl Fn(Pair, Memory) + Sync, user: impl Fn(Pair) + Sync) {
    let memories: [fn() -> Memory; 2] = [|| Memory::private(1 << 20), || Memory::shared(1 << 20).unwrap()];
    for (memory, config) in memories.iter().flat_map(|memory| wires.iter().map(move |wire| (memory, wire))) {
        let mut jobs = Job::threads(2).unwrap().into_iter();
        let (a, b) = (jobs.next().unwrap(), jobs.next().unwrap());
        let open = |job| Pair { ep: Endpoint::open(job, config.clone()).unwrap(), mail: Mail::default() };
        thread::scope(|scope| {
            scope.spawn(|| owner(open(a), memory()));
            scope.spawn(|| user(open(b)));
        });
    }
}

fn export(pair: &mut Pair, memory: &Memory, rights: Rights, who: Who) -> Key {
    let key = pair.ep.export(memory, rights, who).unwrap();
    pair.tell(Port(1), &key.to_bytes());
    key
}

fn pattern(len: usize, salt: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31) ^ salt ^ (i >> 8) as u8).collect()
}

#[test]
fn what_is_put_is_got_and_is_in_place() {
    pairs(
        |mut pair, memory| {
            export(&mut pair, &memory, Rights::ALL, Who::Anyone);
            pair.until_done();
            let mut bytes = vec![0; 300_000];
            assert!(memory.read(1000, &mut bytes));
            assert_eq!(bytes, pattern(300_000, 7));
            pair.tell(Port(2), b"");
        },
        |mut pair| {
            let key = pair.key();
            for (i, len) in [0, 1, 8, 100, 5000, 40_000, 300_000].into_iter().enumerate() {
                let bytes = pattern(len, i as u8);
                pair.put(key, 1000, &bytes).unwrap();
                assert_eq!(pair.get(key, 1000, len).unwrap(), bytes, "{len} bytes");
            }
            pair.put(key, 1000, &pattern(300_000, 7)).unwrap();
            pair.tell(Port(2), b"");
            pair.until_done();
        },
    );
}

#[test]
fn a_wrong_key_range_or_right_is_an_error_and_touches_nothing() {
    pairs(
        |mut pair, memory| {
            let all = export(&mut pair, &memory, Rights::ALL, Who::Anyone);
            export(&mut pair, &memory, Rights::READ, Who::Anyone);
            export(&mut pair, &memory, Rights::ALL, Who::Only(vec![Peer(0)]));
            pair.until_done();
            let mut bytes = vec![0; 1 << 20];
            assert!(memory.read(0, &mut bytes));
            assert!(bytes.iter().all(|&b| b == 0), "nothing was touched");
            assert!(pair.ep.revoke(all));
            assert!(!pair.ep.revoke(all), "only once");
            pair.tell(Port(2), b"");
            pair.until_done();
        },
        |mut pair| {
            let (all, read, others) = (pair.key(), pair.key(), pair.key());
            let region = |error| Err(FinishError::Region(error));
            // Twice: by packets first, then, if the memory allows, directly.
            for _ in 0..2 {
                let mut wrong = all.to_bytes();
                wrong[9] ^= 1;
                assert_eq!(pair.put(Key::from_bytes(wrong), 0, b"x"), region(RegionError::BadKey));
                assert_eq!(pair.put(all, (1 << 20) - 1, b"xy"), region(RegionError::OutOfRange));
                assert_eq!(pair.put(all, u64::MAX, b"xy"), region(RegionError::OutOfRange));
                assert_eq!(pair.put(all, 1, &vec![1; 1 << 20]), region(RegionError::OutOfRange));
                assert_eq!(pair.get(all, u64::MAX - 3, 8), Err(FinishError::Region(RegionError::OutOfRange)));
                assert_eq!(pair.put(read, 0, b"x"), region(RegionError::Denied));
                assert_eq!(pair.atomic(read, 0, Width::U64, Atomic::Add(1)), region(RegionError::Denied));
                assert_eq!(pair.get(read, 0, 4).unwrap(), [0; 4]);
                assert_eq!(pair.put(others, 0, b"x"), region(RegionError::Denied));
                assert_eq!(pair.atomic(all, 4, Width::U64, Atomic::Add(1)), region(RegionError::Misaligned));
                assert_eq!(pair.get(all, 0, 4).unwrap(), [0; 4]);
            }
            pair.tell(Port(2), b"");
            pair.until_done();
            assert_eq!(pair.put(all, 0, b"x"), region(RegionError::BadKey), "revoked");
            assert_eq!(pair.get(all, 0, 1), Err(FinishError::Region(RegionError::BadKey)), "revoked");
            pair.tell(Port(2), b"");
        },
    );
}

#[test]
fn concurrent_atomics_lose_nothing() {
    const EACH: u64 = 2000;
    pairs(
        |mut pair, memory| {
            let key = export(&mut pair, &memory, Rights::ALL, Who::Anyone);
            for _ in 0..EACH {
                pair.atomic(key, 0, Width::U64, Atomic::Add(1)).unwrap();
                pair.atomic(key, 8, Width::U32, Atomic::Add(1)).unwrap();
            }
            pair.until_done();
            let word = |offset| memory.atomic_u64(offset).unwrap().load(std::sync::atomic::Ordering::SeqCst);
            assert_eq!(word(0), 2 * EACH);
            assert_eq!(word(8), 2 * EACH, "the upper half is untouched");
            assert_eq!(word(16), 5);
            pair.tell(Port(2), b"");
        },
        |mut pair| {
            let key = pair.key();
            for _ in 0..EACH {
                pair.atomic(key, 0, Width::U64, Atomic::Add(1)).unwrap();
                pair.atomic(key, 8, Width::U32, Atomic::Add(1)).unwrap();
            }
            assert_eq!(pair.atomic(key, 16, Width::U64, Atomic::Swap(9)).unwrap(), 0);
            let miss = Atomic::CompareSwap { expected: 8, new: 1 };
            assert_eq!(pair.atomic(key, 16, Width::U64, miss).unwrap(), 9);
            let hit = Atomic::CompareSwap { expected: 9, new: 5 };
            assert_eq!(pair.atomic(key, 16, Width::U64, hit).unwrap(), 9);
            pair.tell(Port(2), b"");
            pair.until_done();
        },
    );
}

#[test]
fn a_notice_comes_after_its_bytes() {
    pairs(
        |mut pair, memory| {
            export(&mut pair, &memory, Rights::ALL, Who::Anyone);
            for round in 0..50u64 {
                pair.ep.wait(&mut pair.mail, PATIENCE, |_, mail| mail.notices.len() as u64 > round).unwrap();
                assert_eq!(pair.mail.notices[round as usize], (Port(9), round));
                let mut bytes = vec![0; 60_000];
                assert!(memory.read(0, &mut bytes));
                assert_eq!(bytes, pattern(60_000, round as u8));
                pair.tell(Port(2), b"");
            }
        },
        |mut pair| {
            let key = pair.key();
            for round in 0..50u64 {
                let bytes = pattern(60_000, round as u8);
                let op = loop {
                    match pair.ep.put_notice(key, 0, &bytes, Port(9), round) {
                        Ok(op) => break op,
                        Err(RegionError::Send(SendError::Full)) => {
                            pair.ep.progress(&mut pair.mail, usize::MAX);
                        }
                        Err(error) => panic!("{error}"),
                    }
                };
                pair.ep.finish(&mut pair.mail, op, PATIENCE).unwrap();
                pair.until_done();
            }
        },
    );
}

#[test]
fn shared_memory_moves_with_one_copy_once_it_is_mapped() {
    pairs_over(
        &[shm_only()],
        |mut pair, memory| {
            export(&mut pair, &memory, Rights::ALL, Who::Anyone);
            pair.tell(Port(3 + u16::from(memory.segment().is_some())), b"");
            pair.until_done();
        },
        |mut pair| {
            let key = pair.key();
            for _ in 0..10 {
                pair.put(key, 0, &[1; 1000]).unwrap();
            }
            pair.ep.wait(&mut pair.mail, PATIENCE, |_, mail| !mail.notices.is_empty()).unwrap();
            let shared = pair.mail.notices[0].0 == Port(4);
            let direct = pair.ep.stats().direct_bytes;
            assert_eq!(direct > 0, shared, "{direct} bytes went directly");
            pair.tell(Port(2), b"");
        },
    );
}
