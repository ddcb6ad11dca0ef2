//! The handshake that keeps strangers out: both ends prove that they hold the job's key, neither shows it.
//!
//! ```text
//! caller  → magic, version, nonce c, MAC(key, "call" c)                   a scanner has no MAC and gets no answer at all
//! greeter → nonce g, MAC(key, "greet" c g)                                proves the greeter, fresh because of c
//! caller  → who, MAC(key, "enter" c g who)                                proves the caller, fresh because of g
//! ```
//!
//! A replayed call gets a greeting, which is of no use without the key. Both sides are state machines over bytes: feed
//! them what arrived, send what they return. Bytes that follow the handshake stay with the caller of [`Greeter::feed`].
//!
//! ```
//! use barewire_core::boot::auth::{Caller, Greeter, Greeting, nonce};
//! use barewire_core::job::JobKey;
//!
//! let key = JobKey::random().unwrap();
//! let caller = Caller::new(key.clone(), 3, nonce().unwrap());
//! let mut greeter = Greeter::new(key, nonce().unwrap());
//! let Ok(Greeting::Send(greeting)) = greeter.feed(&caller.call()) else { panic!("a good call is answered") };
//! let entry = caller.enter(&greeting).unwrap();
//! assert_eq!(greeter.feed(&entry), Ok(Greeting::Done { who: 3 }));
//! ```

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::job::JobKey;

/// Length of the first message.
pub const CALL_BYTES: usize = 8 + NONCE_BYTES + MAC_BYTES;
/// Length of the second.
pub const GREETING_BYTES: usize = NONCE_BYTES + MAC_BYTES;
/// Length of the third.
pub const ENTRY_BYTES: usize = 4 + MAC_BYTES;

/// The other end does not hold the key, or is no Barewire at all.
///
/// ```
/// use barewire_core::boot::auth::{Greeter, Stranger};
/// use barewire_core::job::JobKey;
/// let mut greeter = Greeter::new(JobKey([1; 32]), [2; 32]);
/// assert_eq!(greeter.feed(b"GET / HTTP/1.1"), Err(Stranger), "a browser is none of us");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the other end could not prove that it holds the job's key")]
pub struct Stranger;

/// The end that connects.
///
/// ```
/// # use barewire_core::boot::auth::{Caller, Greeter, Stranger};
/// # use barewire_core::job::JobKey;
/// let mut greeter = Greeter::new(JobKey([1; 32]), [9; 32]);
/// let impostor = Caller::new(JobKey([2; 32]), 0, [8; 32]);
/// assert_eq!(greeter.feed(&impostor.call()), Err(Stranger));
/// ```
#[derive(Debug)]
pub struct Caller {
    key: JobKey,
    who: u32,
    nonce: [u8; NONCE_BYTES],
}

impl Caller {
    /// Starts a handshake as member `who`; `nonce` is random and never used twice.
    ///
    /// ```
    /// # use barewire_core::{boot::auth::Caller, job::JobKey};
    /// let key = JobKey([1; 32]);
    /// let first = Caller::new(key.clone(), 4, [5; 32]);
    /// let second = Caller::new(key, 4, [6; 32]);
    /// assert_ne!(first.call(), second.call(), "another nonce, another call");
    /// ```
    pub fn new(key: JobKey, who: u32, nonce: [u8; NONCE_BYTES]) -> Self {
        Self { key, who, nonce }
    }

    /// The first message.
    ///
    /// ```
    /// # use barewire_core::{boot::auth::{CALL_BYTES, Caller}, job::JobKey};
    /// let call = Caller::new(JobKey([1; 32]), 4, [5; 32]).call();
    /// assert_eq!(call.len(), CALL_BYTES);
    /// assert!(call.starts_with(b"bwboot"));
    /// assert_eq!(call[8..40], [5; 32], "the nonce is in it, the key is not");
    /// ```
    pub fn call(&self) -> [u8; CALL_BYTES] {
        let mut call = [0; CALL_BYTES];
        call[..8].copy_from_slice(&HELLO);
        call[8..8 + NONCE_BYTES].copy_from_slice(&self.nonce);
        call[8 + NONCE_BYTES..].copy_from_slice(&mac(&self.key, &[b"call", &self.nonce]));
        call
    }

