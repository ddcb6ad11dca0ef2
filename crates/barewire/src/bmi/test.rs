//! Testing: which operations have ended, and which messages came unasked.
//!
//! Every test makes progress, on behalf of all contexts. With a time to wait it sleeps until there is something to tell.

use std::time::Duration;

use barewire_core::{Endpoint, WaitError};

use super::Bmi;
use super::addr::Addr;
use super::error::{Error, Result};
use super::layer::Layer;
use super::ops::{Completion, ContextId, OpId};

/// A message that came without a receive.
///
/// ```
/// # use barewire::bmi::*;
/// # use std::time::Duration;
/// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
/// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
/// # let context = bmi.open_context().unwrap();
/// # const SOON: Duration = Duration::from_secs(10);
/// bmi.post_sendunexpected(me, Buffer::from(b"ping"), 9, 0, 0, context).unwrap();
/// let Unexpected { from, tag, bytes, .. } = bmi.testunexpected(1, 0, SOON).unwrap().remove(0);
/// bmi.post_send(from, &Buffer::from(&bytes[..]), tag, 0, context).unwrap(); // back to the sender
/// let place = Buffer::new(4);
/// bmi.post_recv(me, &place, 9, 0, context).unwrap();
/// assert_eq!(place.to_vec(), b"ping");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unexpected {
    /// Who sent it. What is sent to this address goes back to where it came from.
    pub from: Addr,
    /// Its tag.
    pub tag: i32,
    /// Its class.
    pub class: u8,
    /// What it says.
    pub bytes: Vec<u8>,
}

impl Bmi {
    /// Tells the end of one operation, waiting up to `wait` for it; `None` if it goes on.
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// let place = Buffer::new(10);
    /// let Posted::Pending(op) = bmi.post_recv(me, &place, 1, 0, context).unwrap() else { panic!() };
    /// assert!(bmi.test(op, Duration::ZERO, context).unwrap().is_none()); // it goes on
    /// bmi.post_send(me, Buffer::from(b"now"), 1, 0, context).unwrap();
    /// assert_eq!(bmi.test(op, SOON, context).unwrap().unwrap().outcome, Ok(3));
    /// ```
    pub fn test(&self, op: OpId, wait: Duration, context: ContextId) -> Result<Option<Completion>> {
        let mut found = None;
        self.until(wait, context, |_, layer| {
            let taken = layer.ops.take(op, context).map_err(|()| Error::NoSuchOp)?;
            found = taken;
            Ok(found.is_some())
        })?;
        Ok(found)
    }

    /// Tells the ends of those of these operations that have ended, with their places in the list, waiting up to `wait` for
    /// the first.
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// let ops = [1, 2, 3].map(|tag| match bmi.post_recv(me, &Buffer::new(10), tag, 0, context).unwrap() {
    ///     Posted::Pending(op) => op,
    ///     Posted::Done(_) => panic!("nothing was sent"),
    /// });
    /// bmi.post_send(me, Buffer::from(b"third"), 3, 0, context).unwrap();
    /// let ended = bmi.testsome(&ops, SOON, context).unwrap();
    /// assert_eq!((ended.len(), ended[0].0, ended[0].1.outcome), (1, 2, Ok(5)));
    /// ```
    pub fn testsome(
        &self,
        ops: &[OpId],
        wait: Duration,
        context: ContextId,
    ) -> Result<Vec<(usize, Completion)>> {
        let mut found = Vec::new();
        self.until(wait, context, |_, layer| {
            if ops.iter().any(|&op| layer.ops.get(op, context).is_none()) {
                return Err(Error::NoSuchOp);
            }
            for (at, &op) in ops.iter().enumerate() {
                found.extend(layer.ops.take(op, context).ok().flatten().map(|completion| (at, completion)));
            }
            Ok(!found.is_empty())
        })?;
        Ok(found)
    }

    /// Tells the ends of up to `most` operations of a context, those that ended first, waiting up to `wait` for the first.
    /// Costs as much as there are ends to tell, however many operations are under way. Returns early, with nothing, when an unexpected message
    /// waits for [`Bmi::testunexpected`].
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// for user in 1..=3 {
    ///     bmi.post_recv(me, &Buffer::new(10), user as i32, user, context).unwrap();
    /// }
    /// bmi.post_send(me, Buffer::from(b"second"), 2, 0, context).unwrap();
    /// bmi.post_send(me, Buffer::from(b"first"), 1, 0, context).unwrap();
    /// let users: Vec<u64> = bmi.testcontext(8, SOON, context).unwrap().iter().map(|ended| ended.user).collect();
    /// assert_eq!(users, [2, 1]); // as they ended
    /// ```
    pub fn testcontext(&self, most: usize, wait: Duration, context: ContextId) -> Result<Vec<Completion>> {
        let mut found = Vec::new();
        self.until(wait, context, |_, layer| {
            while found.len() < most {
                let Some(completion) = layer.ops.take_first(context) else { break };
                found.push(completion);
            }
            Ok(!found.is_empty() || layer.has_unexpected())
        })?;
        Ok(found)
    }

