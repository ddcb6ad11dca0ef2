//! The hello: before any data, both ends of a connection prove that they hold the job's key.
//!
//! ```text
//!  dialler                                        acceptor
//!  ── hello:   magic, versions, job, from, to, nonce, window ──▶   wrong magic, job or rank: closed without a word
//!  ◀── welcome: magic, version, versions, nonce, window, proof ──
//!  ── proof ──▶                                                     wrong: closed without a word
//!  ◀── verdict, proof ──
//! ```
//!
//! Each proof is a MAC over everything said so far, so a changed, replayed or reflected byte shows. The machines here take
//! bytes and make bytes; they know no socket and no clock. A side reads exactly as many bytes as its machine wants.

use std::ops::RangeInclusive;

use crate::Peer;
use crate::auth::{self, PROOF_BYTES};
use crate::job::{JobId, JobKey};

/// Versions of the protocol that this build speaks.
pub(crate) const VERSIONS: RangeInclusive<u16> = 1..=1;

/// The number of endpoints that belong to no job: they are whoever holds the key.
pub(crate) const ANYBODY: Peer = Peer(u32::MAX);

const HELLO_MAGIC: &[u8; 8] = b"bw-hello";
const WELCOME_MAGIC: &[u8; 8] = b"bw-welco";
const HELLO_BYTES: usize = 8 + 4 + 16 + 8 + 16 + 8;
const WELCOME_SAID_BYTES: usize = 8 + 2 + 4 + 2 + 16 + 8;
const WELCOME_BYTES: usize = WELCOME_SAID_BYTES + PROOF_BYTES;
const VERDICT_BYTES: usize = 8 + PROOF_BYTES;

/// What one side brings to a hello.
#[derive(Clone, Debug)]
pub(crate) struct Party<'a> {
    pub job: JobId,
    pub key: &'a JobKey,
    pub me: Peer,
    pub versions: RangeInclusive<u16>,
    /// Bytes of packets that this side lets the other have on their way.
    pub window: u64,
    /// Bytes nobody has used before.
    pub nonce: [u8; 16],
}

/// What the two sides agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub peer: Peer,
    pub version: u16,
    /// Bytes of packets that the other side lets us have on their way.
    pub window: u64,
}

/// What the acceptor makes of a dialler that proved the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Verdict {
    /// Both sides send over this connection.
    BothWays = 1,
    /// Only the dialler sends over it; the acceptor has another way already.
    OneWay = 2,
    /// Not this connection: the acceptor's own is on its way, or an old one is not yet at its end. Try again later.
    Later = 3,
}

/// Why a dialler does not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DialError {
    #[error("what listens there does not speak this protocol")]
    NotOurs,
    #[error("it speaks protocol versions {} to {}, we speak {} to {}", .theirs.start(), .theirs.end(), .ours.start(), .ours.end())]
    Versions { ours: RangeInclusive<u16>, theirs: RangeInclusive<u16> },
    #[error("it does not hold the job's key")]
    Proof,
}

/// Somebody an acceptor has no business with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stranger;

/// The side that connects.
#[derive(Debug)]
pub(crate) struct Dialler {
    /// Everything said so far, in order.
    said: Vec<u8>,
    input: Input,
    to: Peer,
    versions: RangeInclusive<u16>,
    agreed: Option<Agreed>,
}

/// What a dialler does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DialStep {
    /// Reads on.
    More,
    /// The other side is who it should be: sends this, and from then on only the other side can end the attempt.
    Prove([u8; PROOF_BYTES]),
    /// It is over.
    Done(Agreed, Verdict),
}

impl Dialler {
    /// Begins; the bytes are to be sent.
    pub fn new(party: &Party<'_>, to: Peer) -> (Dialler, Vec<u8>) {
        let mut hello = Vec::with_capacity(HELLO_BYTES + WELCOME_BYTES + PROOF_BYTES);
        hello.extend_from_slice(HELLO_MAGIC);
        hello.extend_from_slice(&party.versions.start().to_le_bytes());
        hello.extend_from_slice(&party.versions.end().to_le_bytes());
        hello.extend_from_slice(&party.job.0);
        hello.extend_from_slice(&party.me.0.to_le_bytes());
        hello.extend_from_slice(&to.0.to_le_bytes());
        hello.extend_from_slice(&party.nonce);
        hello.extend_from_slice(&party.window.to_le_bytes());
        let dialler = Dialler {
            said: hello.clone(),
            input: Input::new(WELCOME_BYTES),
            to,
            versions: party.versions.clone(),
            agreed: None,
        };
        (dialler, hello)
    }

