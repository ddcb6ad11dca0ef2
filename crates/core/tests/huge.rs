//! A message of more than 4 GiB: lengths and offsets have all their bits, on every step of the way.

use std::time::{Duration, Instant};

use barewire_core::job::Job;
use barewire_core::{Config, Deliver, Endpoint, Flow, Ignore, Incoming, Peer, Port, SendError};

const TOTAL: u64 = (4 << 30) + 12_345;
/// Bytes after which the message repeats: a prime, so that what is a power of two too early or too late looks wrong.
const PERIOD: usize = 65_521;
/// The most that is looked at or pushed in one go.
const PIECE: usize = 256 << 10;
/// Nothing moves for so long only if something hangs.
const LATE: Duration = Duration::from_secs(120);

/// Bytes to take any piece of the message from.
fn pattern() -> Vec<u8> {
    (0..PERIOD + PIECE)
        .map(|at| ((at % PERIOD) as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect()
}

/// Compares what comes with what should; keeps nothing of it.
struct Checker {
    pattern: Vec<u8>,
    piece: Vec<u8>,
    got: u64,
}

impl Deliver for Checker {
    fn deliver(&mut self, _: &mut Endpoint, mut packet: Incoming<'_>) -> Flow {
        assert_eq!((packet.total, packet.offset), (TOTAL, self.got));
        while packet.remaining() > 0 {
            let n = packet.read(&mut self.piece);
            let from = (self.got % PERIOD as u64) as usize;
            assert!(self.piece[..n] == self.pattern[from..from + n], "other bytes at {}", self.got);
            self.got += n as u64;
        }
        Flow::Continue
    }
}

#[test]
fn a_message_of_more_than_4_gib_arrives_byte_for_byte() {
    let config = Config { tcp: false, ..Config::default() };
    let mut jobs = Job::threads(2).unwrap().into_iter();
    let [mut here, mut there] =
        [(); 2].map(|()| Endpoint::open(jobs.next().unwrap(), config.clone()).unwrap());
    let pattern = pattern();
    let mut checker = Checker { pattern: pattern.clone(), piece: vec![0; PIECE], got: 0 };
    let mut sending = here.begin(Peer(1), Port(1), 0, TOTAL).unwrap();
    let mut moved = Instant::now();
    while checker.got < TOTAL {
        let from = (sending.sent() % PERIOD as u64) as usize;
        match here.push(&mut sending, &pattern[from..from + PIECE]) {
            Ok(_) => {}
            Err(SendError::Full) => {
                assert!(moved.elapsed() < LATE, "{} bytes came, and no more", checker.got)
            }
            Err(error) => panic!("{error}"),
        }
        here.progress(&mut Ignore, usize::MAX);
        if there.progress(&mut checker, usize::MAX) > 0 {
            moved = Instant::now();
        }
    }
    assert!(sending.is_done());
    assert_eq!((sending.sent(), checker.got), (TOTAL, TOTAL));
}
