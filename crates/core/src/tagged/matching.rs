//! Matching: which receive a message is for, in constant time for exact ones and in posting order always.
//!
//! Posted receives and waiting messages lie in hash chains by (context, source, tag), each with the number of its turn.
//! Receives with a wildcard lie in a list of their own; whoever came first wins. Wildcard look-ups among waiting
//! messages go through a list in order of arrival.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::Peer;

/// What a message carries for its receive to be found: an application's context and a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// Keeps unrelated traffic apart: in MPI, the communicator.
    pub context: u32,
    /// Chosen by the application.
    pub tag: i32,
}

impl Envelope {
    #[inline(always)]
    pub(crate) fn to_imm(self) -> u64 {
        u64::from(self.context) << 32 | u64::from(self.tag as u32)
    }

    #[inline(always)]
    pub(crate) fn from_imm(imm: u64) -> Envelope {
        Envelope { context: (imm >> 32) as u32, tag: imm as u32 as i32 }
    }
}

/// Which messages a receive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The context, always exact.
    pub context: u32,
    /// From whom; `None` takes any source.
    pub from: Option<Peer>,
    /// Which tag; `None` takes any tag that is not negative.
    pub tag: Option<i32>,
}

impl Want {
    /// Whether a message fits.
    #[inline]
    pub fn takes(&self, from: Peer, envelope: Envelope) -> bool {
        self.context == envelope.context
            && self.from.is_none_or(|want| want == from)
            && match self.tag {
                Some(tag) => tag == envelope.tag,
                None => envelope.tag >= 0,
            }
    }

    fn exact(&self) -> Option<(Peer, Envelope)> {
        Some((self.from?, Envelope { context: self.context, tag: self.tag? }))
    }
}

/// Values found by exact key in constant time, and by turn.
#[derive(Debug)]
struct Chains<T> {
    heads: Vec<u32>,
    /// The last of each chain, where there is one: many receives with one key are posted in constant time each.
    tails: Vec<u32>,
    nodes: Vec<Node<T>>,
    free: u32,
    count: usize,
}

#[derive(Debug)]
struct Node<T> {
    key: (Peer, Envelope),
    turn: u64,
    /// Next in the chain, or in the free list.
    next: u32,
    value: Option<T>,
}

const NONE: u32 = u32::MAX;

impl<T> Chains<T> {
    fn new() -> Chains<T> {
        Chains { heads: vec![NONE; 64], tails: vec![NONE; 64], nodes: Vec::new(), free: NONE, count: 0 }
    }

    #[inline(always)]
    fn bucket(&self, (from, envelope): &(Peer, Envelope)) -> usize {
        let mixed = (envelope.to_imm() ^ u64::from(from.0) << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as usize & (self.heads.len() - 1)
    }

    fn push(&mut self, key: (Peer, Envelope), turn: u64, value: T) -> u32 {
        if self.count >= self.heads.len() * 2 {
            self.grow();
        }
        let node = Node { key, turn, next: NONE, value: Some(value) };
        let at = if self.free == NONE {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            let at = self.free;
            self.free = self.nodes[at as usize].next;
            self.nodes[at as usize] = node;
            at
        };
        self.link(at);
        self.count += 1;
        at
    }

    /// Hangs a node at the end of its chain.
    fn link(&mut self, at: u32) {
        let bucket = self.bucket(&self.nodes[at as usize].key);
        self.nodes[at as usize].next = NONE;
        match std::mem::replace(&mut self.tails[bucket], at) {
            NONE => self.heads[bucket] = at,
            last => self.nodes[last as usize].next = at,
        }
    }

    fn grow(&mut self) {
        let mut all: Vec<u32> =
            (0..self.nodes.len() as u32).filter(|&at| self.nodes[at as usize].value.is_some()).collect();
        all.sort_by_key(|&at| self.nodes[at as usize].turn);
        let more = self.heads.len() * 4;
        self.heads = vec![NONE; more];
        self.tails = vec![NONE; more];
        all.into_iter().for_each(|at| self.link(at));
    }

    /// The earliest with this key.
    #[inline]
    fn first(&self, key: &(Peer, Envelope)) -> Option<u32> {
        let mut at = self.heads[self.bucket(key)];
        while at != NONE {
            let node = &self.nodes[at as usize];
            if node.key == *key {
                return Some(at);
            }
            at = node.next;
        }
        None
    }

    /// Takes out a node; `None` if it is not there any more.
    fn remove(&mut self, target: u32) -> Option<T> {
        let value = self.nodes.get_mut(target as usize)?.value.take()?;
        let bucket = self.bucket(&self.nodes[target as usize].key);
        let next = self.nodes[target as usize].next;
        let before = if self.heads[bucket] == target {
            self.heads[bucket] = next;
            NONE
        } else {
            let mut at = self.heads[bucket];
            while self.nodes[at as usize].next != target {
                at = self.nodes[at as usize].next;
            }
            self.nodes[at as usize].next = next;
            at
        };
        if next == NONE {
            self.tails[bucket] = before;
        }
        self.nodes[target as usize].next = self.free;
        self.free = target;
        self.count -= 1;
        Some(value)
    }
}

/// Receives that wait for their messages.
#[derive(Debug)]
pub(crate) struct Posted {
    /// A receive that was posted when there was no other, so it is older than all below: key, turn and request.
    eldest: Option<((Peer, Envelope), u64, u32)>,
    exact: Chains<u32>,
    /// Receives with a wildcard, by turn.
    wild: BTreeMap<u64, (Want, u32)>,
    turn: u64,
}

/// Where a posted receive lies, so that it can be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Eldest(u64),
    Exact(u32),
    Wild(u64),
}