    /// How many bytes to read, at most.
    pub fn wants(&self) -> usize {
        self.input.wants()
    }

    /// Takes what was read.
    pub fn take(&mut self, key: &JobKey, bytes: &[u8]) -> Result<DialStep, DialError> {
        let Some(message) = self.input.take(bytes) else { return Ok(DialStep::More) };
        match self.agreed {
            None => self.welcomed(key, &message),
            Some(agreed) => self.judged(key, agreed, &message),
        }
    }

    fn welcomed(&mut self, key: &JobKey, message: &[u8]) -> Result<DialStep, DialError> {
        let mut fields = Fields(message);
        let welcome = Welcome::read(&mut fields).ok_or(DialError::NotOurs)?;
        let (told, proof) = message.split_at_checked(WELCOME_SAID_BYTES).ok_or(DialError::NotOurs)?;
        if !auth::verify(key, "tcp welcome", &[&self.said, told], proof) {
            return Err(DialError::Proof);
        }
        if !self.versions.contains(&welcome.version) {
            return Err(DialError::Versions { ours: self.versions.clone(), theirs: welcome.versions });
        }
        self.said.extend_from_slice(message);
        let proof = auth::prove(key, "tcp dialler", &[&self.said]);
        self.said.extend_from_slice(&proof);
        self.agreed = Some(Agreed { peer: self.to, version: welcome.version, window: welcome.window });
        self.input = Input::new(VERDICT_BYTES);
        Ok(DialStep::Prove(proof))
    }

    fn judged(&mut self, key: &JobKey, agreed: Agreed, message: &[u8]) -> Result<DialStep, DialError> {
        let (verdict, proof) = message.split_at_checked(8).ok_or(DialError::NotOurs)?;
        if !auth::verify(key, "tcp verdict", &[&self.said, verdict], proof) {
            return Err(DialError::Proof);
        }
        let verdict = match verdict {
            [1, 0, 0, 0, 0, 0, 0, 0] => Verdict::BothWays,
            [2, 0, 0, 0, 0, 0, 0, 0] => Verdict::OneWay,
            [3, 0, 0, 0, 0, 0, 0, 0] => Verdict::Later,
            _ => return Err(DialError::NotOurs),
        };
        Ok(DialStep::Done(agreed, verdict))
    }
}

/// The side that is connected to.
#[derive(Debug)]
pub(crate) struct Acceptor {
    said: Vec<u8>,
    input: Input,
    agreed: Option<Agreed>,
}

/// What an acceptor does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AcceptStep {
    /// Reads on.
    More,
    /// Sends this; with no version in common, closes then.
    Welcome { bytes: Vec<u8>, last: bool },
    /// The dialler holds the key: [`Acceptor::judge`] says what becomes of it.
    Proved(Agreed),
}

impl Acceptor {
    pub fn new() -> Acceptor {
        Acceptor { said: Vec::new(), input: Input::new(HELLO_BYTES), agreed: None }
    }

    /// How many bytes to read, at most.
    pub fn wants(&self) -> usize {
        self.input.wants()
    }

    /// Whether a hello for us has come.
    pub fn is_greeted(&self) -> bool {
        self.agreed.is_some()
    }

    /// Takes what was read.
    pub fn take(&mut self, party: &Party<'_>, bytes: &[u8]) -> Result<AcceptStep, Stranger> {
        if self.agreed.is_none() && !self.input.may_begin(HELLO_MAGIC, bytes) {
            return Err(Stranger);
        }
        let Some(message) = self.input.take(bytes) else { return Ok(AcceptStep::More) };
        match self.agreed {
            None => self.greeted(party, &message),
            Some(agreed) if auth::verify(party.key, "tcp dialler", &[&self.said], &message) => {
                self.said.extend_from_slice(&message);
                Ok(AcceptStep::Proved(agreed))
            }
            Some(_) => Err(Stranger),
        }
    }

