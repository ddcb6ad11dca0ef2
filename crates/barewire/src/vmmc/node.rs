//! The node: an endpoint of the core with its exports, imports and bindings.

use std::time::{Duration, Instant};

use barewire_core::region::{Memory, Who};
use barewire_core::wait::Waiting;
use barewire_core::{Endpoint, Peer, SendError, WaitError};

use super::engine::{Counters, Engine, ExportEntry, ImportEntry, ImportState, Importer, Stage, unimport};
use super::names::{
    Arrival, Export, ExportError, ExportOptions, Import, ImportError, Invalidated, Notify, RedirectError,
    Transfer, TransferError, Why,
};
use super::wire::Kind;
use crate::deadline::{Deadline, napped};
use crate::registered::CacheCounters;
use crate::slab::Slot;

mod bindings;
mod redirections;

/// Buffers that stay registered unless somebody says otherwise.
const UTLB_CAPACITY: usize = 64;
/// How long between two asks for a buffer that is not exported yet.
const ASK_AGAIN: Duration = Duration::from_millis(2);
/// How long a wait sleeps at most while a transfer waits for room.
const NAP: Duration = Duration::from_millis(1);

/// One process's virtual memory-mapped communication.
///
/// It works while it is called: in [`Vmmc::poll`] and in everything that waits. Neighbours that write to a buffer of ours do not
/// need that; everybody else does.
///
/// ```
/// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
/// # use barewire::vmmc::*;
/// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
/// node.export(&buffer, 1, Who::Anyone).unwrap(); // the receiver's part
/// let proxy = node.import(me, 1, None).unwrap(); // the sender's part
/// let data = Memory::private(3);
/// data.write(0, b"hey");
/// let transfer = node.send(proxy, 97, (&data, 0, 3), Notify::Quiet).unwrap();
/// node.finish(transfer, None).unwrap();
/// let mut end = [0; 3];
/// buffer.read(97, &mut end);
/// assert_eq!(&end, b"hey");
/// ```
#[derive(Debug)]
pub struct Vmmc {
    core: Endpoint,
    engine: Engine,
    /// How often notifications were blocked and not unblocked.
    blocked: u32,
}

impl Vmmc {
    /// A node on an endpoint of the core, which it takes over.
    ///
    /// ```
    /// use barewire::core::{Config, Endpoint, job::Job};
    /// use barewire::vmmc::Vmmc;
    /// let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// assert_eq!(node.next_event(), None);
    /// ```
    pub fn new(core: Endpoint) -> Vmmc {
        Vmmc { core, engine: Engine::new(UTLB_CAPACITY), blocked: 0 }
    }

    /// The endpoint of the core, to look at.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// assert_eq!((node.core().me().0, node.core().size()), (0, 1));
    /// ```
    pub fn core(&self) -> &Endpoint {
        &self.core
    }

    /// What the node counted.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// let export = node.export(&buffer, 1, Who::Anyone).unwrap();
    /// let proxy = node.import(me, 1, None).unwrap();
    /// let transfer = node.send(proxy, 0, (&Memory::private(8), 0, 8), Notify::Quiet).unwrap();
    /// node.finish(transfer, None).unwrap();
    /// assert_eq!((node.counters().transfers, node.counters().strays), (1, 0));
    /// ```
    pub fn counters(&self) -> Counters {
        self.engine.counters
    }

    /// What the cache of registered buffers did, and how many it holds.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// # let export = node.export_with(&buffer, 1, Who::Anyone, ExportOptions { redirectable: true }).unwrap();
    /// # let proxy = node.import(me, 1, None).unwrap();
    /// # let place = Memory::shared(10).unwrap();
    /// node.redirect(export, me, (&place, 0, 10)).unwrap();
    /// let (counted, held) = node.utlb();
    /// assert_eq!((counted.misses, held), (1, 1)); // the place stays registered
    /// ```
    pub fn utlb(&self) -> (CacheCounters, usize) {
        (self.engine.utlb.counters, self.engine.utlb.len())
    }

    /// Sets how many buffers stay registered (default 64).
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// node.set_utlb_capacity(0); // nothing stays registered, so every redirected transfer is copied
    /// let options = ExportOptions { redirectable: true };
    /// let export = node.export_with(&buffer, 1, Who::Anyone, options).unwrap();
    /// let proxy = node.import(me, 1, None).unwrap();
    /// let redirection = node.redirect(export, me, (&Memory::shared(10).unwrap(), 0, 10)).unwrap();
    /// node.send(proxy, 0, (&Memory::private(10), 0, 10), Notify::Quiet).unwrap();
    /// assert_eq!(node.redirected(redirection, None), Ok(Redirected { len: 10, copies: 1 }));
    /// ```
    pub fn set_utlb_capacity(&mut self, buffers: usize) {
        self.engine.utlb.resize(buffers);
        self.engine.shrink_utlb(&mut self.core, 0);
    }

