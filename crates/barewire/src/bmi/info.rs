//! Information and settings: what the interface can be asked and told.

use std::net::IpAddr;

use barewire_core::at_large::addresses;

use super::addr::Addr;
use super::buffer::Buffer;
use super::error::{Error, Result};
use super::{Bmi, MESSAGE_BYTES_MAX, UNEXPECTED_BYTES_MAX};

/// What can be asked.
///
/// ```
/// # use barewire::bmi::*;
/// # use std::time::Duration;
/// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
/// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
/// # let context = bmi.open_context().unwrap();
/// # const SOON: Duration = Duration::from_secs(10);
/// assert_eq!(bmi.get_info(Query::MaxSize).unwrap(), Answer::Number(MESSAGE_BYTES_MAX));
/// assert_eq!(bmi.get_info(Query::Port).unwrap(), Answer::Number(bmi.port().unwrap().into()));
/// assert_eq!(bmi.get_info(Query::Droppable(me)).unwrap(), Answer::Flag(false));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Query {
    /// Whether the interface is initialized.
    Initialized,
    /// The longest message.
    MaxSize,
    /// The longest unexpected message.
    UnexpectedSize,
    /// The TCP port on which we listen.
    Port,
    /// Whether an address could be dropped without loss: its connection has ended, and nobody counts on it.
    Droppable(Addr),
    /// The networks there are.
    Methods,
}

/// What can be told.
///
/// ```
/// # use barewire::bmi::*;
/// # use std::time::Duration;
/// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
/// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
/// # let context = bmi.open_context().unwrap();
/// # const SOON: Duration = Duration::from_secs(10);
/// let server = bmi.addr_lookup("tcp://10.1.2.3:3334").unwrap();
/// bmi.set_info(Setting::IncRef(server)).unwrap();
/// bmi.set_info(Setting::IncRef(server)).unwrap();
/// bmi.set_info(Setting::DecRef(server)).unwrap();
/// assert!(bmi.addr_rev_lookup(server).is_ok()); // one counts on it still
/// bmi.set_info(Setting::DecRef(server)).unwrap();
/// assert!(matches!(bmi.addr_rev_lookup(server), Err(Error::NoSuchAddr)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Setting {
    /// An address is not needed any more: its operations fail, its connection is closed.
    DropAddr(Addr),
    /// Somebody counts on an address.
    IncRef(Addr),
    /// Somebody does not any more; with the last one, the address is dropped.
    DecRef(Addr),
    /// Close the connection with an address; it is made anew when it is needed.
    CloseSocket(Addr),
}

/// The answer to a [`Query`].
///
/// ```
/// # use barewire::bmi::*;
/// # use std::time::Duration;
/// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
/// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
/// # let context = bmi.open_context().unwrap();
/// # const SOON: Duration = Duration::from_secs(10);
/// match bmi.get_info(Query::Methods).unwrap() {
///     Answer::Text(networks) => assert_eq!(networks, "bmi_tcp"),
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Yes or no.
    Flag(bool),
    /// A number of bytes, or of a port.
    Number(u64),
    /// Some words.
    Text(String),
}

impl Bmi {
    /// Answers a question about the interface.
    ///
    /// ```
    /// use barewire::bmi::{Answer, Bmi, Options, Query};
    /// let bmi = Bmi::initialize(Options::open()).unwrap();
    /// assert_eq!(bmi.get_info(Query::UnexpectedSize).unwrap(), Answer::Number(16 << 10));
    /// ```
    pub fn get_info(&self, query: Query) -> Result<Answer> {
        self.shared().with(|endpoint, layer| {
            if layer.finalized {
                return Err(Error::Finalized);
            }
            Ok(match query {
                Query::Initialized => Answer::Flag(true),
                Query::MaxSize => Answer::Number(MESSAGE_BYTES_MAX),
                Query::UnexpectedSize => Answer::Number(UNEXPECTED_BYTES_MAX as u64),
                Query::Port => {
                    let door = endpoint.listening().first().ok_or(Error::Invalid("this is no server"))?;
                    Answer::Number(u64::from(door.port()))
                }
                Query::Droppable(addr) => {
                    let entry = layer.addrs.get(addr)?;
                    Answer::Flag(entry.references == 0 && entry.pending == 0 && entry.lost.is_some())
                }
                Query::Methods => Answer::Text("bmi_tcp".to_owned()),
            })
        })
    }

