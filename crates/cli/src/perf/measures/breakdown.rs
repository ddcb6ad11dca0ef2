//! Where the time of one message goes: base, flow control, events and semantics, by a counter read between the steps.
//!
//! Sender and receiver are two endpoints of one thread, so that only the processor's work is measured and no waiting. Each level
//! does all that the level below does and something more, so differences between levels are parts:
//!
//! - *base*: a line is written and read. Nothing moves with less.
//! - *flow control*: the ring finds room and gives it back; credits and tags of Active Messages II.
//! - *events*: the core finds out what has arrived, and sees whether somebody has to be woken.
//! - *semantics*: matching, handlers, arguments: what the layer is for.
//!
//! A *get* reads a word of another's memory that cannot be mapped, as Split-C and the others do then: a question and an answer, so
//! it holds two messages, and all but asking is counted as receiving.
//!
//! The parts come from a run with a counter read between sending and receiving, the whole from one without. In both every step is
//! over before the next begins, because in earnest they run on different processors and cannot overlap. What that and the counter
//! take by themselves is found with steps that do nothing, and taken off.

use std::sync::atomic::Ordering;

use anyhow::{Context, Result, ensure};
use barewire::am::{Name, Node, Simple, Tag};
use barewire::fm::{self, Fm, Handler};
use barewire_core::job::Job;
use barewire_core::region::{Key, Memory, Op, Rights, Who};
use barewire_core::tagged::{Envelope, Mode, Received, Request, Sent, Sink, Source, Tagged, Want};
use barewire_core::{Config, Endpoint, Flow, Ignore, Incoming, Peer, Port};
use barewire_sys::cpu::{settle, ticks, ticks_per_us};
use barewire_sys::map::Segment;
use barewire_sys::ring::{Consumer, Producer, RingMemory};

use super::{Driver, Record};
use crate::perf::driver::Spec;
use crate::perf::figures::median;
use crate::perf::options::{Pin, Via};
use crate::perf::record;
use crate::perf::worker::Answer;

/// What one message costs at one level, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    send: f64,
    receive: f64,
    /// Both, measured without a look at the counter in between.
    whole: f64,
}

/// Messages in a batch: no multiple of anything that happens every so many messages, so that parts and whole get the same share of it.
const BATCH: u32 = 1021;
/// Batches a round.
const BATCHES: usize = 25;
/// The tables: a layer, and the levels between it and the ring.
const TABLES: [&str; 4] = ["am2", "get", "tagged", "fm"];

/// Both ends of every level, in one thread.
pub fn run(driver: &mut Driver) -> Result<Vec<Record>> {
    let common = driver.common.clone();
    let measure = move || -> Result<Vec<Vec<(&'static str, Level)>>> {
        if common.pin == Pin::Each {
            barewire_sys::cpu::pin_to(barewire_sys::cpu::allowed_cpus()[0])?;
        }
        (0..common.rounds).map(|_| levels()).collect()
    };
    // A thread of its own: where it runs is nobody else's business.
    let rounds = std::thread::spawn(measure).join().ok().context("the measuring thread failed")??;
    let of = |name: &str, pick: Pick| -> f64 {
        let found = rounds.iter().filter_map(|round| round.iter().find(|(level, _)| *level == name));
        median(&found.map(|(_, level)| pick(level)).collect::<Vec<_>>())
    };
    Ok(TABLES.iter().map(|&api| table_of(api, rounds.len(), &of)).collect())
}

/// What is picked of a level.
type Pick = fn(&Level) -> f64;
/// A level's figure by its name: the median of the rounds.
type Figure<'a> = dyn Fn(&str, Pick) -> f64 + 'a;