    /// Lets others write to `memory`: whoever `who` names may import it by its number.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// node.export(&buffer, 1, Who::Only(vec![me])).unwrap();
    /// assert!(matches!(node.export(&buffer, 1, Who::Anyone), Err(ExportError::NumberTaken(1))));
    /// ```
    pub fn export(&mut self, memory: &Memory, number: u32, who: Who) -> Result<Export, ExportError> {
        self.export_with(memory, number, who, ExportOptions::default())
    }

    /// [`Vmmc::export`] with options.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// let export = node.export_with(&buffer, 1, Who::Anyone, ExportOptions { redirectable: true }).unwrap();
    /// node.import(me, 1, None).unwrap();
    /// assert_eq!(node.import(me, 1, None), Err(ImportError::Twice));
    /// ```
    pub fn export_with(
        &mut self,
        memory: &Memory,
        number: u32,
        who: Who,
        options: ExportOptions,
    ) -> Result<Export, ExportError> {
        self.engine.export(&mut self.core, memory, number, who, options.redirectable)
    }

    /// Takes a buffer back: all imports of it are invalid from now on, and their holders are told.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// let export = node.export(&buffer, 1, Who::Anyone).unwrap();
    /// let proxy = node.import(me, 1, None).unwrap();
    /// node.unexport(export).unwrap();
    /// let event = node.wait("the news", None, Vmmc::next_event).unwrap();
    /// assert_eq!((event.import, event.why), (proxy, Why::Unexported));
    /// ```
    pub fn unexport(&mut self, export: Export) -> Result<(), ExportError> {
        let entry: ExportEntry = self.engine.exports.remove(export.0).ok_or(ExportError::NoSuch)?;
        self.engine.numbers.remove(&entry.number);
        self.core.revoke(entry.key);
        for Importer { peer, import, waiting, .. } in entry.importers {
            if let Some(import) = import {
                // If the peer is gone, so is its import.
                let _ = self.core.reply_with(peer, Kind::Invalid.port(), u64::from(import), 0, |_| {});
            }
            for id in waiting {
                self.engine.end_redirection(id, Err(RedirectError::NoSuch));
            }
        }
        Ok(())
    }

    /// Asks `peer` for the buffer it exported under `number`; [`Vmmc::import_done`] says what came of it. A peer that was gone is
    /// looked for anew.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// let proxy = node.import_request(me, 1).unwrap(); // its owner has not answered
    /// assert_eq!(node.import_done(proxy), None);
    /// let answer = node.wait("an answer", None, |node| node.import_done(proxy)).unwrap();
    /// assert_eq!(answer, Err(ImportError::NotExported));
    /// ```
    pub fn import_request(&mut self, peer: Peer, number: u32) -> Result<Import, ImportError> {
        if self.core.is_gone(peer) {
            self.core.forget(peer);
        }
        let entry = ImportEntry {
            peer,
            state: ImportState::Asked,
            queue: Default::default(),
            turn: 0,
            aims: Default::default(),
            listed: false,
        };
        let id = self.engine.imports.insert(entry).ok_or(ImportError::TooMany)?;
        if let Err(error) = self.ask(id, peer, number) {
            self.engine.imports.remove(id);
            return Err(error);
        }
        Ok(Import(id))
    }

    fn ask(&mut self, id: Slot, peer: Peer, number: u32) -> Result<(), ImportError> {
        let name = u64::from(id.short());
        self.core.reply_with(peer, Kind::Import.port(), u64::from(number), 8, |wire| wire.write_u64(name))?;
        Ok(())
    }

    /// What came of asking for a buffer; `None` while its owner has not answered. A refused import is freed.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// node.export(&buffer, 1, Who::Anyone).unwrap();
    /// let proxy = node.import_request(me, 1).unwrap();
    /// let answer = node.wait("an answer", None, |node| node.import_done(proxy)).unwrap();
    /// assert_eq!(answer, Ok(()));
    /// ```
    pub fn import_done(&mut self, import: Import) -> Option<Result<(), ImportError>> {
        let Some(entry) = self.engine.imports.get(import.0) else { return Some(Err(ImportError::NoSuch)) };
        match entry.state {
            ImportState::Asked => None,
            ImportState::Valid(_) => Some(Ok(())),
            ImportState::Invalid(why) => Some(Err(ImportError::Invalid(why))),
            ImportState::Refused(error) => {
                self.engine.imports.remove(import.0);
                Some(Err(error))
            }
        }
    }