    /// Checks the greeting and answers with the third message.
    ///
    /// ```
    /// # use barewire_core::{boot::auth::{Caller, GREETING_BYTES, Greeter, Greeting, Stranger}, job::JobKey};
    /// let caller = Caller::new(JobKey([1; 32]), 4, [5; 32]);
    /// assert_eq!(caller.enter(&[0; GREETING_BYTES]), Err(Stranger), "anybody could have sent that");
    ///
    /// let mut greeter = Greeter::new(JobKey([1; 32]), [6; 32]);
    /// let Greeting::Send(greeting) = greeter.feed(&caller.call())? else { panic!() };
    /// let entry = caller.enter(&greeting)?;
    /// assert_eq!(entry[..4], 4u32.to_le_bytes(), "who we say we are");
    /// # Ok::<(), Stranger>(())
    /// ```
    pub fn enter(&self, greeting: &[u8; GREETING_BYTES]) -> Result<[u8; ENTRY_BYTES], Stranger> {
        let (theirs, proof) = greeting.split_at(NONCE_BYTES);
        verify(&self.key, &[b"greet", &self.nonce, theirs], proof)?;
        let who = self.who.to_le_bytes();
        let mut entry = [0; ENTRY_BYTES];
        entry[..4].copy_from_slice(&who);
        entry[4..].copy_from_slice(&mac(&self.key, &[b"enter", &self.nonce, theirs, &who]));
        Ok(entry)
    }
}

/// The end that listens.
///
/// ```
/// # use barewire_core::{boot::auth::{Caller, Greeter, Greeting}, job::JobKey};
/// let call = Caller::new(JobKey([1; 32]), 4, [5; 32]).call();
/// let mut greeter = Greeter::new(JobKey([1; 32]), [6; 32]);
/// let (most, last) = call.split_at(call.len() - 1);
/// assert_eq!(greeter.feed(most), Ok(Greeting::More));
/// assert!(matches!(greeter.feed(last), Ok(Greeting::Send(_))));
/// ```
#[derive(Debug)]
pub struct Greeter {
    key: JobKey,
    nonce: [u8; NONCE_BYTES],
    caller_nonce: Option<[u8; NONCE_BYTES]>,
    bytes: Vec<u8>,
}

/// What the greeter wants next.
///
/// ```
/// # use barewire_core::{boot::auth::{Caller, ENTRY_BYTES, Greeter, Greeting}, job::JobKey};
/// let caller = Caller::new(JobKey([1; 32]), 4, [5; 32]);
/// let mut greeter = Greeter::new(JobKey([1; 32]), [6; 32]);
/// let mut to_greeter = caller.call().to_vec();
/// let who = loop {
///     match greeter.feed(&to_greeter).unwrap() {
///         Greeting::More => panic!("it was all there"),
///         Greeting::Send(greeting) => to_greeter = caller.enter(&greeting).unwrap().to_vec(),
///         Greeting::Done { who } => break who,
///     }
/// };
/// assert_eq!(who, 4);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greeting {
    /// More bytes.
    More,
    /// Send this, then more bytes.
    Send([u8; GREETING_BYTES]),
    /// The caller is member `who`.
    Done {
        /// What the caller said it is, under its proof.
        who: u32,
    },
}

impl Greeter {
    /// Waits for a call; `nonce` is random and never used twice.
    ///
    /// ```
    /// # use barewire_core::{boot::auth::{Caller, Greeter, Greeting}, job::JobKey};
    /// let call = Caller::new(JobKey([1; 32]), 4, [5; 32]).call();
    /// let mut greeter = Greeter::new(JobKey([1; 32]), [6; 32]);
    /// let Ok(Greeting::Send(greeting)) = greeter.feed(&call) else { panic!() };
    /// assert_eq!(greeting[..32], [6; 32], "its nonce comes first");
    /// ```
    pub fn new(key: JobKey, nonce: [u8; NONCE_BYTES]) -> Self {
        Self { key, nonce, caller_nonce: None, bytes: Vec::new() }
    }

    /// How many bytes to read next, at most: reading no further than the handshake leaves the rest in the socket.
    ///
    /// ```
    /// # use barewire_core::{boot::auth::{CALL_BYTES, ENTRY_BYTES, Caller, Greeter}, job::JobKey};
    /// let call = Caller::new(JobKey([1; 32]), 4, [5; 32]).call();
    /// let mut greeter = Greeter::new(JobKey([1; 32]), [6; 32]);
    /// assert_eq!(greeter.wants_bytes(), CALL_BYTES);
    /// greeter.feed(&call[..10]).unwrap();
    /// assert_eq!(greeter.wants_bytes(), CALL_BYTES - 10);
    /// greeter.feed(&call[10..]).unwrap();
    /// assert_eq!(greeter.wants_bytes(), ENTRY_BYTES);
    /// ```
    pub fn wants_bytes(&self) -> usize {
        let whole = if self.caller_nonce.is_none() { CALL_BYTES } else { ENTRY_BYTES };
        whole - self.bytes.len()
    }