/// One table: the parts of a layer's message.
fn table_of(api: &str, rounds: usize, of: &Figure<'_>) -> Record {
    let whole = of(api, |level| level.whole);
    let spec = Spec::new(api, "breakdown", Via::Shm, 8).ranks(1);
    let mut record = Record::new("breakdown", &spec, &vec![Answer::of(whole); rounds]);
    let mut sum = 0.0;
    for (end, pick) in [("send", (|l| l.send) as Pick), ("receive", |l| l.receive)] {
        // Active Messages II are the short form with credits, tags and translations.
        let plain = if api == "am2" { of("am", pick) } else { of(api, pick) };
        // Whoever serves a get takes one message and sends one; then the answer is taken.
        let below = |name: &str| match (api, end) {
            ("get", "receive") => of(name, |l| l.send) + 2.0 * of(name, pick),
            _ => of(name, pick),
        };
        let parts = [
            ("base", below("line")),
            ("flow", below("ring") - below("line") + of(api, pick) - plain),
            ("events", below("message") - below("ring")),
            ("semantics", plain - below("message")),
        ];
        for (name, ns) in parts {
            sum += ns;
            record = record.with(&format!("{name}_{end}_ns"), ns);
        }
    }
    record.with("sum_ns", sum).with("closes", sum / whole)
}

/// Prints the tables.
pub fn table(records: &[Record]) {
    for r in records {
        let figure = |name: &str| r.more.get(name).copied().unwrap_or(f64::NAN);
        let what = if r.api == "get" {
            "one get of 8 bytes".to_owned()
        } else {
            format!("one 8-byte message of {}", r.api)
        };
        println!("{what}, in nanoseconds of the processor");
        println!("  {:<14}{:>9}{:>9}{:>9}{:>9}", "", "send", "receive", "both", "");
        for (name, title) in
            [("base", "base"), ("events", "events"), ("flow", "flow control"), ("semantics", "semantics")]
        {
            let [send, receive] = ["send", "receive"].map(|end| figure(&format!("{name}_{end}_ns")));
            let part = (send + receive) / figure("sum_ns") * 100.0;
            println!("  {title:<14}{send:>9.1}{receive:>9.1}{:>9.1}{part:>8.1} %", send + receive);
        }
        println!(
            "  {:<14}{:>27.1}   the whole, measured by itself: {:.1} ({:+.1} %)",
            "sum",
            figure("sum_ns"),
            r.mean_ns,
            (figure("closes") - 1.0) * 100.0
        );
    }
    record::warn_of_noise(records);
}

/// Every level once.
fn levels() -> Result<Vec<(&'static str, Level)>> {
    let nothing = level(&mut (), |()| {}, |()| {});
    let mut levels = vec![
        ("line", line()?),
        ("ring", ring()?),
        ("message", message()?),
        ("am", am()?),
        ("am2", am2()?),
        ("get", get()?),
        ("tagged", tagged()?),
        ("fm", fm()?),
    ];
    for (_, level) in &mut levels {
        level.send = (level.send - nothing.send).max(0.0);
        level.receive = (level.receive - nothing.receive).max(0.0);
        level.whole = (level.whole - nothing.whole).max(0.0);
    }
    Ok(levels)
}

/// The counter, read after all that stands before and before all that comes after.
#[inline(always)]
fn look() -> u64 {
    settle();
    let now = ticks();
    settle();
    now
}

