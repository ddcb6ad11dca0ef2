//! Rendezvous: a plain place to meet, for programs that start by themselves.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::auth::{Caller, GREETING_BYTES, nonce};
use super::{BootError, Environment, user_key, wire_client};
use crate::job::{Job, JobKey};

/// Joins the job that meets at `address`, with the user's key.
pub(super) fn join(address: &str, environment: &Environment) -> Result<Job, BootError> {
    let key = user_key(environment)?;
    let resolved = address
        .to_socket_addrs()
        .map_err(|source| BootError::Io { doing: "looking up the rendezvous' address", source })?;
    let deadline = Instant::now() + JOIN_TIMEOUT;
    let stream = dial(&resolved.collect::<Vec<_>>(), &key, ANYBODY, deadline)?;
    wire_client::join(stream.into())
}

/// Connects to the first of `addresses` that proves to hold `key`, as member `who`, trying until `deadline`.
pub fn dial(
    addresses: &[SocketAddr],
    key: &JobKey,
    who: u32,
    deadline: Instant,
) -> Result<TcpStream, BootError> {
    let mut last = BootError::Timeout { doing: "connecting" };
    loop {
        for address in addresses {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(last);
            }
            match attempt(address, key, who, left.min(ATTEMPT_TIMEOUT)) {
                Ok(stream) => return Ok(stream),
                Err(error @ BootError::Stranger { .. }) if addresses.len() == 1 => return Err(error),
                Err(error) => last = error,
            }
        }
        std::thread::sleep(PAUSE.min(deadline.saturating_duration_since(Instant::now())));
    }
}

fn attempt(address: &SocketAddr, key: &JobKey, who: u32, timeout: Duration) -> Result<TcpStream, BootError> {
    let io = |source| BootError::Io { doing: "connecting to the launcher", source };
    let mut stream = TcpStream::connect_timeout(address, timeout).map_err(io)?;
    stream.set_read_timeout(Some(timeout)).map_err(io)?;
    stream.set_write_timeout(Some(timeout)).map_err(io)?;
    let caller = Caller::new(key.clone(), who, nonce().map_err(io)?);
    stream.write_all(&caller.call()).map_err(io)?;
    let mut greeting = [0; GREETING_BYTES];
    stream.read_exact(&mut greeting).map_err(io)?;
    let stranger = |source| BootError::Stranger { address: address.to_string(), source };
    stream.write_all(&caller.enter(&greeting).map_err(stranger)?).map_err(io)?;
    stream.set_read_timeout(None).map_err(io)?;
    stream.set_write_timeout(None).map_err(io)?;
    stream.set_nodelay(true).map_err(io)?;
    Ok(stream)
}

/// A member that takes whatever rank it is given.
pub const ANYBODY: u32 = u32::MAX;
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);
