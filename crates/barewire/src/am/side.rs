//! An endpoint without its handlers: translations with their credit, tag, segment, and the messages that wait for it.
//!
//! Credit: of the requests sent through a translation at most `credit` are unacknowledged. Each has a number; a
//! reply, an acknowledgement or a returned message carries the number back and stands for all before it too. One request
//! in so many asks to be acknowledged in case its handler does not reply, so that one-way traffic costs little more than itself.

use std::collections::VecDeque;

use barewire_core::{Peer, SendError};
use barewire_sys::memory::Memory;

use super::bulk::Place;
use super::link::Carry;
use super::names::{Code, Name, RequestError, Tag};
use super::wire::{self, ARGS_MAX, Imm, Kind};

/// Requests that may be outstanding to one destination unless somebody says otherwise.
pub(super) const OUTSTANDING: u16 = 64;
/// Endpoints that may send to one endpoint at full credit, unless somebody says otherwise.
const ENDPOINTS: usize = 16;

#[derive(Debug)]
pub(super) struct Side {
    pub index: u16,
    pub tag: Tag,
    pub bundle: u16,
    pub segment: Option<Memory>,
    pub credit: u16,
    /// One request in this many asks for an acknowledgement.
    pub ask: u16,
    /// Requests that may wait here while the bundle is not polled.
    pub expected: usize,
    pub slots: Vec<Slot>,
    /// Messages that arrived while another bundle was polled, and our own that came back.
    pub queue: VecDeque<(Parcel, Vec<u8>)>,
}

/// A translation: a number of ours for somebody else's endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub name: Name,
    pub tag: Tag,
    /// The immediate of a request without handler and number.
    base: Imm,
    /// Requests that may be outstanding now: the endpoint's credit, or none while the translation is unmapped or busy.
    allowed: u16,
    sent: u16,
    acked: u16,
    /// The number of the next request that asks for an acknowledgement.
    ask_at: u16,
    pub mapped: bool,
    /// A bulk transfer uses the translation; nothing may overtake it.
    busy: bool,
}

/// A message taken apart, without its data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parcel {
    /// The other side: who sent it, or for a message of ours that came back, who did not take it.
    pub from: Peer,
    /// What it is, or was before it came back.
    pub kind: Kind,
    pub returned: Option<Code>,
    pub want: bool,
    /// As the receiver sees it: `to` is here.
    pub imm: Imm,
    pub tag: Tag,
    pub place: Place,
    pub count: usize,
    pub args: [u64; ARGS_MAX],
    /// It carries back the number of a request of ours.
    pub answers: bool,
    /// For a lost peer: how many requests were not acknowledged.
    pub in_doubt: u16,
}

/// Why a message did not go out.
#[derive(Debug)]
pub(super) enum Stop {
    NoCredit,
    NoRoom,
    /// It never will: it has to come back with this code.
    Gone(Code),
    Refused(RequestError),
}

impl From<SendError> for Stop {
    #[cold]
    fn from(error: SendError) -> Stop {
        match error {
            SendError::Full => Stop::NoRoom,
            SendError::NoSuchPeer(_) => Stop::Gone(Code::BadEndpoint),
            SendError::TooLong { len, max } => Stop::Refused(RequestError::TooLong { len, max }),
            SendError::Forked => Stop::Refused(RequestError::Forked),
            _ => Stop::Gone(Code::Unreachable),
        }
    }
}

impl From<RequestError> for Stop {
    fn from(error: RequestError) -> Stop {
        Stop::Refused(error)
    }
}

/// What a request needs besides its arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    pub to: Peer,
    pub tag: Tag,
    pub imm: Imm,
    pub want: bool,
}

impl Side {
    pub fn new(index: u16, bundle: u16) -> Side {
        let mut side = Side {
            index,
            tag: Tag::NONE,
            bundle,
            segment: None,
            credit: 0,
            ask: 0,
            expected: 0,
            slots: Vec::new(),
            queue: VecDeque::new(),
        };
        side.expect(ENDPOINTS, OUTSTANDING);
        side
    }

    pub fn expect(&mut self, endpoints: usize, outstanding: u16) {
        self.credit = outstanding;
        self.ask = (outstanding / 4).max(1);
        self.expected = endpoints.saturating_mul(usize::from(outstanding));
        for slot in &mut self.slots {
            slot.allow(outstanding);
            slot.ask_at = slot.sent.wrapping_add(1);
        }
    }

