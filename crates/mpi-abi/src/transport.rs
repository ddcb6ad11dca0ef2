//! The way to the other processes: an endpoint with its tagged messages, and a door before them.
//!
//! Below `MPI_THREAD_MULTIPLE` the program promises to call from one thread at a time, and the door is no more than a flag.
//! With it, the door is a lock that a waiting thread holds only while it looks.
//!
//! Each communicator has two contexts: an even one for the program's messages, an odd one for what collective calls send.

use crate::boundary::{Gate, Inside};
use crate::message::kept;
use crate::object::Comm;
use crate::request::Requests;
use crate::task::Tasks;
use barewire::core::boot::{self, Environment};
use barewire::core::region::{Key, Memory, RegionError, Rights, Who};
use barewire::core::shared::Shared;
use barewire::core::tagged::{
    Envelope, Failure, Mode, Received, Request, SHOWN_BYTES_MIN, Sent, Sink, Source, Status, Tagged, Want,
};
use barewire::core::wait::Waiting;
use barewire::core::{Ahead, Deliver, Endpoint, Flow, Incoming, Peer, Port, SendError, WaitError};
use barewire::mpi::error::{Class, Error, Result};
use barewire_sys::wirebuf::Places;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

/// A message that says nothing, to wake its receiver; nobody takes it.
const NUDGE: Port = Port(0);

/// Looks of one poll, each of which takes something.
const LOOKS_MAX: u32 = 64;

/// A process's connection with its job.
#[derive(Debug)]
pub(crate) struct Net {
    /// This process's number in the job.
    pub rank: u32,
    /// Processes in the job.
    pub size: u32,
    /// This host has more processes than processors: whoever waits had better let others run.
    pub crowded: bool,
    /// Operations of many steps that go on meanwhile.
    pub tasks: Tasks,
    /// Whether `MPI_Finalize` has been called: then others may go before this process does.
    ending: AtomicBool,
    line: Line,
}

/// The endpoint and what is under way, until it is closed; nobody else uses them meanwhile.
pub(crate) type Alone<'a> = Inside<'a, Option<Box<(Endpoint, Layer)>>>;

#[derive(Debug)]
enum Line {
    One(Gate<Option<Box<(Endpoint, Layer)>>>),
    Many(RwLock<Option<Shared<Layer>>>),
}

/// What takes an endpoint's packets: tagged messages, and the program's handles of those under way.
#[derive(Debug)]
pub(crate) struct Layer {
    /// The messages.
    pub tagged: Tagged,
    /// Requests and matched messages the program has handles of.
    pub requests: Requests,
    /// Processes that are gone, in the order in which this one learned of it.
    pub lost: Vec<Peer>,
}

impl Deliver for Layer {
    const LEAVES: bool = Tagged::LEAVES;

    #[inline(always)]
    fn deliver(&mut self, endpoint: &mut Endpoint, packet: Incoming<'_>) -> Flow {
        self.tagged.deliver(endpoint, packet)
    }

    fn place<'a>(&'a mut self, ahead: &Ahead, places: &mut Places<'a>) {
        self.tagged.place(ahead, places);
    }

    fn placed(&mut self, endpoint: &mut Endpoint, ahead: &Ahead) -> Flow {
        self.tagged.placed(endpoint, ahead)
    }

    fn peer_lost(&mut self, endpoint: &mut Endpoint, peer: Peer) {
        self.tagged.peer_lost(endpoint, peer);
        self.lost.push(peer);
        self.requests.fail_wild(endpoint, &mut self.tagged, peer);
    }
}

