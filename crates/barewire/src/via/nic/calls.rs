//! Connections: asking for them, answering, ending them.

use std::time::Duration;

use barewire_core::{Peer, WaitError};

use super::super::connect::Request;
use super::super::errors::{ConnectError, NicError};
use super::super::names::{Vi, ViState};
use super::super::vi::ViEntry;
use super::super::wire::Kind;
use super::Nic;

impl Nic {
    /// Asks `peer`'s NIC for a connection, as a client; [`Nic::connect_done`] says what came of it.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// # let memory = Memory::private(100);
    /// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
    /// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
    /// nic.connect_request(a, Peer(0), 80).unwrap();
    /// assert_eq!(nic.connect_done(a), None); // nobody has answered
    /// let request = nic.connect_wait(80, None).unwrap();
    /// nic.accept(request, b).unwrap();
    /// assert_eq!(nic.connected(a, None), Ok(()));
    /// ```
    pub fn connect_request(&mut self, vi: Vi, peer: Peer, discriminator: u64) -> Result<(), ConnectError> {
        self.engine.ask(&mut self.core, vi.0, peer, discriminator, Kind::Connect)
    }

    /// Asks `peer`'s NIC for a connection, as an equal: it stands when both have asked with the same discriminator. Two VIs of one
    /// NIC connect so too, if both ask that.
    ///
    /// ```
    /// # use barewire::via::*;
    /// # barewire::spmd::launch(&[2], |endpoint| {
    /// # let mut nic = Nic::new(endpoint);
    /// # let other = barewire::core::Peer(1 - nic.core().me().0);
    /// # let tag = nic.create_ptag().unwrap();
    /// # let vi = nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap();
    /// nic.connect_peer_request(vi, other, 9)?;
    /// let answer = nic.wait("the other", None, |nic| nic.connect_done(vi))?;
    /// assert_eq!(answer, Ok(()));
    /// # Ok::<_, ConnectError>(())
    /// # }).unwrap();
    /// ```
    pub fn connect_peer_request(
        &mut self,
        vi: Vi,
        peer: Peer,
        discriminator: u64,
    ) -> Result<(), ConnectError> {
        self.engine.ask(&mut self.core, vi.0, peer, discriminator, Kind::Meet)
    }

    /// Connects a VI with itself: what it sends it receives.
    pub(crate) fn connect_itself(&mut self, vi: Vi) -> Result<(), ConnectError> {
        self.engine.connect_itself(&mut self.core, vi.0)
    }

    /// What came of asking for a connection; `None` while nobody has answered. Told once.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// # let memory = Memory::private(100);
    /// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
    /// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
    /// nic.connect_request(a, Peer(0), 80).unwrap();
    /// let request = nic.connect_wait(80, None).unwrap();
    /// nic.reject(request).unwrap();
    /// let answer = nic.wait("an answer", None, |nic| nic.connect_done(a)).unwrap();
    /// assert_eq!((answer, nic.connect_done(a)), (Err(ConnectError::Rejected), None)); // told once
    /// ```
    pub fn connect_done(&mut self, vi: Vi) -> Option<Result<(), ConnectError>> {
        match self.engine.vis.get_mut(vi.0) {
            None => Some(Err(ConnectError::NoSuch)),
            Some(ViEntry { state: ViState::Error(_), verdict: None, peer, .. }) => {
                Some(Err(barewire_core::SendError::Lost(*peer).into()))
            }
            Some(entry) => entry.verdict.take(),
        }
    }

    /// Connects as a client, waiting for the server's answer.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # use barewire::via::*;
    /// # let mut jobs = Job::threads(2).unwrap().into_iter();
    /// # let open = |job| Nic::new(Endpoint::open(job, Config::default()).unwrap());
    /// # let (first, second) = (jobs.next().unwrap(), jobs.next().unwrap());
    /// let server = std::thread::spawn(move || {
    ///     let mut nic = open(first);
    ///     let tag = nic.create_ptag().unwrap();
    ///     let vi = nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap();
    ///     let request = nic.connect_wait(80, None).unwrap();
    ///     nic.accept(request, vi).unwrap();
    ///     nic.wait("the client's end", None, Nic::next_fault).unwrap();
    /// });
    /// let mut nic = open(second);
    /// let tag = nic.create_ptag().unwrap();
    /// let vi = nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap();
    /// assert_eq!(nic.connect(vi, Peer(0), 80, None), Ok(()));
    /// nic.disconnect(vi).unwrap();
    /// server.join().unwrap();
    /// ```
    pub fn connect(
        &mut self,
        vi: Vi,
        peer: Peer,
        discriminator: u64,
        timeout: Option<Duration>,
    ) -> Result<(), ConnectError> {
        self.connect_request(vi, peer, discriminator)?;
        self.connected(vi, timeout)
    }

    /// Connects as an equal, waiting for the other.
    ///
    /// ```
    /// # use barewire::via::*;
    /// # barewire::spmd::launch(&[2], |endpoint| {
    /// # let mut nic = Nic::new(endpoint);
    /// # let other = barewire::core::Peer(1 - nic.core().me().0);
    /// # let tag = nic.create_ptag().unwrap();
    /// # let vi = nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap();
    /// assert_eq!(nic.connect_peer(vi, other, 9, None), Ok(())); // both do the same
    /// # Ok::<_, ConnectError>(())
    /// # }).unwrap();
    /// ```
    pub fn connect_peer(
        &mut self,
        vi: Vi,
        peer: Peer,
        discriminator: u64,
        timeout: Option<Duration>,
    ) -> Result<(), ConnectError> {
        self.connect_peer_request(vi, peer, discriminator)?;
        self.connected(vi, timeout)
    }

