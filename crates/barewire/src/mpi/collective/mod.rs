//! Collective calls: what all members of a communicator do together.
//!
//! Each is an `async` function over messages in the communicator's second context, marked with the number of the call, so that calls cannot mix.
//! A blocking call drives it to its end; otherwise it becomes a task. Reductions combine in an order that depends on the ranks alone. Who fails
//! tells all members, so that nobody waits for a part that will never be done.

mod exchange;
mod prefix;
mod start;
mod tree;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Weak;
use std::task::Poll;

use barewire_core::Peer;
use barewire_core::tagged::{self, Envelope, Failure, Mode, Want};

use zerocopy::IntoBytes;

use super::buffer::{count, zeroed};
use super::comm::Comm;
use super::engine::{Engine, Layer, engine, failed};
use super::fault::Error;
use super::group::Group;
use super::message::{start_receive, start_send};
use super::request::{self, Request, Slot};
use crate::spmd::Plain;

/// Longest reduction, in bytes, that is exchanged whole; longer ones are cut into a part for each rank.
const WHOLE_BYTES_MAX: usize = 16 << 10;

/// One collective call: who we are in it, and what its messages are marked with.
#[derive(Clone, Debug)]
pub(super) struct Call {
    engine: Weak<Engine>,
    group: Group,
    rank: usize,
    context: u32,
    turn: u64,
    /// The program does nothing else meanwhile.
    waits: bool,
}

impl Call {
    pub fn new(engine: Weak<Engine>, group: Group, rank: u32, context: u32, turn: u64) -> Call {
        Call { engine, group, rank: rank as usize, context, turn, waits: false }
    }

    fn size(&self) -> usize {
        self.group.size()
    }

    fn peer(&self, rank: usize) -> Peer {
        Peer(self.group.members()[rank].0)
    }

    fn tag(&self) -> i32 {
        (self.turn & i32::MAX as u64) as i32
    }

    /// Starts to send values to a rank.
    fn start_send<T: Plain>(&self, to: usize, values: &[T]) -> Result<Request<Vec<T>>, Error> {
        let envelope = Envelope { context: self.context, tag: self.tag() };
        let own = |values: &[T]| values.to_vec();
        let sent = start_send(&engine(&self.engine)?, values, own, self.peer(to), envelope, Mode::Standard)?;
        Ok(sent.in_task())
    }

    /// Starts to receive just so many values from a rank.
    fn start_receive<T: Plain>(&self, from: usize, len: usize) -> Result<Request<(Vec<T>, ())>, Error> {
        let from = self.peer(from);
        let want = Want { context: self.context, from: Some(from), tag: Some(self.tag()) };
        let outcome = move |status: tagged::Status| match status.failure {
            None | Some(Failure::Truncated { .. }) => expect_len(count::<T>(status.len)?, len),
            Some(failure) => Err(failed(failure, 0)),
        };
        let engine = engine(&self.engine)?;
        let received = start_receive(&engine, zeroed(len)?, want, request::From::Peer(from), outcome)?;
        Ok(received.in_task())
    }

    /// Ends with the request, or when the call cannot be finished any more.
    async fn end<R>(&self, mut request: Request<R>) -> Result<R, Error> {
        poll_fn(|context| match Pin::new(&mut request).poll(context) {
            Poll::Pending => match self.broken() {
                Some(error) => Poll::Ready(Err(error)),
                None => Poll::Pending,
            },
            ended => ended,
        })
        .await
    }

    async fn send<T: Plain>(&self, to: usize, values: &[T]) -> Result<(), Error> {
        let sent = self.start_send(to, values)?;
        self.end(sent).await.map(|_| ())
    }

    async fn receive<T: Plain>(&self, from: usize, len: usize) -> Result<Vec<T>, Error> {
        if let Some(values) = self.receive_now(from, len)? {
            return Ok(values);
        }
        let received = self.start_receive(from, len)?;
        self.end(received).await.map(|(values, ())| values)
    }

    /// Sends to one rank while receiving from another.
    async fn swap<T: Plain>(
        &self,
        to: usize,
        values: &[T],
        from: usize,
        len: usize,
    ) -> Result<Vec<T>, Error> {
        let sent = self.start_send(to, values)?;
        let values = self.receive(from, len).await?;
        self.end(sent).await?;
        Ok(values)
    }

