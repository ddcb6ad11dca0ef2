//! The door: where agents on other hosts come in. Whoever cannot prove to hold the key gets no byte and no attention.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use barewire_core::boot::auth::{Greeter, Greeting, nonce};
use barewire_core::job::JobKey;

use super::options::PortRange;

/// A listening socket and the callers that have not proved themselves yet.
pub struct Door {
    listener: TcpListener,
    key: JobKey,
    callers: Vec<Caller>,
    next: u64,
}

struct Caller {
    number: u64,
    stream: TcpStream,
    greeter: Greeter,
    since: Instant,
}

/// What a caller's bytes led to.
pub enum Heard {
    /// Nothing yet, or nobody.
    Nothing,
    /// A member proved itself.
    Member(u32, TcpStream),
}

impl Door {
    /// Listens on a port of `range`, or on any.
    pub fn open(key: JobKey, range: Option<PortRange>) -> anyhow::Result<Self> {
        Self::behind(key, listen(range)?)
    }

    /// Listens on one address only.
    pub fn at(key: JobKey, address: SocketAddr) -> anyhow::Result<Self> {
        Self::behind(key, TcpListener::bind(address)?)
    }

    fn behind(key: JobKey, listener: TcpListener) -> anyhow::Result<Self> {
        listener.set_nonblocking(true)?;
        // Many agents call at many addresses at once, while the launcher is still starting others.
        rustix::net::listen(&listener, BACKLOG)?;
        Ok(Self { listener, key, callers: Vec::new(), next: 0 })
    }

    /// Where it listens.
    pub fn local_address(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.listener.local_addr()?)
    }

    /// The listening socket.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// The addresses under which other hosts may reach this door, numeric.
    pub fn addresses(&self, interface: Option<&str>) -> anyhow::Result<Vec<SocketAddr>> {
        let port = self.listener.local_addr()?.port();
        let v6 = self.listener.local_addr()?.is_ipv6();
        let all = if_addrs::get_if_addrs().context("listing network interfaces")?;
        let wanted = all.iter().filter(|found| interface.is_none_or(|name| found.name == name));
        let mut addresses: Vec<_> =
            wanted.map(|found| found.ip()).filter(|ip| usable(*ip) && (v6 || ip.is_ipv4())).collect();
        if addresses.is_empty() {
            let names: Vec<_> = all.iter().map(|found| found.name.as_str()).collect();
            match interface {
                Some(name) => bail!(
                    "--interface {name}: no such interface with an address; there are {}",
                    names.join(", ")
                ),
                None => bail!("this host has no network address that another host could reach"),
            }
        }
        // Loopback comes last: a namespace or a container may share it.
        addresses.sort_by_key(IpAddr::is_loopback);
        addresses.dedup();
        Ok(addresses.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
    }

    /// Takes new callers in; returns their numbers, to be watched.
    pub fn accept(&mut self) -> Vec<(u64, BorrowedFd<'_>)> {
        let before = self.next;
        while let Ok((stream, _)) = self.listener.accept() {
            let (Ok(()), Ok(nonce)) = (stream.set_nonblocking(true), nonce()) else { continue };
            if self.callers.len() >= CALLERS_MAX {
                // The oldest has had the most time to prove itself.
                self.callers.remove(0);
            }
            let greeter = Greeter::new(self.key.clone(), nonce);
            self.callers.push(Caller { number: self.next, stream, greeter, since: Instant::now() });
            self.next += 1;
        }
        let fresh = self.callers.iter().filter(|caller| caller.number >= before);
        fresh.map(|caller| (caller.number, caller.stream.as_fd())).collect()
    }

    /// Hears a caller out, as far as it has spoken.
    pub fn hear(&mut self, number: u64) -> Heard {
        let Some(index) = self.callers.iter().position(|caller| caller.number == number) else {
            return Heard::Nothing;
        };
        match self.callers[index].advance() {
            Ok(None) => Heard::Nothing,
            Ok(Some(who)) => Heard::Member(who, self.callers.remove(index).stream),
            Err(()) => {
                self.callers.remove(index);
                Heard::Nothing
            }
        }
    }

    /// Shows out those who took too long; returns when to look again.
    pub fn sweep(&mut self) -> Option<Instant> {
        let now = Instant::now();
        self.callers.retain(|caller| now.duration_since(caller.since) < PROOF_TIMEOUT);
        self.callers.first().map(|caller| caller.since + PROOF_TIMEOUT)
    }
}

impl Caller {
    fn advance(&mut self) -> Result<Option<u32>, ()> {
        loop {
            let mut bytes = [0; 128];
            let wanted = self.greeter.wants_bytes().min(bytes.len());
            let count = match self.stream.read(&mut bytes[..wanted]) {
                Ok(0) => return Err(()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(_) => return Err(()),
            };
            match self.greeter.feed(&bytes[..count]).map_err(drop)? {
                Greeting::More => {}
                // A fresh connection has room for 64 bytes; one that has not is no agent.
                Greeting::Send(greeting) => self.stream.write_all(&greeting).map_err(drop)?,
                Greeting::Done { who } => return Ok(Some(who)),
            }
        }
    }
}

fn listen(range: Option<PortRange>) -> anyhow::Result<TcpListener> {
    let Some(range) = range else { return bind(0).context("opening a listening socket") };
    for port in range.first..=range.last {
        if let Ok(listener) = bind(port) {
            return Ok(listener);
        }
    }
    bail!("--port-range {range}: no port in it is free")
}

/// All addresses of both families where the system has IPv6, else of IPv4.
fn bind(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|_| TcpListener::bind(("0.0.0.0", port)))
}

/// Link-local addresses mean something else on every link.
fn usable(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 != 0xfe80,
    }
}

/// Most callers that may be unproved at a time.
const CALLERS_MAX: usize = 256;
const BACKLOG: i32 = 4096;
const PROOF_TIMEOUT: Duration = Duration::from_secs(5);