    /// Waits for what comes of asking for a connection; if the time is up, the request is withdrawn. Of a VI that is idle
    /// it says at once that nobody has asked.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// # let memory = Memory::private(100);
    /// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
    /// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
    /// use std::time::Duration;
    /// nic.connect_request(a, Peer(0), 80).unwrap();
    /// assert_eq!(nic.connected(a, Some(Duration::from_millis(5))), Err(ConnectError::NoMatch));
    /// assert_eq!(nic.state(a), Ok(ViState::Idle)); // the request is withdrawn
    /// ```
    pub fn connected(&mut self, vi: Vi, timeout: Option<Duration>) -> Result<(), ConnectError> {
        let answer = |nic: &mut Nic| match (nic.connect_done(vi), nic.state(vi)) {
            (Some(verdict), _) => Some(verdict),
            (None, Ok(ViState::Connected)) => Some(Ok(())),
            (None, Ok(ViState::Idle)) => Some(Err(ConnectError::NotAsked)),
            _ => None,
        };
        match self.wait("a connection", timeout, answer) {
            Ok(verdict) => verdict,
            Err(WaitError::TimedOut) => {
                self.engine.withdraw(&mut self.core, vi.0);
                self.connect_done(vi).unwrap_or(Err(ConnectError::NoMatch))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The next client's request for a discriminator, if one has come.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// # let memory = Memory::private(100);
    /// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
    /// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
    /// assert_eq!(nic.connect_request_done(80), None);
    /// nic.connect_request(a, Peer(0), 80).unwrap();
    /// let request = nic.wait("a client", None, |nic| nic.connect_request_done(80)).unwrap();
    /// assert_eq!(request.from, Peer(0));
    /// ```
    pub fn connect_request_done(&mut self, discriminator: u64) -> Option<Request> {
        self.engine.calls.take(discriminator)
    }

    /// Waits for a client's request for a discriminator.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// # let memory = Memory::private(100);
    /// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
    /// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
    /// nic.connect_request(a, Peer(0), 81).unwrap();
    /// nic.connect_request(b, Peer(0), 80).unwrap();
    /// assert_eq!(nic.connect_wait(80, None).unwrap().discriminator, 80); // not the one that came first
    /// ```
    pub fn connect_wait(
        &mut self,
        discriminator: u64,
        timeout: Option<Duration>,
    ) -> Result<Request, WaitError> {
        self.wait("a client", timeout, |nic| nic.connect_request_done(discriminator))
    }

    /// The next peer that asks to be connected as an equal and that nobody here has asked for: who, and the discriminator.
    /// Asking for the same connects.
    ///
    /// ```
    /// # use barewire::via::*;
    /// # barewire::spmd::launch(&[2], |endpoint| {
    /// # let mut nic = Nic::new(endpoint);
    /// # let other = barewire::core::Peer(1 - nic.core().me().0);
    /// # let tag = nic.create_ptag().unwrap();
    /// # let vi = nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap();
    /// if nic.core().me().0 == 0 {
    ///     nic.connect_peer(vi, other, 77, None)?;
    /// } else {
    ///     let (peer, discriminator) = nic.wait("a peer", None, Nic::next_peer_request)?;
    ///     assert_eq!((peer, discriminator), (other, 77));
    ///     nic.connect_peer(vi, peer, discriminator, None)?;
    /// }
    /// # Ok::<_, ConnectError>(())
    /// # }).unwrap();
    /// ```
    pub fn next_peer_request(&mut self) -> Option<(Peer, u64)> {
        self.engine.calls.news.pop_front()
    }

    /// Accepts a client's request on an idle VI.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// # let memory = Memory::private(100);
    /// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
    /// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
    /// nic.connect_request(a, Peer(0), 80).unwrap();
    /// let request = nic.connect_wait(80, None).unwrap();
    /// assert_eq!(nic.accept(request, a), Err(ConnectError::NotIdle)); // it is the one that asks
    /// let request = nic.connect_request_done(80).unwrap_or(request);
    /// assert_eq!(nic.accept(request, b), Ok(()));
    /// ```
    pub fn accept(&mut self, request: Request, vi: Vi) -> Result<(), ConnectError> {
        self.engine.accept(&mut self.core, vi.0, request)
    }

    /// Rejects a client's request.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// # let memory = Memory::private(100);
    /// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
    /// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
    /// nic.connect_request(a, Peer(0), 80).unwrap();
    /// let request = nic.connect_wait(80, None).unwrap();
    /// nic.reject(request).unwrap();
    /// assert_eq!(nic.connected(a, None), Err(ConnectError::Rejected));
    /// ```
    pub fn reject(&mut self, request: Request) -> Result<(), ConnectError> {
        self.engine.reject(&mut self.core, request)
    }

    /// Ends a VI's connection, or clears its error. Everything posted comes back as flushed, and the VI is idle.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// # let memory = Memory::private(100);
    /// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
    /// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
    /// # nic.connect_request(a, Peer(0), 1).unwrap(); // the NIC talks to itself
    /// # let request = nic.connect_wait(1, None).unwrap();
    /// # nic.accept(request, b).unwrap();
    /// # nic.connected(a, None).unwrap();
    /// nic.post_receive(b, Descriptor::receive()).unwrap();
    /// nic.disconnect(b).unwrap();
    /// assert_eq!(nic.receive_done(b).unwrap().status, Status::Flushed);
    /// assert_eq!(nic.state(b), Ok(ViState::Idle));
    /// ```
    pub fn disconnect(&mut self, vi: Vi) -> Result<(), NicError> {
        self.engine.vis.get(vi.0).ok_or(NicError::NoSuch)?;
        self.engine.hang_up(&mut self.core, vi.0);
        Ok(())
    }
}
