//! Operations under way and contexts: slabs with generations, and a chain of ended operations for each context.
//!
//! An operation that ends is hung on its context's chain, so `testcontext` looks at those and at no others; one that is
//! tested by its own name is taken off again. Every step is of constant time.

use barewire_core::tagged::Request;

use super::addr::Addr;
use super::error::Failure;

/// Names an operation until its end has been told.
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
/// bmi.post_send(me, Buffer::from(b"here"), 1, 0, context).unwrap();
/// assert_eq!(bmi.test(op, SOON, context).unwrap().unwrap().op, op);
/// assert!(matches!(bmi.test(op, SOON, context), Err(Error::NoSuchOp))); // its end was told
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId(i64);

/// Names a context until it is closed.
///
/// ```
/// # use barewire::bmi::*;
/// # use std::time::Duration;
/// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
/// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
/// # let context = bmi.open_context().unwrap();
/// # const SOON: Duration = Duration::from_secs(10);
/// let again = ContextId::from_raw(context.to_raw()); // by way of C
/// assert_eq!(again, context);
/// assert!(bmi.close_context(again).is_ok() && bmi.close_context(context).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContextId(i64);

macro_rules! handle {
    ($name:ident) => {
        impl $name {
            /// As a number for C; never negative.
            ///
            /// ```
            #[doc = concat!("use barewire::bmi::", stringify!($name), ";")]
            #[doc = concat!("let passed_on = ", stringify!($name), "::from_raw(0x1_0000_0002);")]
            /// assert_eq!(passed_on.to_raw(), 0x1_0000_0002);
            /// ```
            pub fn to_raw(self) -> i64 {
                self.0
            }

            /// From a number of C's; one that was never given out names nothing.
            ///
            /// ```
            #[doc = concat!("use barewire::bmi::", stringify!($name), ";")]
            #[doc = concat!("let (one, other) = (", stringify!($name), "::from_raw(1), ", stringify!($name), "::from_raw(2));")]
            /// assert!(one != other && one.to_raw() == 1);
            /// ```
            pub fn from_raw(raw: i64) -> $name {
                $name(raw)
            }

            fn new(slot: u32, generation: u32) -> $name {
                $name(i64::from(generation & 0x7fff_ffff) << 32 | i64::from(slot))
            }

            fn slot(self) -> usize {
                self.0 as u32 as usize
            }

            fn generation(self) -> u32 {
                (self.0 >> 32) as u32
            }
        }
    };
}
handle!(OpId);
handle!(ContextId);

/// How an operation ended.
///
/// ```
/// # use barewire::bmi::*;
/// # use std::time::Duration;
/// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
/// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
/// # let context = bmi.open_context().unwrap();
/// # const SOON: Duration = Duration::from_secs(10);
/// let place = Buffer::new(10);
/// bmi.post_recv(me, &place, 1, 0xcafe, context).unwrap();
/// bmi.post_send(me, Buffer::from(b"seven b"), 1, 0, context).unwrap();
/// let Completion { outcome, user, .. } = bmi.testcontext(1, SOON, context).unwrap()[0];
/// assert_eq!((outcome, user), (Ok(7), 0xcafe));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which.
    pub op: OpId,
    /// Bytes sent or received, or why not.
    pub outcome: std::result::Result<u64, Failure>,
    /// What was given when it was posted.
    pub user: u64,
}

/// One operation.
#[derive(Debug)]
pub(super) struct Op {
    pub context: ContextId,
    pub user: u64,
    pub addr: Addr,
    /// What it waits for, unless that is only that its bytes leave.
    pub request: Option<Request>,
    ended: Option<std::result::Result<u64, Failure>>,
    /// Neighbours in the context's chain of ended operations.
    before: u32,
    after: u32,
}

const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Context {
    first: u32,
    last: u32,
    /// Operations posted here whose end has not been told.
    count: usize,
}

/// All operations and contexts.
#[derive(Debug, Default)]
pub(super) struct Ops {
    slots: Vec<(u32, Option<Op>)>,
    free: Vec<u32>,
    contexts: Vec<(u32, Option<Context>)>,
    /// The operation behind a request's slot.
    of_request: Vec<u32>,
    /// Operations looked at so far, by whatever test.
    pub looks: u64,
}

impl Ops {
    pub fn open_context(&mut self) -> ContextId {
        let fresh = Context { first: NONE, last: NONE, count: 0 };
        let slot = match self.contexts.iter().position(|(_, context)| context.is_none()) {
            Some(slot) => slot,
            None => {
                self.contexts.push((1, None));
                self.contexts.len() - 1
            }
        };
        let (generation, place) = &mut self.contexts[slot];
        *place = Some(fresh);
        ContextId::new(slot as u32, *generation)
    }