/// Times a pair of steps over shared state.
fn level<S>(state: &mut S, send: impl Fn(&mut S), receive: impl Fn(&mut S)) -> Level {
    let (mut sends, mut receives, mut wholes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..BATCHES {
        let (mut sent, mut received) = (0, 0);
        // Each look ends one step and starts the next, so that nothing falls between them.
        let mut last = look();
        for _ in 0..BATCH {
            send(state);
            let middle = look();
            receive(state);
            let end = look();
            sent += middle.saturating_sub(last);
            received += end.saturating_sub(middle);
            last = end;
        }
        let start = ticks();
        for _ in 0..BATCH {
            send(state);
            settle();
            receive(state);
            settle();
        }
        let each = |ticks: u64| ticks as f64 / f64::from(BATCH);
        sends.push(each(sent));
        receives.push(each(received));
        wholes.push(each(ticks().saturating_sub(start)));
    }
    let ns = |ticks: &[f64]| median(ticks).max(0.0) / ticks_per_us() * 1e3;
    Level { send: ns(&sends), receive: ns(&receives), whole: ns(&wholes) }
}

/// A line of shared memory: a word and a flag, lines in turn as in a ring.
fn line() -> Result<Level> {
    const LINES: usize = 512;
    let segment = Segment::create("perf-breakdown", LINES * 64)?;
    let word = |offset: usize| segment.atomic_u64(offset).expect("inside the segment");
    let send = |(at, _): &mut (usize, u64)| {
        let line = *at % LINES * 64;
        word(line + 16).store(1, Ordering::Relaxed);
        word(line).store(*at as u64 + 1, Ordering::Release);
    };
    let receive = |(at, sum): &mut (usize, u64)| {
        let line = *at % LINES * 64;
        while word(line).load(Ordering::Acquire) != *at as u64 + 1 {}
        *sum += word(line + 16).load(Ordering::Relaxed);
        *at += 1;
    };
    Ok(level(&mut (0, 0), send, receive))
}

fn ring() -> Result<Level> {
    const BYTES: usize = 32 << 10;
    let memory = RingMemory::create(BYTES)?;
    let theirs = RingMemory::open(memory.fd().try_clone_to_owned()?, BYTES)?;
    let mut ends = (Producer::new(memory), Consumer::new(theirs), [0u8; 8]);
    let send = |(tx, ..): &mut (Producer, Consumer, [u8; 8])| {
        tx.push(1, 0, 8, 0, |wire| {
            wire.write(&[1; 8]);
        })
        .expect("one packet is there at most");
    };
    let receive = |(_, rx, into): &mut (Producer, Consumer, [u8; 8])| {
        rx.peek().expect("it was pushed");
        rx.payload(8).expect("short").read(into);
        rx.pass(8);
    };
    Ok(level(&mut ends, send, receive))
}

/// Two endpoints of this thread that know each other.
fn pair() -> Result<[Endpoint; 2]> {
    let mut jobs = Job::threads(2)?.into_iter();
    let mut open = || -> Result<Endpoint> {
        Ok(Endpoint::open(jobs.next().context("a job of two")?, Config { tcp: false, ..Config::default() })?)
    };
    let mut ends = [open()?, open()?];
    // Each tells the other something, and has heard the other: then the wire is there in both directions.
    let (mut told, mut heard) = ([false; 2], [false; 2]);
    for attempt in 0.. {
        for (me, end) in ends.iter_mut().enumerate() {
            told[me] = told[me] || end.send(Peer(1 - me as u32), Port(1), 0, &[]).is_ok();
            let mut hear = |_: &mut Endpoint, _: Incoming<'_>| {
                heard[me] = true;
                Flow::Continue
            };
            end.progress(&mut hear, usize::MAX);
        }
        if told.iter().chain(&heard).all(|done| *done) {
            break;
        }
        ensure!(attempt < 10_000_000, "two endpoints of one thread do not find each other");
    }
    Ok(ends)
}

fn message() -> Result<Level> {
    let mut ends = pair()?;
    let send = |[a, _]: &mut [Endpoint; 2]| a.send(Peer(1), Port(2), 0, &[1; 8]).expect("there is room");
    let receive = |[_, b]: &mut [Endpoint; 2]| {
        let mut into = [0; 8];
        let mut take = |_: &mut Endpoint, mut packet: Incoming<'_>| {
            packet.read(&mut into);
            Flow::Continue
        };
        b.progress(&mut take, usize::MAX);
    };
    Ok(level(&mut ends, send, receive))
}

fn am() -> Result<Level> {
    let mut ends = pair()?.map(|end| {
        let mut am = Simple::new(end, 0u64);
        am.set_handler(1, |call, args| *call.state += args[0]);
        am
    });
    let send = |[a, _]: &mut [Simple<u64>; 2]| a.request(Peer(1), 1, &[1]).expect("there is room");
    let receive = |[_, b]: &mut [Simple<u64>; 2]| while b.poll() == 0 {};
    Ok(level(&mut ends, send, receive))
}

fn am2() -> Result<Level> {
    let mut nodes = Vec::new();
    for end in pair()? {
        let mut node = Node::new(end, 0u64);
        let bundle = node.allocate_bundle()?;
        let ep = node.allocate_endpoint(bundle)?;
        node.set_tag(ep, Tag(3))?;
        node.set_handler(ep, 1, |ctx, args| *ctx.state += args[0])?;
        let other = Name { peer: Peer(1 - node.name(ep).peer.0), ..node.name(ep) };
        node.map(ep, 0, other, Tag(3))?;
        nodes.push((node, bundle, ep));
    }
    // Credits come back to the sender by messages, which both have to poll for; they do when a request is refused.
    let send = |nodes: &mut Vec<_>| loop {
        let (node, _, ep): &mut (Node<u64>, _, _) = &mut nodes[0];
        if node.try_request(*ep, 0, 1, &[1]).is_ok() {
            return;
        }
        for (node, bundle, _) in nodes.iter_mut() {
            node.poll(*bundle);
        }
    };
    let receive = |nodes: &mut Vec<_>| {
        let (node, bundle, _): &mut (Node<u64>, _, _) = &mut nodes[1];
        node.poll(*bundle);
    };
    Ok(level(&mut nodes, send, receive))
}

