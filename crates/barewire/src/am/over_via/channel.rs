//! Channels: a VI between two endpoints that talk, its buffers, and the account of credits.

use std::collections::VecDeque;

use barewire_core::{Peer, Port, SendError};
use barewire_sys::memory::Memory;

use super::super::wire::Imm;
use super::place::PlaceAsk;
use super::{BUFFER, Carrier};
use crate::via::{ConnectError, Cqs, Descriptor, MemAttributes, OnRefusal, RemoteMem, Vi, ViAttributes};

/// Marks the discriminators of channels; below it, the two endpoints, the lower node's first.
const DISCRIMINATOR: u64 = 0xA3 << 56;

/// Two endpoints: ours, the other's node, and the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ends {
    pub here: u16,
    pub peer: Peer,
    pub there: u16,
}

#[derive(Debug)]
pub(super) struct Channel {
    pub ends: Ends,
    pub vi: Vi,
    pub buffers: Memory,
    #[allow(clippy::vec_box, reason = "boxes are what is posted")]
    pub free: Vec<Box<Descriptor>>,
    /// Requests sent, and how many of them are done.
    pub sent: u32,
    pub done: u32,
    /// Requests of the other end that are done, and how many of them it knows of.
    pub handled: u32,
    pub told: u32,
    /// Answers that wait for a free send, and messages that wait for credit too.
    pub answers: VecDeque<Later>,
    pub asks: VecDeque<Later>,
    pub waits: bool,
    pub connected: bool,
    /// The other end's segment, once it is known.
    pub segment: Option<(RemoteMem, u64)>,
    pub place: PlaceAsk,
    pub broken: bool,
}

/// A message that waits.
#[derive(Debug)]
pub(super) struct Later {
    pub port: Port,
    pub imm: Imm,
    pub bytes: Vec<u8>,
    /// Requests of the other end that are done with it.
    pub settles: u32,
}

impl Channel {
    pub fn has_credit(&self, credits: u16) -> bool {
        self.sent.wrapping_sub(self.done) < u32::from(credits)
    }

    /// Whether the other end is owed a word about its requests that are done.
    pub fn owes(&self, credits: u16) -> bool {
        self.handled.wrapping_sub(self.told) >= (u32::from(credits) / 4).max(1)
    }
}

impl Carrier {
    pub(super) fn ends(&self, here: u16, peer: Peer, there: u16) -> Ends {
        // Two endpoints of one node share a VI that is connected to itself.
        let swap = peer == self.core().me() && there < here;
        let (here, there) = if swap { (there, here) } else { (here, there) };
        Ends { here, peer, there }
    }

    /// The channel for a message, which is opened if there is none.
    #[inline]
    pub(super) fn channel(&mut self, to: Peer, imm: Imm) -> Result<usize, SendError> {
        let ends = self.ends(imm.from(), to, imm.to());
        match self.channels.get(self.last) {
            Some(channel) if channel.ends == ends => Ok(self.last),
            _ => self.other_channel(ends),
        }
    }

    #[cold]
    fn other_channel(&mut self, ends: Ends) -> Result<usize, SendError> {
        let at = match self.by_ends.get(&ends) {
            Some(&at) => at,
            None => self.open(ends)?,
        };
        self.last = at;
        Ok(at)
    }

    /// Opens a channel: a VI with everything posted, and the wish to be connected.
    pub(super) fn open(&mut self, ends: Ends) -> Result<usize, SendError> {
        let Ends { here, peer, there } = ends;
        if peer.0 >= self.core().size() {
            return Err(SendError::NoSuchPeer(peer));
        }
        if self.core().is_gone(peer) {
            return Err(SendError::Lost(peer));
        }
        let k = u64::from(self.config.credits);
        let (sends, receives) = (2 * k, 2 * k + u64::from(self.config.spare_receives));
        let buffers = Memory::private((sends + receives) as usize * BUFFER);
        let attributes = ViAttributes { on_refusal: OnRefusal::Report, ..ViAttributes::default() };
        let cqs = Cqs { send: Some(self.sends), receive: Some(self.receives) };
        let full = |_| SendError::Full;
        let handle = self.nic.register(&buffers, self.tag, MemAttributes::default()).map_err(full)?;
        let vi = self.nic.create_vi(self.tag, attributes, cqs).map_err(full)?;
        let at = self.channels.len();
        let buffer = |number: u64| number * BUFFER as u64;
        for number in 0..receives {
            let receive = Descriptor::receive().segment(handle, buffer(sends + number), BUFFER as u64);
            self.nic.post_receive(vi, receive.cookie(at as u64)).expect("a new VI takes receives");
        }
        let free = (0..sends)
            .map(|number| Descriptor::send().segment(handle, buffer(number), 0).cookie(at as u64))
            .collect();
        let ours_first = (self.core().me(), here) <= (peer, there);
        let (first, second) = if ours_first { (here, there) } else { (there, here) };
        let discriminator = DISCRIMINATOR | u64::from(first) << 16 | u64::from(second);
        let asked = match peer == self.core().me() {
            true => self.nic.connect_itself(vi),
            false => self.nic.connect_peer_request(vi, peer, discriminator),
        };
        if let Err(error) = asked {
            let _ = self.nic.destroy_vi(vi);
            let _ = self.nic.deregister(handle);
            return Err(if let ConnectError::Send(error) = error { error } else { SendError::Full });
        }
        self.channels.push(Channel {
            ends,
            vi,
            buffers,
            free,
            sent: 0,
            done: 0,
            handled: 0,
            told: 0,
            answers: VecDeque::new(),
            asks: VecDeque::new(),
            waits: false,
            connected: false,
            segment: None,
            place: PlaceAsk::No,
            broken: false,
        });
        self.by_ends.insert(ends, at);
        self.by_vi.insert(vi, at);
        self.connecting.push(vi);
        Ok(at)
    }

    /// The two endpoints that a peer wants to join, unless they are or it means something else.
    pub(super) fn called(&self, peer: Peer, discriminator: u64) -> Option<Ends> {
        let (first, second) = ((discriminator >> 16) as u16, discriminator as u16);
        let ours_first = self.core().me() <= peer;
        let (here, there) = if ours_first { (first, second) } else { (second, first) };
        let ends = self.ends(here, peer, there);
        let is_new = discriminator & !0xffff_ffff == DISCRIMINATOR && !self.by_ends.contains_key(&ends);
        is_new.then_some(ends)
    }
}