    /// Closes a context and gives up its operations, whose requests are returned.
    pub fn close_context(&mut self, id: ContextId) -> Option<Vec<(Option<Request>, Addr)>> {
        self.context(id)?;
        let here = |(slot, (_, op)): (usize, &(u32, Option<Op>))| {
            op.as_ref().is_some_and(|op| op.context == id).then_some(slot as u32)
        };
        let slots: Vec<u32> = self.slots.iter().enumerate().filter_map(here).collect();
        let given_up = slots.into_iter().filter_map(|slot| {
            let op = self.remove(slot)?;
            op.ended.is_none().then_some((op.request, op.addr))
        });
        let given_up = given_up.collect();
        let (generation, context) = &mut self.contexts[id.slot()];
        (*context, *generation) = (None, generation.wrapping_add(1));
        Some(given_up)
    }

    pub fn is_context(&self, id: ContextId) -> bool {
        self.context(id).is_some()
    }

    fn context(&self, id: ContextId) -> Option<&Context> {
        let (generation, context) = self.contexts.get(id.slot())?;
        context.as_ref().filter(|_| generation & 0x7fff_ffff == id.generation())
    }

    pub fn add(&mut self, context: ContextId, user: u64, addr: Addr, request: Option<Request>) -> OpId {
        let op = Op { context, user, addr, request, ended: None, before: NONE, after: NONE };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((1, None));
            (self.slots.len() - 1) as u32
        });
        if let Some(at) = request.map(|request| request.slot() as usize) {
            if self.of_request.len() <= at {
                self.of_request.resize(at + 1, NONE);
            }
            self.of_request[at] = slot;
        }
        let (generation, place) = &mut self.slots[slot as usize];
        *place = Some(op);
        if let Some(context) = &mut self.contexts[context.slot()].1 {
            context.count += 1;
        }
        OpId::new(slot, *generation)
    }

    /// The operation of this name in this context.
    pub fn get(&self, id: OpId, context: ContextId) -> Option<&Op> {
        let (generation, op) = self.slots.get(id.slot())?;
        op.as_ref().filter(|op| generation & 0x7fff_ffff == id.generation() && op.context == context)
    }

    /// The operation that waits for a request, and its address.
    pub fn waiting_for(&self, request: Request) -> Option<(OpId, Addr)> {
        let slot = *self.of_request.get(request.slot() as usize)?;
        let (generation, op) = self.slots.get(slot as usize)?;
        let op = op.as_ref().filter(|op| op.request == Some(request))?;
        Some((OpId::new(slot, *generation), op.addr))
    }

    /// An operation has ended and joins its context's chain. Says whose it was; `None` if it had ended before.
    pub fn end(&mut self, id: OpId, outcome: std::result::Result<u64, Failure>) -> Option<Addr> {
        let slot = id.slot() as u32;
        let (generation, op) = self.slots.get_mut(id.slot())?;
        let op =
            op.as_mut().filter(|op| *generation & 0x7fff_ffff == id.generation() && op.ended.is_none())?;
        self.looks += 1;
        op.ended = Some(outcome);
        let (addr, context) = (op.addr, self.contexts[op.context.slot()].1.as_mut()?);
        op.before = context.last;
        let last = std::mem::replace(&mut context.last, slot);
        match last {
            NONE => context.first = slot,
            last => {
                if let Some(last) = &mut self.slots[last as usize].1 {
                    last.after = slot;
                }
            }
        }
        Some(addr)
    }

    /// Tells the end of one operation, if it has ended; `Err` if there is no such operation here.
    pub fn take(&mut self, id: OpId, context: ContextId) -> Result<Option<Completion>, ()> {
        self.looks += 1;
        let Some(outcome) = self.get(id, context).ok_or(())?.ended else { return Ok(None) };
        let op = self.remove(id.slot() as u32).ok_or(())?;
        Ok(Some(Completion { op: id, outcome, user: op.user }))
    }

    /// Tells the end of the operation of a context that ended first.
    pub fn take_first(&mut self, context: ContextId) -> Option<Completion> {
        let slot = self.context(context)?.first;
        let (generation, op) = self.slots.get(slot as usize)?;
        let (op, outcome) = (OpId::new(slot, *generation), op.as_ref()?.ended?);
        self.looks += 1;
        self.remove(slot).map(|gone| Completion { op, outcome, user: gone.user })
    }

    /// Operations of a context whose end has not been told.
    pub fn count(&self, context: ContextId) -> usize {
        self.context(context).map_or(0, |context| context.count)
    }

    fn remove(&mut self, slot: u32) -> Option<Op> {
        let (generation, place) = self.slots.get_mut(slot as usize)?;
        let op = place.take()?;
        *generation = generation.wrapping_add(1);
        self.free.push(slot);
        if let Some(context) = &mut self.contexts[op.context.slot()].1 {
            context.count -= 1;
            if op.ended.is_some() {
                let (before, after) = (op.before, op.after);
                match before {
                    NONE => context.first = after,
                    before => self.slots[before as usize].1.as_mut()?.after = after,
                }
                match after {
                    NONE => context.last = before,
                    after => self.slots[after as usize].1.as_mut()?.before = before,
                }
            }
        }
        Some(op)
    }
}
