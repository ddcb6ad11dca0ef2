//! The hub: the job's directory, as the launcher keeps it.
//!
//! Ranks publish their address cards, ask for each other's, wait for each other, and are told who is gone. The hub is a
//! state machine: bytes of one rank go in, bytes for some ranks come out. It speaks Barewire's own frames and PMI-1, on
//! the same connection, one process after the other.

use std::collections::BTreeSet;

use super::frame::{BOOT_BODY_BYTES_MAX, FrameError, Unit, split};
use super::message::{LostReason, Reply, Request, VERSION, Welcome};
use super::pmi::server as pmi;
use super::{JobId, JobKey, Layout};

/// Bytes for ranks, in order.
pub type Outbox = Vec<(u32, Vec<u8>)>;

/// The directory of one job.
///
/// ```
/// use barewire_core::boot::{Hub, Layout, Outbox, message::{Request, VERSION}};
/// use barewire_core::job::{JobId, JobKey};
///
/// let mut hub = Hub::new(JobId([1; 16]), JobKey([2; 32]), Layout::single(2), vec!["here".into()]);
/// let mut out = Outbox::new();
/// hub.receive(0, &Request::Card(1).encode(), &mut out)?;
/// assert!(out.is_empty(), "rank 1 has no card yet");
/// hub.receive(1, &Request::Publish(b"at port 4".to_vec()).encode(), &mut out)?;
/// assert_eq!(out[0].0, 0, "rank 0 hears of it now");
/// assert!(out[0].1.ends_with(b"at port 4"));
/// # Ok::<(), barewire_core::boot::frame::FrameError>(())
/// ```
#[derive(Debug)]
pub struct Hub {
    id: JobId,
    key: JobKey,
    layout: Layout,
    host_names: Vec<String>,
    members: Vec<Member>,
    waiting_in_barrier: u32,
    gone: Option<u32>,
    store: pmi::Store,
}

/// What the launcher must act on.
///
/// ```
/// # use barewire_core::boot::{Hub, Layout, Notice, Outbox, message::Request};
/// # use barewire_core::job::{JobId, JobKey};
/// # let mut hub = Hub::new(JobId([1; 16]), JobKey([2; 32]), Layout::single(1), vec!["here".into()]);
/// let said = Request::Stuck("recv from 3".into()).encode();
/// match hub.receive(0, &said, &mut Outbox::new()) {
///     Ok(Some(Notice::Stuck(text))) => assert_eq!(text, "recv from 3"),
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A rank ended the job.
    Abort {
        /// The status it asks for.
        code: i32,
        /// Why.
        message: String,
    },
    /// A rank says what it waits for.
    Stuck(String),
    /// A rank says which wires it uses.
    Wires(String),
    /// A rank said hello.
    Joined,
}

#[derive(Debug, Default)]
struct Member {
    card: Option<Box<[u8]>>,
    /// Who asked for the card before it was there.
    waiting: BTreeSet<u32>,
    lost: Option<LostReason>,
    dialect: Option<Dialect>,
    in_barrier: bool,
    pmi: pmi::Session,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Frames,
    Pmi,
}

impl Hub {
    /// The directory of a job laid out as `layout`, on hosts of these names.
    ///
    /// ```
    /// # use barewire_core::boot::{Hub, Layout, Outbox, message::{Request, VERSION}};
    /// # use barewire_core::job::{JobId, JobKey};
    /// let two_hosts = Layout::new([(0, 1), (1, 1)]);
    /// let mut hub = Hub::new(JobId([1; 16]), JobKey([2; 32]), two_hosts, vec!["ada".into(), "bell".into()]);
    /// let mut out = Outbox::new();
    /// hub.receive(1, &Request::Hello { version: VERSION, nonce: 0, pid: 1 }.encode(), &mut out).unwrap();
    /// assert!(out[0].1.ends_with(b"bell"), "a rank is told the name of its host");
    /// ```
    pub fn new(id: JobId, key: JobKey, layout: Layout, host_names: Vec<String>) -> Self {
        let members = (0..layout.size()).map(|_| Member::default()).collect();
        let store = pmi::Store::new(&id.to_string(), &layout);
        Self { id, key, layout, host_names, members, waiting_in_barrier: 0, gone: None, store }
    }

