//! Communicators: who talks to whom, and which calls belong together.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use barewire_core::{Config, Endpoint, Peer, boot};
use barewire_sys::rustix::system::uname;

use super::collective::Call;
use super::engine::Engine;
use super::fault::Error;
use super::group::{Group, Process};
use crate::spmd;

/// Joins the job that this process was started for, by `barewire run` or another launcher, and gives the communicator of all its processes.
/// A process that was started by itself is alone.
///
/// ```
/// let comm = barewire::mpi::start().unwrap();
/// println!("rank {} of {}", comm.rank(), comm.size());
/// comm.finish().unwrap();
/// ```
pub fn start() -> Result<Comm, Error> {
    let job = boot::from_environment().map_err(|error| Error::Start(error.to_string()))?;
    let endpoint = Endpoint::open(job, Config::default()).map_err(|error| Error::Start(error.to_string()))?;
    Ok(over(endpoint))
}

/// The communicator of all processes of the job that an endpoint belongs to.
///
/// ```
/// use barewire::core::{Config, Endpoint, job::Job};
/// let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// assert_eq!(barewire::mpi::over(endpoint).size(), 1);
/// ```
pub fn over(endpoint: Endpoint) -> Comm {
    let engine = Engine::new(endpoint);
    engine.next_id.set(FIRST_ID);
    let (group, rank) = (Group::first(engine.size), engine.me.0);
    Comm::new(engine, group, rank, WORLD_ID)
}

/// Runs `body` as a rank: in a process that a launcher started as that rank, once; otherwise by threads of this process, first by as many as
/// the first of `sizes` says, then by as many as the next. When it has ended everywhere, all leave together. The first failure ends it.
///
/// ```
/// use barewire::mpi;
/// mpi::launch(&[1, 4], |comm| {
///     let mut total = [1];
///     comm.all_reduce(&mut total, |a, b| a + b)?;
///     assert_eq!(total, [comm.size()]);
///     Ok::<(), mpi::Error>(())
/// }).unwrap();
/// ```
pub fn launch<E: fmt::Display>(
    sizes: &[u32],
    body: impl Fn(Comm) -> Result<(), E> + Sync,
) -> Result<(), Box<dyn std::error::Error>> {
    spmd::launch(sizes, |endpoint| {
        let comm = over(endpoint);
        body(comm.clone()).map_err(|error| error.to_string())?;
        comm.finish().map_err(|error| error.to_string())
    })
}

/// Numbers of communicators that are there from the beginning.
const WORLD_ID: u32 = 0;
const LEAVING_ID: u32 = 1;
const ALONE_ID: u32 = 2;
const FIRST_ID: u32 = 3;
/// A context is twice the number of its communicator, or one more.
const IDS_MAX: u32 = u32::MAX / 2;

/// Processes that send each other messages and make collective calls. A clone is another name for the same.
///
/// It belongs to one thread, like the endpoint below.
///
/// ```
/// use barewire::mpi;
/// mpi::launch(&[2], |comm| {
///     if comm.rank() == 0 {
///         comm.send(b"hello", 1, 7)?;
///     } else {
///         let mut text = [0; 5];
///         comm.receive(&mut text, 0, 7)?;
///         assert_eq!(&text, b"hello");
///     }
///     Ok::<(), mpi::Error>(())
/// }).unwrap();
/// ```
#[derive(Clone)]
pub struct Comm(Rc<Inner>);

struct Inner {
    engine: Rc<Engine>,
    group: Group,
    rank: u32,
    id: u32,
    /// How many collective calls there have been.
    turns: Cell<u64>,
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { rank, id, group, .. } = &*self.0;
        f.debug_struct("Comm")
            .field("rank", rank)
            .field("id", id)
            .field("group", group)
            .finish_non_exhaustive()
    }
}

impl Comm {
    fn new(engine: Rc<Engine>, group: Group, rank: u32, id: u32) -> Comm {
        Comm(Rc::new(Inner { engine, group, rank, id, turns: Cell::new(0) }))
    }