impl Net {
    /// Joins the job this process was started in; `threads` if several threads may call at once.
    pub fn open(threads: bool) -> Result<Net> {
        let other = |error: &dyn std::fmt::Display| Error::new(Class::Other, error.to_string());
        let job = boot::from_environment().map_err(|error| other(&error))?;
        let crowded = job.crowded;
        let config = Environment::capture().and_then(|environment| environment.config());
        let config = config.map_err(|error| other(&error))?;
        let endpoint = Endpoint::open(job, config).map_err(|error| other(&error))?;
        let (rank, size) = (endpoint.me().0, endpoint.size());
        let mut tagged = Tagged::new(&endpoint);
        // A send that has begun is never broken off.
        tagged.show_buffers();
        let layer = Layer { tagged, requests: Requests::default(), lost: Vec::new() };
        let line = if threads {
            Line::Many(RwLock::new(Some(Shared::new(endpoint, layer).map_err(|error| other(&error))?)))
        } else {
            Line::One(Gate::new(Some(Box::new((endpoint, layer)))))
        };
        Ok(Net { rank, size, crowded, tasks: Tasks::default(), ending: AtomicBool::new(false), line })
    }

    /// Uses the endpoint and what is under way.
    #[inline(always)]
    pub fn with<R>(&self, body: impl FnOnce(&mut Endpoint, &mut Layer) -> R) -> Result<R> {
        match &self.line {
            Line::One(gate) => {
                let mut inside = gate.enter()?;
                let (endpoint, layer) = inside.as_deref_mut().ok_or_else(ended)?;
                Ok(body(endpoint, layer))
            }
            Line::Many(line) => {
                let shared = line.read().unwrap_or_else(PoisonError::into_inner);
                Ok(shared.as_ref().ok_or_else(ended)?.with(body))
            }
        }
    }

