//! The client's side of our own protocol.

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use super::client::{Client, Event, Spec};
use super::frame::{BOOT_BODY_BYTES_MAX, FrameError, Unit};
use super::message::{Reply, Request, VERSION, Welcome};
use super::{BootError, Fill, Layout, Link};
use crate::job::{Directory, Job, JobId};

/// Says hello on `fd` and becomes the rank the launcher names.
pub(super) fn join(fd: OwnedFd) -> Result<Job, BootError> {
    let mut line = WireClient::new(fd);
    let (welcome, layout) = line.hello(START_TIMEOUT)?;
    let spec = Spec { rank: welcome.rank, size: welcome.size, layout, host_name: welcome.host_name };
    Ok(Job {
        id: welcome.id,
        key: welcome.key,
        rank: spec.rank,
        size: spec.size,
        crowded: false,
        seat: None,
        directory: Directory::Boot(Client::wire(line, spec)),
    })
}

/// A connection to a [`Hub`](super::Hub).
#[derive(Debug)]
pub(super) struct WireClient {
    link: Link,
    events: VecDeque<Event>,
    barrier: Option<Result<(), u32>>,
    closed: bool,
}

impl WireClient {
    fn new(fd: OwnedFd) -> Self {
        Self {
            link: Link::new(fd, BOOT_BODY_BYTES_MAX),
            events: VecDeque::new(),
            barrier: None,
            closed: false,
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.link.fd()
    }

    pub(super) fn publish(&mut self, card: &[u8]) -> Result<(), BootError> {
        self.say(&Request::Publish(card.to_vec()))
    }

    pub(super) fn request(&mut self, rank: u32) -> Result<(), BootError> {
        self.say(&Request::Card(rank))
    }

    pub(super) fn poll(&mut self) -> Result<Option<Event>, BootError> {
        if let Some(event) = self.events.pop_front() {
            return Ok(Some(event));
        }
        if self.closed {
            return Err(BootError::Closed);
        }
        self.flush()?;
        self.receive()?;
        Ok(self.events.pop_front())
    }

    pub(super) fn barrier(&mut self, timeout: Duration) -> Result<(), BootError> {
        self.say(&Request::Barrier)?;
        self.wait_for(timeout, "waiting for the other ranks in a barrier", |client| client.barrier.take())?
            .map_err(|rank| BootError::Broken { rank })
    }

    pub(super) fn abort(&mut self, code: i32, message: &str) {
        let said = self.say(&Request::Abort { code, message: message.to_owned() });
        if said.is_ok() {
            self.drain_outgoing();
        }
    }

    pub(super) fn report_stuck(&mut self, text: &str) {
        // The report is for people; a launcher that is gone prints none.
        let _ = self.say(&Request::Stuck(text.to_owned()));
    }

    pub(super) fn report_wires(&mut self, text: &str) {
        // As above.
        let _ = self.say(&Request::Wires(text.to_owned()));
    }

    /// Says hello and waits for the welcome that answers it; whatever comes before was for an earlier process.
    fn hello(&mut self, timeout: Duration) -> Result<(Welcome, Layout), BootError> {
        let random = JobId::random().map_err(|source| BootError::Io { doing: "making a nonce", source })?;
        let nonce = u64::from_le_bytes(random.0[..8].try_into().expect("eight of sixteen bytes"));
        self.say(&Request::Hello { version: VERSION, nonce, pid: std::process::id() })?;
        let deadline = Instant::now() + timeout;
        let mut layout = Layout::default();
        loop {
            while let Some(reply) = self.next_reply()? {
                match reply {
                    Reply::Layout(body) => layout.read_more(&body)?,
                    Reply::Welcome(welcome) if welcome.nonce == nonce => {
                        return checked(*welcome, layout);
                    }
                    Reply::Welcome(_) => layout = Layout::default(),
                    Reply::Refused(text) => return Err(BootError::Refused { text }),
                    _ => {}
                }
            }
            self.wait_until(deadline, "waiting for the launcher's welcome")?;
        }
    }

    fn say(&mut self, request: &Request) -> Result<(), BootError> {
        self.link.queue(&request.encode());
        self.flush()
    }

    fn flush(&mut self) -> Result<(), BootError> {
        match self.link.flush() {
            Ok(_) => Ok(()),
            Err(error) if is_hangup(&error) => Err(BootError::Closed),
            Err(source) => Err(BootError::Io { doing: "writing to the launcher", source }),
        }
    }

    fn receive(&mut self) -> Result<(), BootError> {
        loop {
            while let Some(reply) = self.next_reply()? {
                match reply {
                    Reply::Card { rank, bytes } => self.events.push_back(Event::Card { rank, bytes }),
                    Reply::Lost { rank, reason } => self.events.push_back(Event::Lost { rank, reason }),
                    Reply::Report => self.events.push_back(Event::Report),
                    Reply::Explain => self.events.push_back(Event::Explain),
                    Reply::BarrierDone => self.barrier = Some(Ok(())),
                    Reply::BarrierBroken { rank } => self.barrier = Some(Err(rank)),
                    Reply::Refused(text) => return Err(BootError::Refused { text }),
                    Reply::Layout(_) | Reply::Welcome(_) => {}
                }
            }
            match self.link.fill() {
                Ok(Fill::Some(_)) => {}
                Ok(Fill::Nothing) => return Ok(()),
                Ok(Fill::Closed) => return self.hangup(),
                Err(error) if is_hangup(&error) => return self.hangup(),
                Err(source) => return Err(BootError::Io { doing: "reading from the launcher", source }),
            }
        }
    }

    /// Events that came before the end are still delivered.
    fn hangup(&mut self) -> Result<(), BootError> {
        self.closed = true;
        if self.events.is_empty() && self.barrier.is_none() { Err(BootError::Closed) } else { Ok(()) }
    }

    fn next_reply(&mut self) -> Result<Option<Reply>, FrameError> {
        loop {
            match self.link.next_unit()? {
                None => return Ok(None),
                Some(Unit::Frame { kind, body }) => return Reply::decode(kind, body).map(Some),
                // The tail of a PMI conversation that an earlier process had.
                Some(Unit::Line(_)) => {}
            }
        }
    }

    fn wait_for<T>(
        &mut self,
        timeout: Duration,
        doing: &'static str,
        mut ready: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, BootError> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(value) = ready(self) {
                return Ok(value);
            }
            if self.closed {
                return Err(BootError::Closed);
            }
            self.wait_until(deadline, doing)?;
            self.receive()?;
        }
    }

