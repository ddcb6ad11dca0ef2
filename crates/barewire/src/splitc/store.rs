//! Stores: one way, counted where they arrive.
//!
//! Into memory within reach a store is a copy, and then the sender's own count of bytes in the receiver's memory. Otherwise it is
//! a message, whose bytes the receiver counts. Either way nobody answers, and no order with other accesses is kept: so a store need not
//! ask anew each time which way it goes, as a put must.

use std::sync::atomic::Ordering;

use barewire_core::region::{Memory, Rights};
use barewire_core::{Deliver, Endpoint, Flow, Incoming, Peer, Port, SendError};
use zerocopy::IntoBytes;

use super::{Error, Global, Inner, Plain, SplitC};

const STORE: Port = Port(0x5c01);
/// Stores up to this length are one message.
const SHORT_BYTES: usize = 1024;
/// Between two senders' counts, so that they do not share a cache line.
const COUNT_BYTES: usize = 64;

/// Bytes at the beginning of every heap: a count for each processor.
pub(super) const fn head_bytes(procs: u32) -> usize {
    procs as usize * COUNT_BYTES
}

/// What arrives by message.
#[derive(Debug, Default)]
pub(super) struct Stores {
    memory: Option<Memory>,
    head: usize,
    arrived: u64,
}

/// What went to one processor.
#[derive(Clone, Debug, Default)]
pub(super) struct Stored {
    /// Its memory, once it is within reach.
    there: Option<Memory>,
    /// Bytes written straight into that, and bytes sent.
    directly: u64,
    by_message: u64,
}

impl Stores {
    pub fn open(&mut self, memory: &Memory, head: usize) {
        (self.memory, self.head) = (Some(memory.clone()), head);
    }
}

impl Deliver for Stores {
    fn deliver(&mut self, _: &mut Endpoint, mut packet: Incoming<'_>) -> Flow {
        let (Some(memory), STORE) = (&self.memory, packet.port) else { return Flow::Continue };
        let (bytes, at) = (packet.remaining(), packet.imm.checked_add(packet.offset));
        let at = at.and_then(|at| usize::try_from(at).ok()).filter(|&at| at >= self.head);
        // Senders check the range; one that does not is not counted either.
        if let Some(mut place) = at.and_then(|at| memory.wire_mut(at, bytes)) {
            packet.read_to(&mut place);
            self.arrived += bytes as u64;
        }
        Flow::Continue
    }
}

impl SplitC {
    /// Sends one value on its way. The receiver learns of it by [`SplitC::store_sync`] or [`SplitC::all_store_sync`].
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, splitc::SplitC};
    /// # let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 4096).unwrap();
    /// let place = sc.alloc::<u32>(1).unwrap();
    /// sc.store(place, 7).unwrap();
    /// sc.store_sync(4).unwrap();
    /// assert_eq!(sc.read(place), Ok(7));
    /// ```
    #[inline]
    pub fn store<T: Plain>(&self, to: Global<T>, value: T) -> Result<(), Error> {
        self.bulk_store(to, &[value])
    }

    /// Sends consecutive values on their way. The slice may be used again at once.
    ///
    /// ```
    /// # use barewire::{spmd, splitc::*};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let sc = SplitC::new(endpoint, 1 << 16)?;
    /// # let me = sc.my_proc();
    /// let rows = sc.all_spread_malloc::<u32>(2, 3)?;
    /// sc.bulk_store(rows.block(u64::from(1 - me)), &[me, 7, 8])?;
    /// sc.store_sync(12)?; // what the other stored here
    /// let mut mine = [0; 3];
    /// sc.bulk_read(rows.block(u64::from(me)), &mut mine)?;
    /// assert_eq!(mine, [1 - me, 7, 8]);
    /// sc.barrier()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn bulk_store<T: Plain>(&self, to: Global<T>, values: &[T]) -> Result<(), Error> {
        let mut inner = self.inner.borrow_mut();
        inner.check(to, values.len())?;
        let (peer, bytes) = (Peer(to.proc()), values.as_bytes());
        if inner.store_directly(to.offset(), peer, self.me, bytes)? {
            return Ok(());
        }
        inner.store_by_message(to.offset(), peer, bytes)
    }

    /// Waits until `bytes` more bytes have been stored to this processor than earlier calls waited for, no matter by whom.
    /// [`Error::Lost`] if a processor is lost or leaves before that: it might be the one that was to store them.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, splitc::*};
    /// # let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let cells = sc.alloc::<u64>(2).unwrap();
    /// sc.store(cells, 1).unwrap();
    /// sc.store(cells.add(1), 2).unwrap();
    /// sc.store_sync(8).unwrap(); // one of them
    /// sc.store_sync(8).unwrap(); // the other
    /// assert_eq!(sc.read(cells.add(1)), Ok(2));
    /// ```
    pub fn store_sync(&self, bytes: u64) -> Result<(), Error> {
        let mut inner = self.inner.borrow_mut();
        let expected = inner.expected.saturating_add(bytes);
        inner.wait_for_stores(expected, self.procs)?;
        inner.expected = expected;
        Ok(())
    }

    /// Waits until everything that anybody stored before calling this has arrived, everywhere. All call it.
    ///
    /// ```
    /// # use barewire::{spmd, splitc::*};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let sc = SplitC::new(endpoint, 1 << 16)?;
    /// # let me = sc.my_proc();
    /// let cells = sc.all_spread_malloc::<u32>(3, 1)?;
    /// sc.store(cells.at(u64::from(me + 1) % 3), me)?; // to the right
    /// sc.all_store_sync()?;
    /// assert_eq!(sc.read(cells.at(u64::from(me)))?, [2, 0, 1][me as usize]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn all_store_sync(&self) -> Result<(), Error> {
        let mut inner = self.inner.borrow_mut();
        let all = inner.world.all();
        let mut stored: Vec<u64> = inner.stored.iter().map(|to| to.directly + to.by_message).collect();
        inner.world.reduce(all, &mut stored, |a, b| a.wrapping_add(b))?;
        let expected = stored[self.me as usize];
        inner.wait_for_stores(expected, self.procs)?;
        inner.expected = inner.expected.max(expected);
        // What others store after this must not be taken for what is still missing here.
        inner.world.barrier(all)
    }

    /// Bytes that have been stored to this processor so far.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, splitc::*};
    /// # let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let cells = sc.alloc::<u32>(4).unwrap();
    /// sc.bulk_store(cells, &[1, 2, 3]).unwrap();
    /// sc.store_sync(12).unwrap();
    /// assert_eq!(sc.stored_here(), 12);
    /// ```
    pub fn stored_here(&self) -> u64 {
        self.poll();
        let inner = self.inner.borrow();
        arrived(&inner.world.hub.layer, inner.memory.local(), self.procs)
    }
}

