//! A message that is being sent, apart from how its sender waits.

use barewire_core::{Endpoint, Peer, Sending};

use super::Handler;
use super::send::SendError;

/// A message that is being sent, apart from how its sender waits.
#[derive(Debug)]
pub(super) struct Draft {
    to: Peer,
    handler: Handler,
    len: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Fresh,
    Open(Sending),
    Done,
}

impl Draft {
    pub fn new(to: Peer, len: u64, handler: Handler) -> Draft {
        Draft { to, handler, len, state: State::Fresh }
    }

    /// Pieces that are to follow what was sent so far.
    pub fn gather<'a>(&self, pieces: &'a [&'a [u8]]) -> Result<Gather<'a>, SendError> {
        let total = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let sent = match &self.state {
            State::Fresh => 0,
            State::Open(sending) => sending.sent(),
            State::Done => self.len,
        };
        match sent.checked_add(total as u64) {
            Some(len) if len <= self.len => Ok(Gather { pieces, total, done: 0 }),
            len => Err(SendError::PastEnd { len: len.unwrap_or(u64::MAX), max: self.len }),
        }
    }

    /// Sends the next packet, with as much of `gather` as fits.
    pub fn step(&mut self, endpoint: &mut Endpoint, gather: &mut Gather<'_>) -> Result<(), SendError> {
        let left = gather.total - gather.done;
        let sending = match &mut self.state {
            State::Done => return Ok(()),
            State::Open(sending) => sending,
            State::Fresh if left as u64 == self.len && left <= endpoint.message_max(self.to) => {
                endpoint.send_with(self.to, self.handler.port(), 0, left, |wire| {
                    gather.pieces.iter().for_each(|piece| {
                        wire.write(piece);
                    });
                })?;
                gather.done = gather.total;
                self.state = State::Done;
                return Ok(());
            }
            State::Fresh => {
                self.state = State::Open(endpoint.begin(self.to, self.handler.port(), 0, self.len)?);
                let State::Open(sending) = &mut self.state else { return Ok(()) };
                sending
            }
        };
        let n = endpoint.push_packet(sending, left, |wire, n| gather.each(n, |bytes| wire.write(bytes)))?;
        gather.done += n;
        Ok(())
    }

    /// Says that the message is at its end, if its receiver cannot know.
    pub fn finish(&mut self, endpoint: &mut Endpoint) -> Result<(), SendError> {
        match &mut self.state {
            State::Fresh => endpoint.send(self.to, self.handler.port(), 0, &[])?,
            State::Open(sending) => endpoint.end(sending)?,
            State::Done => {}
        }
        self.state = State::Done;
        Ok(())
    }

    /// Ends the message if it had begun; gives back what could not be ended for want of room.
    pub fn abandon(&mut self, endpoint: &mut Endpoint) -> Option<Sending> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Open(mut sending) if sending.sent() > 0 => {
                let full = endpoint.end(&mut sending) == Err(barewire_core::SendError::Full);
                full.then_some(sending)
            }
            _ => None,
        }
    }
}

/// Pieces on their way into packets.
pub(super) struct Gather<'a> {
    pieces: &'a [&'a [u8]],
    total: usize,
    pub done: usize,
}

impl Gather<'_> {
    pub fn is_done(&self) -> bool {
        self.done == self.total
    }

    /// Hands the next `n` bytes to `write`, piece by piece.
    fn each<R>(&self, n: usize, mut write: impl FnMut(&[u8]) -> R) {
        let (mut skip, mut left) = (self.done, n);
        for piece in self.pieces {
            let from = skip.min(piece.len());
            let to = from + left.min(piece.len() - from);
            if from < to {
                write(&piece[from..to]);
            }
            skip -= from;
            left -= to - from;
        }
    }
}
