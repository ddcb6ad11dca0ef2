//! TCP through an endpoint beside a bare socket, interleaved in one run on two pinned threads: what the endpoint adds.
//!
//! `cargo run --release -p barewire-core --example tcp_ratio [rounds]`

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use barewire_core::job::Job;
use barewire_core::{Config, Deliver, Endpoint, Flow, Incoming, Peer, Port, SendError};
use barewire_sys::rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const PINGS: u32 = 10_000;
const MESSAGES: u64 = 300_000;
const STREAM_BYTES: usize = 64 << 20;
const CHUNK_BYTES: usize = 64 << 10;

fn main() {
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(15);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    let near =
        TcpStream::connect(listener.local_addr().expect("it is bound")).expect("a connection to ourselves");
    let (far, _) = listener.accept().expect("the connection just made");
    let config = Config { shm: false, ..Config::default() };
    let mut jobs = Job::threads(2).expect("random numbers").into_iter();
    let (first, second) = (jobs.next().expect("two were made"), jobs.next().expect("two were made"));
    std::thread::scope(|scope| {
        let config = &config;
        scope.spawn(move || Side::new(second, config, far, 1).run(rounds));
        let results = Side::new(first, config, near, 0).run(rounds);
        report(&results);
    });
}

/// What the first side measured, one entry a round.
#[derive(Default)]
struct Results {
    raw_us: Vec<f64>,
    ours_us: Vec<f64>,
    rate: Vec<f64>,
    raw_bytes: Vec<f64>,
    our_bytes: Vec<f64>,
}

