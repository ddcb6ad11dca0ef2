//! Models of the ring, the return of credit, and sleep and wake-up, run by the model checker through every interleaving:
//! `RUSTFLAGS="--cfg loom" cargo test -p barewire-sys --release --test loom`.
#![cfg(loom)]

use barewire_sys::doorbell;
use barewire_sys::ring::{Full, Head, Tail, Words};
use barewire_sys::shuttle::{Line, Turns};
use barewire_sys::sync::SenderOrder;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

const LINES: u64 = 4;

/// Ring memory that the model checker watches.
#[derive(Clone)]
struct Memory(Arc<Inner>);

struct Inner {
    words: Vec<AtomicU64>,
    freed: AtomicU64,
}

impl Memory {
    fn new() -> Memory {
        let words = (0..LINES as usize * 8).map(|_| AtomicU64::new(0)).collect();
        Memory(Arc::new(Inner { words, freed: AtomicU64::new(0) }))
    }
}

impl Words for Memory {
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.0.words[word].load(order)
    }
    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.0.words[word].store(value, order);
    }
    fn freed(&self, order: Ordering) -> u64 {
        self.0.freed.load(order)
    }
    fn set_freed(&self, value: u64, order: Ordering) {
        self.0.freed.store(value, order);
    }
}

/// Sends a packet of `need` lines whose last word repeats its value.
fn send(tail: &mut Tail, memory: &Memory, value: u64, need: u64) -> Result<(), Full> {
    let line = tail.reserve(memory, need, 0)?;
    let last = (line + need as usize - 1) % LINES as usize;
    memory.store(last * 8 + 7, value, Ordering::Relaxed);
    tail.end_at(memory, need);
    tail.publish(memory, need, value);
    Ok(())
}

/// Takes a packet of `need` lines and checks that all of it has arrived.
fn take(head: &mut Head, memory: &Memory, need: u64) -> Option<u64> {
    let value = head.peek(memory)?;
    let last = (head.line() + need as usize - 1) % LINES as usize;
    assert_eq!(
        memory.load(last * 8 + 7, Ordering::Relaxed),
        value,
        "a packet is whole when its header is seen"
    );
    head.pass(memory, need);
    Some(value)
}

#[test]
fn packets_arrive_whole_in_order_and_once() {
    for (need, wipes) in [(1, false), (2, false), (1, true), (2, true)] {
        loom::model(move || {
            let memory = Memory::new();
            let theirs = memory.clone();
            let sender = thread::spawn(move || {
                let mut tail = Tail::new(LINES);
                (1..=2).for_each(|value| send(&mut tail, &theirs, value, need).unwrap_or(()));
                tail.position() / need
            });
            let mut head = Head::new(LINES).wiping(wipes);
            let mut seen = 0;
            for _ in 0..3 {
                if let Some(value) = take(&mut head, &memory, need) {
                    assert_eq!(value, seen + 1);
                    seen = value;
                }
            }
            let sent = sender.join().unwrap();
            while let Some(value) = take(&mut head, &memory, need) {
                assert_eq!(value, seen + 1);
                seen = value;
            }
            assert_eq!(seen, sent, "what was sent has arrived");
        });
    }
}

/// The shuttle's lines: the header word, one of its payload, and how much there is of it if it is long.
#[derive(Clone)]
struct Shuttle(Arc<(AtomicU64, AtomicU64, AtomicU64)>);

impl Line for Shuttle {
    fn load(&self, order: Ordering) -> u64 {
        self.0.0.load(order)
    }
    fn store(&self, value: u64, order: Ordering) {
        self.0.0.store(value, order);
    }
    fn load_written(&self, order: Ordering) -> u64 {
        self.0.2.load(order)
    }
    fn store_written(&self, value: u64, order: Ordering) {
        self.0.2.store(value, order);
    }
}