impl Posted {
    pub fn new() -> Posted {
        Posted { eldest: None, exact: Chains::new(), wild: BTreeMap::new(), turn: 0 }
    }

    #[inline]
    pub fn post(&mut self, want: Want, request: u32) -> Place {
        self.turn += 1;
        match want.exact() {
            Some(key) if self.eldest.is_none() && self.exact.count == 0 && self.wild.is_empty() => {
                self.eldest = Some((key, self.turn, request));
                Place::Eldest(self.turn)
            }
            Some(key) => Place::Exact(self.exact.push(key, self.turn, request)),
            None => {
                self.wild.insert(self.turn, (want, request));
                Place::Wild(self.turn)
            }
        }
    }

    /// Takes out the receive that a message is for.
    #[inline]
    pub fn find(&mut self, from: Peer, envelope: Envelope) -> Option<u32> {
        if let Some((_, _, request)) = self.eldest.take_if(|(key, _, _)| *key == (from, envelope)) {
            return Some(request);
        }
        self.find_younger(from, envelope)
    }

    fn find_younger(&mut self, from: Peer, envelope: Envelope) -> Option<u32> {
        let exact = self.exact.first(&(from, envelope));
        if !self.wild.is_empty() {
            let wild =
                self.wild.iter().find(|(_, (want, _))| want.takes(from, envelope)).map(|(&turn, _)| turn);
            let earlier = match (wild, exact) {
                (Some(wild), Some(exact)) => wild < self.exact.nodes[exact as usize].turn,
                (wild, _) => wild.is_some(),
            };
            if earlier {
                return self.wild.remove(&wild?).map(|(_, request)| request);
            }
        }
        self.exact.remove(exact?)
    }

    /// Takes back a receive; false if its message has come.
    pub fn withdraw(&mut self, place: Place, request: u32) -> bool {
        match place {
            Place::Eldest(turn) => self.eldest.take_if(|(_, of, _)| *of == turn).is_some(),
            Place::Exact(at) => {
                let there = self.exact.nodes.get(at as usize).is_some_and(|node| node.value == Some(request));
                there && self.exact.remove(at).is_some()
            }
            Place::Wild(turn) => self.wild.remove(&turn).is_some(),
        }
    }
}

/// Messages that wait for their receives.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    chains: Chains<T>,
    /// In order of arrival in each context: turn to node.
    order: BTreeMap<(u32, u64), u32>,
    turn: u64,
}

impl<T> Waiting<T> {
    pub fn new() -> Waiting<T> {
        Waiting { chains: Chains::new(), order: BTreeMap::new(), turn: 0 }
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.chains.count == 0
    }

    pub fn push(&mut self, from: Peer, envelope: Envelope, message: T) {
        self.turn += 1;
        let at = self.chains.push((from, envelope), self.turn, message);
        self.order.insert((envelope.context, self.turn), at);
    }

    /// Whether there is any message in these contexts.
    pub fn is_any_in(&self, contexts: RangeInclusive<u32>) -> bool {
        !self.is_empty()
            && self.order.range((*contexts.start(), 0)..=(*contexts.end(), u64::MAX)).next().is_some()
    }

    fn locate(&self, want: &Want) -> Option<u32> {
        match want.exact() {
            Some(key) => self.chains.first(&key),
            None => self.in_context(want.context).find(|&at| {
                let (from, envelope) = self.chains.nodes[at as usize].key;
                want.takes(from, envelope)
            }),
        }
    }

