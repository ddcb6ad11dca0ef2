//! Redirection: where a transfer goes instead.

use std::time::Duration;

use barewire_core::Peer;
use barewire_core::region::Memory;

use super::super::names::{Arrival, Export, RedirectError, Redirected, Redirection};
use super::Vmmc;

impl Vmmc {
    /// Re-aims the next transfer of `from` to a redirectable buffer that has not been re-aimed: it goes into a place (memory, from where,
    /// how many bytes at most). If it was too late for that, it is copied there.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// let export = node.export_with(&buffer, 1, Who::Anyone, ExportOptions { redirectable: true }).unwrap();
    /// let proxy = node.import(me, 1, None).unwrap();
    /// let place = Memory::shared(64).unwrap();
    /// let redirection = node.redirect(export, me, (&place, 32, 32)).unwrap();
    /// while node.poll() > 0 {} // the sender hears of it in time
    /// node.send(proxy, 0, (&Memory::private(8), 0, 8), Notify::Quiet).unwrap();
    /// assert_eq!(node.redirected(redirection, None), Ok(Redirected { len: 8, copies: 0 }));
    /// ```
    pub fn redirect(
        &mut self,
        export: Export,
        from: Peer,
        place: (&Memory, u64, u64),
    ) -> Result<Redirection, RedirectError> {
        self.engine.redirect(&mut self.core, export, from, place)
    }

    /// What became of a redirection; `None` while its transfer has not come. Told once.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// # let export = node.export_with(&buffer, 1, Who::Anyone, ExportOptions { redirectable: true }).unwrap();
    /// # let proxy = node.import(me, 1, None).unwrap();
    /// # let place = Memory::shared(10).unwrap();
    /// let redirection = node.redirect(export, me, (&place, 0, 10)).unwrap();
    /// assert_eq!(node.redirect_done(redirection), None);
    /// node.send(proxy, 0, (&Memory::private(5), 0, 5), Notify::Quiet).unwrap();
    /// let came = node.wait("a transfer", None, |node| node.redirect_done(redirection)).unwrap();
    /// assert_eq!(came.unwrap().len, 5);
    /// ```
    pub fn redirect_done(&mut self, redirection: Redirection) -> Option<Result<Redirected, RedirectError>> {
        let Some(entry) = self.engine.redirections.get(redirection.0) else {
            return Some(Err(RedirectError::NoSuch));
        };
        let outcome = entry.outcome?;
        self.engine.redirections.remove(redirection.0);
        Some(outcome)
    }

    /// Waits for the transfer that a redirection is for.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// # let export = node.export_with(&buffer, 1, Who::Anyone, ExportOptions { redirectable: true }).unwrap();
    /// # let proxy = node.import(me, 1, None).unwrap();
    /// # let place = Memory::shared(10).unwrap();
    /// let redirection = node.redirect(export, me, (&place, 2, 8)).unwrap();
    /// let data = Memory::private(3);
    /// data.write(0, b"new");
    /// node.send(proxy, 50, (&data, 0, 3), Notify::Quiet).unwrap();
    /// node.redirected(redirection, None).unwrap();
    /// let mut there = [0; 5];
    /// place.read(0, &mut there);
    /// assert_eq!(&there, b"\0\0new"); // and not at 50 of the buffer
    /// ```
    pub fn redirected(
        &mut self,
        redirection: Redirection,
        timeout: Option<Duration>,
    ) -> Result<Redirected, RedirectError> {
        self.wait("a redirected transfer", timeout, |node| node.redirect_done(redirection))?
    }

    /// The next transfer to a redirectable buffer that is in the default buffer and that no redirection claimed.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
    /// # use barewire::vmmc::*;
    /// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
    /// let export = node.export_with(&buffer, 1, Who::Anyone, ExportOptions { redirectable: true }).unwrap();
    /// let proxy = node.import(me, 1, None).unwrap();
    /// node.send(proxy, 7, (&Memory::private(8), 0, 8), Notify::Quiet).unwrap();
    /// let arrival = node.wait("a transfer", None, |node| node.next_arrival(export)).unwrap();
    /// assert_eq!((arrival.offset, arrival.len), (7, 8));
    /// ```
    pub fn next_arrival(&mut self, export: Export) -> Option<Arrival> {
        let importers = &mut self.engine.exports.get_mut(export.0)?.importers;
        importers.iter_mut().find_map(|importer| importer.unclaimed.pop_front())
    }
}