/// Prints two ratios: of the medians, and the median of the rounds' own. On a quiet machine they agree.
fn report(results: &Results) {
    let compare = |ours: &[f64], raw: &[f64]| {
        let rounds: Vec<f64> = ours.iter().zip(raw).map(|(ours, raw)| ours / raw).collect();
        (median(ours), median(raw), median(ours) / median(raw), median(&rounds))
    };
    let (ours, raw, ratio, paired) = compare(&results.ours_us, &results.raw_us);
    println!(
        "8 B one way: endpoint {ours:.2} us, bare socket {raw:.2} us, ratio {ratio:.3}, by round {paired:.3}"
    );
    println!("8 B messages: {:.2} M/s", median(&results.rate));
    let (ours, raw, ratio, paired) = compare(&results.our_bytes, &results.raw_bytes);
    println!(
        "stream: endpoint {ours:.2} GB/s, bare socket {raw:.2} GB/s, ratio {ratio:.3}, by round {paired:.3}"
    );
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Counts messages and bytes.
#[derive(Default)]
struct Count {
    messages: u64,
    bytes: usize,
    buffer: Vec<u8>,
}

impl Deliver for Count {
    fn deliver(&mut self, _: &mut Endpoint, mut packet: Incoming<'_>) -> Flow {
        self.messages += 1;
        self.buffer.resize(CHUNK_BYTES, 0);
        self.bytes += packet.read(&mut self.buffer);
        Flow::Continue
    }
}

struct Side {
    endpoint: Endpoint,
    count: Count,
    bare: TcpStream,
    first: bool,
    other: Peer,
}

impl Side {
    fn new(job: Job, config: &Config, bare: TcpStream, cpu: usize) -> Side {
        pin(cpu);
        bare.set_nodelay(true).expect("a TCP socket");
        bare.set_nonblocking(true).expect("a socket");
        let endpoint = Endpoint::open(job, config.clone()).expect("an endpoint on loopback");
        let (first, other) = (endpoint.me() == Peer(0), Peer(1 - endpoint.me().0));
        Side { endpoint, count: Count::default(), bare, first, other }
    }

    fn run(&mut self, rounds: usize) -> Results {
        let mut results = Results::default();
        self.ping(100);
        for _ in 0..rounds {
            results.raw_us.push(self.bare_ping(PINGS));
            results.ours_us.push(self.ping(PINGS));
            results.rate.push(self.flood());
            results.raw_bytes.push(self.bare_stream());
            results.our_bytes.push(self.stream());
        }
        results
    }

    fn bare_ping(&mut self, pings: u32) -> f64 {
        let start = Instant::now();
        for _ in 0..pings {
            if self.first {
                self.bare.write_all(&[1; 8]).expect("room for eight bytes");
                read_exactly(&mut self.bare, &mut [0; 8]);
            } else {
                read_exactly(&mut self.bare, &mut [0; 8]);
                self.bare.write_all(&[1; 8]).expect("room for eight bytes");
            }
        }
        start.elapsed().as_secs_f64() * 1e6 / f64::from(pings) / 2.0
    }

    fn ping(&mut self, pings: u32) -> f64 {
        let start = Instant::now();
        for _ in 0..pings {
            if self.first {
                self.send(&[1; 8]);
                self.receive(1);
            } else {
                self.receive(1);
                self.send(&[1; 8]);
            }
        }
        self.endpoint.flush();
        start.elapsed().as_secs_f64() * 1e6 / f64::from(pings) / 2.0
    }

    /// Millions of messages a second.
    fn flood(&mut self) -> f64 {
        let start = Instant::now();
        if self.first {
            (0..MESSAGES).for_each(|_| self.send(&[1; 8]));
            self.receive(1);
        } else {
            self.receive(MESSAGES);
            self.send(&[1; 8]);
            self.endpoint.flush();
        }
        MESSAGES as f64 / start.elapsed().as_secs_f64() / 1e6
    }

    fn bare_stream(&mut self) -> f64 {
        let (start, mut buffer) = (Instant::now(), vec![7; CHUNK_BYTES]);
        if self.first {
            for _ in 0..STREAM_BYTES / CHUNK_BYTES {
                write_all(&mut self.bare, &buffer);
            }
            read_exactly(&mut self.bare, &mut [0; 1]);
        } else {
            for _ in 0..STREAM_BYTES / CHUNK_BYTES {
                read_exactly(&mut self.bare, &mut buffer);
            }
            write_all(&mut self.bare, &[1]);
        }
        STREAM_BYTES as f64 / start.elapsed().as_secs_f64() / 1e9
    }

    /// Gigabytes a second, as one long message.
    fn stream(&mut self) -> f64 {
        let (start, buffer) = (Instant::now(), vec![7; CHUNK_BYTES]);
        if self.first {
            let mut sending =
                self.endpoint.begin(self.other, Port(1), 0, STREAM_BYTES as u64).expect("it is there");
            while !sending.is_done() {
                let at = sending.sent() as usize % CHUNK_BYTES;
                if self.endpoint.push(&mut sending, &buffer[at..]).is_err() {
                    self.endpoint.progress(&mut self.count, usize::MAX);
                }
            }
            self.receive(1);
        } else {
            let until = self.count.bytes + STREAM_BYTES;
            self.endpoint
                .wait(&mut self.count, None, |_, count| count.bytes >= until)
                .expect("no time limit");
            self.send(&[1; 8]);
            // The next thing is not an endpoint's business, so nobody would make progress.
            self.endpoint.flush();
        }
        STREAM_BYTES as f64 / start.elapsed().as_secs_f64() / 1e9
    }

    fn send(&mut self, bytes: &[u8]) {
        loop {
            match self.endpoint.send(self.other, Port(1), 0, bytes) {
                Ok(()) => return,
                Err(SendError::Full) => {
                    self.endpoint.progress(&mut self.count, usize::MAX);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn receive(&mut self, messages: u64) {
        let until = self.count.messages + messages;
        self.endpoint.wait(&mut self.count, None, |_, count| count.messages >= until).expect("no time limit");
    }
}

fn read_exactly(stream: &mut TcpStream, mut into: &mut [u8]) {
    while !into.is_empty() {
        match stream.read(into) {
            Ok(0) => panic!("closed"),
            Ok(n) => into = &mut into[n..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn write_all(stream: &mut TcpStream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Keeps this thread on one processor, if there are enough.
fn pin(which: usize) {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    if let Some(&cpu) = cpus.get(which) {
        let mut set = CpuSet::new();
        set.set(cpu);
        let _ = sched_setaffinity(None, &set);
    }
}
