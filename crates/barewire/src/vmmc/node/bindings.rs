//! Automatic update: memory that is bound to an imported buffer.

use std::time::Duration;

use barewire_core::WaitError;
use barewire_core::region::{Memory, Rights};

use super::super::bind::BindEntry;
use super::super::engine::Engine;
use super::super::names::{Binding, Import, TransferError};
use super::Vmmc;

/// How long binding waits for a neighbour to hand its memory over.
const MAP_WITHIN: Duration = Duration::from_secs(10);

impl Vmmc {
    /// Binds memory of this node to a part (offset and length) of an imported buffer: what is written to the binding appears there,
    /// with a neighbour at once, elsewhere within `every` as long as the node is polled, or with [`Duration::MAX`] when it is flushed. It
    /// may overtake deliberate updates.
    ///
    /// What [`Vmmc::write`] writes is sent as it is, and nothing else. Of what is written by other means ([`Vmmc::binding_memory`]) the bytes
    /// that changed are sent.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// node.export(&buffer, 1, Who::Anyone).unwrap();
    /// let proxy = node.import(me, 1, None).unwrap();
    /// let binding = node.bind(proxy, (10, 20), std::time::Duration::from_millis(1)).unwrap();
    /// node.write(binding, 5, b"here").unwrap(); // and there, at 15
    /// node.flush(binding, None).unwrap();
    /// let mut there = [0; 4];
    /// assert!(buffer.read(15, &mut there));
    /// assert_eq!(&there, b"here");
    /// ```
    pub fn bind(
        &mut self,
        import: Import,
        part: (u64, u64),
        every: Duration,
    ) -> Result<Binding, TransferError> {
        let valid = self.engine.imports.get(import.0).ok_or(TransferError::NoSuch)?.valid()?;
        if part.0.checked_add(part.1).is_none_or(|end| end > valid.key.len) {
            return Err(TransferError::OutOfRange);
        }
        let near = self.wait("a neighbour's memory", Some(MAP_WITHIN), |node| {
            match node.core.reach(valid.key, Rights::WRITE) {
                Ok(Some(memory)) => Some(Ok(Some(memory.clone()))),
                Ok(None) => node.core.goes_by_packets(valid.key).then_some(Ok(None)),
                Err(error) => Some(Err(error)),
            }
        });
        let near = match near {
            Ok(near) => near?,
            Err(WaitError::TimedOut) => None,
            Err(error) => return Err(error.into()),
        };
        let entry = BindEntry::new(import.0, valid.key, part, every, near);
        self.engine.bindings.insert(entry).map(Binding).ok_or(TransferError::TooMany)
    }

    /// Writes to bound memory.
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
    /// let binding = node.bind(proxy, (40, 10), std::time::Duration::from_millis(1)).unwrap();
    /// node.write(binding, 8, b"ok").unwrap();
    /// assert_eq!(node.write(binding, 9, b"no"), Err(TransferError::OutOfRange)); // the part has 10 bytes
    /// node.flush(binding, None).unwrap();
    /// let mut there = [0; 2];
    /// buffer.read(48, &mut there);
    /// assert_eq!(&there, b"ok");
    /// ```
    #[inline]
    pub fn write(&mut self, binding: Binding, at: u64, bytes: &[u8]) -> Result<(), TransferError> {
        let Engine { bindings, imports, .. } = &mut self.engine;
        let entry = bindings.get_mut(binding.0).ok_or(TransferError::NoSuch)?;
        imports.get(entry.import).ok_or(TransferError::NoSuch)?.valid()?;
        entry.write(&mut self.core, at, bytes)
    }

