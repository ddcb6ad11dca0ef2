//! The Buffered Message Interface: how the clients and servers of a parallel file system talk.
//!
//! # The model
//!
//! - *Post, then test.* Every operation is posted and returns at once. Small sends, and receives whose message is here already,
//!   complete as they are posted ([`Posted::Done`]) and must not be tested. The others ([`Posted::Pending`]) go on until a test tells their
//!   end: [`Bmi::test`] for one, [`Bmi::testsome`] for a list, [`Bmi::testcontext`] for whatever has ended, at a cost that
//!   depends on how much has ended and not on how much is under way. Completion is local: the buffer may be used again.
//! - *Unexpected messages.* A request needs no receive: [`Bmi::post_sendunexpected`] at the client, [`Bmi::testunexpected`] at
//!   the server, which answers to the address the message came from. Classes keep different servers in one process apart.
//!   Everything else is received by address and tag with [`Bmi::post_recv`].
//! - *Addresses, no connections.* [`Bmi::addr_lookup`] turns `tcp://host:port`, or several of them for a host on several
//!   networks, into an [`Addr`]. Connections are made when they are needed and made anew after they were lost. Processes of one host
//!   use shared memory.
//! - *Failures are told, not hidden.* When a peer dies its operations end with [`Failure::Lost`], and nobody else's do. Nothing
//!   is sent again: only the caller knows what a repeated request would do. If no operation was under way, the next receive
//!   from that address ends so; a send, and whatever comes after, goes over a new connection.
//! - *Contexts* keep the parts of a program apart: a test tells only the ends of operations posted in its own context.
//! - *User values* given at the post come back with the completion, so that nobody has to search.
//! - Any thread may call anything at any time.
//!
//! Who may talk is decided by a key; see [`barewire_core::at_large::access_key`]. By default that is the user's own key file,
//! so a user's programs understand each other and nobody else.
//!
//! ```
//! use barewire::bmi::{Bmi, Buffer, Options, Posted};
//! use std::time::Duration;
//!
//! const SOON: Duration = Duration::from_secs(10);
//! let server = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
//! let url = format!("tcp://127.0.0.1:{}", server.port().unwrap());
//!
//! let serving = std::thread::spawn(move || {
//!     let context = server.open_context().unwrap();
//!     let request = loop {
//!         if let Some(request) = server.testunexpected(1, 0, SOON).unwrap().pop() {
//!             break request;
//!         }
//!     };
//!     let answer = Buffer::from(&request.bytes.iter().rev().copied().collect::<Vec<_>>()[..]);
//!     if let Posted::Pending(op) = server.post_send(request.from, answer, request.tag, 0, context).unwrap() {
//!         while server.test(op, SOON, context).unwrap().is_none() {}
//!     }
//! });
//!
//! let client = Bmi::initialize(Options::open()).unwrap();
//! let context = client.open_context().unwrap();
//! let address = client.addr_lookup(&url).unwrap();
//! let answer = client.memalloc(100);
//! let receive = client.post_recv(address, &answer, 7, 0xbeef, context).unwrap();
//! client.post_sendunexpected(address, Buffer::from(b"stressed"), 7, 0, 0, context).unwrap();
//! assert!(matches!(receive, Posted::Pending(_)));
//! let ended = loop {
//!     if let Some(ended) = client.testcontext(8, SOON, context).unwrap().into_iter().find(|ended| ended.user == 0xbeef) {
//!         break ended;
//!     }
//! };
//! assert_eq!(ended.outcome, Ok(8));
//! assert_eq!(&answer.to_vec()[..8], b"desserts");
//! serving.join().unwrap();
//! ```

mod addr;
mod buffer;
mod error;
mod info;
mod layer;
mod memory;
mod ops;
mod post;
mod test;

use std::sync::Arc;
use std::time::Duration;

use barewire_core::at_large::{access_key, addresses, open_key};
use barewire_core::boot::{BootError, Environment};
use barewire_core::job::JobKey;
use barewire_core::shared::Shared;
use barewire_core::wait::Alarm;
use barewire_core::{Config, Endpoint};

