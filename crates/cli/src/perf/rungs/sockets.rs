//! A raw, polling TCP socket: the limit of everything over TCP.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Instant;

use anyhow::{Context, Result};
use barewire_core::{Peer, Port};

use super::{Rungs, each};

const ADDRESS: Port = Port(24);

/// Sockets between ranks 0 and 1, made on first use.
#[derive(Default)]
pub struct Sockets {
    stream: Option<TcpStream>,
}

fn stream(rungs: &mut Rungs) -> Result<&mut TcpStream> {
    if rungs.sockets.stream.is_none() {
        let stream = if rungs.rank() == 0 {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listening on loopback")?;
            let port = listener.local_addr()?.port();
            rungs.tell(Peer(1), ADDRESS, &port.to_le_bytes())?;
            listener.accept()?.0
        } else {
            let port: [u8; 2] = rungs.hear(ADDRESS)?.as_slice().try_into()?;
            TcpStream::connect((Ipv4Addr::LOCALHOST, u16::from_le_bytes(port)))?
        };
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        rungs.sockets.stream = Some(stream);
    }
    Ok(rungs.sockets.stream.as_mut().expect("made above"))
}

/// One way of `bytes` through a polled socket.
pub fn latency(rungs: &mut Rungs, bytes: usize, count: u64) -> Result<f64> {
    let me = rungs.rank();
    stream(rungs)?;
    let Rungs { sockets, out, into, .. } = rungs;
    let stream = sockets.stream.as_mut().expect("made above");
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
    }
    Ok(each(start, count * 2))
}

fn write(stream: &mut TcpStream, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn read(stream: &mut TcpStream, bytes: &mut [u8]) -> Result<()> {
    let mut got = 0;
    while got < bytes.len() {
        match stream.read(&mut bytes[got..]) {
            Ok(0) => anyhow::bail!("the other rank closed its socket"),
            Ok(n) => got += n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
