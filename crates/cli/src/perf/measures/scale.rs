//! What an end costs when much is under way: BMI's testcontext with more and more operations posted, of which always as many end, and a
//! completion queue with more and more VIs. Neither should grow.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use barewire::bmi::{Addr, Bmi, Buffer, ContextId, Options, Posted};
use barewire_core::Config;
use barewire_core::job::JobKey;

use super::{Driver, Record};
use crate::perf::driver::Spec;
use crate::perf::options::Via;
use crate::perf::record;
use crate::perf::worker::Answer;

/// Operations posted at a time.
const POSTED: [u64; 4] = [10, 100, 1000, 10_000];
/// Of which so many end before the next test.
const ENDING: u64 = 10;
/// VIs on one completion queue.
const VIS: [u64; 4] = [1, 10, 100, 1000];
/// Bytes of a message.
const BYTES: usize = 8;
/// Between two ends of one process, longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Both, over every wire or over the one asked for.
pub fn run(driver: &mut Driver) -> Result<Vec<Record>> {
    if driver.in_job() {
        bail!("this measures ends of its own; run it outside of a job");
    }
    let wires = driver.common.via.map_or(vec![Via::Shm, Via::Tcp], |via| vec![via]);
    let mut records = Vec::new();
    for via in wires {
        records.extend(posted(driver, via)?);
        records.extend(shared(driver, via)?);
    }
    Ok(records)
}

/// BMI: the time of a test for each end that it tells.
fn posted(driver: &Driver, via: Via) -> Result<Vec<Record>> {
    let mut ends = POSTED.iter().map(|&posted| Ends::meet(via, posted)).collect::<Result<Vec<_>>>()?;
    let batches = driver.common.count.map_or(500, |count| count.div_ceil(ENDING));
    let mut answers = vec![Vec::new(); POSTED.len()];
    for round in 0..driver.common.rounds {
        for (ends, answers) in ends.iter_mut().zip(&mut answers) {
            driver.progress(&format!("scale: round {}, {} operations posted", round + 1, ends.posted));
            (0..batches / 10).try_for_each(|_| ends.batch().map(drop))?;
            let before = ends.server.looks();
            let took = (0..batches).map(|_| ends.batch()).sum::<Result<Duration>>()?;
            let each = |all: f64| all / (batches * ENDING) as f64;
            let looks = each((ends.server.looks() - before) as f64);
            answers.push(Answer {
                each_ns: each(took.as_nanos() as f64),
                more: vec![("looks".to_owned(), looks)],
            });
        }
    }
    driver.progress("");
    let record = |(&posted, answers): (&u64, &Vec<Answer>)| {
        let record = Record::new("testcontext", &Spec::new("bmi", "testcontext", via, BYTES), answers);
        let looks = answers.last().and_then(|answer| answer.get("looks")).unwrap_or(f64::NAN);
        record.with("posted", posted as f64).with("looks", looks)
    };
    Ok(POSTED.iter().zip(&answers).map(record).collect())
}

/// Virtual interfaces: one way of a message through one of many, taken from the queue that all of them share.
fn shared(driver: &mut Driver, via: Via) -> Result<Vec<Record>> {
    let specs = VIS.map(|vis| Spec { window: vis, ..Spec::new("via", "many", via, BYTES) });
    let rounds = driver.common.rounds;
    let answers = driver.rounds("scale", &specs, rounds)?;
    let each = specs.iter().zip(&answers);
    let record = |(spec, answers): (&Spec, &Vec<_>)| {
        Record::new("one queue", spec, answers).with("vis", spec.window as f64)
    };
    Ok(each.map(record).collect())
}

/// A server with receives posted, and the client that they are from, both of this thread.
struct Ends {
    server: Bmi,
    client: Bmi,
    ours: ContextId,
    theirs: ContextId,
    to_server: Addr,
    to_client: Addr,
    place: Buffer,
    posted: u64,
    /// Tags that messages have been sent to so far; each is of one receive, in turn.
    sent: u64,
}

impl Ends {
    fn meet(via: Via, posted: u64) -> Result<Ends> {
        let key = JobKey::random()?;
        let options = || {
            let config = Config { shm: via == Via::Shm, watchdog: Duration::ZERO, ..Config::default() };
            Options::default().key(key.clone()).config(config)
        };
        let server = Bmi::initialize(options().listen("tcp://127.0.0.1:0"))?;
        let client = Bmi::initialize(options())?;
        let (ours, theirs) = (server.open_context()?, client.open_context()?);
        let port = server.port().context("a server listens")?;
        let to_server = client.addr_lookup(&format!("tcp://127.0.0.1:{port}"))?;
        let hello = client.post_sendunexpected(to_server, Buffer::from(b"here"), 0, 0, 0, theirs)?;
        let to_client = loop {
            client.testcontext(1, Duration::ZERO, theirs)?;
            if let Some(message) = server.testunexpected(1, 0, Duration::ZERO)?.pop() {
                break message.from;
            }
        };
        if let Posted::Pending(_) = hello {
            client.testcontext(1, Duration::ZERO, theirs)?;
        }
        let place = Buffer::new(BYTES);
        let mut ends = Ends { server, client, ours, theirs, to_server, to_client, place, posted, sent: 0 };
        (0..posted).try_for_each(|tag| ends.post(tag))?;
        Ok(ends)
    }

    fn post(&mut self, tag: u64) -> Result<()> {
        let posted = self.server.post_recv(self.to_client, &self.place, tag as i32, tag, self.ours)?;
        ensure!(matches!(posted, Posted::Pending(_)), "a receive ended before its message was sent");
        Ok(())
    }

    /// Some of the receives get their messages, from all over; how long the tests took that told so. They are then posted again.
    fn batch(&mut self) -> Result<Duration> {
        let step = (self.posted / ENDING).max(1);
        let first = self.sent / ENDING % step;
        self.sent += ENDING;
        for at in 0..ENDING {
            let tag = (first + at * step) % self.posted;
            let message = Buffer::from(&[1; BYTES]);
            self.client.post_send(self.to_server, message, tag as i32, 0, self.theirs)?;
        }
        let begun = Instant::now();
        let (mut took, mut ended) = (Duration::ZERO, Vec::new());
        while (ended.len() as u64) < ENDING {
            let start = Instant::now();
            let told = self.server.testcontext(ENDING as usize, Duration::ZERO, self.ours)?;
            took += start.elapsed();
            ended.extend(told);
            self.client.testcontext(ENDING as usize, Duration::ZERO, self.theirs)?;
            ensure!(begun.elapsed() < PATIENCE, "messages between two ends of one process got lost");
        }
        ended.iter().try_for_each(|completion| self.post(completion.user))?;
        Ok(took)
    }
}

/// Two tables for each wire.
pub fn table(records: &[Record]) {
    for records in records.chunks(POSTED.len() + VIS.len()) {
        let Some(first) = records.first() else { return };
        println!("an end, over {}", first.via);
        for r in records {
            let (many, what) = match (r.more.get("posted"), r.more.get("vis")) {
                (Some(posted), _) => (posted, "operations posted (BMI testcontext)"),
                (_, vis) => (vis.unwrap_or(&f64::NAN), "VIs on one completion queue"),
            };
            let looks = r.more.get("looks").map_or(String::new(), |looks| format!("  {looks:.1} looks"));
            println!("  {many:>6} {what:<36}{:>12}{looks}", record::time(r.mean_ns));
        }
    }
    record::warn_of_noise(records);
}