    /// Imports a buffer, waiting for its owner to export it and to answer. With a `timeout` it also waits for an owner that is gone to
    /// come back; without one it does not.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// node.export(&buffer, 1, Who::Anyone).unwrap();
    /// let proxy = node.import(me, 1, None).unwrap();
    /// assert_eq!(node.import_len(proxy), Some(100));
    /// ```
    pub fn import(
        &mut self,
        peer: Peer,
        number: u32,
        timeout: Option<Duration>,
    ) -> Result<Import, ImportError> {
        let deadline = Deadline::after(timeout);
        loop {
            let left = deadline.left();
            let error = match self.import_once(peer, number, left) {
                Err(error) if is_passing(error, left) => error,
                done => return done,
            };
            let nap: Result<(), _> = self.wait("an export", Some(ASK_AGAIN), |_| None);
            match nap {
                Err(WaitError::TimedOut) if left != Some(Duration::ZERO) => {}
                _ => return Err(error),
            }
        }
    }

    fn import_once(
        &mut self,
        peer: Peer,
        number: u32,
        timeout: Option<Duration>,
    ) -> Result<Import, ImportError> {
        let import = self.import_request(peer, number)?;
        match self.wait("an import", timeout, |node| node.import_done(import)) {
            Ok(Ok(())) => Ok(import),
            Ok(Err(error)) => {
                self.engine.imports.remove(import.0);
                Err(error)
            }
            Err(error) => {
                let _ = self.unimport(import);
                Err(error.into())
            }
        }
    }

    /// Bytes of an imported buffer.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// # let export = node.export(&buffer, 1, Who::Anyone).unwrap();
    /// # let proxy = node.import(me, 1, None).unwrap();
    /// # let data = Memory::private(10);
    /// # data.write(0, b"0123456789");
    /// assert_eq!(node.import_len(proxy), Some(100));
    /// node.unimport(proxy).unwrap();
    /// assert_eq!(node.import_len(proxy), None);
    /// ```
    pub fn import_len(&self, import: Import) -> Option<u64> {
        self.engine.imports.get(import.0)?.valid().ok().map(|valid| valid.key.len)
    }

    /// Frees an import. Transfers under way end with it.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// node.export(&buffer, 1, Who::Anyone).unwrap();
    /// let proxy = node.import(me, 1, None).unwrap();
    /// node.unimport(proxy).unwrap();
    /// assert_eq!(node.unimport(proxy), Err(ImportError::NoSuch));
    /// ```
    pub fn unimport(&mut self, import: Import) -> Result<(), ImportError> {
        let entry = self.engine.imports.get(import.0).ok_or(ImportError::NoSuch)?;
        if let ImportState::Valid(valid) = entry.state {
            unimport(&mut self.core, entry.peer, valid.export, import.0.short());
        }
        let doomed: Vec<Slot> = entry.queue.iter().copied().collect();
        for id in doomed {
            if let Some(transfer) = self.engine.transfers.get_mut(id) {
                if let Stage::Under(op, _) = transfer.stage {
                    self.engine.orphans.push(op);
                }
                transfer.stage = Stage::Done(Err(TransferError::NoSuch));
            }
        }
        self.engine.imports.remove(import.0);
        Ok(())
    }

    /// Deliberate update: writes bytes of `source` (from where, how many) into the imported buffer at `offset`. The source must
    /// not change until the transfer has ended.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// node.export(&buffer, 1, Who::Anyone).unwrap();
    /// let proxy = node.import(me, 1, None).unwrap();
    /// let source = Memory::private(8);
    /// assert!(source.write(0, b"one two "));
    /// let transfer = node.send(proxy, 50, (&source, 4, 3), Notify::Quiet).unwrap();
    /// node.finish(transfer, None).unwrap();
    /// let mut there = [0; 3];
    /// assert!(buffer.read(50, &mut there));
    /// assert_eq!(&there, b"two");
    /// assert_eq!(node.send(proxy, 98, (&source, 0, 3), Notify::Quiet), Err(TransferError::OutOfRange));
    /// ```
    pub fn send(
        &mut self,
        import: Import,
        offset: u64,
        source: (&Memory, u64, u64),
        notify: Notify,
    ) -> Result<Transfer, TransferError> {
        self.engine.send(&mut self.core, import, offset, source, notify)
    }