    /// Changes something about the interface.
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// let server = bmi.addr_lookup("tcp://10.1.2.3:3334").unwrap();
    /// bmi.set_info(Setting::DropAddr(server)).unwrap();
    /// assert!(matches!(bmi.addr_rev_lookup(server), Err(Error::NoSuchAddr)));
    /// ```
    pub fn set_info(&self, setting: Setting) -> Result<()> {
        self.shared().with(|endpoint, layer| {
            if layer.finalized {
                return Err(Error::Finalized);
            }
            match setting {
                Setting::DropAddr(addr) => layer.drop_addr(endpoint, addr),
                Setting::IncRef(addr) => {
                    let entry = layer.addrs.get_mut(addr)?;
                    entry.references = entry.references.saturating_add(1);
                    Ok(())
                }
                Setting::DecRef(addr) => {
                    let entry = layer.addrs.get_mut(addr)?;
                    let left =
                        entry.references.checked_sub(1).ok_or(Error::Invalid("nobody counted on it"))?;
                    entry.references = left;
                    if left == 0 { layer.drop_addr(endpoint, addr) } else { Ok(()) }
                }
                Setting::CloseSocket(addr) => layer.close(endpoint, addr),
            }
        })?;
        self.wake();
        Ok(())
    }

    /// Whether an address lies in a network: `tcp://host` or `tcp://host:port`, of which the first `netmask` bits count.
    ///
    /// ```
    /// use barewire::bmi::{Bmi, Options};
    /// let bmi = Bmi::initialize(Options::open()).unwrap();
    /// let server = bmi.addr_lookup("tcp://10.1.2.3:3334").unwrap();
    /// assert!(bmi.query_addr_range(server, "tcp://10.1.0.0", 16).unwrap());
    /// assert!(!bmi.query_addr_range(server, "tcp://10.2.0.0:3334", 16).unwrap());
    /// ```
    pub fn query_addr_range(&self, addr: Addr, network: &str, netmask: u32) -> Result<bool> {
        let complete = match network.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => network.to_owned(),
            _ => format!("{network}:0"),
        };
        let networks = addresses(&complete)?;
        let ip = self.shared().with(|_, layer| {
            let entry = layer.addrs.get(addr)?;
            Ok::<_, Error>(entry.ip.map_or(IpAddr::from([127, 0, 0, 1]), |ip| ip.ip()))
        })?;
        Ok(networks.iter().any(|network| is_within(ip, network.ip(), netmask)))
    }

    /// Memory that the network likes best: processes of this host that have our key copy long messages straight out of it. Nothing is
    /// said about what is in it.
    ///
    /// A process that has received such a message can read the whole of that memory from then on, and what is sent from it to others
    /// later. An interface that is [open](super::Options::open) to anybody shares none.
    ///
    /// ```
    /// use barewire::bmi::{Bmi, Options};
    /// let bmi = Bmi::initialize(Options::open()).unwrap();
    /// let buffer = bmi.memalloc(1 << 20);
    /// buffer.write(b"something long");
    /// bmi.memfree(buffer);
    /// ```
    pub fn memalloc(&self, len: usize) -> Buffer {
        self.shared_memory(len).unwrap_or_else(|| Buffer::new(len))
    }

    /// [`Bmi::memalloc`], if that is memory that neighbours can read; otherwise `None`, as for little of it.
    ///
    /// ```
    /// use barewire::bmi::{Bmi, Options};
    /// use barewire::core::job::JobKey;
    /// let ours = Bmi::initialize(Options::default().key(JobKey([7; 32]))).unwrap();
    /// assert_eq!(ours.shared_memory(1 << 20).unwrap().len(), 1 << 20);
    /// assert!(ours.shared_memory(100).is_none()); // too little to share
    /// let open = Bmi::initialize(Options::open()).unwrap();
    /// assert!(open.shared_memory(1 << 20).is_none()); // not with anybody
    /// ```
    pub fn shared_memory(&self, len: usize) -> Option<Buffer> {
        let shelf = self.shelf()?;
        let lease = shelf.take(len)?;
        self.shared().with(|endpoint, _| shelf.trim(endpoint));
        Some(Buffer::leased(lease, len))
    }

    /// Gives such memory back. Dropping it does the same.
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// let buffer = bmi.memalloc(64);
    /// let kept = buffer.slice(0, 2);
    /// kept.write(b"ok");
    /// bmi.memfree(buffer);
    /// assert_eq!(kept.to_vec(), b"ok"); // what somebody still holds stays
    /// ```
    pub fn memfree(&self, buffer: Buffer) {
        drop(buffer);
    }
}

fn is_within(ip: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => {
            let mask = u32::MAX.checked_shl(32u32.saturating_sub(bits)).unwrap_or(0);
            (u32::from(ip) ^ u32::from(network)) & mask == 0
        }
        (IpAddr::V6(ip), IpAddr::V6(network)) => {
            let mask = u128::MAX.checked_shl(128u32.saturating_sub(bits)).unwrap_or(0);
            (u128::from(ip) ^ u128::from(network)) & mask == 0
        }
        _ => false,
    }
}
