//! Collective operations: barrier, broadcast, reduction, gathering and exchange over a group of ranks.
//!
//! Each is a few letters along a tree, named by the group, by which of its operations it is, and by the step. Reductions combine in
//! an order that depends on the ranks alone, so a sum of floats is the same in every run. A member that fails tells the whole
//! group, so that nobody waits for a letter that will never be written.

use barewire_core::wait::Waiting;
use barewire_core::{Deliver, Endpoint, Peer, SendError, Sending};
use zerocopy::IntoBytes;

use super::mail::{ALL, BROKEN, Break, LETTER, Mail};
use super::{Error, Plain, World};

/// Ranks that act together: `size` of them, every `stride`th from `start` on.
///
/// ```
/// # use barewire::spmd::{self, Quiet, World};
/// # spmd::launch(&[3], |endpoint| {
/// # let mut world = World::new(endpoint, Quiet);
/// # let (all, me) = (world.all(), world.rank());
/// let rim = world.split(all, 0, 2, 2)?;
/// if rim.index(me).is_some() {
///     let mut sum = [me];
///     world.reduce(rim, &mut sum, |a, b| a + b)?;
///     assert_eq!(sum, [0 + 2]);
/// }
/// # Ok::<_, spmd::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    start: u32,
    stride: u32,
    size: u32,
    /// What its letters are marked with.
    mark: u64,
}

/// Bits of a letter's tag below the group's mark: which of the group's operations, and which step of it.
const TURN_BITS: u32 = 19;
const STEP_BITS: u32 = 8;
/// Marks of groups that are known by their shape alone.
const SHAPE: u64 = 1 << 36;

impl Group {
    /// The ranks `start`, `start + 2^log_stride`, and so on, `size` of them. It needs no agreement: groups of the same shape are
    /// the same group. `None` if there can be no such group.
    ///
    /// ```
    /// use barewire::spmd::Group;
    /// let odd = Group::strided(1, 1, 4).unwrap();
    /// assert_eq!((0..4).map(|i| odd.rank(i).unwrap()).collect::<Vec<_>>(), [1, 3, 5, 7]);
    /// assert_eq!((odd.index(5), odd.index(4), odd.index(9)), (Some(2), None, None));
    /// ```
    pub fn strided(start: u32, log_stride: u32, size: u32) -> Option<Group> {
        if size == 0 || start >= 1 << 16 || size >= 1 << 16 || log_stride >= 16 {
            return None;
        }
        let mark = SHAPE | u64::from(start) << 20 | u64::from(log_stride) << 16 | u64::from(size);
        Some(Group { start, stride: 1 << log_stride, size, mark })
    }

    /// How many members it has.
    ///
    /// ```
    /// use barewire::spmd::Group;
    /// assert_eq!(Group::strided(4, 0, 6).unwrap().size(), 6); // ranks 4 to 9
    /// ```
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The rank of a member.
    ///
    /// ```
    /// use barewire::spmd::Group;
    /// let every_fourth = Group::strided(2, 2, 3).unwrap();
    /// assert_eq!((every_fourth.rank(1), every_fourth.rank(3)), (Some(6), None));
    /// ```
    pub fn rank(&self, index: u32) -> Option<u32> {
        (index < self.size).then(|| self.start + index * self.stride)
    }

    /// Which member a rank is.
    ///
    /// ```
    /// use barewire::spmd::Group;
    /// let every_fourth = Group::strided(2, 2, 3).unwrap();
    /// assert_eq!((every_fourth.index(10), every_fourth.index(9)), (Some(2), None));
    /// ```
    pub fn index(&self, rank: u32) -> Option<u32> {
        let steps = rank.checked_sub(self.start)?;
        (steps % self.stride == 0 && steps / self.stride < self.size).then_some(steps / self.stride)
    }
}

/// A step on which letters of one collective differ.
type Step = u32;

