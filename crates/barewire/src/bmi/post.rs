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
///
/// ```
/// # use barewire::bmi::*;
/// # use std::time::Duration;
/// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
/// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
/// # let context = bmi.open_context().unwrap();
/// # const SOON: Duration = Duration::from_secs(10);
/// let place = Buffer::new(10);
/// let receive = bmi.post_recv(me, &place, 1, 0, context).unwrap();
/// assert!(matches!(receive, Posted::Pending(_))); // nothing has come yet
/// let send = bmi.post_send(me, Buffer::from(b"small"), 1, 0, context).unwrap();
/// assert_eq!(send, Posted::Done(5)); // nothing is left to test
/// ```
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
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// bmi.post_send(me, Buffer::from(b"for tag 2"), 2, 0, context).unwrap();
    /// bmi.post_send(me, Buffer::from(b"for tag 1"), 1, 0, context).unwrap();
    /// let place = Buffer::new(9);
    /// bmi.post_recv(me, &place, 1, 0, context).unwrap();
    /// assert_eq!(place.to_vec(), b"for tag 1");
    /// ```
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
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// let stripes = [Buffer::from(b"abc"), Buffer::from(b""), Buffer::from(b"defg")];
    /// assert_eq!(bmi.post_send_list(me, &stripes, 1, 0, context).unwrap(), Posted::Done(7));
    /// let place = Buffer::new(7);
    /// bmi.post_recv(me, &place, 1, 0, context).unwrap();
    /// assert_eq!(place.to_vec(), b"abcdefg");
    /// ```
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
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// bmi.post_sendunexpected(me, Buffer::from(b"stat /a"), 5, 2, 0, context).unwrap();
    /// let request = bmi.testunexpected(1, 2, SOON).unwrap().pop().unwrap(); // of class 2
    /// assert_eq!((request.tag, request.bytes), (5, b"stat /a".to_vec()));
    /// ```
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
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// let parts = [Buffer::from(b"open "), Buffer::from(b"/data")];
    /// bmi.post_sendunexpected_list(me, &parts, 1, 0, 0, context).unwrap();
    /// assert_eq!(bmi.testunexpected(1, 0, SOON).unwrap()[0].bytes, b"open /data");
    /// ```
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
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// let place = Buffer::new(8);
    /// bmi.post_send(me, Buffer::from(b"was here"), 4, 0, context).unwrap();
    /// assert_eq!(bmi.post_recv(me, &place, 4, 0, context).unwrap(), Posted::Done(8)); // it had arrived
    /// assert_eq!(place.to_vec(), b"was here");
    /// ```
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
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// let places = [Buffer::new(2), Buffer::new(10)];
    /// bmi.post_send(me, Buffer::from(b"ab12345"), 1, 0, context).unwrap();
    /// assert_eq!(bmi.post_recv_list(me, &places, 1, 0, context).unwrap(), Posted::Done(7));
    /// assert_eq!((places[0].to_vec(), &places[1].to_vec()[..5]), (b"ab".to_vec(), &b"12345"[..]));
    /// ```
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
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// let Posted::Pending(op) = bmi.post_recv(me, &Buffer::new(10), 1, 0, context).unwrap() else { panic!() };
    /// bmi.cancel(op, context).unwrap();
    /// assert_eq!(bmi.test(op, SOON, context).unwrap().unwrap().outcome, Err(Failure::Cancelled));
    /// assert!(matches!(bmi.cancel(op, context), Err(Error::NoSuchOp)));
    /// ```
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