    /// What [`Net::with`] uses, for the short way of something that has a long one too: `None` if several threads may call, or none may, and
    /// the long way is to be taken, which also knows what is wrong.
    #[inline(always)]
    pub fn alone(&self) -> Option<Alone<'_>> {
        match &self.line {
            Line::One(gate) => gate.try_enter(),
            Line::Many(_) => None,
        }
    }

    /// The same for a short way that waits for a moment, on which no task goes on: `None` if it is their turn.
    #[inline(always)]
    pub fn alone_for_a_moment(&self) -> Option<Alone<'_>> {
        if self.tasks.is_empty() || self.tasks.can_wait() { self.alone() } else { None }
    }

    /// Makes progress until `done` says so; tasks go on meanwhile.
    #[inline]
    pub fn wait(&self, what: &'static str, done: impl FnMut(&mut Layer) -> bool) -> Result<()> {
        self.wait_then(what, |_| None, done, |_| ())
    }

    /// Makes progress until `done` says so, and then takes what came of it; tasks go on meanwhile. `on` says whose message alone can end
    /// the wait, if it is one process's.
    #[inline]
    pub fn wait_then<R>(
        &self,
        what: &'static str,
        on: impl Fn(&Layer) -> Option<Peer>,
        mut done: impl FnMut(&mut Layer) -> bool,
        then: impl FnOnce(&mut Layer) -> R,
    ) -> Result<R> {
        let mut then = Some(then);
        loop {
            let ended = Cell::new(false);
            let came = self.wait_inside(
                what,
                &on,
                |layer| {
                    ended.set(done(layer));
                    ended.get() || (!self.tasks.is_empty() && self.tasks.can_go_on(layer))
                },
                |layer| then.take_if(|_| ended.get()).map(|then| then(layer)),
            )?;
            match came {
                Some(came) => return Ok(came),
                None => self.tasks.run(self),
            }
        }
    }

    /// Makes progress until `done` says so, without leaving the door, and then takes what came of it.
    #[inline]
    fn wait_inside<R>(
        &self,
        what: &'static str,
        on: impl Fn(&Layer) -> Option<Peer>,
        mut done: impl FnMut(&mut Layer) -> bool,
        then: impl FnOnce(&mut Layer) -> R,
    ) -> Result<R> {
        let mut done =
            |endpoint: &mut Endpoint, layer: &mut Layer| layer.tagged.advance(endpoint) && done(layer);
        match &self.line {
            Line::One(gate) => {
                let mut inside = gate.enter()?;
                let (endpoint, layer) = inside.as_deref_mut().ok_or_else(ended)?;
                let waiting = Waiting { what, on: on(layer) };
                endpoint.wait_for(waiting, layer, None, done).map_err(wait_error)?;
                // The program may compute for long now.
                endpoint.flush();
                Ok(then(layer))
            }
            Line::Many(line) => {
                let shared = line.read().unwrap_or_else(PoisonError::into_inner);
                let shared = shared.as_ref().ok_or_else(ended)?;
                shared.wait_for(Waiting { what, on: None }, None, &mut done).map_err(wait_error)?;
                Ok(shared.with(|endpoint, layer| {
                    endpoint.flush();
                    then(layer)
                }))
            }
        }
    }

    /// [`Net::wait`] for what others write to memory without a message: `done` only looks, and is asked again after this
    /// process has said that it sleeps, so that it can tell those who would have to wake it.
    pub fn watch(
        &self,
        what: &'static str,
        mut done: impl FnMut(&mut Endpoint, &mut Layer) -> bool,
    ) -> Result<()> {
        let ended = Cell::new(false);
        let mut look = |endpoint: &mut Endpoint, layer: &mut Layer| {
            layer.tagged.advance(endpoint);
            ended.set(done(endpoint, layer));
            ended.get() || (!self.tasks.is_empty() && self.tasks.can_go_on(layer))
        };
        loop {
            match &self.line {
                Line::One(gate) => {
                    let mut inside = gate.enter()?;
                    let (endpoint, layer) = inside.as_deref_mut().ok_or_else(self::ended)?;
                    let waiting = Waiting { what, on: None };
                    endpoint.watch_for(waiting, layer, None, &mut look).map_err(wait_error)?;
                }
                Line::Many(line) => {
                    let shared = line.read().unwrap_or_else(PoisonError::into_inner);
                    let shared = shared.as_ref().ok_or_else(self::ended)?;
                    shared.wait_for(Waiting { what, on: None }, None, &mut look).map_err(wait_error)?;
                }
            }
            if ended.get() {
                return Ok(());
            }
            self.tasks.run(self);
        }
    }

    /// Whether a message to a peer is fetched rather than sent, or that is being tried; never where others need the processors.
    #[inline]
    pub fn is_fetched(&self, to: Peer, len: usize) -> bool {
        len as u64 >= SHOWN_BYTES_MIN
            && !self.crowded
            && self.with(|endpoint, layer| layer.tagged.is_fetched(endpoint, to, len as u64)).unwrap_or(false)
    }

    /// Zeroed memory that all processes of a communicator have in common, and the key to it; none where they are on several
    /// hosts. All of them call it.
    pub fn common_memory(&self, comm: &Comm, bytes: usize) -> Result<Option<(Memory, Key)>> {
        let made = match comm.rank {
            0 => Memory::shared(bytes).ok(),
            _ => None,
        };
        let key = made.as_ref().map(|memory| {
            self.with(|endpoint, _| endpoint.export(memory, Rights::ALL, Who::Anyone)).ok()?.ok()
        });
        let told = key.flatten().map_or(Vec::new(), |key| key.to_bytes().to_vec());
        let heard = self.all_gather(comm, comm.next_tag(), &told)?;
        let key = heard[0][..].try_into().map(Key::from_bytes).ok();
        let memory = match (made, key) {
            (None, Some(key)) => self.mapped(key)?,
            (made, _) => made,
        };
        // Everybody has it or nobody.
        let there = self.all_gather(comm, comm.next_tag(), &[u8::from(memory.is_some())])?;
        let common = memory.zip(key).filter(|_| there.iter().all(|one| one[..] == [1]));
        if let (None, Some(key)) = (&common, key) {
            self.release(key);
        }
        Ok(common)
    }

    /// Memory of another process, if it is on the same host.
    fn mapped(&self, key: Key) -> Result<Option<Memory>> {
        // An operation asks for the mapping, and the answer comes before its end; unless it has to connect first, on this side
        // or on the other.
        for _ in 0..4 {
            if !self.touch(key)? {
                return Ok(None);
            }
            let there = self.with(|endpoint, _| endpoint.reach(key, Rights::ALL).ok().flatten().cloned())?;
            if there.is_some() {
                return Ok(there);
            }
        }
        Ok(None)
    }

    /// Reads a word of another process's memory; false if that cannot be.
    fn touch(&self, key: Key) -> Result<bool> {
        let word = Memory::private(8);
        let start = || self.with(|endpoint, _| endpoint.get(key, 0, &word, 0, 8));
        let mut op = start()?;
        while matches!(op, Err(RegionError::Send(SendError::Full))) {
            self.poll()?;
            op = start()?;
        }
        let Ok(op) = op else { return Ok(false) };
        let mut end = None;
        self.watch("memory in common", |endpoint, _| {
            end = endpoint.take(op);
            end.is_some()
        })?;
        Ok(end.is_some_and(|end| end.is_ok()))
    }

    /// Ends the use of common memory.
    pub fn release(&self, key: Key) {
        // Where the connection has ended, or a call is under way, it goes with the process.
        let _ = self.with(|endpoint, _| match key.owner == endpoint.me() {
            true => {
                endpoint.revoke(key);
            }
            false => endpoint.let_go(key),
        });
    }

    /// Wakes a process that sleeps, so that it looks at the memory it watches.
    #[cold]
    pub fn wake(&self, peer: Peer) {
        // One whose ring is full has something to wake up for.
        let _ = self.with(|endpoint, _| endpoint.send(peer, NUDGE, 0, &[]));
    }

    /// Takes what has arrived and pushes on what had found no room, without waiting.
    pub fn poll(&self) -> Result<()> {
        self.poll_by(|endpoint, layer| endpoint.progress(layer, usize::MAX))
    }

    /// [`Net::poll`] for those who look whether something has ended: once it has, messages that nobody has asked for yet stay where they are, because
    /// who is told may be about to ask for them.
    pub fn poll_until(&self, done: impl Fn(&Layer) -> bool) -> Result<()> {
        self.poll_by(|endpoint, layer| {
            let mut taken = 0;
            for _ in 0..LOOKS_MAX {
                let now = endpoint.progress_wanted(layer);
                taken += now;
                if now == 0 || done(layer) {
                    break;
                }
            }
            taken
        })
    }

    fn poll_by(&self, progress: impl FnOnce(&mut Endpoint, &mut Layer) -> usize) -> Result<()> {
        let took = self.with(|endpoint, layer| {
            let took = progress(endpoint, layer);
            layer.tagged.advance(endpoint);
            took
        })?;
        if took == 0 && self.crowded {
            // Programs poll in loops, and whoever is to send what they wait for may need the processor.
            std::thread::yield_now();
        }
        if !self.tasks.is_empty() {
            self.tasks.run(self);
        }
        Ok(())
    }

    /// Starts a send.
    #[inline(always)]
    pub fn start_send(
        &self,
        to: Peer,
        envelope: Envelope,
        mode: Mode,
        (len, source): (u64, Source),
    ) -> Result<Sent> {
        let sent = self.with(|endpoint, layer| {
            let sent = layer.tagged.send(endpoint, to, envelope, mode, len, source);
            endpoint.flush();
            sent
        })?;
        sent.map_err(send_error)
    }

    /// Waits until what was sent to a peer gets there even if this process does nothing more.
    pub fn pass_on(&self, to: Peer) -> Result<()> {
        let all = self.with(|endpoint, _| endpoint.passed_on(to).1)?;
        self.watch("a socket to take a message", |endpoint, layer| {
            endpoint.passed_on(to).0 >= all || layer.lost.contains(&to)
        })
    }

    /// Starts a receive.
    #[inline(always)]
    pub fn start_receive(&self, want: Want, sink: Sink) -> Result<Received> {
        self.with(|endpoint, layer| layer.tagged.receive(endpoint, want, sink))
    }

    /// Waits for the end of a send.
    #[inline(always)]
    pub fn finish_send(&self, sent: Sent) -> Result<()> {
        match sent {
            Sent::Done => Ok(()),
            Sent::Pending(request) => self.finish(request).map(|_| ()),
        }
    }

    /// Waits for the end of a receive.
    #[inline(always)]
    pub fn finish_receive(&self, received: Received) -> Result<Status> {
        match received {
            Received::Done(status) => Ok(status),
            Received::Pending(request) => self.finish(request),
        }
    }

    /// Waits until a request has ended; a truncated message is told by its status.
    #[inline]
    fn finish(&self, request: Request) -> Result<Status> {
        let on = |layer: &Layer| layer.tagged.awaited(request);
        let done = |layer: &mut Layer| layer.tagged.is_done(request);
        let status = self.wait_then("a message", on, done, |layer| layer.tagged.take(request))?;
        let status = status.ok_or_else(|| Error::new(Class::Intern, "a request ended twice"))?;
        match status.failure {
            Some(Failure::Lost(peer)) => Err(send_error(SendError::Lost(peer))),
            _ => Ok(status),
        }
    }

    /// Sends bytes to a process, in the collective context of `comm`.
    fn tell(&self, comm: &Comm, to: Peer, tag: i32, bytes: &[u8]) -> Result<Sent> {
        let envelope = Envelope { context: comm.collective_context(), tag };
        self.start_send(to, envelope, Mode::Standard, (bytes.len() as u64, kept(bytes)))
    }

    /// Receives bytes, however many, from a process in the collective context of `comm`.
    fn hear(&self, comm: &Comm, from: Peer, tag: i32) -> Result<Vec<u8>> {
        self.hear_from(comm, Some(from), tag).map(|(_, bytes)| bytes)
    }

    /// Receives bytes from a process, or from any, in the collective context of `comm`, and says from whom.
    pub fn hear_from(&self, comm: &Comm, from: Option<Peer>, tag: i32) -> Result<(Peer, Vec<u8>)> {
        let want = Want { context: comm.collective_context(), from, tag: Some(tag) };
        let mut found = None;
        let mut lost = None;
        // SYNC ending: the thread that sets it is the one that reads it, or waits for nothing.
        let ending = self.ending.load(Ordering::Relaxed);
        let what = if ending {
            "all processes to call MPI_Finalize"
        } else {
            "the other processes of a collective call"
        };
        self.wait(what, |layer| {
            found = layer.tagged.claim(&want);
            lost =
                layer.lost.iter().copied().find(|peer| Some(*peer) == from || (!ending && comm.has(*peer)));
            found.is_some() || lost.is_some()
        })?;
        let Some(matched) = found else {
            return Err(send_error(SendError::Lost(lost.unwrap_or(Peer(u32::MAX)))));
        };
        let from = matched.status().from;
        let len = matched.status().len as usize;
        let memory = Memory::private(len);
        let sink = Sink::Memory(memory.clone(), 0, len);
        let received = self.with(|endpoint, layer| layer.tagged.receive_matched(endpoint, matched, sink))?;
        self.finish_receive(received)?;
        let mut bytes = vec![0; len];
        assert!(memory.read(0, &mut bytes), "it has as many bytes");
        Ok((from, bytes))
    }

    /// Gives `mine` to every process of `comm`, and returns what each of them gave, in the order of their ranks.
    ///
    /// In each round everybody passes on all it has heard, twice as far as in the round before.
    pub fn all_gather(&self, comm: &Comm, tag: i32, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let size = comm.group.size();
        let mut heard: Vec<Option<Vec<u8>>> = vec![None; size];
        heard[comm.rank] = Some(mine.to_vec());
        let mut step = 1;
        while step < size {
            let mut bytes = Vec::new();
            for (rank, said) in heard.iter().enumerate() {
                if let Some(said) = said {
                    bytes.extend((rank as u32).to_le_bytes());
                    bytes.extend((said.len() as u32).to_le_bytes());
                    bytes.extend(said);
                }
            }
            let sent = self.tell(comm, comm.peer((comm.rank + step) % size), tag, &bytes)?;
            let told = self.hear(comm, comm.peer((comm.rank + size - step) % size), tag)?;
            self.finish_send(sent)?;
            note(&told, &mut heard);
            step *= 2;
        }
        let missing = || Error::new(Class::Intern, "a process sent nonsense while making a communicator");
        heard.into_iter().map(|said| said.ok_or_else(missing)).collect()
    }

    /// Answers whoever says something first, in the collective context of `comm`.
    pub fn answer(&self, comm: &Comm, tag: i32, mine: &[u8]) -> Result<Vec<u8>> {
        let (from, told) = self.hear_from(comm, None, tag)?;
        let sent = self.tell(comm, from, tag, mine)?;
        self.finish_send(sent)?;
        Ok(told)
    }

    /// Exchanges some bytes with one process, in the collective context of `comm`.
    pub fn swap(&self, comm: &Comm, with: Peer, tag: i32, mine: &[u8]) -> Result<Vec<u8>> {
        let sent = self.tell(comm, with, tag, mine)?;
        let told = self.hear(comm, with, tag)?;
        self.finish_send(sent)?;
        Ok(told)
    }

    /// Ends the whole job with this exit code.
    pub fn abort(&self, code: i32, message: &str) -> ! {
        // Where another call is under way in this thread, exiting with an error is what tells the launcher.
        let _ = self.with(|endpoint, _| endpoint.abort(code, message));
        std::process::exit(code)
    }

    /// Waits for what this process still sends.
    pub fn finish_left_behind(&self) -> Result<()> {
        self.wait("sends the program left behind", |layer| layer.requests.none_left_behind(&mut layer.tagged))
    }

    /// Waits for all processes and for what this one still sends; nothing is sent after this.
    pub fn finalize(&self, world: &Comm) -> Result<()> {
        self.finish_left_behind()?;
        self.ending.store(true, Ordering::Relaxed);
        self.all_gather(world, world.next_tag(), &[])?;
        match &self.line {
            Line::One(gate) => drop(gate.enter()?.take()),
            Line::Many(line) => drop(line.write().unwrap_or_else(PoisonError::into_inner).take()),
        }
        Ok(())
    }
}

/// Reads what somebody passed on; what makes no sense is left out.
fn note(mut told: &[u8], heard: &mut [Option<Vec<u8>>]) {
    let word = |bytes: &[u8]| Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize);
    while let Some((head, rest)) = told.split_at_checked(8) {
        let (Some(rank), Some(len)) = (word(&head[..4]), word(&head[4..])) else { return };
        let (Some(place), Some((said, rest))) = (heard.get_mut(rank), rest.split_at_checked(len)) else {
            return;
        };
        *place = Some(said.to_vec());
        told = rest;
    }
}

#[cold]
fn ended() -> Error {
    Error::new(Class::Other, "MPI_Finalize has been called")
}

/// What the program is told when a message cannot be sent.
#[cold]
pub(crate) fn send_error(error: SendError) -> Error {
    let class = match error {
        SendError::Lost(_) => Class::ProcAborted,
        SendError::NoSuchPeer(_) => Class::Rank,
        _ => Class::Other,
    };
    Error::new(class, error.to_string())
}

#[cold]
fn wait_error(error: WaitError) -> Error {
    let class = if matches!(error, WaitError::Lost(_)) { Class::ProcAborted } else { Class::Other };
    Error::new(class, error.to_string())
}