/// One collective in the making: who we are in it, and what its letters are marked with.
#[derive(Clone, Copy, Debug)]
struct Turn {
    group: Group,
    me: u32,
    /// Which of the group's operations it is.
    count: u64,
    tag: u64,
}

impl Turn {
    fn peer(&self, index: u32) -> Peer {
        Peer(self.group.start + index * self.group.stride)
    }

    fn tag(&self, step: Step) -> u64 {
        self.tag | u64::from(step)
    }
}

impl<L: Deliver> World<L> {
    /// The group of all ranks.
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// assert_eq!((world.all().size(), world.all().index(me)), (3, Some(me)));
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn all(&self) -> Group {
        Group { start: 0, stride: 1, size: self.size(), mark: ALL }
    }

    /// A group of some of a group's members: `size` of them, every `stride`th from member `start` on. All members of the parent call it,
    /// each with the group it will be in, or with a shape it is not in. Groups made by the same call must not overlap.
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[4], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// let (row, member) = (me / 2, me % 2);
    /// let mine = world.split(all, row * 2, 1, 2)?; // two rows of two ranks
    /// assert_eq!(mine.index(me), Some(member));
    /// assert_eq!(mine.rank(0), Some(row * 2));
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn split(&mut self, parent: Group, start: u32, stride: u32, size: u32) -> Result<Group, Error> {
        let mut next = [self.next_group];
        self.reduce(parent, &mut next, Ord::max)?;
        let last = size.checked_sub(1).and_then(|last| last.checked_mul(stride)?.checked_add(start));
        self.next_group = next[0] + 1;
        match last {
            Some(last) if stride > 0 && last < parent.size => Ok(Group {
                start: parent.start + start * parent.stride,
                stride: parent.stride * stride,
                size,
                mark: next[0] % SHAPE,
            }),
            _ => Err(Error::Mismatch("the parent has no such members")),
        }
    }

    /// Returns when all members have called it.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// let arrived = AtomicU32::new(0);
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// arrived.fetch_add(1, Ordering::SeqCst);
    /// world.barrier(all)?;
    /// assert_eq!(arrived.load(Ordering::SeqCst), 3); // nobody is here before all have come
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn barrier(&mut self, group: Group) -> Result<(), Error> {
        let turn = self.turn(group)?;
        let mut distance = 1;
        let mut step = 0;
        while distance < group.size {
            let to = turn.peer((turn.me + distance) % group.size);
            let from = turn.peer((turn.me + group.size - distance) % group.size);
            self.mail_to(turn, step, Some((to, &[])), Some(from))?;
            (distance, step) = (distance * 2, step + 1);
        }
        Ok(())
    }