    /// What became of a transfer; `None` while it is under way. Told once; until then the node remembers it.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// # let export = node.export(&buffer, 1, Who::Anyone).unwrap();
    /// # let proxy = node.import(me, 1, None).unwrap();
    /// # let data = Memory::private(10);
    /// # data.write(0, b"0123456789");
    /// let transfer = node.send(proxy, 0, (&data, 0, 10), Notify::Quiet).unwrap();
    /// let done = node.wait("the end", None, |node| node.transfer_done(transfer)).unwrap();
    /// assert_eq!(done, Ok(()));
    /// ```
    pub fn transfer_done(&mut self, transfer: Transfer) -> Option<Result<(), TransferError>> {
        let outcome = match self.engine.transfers.get(transfer.0) {
            None => return Some(Err(TransferError::NoSuch)),
            Some(entry) => match entry.stage {
                Stage::Done(outcome) => outcome,
                _ => return None,
            },
        };
        self.engine.transfers.remove(transfer.0);
        Some(outcome)
    }

    /// Waits until a transfer has ended: its bytes are in the owner's memory, or not at all.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// # let export = node.export(&buffer, 1, Who::Anyone).unwrap();
    /// # let proxy = node.import(me, 1, None).unwrap();
    /// # let data = Memory::private(10);
    /// # data.write(0, b"0123456789");
    /// let transfer = node.send(proxy, 0, (&data, 3, 4), Notify::Quiet).unwrap();
    /// assert_eq!(node.finish(transfer, None), Ok(()));
    /// let mut there = [0; 4];
    /// buffer.read(0, &mut there);
    /// assert_eq!(&there, b"3456");
    /// assert_eq!(node.finish(transfer, None), Err(TransferError::NoSuch)); // told once
    /// ```
    pub fn finish(&mut self, transfer: Transfer, timeout: Option<Duration>) -> Result<(), TransferError> {
        self.wait("the end of a transfer", timeout, |node| node.transfer_done(transfer))?
    }

    /// Sets the handler that runs when a transfer to the buffer tells of itself. It runs in [`Vmmc::poll`] and in waits.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// # let export = node.export(&buffer, 1, Who::Anyone).unwrap();
    /// # let proxy = node.import(me, 1, None).unwrap();
    /// # let data = Memory::private(10);
    /// # data.write(0, b"0123456789");
    /// let (tell, told) = std::sync::mpsc::channel();
    /// node.set_notification(export, move |arrival| tell.send((arrival.offset, arrival.len)).unwrap()).unwrap();
    /// node.send(proxy, 10, (&data, 0, 7), Notify::Tell).unwrap();
    /// assert_eq!(node.wait("word", None, |_| told.try_recv().ok()), Ok((10, 7)));
    /// ```
    pub fn set_notification(
        &mut self,
        export: Export,
        handler: impl FnMut(&Arrival) + Send + 'static,
    ) -> Result<(), ExportError> {
        let entry = self.engine.exports.get_mut(export.0).ok_or(ExportError::NoSuch)?;
        entry.handler = Some(Box::new(handler));
        Ok(())
    }

    /// Blocks notifications: they queue until they are unblocked as often as they were blocked. More than 16 384 are not kept, but
    /// counted ([`Counters::dropped`]).
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// # use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
    /// let export = node.export(&buffer, 1, Who::Anyone).unwrap();
    /// let told = Arc::new(AtomicU32::new(0));
    /// let count = Arc::clone(&told);
    /// node.set_notification(export, move |_| drop(count.fetch_add(1, Ordering::Relaxed))).unwrap();
    /// let proxy = node.import(me, 1, None).unwrap();
    /// node.block_notifications();
    /// node.send(proxy, 0, (&buffer, 0, 8), Notify::Tell).unwrap();
    /// while node.poll() > 0 {}
    /// assert_eq!(told.load(Ordering::Relaxed), 0);
    /// assert_eq!(node.unblock_notifications(), 0);
    /// assert_eq!(told.load(Ordering::Relaxed), 1);
    /// ```
    pub fn block_notifications(&mut self) {
        self.blocked += 1;
    }

