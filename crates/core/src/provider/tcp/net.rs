//! Sockets and addresses: the system calls behind listening, connecting, reading and writing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use barewire_sys::rustix::io::Errno;
use barewire_sys::rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, sockopt,
};
use barewire_sys::tcp;
use barewire_sys::wirebuf::{Places, WireRef};

/// Connections the kernel keeps for us until we accept them.
const BACKLOG: i32 = 4096;
/// More addresses than a host with many networks has; a card has only so much room.
const ADDRESSES_MAX: usize = 16;

/// Listens on each of `wanted`.
pub(crate) fn listen(wanted: &[SocketAddr]) -> Result<Vec<OwnedFd>, Errno> {
    wanted.iter().map(listen_on).collect()
}

/// Listens on one port of `ports`, the same on all of `places`; on some of them if that is all there is.
pub(crate) fn listen_on_one_port(
    places: &[IpAddr],
    ports: impl Iterator<Item = u16>,
) -> Result<Vec<OwnedFd>, Errno> {
    let mut last = Errno::ADDRNOTAVAIL;
    'ports: for mut port in ports {
        let mut listeners = Vec::new();
        for place in places {
            match listen_on(&SocketAddr::new(*place, port)) {
                Ok(listener) => {
                    port = bound_to(&listener).map_or(port, |bound| bound.port());
                    listeners.push(listener);
                }
                Err(Errno::ADDRINUSE) => {
                    last = Errno::ADDRINUSE;
                    continue 'ports;
                }
                Err(error) => last = error,
            }
        }
        if !listeners.is_empty() {
            return Ok(listeners);
        }
    }
    Err(last)
}

/// Every address of the host. Two sockets with one port: an IPv6 socket that serves IPv4 too makes every packet take the
/// longer way.
pub(crate) const EVERYWHERE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];

/// The addresses of one interface that mean the same to everybody.
pub(crate) fn addresses_of(interface: &str) -> Vec<IpAddr> {
    let all = if_addrs::get_if_addrs().unwrap_or_default().into_iter();
    all.filter(|found| found.name == interface)
        .map(|found| found.ip())
        .filter(|ip| !is_link_local(ip))
        .collect()
}

/// Where a socket is bound.
pub(crate) fn bound_to(socket: &OwnedFd) -> Option<SocketAddr> {
    net::getsockname(socket).ok().and_then(|any| SocketAddr::try_from(any).ok())
}

fn listen_on(address: &SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = new_socket(address)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    net::bind(&socket, address)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// The addresses under which others may reach these listeners, the likeliest first, loopback last.
pub(crate) fn reachable(listeners: &[OwnedFd]) -> Vec<SocketAddr> {
    let mut reachable = Vec::new();
    for listener in listeners {
        let Some(bound) = bound_to(listener) else { continue };
        if bound.ip().is_unspecified() {
            let ours =
                if_addrs::get_if_addrs().unwrap_or_default().into_iter().map(|interface| interface.ip());
            let fits = |ip: &IpAddr| bound.is_ipv4() == ip.is_ipv4() && !is_link_local(ip);
            reachable.extend(ours.filter(fits).map(|ip| SocketAddr::new(ip, bound.port())));
        } else {
            reachable.push(bound);
        }
    }
    reachable.sort_by_key(|address| (address.ip().is_loopback(), address.is_ipv6()));
    reachable.dedup();
    // Loopback ones come last and must not be cut off: on one host they are the best.
    let (near, mut far): (Vec<_>, Vec<_>) = reachable.into_iter().partition(|a| a.ip().is_loopback());
    far.truncate(ADDRESSES_MAX - near.len().min(2));
    far.extend(near.into_iter().take(2));
    far
}

/// Of a peer's addresses, those worth trying, the best first.
pub(crate) fn candidates(addresses: &[SocketAddr], same_host: bool) -> Vec<SocketAddr> {
    let (near, far): (Vec<_>, Vec<_>) = addresses.iter().partition(|address| address.ip().is_loopback());
    if same_host { near.into_iter().chain(far).collect() } else { far }
}

/// An address of one cable only, which says nothing without the cable's name.
fn is_link_local(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Begins to connect.
pub(crate) fn dial(address: &SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = new_socket(address)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match net::connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// The next connection, if there is one.
pub(crate) fn accept(listener: &OwnedFd) -> Option<OwnedFd> {
    let socket = net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC).ok()?;
    sockopt::set_tcp_nodelay(&socket, true).ok()?;
    Some(socket)
}

/// The address at the other end.
pub(crate) fn peer_address(socket: &OwnedFd) -> Option<SocketAddr> {
    net::getpeername(socket).ok().flatten().and_then(|any| SocketAddr::try_from(any).ok())
}

/// Sees to it that what never leaves this host is not held back as if it had to cross a network: some ways to avoid congestion pace what is
/// sent by clock, whatever the wire.
pub(crate) fn hurry_within_host(socket: &OwnedFd) {
    let (here, there) = (bound_to(socket), peer_address(socket));
    if here.zip(there).is_some_and(|(here, there)| here.ip() == there.ip()) {
        // Every kernel has it, and lets everybody choose it; without it there is only less speed.
        let _ = sockopt::set_tcp_congestion(socket, "reno");
    }
}

/// The address at the other end, for messages to people.
pub(crate) fn peer_name(socket: &OwnedFd) -> String {
    peer_address(socket).map_or_else(|| "an unknown address".to_owned(), |address| address.to_string())
}

fn new_socket(address: &SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))
}

/// What there is to read now; `None` if nothing is, `Some(0)` if nothing will be.
#[inline]
pub(crate) fn read(socket: &OwnedFd, into: &mut [u8]) -> Result<Option<usize>, Errno> {
    again(|| net::recv(socket, &mut *into, RecvFlags::DONTWAIT).map(|(_, n)| n))
}

/// Reads what has arrived into `places` and, once they are full, into `behind`; `None` if nothing has, `Some(0)` if nothing will.
pub(crate) fn read_into(
    socket: &OwnedFd,
    places: &Places<'_>,
    behind: &mut [u8],
) -> Result<Option<usize>, Errno> {
    again(|| tcp::receive(socket, places, behind))
}

/// Writes what the socket takes of several parts now; `None` if it takes nothing.
pub(crate) fn write_all_of(
    socket: &OwnedFd,
    before: [&[u8]; 3],
    body: &WireRef<'_>,
) -> Result<Option<usize>, Errno> {
    again(|| tcp::send(socket, before, body))
}

/// Does what a signal may interrupt; `None` if it would have to wait.
#[inline]
fn again<T>(mut attempt: impl FnMut() -> Result<T, Errno>) -> Result<Option<T>, Errno> {
    loop {
        match attempt() {
            Ok(done) => return Ok(Some(done)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes what the socket takes now; `None` if it takes nothing.
#[inline]
pub(crate) fn write(socket: &OwnedFd, bytes: &[u8]) -> Result<Option<usize>, Errno> {
    again(|| net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_on_this_host_is_not_paced() {
        let listener = listen_on(&SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)).unwrap();
        let dialled = dial(&bound_to(&listener).unwrap()).unwrap();
        let accepted = accept(&listener).unwrap();
        for socket in [&dialled, &accepted] {
            hurry_within_host(socket);
            assert_eq!(sockopt::tcp_congestion(socket).unwrap(), "reno");
        }
    }
}
