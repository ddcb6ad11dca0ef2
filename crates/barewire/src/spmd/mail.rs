//! Letters of collective operations, kept until whoever they are for gets there.
//!
//! A letter that comes early is held as frames, charged to its sender, so that a rank that runs ahead is stopped in time.

use std::collections::{HashMap, VecDeque};

use barewire_core::{Endpoint, Frame, Incoming, Peer, Port};

/// A letter, or a part of one.
pub(super) const LETTER: Port = Port(0xc011);
/// Word that a group is of no use any more, and because of whom.
pub(super) const BROKEN: Port = Port(0xc012);

#[derive(Debug)]
pub(crate) struct Mail {
    /// Unread frames, by sender.
    frames: Vec<VecDeque<Frame>>,
    /// Groups that lost a member, and whom.
    broken: HashMap<u64, Peer>,
    /// Who went without a word.
    lost: Option<Peer>,
    /// Whether each has gone, in whatever way.
    gone: Vec<bool>,
}

impl Mail {
    pub fn new(size: u32) -> Mail {
        let frames = (0..size).map(|_| VecDeque::new()).collect();
        Mail { frames, broken: HashMap::new(), lost: None, gone: vec![false; size as usize] }
    }

    #[inline]
    pub fn owns(port: Port) -> bool {
        port == LETTER || port == BROKEN
    }

    pub fn deliver(&mut self, mut packet: Incoming<'_>) {
        let from = packet.from.0 as usize;
        if packet.port == BROKEN {
            let size = self.frames.len() as u64;
            if let Some(whom) = packet.read_u64().filter(|&whom| whom < size) {
                self.break_group(packet.imm, Peer(whom as u32));
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

    pub fn break_group(&mut self, group: u64, because_of: Peer) {
        // A peer can name as many groups as it likes; those that we know of are few.
        if self.broken.len() < BROKEN_MAX {
            self.broken.entry(group).or_insert(because_of);
        }
    }

    pub fn broken(&self, group: u64) -> Option<Peer> {
        self.broken.get(&group).copied()
    }

    pub fn peer_gone(&mut self, peer: Peer, without_a_word: bool) {
        if let Some(gone) = self.gone.get_mut(peer.0 as usize) {
            *gone = true;
        }
        if without_a_word {
            self.lost.get_or_insert(peer);
        }
    }

    /// Whoever is to blame if what anybody might have done never happens: a rank that was lost, or the last of all the
    /// others that left.
    pub fn bereaved(&self, endpoint: &Endpoint) -> Option<Peer> {
        if self.lost.is_some() {
            return self.lost;
        }
        let me = endpoint.me().0 as usize;
        let mut others = (0..self.gone.len()).filter(|&rank| rank != me).peekable();
        let last = others.peek().copied()?;
        others.all(|rank| self.gone[rank]).then_some(Peer(last as u32))
    }
}

/// Groups that can be known to be broken.
const BROKEN_MAX: usize = 4096;