    /// What member `root` has in `values` is in everybody's.
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// let mut limits = if me == 1 { [2.5, 7.5] } else { [0.0; 2] };
    /// world.broadcast(all, 1, &mut limits)?;
    /// assert_eq!(limits, [2.5, 7.5]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn broadcast<T: Plain>(&mut self, group: Group, root: u32, values: &mut [T]) -> Result<(), Error> {
        let mut bytes = values.as_bytes().to_vec();
        self.broadcast_bytes(group, root, &mut bytes)?;
        fill(values, &bytes)
    }

    /// [`World::broadcast`] of bytes whose number only the root knows.
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// let mut line = if me == 0 { b"mesh.dat".to_vec() } else { Vec::new() };
    /// world.broadcast_bytes(all, 0, &mut line)?;
    /// assert_eq!(line, b"mesh.dat");
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn broadcast_bytes(&mut self, group: Group, root: u32, bytes: &mut Vec<u8>) -> Result<(), Error> {
        if root >= group.size {
            return Err(Error::NoSuchRank { rank: root, size: group.size });
        }
        let turn = self.turn(group)?;
        // As if the root were member 0.
        let me = (turn.me + group.size - root) % group.size;
        let real = |index: u32| turn.peer((index + root) % group.size);
        let mut reach = group.size.next_power_of_two();
        if me != 0 {
            let lowest = me & me.wrapping_neg();
            *bytes = self.mail_to(turn, 0, None, Some(real(me - lowest)))?;
            reach = lowest;
        }
        while reach > 1 {
            reach /= 2;
            if me + reach < group.size {
                self.mail_to(turn, 0, Some((real(me + reach), bytes)), None)?;
            }
        }
        Ok(())
    }

    /// Combines everybody's `values`, place by place, into everybody's. `combine` must be associative.
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[4], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// let mut lowest_and = [10 - me, 100 + me];
    /// world.reduce(all, &mut lowest_and, Ord::min)?;
    /// assert_eq!(lowest_and, [7, 100]); // place by place
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn reduce<T: Plain>(
        &mut self,
        group: Group,
        values: &mut [T],
        combine: impl Fn(T, T) -> T,
    ) -> Result<(), Error> {
        let turn = self.turn(group)?;
        let mut other = values.to_vec();
        let mut distance = 1;
        while distance < group.size && turn.me % (2 * distance) == 0 {
            if turn.me + distance < group.size {
                let bytes = self.mail_to(turn, 0, None, Some(turn.peer(turn.me + distance)))?;
                let filled = fill(&mut other, &bytes);
                self.or_give_up(turn, filled)?;
                values.iter_mut().zip(&other).for_each(|(a, &b)| *a = combine(*a, b));
            }
            distance *= 2;
        }
        if turn.me > 0 {
            let to = turn.peer(turn.me - (turn.me & turn.me.wrapping_neg()));
            self.mail_to(turn, 0, Some((to, values.as_bytes())), None)?;
        }
        self.broadcast(group, 0, values)
    }

    /// Everybody's bytes, in the order of members, at everybody.
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// let mine = vec![b'x'; me as usize]; // none, one, two
    /// assert_eq!(world.gather_all(all, &mine)?, [&b""[..], b"x", b"xx"]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn gather_all(&mut self, group: Group, mine: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let turn = self.turn(group)?;
        let mut all = Vec::new();
        append(&mut all, mine);
        let mut distance = 1;
        while distance < group.size && turn.me % (2 * distance) == 0 {
            if turn.me + distance < group.size {
                all.extend(self.mail_to(turn, 0, None, Some(turn.peer(turn.me + distance)))?);
            }
            distance *= 2;
        }
        if turn.me > 0 {
            let to = turn.peer(turn.me - (turn.me & turn.me.wrapping_neg()));
            self.mail_to(turn, 0, Some((to, &all)), None)?;
        }
        self.broadcast_bytes(group, 0, &mut all)?;
        let (mut parts, mut rest) = (Vec::with_capacity(group.size as usize), all.as_slice());
        while let Some((part, after)) = first(rest) {
            parts.push(part.to_vec());
            rest = after;
        }
        if parts.len() != group.size as usize {
            return Err(Error::Mismatch("what was gathered is not one part for each member"));
        }
        Ok(parts)
    }

    /// Gives part `i` of `mine` to member `i`, and returns what each member gave to us.
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// let parts: [&[u8]; 2] = if me == 0 { [b"a", b"bc"] } else { [b"def", b""] };
    /// let came = world.exchange(all, &parts)?;
    /// assert_eq!(came, if me == 0 { [&b"a"[..], b"def"] } else { [&b"bc"[..], b""] });
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn exchange(&mut self, group: Group, mine: &[&[u8]]) -> Result<Vec<Vec<u8>>, Error> {
        let turn = self.turn(group)?;
        if mine.len() != group.size as usize {
            return self.or_give_up(turn, Err(Error::Mismatch("an exchange has one part for each member")));
        }
        let mut theirs: Vec<Vec<u8>> = vec![Vec::new(); mine.len()];
        theirs[turn.me as usize] = mine[turn.me as usize].to_vec();
        for distance in 1..group.size {
            let to = (turn.me + distance) % group.size;
            let from = (turn.me + group.size - distance) % group.size;
            let out = Some((turn.peer(to), mine[to as usize]));
            theirs[from as usize] = self.mail_to(turn, 0, out, Some(turn.peer(from)))?;
        }
        Ok(theirs)
    }

    /// Begins a collective of the group.
    fn turn(&mut self, group: Group) -> Result<Turn, Error> {
        let last = u64::from(group.start) + u64::from(group.stride) * u64::from(group.size.saturating_sub(1));
        if group.size == 0 || last >= u64::from(self.size()) {
            return Err(Error::NoSuchRank { rank: last as u32, size: self.size() });
        }
        let me = group.index(self.rank()).ok_or(Error::NotMember)?;
        let before = self.turns.entry(group.mark).or_insert(0);
        let count = *before + 1;
        let tag = ((group.mark << TURN_BITS) | (count % (1 << TURN_BITS))) << STEP_BITS;
        let turn = Turn { group, me, count, tag };
        if let Some(error) = self.hub.mail.broken(group.mark, count) {
            return self.or_give_up(turn, Err(error));
        }
        *before = count;
        Ok(turn)
    }

    /// Sends a letter and receives one, at the same time, so that no circle of members can wait for each other to receive.
    fn mail_to(
        &mut self,
        turn: Turn,
        step: Step,
        out: Option<(Peer, &[u8])>,
        from: Option<Peer>,
    ) -> Result<Vec<u8>, Error> {
        let tag = turn.tag(step);
        let mut sending = out.map(|(to, bytes)| Outgoing { to, bytes, long: None });
        let mut receiving = from.map(|from| Receiving { from, got: 0 });
        let mut letter = Vec::new();
        let mut outcome = Ok(());
        self.travels.overlook();
        while outcome.is_ok() && (sending.is_some() || receiving.is_some()) {
            // Whoever we wait for: for its letter, then for room.
            let on = if receiving.is_some() { from } else { out.map(|(to, _)| to) };
            let waiting = Waiting { what: "a collective operation", on };
            let mut failed = None;
            let receives = receiving.is_some();
            let waited = self.endpoint.wait_for(waiting, &mut self.hub, self.timeout, |endpoint, hub| {
                match sending.as_mut().map(|message| message.go_on(endpoint, tag)) {
                    Some(Ok(true)) => sending = None,
                    Some(Err(error)) => failed = Some(Error::from(error)),
                    Some(Ok(false)) | None => {}
                }
                if receiving.as_mut().is_some_and(|letters| letters.go_on(&mut hub.mail, tag, &mut letter)) {
                    receiving = None;
                }
                let waits = sending.is_some() || receiving.is_some();
                if waits {
                    failed = hub.mail.broken(turn.group.mark, turn.count).or(failed.take());
                }
                failed.is_some() || !waits || receives != receiving.is_some()
            });
            outcome = failed.map_or(Ok(()), Err).and(waited.map_err(Error::from));
        }
        if let Err(Error::Lost(peer)) = outcome {
            outcome = Err(self.blame(turn, peer));
        }
        self.or_give_up(turn, outcome.map(|()| letter))
    }

    /// Who is gone may have said because of whom, in what we have not taken yet.
    #[cold]
    fn blame(&mut self, turn: Turn, gone: Peer) -> Error {
        let (mark, count) = (turn.group.mark, turn.count);
        let waiting = Waiting { what: "the last words of a rank", on: Some(gone) };
        // It ends when all is taken that the rank has sent.
        let _ = self
            .endpoint
            .wait_for(waiting, &mut self.hub, self.timeout, |_, hub| hub.mail.broken(mark, count).is_some());
        self.hub.mail.broken(mark, count).unwrap_or(Error::Lost(gone))
    }

    /// Whoever fails in the middle of a collective tells the others.
    fn or_give_up<T>(&mut self, turn: Turn, outcome: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &outcome {
            self.give_up(turn, error);
        }
        outcome
    }

    /// A rank is gone without which there will be no collective of all: tells the others, so that they know because of whom
    /// if we leave, too.
    #[cold]
    pub(super) fn pass_on(&mut self, because_of: Peer) {
        let count = self.turns.get(&ALL).map_or(1, |before| before + 1);
        let turn = Turn { group: self.all(), me: self.rank(), count, tag: 0 };
        self.give_up(turn, &Error::Lost(because_of));
    }

    /// This collective will not be finished: tells the others, once, so that they neither wait for us nor take us for the cause if it is another.
    #[cold]
    fn give_up(&mut self, turn: Turn, error: &Error) {
        let (because_of, is_gone) = match error {
            Error::Lost(peer) => (*peer, true),
            Error::Failed(peer) => (*peer, false),
            _ => (self.endpoint.me(), false),
        };
        let mark = turn.group.mark;
        if !self.hub.mail.break_group(mark, Break { because_of, is_gone, since: turn.count, passed_on: true })
        {
            return;
        }
        let word = [u64::from(because_of.0), turn.count, u64::from(is_gone)].map(u64::to_le_bytes);
        for index in (0..turn.group.size).filter(|&index| index != turn.me) {
            // Whoever is gone too need not know.
            let _ = self.endpoint.reply(turn.peer(index), BROKEN, mark, word.as_flattened());
        }
        self.endpoint.flush();
    }
}