    fn in_context(&self, context: u32) -> impl Iterator<Item = u32> + '_ {
        self.order.range((context, 0)..=(context, u64::MAX)).map(|(_, &at)| at)
    }

    /// The earliest message that a receive would take.
    pub fn peek(&self, want: &Want) -> Option<(Peer, Envelope, &T)> {
        let node = &self.chains.nodes[self.locate(want)? as usize];
        Some((node.key.0, node.key.1, node.value.as_ref()?))
    }

    /// Takes out the earliest message that a receive takes.
    pub fn take(&mut self, want: &Want) -> Option<(Peer, Envelope, T)> {
        self.take_at(self.locate(want)?)
    }

    /// Takes out the earliest message of a context, whatever its tag, among those whose sender is wanted.
    pub fn take_first(&mut self, context: u32, wanted: impl Fn(Peer) -> bool) -> Option<(Peer, Envelope, T)> {
        let at = self.in_context(context).find(|&at| wanted(self.chains.nodes[at as usize].key.0))?;
        self.take_at(at)
    }

    /// Drops every message of one sender.
    pub fn drop_from(&mut self, peer: Peer) {
        let of_peer = |at: &u32| self.chains.nodes[*at as usize].key.0 == peer;
        for at in self.order.values().copied().filter(of_peer).collect::<Vec<_>>() {
            self.take_at(at);
        }
    }

    fn take_at(&mut self, at: u32) -> Option<(Peer, Envelope, T)> {
        let Node { key: (from, envelope), turn, .. } = self.chains.nodes[at as usize];
        self.order.remove(&(envelope.context, turn));
        self.chains.remove(at).map(|message| (from, envelope, message))
    }

    /// Takes out the first message for which `is_it` holds, whoever would have received it.
    pub fn take_back(&mut self, is_it: impl Fn(Peer, &T) -> bool) -> Option<T> {
        let (&turn, &at) = self.order.iter().find(|&(_, &at)| {
            let node = &self.chains.nodes[at as usize];
            node.value.as_ref().is_some_and(|message| is_it(node.key.0, message))
        })?;
        self.order.remove(&turn);
        self.chains.remove(at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Post(Option<u32>, Option<i32>),
        Arrive(u32, i32),
        Withdraw(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let source = prop_oneof![Just(None), (0..3u32).prop_map(Some)];
        let tag = prop_oneof![Just(None), (0..3i32).prop_map(Some)];
        prop_oneof![
            4 => (source, tag).prop_map(|(s, t)| Step::Post(s, t)),
            4 => (0..3u32, 0..3i32).prop_map(|(s, t)| Step::Arrive(s, t)),
            1 => (0..20usize).prop_map(Step::Withdraw),
        ]
    }

    proptest! {
        /// The tables against two plain lists searched from the front.
        #[test]
        fn matching_is_by_turn(steps in proptest::collection::vec(step(), 0..400)) {
            let (mut posted, mut waiting) = (Posted::new(), Waiting::new());
            let mut plain_posted: Vec<(Want, u32, Place)> = Vec::new();
            let mut plain_waiting: Vec<(Peer, Envelope, u32)> = Vec::new();
            for (n, step) in steps.into_iter().enumerate() {
                let n = n as u32;
                match step {
                    Step::Post(from, tag) => {
                        let want = Want { context: 1, from: from.map(Peer), tag };
                        let expected = plain_waiting.iter().position(|(f, e, _)| want.takes(*f, *e));
                        let expected = expected.map(|at| plain_waiting.remove(at));
                        prop_assert_eq!(waiting.peek(&want).map(|(f, e, &m)| (f, e, m)), expected);
                        let found = waiting.take(&want);
                        prop_assert_eq!(found, expected);
                        if found.is_none() {
                            let place = posted.post(want, n);
                            plain_posted.push((want, n, place));
                        }
                    }
                    Step::Arrive(from, tag) => {
                        let envelope = Envelope { context: 1, tag };
                        let at = plain_posted.iter().position(|(want, ..)| want.takes(Peer(from), envelope));
                        let expected = at.map(|at| plain_posted.remove(at).1);
                        prop_assert_eq!(posted.find(Peer(from), envelope), expected);
                        if expected.is_none() {
                            waiting.push(Peer(from), envelope, n);
                            plain_waiting.push((Peer(from), envelope, n));
                        }
                    }
                    Step::Withdraw(at) if at < plain_posted.len() => {
                        let (_, request, place) = plain_posted.remove(at);
                        prop_assert!(posted.withdraw(place, request));
                        prop_assert!(!posted.withdraw(place, request));
                    }
                    Step::Withdraw(_) => {}
                }
            }
            prop_assert_eq!(waiting.is_empty(), plain_waiting.is_empty());
        }
    }
}
