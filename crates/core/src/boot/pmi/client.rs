//! The asking half of PMI-1: our programs under MPICH's, Intel's and Slurm's launchers.
//!
//! PMI-1 answers one question at a time, so operations wait in a queue and the first is on the wire. Rank 0 makes the
//! job's key and puts it into the launcher's store, as trustworthy as the launcher itself; cards go there in hex, cut to
//! the launcher's longest value.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use super::super::client::{Client, Event, Spec};
use super::super::frame::{BOOT_BODY_BYTES_MAX, Unit};
use super::super::{BootError, Fill, Layout, Link, LostReason, hex};
use super::Line;
use crate::job::{Directory, Job, JobId, JobKey};

/// Joins the job of the PMI server on `fd`.
pub fn join(fd: OwnedFd, rank: u32, size: u32) -> Result<Job, BootError> {
    let mut pmi = PmiClient::new(fd, rank);
    pmi.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
    let maxes = pmi.ask("cmd=get_maxes", "maxes")?;
    let maxes = Line::parse(&maxes).expect("a reply was parsed before");
    pmi.value_bytes_max = maxes.number("vallen_max").unwrap_or(256).clamp(64, 4096) - 16;
    let reply = pmi.ask("cmd=get_my_kvsname", "my_kvsname")?;
    pmi.space = Line::parse(&reply).and_then(|line| line.get("kvsname")).unwrap_or_default().to_owned();
    let mapping = pmi.get("PMI_process_mapping").ok();
    let layout = mapping.and_then(|text| Layout::from_pmi(&text, size)).unwrap_or_else(|| apart(size));
    let (id, key) = pmi.share_key(size)?;
    let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let spec = Spec { rank, size, layout, host_name };
    Ok(Job {
        id,
        key,
        rank,
        size,
        crowded: false,
        seat: None,
        directory: Directory::Boot(Client::pmi(pmi, spec)),
    })
}

/// Without a mapping nobody is known to share a host.
fn apart(size: u32) -> Layout {
    Layout::new((0..size).map(|rank| (rank, 1)))
}

/// A conversation with a PMI-1 server.
#[derive(Debug)]
pub(in super::super) struct PmiClient {
    link: Link,
    rank: u32,
    space: String,
    value_bytes_max: usize,
    queue: VecDeque<Operation>,
    on_wire: bool,
    published: bool,
    events: VecDeque<Event>,
    partial: BTreeMap<u32, String>,
    barriers_done: u64,
    last_reply: Option<String>,
}

#[derive(Debug, Clone)]
enum Operation {
    Plain { request: String, reply: &'static str },
    Barrier,
    Card { rank: u32, part: usize },
}

impl PmiClient {
    fn new(fd: OwnedFd, rank: u32) -> Self {
        Self {
            link: Link::new(fd, BOOT_BODY_BYTES_MAX),
            rank,
            space: String::new(),
            value_bytes_max: 0,
            queue: VecDeque::new(),
            on_wire: false,
            published: false,
            events: VecDeque::new(),
            partial: BTreeMap::new(),
            barriers_done: 0,
            last_reply: None,
        }
    }

    pub(in super::super) fn fd(&self) -> BorrowedFd<'_> {
        self.link.fd()
    }

    /// Puts the card and meets all other ranks: only after that may anybody ask.
    pub(in super::super) fn publish(&mut self, card: &[u8]) -> Result<(), BootError> {
        let hex = hex::encode(card);
        let parts: Vec<&[u8]> = hex.as_bytes().chunks(self.value_bytes_max).collect();
        for (index, part) in parts.iter().enumerate() {
            let more = if index + 1 < parts.len() { '+' } else { '.' };
            let part = std::str::from_utf8(part).expect("hex is ASCII");
            let (space, rank) = (&self.space, self.rank);
            let request = format!("cmd=put kvsname={space} key=barewire-{rank}-{index} value={more}{part}");
            self.ask(&request, "put_result")?;
        }
        self.barrier(MEETING_TIMEOUT)?;
        self.published = true;
        self.pump()
    }

