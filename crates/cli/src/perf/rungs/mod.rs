//! The rungs of the ladder, from one cache line up. Adding one is a file here and a line in [`open_layer`] or [`once`].

mod am;
mod am2;
mod core;
mod fm;
mod ipc;
mod limits;
mod pair;
mod sockets;
mod splitc;
mod tagged;
mod via;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use barewire_core::tagged::Tagged;
use barewire_core::{Ahead, Deliver, Endpoint, Flow, Incoming, Peer, Port, SendError};
use barewire_sys::cpu::{cpu_time, waited_for_a_processor};
use barewire_sys::wirebuf::Places;

use super::figures::median;
use super::trips::Trips;
use super::worker::{Answer, Command, WAITED};

/// Bytes of the buffers that messages come from and go to.
pub const BUFFER_BYTES: usize = (8 << 20) + 24;
/// Nobody waits longer for the others than this.
pub const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

/// Messages in a burst: fewer than a ring holds or a layer has credits for.
const BURST: u64 = 16;
/// How long a receiver looks away: far longer than a burst takes.
const AWAY: Duration = Duration::from_micros(400);

/// A rank that can be measured: one endpoint, and the layer that has it at the moment.
pub struct Rank {
    me: u32,
    size: u32,
    layer: &'static str,
    bench: Option<Box<dyn Bench>>,
    /// What the core's rungs keep while another layer has the endpoint.
    kept: Option<Kept>,
}

/// A layer under measurement. It owns the endpoint until it is closed.
pub trait Bench {
    /// Tells a peer that it may go on, or that it did.
    fn tell_here(&mut self, to: Peer) -> Result<()>;
    /// Waits until that has been told `count` times since the last wait.
    fn hear_here(&mut self, count: u32) -> Result<()>;
    /// Does what the command says, once; nanoseconds an operation.
    fn once(&mut self, command: &Command, trips: &mut Trips) -> Result<f64>;
    /// Rank 0 sends `count` messages, rank 1 takes as many, and neither waits for the other; nanoseconds for each.
    fn burst(&mut self, rung: &str, bytes: usize, count: u64) -> Result<f64>;
    /// Takes and sends what there is, without waiting.
    fn idle(&mut self);
    /// Gives the endpoint back, and what the core's rungs keep if it has that; none from layers that never give it back.
    fn close(self: Box<Self>) -> Option<(Endpoint, Option<Kept>)>;
    /// Waits until all ranks are here, where the layer has a way of its own.
    fn meet(&mut self) -> Option<Result<()>> {
        None
    }
    /// Tells rank 0 some figures, or as rank 0 hears those of all others.
    fn gather(&mut self, _figures: [f64; 2]) -> Result<Vec<[f64; 2]>> {
        bail!("only the core's rungs speak on the side")
    }
}

impl Rank {
    /// A rank of a program on one of `cpus` processors.
    pub fn new(endpoint: Endpoint, program: &str, cpus: usize) -> Result<Rank> {
        let (me, size) = (endpoint.me().0, endpoint.size());
        CROWDED.store(size as usize > cpus, Ordering::Relaxed);
        let layer = layer_of(program);
        let bench = open_layer(layer, endpoint, &mut None)?;
        Ok(Rank { me, size, layer, bench: Some(bench), kept: None })
    }

    pub fn me(&self) -> u32 {
        self.me
    }

    pub fn size(&self) -> u32 {
        self.size
    }

    /// Carries out a command: a warm-up, then the measured run, as rank 0 saw it.
    ///
    /// Verb `spread` is `latency` with every trip timed; `cpu` is `rate` with the processor time of all ranks.
    pub fn run(&mut self, command: &Command) -> Result<Answer> {
        let (rung, verb) = command.parts();
        let (rung, verb) = (rung.to_owned(), verb.to_owned());
        self.switch(&rung)?;
        if verb == "logp" {
            return self.overheads(&rung, command);
        }
        let what = match verb.as_str() {
            "spread" => format!("{rung}/latency"),
            "cpu" => format!("{rung}/rate"),
            _ => command.what.clone(),
        };
        let measured = Command { what, ..command.clone() };
        self.meet()?;
        if command.warm_up > 0 {
            let warm_up = Command { count: command.warm_up, ..measured.clone() };
            self.bench().once(&warm_up, &mut Trips::off())?;
            self.meet()?;
        }
        let mut trips = if verb == "spread" { Trips::on(command.count) } else { Trips::off() };
        let (user, system) = cpu_time();
        let (waited, start) = (waited_for_a_processor(), Instant::now());
        trips.begin();
        let mut answer = Answer::of(self.bench().once(&measured, &mut trips)?);
        // Ranks that outnumber the processors wait for each other: that is what is measured there.
        if let (Some(before), Some(after), false) = (waited, waited_for_a_processor(), crowded()) {
            let part = after.saturating_sub(before).as_secs_f64() / start.elapsed().as_secs_f64();
            answer.more.push((WAITED.to_owned(), part.min(1.0)));
        }
        if verb == "cpu" {
            let after = cpu_time();
            let used = [after.0.saturating_sub(user), after.1.saturating_sub(system)];
            self.add_cpu(&mut answer, used.map(|time| time.as_nanos() as f64 / command.count.max(1) as f64))?;
        }
        answer.more.extend(trips.quantiles(2.0).into_iter().map(|(name, ns)| (name.to_owned(), ns)));
        Ok(answer)
    }