    /// This process's number in the communicator.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     assert!(comm.rank() < comm.size());
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn rank(&self) -> u32 {
        self.0.rank
    }

    /// How many processes it has.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     assert_eq!(comm.size(), 3);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn size(&self) -> u32 {
        self.0.group.size() as u32
    }

    /// Its processes, in the order of their ranks.
    ///
    /// ```
    /// use barewire::mpi::{self, group::Process};
    /// mpi::launch(&[3], |comm| {
    ///     assert_eq!(comm.group().rank_of(Process(2)), Some(2));
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn group(&self) -> &Group {
        &self.0.group
    }

    /// A communicator of the same processes, whose messages and collective calls do not mix with those of this one. All call it.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let (other, own) = (1 - comm.rank(), comm.dup()?);
    ///     comm.send(&[1], other, 0)?;
    ///     own.send(&[2], other, 0)?;
    ///     let mut got = [0];
    ///     own.receive(&mut got, other, 0)?;
    ///     assert_eq!(got, [2]);
    ///     comm.receive(&mut got, other, 0)?;
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn dup(&self) -> Result<Comm, Error> {
        let id = self.agree_on_id()?;
        Ok(self.with(self.0.group.clone(), self.0.rank, id))
    }

    /// A communicator of all who say the same color, in the order of their keys, then of their ranks here. Who says none gets none. All call it.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[4], |comm| {
    ///     let half = comm.split(Some(comm.rank() % 2), 0)?.expect("everybody says a color");
    ///     assert_eq!((half.rank(), half.size()), (comm.rank() / 2, 2));
    ///     let last = comm.split((comm.rank() == 3).then_some(0), 0)?;
    ///     assert_eq!(last.is_some(), comm.rank() == 3);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn split(&self, color: Option<u32>, key: i64) -> Result<Option<Comm>, Error> {
        let mine = [color.map_or(-1, i64::from), key, i64::from(self.0.engine.next_id.get())];
        let mut all = vec![[0i64; 3]; self.0.group.size()];
        self.all_gather(&[mine], &mut all)?;
        let id = self.take_id(all.iter().map(|said| said[2] as u32).max().unwrap_or(0))?;
        let Some(color) = color else { return Ok(None) };
        let same = |(_, said): &(usize, &[i64; 3])| said[0] == i64::from(color);
        let mut members: Vec<_> =
            all.iter().enumerate().filter(same).map(|(rank, said)| (said[1], rank)).collect();
        members.sort_unstable();
        let rank = members.iter().position(|&(_, rank)| rank == self.0.rank as usize);
        let group = Group::new(members.iter().map(|&(_, rank)| self.0.group.members()[rank]));
        match (group, rank) {
            (Ok(group), Some(rank)) => Ok(Some(self.with(group, rank as u32, id))),
            _ => Err(Error::NotMember(self.0.engine.me.into())),
        }
    }

    /// A communicator of those who run on the same host, by its name and the number of its start. All call it.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     assert_eq!(comm.split_host()?.size(), 3, "threads share their host");
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn split_host(&self) -> Result<Comm, Error> {
        let mut host = [0u8; HOST_BYTES];
        let started = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let name = uname();
        let names = name.nodename().to_bytes().iter().chain(&started);
        host.iter_mut().zip(names).for_each(|(place, &byte)| *place = byte);
        let mut hosts = vec![[0u8; HOST_BYTES]; self.0.group.size()];
        self.all_gather(&[host], &mut hosts)?;
        let first = hosts.iter().position(|other| *other == host).map(|rank| rank as u32);
        Ok(self.split(first, 0)?.unwrap_or_else(|| self.alone()))
    }

    /// A communicator of the processes of a group; who is not in it gets none. All call it, with the same group.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let ends = comm.group().include(&[2, 0]).expect("these are ranks");
    ///     let pair = comm.create(&ends)?;
    ///     assert_eq!(pair.map(|pair| pair.rank()), [Some(1), None, Some(0)][comm.rank() as usize]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn create(&self, group: &Group) -> Result<Option<Comm>, Error> {
        if let Some(&stranger) = group.difference(&self.0.group).members().first() {
            return Err(Error::NotMember(stranger));
        }
        let id = self.agree_on_id()?;
        let rank = group.rank_of(self.0.engine.me.into());
        Ok(rank.map(|rank| self.with(group.clone(), rank as u32, id)))
    }

    /// A communicator of this process alone.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     assert_eq!((comm.alone().rank(), comm.alone().size()), (0, 1));
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn alone(&self) -> Comm {
        let me = self.0.group.include(&[self.0.rank as i32]).unwrap_or_else(|_| Group::empty());
        self.with(me, 0, ALONE_ID)
    }

    fn with(&self, group: Group, rank: u32, id: u32) -> Comm {
        Comm::new(Rc::clone(&self.0.engine), group, rank, id)
    }

    /// A number for a new communicator that no member has used. Groups that have no member in common may have the same.
    fn agree_on_id(&self) -> Result<u32, Error> {
        let mut next = [self.0.engine.next_id.get()];
        self.all_reduce(&mut next, Ord::max)?;
        self.take_id(next[0])
    }

    fn take_id(&self, id: u32) -> Result<u32, Error> {
        if id >= IDS_MAX {
            return Err(Error::System("there have been too many communicators".to_owned()));
        }
        self.0.engine.next_id.set(id + 1);
        Ok(id)
    }

    /// How long any wait may last before it ends with [`Error::TimedOut`]. `None`, the default: as long as it takes. It holds for all
    /// communicators of this process.
    ///
    /// ```
    /// use barewire::mpi::{self, Error};
    /// mpi::launch(&[1], |comm| {
    ///     comm.set_timeout(Some(std::time::Duration::from_millis(5)))?;
    ///     assert_eq!(comm.receive(&mut [0], 0, 7), Err(Error::TimedOut));
    ///     Ok::<(), Error>(())
    /// }).unwrap();
    /// ```
    pub fn set_timeout(&self, timeout: Option<Duration>) -> Result<(), Error> {
        self.0.engine.with(|world| world.set_timeout(timeout))
    }

    /// Takes what has come, and everything that is under way as far as it goes: for programs that compute for long. Never waits.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let barrier = comm.ibarrier()?;
    ///     for _ in 0..10 {
    ///         comm.poll()?; // between parts of a computation
    ///     }
    ///     barrier.wait()
    /// }).unwrap();
    /// ```
    pub fn poll(&self) -> Result<(), Error> {
        self.0.engine.poll().map(|_| ())
    }

    /// Runs a future to its end, and sleeps while there is nothing to do for it and for the endpoint. The future may await anything that
    /// does not need an executor of its own.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let other = 1 - comm.rank();
    ///     let sum = comm.run(async {
    ///         let (one, two) = (comm.ireceive(vec![0], other, 1)?, comm.ireceive(vec![0], other, 2)?);
    ///         comm.isend(vec![20], other, 1)?.await?;
    ///         comm.isend(vec![22], other, 2)?.await?;
    ///         Ok::<i32, mpi::Error>(two.await?.0[0] + one.await?.0[0])
    ///     })??;
    ///     assert_eq!(sum, 42);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn run<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        self.0.engine.run(future)
    }

    /// The descriptor that is readable when something may have come: a duplicate of the endpoint's. See [`Comm::serve`].
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let _to_be_polled = comm.descriptor()?;
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn descriptor(&self) -> Result<OwnedFd, Error> {
        let duplicate = self.0.engine.with(|world| world.endpoint.fd().try_clone_to_owned())?;
        duplicate.map_err(|error| Error::System(error.to_string()))
    }

    /// Makes progress for requests that are awaited under a runtime which can watch descriptors: `readable` makes a future that is done when
    /// [`Comm::descriptor`] is readable. It ends with the first failure only; have it run beside what awaits the requests, and drop it with
    /// that. Under tokio:
    ///
    /// ```
    /// use barewire::mpi;
    /// use tokio::io::unix::AsyncFd;
    /// mpi::launch(&[2], |comm| {
    ///     let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    ///     let local = tokio::task::LocalSet::new();
    ///     local.block_on(&runtime, async {
    ///         let server = comm.clone();
    ///         tokio::task::spawn_local(async move {
    ///             let fd = AsyncFd::new(server.descriptor()?).expect("it can be watched");
    ///             server.serve(|| async { fd.readable().await.map(|mut ready| ready.clear_ready()) }).await
    ///         });
    ///         let sum = comm.iall_reduce(vec![comm.rank()], |a, b| a + b)?;
    ///         assert_eq!(sum.await?, [1]);
    ///         Ok::<(), mpi::Error>(())
    ///     })
    /// }).unwrap();
    /// ```
    pub async fn serve<F: Future<Output = std::io::Result<()>>>(
        &self,
        mut readable: impl FnMut() -> F,
    ) -> Result<(), Error> {
        loop {
            let mut readable = pin!(readable());
            let ready = std::future::poll_fn(|context| match self.0.engine.serve(context.waker()) {
                Ok(true) => readable.as_mut().poll(context).map_err(|error| Error::System(error.to_string())),
                Ok(false) => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                Err(error) => Poll::Ready(Err(error)),
            });
            ready.await?;
        }
    }

    /// Leaves the job, when everybody has got here and what was sent has gone. All processes of the job call it, on any of their communicators;
    /// afterwards every call is an error. A send that nobody has received by then never will be.
    ///
    /// ```
    /// use barewire::mpi;
    /// let comm = mpi::start().unwrap();
    /// let other_name = comm.clone();
    /// comm.finish().unwrap();
    /// assert_eq!(other_name.barrier(), Err(mpi::Error::Finished));
    /// ```
    pub fn finish(self) -> Result<(), Error> {
        let engine = &self.0.engine;
        let all = Comm::new(Rc::clone(engine), Group::first(engine.size), engine.me.0, LEAVING_ID);
        // Who knows that all have made their calls knows what will never be received; and nobody goes before all have found that out.
        let left = all.barrier().and_then(|()| engine.settle_orphans()).and_then(|()| all.barrier());
        engine.close();
        left
    }

    /// Ends the whole job with this exit code, as far as the launcher lets us, and this process in any case.
    ///
    /// ```no_run
    /// let comm = barewire::mpi::start().unwrap();
    /// comm.abort(3);
    /// ```
    pub fn abort(&self, code: i32) -> ! {
        // Who has left the job only ends itself.
        let _ = self.0.engine.with(|world| world.endpoint.abort(code, "a rank called abort"));
        std::process::exit(code)
    }

    pub(super) fn engine(&self) -> &Rc<Engine> {
        &self.0.engine
    }

    /// The context of messages.
    pub(super) fn context(&self) -> u32 {
        2 * self.0.id
    }

    /// The process of a rank.
    #[inline]
    pub(super) fn peer(&self, rank: u32) -> Result<Peer, Error> {
        let process = i32::try_from(rank).ok().and_then(|rank| self.0.group.get(rank));
        process.map(|Process(number)| Peer(number)).ok_or_else(|| self.no_such_rank(rank))
    }

    #[cold]
    fn no_such_rank(&self, rank: u32) -> Error {
        Error::NoSuchRank { rank, size: self.size() }
    }

    /// The rank of a process, of which it is known that it is a member.
    pub(super) fn rank_of(&self, peer: Peer) -> u32 {
        self.0.group.rank_of(peer.into()).map_or(u32::MAX, |rank| rank as u32)
    }

    /// Begins a collective call.
    pub(super) fn call(&self) -> Call {
        let Inner { engine, group, rank, id, turns } = &*self.0;
        let turn = turns.get();
        turns.set(turn + 1);
        Call::new(Rc::downgrade(engine), group.clone(), *rank, 2 * id + 1, turn)
    }
}

/// Bytes of a host's name and of the number of its start.
const HOST_BYTES: usize = 64 + 36;
