//! Round trips with the next rank, every answer checked: is the job's communication alive and right?

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use barewire_core::job::Job;
use barewire_core::wait::Waiting;
use barewire_core::{Config, Deliver, Endpoint, Flow, Incoming, Peer, Port, SendError};

/// How long to talk, and over what.
#[derive(Debug, Clone, Copy)]
pub struct Talk {
    /// So many round trips, or …
    pub rounds: Option<u64>,
    /// … so long.
    pub time: Option<Duration>,
    /// Over TCP even within a host.
    pub tcp: bool,
}

/// Talks with the next rank until all ranks have talked enough; says how often.
pub fn talk(job: Job, talk: Talk) -> anyhow::Result<()> {
    let config = Config { shm: !talk.tcp, ..Config::default() };
    let mut endpoint = Endpoint::open(job, config).context("opening an endpoint")?;
    let (me, size) = (endpoint.me(), endpoint.size());
    let next = Peer((me.0 + 1) % size);
    let mut ears = Ears::default();
    let begun = Instant::now();
    let enough = |trips: u64| {
        talk.rounds.is_some_and(|rounds| trips >= rounds)
            || talk.time.is_some_and(|time| begun.elapsed() >= time)
    };
    let mut trips = 0;
    while !enough(trips) {
        trips += 1;
        let question = content(me, trips);
        say(&mut endpoint, &mut ears, next, ASK, trips, &question)?;
        let waiting = Waiting { what: "the answer to a greeting", on: None };
        // A loss is told after the last message, which may be the answer.
        endpoint.wait_for(waiting, &mut ears, None, |_, ears| {
            ears.answer.is_some() || ears.lost.contains(&next)
        })?;
        if ears.answer.is_none() {
            bail!("peer {next} is gone after {trips} round trips: {:?}", endpoint.peer_state(next));
        }
        let (number, bytes) = ears.answer.take().expect("waited for above");
        if number != trips || bytes != question {
            bail!("round trip {trips} with rank {next} came back as {number} with {bytes:?}");
        }
    }
    let wire = endpoint.wire_choice(next).unwrap_or("no wire").to_owned();
    part(&mut endpoint, &mut ears, size)?;
    println!("rank {me} of {size}: {trips} round trips with rank {next}, all correct, by {wire}");
    Ok(())
}

/// All tell rank 0 that they are done, and stay until rank 0 knows it of all.
fn part(endpoint: &mut Endpoint, ears: &mut Ears, size: u32) -> anyhow::Result<()> {
    say(endpoint, ears, Peer(0), DONE, 0, &[])?;
    if endpoint.me() != Peer(0) {
        let waiting = Waiting { what: "the end of all ranks' talk", on: None };
        endpoint.wait_for(waiting, ears, None, |_, ears| ears.over || ears.lost.contains(&Peer(0)))?;
        if !ears.over {
            bail!("peer 0 is gone: {:?}", endpoint.peer_state(Peer(0)));
        }
        return Ok(());
    }
    let waiting = Waiting { what: "all ranks to be done", on: None };
    endpoint.wait_for(waiting, ears, None, |_, ears| {
        ears.done.len() == size as usize || !ears.lost.is_subset(&ears.done)
    })?;
    if let Some(peer) = ears.lost.difference(&ears.done).next() {
        bail!("rank {peer} was lost: {:?}", endpoint.peer_state(*peer));
    }
    for peer in (1..size).map(Peer) {
        say(endpoint, ears, peer, OVER, 0, &[])?;
    }
    Ok(())
}

fn say(
    endpoint: &mut Endpoint,
    ears: &mut Ears,
    to: Peer,
    port: Port,
    number: u64,
    bytes: &[u8],
) -> anyhow::Result<()> {
    loop {
        match endpoint.send(to, port, number, bytes) {
            Ok(()) => return Ok(()),
            Err(SendError::Full) => {
                // The room comes with progress; the wait only sleeps if nothing else does.
                let _ = endpoint.wait(ears, Some(Duration::from_millis(1)), |_, _| true);
                endpoint.progress(ears, usize::MAX);
            }
            Err(error) => bail!("sending to rank {to}: {error} ({:?})", endpoint.peer_state(to)),
        }
    }
}

/// What has been heard.
#[derive(Default)]
struct Ears {
    answer: Option<(u64, Vec<u8>)>,
    done: BTreeSet<Peer>,
    over: bool,
    lost: BTreeSet<Peer>,
}

impl Deliver for Ears {
    fn deliver(&mut self, endpoint: &mut Endpoint, mut packet: Incoming<'_>) -> Flow {
        match packet.port {
            ASK => {
                let (from, number, bytes) = (packet.from, packet.imm, packet.to_vec());
                // A reply has room kept for it; a peer that is gone needs none.
                let _ = endpoint.reply(from, ANSWER, number, &bytes);
            }
            ANSWER => self.answer = Some((packet.imm, packet.to_vec())),
            DONE => drop(self.done.insert(packet.from)),
            OVER => self.over = true,
            _ => {}
        }
        Flow::Continue
    }

    fn peer_lost(&mut self, _: &mut Endpoint, peer: Peer) {
        self.lost.insert(peer);
    }
}

/// Bytes that no other round trip has.
fn content(me: Peer, number: u64) -> Vec<u8> {
    let length = 8 + (number % 57) as usize;
    (0..length as u64).map(|at| (u64::from(me.0) ^ number.wrapping_mul(31) ^ at) as u8).collect()
}

const ASK: Port = Port(1);
const ANSWER: Port = Port(2);
const DONE: Port = Port(3);
const OVER: Port = Port(4);
