//! Raw, polling TCP sockets: the limit of everything over TCP. With and without the kernel's bundling of small writes.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use anyhow::{Context, Result};
use barewire_core::{Peer, Port};

use super::{Kept, Rungs, Trips, each, until};

const ADDRESS: Port = Port(24);

/// Sockets between ranks 0 and 1, made on first use.
#[derive(Default)]
pub struct Sockets {
    stream: Option<TcpStream>,
}

/// The socket, sending small writes at once, or for `nagle` when the kernel thinks fit.
fn prepare(rungs: &mut Rungs, rung: &str) -> Result<()> {
    if rungs.kept.sockets.stream.is_none() {
        let stream = if rungs.rank() == 0 {
            let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).context("listening")?;
            let port = listener.local_addr()?.port();
            let addresses = addresses().into_iter().map(|ip| SocketAddr::new(ip, port).to_string());
            rungs.tell(Peer(1), ADDRESS, addresses.collect::<Vec<_>>().join(" ").as_bytes())?;
            listener.accept()?.0
        } else {
            let addresses = String::from_utf8(rungs.hear(ADDRESS)?)?;
            connect(&addresses)?
        };
        stream.set_nonblocking(true)?;
        rungs.kept.sockets.stream = Some(stream);
    }
    let stream = rungs.kept.sockets.stream.as_ref().expect("made above");
    Ok(stream.set_nodelay(rung != "nagle")?)
}

/// Where others may reach this host: its addresses, loopback last.
fn addresses() -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> =
        if_addrs::get_if_addrs().unwrap_or_default().iter().map(|i| i.ip()).filter(IpAddr::is_ipv4).collect();
    found.sort_by_key(IpAddr::is_loopback);
    found
}

/// The first of the addresses that answers. Loopback is tried first: it answers at once, or there is nobody.
fn connect(addresses: &str) -> Result<TcpStream> {
    let patience = std::time::Duration::from_secs(2);
    let addresses: Vec<SocketAddr> = addresses.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    let found = addresses.iter().rev().find_map(|address| TcpStream::connect_timeout(address, patience).ok());
    found.context("no address of rank 0 answers")
}

/// One way of `bytes` through a polled socket.
pub fn latency(rungs: &mut Rungs, rung: &str, bytes: usize, count: u64, trips: &mut Trips) -> Result<f64> {
    let me = rungs.rank();
    prepare(rungs, rung)?;
    let Kept { sockets, out, into, .. } = &mut rungs.kept;
    let stream = sockets.stream.as_mut().expect("prepared");
    let (out, into) = (&out[..bytes], &mut into[..bytes]);
    let start = Instant::now();
    for _ in 0..count {
        if me == 0 {
            write(stream, out)?;
        }
        read(stream, into)?;
        if me != 0 {
            write(stream, out)?;
        }
        trips.lap();
    }
    Ok(each(start, count * 2))
}

/// `window` writes at a time, each window answered by one byte.
pub fn rate(rungs: &mut Rungs, rung: &str, bytes: usize, count: u64, window: u64) -> Result<f64> {
    let me = rungs.rank();
    prepare(rungs, rung)?;
    let Kept { sockets, out, into, .. } = &mut rungs.kept;
    let stream = sockets.stream.as_mut().expect("prepared");
    let (out, into) = (&out[..bytes], &mut into[..bytes]);
    let windows = count.div_ceil(window);
    let start = Instant::now();
    for _ in 0..windows {
        for _ in 0..window {
            if me == 0 { write(stream, out)? } else { read(stream, into)? }
        }
        if me == 0 { read(stream, &mut [0])? } else { write(stream, &[0])? }
    }
    Ok(each(start, windows * window))
}

fn write(stream: &mut TcpStream, mut bytes: &[u8]) -> Result<()> {
    let mut failed = None;
    until(|| {
        match stream.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => failed = Some(error),
        }
        bytes.is_empty() || failed.is_some()
    });
    failed.map_or(Ok(()), |error| Err(error.into()))
}

fn read(stream: &mut TcpStream, bytes: &mut [u8]) -> Result<()> {
    let (mut got, mut failed) = (0, None);
    until(|| {
        match stream.read(&mut bytes[got..]) {
            Ok(0) => failed = Some(ErrorKind::UnexpectedEof.into()),
            Ok(n) => got += n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => failed = Some(error),
        }
        got == bytes.len() || failed.is_some()
    });
    failed.map_or(Ok(()), |error| Err(error.into()))
}