pub use addr::Addr;
pub use buffer::{Buffer, Outgoing, Place, ends, lend, piece_at, walk};
pub use error::{Error, Failure, Result};
pub use info::{Answer, Query, Setting};
pub use ops::{Completion, ContextId, OpId};
pub use post::Posted;
pub use test::Unexpected;

use layer::Layer;
use memory::Shelf;

/// The longest unexpected message.
pub const UNEXPECTED_BYTES_MAX: usize = 16 << 10;
/// The longest message of any kind.
pub const MESSAGE_BYTES_MAX: u64 = i32::MAX as u64;

/// How to initialize the interface.
///
/// ```
/// use barewire::bmi::{Bmi, Options};
/// let server = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
/// let client = Bmi::initialize(Options::open()).unwrap();
/// assert_eq!((server.port().is_some(), client.port()), (true, None));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    listen: Option<String>,
    every_interface: bool,
    count_references: bool,
    key: Option<JobKey>,
    config: Option<Config>,
}

impl Options {
    /// Without a key: whoever reaches us may talk to us. Otherwise the user's key decides.
    ///
    /// ```
    /// use barewire::bmi::{Bmi, Options};
    /// let bmi = Bmi::initialize(Options::open()).unwrap(); // needs no key file
    /// assert!(bmi.open_context().is_ok());
    /// ```
    pub fn open() -> Options {
        Options::default().key(open_key())
    }

    /// Be a server, at this URL; port 0 is one of the system's choice.
    ///
    /// ```
    /// use barewire::bmi::{Bmi, Options};
    /// let server = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// let taken = format!("tcp://127.0.0.1:{}", server.port().unwrap());
    /// assert!(Bmi::initialize(Options::open().listen(&taken)).is_err());
    /// assert!(Bmi::initialize(Options::open().listen("not a URL")).is_err());
    /// ```
    pub fn listen(mut self, url: &str) -> Options {
        self.listen = Some(url.to_owned());
        self
    }

    /// Listen at the URL's port on every interface, whatever its host.
    ///
    /// ```
    /// use barewire::bmi::{Bmi, Options};
    /// let options = Options::open().listen("tcp://127.0.0.1:0").every_interface();
    /// let server = Bmi::initialize(options).unwrap();
    /// assert!(server.port().is_some_and(|port| port != 0));
    /// ```
    pub fn every_interface(mut self) -> Options {
        self.every_interface = true;
        self
    }

    /// Count a reference to an address for every unexpected message from it, so that it stays known until
    /// [`Setting::DecRef`].
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// let options = Options::open().count_references();
    /// let bmi = Bmi::initialize(options).unwrap();
    /// # let (me, context) = (bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(), bmi.open_context().unwrap());
    /// bmi.post_sendunexpected(me, Buffer::from(b"hello"), 1, 0, 0, context).unwrap();
    /// let from = bmi.testunexpected(1, 0, Duration::from_secs(10)).unwrap()[0].from;
    /// assert!(bmi.set_info(Setting::DecRef(from)).is_ok()); // the message counted
    /// assert!(bmi.set_info(Setting::DecRef(from)).is_err()); // once
    /// ```
    pub fn count_references(mut self) -> Options {
        self.count_references = true;
        self
    }

    /// Talk to those who hold this key.
    ///
    /// ```
    /// use barewire::bmi::{Bmi, Options};
    /// use barewire::core::job::JobKey;
    /// let ours = Bmi::initialize(Options::default().key(JobKey([7; 32]))).unwrap();
    /// assert!(ours.shared_memory(1 << 20).is_some()); // whoever holds the key is trusted
    /// ```
    pub fn key(mut self, key: JobKey) -> Options {
        self.key = Some(key);
        self
    }

    /// Settings of the endpoint underneath.
    ///
    /// ```
    /// use barewire::bmi::{Bmi, Options};
    /// use barewire::core::{Config, job::JobKey};
    /// let config = Config { shm: false, ..Config::default() };
    /// let bmi = Bmi::initialize(Options::default().key(JobKey([7; 32])).config(config)).unwrap();
    /// assert!(bmi.shared_memory(1 << 20).is_none()); // nothing is shared with neighbours
    /// ```
    pub fn config(mut self, config: Config) -> Options {
        self.config = Some(config);
        self
    }
}

