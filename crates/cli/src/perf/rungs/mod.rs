//! The rungs of the ladder, from one cache line up. Adding one is a file here and a line in [`run`].

mod am;
mod core;
mod fm;
mod limits;
mod sockets;
mod splitc;
mod tagged;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use barewire_core::tagged::Tagged;
use barewire_core::{Deliver, Endpoint, Flow, Incoming, Peer, Port, SendError};

use super::worker::Command;

/// A rank under measurement: its endpoint and what the rungs share.
pub struct Rungs {
    pub endpoint: Endpoint,
    pub tagged: Tagged,
    pub limits: Option<limits::Limits>,
    pub sockets: sockets::Sockets,
    pub inbox: Inbox,
    /// Buffers as malloc gives them to users: not aligned to a page.
    pub out: Vec<u8>,
    pub into: Vec<u8>,
}

/// Bytes of the buffers that messages come from and go to.
pub const BUFFER_BYTES: usize = (8 << 20) + 24;
/// Nobody waits longer for the others than this.
pub const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

impl Rungs {
    pub fn new(endpoint: Endpoint) -> Result<Rungs> {
        let tagged = Tagged::new(&endpoint);
        Ok(Rungs {
            endpoint,
            tagged,
            limits: None,
            sockets: sockets::Sockets::default(),
            inbox: Inbox::default(),
            out: vec![1; BUFFER_BYTES],
            into: vec![2; BUFFER_BYTES],
        })
    }

    pub fn rank(&self) -> u32 {
        self.endpoint.me().0
    }

    /// Tells a peer something on the side.
    pub fn tell(&mut self, to: Peer, port: Port, bytes: &[u8]) -> Result<()> {
        loop {
            match self.endpoint.send(to, port, 0, bytes) {
                Ok(()) => return Ok(()),
                Err(SendError::Full) => {
                    self.endpoint
                        .progress(&mut Side { inbox: &mut self.inbox, tagged: &mut self.tagged }, usize::MAX);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What a peer told us on the side.
    pub fn hear(&mut self, port: Port) -> Result<Vec<u8>> {
        let mut side = Side { inbox: &mut self.inbox, tagged: &mut self.tagged };
        self.endpoint
            .wait(&mut side, PATIENCE, |_, side| side.inbox.letters.iter().any(|(p, _)| *p == port))?;
        let inbox = side.inbox;
        let at =
            inbox.letters.iter().position(|(p, _)| *p == port).expect("the wait ended because there is one");
        Ok(inbox.letters.remove(at).1)
    }

    /// Waits until all ranks are here. Rank 0 comes out last: when it begins to send, nobody listens on the side any more.
    pub fn meet_all(&mut self) -> Result<()> {
        const HERE: Port = Port(11);
        const GO: Port = Port(12);
        const READY: Port = Port(13);
        let size = self.endpoint.size();
        if self.rank() == 0 {
            for _ in 1..size {
                self.hear(HERE)?;
            }
            for rank in 1..size {
                self.tell(Peer(rank), GO, &[])?;
            }
            for _ in 1..size {
                self.hear(READY)?;
            }
        } else {
            self.tell(Peer(0), HERE, &[])?;
            self.hear(GO)?;
            self.tell(Peer(0), READY, &[])?;
        }
        Ok(())
    }
}

/// What arrived on the side.
#[derive(Default)]
pub struct Inbox {
    letters: Vec<(Port, Vec<u8>)>,
}

impl Inbox {
    /// Keeps what arrived on the side.
    #[cold]
    pub fn keep(&mut self, mut packet: Incoming<'_>) {
        let port = packet.port;
        self.letters.push((port, packet.to_vec()));
    }
}

/// What is on the side goes into the inbox; tagged messages and their credit go where they belong.
pub struct Side<'a> {
    pub inbox: &'a mut Inbox,
    pub tagged: &'a mut Tagged,
}

impl Deliver for Side<'_> {
    #[inline(always)]
    fn deliver(&mut self, endpoint: &mut Endpoint, packet: Incoming<'_>) -> Flow {
        if Tagged::owns(packet.port) {
            return self.tagged.deliver(endpoint, packet);
        }
        self.inbox.keep(packet);
        Flow::Continue
    }
}

/// A rank that can be measured.
pub trait Bench {
    /// Waits until all ranks are here.
    fn meet(&mut self) -> Result<()>;
    /// Does what the command says, once.
    fn once(&mut self, command: &Command) -> Result<f64>;
}

/// The rank for a layer. Layers that own their endpoint have programs of their own; the others share one.
pub fn bench(api: &str, endpoint: Endpoint) -> Result<Box<dyn Bench>> {
    match api {
        "am" => Ok(Box::new(am::AmBench::new(endpoint))),
        "fm" => Ok(Box::new(fm::FmBench::new(endpoint)?)),
        "splitc" => Ok(Box::new(splitc::SplitcBench::new(endpoint)?)),
        _ => Ok(Box::new(Rungs::new(endpoint)?)),
    }
}

/// Carries out a command: a short warm-up, then the measured run. Nanoseconds an operation, as rank 0 saw it.
pub fn run(bench: &mut dyn Bench, command: &Command) -> Result<f64> {
    let warm_up = Command { count: command.count / 10 + 1, ..command.clone() };
    bench.meet()?;
    bench.once(&warm_up)?;
    bench.meet()?;
    bench.once(command)
}

impl Bench for Rungs {
    fn meet(&mut self) -> Result<()> {
        self.meet_all()
    }

    fn once(&mut self, command: &Command) -> Result<f64> {
        once(self, command)
    }
}

fn once(rungs: &mut Rungs, command: &Command) -> Result<f64> {
    let Command { what, bytes, count, window, .. } = command;
    let (bytes, count, window) = (*bytes, *count, (*window).max(1));
    match what.as_str() {
        "line/latency" => limits::line_latency(rungs, count),
        "ring/latency" => limits::ring_latency(rungs, bytes, count),
        "ring/rate" => limits::ring_rate(rungs, bytes, count),
        "copy/rate" => limits::copy_rate(rungs, bytes, count),
        "message/latency" => core::latency(rungs, bytes, count),
        "message/rate" => core::rate(rungs, bytes, count, window),
        "region/rate" => core::put_rate(rungs, bytes, count),
        "tagged/latency" => tagged::latency(rungs, bytes, count),
        "tagged/rate" => tagged::rate(rungs, bytes, count, window),
        "tagged/ring" => tagged::ring(rungs, bytes, count),
        "socket/latency" => sockets::latency(rungs, bytes, count),
        other => bail!("there is no measurement called {other}"),
    }
}

/// Nanoseconds since `start`, for each of `count` operations.
pub fn each(start: Instant, count: u64) -> f64 {
    start.elapsed().as_nanos() as f64 / count.max(1) as f64
}
