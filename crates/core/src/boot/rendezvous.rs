//! Rendezvous: a plain place to meet, for programs that start by themselves.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
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
    let addresses: Vec<_> = resolved.collect();
    loop {
        let stream = dial(&addresses, &key, ANYBODY, deadline)?;
        match wire_client::join(stream.into()) {
            // All ranks are taken: one may become free.
            Err(BootError::Closed) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            joined => return joined,
        }
    }
}

/// Connects to the first of `addresses` that proves to hold `key`, as member `who`, trying until `deadline`.
///
/// All are dialled at once, so that one that swallows packets costs no time; those that answer prove themselves one
/// after the other, so that the other end sees one of us.
///
/// ```
/// use barewire_core::boot::{auth::{Greeter, Greeting, nonce}, dial};
/// use barewire_core::job::JobKey;
/// # use std::{io::{Read, Write}, net::TcpListener, thread, time::{Duration, Instant}};
///
/// let key = JobKey::random().unwrap();
/// let door = TcpListener::bind("127.0.0.1:0").unwrap();
/// let place = door.local_addr().unwrap();
/// let mut greeter = Greeter::new(key.clone(), nonce().unwrap());
/// let doorman = thread::spawn(move || {
///     let (mut stream, _) = door.accept().unwrap();
///     loop {
///         let mut bytes = vec![0; greeter.wants_bytes()];
///         stream.read_exact(&mut bytes).unwrap();
///         match greeter.feed(&bytes).unwrap() {
///             Greeting::More => {}
///             Greeting::Send(greeting) => stream.write_all(&greeting).unwrap(),
///             Greeting::Done { who } => break who,
///         }
///     }
/// });
/// let stream = dial(&[place], &key, 5, Instant::now() + Duration::from_secs(60)).unwrap();
/// assert_eq!((stream.peer_addr().unwrap(), doorman.join().unwrap()), (place, 5));
/// ```
pub fn dial(
    addresses: &[SocketAddr],
    key: &JobKey,
    who: u32,
    deadline: Instant,
) -> Result<TcpStream, BootError> {
    let mut last = BootError::Timeout { doing: "connecting" };
    let (started, mut told) = (Instant::now(), false);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(last);
        }
        if !told && started.elapsed() >= TELL_AFTER {
            told = true;
            eprintln!("barewire: still trying, for {} s at most: {last}", left.as_secs());
        }
        let (connected, inbox) = mpsc::channel();
        for &address in addresses {
            let connected = connected.clone();
            let timeout = left.min(ATTEMPT_TIMEOUT);
            std::thread::spawn(move || {
                // Whoever dialled may have found another way by now.
                let _ = connected.send((address, TcpStream::connect_timeout(&address, timeout)));
            });
        }
        drop(connected);
        for (address, outcome) in inbox {
            let proved = outcome
                .map_err(|source| BootError::Connect { address: address.to_string(), source })
                .and_then(|stream| prove(stream, address, key, who));
            match proved {
                Ok(stream) => return Ok(stream),
                Err(error @ BootError::Stranger { .. }) if addresses.len() == 1 => return Err(error),
                Err(error) => last = error,
            }
        }
        std::thread::sleep(PAUSE.min(deadline.saturating_duration_since(Instant::now())));
    }
}

/// Shows that both ends hold the key.
fn prove(mut stream: TcpStream, address: SocketAddr, key: &JobKey, who: u32) -> Result<TcpStream, BootError> {
    let connecting = |source: std::io::Error| match source.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            BootError::Unheard { address: address.to_string() }
        }
        _ => BootError::Connect { address: address.to_string(), source },
    };
    stream.set_read_timeout(Some(PROOF_TIMEOUT)).map_err(connecting)?;
    stream.set_write_timeout(Some(PROOF_TIMEOUT)).map_err(connecting)?;
    let caller = Caller::new(key.clone(), who, nonce().map_err(connecting)?);
    stream.write_all(&caller.call()).map_err(connecting)?;
    let mut greeting = [0; GREETING_BYTES];
    stream.read_exact(&mut greeting).map_err(connecting)?;
    let stranger = |source| BootError::Stranger { address: address.to_string(), source };
    stream.write_all(&caller.enter(&greeting).map_err(stranger)?).map_err(connecting)?;
    stream.set_read_timeout(None).map_err(connecting)?;
    stream.set_write_timeout(None).map_err(connecting)?;
    stream.set_nodelay(true).map_err(connecting)?;
    Ok(stream)
}

/// A member that takes whatever rank it is given.
const ANYBODY: u32 = u32::MAX;
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);
/// After this long without success somebody wants to know why.
const TELL_AFTER: Duration = Duration::from_secs(3);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
const PROOF_TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);