    /// Takes one unit (a frame or a line, as [`Link::next_raw`](super::Link::next_raw) gives it) from `rank`.
    ///
    /// ```
    /// # use barewire_core::boot::{Hub, Layout, Outbox};
    /// # use barewire_core::job::{JobId, JobKey};
    /// # let mut hub = Hub::new(JobId([1; 16]), JobKey([2; 32]), Layout::single(3), vec!["here".into()]);
    /// let mut out = Outbox::new();
    /// hub.receive(2, b"cmd=get_universe_size\n", &mut out).unwrap();
    /// assert_eq!(out, [(2, b"cmd=universe_size rc=0 size=3\n".to_vec())]);
    /// assert!(hub.receive(3, b"cmd=init\n", &mut out).is_err(), "there is no rank 3");
    /// ```
    pub fn receive(&mut self, rank: u32, raw: &[u8], out: &mut Outbox) -> Result<Option<Notice>, FrameError> {
        if rank as usize >= self.members.len() {
            return Err(FrameError::Malformed { what: "rank" });
        }
        match split(raw, BOOT_BODY_BYTES_MAX)? {
            Some((Unit::Frame { kind, body }, used)) if used == raw.len() => {
                self.request(rank, Request::decode(kind, body)?, out)
            }
            Some((Unit::Line(line), used)) if used == raw.len() => Ok(self.line(rank, line, out)),
            _ => Err(FrameError::Malformed { what: "unit" }),
        }
    }

    /// `rank` is gone. A failure, or a leave, is told to everybody; an ordinary end only to those who ask. Who waits for
    /// the card of one that left waits for the one that takes its place.
    ///
    /// ```
    /// # use barewire_core::boot::{Hub, Layout, LostReason, Outbox, message::{Request, VERSION}};
    /// # use barewire_core::job::{JobId, JobKey};
    /// # let mut hub = Hub::new(JobId([1; 16]), JobKey([2; 32]), Layout::single(3), vec!["here".into()]);
    /// # let hello = Request::Hello { version: VERSION, nonce: 0, pid: 1 }.encode();
    /// # (0..3).for_each(|rank| drop(hub.receive(rank, &hello, &mut Outbox::new())));
    /// let mut out = Outbox::new();
    /// hub.lost(1, LostReason::Exited(0), &mut out);
    /// assert!(out.is_empty(), "it was done");
    /// hub.lost(2, LostReason::Killed(11), &mut out);
    /// assert_eq!(out.len(), 1, "rank 0 is told");
    /// assert_eq!(out[0].0, 0);
    /// ```
    pub fn lost(&mut self, rank: u32, reason: LostReason, out: &mut Outbox) {
        let Some(member) = self.members.get_mut(rank as usize) else { return };
        if member.lost.replace(reason).is_some() {
            return;
        }
        member.card = None;
        let waiting = match reason {
            LostReason::Left => BTreeSet::new(),
            _ => std::mem::take(&mut member.waiting),
        };
        if std::mem::take(&mut member.in_barrier) {
            self.waiting_in_barrier -= 1;
        }
        let reply = Reply::Lost { rank, reason }.encode();
        let hears = |other: &u32| {
            let member = &self.members[*other as usize];
            member.lost.is_none() && member.dialect == Some(Dialect::Frames)
        };
        let size = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        match reason {
            LostReason::Exited(0) => {
                out.extend(waiting.into_iter().filter(hears).map(|other| (other, reply.clone())))
            }
            _ => out.extend((0..size).filter(hears).map(|other| (other, reply.clone()))),
        }
        if reason.is_final() {
            self.gone.get_or_insert(rank);
        }
        self.settle_barrier(out);
    }

    /// Asks every rank that speaks our protocol what it waits for.
    ///
    /// ```
    /// # use barewire_core::boot::{Hub, Layout, Outbox, message::{Request, VERSION}};
    /// # use barewire_core::job::{JobId, JobKey};
    /// # let mut hub = Hub::new(JobId([1; 16]), JobKey([2; 32]), Layout::single(2), vec!["here".into()]);
    /// let hello = Request::Hello { version: VERSION, nonce: 0, pid: 1 }.encode();
    /// hub.receive(1, &hello, &mut Outbox::new()).unwrap();
    /// let mut out = Outbox::new();
    /// hub.ask_for_reports(&mut out);
    /// assert_eq!(out.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(), [1], "rank 0 has not said hello");
    /// ```
    pub fn ask_for_reports(&self, out: &mut Outbox) {
        self.ask(&Reply::Report, out);
    }

