//! What a stream handler gets: the message as it arrives.

use std::future::poll_fn;
use std::task::{self, Poll};

use barewire_core::Peer;
use barewire_sys::loan::Borrower;

use super::dispatch::{Hunger, Turn, Turns};
use super::send::Sender;
use super::task::TaskId;

/// A message on its way in, for the handler that it started.
#[derive(Debug)]
pub struct Stream {
    pub(super) from: Peer,
    pub(super) task: TaskId,
    pub(super) read: u64,
    /// What the sender announced; once the message is known to have ended sooner, what it really had.
    pub(super) total: u64,
    pub(super) turns: Borrower<Turns>,
}

impl Stream {
    /// Who sends it.
    pub fn from(&self) -> Peer {
        self.from
    }

    /// Bytes of the message, as announced. A sender may end it sooner.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// Whether the message has no bytes.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Bytes received so far.
    pub fn received(&self) -> u64 {
        self.read
    }

    /// The way to send from inside this handler.
    pub fn sender(&self) -> Sender {
        Sender::new(self.turns.clone())
    }

    /// Fills `into` with the next bytes of the message, straight from wire memory, and says how many that was: all of
    /// `into`, or fewer if the message ends. Suspends the handler while they are still on their way.
    ///
    /// A stream belongs to the handler that got it: taken elsewhere, to a task of its own say, it is at its end.
    pub async fn receive(&mut self, into: &mut [u8]) -> usize {
        let mut filled = 0;
        poll_fn(|cx| self.poll_receive(cx, into, &mut filled)).await;
        filled
    }

    fn poll_receive(&mut self, cx: &task::Context<'_>, into: &mut [u8], filled: &mut usize) -> Poll<()> {
        let Stream { task, read, total, turns, .. } = self;
        let at_turn = |turn: &mut Turn<'_>| {
            if turn.task != *task {
                return Poll::Ready(());
            }
            let n = turn.read(&mut into[*filled..]);
            *filled += n;
            *read += n as u64;
            *total = turn.total;
            if *filled == into.len() || *read == *total {
                return Poll::Ready(());
            }
            turn.hunger = if cx.waker().will_wake(turn.waker) {
                Hunger::Task
            } else {
                Hunger::Part(cx.waker().clone())
            };
            Poll::Pending
        };
        turns.with(at_turn).unwrap_or(Poll::Ready(()))
    }
}