    pub(in super::super) fn request(&mut self, rank: u32) -> Result<(), BootError> {
        self.queue.push_back(Operation::Card { rank, part: 0 });
        self.pump()
    }

    pub(in super::super) fn poll(&mut self) -> Result<Option<Event>, BootError> {
        if self.events.is_empty() {
            self.pump()?;
        }
        Ok(self.events.pop_front())
    }

    pub(in super::super) fn barrier(&mut self, timeout: Duration) -> Result<(), BootError> {
        let done = self.barriers_done;
        // Cards asked for before publishing wait behind the barrier, which would otherwise wait for them.
        self.queue_before_cards(Operation::Barrier);
        self.pump_until(timeout, "waiting for the other ranks in a PMI barrier", |pmi| {
            pmi.barriers_done > done
        })
    }

    pub(in super::super) fn abort(&mut self, code: i32, message: &str) {
        let words: String =
            message.chars().map(|c| if c.is_ascii_graphic() { c } else { '_' }).take(200).collect();
        self.link.queue(format!("cmd=abort exitcode={code} message={words}\n").as_bytes());
        // The server ends this process; there is nobody left to tell about an error.
        let _ = self.link.flush();
    }

    /// One question and its answer, waiting for it.
    fn ask(&mut self, request: &str, reply: &'static str) -> Result<String, BootError> {
        self.last_reply = None;
        self.queue_before_cards(Operation::Plain { request: request.to_owned(), reply });
        self.pump_until(ANSWER_TIMEOUT, "waiting for the launcher's PMI", |pmi| pmi.last_reply.is_some())?;
        Ok(self.last_reply.take().expect("waited for above"))
    }

    fn get(&mut self, key: &str) -> Result<String, BootError> {
        let request = format!("cmd=get kvsname={} key={key}", self.space);
        let reply = self.ask(&request, "get_result")?;
        let value = Line::parse(&reply).and_then(|line| line.get("value").map(str::to_owned));
        value.ok_or(BootError::Pmi { request, reply })
    }

    /// Rank 0 makes name and key, the others get them.
    fn share_key(&mut self, size: u32) -> Result<(JobId, JobKey), BootError> {
        let random = |source| BootError::Io { doing: "making a key", source };
        if self.rank == 0 {
            let (id, key) = (JobId::random().map_err(random)?, JobKey::random().map_err(random)?);
            let value = hex::encode(&[&id.0[..], &key.0].concat());
            let request = format!("cmd=put kvsname={} key=barewire-job value={value}", self.space);
            self.ask(&request, "put_result")?;
            if size > 1 {
                self.barrier(MEETING_TIMEOUT)?;
            }
            return Ok((id, key));
        }
        self.barrier(MEETING_TIMEOUT)?;
        let value = self.get("barewire-job")?;
        let bytes: Option<[u8; 48]> = hex::decode(&value).and_then(|bytes| bytes.try_into().ok());
        let bytes = bytes.ok_or_else(|| BootError::Pmi { request: "barewire-job".into(), reply: value })?;
        let (id, key) = bytes.split_at(16);
        Ok((
            JobId(id.try_into().expect("sixteen of 48 bytes")),
            JobKey(key.try_into().expect("the other 32 bytes")),
        ))
    }

    fn queue_before_cards(&mut self, operation: Operation) {
        let busy = usize::from(self.on_wire);
        let at = self.queue.iter().skip(busy).position(|op| matches!(op, Operation::Card { .. }));
        self.queue.insert(at.map_or(self.queue.len(), |at| at + busy), operation);
    }

    fn pump_until(
        &mut self,
        timeout: Duration,
        doing: &'static str,
        done: impl Fn(&Self) -> bool,
    ) -> Result<(), BootError> {
        let deadline = Instant::now() + timeout;
        loop {
            self.pump()?;
            if done(self) {
                return Ok(());
            }
            let waited = self.link.wait(Some(deadline)).map_err(|source| BootError::Io { doing, source })?;
            if !waited {
                return Err(BootError::Timeout { doing });
            }
        }
    }