    /// Asks every rank that speaks our protocol which wires it uses.
    ///
    /// ```
    /// # use barewire_core::boot::{Hub, Layout, Notice, Outbox, message::{Request, VERSION}};
    /// # use barewire_core::job::{JobId, JobKey};
    /// # let mut hub = Hub::new(JobId([1; 16]), JobKey([2; 32]), Layout::single(1), vec!["here".into()]);
    /// # hub.receive(0, &Request::Hello { version: VERSION, nonce: 0, pid: 1 }.encode(), &mut Outbox::new()).unwrap();
    /// let mut out = Outbox::new();
    /// hub.ask_for_wires(&mut out);
    /// assert_eq!(out.len(), 1);
    /// let answer = Request::Wires("shm: same host\t1-3".into()).encode();
    /// let notice = hub.receive(0, &answer, &mut out).unwrap();
    /// assert_eq!(notice, Some(Notice::Wires("shm: same host\t1-3".into())));
    /// ```
    pub fn ask_for_wires(&self, out: &mut Outbox) {
        self.ask(&Reply::Explain, out);
    }

    fn ask(&self, question: &Reply, out: &mut Outbox) {
        let speaking =
            (0..).zip(&self.members).filter(|(_, m)| m.dialect == Some(Dialect::Frames) && m.lost.is_none());
        out.extend(speaking.map(|(rank, _)| (rank, question.encode())));
    }

    fn request(
        &mut self,
        rank: u32,
        request: Request,
        out: &mut Outbox,
    ) -> Result<Option<Notice>, FrameError> {
        match request {
            Request::Hello { version, nonce, .. } => return Ok(self.hello(rank, version, nonce, out)),
            Request::Publish(card) => self.publish(rank, card, out),
            Request::Card(of) => self.card_request(rank, of, out)?,
            Request::Barrier => self.enter_barrier(rank, out),
            Request::Abort { code, message } => return Ok(Some(Notice::Abort { code, message })),
            Request::Stuck(text) => return Ok(Some(Notice::Stuck(text))),
            Request::Wires(text) => return Ok(Some(Notice::Wires(text))),
            Request::Bye => self.members[rank as usize].dialect = None,
        }
        Ok(None)
    }

    fn hello(&mut self, rank: u32, version: u32, nonce: u64, out: &mut Outbox) -> Option<Notice> {
        if version != VERSION {
            let text = format!(
                "this program's Barewire speaks start-up protocol {version}, the launcher's {VERSION}; \
                 rebuild the program or use the launcher of the same release"
            );
            out.push((rank, Reply::Refused(text).encode()));
            return None;
        }
        let host = self.layout.host_of(rank).unwrap_or(0);
        let member = &mut self.members[rank as usize];
        member.card = None;
        member.lost = None;
        member.dialect = Some(Dialect::Frames);
        let welcome = Welcome {
            nonce,
            id: self.id,
            key: self.key.clone(),
            rank,
            size: self.layout.size(),
            host_name: self.host_names.get(host as usize).cloned().unwrap_or_default(),
        };
        let mut bytes = Reply::encode_layout(&self.layout);
        bytes.extend(Reply::Welcome(Box::new(welcome)).encode());
        bytes.extend(self.failures().flat_map(|reply| reply.encode()));
        out.push((rank, bytes));
        Some(Notice::Joined)
    }

