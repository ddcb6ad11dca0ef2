//! Letters of collective operations, kept until whoever they are for gets there.
//!
//! A letter that comes early is held as frames, charged to its sender, so that a rank that runs ahead is stopped in time.

use std::collections::{HashMap, VecDeque};

use barewire_core::{Frame, Incoming, Peer, Port};

use super::Error;

/// A letter, or a part of one.
pub(super) const LETTER: Port = Port(0xc011);
/// Word that a group is of no use any more: because of whom, since which of its operations, and whether that rank is gone.
pub(super) const BROKEN: Port = Port(0xc012);

/// Why a group is of no use any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Break {
    pub because_of: Peer,
    /// It is gone; otherwise it only failed.
    pub is_gone: bool,
    /// The first operation that cannot be finished. Those before it still can: whoever broke the group has done its part in them.
    pub since: u64,
    /// We have told the other members.
    pub passed_on: bool,
}

impl Break {
    fn error(&self) -> Error {
        if self.is_gone { Error::Lost(self.because_of) } else { Error::Failed(self.because_of) }
    }
}

#[derive(Debug)]
pub(crate) struct Mail {
    /// Unread frames, by sender.
    frames: Vec<VecDeque<Frame>>,
    /// Groups that lost a member.
    broken: HashMap<u64, Break>,
    /// Who went without a word first.
    lost: Option<Peer>,
    /// Who left first.
    left: Option<Peer>,
}

impl Mail {
    pub fn new(size: u32) -> Mail {
        let frames = (0..size).map(|_| VecDeque::new()).collect();
        Mail { frames, broken: HashMap::new(), lost: None, left: None }
    }

    #[inline]
    pub fn owns(port: Port) -> bool {
        port == LETTER || port == BROKEN
    }

    pub fn deliver(&mut self, mut packet: Incoming<'_>) {
        let from = packet.from.0 as usize;
        if packet.port == BROKEN {
            let (whom, size) = (packet.read_u64(), self.frames.len() as u64);
            let words = (whom.filter(|&whom| whom < size), packet.read_u64(), packet.read_u64());
            if let (Some(whom), Some(since), Some(is_gone)) = words {
                let (because_of, is_gone) = (Peer(whom as u32), is_gone != 0);
                self.break_group(packet.imm, Break { because_of, is_gone, since, passed_on: false });
            }
        } else if let Some(queue) = self.frames.get_mut(from) {
            queue.push_back(packet.hold());
        }
    }

    /// The next frame of the letter with this tag.
    pub fn next(&mut self, from: Peer, tag: u64) -> Option<Frame> {
        let queue = self.frames.get_mut(from.0 as usize)?;
        let at = queue.iter().position(|frame| frame.imm == tag)?;
        queue.remove(at)
    }

    /// The earliest break counts. False if it was to be passed on and had been before.
    pub fn break_group(&mut self, group: u64, broken: Break) -> bool {
        // A peer can name as many groups as it likes; those that we know of are few.
        if self.broken.len() >= BROKEN_MAX && !self.broken.contains_key(&group) {
            return true;
        }
        let known = self.broken.entry(group).or_insert(Break { passed_on: false, ..broken });
        let passed_on_before = known.passed_on;
        if broken.since < known.since {
            *known = broken;
        }
        known.passed_on = passed_on_before || broken.passed_on;
        !(passed_on_before && broken.passed_on)
    }

    /// Why an operation of the group is impossible, if it is.
    pub fn broken(&self, group: u64, operation: u64) -> Option<Error> {
        self.broken.get(&group).filter(|broken| broken.since <= operation).map(Break::error)
    }

    pub fn peer_gone(&mut self, peer: Peer, without_a_word: bool) {
        let first = if without_a_word { &mut self.lost } else { &mut self.left };
        first.get_or_insert(peer);
    }

    /// Whoever is to blame if what anybody might have done never happens: a rank that was lost, as we or others know, or one that left.
    /// Ranks end together, and whoever waits for something has not come to the end: so who has left by now did so too early.
    pub fn bereaved(&self) -> Option<Peer> {
        let told = || self.broken.get(&ALL).filter(|broken| broken.is_gone).map(|broken| broken.because_of);
        self.lost.or_else(told).or(self.left)
    }
}

/// What the letters of the group of all ranks are marked with.
pub(super) const ALL: u64 = 0;
/// Groups that can be known to be broken.
const BROKEN_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_break_spares_the_operations_before_it_and_the_earliest_counts() {
        let mut mail = Mail::new(4);
        let mut told = |by, since, passed_on| {
            let news = mail.break_group(7, Break { because_of: Peer(by), is_gone: true, since, passed_on });
            let by = |error| if let Error::Lost(peer) = error { peer.0 } else { u32::MAX };
            (news, [2, 4, 5, 6].map(|operation| mail.broken(7, operation).map(by)))
        };
        assert_eq!(told(1, 5, false), (true, [None, None, Some(1), Some(1)]));
        assert_eq!(told(2, 6, false), (true, [None, None, Some(1), Some(1)]));
        assert_eq!(told(1, 5, true), (true, [None, None, Some(1), Some(1)]));
        assert_eq!(told(3, 3, false), (true, [None, Some(3), Some(3), Some(3)]));
        assert_eq!(told(3, 3, true), (false, [None, Some(3), Some(3), Some(3)]), "the others know");
        assert_eq!(mail.broken(8, 6), None);
    }
    #[test]
    fn the_dead_are_to_blame_before_those_who_left() {
        let mut mail = Mail::new(4);
        assert_eq!(mail.bereaved(), None);
        mail.peer_gone(Peer(2), false);
        mail.peer_gone(Peer(3), false);
        assert_eq!(mail.bereaved(), Some(Peer(2)), "the first");
        let failed = Break { because_of: Peer(0), is_gone: false, since: 5, passed_on: false };
        mail.break_group(ALL, failed);
        assert_eq!((mail.bereaved(), mail.broken(ALL, 5)), (Some(Peer(2)), Some(Error::Failed(Peer(0)))));
        mail.break_group(ALL, Break { because_of: Peer(1), is_gone: true, since: 4, passed_on: false });
        assert_eq!(mail.bereaved(), Some(Peer(1)), "why it left, as it says");
        mail.peer_gone(Peer(3), true);
        assert_eq!(mail.bereaved(), Some(Peer(3)), "what we know ourselves");
    }
}