    /// The mapped translation with this number.
    #[inline(always)]
    pub fn slot(&mut self, slot: u8) -> Option<&mut Slot> {
        self.slots.get_mut(usize::from(slot)).filter(|slot| slot.mapped)
    }

    /// Whether a reply comes from where a request went, and carries what it carried.
    #[inline(always)]
    pub fn is_answer(&self, from: Peer, imm: Imm, tag: Tag) -> bool {
        match self.slots.get(usize::from(imm.slot())) {
            Some(slot) => {
                slot.mapped && slot.tag == tag && slot.name == (Name { peer: from, index: imm.from() })
            }
            None => false,
        }
    }

    /// A request and all before it are acknowledged.
    #[inline(always)]
    pub fn settle(&mut self, from: Peer, imm: Imm) {
        if let Some(slot) = self.slots.get_mut(usize::from(imm.slot())) {
            if slot.name == (Name { peer: from, index: imm.from() }) {
                slot.settle(imm.seq());
            }
        }
    }

    /// What the next request through a translation needs, if it has credit.
    #[inline(always)]
    pub fn ticket(&mut self, slot: u8, handler: u8, args: usize) -> Result<Ticket, Stop> {
        self.open_slot(slot, handler, args).map(|slot| slot.ticket(handler))
    }

    /// The request is on its way.
    pub fn spend(&mut self, ticket: Ticket) {
        let ask = self.ask;
        if let Some(slot) = self.slots.get_mut(usize::from(ticket.imm.slot())) {
            slot.spend(ticket, ask);
        }
    }

    /// The translation, if a request may go through it now.
    #[inline(always)]
    fn open_slot(&mut self, slot: u8, handler: u8, args: usize) -> Result<&mut Slot, Stop> {
        match self.slots.get_mut(usize::from(slot)) {
            Some(found) if found.outstanding() < found.allowed && handler != 0 && args <= ARGS_MAX => {
                Ok(found)
            }
            found => Err(why_not(found, slot, handler, args)),
        }
    }

    /// Marks a translation as used by a bulk transfer, or as free again.
    pub fn set_busy(&mut self, slot: u8, busy: bool) {
        let credit = self.credit;
        if let Some(slot) = self.slot(slot) {
            slot.busy = busy;
            slot.allow(credit);
        }
    }

    /// Maps a translation. Its numbers go on where the last mapping stopped, so that late answers to that acknowledge nothing
    /// of this one.
    pub fn map(&mut self, slot: u8, name: Name, tag: Tag) {
        let at = usize::from(slot);
        if self.slots.len() <= at {
            self.slots.resize(at + 1, Slot::unused());
        }
        let sent = self.slots[at].sent;
        let (base, ask_at) = (Imm::new(name.index, self.index, 0, slot, 0), sent.wrapping_add(self.ask));
        let allowed = self.credit;
        self.slots[at] =
            Slot { name, tag, base, allowed, sent, acked: sent, ask_at, mapped: true, busy: false };
    }

    #[inline(always)]
    pub fn try_short(
        &mut self,
        core: &mut impl Carry,
        slot: u8,
        handler: u8,
        args: &[u64],
    ) -> Result<(), Stop> {
        let ask = self.ask;
        let slot = self.open_slot(slot, handler, args.len())?;
        let ticket = slot.ticket(handler);
        let port = wire::port(Kind::RequestShort, ticket.want, args.len());
        core.send_with(ticket.to, port, ticket.imm.0, 8 + 8 * args.len(), |wire| {
            wire.write_u64(ticket.tag.0);
            wire.write_words(args);
        })?;
        slot.spend(ticket, ask);
        Ok(())
    }
}

#[cold]
#[inline(never)]
fn why_not(slot: Option<&mut Slot>, number: u8, handler: u8, args: usize) -> Stop {
    if !slot.is_some_and(|slot| slot.mapped) {
        Stop::Refused(RequestError::NotMapped(number))
    } else if handler == 0 {
        Stop::Refused(RequestError::ReservedHandler)
    } else if args > ARGS_MAX {
        Stop::Refused(RequestError::TooManyArgs(args))
    } else {
        Stop::NoCredit
    }
}

impl Slot {
    /// No translation yet.
    fn unused() -> Slot {
        Slot {
            name: Name { peer: Peer(u32::MAX), index: u16::MAX },
            tag: Tag::NONE,
            base: Imm(0),
            allowed: 0,
            sent: 0,
            acked: 0,
            ask_at: 0,
            mapped: false,
            busy: false,
        }
    }