impl Shuttle {
    fn new() -> Shuttle {
        Shuttle(Arc::new((AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0))))
    }

    /// Sends off a long packet and then writes its payload.
    fn put_long(&self, turns: &mut Turns, value: u64) {
        turns.send_off_long(self, value);
        self.0.1.store(value, Ordering::Relaxed);
        Turns::wrote(self, 1);
    }

    /// Takes a long packet whose header and payload are there.
    fn take_long(&self, turns: &mut Turns) -> Option<u64> {
        let value = turns.arrived(self)?;
        if Turns::written(self) == 0 {
            return None;
        }
        assert_eq!(self.0.1.load(Ordering::Relaxed), value, "what is said to be written is");
        turns.took();
        Some(value)
    }

    fn put(&self, turns: &mut Turns, value: u64) {
        self.0.1.store(value, Ordering::Relaxed);
        turns.send_off(self, value);
    }

    fn take(&self, turns: &mut Turns) -> Option<u64> {
        let value = turns.arrived(self)?;
        assert_eq!(self.0.1.load(Ordering::Relaxed), value, "a packet is whole when its header is seen");
        turns.took();
        Some(value)
    }
}

/// Takes what is next, from the ring or off the shuttle.
fn take_next(head: &mut Head, memory: &Memory, turns: &mut Turns, shuttle: &Shuttle) -> Option<u64> {
    if let Some(value) = take(head, memory, 1) {
        return Some(value);
    }
    turns.arrived(shuttle)?;
    if head.peek(memory).is_some() {
        return take(head, memory, 1);
    }
    head.turn_over();
    shuttle.take(turns)
}

#[test]
fn the_shuttle_and_the_ring_keep_their_order() {
    // Which of four packets go by the shuttle: never two in a row, since nobody answers.
    for by_shuttle in [[false, true, false, false], [true, false, false, false], [false, false, true, false]]
    {
        loom::model(move || {
            let (memory, shuttle) = (Memory::new(), Shuttle::new());
            let theirs = (memory.clone(), shuttle.clone());
            let sender = thread::spawn(move || {
                let (mut tail, mut turns) = (Tail::new(LINES), Turns::first());
                for (value, by_shuttle) in (1..).zip(by_shuttle) {
                    if by_shuttle {
                        assert!(turns.is_ours());
                        theirs.1.put(&mut turns, value);
                        tail.turn_over();
                    } else {
                        send(&mut tail, &theirs.0, value, 1).unwrap();
                    }
                }
            });
            let (mut head, mut turns) = (Head::new(LINES), Turns::second());
            let mut seen = 0;
            for _ in 0..3 {
                if let Some(value) = take_next(&mut head, &memory, &mut turns, &shuttle) {
                    assert_eq!(value, seen + 1);
                    seen = value;
                }
            }
            sender.join().unwrap();
            while let Some(value) = take_next(&mut head, &memory, &mut turns, &shuttle) {
                assert_eq!(value, seen + 1);
                seen = value;
            }
            assert_eq!(seen, 4, "what was sent has arrived");
        });
    }
}

#[test]
fn long_packets_go_to_and_fro() {
    loom::model(|| {
        let shuttle = Shuttle::new();
        let theirs = shuttle.clone();
        let until = |turns: &mut Turns, shuttle: &Shuttle| loop {
            match shuttle.take_long(turns) {
                Some(value) => return value,
                None => thread::yield_now(),
            }
        };
        let other = thread::spawn(move || {
            let mut turns = Turns::second();
            assert_eq!(until(&mut turns, &theirs), 1);
            theirs.put_long(&mut turns, 2);
        });
        let mut turns = Turns::first();
        shuttle.put_long(&mut turns, 1);
        assert_eq!(until(&mut turns, &shuttle), 2);
        other.join().unwrap();
    });
}

#[test]
fn the_shuttle_goes_to_and_fro() {
    loom::model(|| {
        let shuttle = Shuttle::new();
        let theirs = shuttle.clone();
        let other = thread::spawn(move || {
            let mut turns = Turns::second();
            for value in [1, 3] {
                assert!(!turns.is_ours());
                while turns.arrived(&theirs).is_none() {
                    thread::yield_now();
                }
                assert_eq!(theirs.take(&mut turns), Some(value));
                theirs.put(&mut turns, value + 1);
            }
        });
        let mut turns = Turns::first();
        for value in [1, 3] {
            shuttle.put(&mut turns, value);
            while turns.arrived(&shuttle).is_none() {
                thread::yield_now();
            }
            assert_eq!(shuttle.take(&mut turns), Some(value + 1));
        }
        assert!(turns.is_ours());
        other.join().unwrap();
    });
}

