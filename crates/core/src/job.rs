//! A job: the processes that were started together, the key they share, and where their addresses are found.

use std::fmt;

use crate::boot;

/// Names one run of one parallel program; unguessable, but not secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobId(pub [u8; 16]);

impl JobId {
    /// A fresh, random name.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        fill_random(&mut bytes)?;
        Ok(Self(bytes))
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobId({self})")
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The secret that members of a job prove to hold before anybody talks to them.
#[derive(Clone, PartialEq, Eq)]
pub struct JobKey(pub [u8; 32]);

impl JobKey {
    /// A fresh, random key.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 32];
        fill_random(&mut bytes)?;
        Ok(Self(bytes))
    }
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey(..)")
    }
}

/// What a process knows about the job it belongs to.
#[derive(Debug)]
pub struct Job {
    /// The job's name.
    pub id: JobId,
    /// The job's secret.
    pub key: JobKey,
    /// This process's number, `0 .. size`.
    pub rank: u32,
    /// How many processes the job has.
    pub size: u32,
    /// Where the others' addresses are found.
    pub directory: Directory,
}

/// Where the addresses of the other ranks come from.
#[derive(Debug)]
pub enum Directory {
    /// Nobody else is there.
    Alone,
    /// The launcher, another launcher's PMI, or a rendezvous.
    Boot(boot::Client),
}

/// Fills `bytes` from the kernel's random source.
fn fill_random(bytes: &mut [u8]) -> std::io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(())
}