    /// Between commands: what was sent last may still have to leave.
    pub fn idle(&mut self) {
        self.bench().idle();
    }

    fn bench(&mut self) -> &mut dyn Bench {
        &mut **self.bench.as_mut().expect("a layer always has the endpoint")
    }

    /// Waits until all ranks are here. Rank 0 speaks first and comes out last, so whoever is told something after this is
    /// in the same layer as who tells it.
    fn meet(&mut self) -> Result<()> {
        let (me, size) = (self.me, self.size);
        let bench = self.bench();
        if let Some(met) = bench.meet() {
            return met;
        }
        if me == 0 {
            for rank in 1..size {
                bench.tell_here(Peer(rank))?;
            }
            bench.hear_here(size - 1)
        } else {
            bench.hear_here(1)?;
            bench.tell_here(Peer(0))
        }
    }

    /// Hands the endpoint to the layer that a rung belongs to.
    fn switch(&mut self, rung: &str) -> Result<()> {
        let layer = layer_of(rung);
        if layer == self.layer {
            return Ok(());
        }
        if KEEPERS.contains(&self.layer) || KEEPERS.contains(&layer) {
            bail!("{layer} cannot follow {} in the same ranks", self.layer);
        }
        self.meet()?;
        let bench = self.bench.take().expect("a layer always has the endpoint");
        let (endpoint, kept) = bench.close().expect("only those that keep it do not");
        self.kept = kept.or(self.kept.take());
        self.bench = Some(open_layer(layer, endpoint, &mut self.kept)?);
        self.layer = layer;
        // Nobody may be told anything before it is in the new layer too.
        self.meet()
    }

    /// How long one message occupies the processor of its sender and of its receiver: the medians of many bursts.
    ///
    /// A burst is sent while the receiver looks away, and taken when all of it is there.
    fn overheads(&mut self, rung: &str, command: &Command) -> Result<Answer> {
        let mut bursts = Vec::new();
        for _ in 0..command.count.div_ceil(BURST).clamp(3, 60) {
            self.meet()?;
            let met = Instant::now();
            while self.me > 0 && met.elapsed() < AWAY {
                std::hint::spin_loop();
            }
            if self.me <= 1 {
                bursts.push(self.bench().burst(rung, command.bytes, BURST)?);
            }
        }
        self.switch("message")?;
        let own = median(&bursts);
        let me = f64::from(self.me);
        let others = self.bench().gather([own, me])?;
        let receiver = others.iter().find(|[_, rank]| *rank == 1.0).map_or(f64::NAN, |[ns, _]| *ns);
        let more = vec![("send_ns".to_owned(), own), ("receive_ns".to_owned(), receiver)];
        Ok(Answer { each_ns: own + receiver, more })
    }

    /// Adds the processor time of all ranks, for one operation, to an answer.
    fn add_cpu(&mut self, answer: &mut Answer, used: [f64; 2]) -> Result<()> {
        self.switch("message")?;
        let mut all = self.bench().gather(used)?;
        all.push(used);
        for (at, name) in ["user_ns", "system_ns"].into_iter().enumerate() {
            answer.more.push((name.to_owned(), all.iter().map(|used| used[at]).sum()));
        }
        Ok(())
    }
}

/// Which layer a rung belongs to.
fn layer_of(rung: &str) -> &'static str {
    match rung {
        "am" => "am",
        "am2" => "am2",
        "amvia" => "amvia",
        "fm" => "fm",
        "splitc" => "splitc",
        "via" => "via",
        _ => "core",
    }
}

/// Layers that never give their endpoint back, and so have ranks of their own.
pub const KEEPERS: [&str; 3] = ["amvia", "splitc", "via"];