    fn greeted(&mut self, party: &Party<'_>, message: &[u8]) -> Result<AcceptStep, Stranger> {
        let hello = Hello::read(&mut Fields(message)).ok_or(Stranger)?;
        let reflected = hello.from == party.me && party.me != ANYBODY;
        if hello.job != party.job || hello.to != party.me || reflected {
            return Err(Stranger);
        }
        let version = (*party.versions.end()).min(*hello.versions.end());
        let common = version >= *party.versions.start() && version >= *hello.versions.start();
        let version = if common { version } else { 0 };
        let mut welcome = Vec::with_capacity(WELCOME_BYTES);
        welcome.extend_from_slice(WELCOME_MAGIC);
        welcome.extend_from_slice(&version.to_le_bytes());
        welcome.extend_from_slice(&party.versions.start().to_le_bytes());
        welcome.extend_from_slice(&party.versions.end().to_le_bytes());
        welcome.extend_from_slice(&[0; 2]);
        welcome.extend_from_slice(&party.nonce);
        welcome.extend_from_slice(&party.window.to_le_bytes());
        let proof = auth::prove(party.key, "tcp welcome", &[message, &welcome]);
        welcome.extend_from_slice(&proof);
        self.said.extend_from_slice(message);
        self.said.extend_from_slice(&welcome);
        self.agreed = Some(Agreed { peer: hello.from, version, window: hello.window });
        self.input = Input::new(PROOF_BYTES);
        Ok(AcceptStep::Welcome { bytes: welcome, last: !common })
    }

    /// The last word to a dialler that proved the key: bytes to be sent.
    pub fn judge(&self, key: &JobKey, verdict: Verdict) -> Vec<u8> {
        let mut bytes = vec![verdict as u8, 0, 0, 0, 0, 0, 0, 0];
        let proof = auth::prove(key, "tcp verdict", &[&self.said, &bytes]);
        bytes.extend_from_slice(&proof);
        bytes
    }
}

/// One message of known length, gathered from however many reads.
#[derive(Debug)]
struct Input {
    bytes: Vec<u8>,
    length: usize,
}

impl Input {
    fn new(length: usize) -> Input {
        Input { bytes: Vec::with_capacity(length), length }
    }

    fn wants(&self) -> usize {
        self.length - self.bytes.len()
    }

    /// Whether, with `next`, this can still be a message that begins with `magic`.
    fn may_begin(&self, magic: &[u8], next: &[u8]) -> bool {
        self.bytes.iter().chain(next).zip(magic).all(|(a, b)| a == b)
    }

    /// The whole message, once it is there. Bytes beyond it are not taken.
    fn take(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let n = bytes.len().min(self.wants());
        self.bytes.extend_from_slice(&bytes[..n]);
        (self.wants() == 0).then(|| std::mem::take(&mut self.bytes))
    }
}

struct Hello {
    versions: RangeInclusive<u16>,
    job: JobId,
    from: Peer,
    to: Peer,
    window: u64,
}

impl Hello {
    fn read(fields: &mut Fields<'_>) -> Option<Hello> {
        if fields.next(HELLO_MAGIC.len())? != HELLO_MAGIC {
            return None;
        }
        let versions = fields.versions()?;
        let job = JobId(fields.next(16)?.try_into().ok()?);
        let (from, to) = (Peer(fields.word()?), Peer(fields.word()?));
        let _nonce = fields.next(16)?;
        Some(Hello { versions, job, from, to, window: fields.long()? })
    }
}

struct Welcome {
    version: u16,
    versions: RangeInclusive<u16>,
    window: u64,
}

impl Welcome {
    fn read(fields: &mut Fields<'_>) -> Option<Welcome> {
        if fields.next(WELCOME_MAGIC.len())? != WELCOME_MAGIC {
            return None;
        }
        let version = fields.short()?;
        let versions = fields.versions()?;
        let _unused = fields.next(2)?;
        let _nonce = fields.next(16)?;
        Some(Welcome { version, versions, window: fields.long()? })
    }
}

/// Reads fields one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn next(&mut self, n: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(field)
    }

    fn short(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.next(2)?.try_into().ok()?))
    }

    fn word(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.next(4)?.try_into().ok()?))
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.next(8)?.try_into().ok()?))
    }

    fn versions(&mut self) -> Option<RangeInclusive<u16>> {
        let versions = self.short()?..=self.short()?;
        (!versions.is_empty() && *versions.start() > 0).then_some(versions)
    }
}

#[cfg(test)]
mod tests;