#[test]
fn credit_comes_back_and_is_never_overdrawn() {
    for wipes in [false, true] {
        loom::model(move || {
            let memory = Memory::new();
            let theirs = memory.clone();
            let sender = thread::spawn(move || {
                let mut tail = Tail::new(LINES);
                // More than the ring holds: some are refused unless the receiver gives lines back in time.
                (1..=5).filter(|&value| send(&mut tail, &theirs, value, 1).is_ok()).collect::<Vec<u64>>()
            });
            let mut head = Head::new(LINES).wiping(wipes);
            let mut seen = Vec::new();
            for _ in 0..2 {
                seen.extend(take(&mut head, &memory, 1));
            }
            let sent = sender.join().unwrap();
            assert!(sent.len() >= 3, "a ring of four lines takes three packets from a silent receiver");
            while let Some(value) = take(&mut head, &memory, 1) {
                seen.push(value);
            }
            assert_eq!(seen, sent, "nothing was overwritten, nothing was lost");
        });
    }
}

#[test]
fn held_lines_stay_charged_until_they_are_released() {
    loom::model(|| {
        let memory = Memory::new();
        let theirs = memory.clone();
        let mut tail = Tail::new(LINES);
        (1..=3).for_each(|value| send(&mut tail, &memory, value, 1).unwrap());
        let receiver = thread::spawn(move || {
            let mut head = Head::new(LINES).wiping(true);
            assert_eq!(head.peek(&theirs), Some(1));
            head.hold(&theirs, 1);
            head.give_back(&theirs);
            assert_eq!(take(&mut head, &theirs, 1), Some(2));
            head.release(1);
            head.give_back(&theirs);
        });
        let early = send(&mut tail, &memory, 4, 1).is_ok();
        receiver.join().unwrap();
        assert!(early || send(&mut tail, &memory, 4, 1).is_ok(), "released lines are usable");
        assert!(send(&mut tail, &memory, 5, 2).is_err(), "two lines came back, not three");
    });
}

/// A sleeper's bed: what an eventfd is to the real one.
struct Bed {
    rung: Mutex<bool>,
    bell: Condvar,
}

#[test]
fn a_sleeper_is_woken_by_every_message() {
    for order in [SenderOrder::Fence, SenderOrder::Membarrier] {
        loom::model(move || {
            let memory = Memory::new();
            let flag = Arc::new(AtomicU32::new(0));
            let bed = Arc::new(Bed { rung: Mutex::new(false), bell: Condvar::new() });
            let (m, f, b) = (memory.clone(), flag.clone(), bed.clone());
            let sender = thread::spawn(move || {
                let mut tail = Tail::new(LINES);
                send(&mut tail, &m, 1, 1).unwrap();
                if doorbell::must_ring(&f, order) {
                    *b.rung.lock().unwrap() = true;
                    b.bell.notify_one();
                }
            });
            let mut head = Head::new(LINES);
            doorbell::doze(&flag);
            if head.peek(&memory).is_none() {
                let mut rung = bed.rung.lock().unwrap();
                while !*rung {
                    // A lost wake-up is a deadlock here, which the model checker reports.
                    rung = bed.bell.wait(rung).unwrap();
                }
            }
            doorbell::wake(&flag);
            assert_eq!(take(&mut head, &memory, 1), Some(1));
            sender.join().unwrap();
        });
    }
}

#[test]
fn of_two_senders_at_least_one_rings() {
    loom::model(|| {
        let arrived = [Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false))];
        let flag = Arc::new(AtomicU32::new(0));
        let rings = Arc::new(AtomicU32::new(0));
        let senders: Vec<_> = arrived
            .iter()
            .map(|arrived| {
                let (arrived, flag, rings) = (arrived.clone(), flag.clone(), rings.clone());
                thread::spawn(move || {
                    arrived.store(true, Ordering::Release);
                    if doorbell::must_ring(&flag, SenderOrder::Fence) {
                        rings.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        doorbell::doze(&flag);
        let seen = arrived.iter().filter(|a| a.load(Ordering::Acquire)).count();
        senders.into_iter().for_each(|s| s.join().unwrap());
        assert!(seen == 2 || rings.load(Ordering::Relaxed) >= 1, "a message nobody saw came with a ring");
    });
}