/// A process's, or a part of a process's, door to the network. Clones are handles to the same.
///
/// ```
/// # use barewire::bmi::*;
/// # use std::time::Duration;
/// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
/// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
/// # let context = bmi.open_context().unwrap();
/// # const SOON: Duration = Duration::from_secs(10);
/// let handle = bmi.clone();
/// let waiting = std::thread::spawn(move || handle.testunexpected(1, 0, SOON).unwrap());
/// bmi.post_sendunexpected(me, Buffer::from(b"ls /data"), 3, 0, 0, context).unwrap();
/// assert_eq!(waiting.join().unwrap()[0].bytes, b"ls /data");
/// ```
#[derive(Clone, Debug)]
pub struct Bmi(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shared: Shared<Layer>,
    alarm: Alarm,
    /// Memory that neighbours may read, if there are any whom we trust with it.
    shelf: Option<Shelf>,
}

impl Bmi {
    /// Opens the network, and listens if `options` say so.
    ///
    /// ```
    /// use barewire::bmi::{Answer, Bmi, Options, Query};
    /// let bmi = Bmi::initialize(Options::open()).unwrap();
    /// assert_eq!(bmi.get_info(Query::Initialized).unwrap(), Answer::Flag(true));
    /// ```
    pub fn initialize(options: Options) -> Result<Bmi> {
        let environment = || Environment::capture().map_err(BootError::from);
        let key = options.key.map_or_else(|| Ok::<_, Error>(access_key(&environment()?)?), Ok)?;
        let config = match options.config {
            Some(config) => config,
            None => {
                let usual = environment()?.config().map_err(BootError::from)?;
                Config { connect_within: Duration::from_secs(10), ..usual }
            }
        };
        let shelf = (key.0 != open_key().0 && config.shm).then(Shelf::default);
        let mut endpoint = Endpoint::at_large(key, config)?;
        if let Some(url) = &options.listen {
            listen(&mut endpoint, url, options.every_interface)?;
        }
        let mut layer = Layer::new(&endpoint, options.count_references);
        let url = options.listen.unwrap_or_else(|| "tcp://127.0.0.1:0".to_owned());
        layer.addrs.add(endpoint.me(), url, true, None);
        let io = |what| move |source| Error::Io { what, source };
        let alarm = endpoint.alarm().map_err(io("an alarm"))?;
        let shared = Shared::new(endpoint, layer).map_err(io("an alarm"))?;
        Ok(Bmi(Arc::new(Inner { shared, alarm, shelf })))
    }

    /// Ends it: operations under way are given up, and every later call through any handle is [`Error::Finalized`]. The
    /// network is closed with the last handle.
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// let handle = bmi.clone();
    /// bmi.finalize();
    /// assert!(matches!(handle.open_context(), Err(Error::Finalized)));
    /// ```
    pub fn finalize(self) {
        self.0.shared.with(|endpoint, layer| {
            layer.finalized = true;
            endpoint.flush();
        });
        self.wake();
    }

    /// A new context.
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// let other = bmi.open_context().unwrap();
    /// bmi.post_recv(me, &Buffer::new(10), 1, 0, other).unwrap();
    /// assert_eq!((bmi.pending(other), bmi.pending(context)), (1, 0)); // they do not mix
    /// ```
    pub fn open_context(&self) -> Result<ContextId> {
        self.shared().with(
            |_, layer| if layer.finalized { Err(Error::Finalized) } else { Ok(layer.ops.open_context()) },
        )
    }

    /// Closes a context; its operations are given up. Whoever waits in it gets [`Error::NoSuchContext`].
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// let Posted::Pending(op) = bmi.post_recv(me, &Buffer::new(10), 1, 0, context).unwrap() else { panic!() };
    /// bmi.close_context(context).unwrap();
    /// assert!(matches!(bmi.test(op, Duration::ZERO, context), Err(Error::NoSuchContext)));
    /// ```
    pub fn close_context(&self, context: ContextId) -> Result<()> {
        self.shared().with(|endpoint, layer| {
            layer.check(context)?;
            for (request, addr) in layer.ops.close_context(context).unwrap_or_default() {
                request.map(|request| layer.tagged.break_off(endpoint, request));
                if let Ok(entry) = layer.addrs.get_mut(addr) {
                    entry.pending -= 1;
                }
            }
            layer.collect(endpoint);
            Ok::<(), Error>(())
        })?;
        self.wake();
        Ok(())
    }