    /// Tells up to `most` unexpected messages of a class, waiting up to `wait` for the first.
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// for tag in 0..3 {
    ///     bmi.post_sendunexpected(me, Buffer::from(b"request"), tag, 0, 0, context).unwrap();
    /// }
    /// let tags = |messages: Vec<Unexpected>| messages.iter().map(|message| message.tag).collect::<Vec<_>>();
    /// assert_eq!(tags(bmi.testunexpected(2, 0, SOON).unwrap()), [0, 1]); // at most two
    /// assert_eq!(tags(bmi.testunexpected(2, 0, SOON).unwrap()), [2]);
    /// assert!(bmi.testunexpected(2, 1, Duration::ZERO).unwrap().is_empty()); // none of class 1
    /// ```
    pub fn testunexpected(&self, most: usize, class: u8, wait: Duration) -> Result<Vec<Unexpected>> {
        let mut found = Vec::new();
        self.wait_until(wait, |endpoint, layer| {
            while found.len() < most {
                let Some(message) = layer.next_unexpected(endpoint, class) else { break };
                found.push(message);
            }
            Ok(!found.is_empty())
        })?;
        Ok(found)
    }

    /// Gives back an unexpected message's memory. Dropping it does the same.
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// bmi.post_sendunexpected(me, Buffer::from(b"done with"), 1, 0, 0, context).unwrap();
    /// for message in bmi.testunexpected(8, 0, SOON).unwrap() {
    ///     bmi.unexpected_free(message);
    /// }
    /// assert!(bmi.testunexpected(8, 0, Duration::ZERO).unwrap().is_empty());
    /// ```
    pub fn unexpected_free(&self, message: Unexpected) {
        drop(message);
    }

    /// Operations of a context whose end has not been told.
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// bmi.post_recv(me, &Buffer::new(10), 1, 0, context).unwrap();
    /// bmi.post_recv(me, &Buffer::new(10), 2, 0, context).unwrap();
    /// bmi.post_send(me, Buffer::from(b"x"), 2, 0, context).unwrap();
    /// assert_eq!(bmi.testcontext(8, SOON, context).unwrap().len(), 1);
    /// assert_eq!(bmi.pending(context), 1);
    /// ```
    pub fn pending(&self, context: ContextId) -> usize {
        self.shared().with(|_, layer| layer.ops.count(context))
    }

    /// Operations that tests have looked at so far: what they cost, for those who want to check.
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// for tag in 0..100 {
    ///     bmi.post_recv(me, &Buffer::new(10), tag, 0, context).unwrap();
    /// }
    /// let before = bmi.looks();
    /// bmi.testcontext(8, Duration::ZERO, context).unwrap();
    /// assert_eq!(bmi.looks(), before); // nothing has ended, so none was looked at
    /// ```
    pub fn looks(&self) -> u64 {
        self.shared().with(|_, layer| layer.ops.looks)
    }

    /// [`Bmi::wait_until`] in a context that is open.
    fn until(
        &self,
        wait: Duration,
        context: ContextId,
        mut done: impl FnMut(&mut Endpoint, &mut Layer) -> Result<bool>,
    ) -> Result<()> {
        self.wait_until(wait, |endpoint, layer| {
            layer.check(context)?;
            done(endpoint, layer)
        })
    }

    /// Makes progress once, and then, until the time is up, until `done` says so.
    fn wait_until(
        &self,
        wait: Duration,
        mut done: impl FnMut(&mut Endpoint, &mut Layer) -> Result<bool>,
    ) -> Result<()> {
        let mut verdict = Ok(false);
        let mut look = |endpoint: &mut Endpoint, layer: &mut Layer| {
            // A wait may look once more after it was told to end; what was told must not be taken again.
            if matches!(verdict, Ok(false)) {
                layer.advance(endpoint);
                verdict = if layer.finalized { Err(Error::Finalized) } else { done(endpoint, layer) };
            }
            !matches!(verdict, Ok(false))
        };
        let taken = self.shared().progress(usize::MAX);
        let found = self.shared().with(&mut look);
        if wait.is_zero() {
            // Programs test in loops, and whoever is to send what they test for may need the processor.
            if !found {
                self.shared().looked(taken);
            }
        } else if !found {
            match self.shared().wait(Some(wait), &mut look) {
                Ok(()) | Err(WaitError::TimedOut) => {}
                Err(WaitError::Forked) => return Err(Error::Forked),
                Err(_) => return Err(Error::Invalid("the network cannot be waited for")),
            }
        }
        verdict.map(drop)
    }
}