    /// Sends the next question if none is open, and takes the answers that have come.
    fn pump(&mut self) -> Result<(), BootError> {
        loop {
            self.send_next();
            self.link.flush().map_err(|source| BootError::Io { doing: "writing to PMI", source })?;
            while let Some(reply) = self.next_line()? {
                self.answer(&reply)?;
                self.send_next();
            }
            match self.link.fill().map_err(|source| BootError::Io { doing: "reading from PMI", source })? {
                Fill::Some(_) => {}
                Fill::Nothing => return self.link.flush().map(drop).map_err(write_error),
                Fill::Closed => return Err(BootError::Closed),
            }
        }
    }

    fn send_next(&mut self) {
        if self.on_wire {
            return;
        }
        let request = match self.queue.front() {
            None => return,
            Some(Operation::Card { .. }) if !self.published => return,
            Some(Operation::Plain { request, .. }) => format!("{request}\n"),
            Some(Operation::Barrier) => "cmd=barrier_in\n".to_owned(),
            Some(Operation::Card { rank, part }) => {
                format!("cmd=get kvsname={} key=barewire-{rank}-{part}\n", self.space)
            }
        };
        self.link.queue(request.as_bytes());
        self.on_wire = true;
    }

    fn next_line(&mut self) -> Result<Option<String>, BootError> {
        match self.link.next_unit()? {
            Some(Unit::Line(line)) => Ok(Some(String::from_utf8_lossy(line).into_owned())),
            Some(Unit::Frame { .. }) => self.next_line(),
            None => Ok(None),
        }
    }

    fn answer(&mut self, reply: &str) -> Result<(), BootError> {
        let wrong = |request: String| BootError::Pmi { request, reply: reply.to_owned() };
        let line = Line::parse(reply).ok_or_else(|| wrong("a question".into()))?;
        if !self.on_wire {
            return Err(wrong("nothing".into()));
        }
        self.on_wire = false;
        let operation = self.queue.pop_front().expect("what is on the wire is first in the queue");
        match operation {
            Operation::Plain { request, reply: expected } => {
                if line.command() != expected || !line.is_ok() {
                    return Err(wrong(request));
                }
                self.last_reply = Some(reply.to_owned());
            }
            Operation::Barrier => {
                if line.command() != "barrier_out" || !line.is_ok() {
                    return Err(wrong("cmd=barrier_in".into()));
                }
                self.barriers_done += 1;
            }
            Operation::Card { rank, part } => {
                let value = line.get("value").filter(|_| line.is_ok());
                self.card_part(rank, part, value.unwrap_or_default());
            }
        }
        Ok(())
    }

    fn card_part(&mut self, rank: u32, part: usize, value: &str) {
        let known = self.partial.entry(rank).or_default();
        known.push_str(value.get(1..).unwrap_or_default());
        if value.starts_with('+') && part < PARTS_MAX {
            self.queue.push_front(Operation::Card { rank, part: part + 1 });
            return;
        }
        let bytes = self.partial.remove(&rank).as_deref().and_then(hex::decode);
        self.events.push_back(match bytes {
            Some(bytes) if value.starts_with('.') => Event::Card { rank, bytes },
            _ => Event::Lost { rank, reason: LostReason::Left },
        });
    }
}

impl Drop for PmiClient {
    /// Without a farewell the launcher takes this process for dead and ends the job.
    fn drop(&mut self) {
        self.queue.truncate(usize::from(self.on_wire));
        // The process may go either way; the launcher sees its exit status.
        let _ = self.ask("cmd=finalize", "finalize_ack");
    }
}

fn write_error(source: std::io::Error) -> BootError {
    BootError::Io { doing: "writing to PMI", source }
}

/// All ranks must have started by then.
const MEETING_TIMEOUT: Duration = Duration::from_secs(600);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// More parts than the longest card has at the shortest values.
const PARTS_MAX: usize = 64;