fn open_layer(layer: &str, endpoint: Endpoint, kept: &mut Option<Kept>) -> Result<Box<dyn Bench>> {
    Ok(match layer {
        "am" => Box::new(am::AmBench::new(endpoint)),
        "am2" => Box::new(am2::Am2Bench::new(endpoint)?),
        "amvia" => Box::new(am2::Am2Bench::over_via(endpoint)?),
        "fm" => Box::new(fm::FmBench::new(endpoint)?),
        "splitc" => Box::new(splitc::SplitcBench::new(endpoint)?),
        "via" => Box::new(via::ViaBench::new(endpoint)?),
        _ => {
            let kept = kept.take().unwrap_or_else(|| Kept::new(&endpoint));
            Box::new(Rungs::new(endpoint, kept))
        }
    })
}

/// What the core's rungs share and keep from one command to the next.
pub struct Kept {
    tagged: Tagged,
    limits: Option<limits::Limits>,
    sockets: sockets::Sockets,
    ipc: ipc::Ipc,
    /// Buffers as malloc gives them to users: not aligned to a page.
    out: Vec<u8>,
    into: Vec<u8>,
}

impl Kept {
    fn new(endpoint: &Endpoint) -> Kept {
        let mut tagged = Tagged::new(endpoint);
        // As MPI does.
        tagged.show_buffers();
        Kept {
            tagged,
            limits: None,
            sockets: sockets::Sockets::default(),
            ipc: ipc::Ipc::default(),
            out: vec![1; BUFFER_BYTES],
            into: vec![2; BUFFER_BYTES],
        }
    }
}

/// The core's rungs, and the limits below them: an endpoint and what they share.
pub struct Rungs {
    endpoint: Endpoint,
    inbox: Inbox,
    kept: Kept,
}

impl Rungs {
    fn new(endpoint: Endpoint, kept: Kept) -> Rungs {
        Rungs { endpoint, inbox: Inbox::default(), kept }
    }

    fn rank(&self) -> u32 {
        self.endpoint.me().0
    }

