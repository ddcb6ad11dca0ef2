//! Requests: operations under way that the program has handles of.
//!
//! They live behind the transport's door, so finding, completing and forgetting one takes no lock of its own and, once the
//! slab has grown, no memory. Plain receives (`plain_receive.rs`) live in the core alone.

use crate::boundary::{MPI_Comm, Status};
use crate::general::General;
use crate::message::{Buffer, Outcome, Partner, outcome};
use crate::plain_receive;
use crate::slab::Slab;
use crate::task::{Steps, Task};
use crate::transport::send_error;
use crate::world::bad;
use barewire::core::Endpoint;
use barewire::core::tagged::{self, Envelope, Matched, Mode, Received, Sent, Tagged, Want};
use barewire::core::{Peer, SendError};
use barewire::mpi::error::{Class, Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// The requests and matched messages of a process.
pub(crate) struct Requests {
    slab: Slab<Request>,
    /// The one handle of all sends that ended at once: there is nothing to tell them apart.
    sent: usize,
    /// Messages taken out of the matching, with whom they are from.
    pub messages: Slab<(Matched, Partner, MPI_Comm)>,
    /// Sends that go on without a handle, and the bytes of the buffer for buffered sends each takes.
    left_behind: Vec<(tagged::Request, u64)>,
    /// Receives that go on without a handle.
    orphans: Vec<tagged::Request>,
    /// The addresses and sizes of attached buffers by the handle of what they are attached to, 0 for the job; `u64::MAX` for one
    /// without limit.
    pub attached: HashMap<usize, (usize, u64)>,
}

/// An operation the program has a handle of, other than a plain receive.
struct Request {
    /// The communicator whose error handler hears of a failure.
    comm: MPI_Comm,
    partner: Partner,
    state: State,
    plan: Option<Plan>,
}

enum State {
    /// Persistent and not started.
    Inactive,
    Active(tagged::Request),
    /// An operation of many steps.
    Task(Arc<Task>),
    /// Ends when the program says so.
    General(Arc<General>),
    /// A send that has not all its parts.
    Filling,
    /// Ended well, with this to tell.
    Good(Status),
    /// Ended otherwise.
    Ended(Box<Outcome>),
}

/// A persistent operation: what to do when it is started.
pub(crate) enum Plan {
    /// A message.
    Message(Buffer, Way),
    /// Steps to be made anew each time.
    Steps(Again),
    /// A message in parts that the program says are ready one by one.
    Parts(Buffer, Way, Vec<bool>),
}

/// Makes the steps of a persistent operation.
pub(crate) type Again = Arc<dyn Fn() -> Steps + Send + Sync>;

/// What a persistent operation does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    /// Send.
    Send(Peer, Envelope, Mode),
    /// Send from a copy.
    Buffered(Peer, Envelope),
    /// Receive.
    Receive(Want),
    /// Nothing: the partner is `MPI_PROC_NULL`.
    Nothing,
}

/// What the program is told about a request that has ended.
pub(crate) struct Completion {
    /// How it ended.
    pub outcome: Outcome,
    /// The communicator whose error handler hears of a failure.
    pub comm: MPI_Comm,
    /// Whether the handle stays, because it can be started again.
    pub stays: bool,
    /// Whose status the program itself knows.
    pub general: Option<Arc<General>>,
}

impl Default for Requests {
    fn default() -> Requests {
        let mut slab = Slab::new(8);
        let state = State::Good(Status::EMPTY);
        let sent =
            slab.insert(Request { comm: MPI_Comm(0x101), partner: Partner::Receiver, state, plan: None });
        Requests {
            slab,
            sent,
            messages: Slab::new(9),
            left_behind: Vec::new(),
            orphans: Vec::new(),
            attached: HashMap::new(),
        }
    }
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests").field("left_behind", &self.left_behind).finish_non_exhaustive()
    }
}

impl Requests {
    /// A handle for a send.
    #[inline]
    pub fn add_send(&mut self, comm: MPI_Comm, sent: Sent) -> usize {
        match sent {
            Sent::Done => self.sent,
            Sent::Pending(request) => self.add(comm, State::Active(request)),
        }
    }

    /// The handle of every send that has ended at once.
    #[inline(always)]
    pub fn sent(&self) -> usize {
        self.sent
    }

