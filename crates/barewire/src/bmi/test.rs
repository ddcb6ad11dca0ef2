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
    pub fn unexpected_free(&self, message: Unexpected) {
        drop(message);
    }

    /// Operations of a context whose end has not been told.
    pub fn pending(&self, context: ContextId) -> usize {
        self.shared().with(|_, layer| layer.ops.count(context))
    }

    /// Operations that tests have looked at so far: what they cost, for those who want to check.
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