    /// Tells a peer something on the side.
    fn tell(&mut self, to: Peer, port: Port, bytes: &[u8]) -> Result<()> {
        loop {
            match self.endpoint.send(to, port, 0, bytes) {
                Ok(()) => return Ok(()),
                Err(SendError::Full) => {
                    let mut side = Side { inbox: &mut self.inbox, tagged: &mut self.kept.tagged };
                    self.endpoint.progress(&mut side, usize::MAX);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What a peer told us on the side.
    fn hear(&mut self, port: Port) -> Result<Vec<u8>> {
        let mut side = Side { inbox: &mut self.inbox, tagged: &mut self.kept.tagged };
        self.endpoint
            .wait(&mut side, PATIENCE, |_, side| side.inbox.letters.iter().any(|(p, _)| *p == port))?;
        let inbox = side.inbox;
        let at =
            inbox.letters.iter().position(|(p, _)| *p == port).expect("the wait ended because there is one");
        Ok(inbox.letters.remove(at).1)
    }

    /// Ranks 0 and 1 wait for each other.
    fn meet_other(&mut self) -> Result<()> {
        const BOTH: Port = Port(11);
        let other = Peer(1 - self.rank());
        self.tell(other, BOTH, &[])?;
        self.hear(BOTH).map(|_| ())
    }
}

impl Bench for Rungs {
    fn tell_here(&mut self, to: Peer) -> Result<()> {
        self.tell(to, HERE, &[])
    }

    fn hear_here(&mut self, count: u32) -> Result<()> {
        (0..count).try_for_each(|_| self.hear(HERE).map(|_| ()))
    }

    fn once(&mut self, command: &Command, trips: &mut Trips) -> Result<f64> {
        once(self, command, trips)
    }

    fn burst(&mut self, rung: &str, bytes: usize, count: u64) -> Result<f64> {
        match rung {
            "message" => core::burst(self, bytes, count),
            "tagged" => tagged::burst(self, bytes, count),
            other => bail!("{other} has no overheads to measure"),
        }
    }

    fn idle(&mut self) {
        let mut side = Side { inbox: &mut self.inbox, tagged: &mut self.kept.tagged };
        self.endpoint.progress(&mut side, usize::MAX);
    }

    fn close(self: Box<Self>) -> Option<(Endpoint, Option<Kept>)> {
        Some((self.endpoint, Some(self.kept)))
    }

    fn gather(&mut self, figures: [f64; 2]) -> Result<Vec<[f64; 2]>> {
        const FIGURES: Port = Port(13);
        if self.rank() != 0 {
            let bytes = figures.map(f64::to_le_bytes).concat();
            self.tell(Peer(0), FIGURES, &bytes)?;
            return Ok(Vec::new());
        }
        let mut all = Vec::new();
        for _ in 1..self.endpoint.size() {
            let bytes = self.hear(FIGURES)?;
            let figure = |at: usize| -> Result<f64> {
                Ok(f64::from_le_bytes(bytes.get(at..at + 8).unwrap_or_default().try_into()?))
            };
            all.push([figure(0)?, figure(8)?]);
        }
        Ok(all)
    }
}

/// On the side: whoever waits may go on.
const HERE: Port = Port(12);

/// What arrived on the side.
#[derive(Default)]
pub struct Inbox {
    letters: Vec<(Port, Vec<u8>)>,
}

impl Inbox {
    /// Keeps what arrived on the side.
    #[cold]
    fn keep(&mut self, mut packet: Incoming<'_>) {
        let port = packet.port;
        self.letters.push((port, packet.to_vec()));
    }
}

/// What is on the side goes into the inbox; tagged messages and their credit go where they belong.
pub struct Side<'a> {
    inbox: &'a mut Inbox,
    tagged: &'a mut Tagged,
}

impl Deliver for Side<'_> {
    const LEAVES: bool = Tagged::LEAVES;

    #[inline(always)]
    fn deliver(&mut self, endpoint: &mut Endpoint, packet: Incoming<'_>) -> Flow {
        if Tagged::owns(packet.port) {
            return self.tagged.deliver(endpoint, packet);
        }
        self.inbox.keep(packet);
        Flow::Continue
    }

    fn place<'b>(&'b mut self, ahead: &Ahead, places: &mut Places<'b>) {
        self.tagged.place(ahead, places);
    }

    fn placed(&mut self, endpoint: &mut Endpoint, ahead: &Ahead) -> Flow {
        self.tagged.placed(endpoint, ahead)
    }
}

fn once(rungs: &mut Rungs, command: &Command, trips: &mut Trips) -> Result<f64> {
    let Command { bytes, count, window, .. } = command;
    let (bytes, count, window) = (*bytes, *count, (*window).max(1));
    if bytes > BUFFER_BYTES {
        bail!("messages of more than {BUFFER_BYTES} bytes are not measured");
    }
    let (rung, verb) = command.parts();
    // Most measurements are between two; the other ranks wait in the next meeting.
    if rungs.rank() > 1 && verb != "turn" {
        return Ok(0.0);
    }
    match (rung, verb) {
        ("line", "latency") => limits::line_latency(rungs, count, trips),
        ("ring", "latency") => limits::ring_latency(rungs, bytes, count, trips),
        ("ring", "rate") => limits::ring_rate(rungs, bytes, count, window),
        ("copy", "rate") => limits::copy_rate(rungs, bytes, count),
        ("message", "latency") => core::latency(rungs, bytes, count, trips),
        ("message", "rate") => core::rate(rungs, bytes, count, window),
        ("message", "turn") => core::turn(rungs, bytes, count),
        ("region", "latency") => core::put_latency(rungs, bytes, count, trips),
        ("region", "rate") => core::put_rate(rungs, bytes, count),
        ("tagged", "latency") => tagged::latency(rungs, bytes, count, trips),
        ("tagged", "rate") => tagged::rate(rungs, bytes, count, window),
        ("tagged", "turn") => tagged::turn(rungs, bytes, count),
        ("tagged", "posted") => tagged::posted(rungs, bytes, count, false),
        ("tagged", "posted-shared") => tagged::posted(rungs, bytes, count, true),
        ("socket" | "nagle", "latency") => sockets::latency(rungs, rung, bytes, count, trips),
        ("socket" | "nagle", "rate") => sockets::rate(rungs, rung, bytes, count, window),
        ("pipe" | "fifo" | "unix" | "sysv", _) => ipc::once(rungs, command, trips),
        _ => bail!("there is no measurement called {}", command.what),
    }
}

/// Nanoseconds since `start`, for each of `count` operations.
pub fn each(start: Instant, count: u64) -> f64 {
    start.elapsed().as_nanos() as f64 / count.max(1) as f64
}

/// Whether ranks have to share processors.
static CROWDED: AtomicBool = AtomicBool::new(false);

fn crowded() -> bool {
    CROWDED.load(Ordering::Relaxed)
}

/// Polls until `done`. With fewer processors than ranks it lets others run now and then: the sender may be among them. With
/// enough of them that would only make way for strangers.
#[inline(always)]
pub fn until(mut done: impl FnMut() -> bool) {
    const LOOKS: u32 = 256;
    let mut looks = 0;
    while !done() {
        looks += 1;
        if looks == LOOKS {
            looks = 0;
            if crowded() {
                std::thread::yield_now();
            }
        }
    }
}