    /// Waits for bytes and reads them.
    fn wait_until(&mut self, deadline: Instant, doing: &'static str) -> Result<(), BootError> {
        let io = |source| BootError::Io { doing, source };
        self.flush()?;
        if !self.link.wait(Some(deadline)).map_err(io)? {
            return Err(BootError::Timeout { doing });
        }
        match self.link.fill().map_err(io)? {
            Fill::Closed => self.hangup(),
            Fill::Some(_) | Fill::Nothing => Ok(()),
        }
    }

    /// Gives last words a moment to leave.
    fn drain_outgoing(&mut self) {
        let deadline = Instant::now() + LAST_WORDS_TIMEOUT;
        while let Ok(false) = self.link.flush() {
            if !self.link.wait(Some(deadline)).unwrap_or(false) {
                return;
            }
        }
    }
}

impl Drop for WireClient {
    fn drop(&mut self) {
        if !self.closed && self.say(&Request::Bye).is_ok() {
            self.drain_outgoing();
        }
    }
}

/// Refuses a welcome that contradicts itself.
fn checked(welcome: Welcome, layout: Layout) -> Result<(Welcome, Layout), BootError> {
    if welcome.rank >= welcome.size || layout.size() != welcome.size {
        return Err(FrameError::Malformed { what: "welcome" }.into());
    }
    Ok((welcome, layout))
}

fn is_hangup(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut};
    matches!(error.kind(), BrokenPipe | ConnectionReset | ConnectionAborted | TimedOut)
}

/// How long a launcher may take to answer a hello.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(60);
const LAST_WORDS_TIMEOUT: Duration = Duration::from_millis(500);