    /// A handle for a receive.
    #[inline]
    pub fn add_receive(
        &mut self,
        tagged: &mut Tagged,
        comm: MPI_Comm,
        partner: Partner,
        received: Received,
    ) -> usize {
        if let (&Partner::Rank(rank), Received::Pending(receive)) = (&partner, received) {
            tagged.set_note(receive, plain_receive::note(comm, rank));
            return plain_receive::handle(receive);
        }
        let state = state_of_receive(&partner, received);
        self.slab.insert(Request { comm, partner, state, plan: None })
    }

    /// A handle for what has already ended.
    pub fn add_ended(&mut self, comm: MPI_Comm, outcome: Outcome) -> usize {
        self.add(comm, outcome.into())
    }

    /// A handle for an operation of many steps.
    pub fn add_task(&mut self, comm: MPI_Comm, task: Arc<Task>) -> usize {
        self.add(comm, State::Task(task))
    }

    /// A handle for what ends when the program says so.
    pub fn add_general(&mut self, general: Arc<General>) -> usize {
        self.add(MPI_Comm(0x102), State::General(general))
    }

    fn add(&mut self, comm: MPI_Comm, state: State) -> usize {
        self.slab.insert(Request { comm, partner: Partner::Receiver, state, plan: None })
    }

    /// A handle for a persistent operation.
    pub fn add_plan(&mut self, comm: MPI_Comm, partner: Partner, plan: Plan) -> usize {
        self.slab.insert(Request { comm, partner, state: State::Inactive, plan: Some(plan) })
    }

    /// The handle whose low half is `low`.
    pub fn widen(&self, tagged: &Tagged, low: usize) -> Option<usize> {
        match plain_receive::slot(low) {
            Some(slot) => tagged.in_slot(slot).map(plain_receive::handle),
            None => self.slab.widen(low),
        }
    }

    /// Whether a handle names a request.
    pub fn check(&self, tagged: &Tagged, handle: usize) -> Result<()> {
        let is_there = match plain_receive::receive(handle) {
            Some(receive) => tagged.note(receive).is_some(),
            None => self.slab.get(handle).is_some(),
        };
        if is_there { Ok(()) } else { Err(unknown(handle)) }
    }

    /// Whether waiting for a request would return at once; a handle that names nothing would.
    #[inline]
    pub fn is_done(&self, tagged: &Tagged, handle: usize) -> bool {
        if let Some(receive) = plain_receive::receive(handle) {
            return tagged.is_done(receive);
        }
        match self.slab.get(handle).map(|request| &request.state) {
            Some(State::Active(request)) => tagged.is_done(*request),
            Some(State::Task(task)) => task.is_done(),
            Some(State::General(general)) => general.is_done(),
            Some(State::Filling) => false,
            _ => true,
        }
    }

    /// On whom a plain receive depends that has not ended.
    #[inline]
    pub fn awaited(&self, tagged: &Tagged, handle: usize) -> Option<Peer> {
        plain_receive::receive(handle).and_then(|receive| tagged.awaited(receive))
    }

    /// Whether it is under way or ended, rather than not started.
    pub fn is_active(&self, handle: usize) -> bool {
        let inactive = |request: &Request| matches!(request.state, State::Inactive);
        plain_receive::receive(handle).is_some()
            || self.slab.get(handle).is_some_and(|request| !inactive(request))
    }

    /// Takes note of the end of a request that is done; then its outcome stays until somebody completes it.
    pub fn settle(&mut self, tagged: &mut Tagged, handle: usize) -> Result<Outcome> {
        if let Some(receive) = plain_receive::receive(handle) {
            let told = tagged.note(receive).zip(tagged.look(receive));
            let (note, status) = told.ok_or_else(|| unknown(handle))?;
            return Ok(outcome(Some(plain_receive::noted(note).1), &status));
        }
        let Some(request) = self.slab.get_mut(handle) else { return Err(unknown(handle)) };
        match &request.state {
            State::Active(under_way) => {
                let status = tagged
                    .take(*under_way)
                    .ok_or_else(|| Error::new(Class::Intern, "a request ended twice"))?;
                request.state = request.partner.outcome(&status).into();
            }
            State::Task(task) => {
                request.state = task.outcome().into();
            }
            State::General(_) | State::Inactive | State::Filling | State::Good(_) | State::Ended(_) => {}
        }
        Ok(match &request.state {
            State::Good(status) => Outcome { status: *status, error: None },
            State::Ended(outcome) => (**outcome).clone(),
            _ => Outcome::NOBODY,
        })
    }

