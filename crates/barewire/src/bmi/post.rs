//! Posting: start an operation, and say whether it has completed at once.

use barewire_core::SendError;
use barewire_core::tagged::{Envelope, Exported, FETCH_BYTES_MIN, Mode, Received, Sent, Source};

use super::addr::Addr;
use super::buffer::{Buffer, Outgoing, Place};
use super::error::{Error, Result};
use super::layer::{EXPECTED, UNEXPECTED, want};
use super::ops::{ContextId, OpId};
use super::{Bmi, MESSAGE_BYTES_MAX, UNEXPECTED_BYTES_MAX};

/// How far an operation came while it was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It has completed, with so many bytes; there is nothing to test.
    Done(u64),
    /// It goes on; some test will tell its end. Its buffers are in use until then.
    Pending(OpId),
}

impl Bmi {
    /// Sends a message to the receive at `to` that has the same tag. `user` comes back with its completion.
    ///
    /// A small one completes at once, unless its receiver has no room or is not connected yet.
    pub fn post_send(
        &self,
        to: Addr,
        body: impl Into<Outgoing>,
        tag: i32,
        user: u64,
        context: ContextId,
    ) -> Result<Posted> {
        self.send(to, body.into(), Envelope { context: EXPECTED, tag }, MESSAGE_BYTES_MAX, user, context)
    }

    /// [`Bmi::post_send`] of several buffers as one message.
    pub fn post_send_list(
        &self,
        to: Addr,
        list: &[Buffer],
        tag: i32,
        user: u64,
        context: ContextId,
    ) -> Result<Posted> {
        self.post_send(to, list, tag, user, context)
    }

    /// Sends a message of at most 16 KiB that needs no receive: it appears in [`Bmi::testunexpected`] at `to`, which asks for
    /// this class.
    pub fn post_sendunexpected(
        &self,
        to: Addr,
        body: impl Into<Outgoing>,
        tag: i32,
        class: u8,
        user: u64,
        context: ContextId,
    ) -> Result<Posted> {
        let envelope = Envelope { context: UNEXPECTED | u32::from(class), tag };
        self.send(to, body.into(), envelope, UNEXPECTED_BYTES_MAX as u64, user, context)
    }

    /// [`Bmi::post_sendunexpected`] of several buffers as one message.
    pub fn post_sendunexpected_list(
        &self,
        to: Addr,
        list: &[Buffer],
        tag: i32,
        class: u8,
        user: u64,
        context: ContextId,
    ) -> Result<Posted> {
        self.post_sendunexpected(to, list, tag, class, user, context)
    }

    /// Receives the next message from `from` with this tag. One that is longer than `place` fails the receive.
    ///
    /// It completes at once if the message has arrived already.
    pub fn post_recv(
        &self,
        from: Addr,
        place: impl Into<Place>,
        tag: i32,
        user: u64,
        context: ContextId,
    ) -> Result<Posted> {
        let place = place.into();
        self.shared().with(|endpoint, layer| {
            layer.check(context)?;
            let peer = layer.prepare_receive(endpoint, from, tag)?;
            match layer.tagged.receive(endpoint, want(peer, tag), place.sink) {
                Received::Done(status) => layer.outcome(&status, from).map(Posted::Done).map_err(Error::from),
                Received::Pending(request) => layer.go_on(request, from, user, context),
            }
        })
    }

    /// [`Bmi::post_recv`] of one message into several buffers.
    pub fn post_recv_list(
        &self,
        from: Addr,
        list: &[Buffer],
        tag: i32,
        user: u64,
        context: ContextId,
    ) -> Result<Posted> {
        self.post_recv(from, list, tag, user, context)
    }

    fn send(
        &self,
        to: Addr,
        body: Outgoing,
        envelope: Envelope,
        max: u64,
        user: u64,
        context: ContextId,
    ) -> Result<Posted> {
        let Outgoing { len, source, lease } = body;
        if len > max {
            return Err(Error::TooLong { len, max });
        }
        let (posted, to_self) = self.shared().with(|endpoint, layer| {
            layer.check(context)?;
            let peer = layer.prepare_send(endpoint, to)?;
            let key = lease.filter(|_| len >= FETCH_BYTES_MIN).and_then(|lease| lease.key(endpoint));
            let source = match (source, key) {
                (Source::Memory(memory, at), Some(key)) => {
                    Source::Gather(Box::new(Exported { memory, at, key }))
                }
                (source, _) => source,
            };
            let posted = match layer.tagged.send(endpoint, peer, envelope, Mode::Standard, len, source) {
                Ok(Sent::Done) => {
                    // Nobody need call again for it, so it must not wait for company.
                    endpoint.flush();
                    match endpoint.passed_on(peer) {
                        (now, all) if now < all => layer.leave(peer, all, len, to, user, context),
                        _ => Ok(Posted::Done(len)),
                    }
                }
                Ok(Sent::Pending(request)) => layer.go_on(request, to, user, context),
                Err(SendError::Forked) => Err(Error::Forked),
                Err(_) => Err(layer.fail_now(endpoint, to).into()),
            };
            posted.map(|posted| (posted, peer == endpoint.me()))
        })?;
        if to_self {
            // Our own ring wakes nobody; another thread may sleep for this.
            self.shared().progress(usize::MAX);
        }
        Ok(posted)
    }

    /// Ends an operation now, however far it has come: its completion tells [`super::Failure::Cancelled`], and its buffers are
    /// not touched any more. One that has completed already, and was not tested yet, stays as it is. Cancelling an operation
    /// whose end was told is [`Error::NoSuchOp`].
    ///
    /// A send that is cancelled half-way ends its receive at the other side as cancelled, too.
    pub fn cancel(&self, op: OpId, context: ContextId) -> Result<()> {
        self.shared().with(|endpoint, layer| {
            layer.check(context)?;
            match layer.ops.get(op, context).ok_or(Error::NoSuchOp)?.request {
                Some(request) => drop(layer.tagged.break_off(endpoint, request)),
                None => layer.stop_leaving(op),
            }
            layer.collect(endpoint);
            Ok::<(), Error>(())
        })?;
        self.wake();
        Ok(())
    }
}