fn get() -> Result<Level> {
    struct Ends {
        ends: [Endpoint; 2],
        key: Key,
        into: Memory,
        asked: Option<Op>,
    }
    let mut ends = pair()?;
    // Private memory is not mapped by others.
    let key = ends[1].export(&Memory::private(8), Rights::ALL, Who::Anyone)?;
    let mut state = Ends { ends, key, into: Memory::private(8), asked: None };
    let send = |s: &mut Ends| {
        s.asked = Some(s.ends[0].get(s.key, 0, &s.into, 0, 8).expect("there is room"));
    };
    let receive = |s: &mut Ends| {
        let op = s.asked.take().expect("it was asked for");
        let outcome = loop {
            s.ends[1].progress(&mut Ignore, usize::MAX);
            s.ends[0].progress(&mut Ignore, usize::MAX);
            if let Some(outcome) = s.ends[0].take(op) {
                break outcome;
            }
        };
        outcome.expect("it is exported");
    };
    Ok(level(&mut state, send, receive))
}

fn tagged() -> Result<Level> {
    const ENVELOPE: Envelope = Envelope { context: 7, tag: 1 };
    struct Ends {
        ends: [Endpoint; 2],
        tagged: [Tagged; 2],
        memory: [Memory; 2],
        /// A message that has to wait for credit.
        waiting: Option<Request>,
    }
    let ends = pair()?;
    let tagged = [Tagged::new(&ends[0]), Tagged::new(&ends[1])];
    let memory = [Memory::private(8), Memory::private(8)];
    let mut state = Ends { ends, tagged, memory, waiting: None };
    let send = |s: &mut Ends| {
        let ([a, _], [ta, _]) = (&mut s.ends, &mut s.tagged);
        let source = Source::Memory(s.memory[0].clone(), 0);
        match ta.send(a, Peer(1), ENVELOPE, Mode::Standard, 8, source).expect("the peer is there") {
            Sent::Done => {}
            Sent::Pending(request) => s.waiting = Some(request),
        }
    };
    let receive = |s: &mut Ends| {
        let sink = Sink::Memory(s.memory[1].clone(), 0, 8);
        let want = Want { context: ENVELOPE.context, from: Some(Peer(0)), tag: Some(ENVELOPE.tag) };
        let ([a, b], [ta, tb]) = (&mut s.ends, &mut s.tagged);
        if let Received::Pending(request) = tb.receive(b, want, sink) {
            while !tb.is_done(request) {
                b.progress(tb, usize::MAX);
                if s.waiting.is_some() {
                    a.progress(ta, usize::MAX);
                    ta.advance(a);
                }
            }
            tb.take(request);
        }
        while let Some(request) = s.waiting {
            // Credit comes back by messages.
            a.progress(ta, usize::MAX);
            ta.advance(a);
            b.progress(tb, usize::MAX);
            if ta.is_done(request) {
                ta.take(request);
                s.waiting = None;
            }
        }
    };
    Ok(level(&mut state, send, receive))
}

fn fm() -> Result<Level> {
    let mut ends = Vec::new();
    for end in pair()? {
        let mut fm = Fm::new(end)?;
        let mut into = [0; 8];
        fm.register(Handler(1), move |_, message| {
            message.read(&mut into);
            fm::Flow::Continue
        });
        ends.push(fm);
    }
    let send = |ends: &mut Vec<Fm>| ends[0].send(Peer(1), Handler(1), &[1; 8]).expect("there is room");
    let receive = |ends: &mut Vec<Fm>| while ends[1].extract_all() == 0 {};
    Ok(level(&mut ends, send, receive))
}