    /// Receives few values that come within a moment, if there is nothing else to be done in it: they are taken where they stand.
    fn receive_now<T: Plain>(&self, from: usize, len: usize) -> Result<Option<Vec<T>>, Error> {
        let engine = engine(&self.engine)?;
        if !self.waits || len.saturating_mul(size_of::<T>()) > WHOLE_BYTES_MAX || !engine.has_no_tasks() {
            return Ok(None);
        }
        let (from, envelope) = (self.peer(from), Envelope { context: self.context, tag: self.tag() });
        let mut values = zeroed::<T>(len)?;
        let bytes = values.as_mut_bytes();
        let came = engine.with_layer(|endpoint, layer| {
            endpoint.let_others(from, layer);
            layer.tagged.receive_now(endpoint, from, envelope, bytes.len(), |mut packet| {
                packet.read(bytes);
            })
        })?;
        came.map(|came| expect_len(count::<T>(came)?, len).map(|()| values)).transpose()
    }

    /// Why the call cannot be finished, if so.
    fn broken(&self) -> Option<Error> {
        let engine = self.engine.upgrade()?;
        engine.with_layer(|_, layer| layer.broken(self.context, self.turn)).unwrap_or_else(Some)
    }

    /// The call's end: a failure is told to everybody, for whom there is no use in waiting then.
    fn close<R>(&self, outcome: Result<R, Error>) -> Result<R, Error> {
        // Whoever gave up before may have left since; why it did is what counts.
        let outcome = outcome.map_err(|error| self.broken().unwrap_or(error));
        if let (Err(error), Some(engine)) = (&outcome, self.engine.upgrade()) {
            let news = Layer::break_for(error, engine.me, self.turn);
            // Who has left the job tells nobody.
            let _ = engine.with_layer(|endpoint, layer| {
                layer.break_up(endpoint, &self.group, self.context, news);
            });
        }
        outcome
    }
}

/// Lengths that several ranks passed to a call.
fn expect_len(got: usize, expected: usize) -> Result<(), Error> {
    if got == expected {
        return Ok(());
    }
    Err(Error::Length { what: "ranks called a collective with different lengths", expected, got })
}

/// Lengths of the arguments of one call.
fn check_len(what: &'static str, got: usize, expected: usize) -> Result<(), Error> {
    if got == expected { Ok(()) } else { Err(Error::Length { what, expected, got }) }
}

/// `into` becomes what `combine` makes of it and of `right`, place by place.
fn fold<T: Plain>(into: &mut [T], right: &[T], combine: &impl Fn(T, T) -> T) {
    into.iter_mut().zip(right).for_each(|(left, &right)| *left = combine(*left, right));
}

/// `into` becomes what `combine` makes of `left` and of it, place by place.
fn fold_left<T: Plain>(left: &[T], into: &mut [T], combine: &impl Fn(T, T) -> T) {
    into.iter_mut().zip(left).for_each(|(right, &left)| *right = combine(left, *right));
}

impl Comm {
    /// Makes a collective call: drives its steps to the end.
    fn collect<'a, R, F: Future<Output = Result<R, Error>> + 'a>(
        &self,
        steps: impl FnOnce(Call) -> F,
    ) -> Result<R, Error> {
        let call = Call { waits: true, ..self.begin()? };
        let outcome = self.engine().drive("a collective call", steps(call.clone()));
        call.close(outcome.and_then(|outcome| outcome))
    }

    /// Starts a collective call that goes on by itself.
    fn start<R: 'static, F: Future<Output = Result<R, Error>> + 'static>(
        &self,
        steps: impl FnOnce(Call) -> F,
    ) -> Result<Request<R>, Error> {
        let call = self.begin()?;
        let (slot, ours) = Slot::pair();
        let steps = steps(call.clone());
        self.engine().spawn(async move { slot.end(call.close(steps.await)) });
        Ok(Request::task(self.engine(), ours))
    }

    /// The next call, unless the communicator is of no use any more.
    fn begin(&self) -> Result<Call, Error> {
        self.engine().with(|_| ())?;
        let call = self.call();
        match call.broken() {
            Some(error) => call.close(Err(error)),
            None => Ok(call),
        }
    }

    fn root(&self, root: u32) -> Result<usize, Error> {
        self.peer(root).map(|_| root as usize)
    }
}