impl Inner {
    /// Stores into memory within reach; false if it is not.
    #[inline]
    fn store_directly(&mut self, offset: u64, to: Peer, me: u32, bytes: &[u8]) -> Result<bool, Error> {
        let Inner { world, memory, stored, .. } = self;
        let size = stored.len() as u32;
        let stored = stored.get_mut(to.0 as usize).ok_or(Error::NoSuchRank { rank: to.0, size })?;
        let there = match &stored.there {
            Some(_) if world.endpoint.is_gone(to) => return Err(SendError::Lost(to).into()),
            Some(there) => there,
            None => match world.endpoint.reach(memory.key(to.0)?, Rights::WRITE)? {
                Some(there) => stored.there.insert(there.clone()),
                None => return Ok(false),
            },
        };
        let count = there.atomic_u64(me as usize * COUNT_BYTES);
        let (true, Some(count)) = (there.write(offset as usize, bytes), count) else {
            return Err(Error::OUT_OF_RANGE);
        };
        stored.directly += bytes.len() as u64;
        // SYNC stored: pairs with the Acquire in `arrived`; the bytes are there before they count.
        count.store(stored.directly, Ordering::Release);
        world.acted(to);
        Ok(true)
    }

    fn store_by_message(&mut self, offset: u64, to: Peer, bytes: &[u8]) -> Result<(), Error> {
        let Inner { world, stored, .. } = self;
        let counted = stored.get_mut(to.0 as usize).map(|stored| &mut stored.by_message);
        let sent = |()| counted.into_iter().for_each(|count| *count += bytes.len() as u64);
        if bytes.len() <= SHORT_BYTES {
            return world.send(to, |endpoint| endpoint.send(to, STORE, offset, bytes)).map(sent);
        }
        let mut sending = world.endpoint.begin(to, STORE, offset, bytes.len() as u64)?;
        let all = |endpoint: &mut Endpoint| {
            while !sending.is_done() {
                let at = sending.sent() as usize;
                if endpoint.push(&mut sending, &bytes[at..])? == 0 {
                    return Err(SendError::Full);
                }
            }
            Ok(())
        };
        world.send(to, all).map(sent)
    }

    fn wait_for_stores(&mut self, expected: u64, procs: u32) -> Result<(), Error> {
        let Inner { world, memory, .. } = self;
        world.watch("stores to arrive", None, |stores| arrived(stores, memory.local(), procs) >= expected)
    }
}

/// Bytes that have arrived: by message, and straight into memory.
fn arrived(stores: &Stores, memory: &Memory, procs: u32) -> u64 {
    let count = |proc: usize| {
        // SYNC stored: pairs with the Release in `store_directly`.
        memory.atomic_u64(proc * COUNT_BYTES).map_or(0, |count| count.load(Ordering::Acquire))
    };
    (0..procs as usize).map(count).fold(stores.arrived, u64::wrapping_add)
}