    /// The outcome of a request that is done, which is then forgotten, or inactive if it can be started again.
    #[inline]
    pub fn complete(&mut self, tagged: &mut Tagged, handle: usize) -> Result<Completion> {
        let outcome = self.settle(tagged, handle)?;
        if let Some(receive) = plain_receive::receive(handle) {
            let (comm, _) = plain_receive::noted(tagged.note(receive).ok_or_else(gone)?);
            tagged.take(receive);
            return Ok(Completion { outcome, comm, stays: false, general: None });
        }
        let Some(request) = self.slab.get_mut(handle) else { return Err(gone()) };
        let comm = request.comm;
        let stays = request.plan.is_some();
        if stays {
            request.state = State::Inactive;
        }
        if stays || handle == self.sent {
            return Ok(Completion { outcome, comm, stays, general: None });
        }
        let general = match self.slab.remove(handle).map(|request| request.state) {
            Some(State::General(general)) => Some(general),
            _ => None,
        };
        Ok(Completion { outcome, comm, stays, general })
    }

    /// [`Requests::complete`] for the usual case: a request for once that is done and went well. None for every other, which
    /// is left as it is.
    #[inline(always)]
    pub fn complete_plainly(&mut self, tagged: &mut Tagged, handle: usize) -> Option<Status> {
        if handle == self.sent {
            return Some(Status::EMPTY);
        }
        if let Some(receive) = plain_receive::receive(handle) {
            let (told, note) = match tagged.take_good(receive) {
                Some(good) => good,
                None => take_long(tagged, receive)?,
            };
            return Some(Status::new(plain_receive::noted(note).1, told.tag, told.len));
        }
        self.complete_sent(tagged, handle)
    }

    /// The same for what is no plain receive.
    #[inline(never)]
    fn complete_sent(&mut self, tagged: &mut Tagged, handle: usize) -> Option<Status> {
        if !self.slab.get(handle)?.is_plainly_done(tagged) {
            return None;
        }
        match self.slab.remove(handle)?.state {
            State::Good(status) => Some(status),
            State::Active(sent) => tagged.take(sent).map(|_| Status::EMPTY),
            _ => None,
        }
    }

    /// The request that ends when the program says so, if it is one.
    pub fn general(&self, handle: usize) -> Option<Arc<General>> {
        match &self.slab.get(handle)?.state {
            State::General(general) => Some(general.clone()),
            _ => None,
        }
    }

    /// Notes the task a persistent operation of many steps has become.
    pub fn started(&mut self, handle: usize, task: Arc<Task>) -> Result<()> {
        self.slab.get_mut(handle).ok_or_else(gone)?.state = State::Task(task);
        Ok(())
    }

    /// Starts a persistent operation; gives the steps of one that has many, to be made a task.
    pub fn start(
        &mut self,
        endpoint: &mut Endpoint,
        tagged: &mut Tagged,
        handle: usize,
    ) -> Result<Option<Again>> {
        self.check(tagged, handle)?;
        let Some(Request { comm: owner, plan: Some(plan), state: state @ State::Inactive, partner }) =
            self.slab.get_mut(handle)
        else {
            return Err(Error::new(Class::Request, "the request is not persistent, or has been started"));
        };
        let owner = *owner;
        let (buffer, way) = match plan {
            Plan::Parts(_, Way::Send(..), ready) => {
                ready.fill(false);
                *state = State::Filling;
                return Ok(None);
            }
            Plan::Steps(again) => return Ok(Some(again.clone())),
            Plan::Message(buffer, way) | Plan::Parts(buffer, way, _) => (buffer, *way),
        };
        *state = match way {
            Way::Nothing => Outcome::from_proc_null().into(),
            Way::Receive(want) => state_of_receive(partner, tagged.receive(endpoint, want, buffer.sink())),
            Way::Send(to, envelope, mode) => {
                let (len, source) = buffer.source();
                state_of_send(tagged.send(endpoint, to, envelope, mode, len, source).map_err(send_error)?)
            }
            Way::Buffered(to, envelope) => {
                let message = buffer.copy();
                self.send_buffered(endpoint, tagged, (to, envelope), owner, message)?;
                self.slab.get_mut(handle).ok_or_else(gone)?.state = State::Good(Status::EMPTY);
                return Ok(None);
            }
        };
        Ok(None)
    }