    /// The bound memory itself, and where in it the binding begins, for whoever writes by other means. With a neighbour it is the
    /// owner's memory, and stays so when the owner takes its buffer back: look at [`Vmmc::next_event`].
    ///
    /// Elsewhere it is memory of this process. A flush asks the kernel which pages of it were written (Linux 6.7; if it does not
    /// say, or they are few, all are looked at), and sends the bytes in them that differ from what was sent last. A write of what
    /// was there already is therefore not sent, although the owner may have changed it there: nobody can tell such a byte from
    /// one beside it that was not written, and to send that would undo what the owner or another importer wrote.
    /// [`Vmmc::write`] sends whatever it is given:
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// # let export = node.export(&buffer, 1, Who::Anyone).unwrap();
    /// # let proxy = node.import(me, 1, None).unwrap();
    /// let binding = node.bind(proxy, (40, 10), std::time::Duration::from_millis(1)).unwrap();
    /// for _ in 0..3 {
    ///     node.write(binding, 0, &[1]).unwrap(); // a flag is set
    ///     node.flush(binding, None).unwrap();
    ///     let mut flag = [0];
    ///     buffer.read(40, &mut flag);
    ///     assert_eq!(flag, [1]); // seen
    ///     buffer.write(40, &[0]); // and cleared by the owner
    /// }
    /// ```
    ///
    /// By hand:
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
    /// let binding = node.bind(proxy, (40, 10), std::time::Duration::from_millis(1)).unwrap();
    /// let (memory, start) = node.binding_memory(binding).unwrap();
    /// memory.write(start as usize + 2, b"by hand");
    /// node.flush(binding, None).unwrap();
    /// let mut there = [0; 7];
    /// buffer.read(42, &mut there);
    /// assert_eq!(&there, b"by hand");
    /// ```
    pub fn binding_memory(&mut self, binding: Binding) -> Result<(Memory, u64), TransferError> {
        let tracked = self.engine.tracked;
        Ok(self.engine.bindings.get_mut(binding.0).ok_or(TransferError::NoSuch)?.memory(tracked))
    }

    /// Sets whether the kernel is asked which pages of a binding were written, for those whose memory is asked for
    /// ([`Vmmc::binding_memory`]) for the first time from now on (default: yes). If not, every flush looks at all of them. That is for
    /// memory that is written past the page table, which the kernel does not see: by direct input that goes on during a flush, or as a
    /// buffer registered with io_uring.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// # let export = node.export(&buffer, 1, Who::Anyone).unwrap();
    /// # let proxy = node.import(me, 1, None).unwrap();
    /// node.set_write_tracking(false);
    /// let binding = node.bind(proxy, (0, 100), std::time::Duration::from_millis(1)).unwrap();
    /// let (memory, start) = node.binding_memory(binding).unwrap();
    /// memory.write(start as usize, b"found");
    /// node.flush(binding, None).unwrap();
    /// let mut there = [0; 5];
    /// buffer.read(0, &mut there);
    /// assert_eq!(&there, b"found");
    /// ```
    pub fn set_write_tracking(&mut self, tracked: bool) {
        self.engine.tracked = tracked;
    }

    /// Sends what was written to a binding, and waits until the owner has it.
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
    /// let binding = node.bind(proxy, (0, 100), std::time::Duration::from_secs(3600)).unwrap();
    /// node.write(binding, 99, b"!").unwrap();
    /// node.flush(binding, None).unwrap(); // not in an hour, but now
    /// let mut last = [0];
    /// buffer.read(99, &mut last);
    /// assert_eq!(&last, b"!");
    /// ```
    pub fn flush(&mut self, binding: Binding, timeout: Option<Duration>) -> Result<(), TransferError> {
        let Engine { bindings, counters, .. } = &mut self.engine;
        let entry = bindings.get_mut(binding.0).ok_or(TransferError::NoSuch)?;
        entry.flush(&mut self.core, counters);
        self.wait("the end of an automatic update", timeout, |node| {
            match node.engine.bindings.get(binding.0) {
                None => Some(Err(TransferError::NoSuch)),
                Some(BindEntry { failed: Some(error), .. }) => Some(Err(*error)),
                Some(entry) => entry.is_clean().then_some(Ok(())),
            }
        })?
    }

    /// Ends a binding. What was not flushed is not sent.
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
    /// let binding = node.bind(proxy, (0, 100), std::time::Duration::from_millis(1)).unwrap();
    /// assert_eq!(node.unbind(binding), Ok(()));
    /// assert_eq!(node.unbind(binding), Err(TransferError::NoSuch));
    /// ```
    pub fn unbind(&mut self, binding: Binding) -> Result<(), TransferError> {
        let entry = self.engine.bindings.remove(binding.0).ok_or(TransferError::NoSuch)?;
        self.engine.orphans.extend(entry.ops);
        Ok(())
    }
}