    pub fn unmap(&mut self) {
        self.mapped = false;
        self.allowed = 0;
    }

    pub fn is_busy(&self) -> bool {
        self.busy
    }

    fn allow(&mut self, credit: u16) {
        self.allowed = if self.mapped && !self.busy { credit } else { 0 };
    }

    #[inline(always)]
    fn ticket(&self, handler: u8) -> Ticket {
        let seq = self.sent.wrapping_add(1);
        let imm = self.base.with(handler, seq);
        Ticket { to: self.name.peer, tag: self.tag, imm, want: seq == self.ask_at }
    }

    #[inline(always)]
    fn spend(&mut self, ticket: Ticket, ask: u16) {
        self.sent = ticket.imm.seq();
        if ticket.want {
            self.ask_at = self.sent.wrapping_add(ask);
        }
    }

    #[inline(always)]
    pub fn outstanding(&self) -> u16 {
        self.sent.wrapping_sub(self.acked)
    }

    #[inline(always)]
    fn settle(&mut self, seq: u16) {
        if self.sent.wrapping_sub(seq) < self.outstanding() {
            self.acked = seq;
        }
    }

    /// Nothing will be acknowledged any more; says how much was not.
    pub fn forget(&mut self) -> u16 {
        let lost = self.outstanding();
        self.acked = self.sent;
        lost
    }
}

impl Parcel {
    /// A message of ours to `slot` that comes back because of `code`.
    pub fn come_back(code: Code, kind: Kind, to: Peer, imm: Imm, tag: Tag, args: &[u64]) -> Parcel {
        let mut all = [0; ARGS_MAX];
        let count = args.len().min(ARGS_MAX);
        all[..count].copy_from_slice(&args[..count]);
        Parcel {
            from: to,
            kind,
            returned: Some(code),
            want: false,
            imm: imm.back(imm.handler()),
            tag,
            place: Place::default(),
            count,
            args: all,
            answers: false,
            in_doubt: 0,
        }
    }

    pub fn args(&self) -> &[u64] {
        &self.args[..self.count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THERE: Name = Name { peer: Peer(1), index: 9 };

    fn side(credit: u16) -> Side {
        let mut side = Side::new(3, 0);
        side.expect(1, credit);
        side.map(0, THERE, Tag(5));
        side
    }

    fn send(side: &mut Side) -> Option<Ticket> {
        let ticket = side.ticket(0, 1, 0).ok()?;
        side.spend(ticket);
        Some(ticket)
    }

    #[test]
    fn credit_ends_and_an_answer_stands_for_all_before_it() {
        let mut side = side(4);
        let sent: Vec<Ticket> = std::iter::from_fn(|| send(&mut side)).take(9).collect();
        assert_eq!(sent.len(), 4);
        assert!(sent.iter().all(|ticket| ticket.want), "a quarter of four is one");
        side.settle(Peer(1), sent[2].imm.back(0));
        assert_eq!(side.slots[0].outstanding(), 1);
        side.settle(Peer(1), sent[1].imm.back(0));
        side.settle(Peer(2), sent[3].imm.back(0));
        assert_eq!(side.slots[0].outstanding(), 1, "late answers and strangers change nothing");
    }

    #[test]
    fn a_full_window_always_holds_one_that_asked() {
        for credit in 1..200 {
            let mut side = side(credit);
            let mut asked = VecDeque::new();
            for step in 0..70_000u32 {
                match send(&mut side) {
                    Some(ticket) if ticket.want => asked.push_back(ticket),
                    Some(_) => {}
                    None => {
                        let ticket = asked.pop_front().expect("somebody asked");
                        side.settle(Peer(1), ticket.imm.back(0));
                        assert!(side.slots[0].outstanding() < credit, "credit {credit} step {step}");
                    }
                }
                if step == 1000 && credit > 3 {
                    break;
                }
            }
        }
    }

    #[test]
    fn answers_to_an_old_mapping_acknowledge_nothing() {
        let mut side = side(8);
        let old = send(&mut side).unwrap();
        side.map(0, THERE, Tag(6));
        send(&mut side).unwrap();
        side.settle(Peer(1), old.imm.back(0));
        assert_eq!(side.slots[0].outstanding(), 1);
        assert!(!side.is_answer(Peer(1), old.imm.back(0), Tag(5)));
    }
}