    /// Parts of a message are ready; with the last of them it goes.
    pub fn ready(
        &mut self,
        endpoint: &mut Endpoint,
        tagged: &mut Tagged,
        handle: usize,
        mut parts: impl Iterator<Item = i32>,
    ) -> Result<()> {
        self.check(tagged, handle)?;
        if let Some(Request { plan: Some(Plan::Parts(_, Way::Nothing, ready)), .. }) = self.slab.get(handle) {
            let is_one = |part: i32| usize::try_from(part).is_ok_and(|part| part < ready.len());
            return match parts.find(|part| !is_one(*part)) {
                Some(part) => Err(Error::new(Class::Arg, format!("there is no part {part}"))),
                None => Ok(()),
            };
        }
        let Some(Request {
            state: state @ State::Filling,
            plan: Some(Plan::Parts(buffer, Way::Send(to, envelope, mode), ready)),
            ..
        }) = self.slab.get_mut(handle)
        else {
            return Err(Error::new(
                Class::Request,
                "the request is not a partitioned send that has been started",
            ));
        };
        for part in parts {
            let place = usize::try_from(part).ok().and_then(|part| ready.get_mut(part));
            match place {
                Some(place) if !*place => *place = true,
                _ => {
                    return Err(Error::new(
                        Class::Arg,
                        format!("part {part} is ready already, or not there"),
                    ));
                }
            }
        }
        if ready.iter().all(|ready| *ready) {
            let (len, source) = buffer.source();
            *state =
                state_of_send(tagged.send(endpoint, *to, *envelope, *mode, len, source).map_err(send_error)?);
        }
        Ok(())
    }

    /// The parts of a partitioned receive.
    pub fn parts(&self, tagged: &Tagged, handle: usize) -> Result<usize> {
        self.check(tagged, handle)?;
        match self.slab.get(handle).and_then(|request| request.plan.as_ref()) {
            Some(Plan::Parts(_, Way::Receive(_) | Way::Nothing, parts)) => Ok(parts.len()),
            _ => Err(Error::new(Class::Request, "the request is not a partitioned receive")),
        }
    }

    /// Sends a copy that goes on by itself, if the attached buffer would have room for it.
    pub fn send_buffered(
        &mut self,
        endpoint: &mut Endpoint,
        tagged: &mut Tagged,
        (to, envelope): (Peer, Envelope),
        owner: MPI_Comm,
        (len, source): (u64, tagged::Source),
    ) -> Result<()> {
        self.none_left_behind(tagged);
        let used: u64 = self.left_behind.iter().map(|(_, bytes)| bytes).sum();
        let attached = self.attached.get(&owner.0).or_else(|| self.attached.get(&0));
        let room = attached.map_or(0, |(_, size)| size.saturating_sub(used));
        if len > room {
            let what = format!("{len} bytes do not fit the {room} that are free of the attached buffer");
            return Err(Error::new(Class::Buffer, what));
        }
        match tagged.send(endpoint, to, envelope, Mode::Standard, len, source) {
            Ok(Sent::Done) => {}
            Ok(Sent::Pending(request)) => self.left_behind.push((request, len)),
            Err(error) => return Err(send_error(error)),
        }
        Ok(())
    }

    /// Tries to take back an operation.
    pub fn cancel(&mut self, endpoint: &mut Endpoint, tagged: &mut Tagged, handle: usize) -> Result<()> {
        self.check(tagged, handle)?;
        let under_way = match (plain_receive::receive(handle), self.slab.get(handle).map(|one| &one.state)) {
            (Some(receive), _) => Some(receive),
            (None, Some(State::Active(under_way))) => Some(*under_way),
            (None, Some(State::Inactive)) => {
                return Err(Error::new(Class::Request, "the request has not been started"));
            }
            (None, Some(State::Task(_))) => {
                let what = "only sends and receives can be cancelled, each by itself";
                return Err(Error::new(Class::Request, what));
            }
            _ => None,
        };
        under_way.map(|under_way| tagged.cancel(endpoint, under_way));
        Ok(())
    }

