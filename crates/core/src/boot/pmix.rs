//! PMIx: our programs under Open MPI's `mpirun`, PRRTE, and Slurm's `srun --mpi=pmix`.
//!
//! As under PMI-1, rank 0 makes the job's key and puts it into the launcher's store, all meet, and everybody gets it.
//! Cards go there too; one is fetched when it is first needed.

use std::collections::VecDeque;
use std::time::Duration;

use barewire_sys::pmix::{Pmix, PmixError, Value, key};

use super::client::{Client, Event, Spec};
use super::{BootError, Layout, LostReason};
use crate::job::{Directory, Job, JobId, JobKey};

/// Joins the job of the PMIx server that the environment names.
pub(super) fn join() -> Result<Job, BootError> {
    let pmix = Pmix::init()?;
    let rank = pmix.rank();
    let size = match pmix.get(None, key::JOB_SIZE, ANSWER_SECONDS)? {
        Some(Value::Number(size)) => u32::try_from(size).ok().filter(|&size| rank < size),
        _ => None,
    };
    let size = size.ok_or(BootError::Pmix { doing: "the size of the job is missing or below its ranks" })?;
    let (id, key) = share_key(&pmix, size)?;
    let layout = layout(&pmix, size)?;
    let host_name = match pmix.get(Some(rank), key::HOST_NAME, ANSWER_SECONDS)? {
        Some(Value::Text(name)) => name,
        _ => rustix::system::uname().nodename().to_string_lossy().into_owned(),
    };
    let spec = Spec { rank, size, layout, host_name };
    let line = PmixClient { pmix, events: VecDeque::new() };
    Ok(Job {
        id,
        key,
        rank,
        size,
        crowded: false,
        seat: None,
        directory: Directory::Boot(Client::pmix(line, spec)),
    })
}

/// A line to a PMIx server.
#[derive(Debug)]
pub(super) struct PmixClient {
    pmix: Pmix,
    events: VecDeque<Event>,
}

impl PmixClient {
    /// Puts the card and meets all other ranks: after that everybody may ask.
    pub(super) fn publish(&mut self, card: &[u8]) -> Result<(), BootError> {
        self.pmix.put(CARD, card)?;
        Ok(self.pmix.commit_and_meet(MEETING_SECONDS)?)
    }

    /// Fetches a card from the launcher, which has it on this host or gets it from the rank's.
    pub(super) fn request(&mut self, rank: u32) -> Result<(), BootError> {
        let event = match self.pmix.get(Some(rank), CARD, ANSWER_SECONDS)? {
            Some(Value::Bytes(bytes)) => Event::Card { rank, bytes },
            _ => Event::Lost { rank, reason: LostReason::Left },
        };
        self.events.push_back(event);
        Ok(())
    }

    pub(super) fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(super) fn barrier(&mut self, timeout: Duration) -> Result<(), BootError> {
        let seconds = u32::try_from(timeout.as_secs()).unwrap_or(MEETING_SECONDS).max(1);
        Ok(self.pmix.commit_and_meet(seconds)?)
    }

    pub(super) fn abort(&self, code: i32, message: &str) {
        self.pmix.abort(code, message);
    }
}

/// Rank 0 makes name and key, the others get them.
fn share_key(pmix: &Pmix, size: u32) -> Result<(JobId, JobKey), BootError> {
    let random = |source| BootError::Io { doing: "making a key", source };
    if pmix.rank() == 0 {
        let (id, key) = (JobId::random().map_err(random)?, JobKey::random().map_err(random)?);
        pmix.put(JOB, &[&id.0[..], &key.0].concat())?;
        if size > 1 {
            pmix.commit_and_meet(MEETING_SECONDS)?;
        }
        return Ok((id, key));
    }
    pmix.commit_and_meet(MEETING_SECONDS)?;
    let shared = match pmix.get(Some(0), JOB, ANSWER_SECONDS)? {
        Some(Value::Bytes(bytes)) => <[u8; 48]>::try_from(bytes).ok(),
        _ => None,
    };
    let shared = shared.ok_or(BootError::Pmix { doing: "rank 0 left no key for the job" })?;
    let (id, key) = shared.split_at(16);
    Ok((
        JobId(id.try_into().expect("sixteen of 48 bytes")),
        JobKey(key.try_into().expect("the other 32 bytes")),
    ))
}

/// Which rank is on which host, as far as the launcher says so.
fn layout(pmix: &Pmix, size: u32) -> Result<Layout, BootError> {
    let mut nodes = Vec::new();
    for rank in 0..size {
        match pmix.get(Some(rank), key::NODE_ID, ANSWER_SECONDS)? {
            Some(Value::Number(node)) => nodes.push(u32::try_from(node).unwrap_or(u32::MAX - 1)),
            _ => break,
        }
    }
    if nodes.len() == size as usize {
        return Ok(Layout::new(nodes.into_iter().map(|node| (node, 1))));
    }
    let local = match pmix.get(None, key::LOCAL_PEERS, ANSWER_SECONDS)? {
        Some(Value::Text(ranks)) => ranks,
        _ => pmix.rank().to_string(),
    };
    Ok(neighbours(&local, size))
}

/// A layout that knows only who is here.
fn neighbours(local: &str, size: u32) -> Layout {
    let here: Vec<u32> = local.split(',').filter_map(|rank| rank.trim().parse().ok()).collect();
    Layout::new((0..size).map(|rank| (if here.contains(&rank) { 0 } else { rank.saturating_add(1) }, 1)))
}

impl From<PmixError> for BootError {
    fn from(error: PmixError) -> Self {
        BootError::PmixCall { error }
    }
}

const JOB: &str = "barewire.job";
const CARD: &str = "barewire.card";
/// All ranks must have started by then.
const MEETING_SECONDS: u32 = 600;
const ANSWER_SECONDS: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_said_to_be_here_is_elsewhere() {
        let layout = neighbours("1, 3,x", 4);
        assert_eq!(layout.ranks_on(0).collect::<Vec<_>>(), [1, 3]);
        assert_eq!((layout.size(), layout.host_of(2)), (4, Some(3)));
    }
}