    /// Takes the next bytes, no more than [`wants_bytes`](Self::wants_bytes).
    ///
    /// ```
    /// # use barewire_core::{boot::auth::{Caller, Greeter, Greeting, Stranger}, job::JobKey};
    /// let call = Caller::new(JobKey([1; 32]), 4, [5; 32]).call();
    /// let mut greeter = Greeter::new(JobKey([1; 32]), [6; 32]);
    /// assert_eq!(greeter.feed(&[&call[..], b"x"].concat()), Err(Stranger), "more than it wants");
    /// assert_eq!(greeter.feed(&call[..1]), Ok(Greeting::More));
    /// ```
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Greeting, Stranger> {
        if bytes.len() > self.wants_bytes() {
            return Err(Stranger);
        }
        self.bytes.extend_from_slice(bytes);
        let known = self.bytes.len().min(HELLO.len());
        if self.caller_nonce.is_none() && self.bytes[..known] != HELLO[..known] {
            return Err(Stranger);
        }
        if self.wants_bytes() > 0 {
            return Ok(Greeting::More);
        }
        let message = std::mem::take(&mut self.bytes);
        match self.caller_nonce {
            None => self.greet(&message[8..]).map(Greeting::Send),
            Some(theirs) => {
                let (who, proof) = message.split_at(4);
                verify(&self.key, &[b"enter", &theirs, &self.nonce, who], proof)?;
                let who = who.try_into().expect("split at four bytes");
                Ok(Greeting::Done { who: u32::from_le_bytes(who) })
            }
        }
    }

    fn greet(&mut self, call: &[u8]) -> Result<[u8; GREETING_BYTES], Stranger> {
        let (theirs, proof) = call.split_at(NONCE_BYTES);
        verify(&self.key, &[b"call", theirs], proof)?;
        self.caller_nonce = Some(theirs.try_into().expect("split at a nonce's length"));
        let mut greeting = [0; GREETING_BYTES];
        greeting[..NONCE_BYTES].copy_from_slice(&self.nonce);
        greeting[NONCE_BYTES..].copy_from_slice(&mac(&self.key, &[b"greet", theirs, &self.nonce]));
        Ok(greeting)
    }
}

/// A fresh nonce.
///
/// ```
/// use barewire_core::boot::auth::nonce;
/// assert_ne!(nonce().unwrap(), nonce().unwrap());
/// ```
pub fn nonce() -> std::io::Result<[u8; NONCE_BYTES]> {
    crate::job::JobKey::random().map(|bytes| bytes.0)
}

fn hmac(key: &JobKey, parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut hmac = Hmac::<Sha256>::new_from_slice(&key.0).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| hmac.update(part));
    hmac
}

fn mac(key: &JobKey, parts: &[&[u8]]) -> [u8; MAC_BYTES] {
    hmac(key, parts).finalize().into_bytes().into()
}

fn verify(key: &JobKey, parts: &[&[u8]], proof: &[u8]) -> Result<(), Stranger> {
    hmac(key, parts).verify_slice(proof).map_err(|_| Stranger)
}

/// What every call begins with: a name and a version.
const HELLO: [u8; 8] = *b"bwboot\x01\x00";
/// Length of a nonce.
pub const NONCE_BYTES: usize = 32;
const MAC_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn shake(caller_key: u8, greeter_key: u8, tamper: impl Fn(&mut [u8])) -> Result<u32, Stranger> {
        let caller = Caller::new(JobKey([caller_key; 32]), 7, [1; 32]);
        let mut greeter = Greeter::new(JobKey([greeter_key; 32]), [2; 32]);
        let mut call = caller.call();
        tamper(&mut call);
        let mut greeting = None;
        for byte in call {
            if let Greeting::Send(bytes) = greeter.feed(&[byte])? {
                greeting = Some(bytes);
            }
        }
        match greeter.feed(&caller.enter(&greeting.expect("a whole call is answered"))?)? {
            Greeting::Done { who } => Ok(who),
            _ => panic!("a whole entry is decided"),
        }
    }

    #[test]
    fn holders_of_the_key_meet() {
        assert_eq!(shake(5, 5, |_| ()), Ok(7));
    }

    #[test]
    fn a_wrong_key_or_a_changed_byte_is_a_stranger() {
        assert_eq!(shake(5, 6, |_| ()), Err(Stranger));
        for at in [0, 7, 8, 40, CALL_BYTES - 1] {
            assert_eq!(shake(5, 5, |call| call[at] ^= 1), Err(Stranger), "byte {at}");
        }
    }

    #[test]
    fn a_replayed_entry_fails_against_a_fresh_nonce() {
        let caller = Caller::new(JobKey([5; 32]), 7, [1; 32]);
        let mut first = Greeter::new(JobKey([5; 32]), [2; 32]);
        let Ok(Greeting::Send(greeting)) = first.feed(&caller.call()) else { panic!() };
        let entry = caller.enter(&greeting).unwrap();
        let mut second = Greeter::new(JobKey([5; 32]), [3; 32]);
        assert!(matches!(second.feed(&caller.call()), Ok(Greeting::Send(_))));
        assert_eq!(second.feed(&entry), Err(Stranger));
    }

    #[test]
    fn a_scanner_is_known_by_its_first_byte() {
        let mut greeter = Greeter::new(JobKey([5; 32]), [2; 32]);
        assert_eq!(greeter.feed(b"G"), Err(Stranger));
    }
}