    /// Forgets a handle; what is under way goes on.
    pub fn free(&mut self, tagged: &mut Tagged, handle: usize) -> Result<()> {
        self.check(tagged, handle)?;
        if handle == self.sent {
            return Ok(());
        }
        match self.slab.remove(handle) {
            None => self.orphans.extend(plain_receive::receive(handle)),
            Some(Request { state: State::Active(sent), partner: Partner::Receiver, .. }) => {
                self.left_behind.push((sent, 0));
            }
            Some(Request { state: State::Active(receive), .. }) => self.orphans.push(receive),
            Some(_) => {}
        }
        self.none_left_behind(tagged);
        Ok(())
    }

    /// Ends receives from anybody, now that one who could have sent is gone.
    pub fn fail_wild(&mut self, endpoint: &mut Endpoint, tagged: &mut Tagged, peer: Peer) {
        for request in self.slab.iter_mut() {
            let (State::Active(under_way), Partner::Any(comm)) = (&request.state, &request.partner) else {
                continue;
            };
            if comm.has(peer) && tagged.cancel(endpoint, *under_way) {
                tagged.take(*under_way);
                let error = Some(send_error(SendError::Lost(peer)));
                request.state = Outcome { status: Status::EMPTY, error }.into();
            }
        }
    }

    /// Notes a send that goes on without a handle.
    pub fn leave_behind(&mut self, request: tagged::Request) {
        self.left_behind.push((request, 0));
    }

    /// Whether no send without a handle is under way.
    pub fn has_left_all(&self, tagged: &Tagged) -> bool {
        self.left_behind.iter().all(|&(request, _)| tagged.is_done(request))
    }

    /// Forgets those without a handle that have ended; true if no send is left.
    pub fn none_left_behind(&mut self, tagged: &mut Tagged) -> bool {
        let mut goes_on = |request| {
            let done = tagged.is_done(request);
            if done {
                tagged.take(request);
            }
            !done
        };
        self.left_behind.retain(|&(request, _)| goes_on(request));
        self.orphans.retain(|&request| goes_on(request));
        self.left_behind.is_empty()
    }
}

impl Request {
    /// Whether it is done for good, went well, and there is nothing to find out about it.
    fn is_plainly_done(&self, tagged: &Tagged) -> bool {
        self.plan.is_none()
            && match &self.state {
                State::Good(_) => true,
                State::Active(sent) => {
                    let told = tagged.look(*sent);
                    matches!(self.partner, Partner::Receiver)
                        && told.is_some_and(|told| told.failure.is_none())
                }
                _ => false,
            }
    }
}

impl From<Outcome> for State {
    #[inline]
    fn from(outcome: Outcome) -> State {
        match outcome {
            Outcome { status, error: None } => State::Good(status),
            otherwise => State::Ended(Box::new(otherwise)),
        }
    }
}

/// Takes a plain receive of a long message, if it is done and went well, with what was noted of it.
#[inline(never)]
fn take_long(tagged: &mut Tagged, receive: tagged::Request) -> Option<(tagged::Status, tagged::Note)> {
    let note = tagged.note(receive)?;
    let told = tagged.look(receive).filter(|told| told.failure.is_none())?;
    tagged.take(receive);
    Some((told, note))
}

#[inline]
fn state_of_send(sent: Sent) -> State {
    match sent {
        Sent::Done => State::Good(Status::EMPTY),
        Sent::Pending(request) => State::Active(request),
    }
}

#[inline]
fn state_of_receive(partner: &Partner, received: Received) -> State {
    match received {
        Received::Done(status) => partner.outcome(&status).into(),
        Received::Pending(request) => State::Active(request),
    }
}

#[cold]
fn unknown(handle: usize) -> Error {
    bad(Class::Request, "MPI_REQUEST_NULL", handle, 0x180)
}

#[cold]
fn gone() -> Error {
    Error::new(Class::Intern, "a request disappeared")
}

/// A status with an error field, for calls that complete several requests.
pub(crate) fn with_error(outcome: &Outcome) -> Status {
    let mut status = outcome.status;
    status.error = outcome.code();
    status
}