    /// An address for whoever listens at `url`: `tcp://host:port`, several joined by commas for a host on several networks.
    /// Host names are looked up, which may take a while; nothing is connected yet.
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// assert!(bmi.addr_lookup("tcp://10.1.2.3:3334,tcp://10.2.2.3:3334").is_ok()); // a host on two networks
    /// assert!(matches!(bmi.addr_lookup("tcp://no port"), Err(Error::Address(_))));
    /// ```
    pub fn addr_lookup(&self, url: &str) -> Result<Addr> {
        if let Some(addr) = self.shared().with(|_, layer| layer.addrs.by_url(url)) {
            return Ok(addr);
        }
        let places = addresses(url)?;
        self.shared().with(|endpoint, layer| {
            if layer.finalized {
                return Err(Error::Finalized);
            }
            if let Some(addr) = layer.addrs.by_url(url) {
                return Ok(addr);
            }
            let ip = places.first().copied();
            let peer = endpoint.connect_to_any(places)?;
            layer.tagged.cover(endpoint);
            match layer.addrs.by_peer(peer) {
                Some(addr) => {
                    layer.addrs.alias(url.to_owned(), addr);
                    Ok(addr)
                }
                None => Ok(layer.addrs.add(peer, url.to_owned(), true, ip)),
            }
        })
    }

    /// The URL that an address was looked up by; `None` if it called us.
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// let server = bmi.addr_lookup("tcp://10.1.2.3:3334").unwrap();
    /// assert_eq!(bmi.addr_rev_lookup(server).unwrap().as_deref(), Some("tcp://10.1.2.3:3334"));
    /// ```
    pub fn addr_rev_lookup(&self, addr: Addr) -> Result<Option<String>> {
        self.shared().with(|_, layer| {
            let entry = layer.addrs.get(addr)?;
            Ok(entry.called.then(|| entry.url.clone()))
        })
    }

    /// Where an address is, whether it was looked up or called us.
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// bmi.post_sendunexpected(me, Buffer::from(b"who am I?"), 1, 0, 0, context).unwrap();
    /// let request = bmi.testunexpected(1, 0, SOON).unwrap().pop().unwrap();
    /// assert_eq!(bmi.addr_rev_lookup_unexpected(request.from).unwrap(), "tcp://127.0.0.1:0");
    /// ```
    pub fn addr_rev_lookup_unexpected(&self, addr: Addr) -> Result<String> {
        self.shared().with(|_, layer| layer.addrs.get(addr).map(|entry| entry.url.clone()))
    }

    /// The port on which we listen; `None` if we do not.
    ///
    /// ```
    /// use barewire::bmi::{Bmi, Options};
    /// let server = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// let url = format!("tcp://127.0.0.1:{}", server.port().unwrap()); // to tell the clients
    /// assert!(!url.ends_with(":0"));
    /// ```
    pub fn port(&self) -> Option<u16> {
        self.shared().with(|endpoint, _| endpoint.listening().first().map(|door| door.port()))
    }

    fn shared(&self) -> &Shared<Layer> {
        &self.0.shared
    }

    fn shelf(&self) -> Option<&Shelf> {
        self.0.shelf.as_ref()
    }

    /// Wakes those who wait in a test: something has changed that the network does not tell.
    fn wake(&self) {
        self.0.alarm.ring();
    }
}

fn listen(endpoint: &mut Endpoint, url: &str, every_interface: bool) -> Result<()> {
    if !every_interface {
        endpoint.listen_on(url)?;
        return Ok(());
    }
    for place in addresses(url)? {
        let bound = endpoint.listen_on(&format!("tcp://0.0.0.0:{}", place.port()))?;
        if let Some(door) = bound.first() {
            // Not every machine speaks IPv6.
            let _ = endpoint.listen_on(&format!("tcp://[::]:{}", door.port()));
        }
        if place.port() != 0 {
            break;
        }
    }
    Ok(())
}