/// A letter being sent.
struct Outgoing<'a> {
    to: Peer,
    bytes: &'a [u8],
    long: Option<Sending>,
}

impl Outgoing<'_> {
    /// Sends what there is room for; true when that was all.
    fn go_on(&mut self, endpoint: &mut Endpoint, tag: u64) -> Result<bool, SendError> {
        if self.long.is_none() && self.bytes.len() <= SHORT_BYTES.min(endpoint.message_max(self.to)) {
            return sent(endpoint.send(self.to, LETTER, tag, self.bytes));
        }
        if self.long.is_none() {
            self.long = Some(endpoint.begin(self.to, LETTER, tag, self.bytes.len() as u64)?);
        }
        let Some(long) = &mut self.long else { return Ok(false) };
        while !long.is_done() {
            let at = long.sent() as usize;
            match endpoint.push(long, &self.bytes[at..]) {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(SendError::Full) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

fn sent(sent: Result<(), SendError>) -> Result<bool, SendError> {
    match sent {
        Ok(()) => Ok(true),
        Err(SendError::Full) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A letter being received.
struct Receiving {
    from: Peer,
    got: u64,
}

impl Receiving {
    /// Takes what has arrived of the letter; true when that was the last.
    fn go_on(&mut self, mail: &mut Mail, tag: u64, letter: &mut Vec<u8>) -> bool {
        while let Some(frame) = mail.next(self.from, tag) {
            letter.extend_from_slice(frame.bytes());
            self.got += frame.bytes().len() as u64;
            if self.got >= frame.total {
                return true;
            }
        }
        false
    }
}

/// Letters up to this length are one message.
const SHORT_BYTES: usize = 1024;

/// The values in the bytes, which must be as many.
pub(crate) fn fill<T: Plain>(values: &mut [T], bytes: &[u8]) -> Result<(), Error> {
    let into = values.as_mut_bytes();
    if into.len() != bytes.len() {
        return Err(Error::Mismatch("ranks called a collective with different lengths"));
    }
    into.copy_from_slice(bytes);
    Ok(())
}

fn append(all: &mut Vec<u8>, part: &[u8]) {
    all.extend_from_slice(&(part.len() as u64).to_le_bytes());
    all.extend_from_slice(part);
}

/// The first part of what was gathered, and the rest.
fn first(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<8>()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)
}