    /// Takes one block away; with the last one, what has queued runs. Says how many blocks are left.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// node.block_notifications();
    /// node.block_notifications();
    /// assert_eq!((node.unblock_notifications(), node.unblock_notifications()), (1, 0));
    /// ```
    pub fn unblock_notifications(&mut self) -> u32 {
        self.blocked = self.blocked.saturating_sub(1);
        self.notify();
        self.blocked
    }

    fn notify(&mut self) {
        if self.blocked > 0 {
            return;
        }
        while let Some(arrival) = self.engine.due.pop_front() {
            let entry = self.engine.exports.get_mut(arrival.export.0);
            if let Some(handler) = entry.and_then(|entry| entry.handler.as_mut()) {
                handler(&arrival);
                self.engine.counters.notifications += 1;
            }
        }
    }

    /// The next import that became invalid.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// # let export = node.export(&buffer, 1, Who::Anyone).unwrap();
    /// # let proxy = node.import(me, 1, None).unwrap();
    /// # let data = Memory::private(10);
    /// # data.write(0, b"0123456789");
    /// assert_eq!(node.next_event(), None); // all is well
    /// node.unexport(export).unwrap();
    /// let event = node.wait("the news", None, Vmmc::next_event).unwrap();
    /// assert_eq!(event.import, proxy);
    /// ```
    pub fn next_event(&mut self) -> Option<Invalidated> {
        self.engine.events.pop_front()
    }

    /// Takes what has arrived, moves transfers, flushes bindings that are due and runs notifications. Never waits.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// # let export = node.export(&buffer, 1, Who::Anyone).unwrap();
    /// # let proxy = node.import(me, 1, None).unwrap();
    /// # let data = Memory::private(10);
    /// # data.write(0, b"0123456789");
    /// let transfer = node.send(proxy, 0, (&data, 0, 10), Notify::Quiet).unwrap();
    /// while node.transfer_done(transfer).is_none() {
    ///     node.poll();
    /// }
    /// let mut there = [0; 10];
    /// buffer.read(0, &mut there);
    /// assert_eq!(&there, b"0123456789");
    /// ```
    pub fn poll(&mut self) -> usize {
        let took = self.advance();
        self.core.looked(took);
        took
    }

    fn advance(&mut self) -> usize {
        let took = self.core.progress(&mut self.engine, usize::MAX);
        self.engine.work(&mut self.core);
        self.notify();
        took
    }

    /// Polls until `found` finds something, sleeping when there is nothing to do.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// use std::time::Duration;
    /// assert_eq!(node.wait("what is there", None, |node| Some(node.core().size())), Ok(1));
    /// assert!(node.wait("nothing", Some(Duration::from_millis(1)), |_| None::<()>).is_err());
    /// ```
    pub fn wait<T>(
        &mut self,
        what: &'static str,
        timeout: Option<Duration>,
        mut found: impl FnMut(&mut Vmmc) -> Option<T>,
    ) -> Result<T, WaitError> {
        let deadline = Deadline::after(timeout);
        loop {
            self.advance();
            if let Some(found) = found(self) {
                return Ok(found);
            }
            let left = deadline.left();
            if left == Some(Duration::ZERO) {
                return Err(WaitError::TimedOut);
            }
            let due = self
                .engine
                .flush_due(&mut self.core)
                .map(|due| due.saturating_duration_since(Instant::now()));
            // A neighbour's writes bring no word, and what waits for room looks for it.
            let longest = left.into_iter().chain(due).chain([NAP]).min();
            let before = self.engine.news;
            let waiting = Waiting { what, on: None };
            let waited = self.core.wait_for(waiting, &mut self.engine, longest, |core, engine| {
                engine.work(core);
                engine.news != before
            });
            napped(waited)?;
        }
    }
}

/// Whether a later attempt to import may fare better.
fn is_passing(error: ImportError, left: Option<Duration>) -> bool {
    match error {
        ImportError::NotExported => true,
        ImportError::Invalid(Why::PeerLost) | ImportError::Send(SendError::Lost(_)) => left.is_some(),
        _ => false,
    }
}

impl Engine {
    /// Moves what is under way.
    fn work(&mut self, core: &mut Endpoint) {
        for id in std::mem::take(&mut self.busy) {
            if let Some(import) = self.imports.get_mut(id) {
                import.listed = false;
                self.advance(core, id);
            }
        }
        self.orphans.retain(|&op| core.take(op).is_none());
        if self.bindings.iter().next().is_some() {
            self.flush_due(core);
        }
    }
}