    /// The ranks that failed so far, for one who comes late.
    fn failures(&self) -> impl Iterator<Item = Reply> + '_ {
        let lost = (0..).zip(&self.members).filter_map(|(rank, member)| Some((rank, member.lost?)));
        lost.filter(|(_, reason)| reason.is_final()).map(|(rank, reason)| Reply::Lost { rank, reason })
    }

    fn publish(&mut self, rank: u32, card: Vec<u8>, out: &mut Outbox) {
        let member = &mut self.members[rank as usize];
        let reply = Reply::Card { rank, bytes: card.clone() }.encode();
        member.card = Some(card.into());
        out.extend(std::mem::take(&mut member.waiting).into_iter().map(|other| (other, reply.clone())));
    }

    fn card_request(&mut self, rank: u32, of: u32, out: &mut Outbox) -> Result<(), FrameError> {
        let member =
            self.members.get_mut(of as usize).ok_or(FrameError::Malformed { what: "card request" })?;
        match (&member.lost, &member.card) {
            (Some(reason), _) if *reason != LostReason::Left => {
                out.push((rank, Reply::Lost { rank: of, reason: *reason }.encode()))
            }
            (_, Some(card)) => out.push((rank, Reply::Card { rank: of, bytes: card.to_vec() }.encode())),
            (_, None) => {
                member.waiting.insert(rank);
            }
        }
        Ok(())
    }

    fn line(&mut self, rank: u32, line: &[u8], out: &mut Outbox) -> Option<Notice> {
        let member = &mut self.members[rank as usize];
        member.dialect = Some(Dialect::Pmi);
        match member.pmi.line(line, &mut self.store, self.layout.size()) {
            pmi::Answer::Nothing => {}
            pmi::Answer::Line(text) => out.push((rank, text.into_bytes())),
            pmi::Answer::Barrier => self.enter_barrier(rank, out),
            pmi::Answer::Abort { code, message } => return Some(Notice::Abort { code, message }),
        }
        None
    }

    fn enter_barrier(&mut self, rank: u32, out: &mut Outbox) {
        let member = &mut self.members[rank as usize];
        if !std::mem::replace(&mut member.in_barrier, true) {
            self.waiting_in_barrier += 1;
        }
        self.settle_barrier(out);
    }

    /// Lets the barrier go when all are in it, or breaks it when somebody will never come.
    fn settle_barrier(&mut self, out: &mut Outbox) {
        if self.waiting_in_barrier == 0 {
            return;
        }
        let broken = self.gone;
        if broken.is_none() && self.waiting_in_barrier < self.layout.size() {
            return;
        }
        for (rank, member) in (0..).zip(&mut self.members) {
            if !std::mem::take(&mut member.in_barrier) {
                continue;
            }
            let reply = match (member.dialect, broken) {
                (Some(Dialect::Pmi), _) => pmi::barrier_out(broken.is_none()).into_bytes(),
                (_, None) => Reply::BarrierDone.encode(),
                (_, Some(rank)) => Reply::BarrierBroken { rank }.encode(),
            };
            out.push((rank, reply));
        }
        self.waiting_in_barrier = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(size: u32) -> Hub {
        Hub::new(JobId([1; 16]), JobKey([2; 32]), Layout::single(size), vec!["here".into()])
    }

    fn say(hub: &mut Hub, rank: u32, request: &Request) -> Vec<(u32, Reply)> {
        let mut out = Outbox::new();
        hub.receive(rank, &request.encode(), &mut out).unwrap();
        replies(out)
    }

    fn replies(out: Outbox) -> Vec<(u32, Reply)> {
        let mut replies = Vec::new();
        for (rank, mut bytes) in out {
            while let Some((Unit::Frame { kind, body }, used)) = split(&bytes, BOOT_BODY_BYTES_MAX).unwrap() {
                replies.push((rank, Reply::decode(kind, body).unwrap()));
                bytes.drain(..used);
            }
        }
        replies
    }

    const HELLO: Request = Request::Hello { version: VERSION, nonce: 9, pid: 1 };

    #[test]
    fn a_hello_is_answered_with_layout_and_welcome() {
        let answer = say(&mut hub(3), 1, &HELLO);
        let [(1, Reply::Layout(_)), (1, Reply::Welcome(welcome))] = &answer[..] else { panic!("{answer:?}") };
        assert_eq!((welcome.rank, welcome.size, welcome.nonce), (1, 3, 9));
        assert_eq!(welcome.host_name, "here");
    }

    #[test]
    fn another_version_is_refused_with_words() {
        let answer = say(&mut hub(1), 0, &Request::Hello { version: 99, nonce: 9, pid: 1 });
        assert!(matches!(&answer[..], [(0, Reply::Refused(text))] if text.contains("99")), "{answer:?}");
    }

    #[test]
    fn a_card_asked_for_early_arrives_when_it_is_published() {
        let mut hub = hub(3);
        assert_eq!(say(&mut hub, 0, &Request::Card(2)), []);
        assert_eq!(say(&mut hub, 0, &Request::Card(2)), []);
        let card = Reply::Card { rank: 2, bytes: b"here".to_vec() };
        assert_eq!(say(&mut hub, 2, &Request::Publish(b"here".to_vec())), [(0, card.clone())]);
        assert_eq!(say(&mut hub, 1, &Request::Card(2)), [(1, card)]);
    }

    #[test]
    fn a_failure_is_told_to_all_and_an_ordinary_end_to_those_who_ask() {
        let mut hub = hub(4);
        (0..3).for_each(|rank| drop(say(&mut hub, rank, &HELLO)));
        let mut out = Outbox::new();
        hub.lost(3, LostReason::Exited(0), &mut out);
        assert_eq!(replies(std::mem::take(&mut out)), []);
        let gone = Reply::Lost { rank: 3, reason: LostReason::Exited(0) };
        assert_eq!(say(&mut hub, 0, &Request::Card(3)), [(0, gone)]);
        hub.lost(2, LostReason::Killed(9), &mut out);
        let killed = Reply::Lost { rank: 2, reason: LostReason::Killed(9) };
        assert_eq!(replies(out), [(0, killed.clone()), (1, killed)]);
    }

    #[test]
    fn a_rank_that_left_is_waited_for_and_may_come_again() {
        let mut hub = hub(2);
        say(&mut hub, 0, &HELLO);
        say(&mut hub, 1, &HELLO);
        say(&mut hub, 1, &Request::Publish(b"old".to_vec()));
        let mut out = Outbox::new();
        hub.lost(1, LostReason::Left, &mut out);
        assert_eq!(replies(out), [(0, Reply::Lost { rank: 1, reason: LostReason::Left })]);
        assert_eq!(say(&mut hub, 0, &Request::Card(1)), []);
        say(&mut hub, 1, &HELLO);
        let card = Reply::Card { rank: 1, bytes: b"new".to_vec() };
        assert_eq!(say(&mut hub, 1, &Request::Publish(b"new".to_vec())), [(0, card)]);
    }

    #[test]
    fn one_who_comes_late_hears_of_earlier_failures() {
        let mut hub = hub(3);
        hub.lost(1, LostReason::Killed(9), &mut Outbox::new());
        hub.lost(2, LostReason::Exited(0), &mut Outbox::new());
        let answer = say(&mut hub, 0, &HELLO);
        assert_eq!(answer[2..], [(0, Reply::Lost { rank: 1, reason: LostReason::Killed(9) })]);
    }

    #[test]
    fn a_barrier_waits_for_all_and_breaks_when_one_is_lost() {
        let mut hub = hub(2);
        assert_eq!(say(&mut hub, 0, &Request::Barrier), []);
        assert_eq!(say(&mut hub, 1, &Request::Barrier), [(0, Reply::BarrierDone), (1, Reply::BarrierDone)]);
        assert_eq!(say(&mut hub, 0, &Request::Barrier), []);
        let mut out = Outbox::new();
        hub.lost(1, LostReason::HostLost, &mut out);
        assert_eq!(replies(out), [(0, Reply::BarrierBroken { rank: 1 })]);
    }

    #[test]
    fn four_thousand_ranks_cost_bytes_in_proportion() {
        const SIZE: u32 = 4096;
        let mut hub = hub(SIZE);
        let (mut out, mut bytes) = (Outbox::new(), 0);
        let mut say = |hub: &mut Hub, rank: u32, request: &Request| {
            hub.receive(rank, &request.encode(), &mut out).unwrap();
            bytes += out.drain(..).map(|(_, bytes)| bytes.len()).sum::<usize>();
        };
        for rank in 0..SIZE {
            say(&mut hub, rank, &HELLO);
            say(&mut hub, rank, &Request::Publish(vec![0; 200]));
            say(&mut hub, rank, &Request::Card((rank + 1) % SIZE));
            say(&mut hub, rank, &Request::Card((rank + SIZE - 1) % SIZE));
        }
        (0..SIZE).for_each(|rank| say(&mut hub, rank, &Request::Barrier));
        for rank in 0..SIZE {
            hub.lost(rank, LostReason::Exited(0), &mut out);
        }
        assert_eq!(out, []);
        assert!(bytes < SIZE as usize * 1000, "{bytes} bytes for {SIZE} ranks");
    }

    #[test]
    fn requests_about_ranks_that_do_not_exist_are_errors() {
        let mut hub = hub(2);
        let mut out = Outbox::new();
        assert!(hub.receive(0, &Request::Card(2).encode(), &mut out).is_err());
        assert!(hub.receive(2, &Request::Barrier.encode(), &mut out).is_err());
        assert!(hub.receive(0, b"\xba", &mut out).is_err());
    }
}
