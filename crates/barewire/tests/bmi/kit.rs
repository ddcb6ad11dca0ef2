//! What the tests share: a server and a client that have met, patterns, and waiting.

use std::time::{Duration, Instant};

use barewire::bmi::{Addr, Bmi, Buffer, Completion, ContextId, OpId, Options, Posted, Result, Unexpected};
use barewire::core::Config;
use barewire::core::job::JobKey;

pub const SOON: Duration = Duration::from_millis(200);

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server and a client, each with a context, that know each other.
pub struct Pair {
    pub server: (Bmi, ContextId),
    pub client: (Bmi, ContextId),
    pub to_server: Addr,
    pub to_client: Addr,
}

impl Pair {
    pub fn meet(shm: bool) -> Pair {
        let (server, url) = serve(wire(shm));
        Pair::join(server, &url, shm)
    }

    /// Another client of a server.
    pub fn join(server: Bmi, url: &str, shm: bool) -> Pair {
        let client = Bmi::initialize(wire(shm)).unwrap();
        let (to_server, context) = (client.addr_lookup(url).unwrap(), client.open_context().unwrap());
        let client = (client, context);
        let hello =
            client.0.post_sendunexpected(to_server, Buffer::from(b"hello"), 0, 99, 0, client.1).unwrap();
        std::thread::scope(|scope| {
            let there = scope.spawn(|| next_unexpected(&server, 99));
            end_of(&client, hello);
            let to_client = there.join().unwrap().from;
            let context = server.open_context().unwrap();
            Pair { server: (server.clone(), context), client, to_server, to_client }
        })
    }
}

pub fn wire(shm: bool) -> Options {
    let connect_within = Duration::from_secs(10);
    Options::default().key(JobKey([7; 32])).config(Config { shm, connect_within, ..Config::default() })
}

/// A server and where it listens.
pub fn serve(options: Options) -> (Bmi, String) {
    let bmi = Bmi::initialize(options.listen("tcp://127.0.0.1:0")).unwrap();
    let url = format!("tcp://127.0.0.1:{}", bmi.port().unwrap());
    (bmi, url)
}

/// Bytes that tell where they are from.
pub fn pattern(len: usize, seed: u8) -> Buffer {
    let bytes: Vec<u8> =
        (0..len).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed | 1).collect();
    Buffer::from(&bytes[..])
}

pub fn same(got: &Buffer, sent: &Buffer) {
    assert!(got.to_vec() == sent.to_vec(), "every byte is where it was");
}

pub fn pending(posted: Result<Posted>) -> OpId {
    match posted.unwrap() {
        Posted::Pending(op) => op,
        Posted::Done(len) => panic!("completed at once with {len} bytes"),
    }
}

/// The end of an operation, which may have come at once.
pub fn end_of((bmi, context): &(Bmi, ContextId), posted: Posted) -> Completion {
    match posted {
        Posted::Done(len) => Completion { op: OpId::from_raw(-1), outcome: Ok(len), user: 0 },
        Posted::Pending(op) => wait(|| bmi.test(op, SOON, *context).unwrap()),
    }
}

/// The end of an operation that needs the other side to make progress too.
pub fn both(one: &(Bmi, ContextId), op: OpId, other: &(Bmi, ContextId)) -> Completion {
    wait(|| {
        other.0.testcontext(0, Duration::ZERO, other.1).unwrap();
        one.0.test(op, Duration::from_micros(100), one.1).unwrap()
    })
}

pub fn one_end(bmi: &Bmi, context: ContextId) -> Completion {
    wait(|| bmi.testcontext(1, SOON, context).unwrap().pop())
}

pub fn next_unexpected(bmi: &Bmi, class: u8) -> Unexpected {
    wait(|| bmi.testunexpected(1, class, SOON).unwrap().pop())
}

fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "it never happened");
    }
}
