//! Matching: which receive a message is for, in constant time for exact ones and in posting order always.
//!
//! Posted receives and waiting messages hang in hash chains by (context, source, tag), each with the number of its turn.
//! Receives with a wildcard lie in a list of their own; whoever came first wins. Wildcard look-ups among waiting
//! messages go through a list in order of arrival.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::Peer;

/// What a message carries for its receive to be found: an application's context and a tag.
///
/// ```
/// use barewire_core::tagged::{Envelope, Tagged, Want};
/// # use barewire_sys::userbuf::UserBuf;
/// # use barewire_core::{Config, Endpoint, job::Job};
/// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
/// tagged.send_now(&mut endpoint, me, Envelope { context: 3, tag: 7 }, UserBuf::EMPTY).unwrap();
/// endpoint.progress(&mut tagged, usize::MAX);
/// let find = |context, tag| tagged.probe(&Want { context, from: None, tag: Some(tag) }).is_some();
/// assert!(find(3, 7) && !find(4, 7) && !find(3, 8));
/// ```
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
///
/// ```
/// use barewire_core::tagged::{Envelope, Tagged, Want};
/// # use barewire_sys::userbuf::UserBuf;
/// # use barewire_core::{Config, Endpoint, job::Job};
/// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
/// [-2, 9].map(|tag| tagged.send_now(&mut endpoint, me, Envelope { context: 1, tag }, UserBuf::EMPTY).unwrap());
/// endpoint.progress(&mut tagged, usize::MAX);
/// let any = Want { context: 1, from: None, tag: None };
/// assert_eq!(tagged.probe(&any).unwrap().tag, 9, "a negative tag has to be asked for");
/// assert_eq!(tagged.probe(&Want { tag: Some(-2), ..any }).unwrap().tag, -2);
/// ```
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
    pub(crate) fn takes(&self, from: Peer, envelope: Envelope) -> bool {
        self.context == envelope.context
            && self.from.is_none_or(|want| want == from)
            && match self.tag {
                Some(tag) => tag == envelope.tag,
                None => envelope.tag >= 0,
            }
    }

    fn exact(&self) -> Option<Key> {
        Some(Key::new(self.from?, Envelope { context: self.context, tag: self.tag? }))
    }
}

/// What hangs a posted receive, or a message that waits, into its chain. It lies with the receive or the message itself, so that
/// finding it is finding them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// Of a receive with a wildcard only what it has of a key.
    envelope: u64,
    from: Peer,
    /// Next in the chain, or in a list of free places.
    pub next: u32,
    turn: u64,
}

impl Link {
    pub const LOOSE: Link = Link { envelope: 0, from: ANYBODY, next: NONE, turn: 0 };

    #[inline(always)]
    fn new(key: Key, turn: u64) -> Link {
        Link { envelope: key.envelope, from: key.from, next: NONE, turn }
    }

    #[inline(always)]
    fn key(&self) -> Key {
        Key { envelope: self.envelope, from: self.from }
    }

    /// Whom a receive is from, if not from anybody.
    pub fn awaited(&self) -> Option<Peer> {
        Some(self.from).filter(|&from| from != ANYBODY)
    }

    /// Whom a receive is from, or a message; no peer's number if it is from anybody.
    #[inline(always)]
    pub fn peer(&self) -> Peer {
        self.from
    }

    /// The tag of a receive or a message; -1 if it is any.
    #[inline(always)]
    pub fn tag(&self) -> i32 {
        Envelope::from_imm(self.envelope).tag
    }

    /// The message has come, from whom and with which envelope it may.
    fn came(&mut self, from: Peer, envelope: Envelope) {
        (self.envelope, self.from) = (envelope.to_imm(), from);
    }
}

/// Something with a link.
pub(crate) trait Linked {
    fn link(&self) -> &Link;
    fn link_mut(&mut self) -> &mut Link;
}

/// What is matched: an envelope as it travels, and whom it is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    envelope: u64,
    from: Peer,
}

impl Key {
    #[inline(always)]
    fn new(from: Peer, envelope: Envelope) -> Key {
        Key { envelope: envelope.to_imm(), from }
    }

    fn envelope(&self) -> Envelope {
        Envelope::from_imm(self.envelope)
    }
}

/// The end of a chain.
pub(crate) const NONE: u32 = u32::MAX;
/// Whom a receive from anybody is from.
const ANYBODY: Peer = Peer(u32::MAX);

/// Chains of nodes that lie elsewhere: found by exact key in constant time, the earliest first.
#[derive(Debug)]
struct Chains {
    /// First and last of each: many receives with one key are posted in constant time each.
    ends: Vec<(u32, u32)>,
    count: usize,
}

impl Chains {
    fn new() -> Chains {
        Chains { ends: vec![(NONE, NONE); 64], count: 0 }
    }

    #[inline(always)]
    fn bucket(&self, key: &Key) -> usize {
        let mixed = (key.envelope ^ u64::from(key.from.0) << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as usize & (self.ends.len() - 1)
    }

    /// Hangs a node at the end of its chain, and gives it.
    #[inline(always)]
    fn push<'a, N: Linked>(&mut self, nodes: &'a mut [N], at: u32, link: Link) -> &'a mut N {
        if self.count >= self.ends.len() * 2 {
            self.grow(nodes);
        }
        self.count += 1;
        self.hang(nodes, at, &link.key());
        let node = &mut nodes[at as usize];
        *node.link_mut() = link;
        node
    }

    /// Hangs a node with this key, which is to have nothing next to it, at the end of its chain.
    #[inline(always)]
    fn hang<N: Linked>(&mut self, nodes: &mut [N], at: u32, key: &Key) {
        let bucket = self.bucket(key);
        let (first, last) = &mut self.ends[bucket];
        if *first == NONE {
            (*first, *last) = (at, at);
        } else {
            nodes[std::mem::replace(last, at) as usize].link_mut().next = at;
        }
    }

    #[cold]
    fn grow<N: Linked>(&mut self, nodes: &mut [N]) {
        let mut all = Vec::with_capacity(self.count);
        for &(mut at, _) in &self.ends {
            while at != NONE {
                all.push(at);
                at = nodes[at as usize].link().next;
            }
        }
        all.sort_by_key(|&at| nodes[at as usize].link().turn);
        self.ends = vec![(NONE, NONE); self.ends.len() * 4];
        for at in all {
            let link = nodes[at as usize].link_mut();
            link.next = NONE;
            let key = link.key();
            self.hang(nodes, at, &key);
        }
    }

    /// The earliest with this key.
    #[inline]
    fn first<N: Linked>(&self, nodes: &[N], key: &Key) -> Option<u32> {
        let mut at = self.ends[self.bucket(key)].0;
        while at != NONE {
            let link = nodes[at as usize].link();
            if link.key() == *key {
                return Some(at);
            }
            at = link.next;
        }
        None
    }

    /// Takes out the first node of the chain of `key` that `is_it`.
    #[inline(always)]
    fn take<N: Linked>(
        &mut self,
        nodes: &mut [N],
        key: &Key,
        is_it: impl Fn(u32, &Link) -> bool,
    ) -> Option<u32> {
        let bucket = self.bucket(key);
        let (mut before, mut at) = (NONE, self.ends[bucket].0);
        while at != NONE {
            let link = nodes[at as usize].link();
            let next = link.next;
            if is_it(at, link) {
                let (first, last) = &mut self.ends[bucket];
                if before == NONE {
                    *first = next;
                } else {
                    nodes[before as usize].link_mut().next = next;
                }
                if next == NONE {
                    *last = before;
                }
                self.count -= 1;
                return Some(at);
            }
            (before, at) = (at, next);
        }
        None
    }

    /// Takes out a node that is in a chain.
    fn remove<N: Linked>(&mut self, nodes: &mut [N], target: u32) {
        let key = nodes[target as usize].link().key();
        self.take(nodes, &key, |at, _| at == target);
    }
}

/// Receives that wait for their messages.
#[derive(Debug)]
pub(crate) struct Posted {
    exact: Chains,
    /// Receives with a wildcard, by turn.
    wild: BTreeMap<u64, (Want, u32)>,
    turn: u64,
}

impl Posted {
    pub fn new() -> Posted {
        Posted { exact: Chains::new(), wild: BTreeMap::new(), turn: 0 }
    }

    /// Whether nobody waits for a message.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.exact.count == 0 && self.wild.is_empty()
    }

    /// Whether a receive waits that would take such a message.
    #[inline(always)]
    pub fn has<N: Linked>(&self, nodes: &[N], from: Peer, envelope: Envelope) -> bool {
        !self.is_empty() && self.finds(nodes, from, envelope)
    }

    #[inline(never)]
    fn finds<N: Linked>(&self, nodes: &[N], from: Peer, envelope: Envelope) -> bool {
        let is_wild = self.wild.values().any(|(want, _)| want.takes(from, envelope));
        is_wild || self.exact.first(nodes, &Key::new(from, envelope)).is_some()
    }

    /// Posts the receive `at`.
    #[inline]
    pub fn post<N: Linked>(&mut self, nodes: &mut [N], want: Want, at: u32) {
        if let (Some(from), Some(tag)) = (want.from, want.tag) {
            self.post_exact(nodes, from, Envelope { context: want.context, tag }, at);
            return;
        }
        self.turn += 1;
        let (from, tag) = (want.from.unwrap_or(ANYBODY), want.tag.unwrap_or(-1));
        let key = Key::new(from, Envelope { context: want.context, tag });
        *nodes[at as usize].link_mut() = Link::new(key, self.turn);
        self.wild.insert(self.turn, (want, at));
    }

    /// Posts the receive `at`, which has no wildcard, and gives it.
    #[inline(always)]
    pub fn post_exact<'a, N: Linked>(
        &mut self,
        nodes: &'a mut [N],
        from: Peer,
        envelope: Envelope,
        at: u32,
    ) -> &'a mut N {
        self.turn += 1;
        self.exact.push(nodes, at, Link::new(Key::new(from, envelope), self.turn))
    }

    /// Takes out the receive that a message is for. Its link says from then on whom the message is from, and its tag.
    #[inline(always)]
    pub fn find<N: Linked>(&mut self, nodes: &mut [N], from: Peer, envelope: Envelope) -> Option<u32> {
        if self.wild.is_empty() {
            let key = Key::new(from, envelope);
            return self.exact.take(nodes, &key, |_, link| link.key() == key);
        }
        self.find_first(nodes, from, envelope)
    }

    #[cold]
    fn find_first<N: Linked>(&mut self, nodes: &mut [N], from: Peer, envelope: Envelope) -> Option<u32> {
        let exact = self.exact.first(nodes, &Key::new(from, envelope));
        let wild = self.wild.iter().find(|(_, (want, _))| want.takes(from, envelope)).map(|(&turn, _)| turn);
        let earlier = match (wild, exact) {
            (Some(wild), Some(exact)) => wild < nodes[exact as usize].link().turn,
            (wild, _) => wild.is_some(),
        };
        if earlier {
            let at = self.wild.remove(&wild?).map(|(_, at)| at)?;
            nodes[at as usize].link_mut().came(from, envelope);
            return Some(at);
        }
        self.exact.remove(nodes, exact?);
        exact
    }

    /// Takes back a receive that is posted.
    pub fn withdraw<N: Linked>(&mut self, nodes: &mut [N], at: u32) {
        if self.wild.remove(&nodes[at as usize].link().turn).is_none() {
            self.exact.remove(nodes, at);
        }
    }
}

/// Messages that wait for their receives.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    nodes: Vec<Node<T>>,
    free: u32,
    chains: Chains,
    /// In order of arrival in each context: turn to node.
    order: BTreeMap<(u32, u64), u32>,
    turn: u64,
}

#[derive(Debug)]
struct Node<T> {
    link: Link,
    value: Option<T>,
}

impl<T> Linked for Node<T> {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl<T> Waiting<T> {
    pub fn new() -> Waiting<T> {
        Waiting { nodes: Vec::new(), free: NONE, chains: Chains::new(), order: BTreeMap::new(), turn: 0 }
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.chains.count == 0
    }

    /// Whether there is such a message.
    #[inline(always)]
    pub fn has(&self, from: Peer, envelope: Envelope) -> bool {
        !self.is_empty() && self.finds(from, envelope)
    }

    #[inline(never)]
    fn finds(&self, from: Peer, envelope: Envelope) -> bool {
        self.chains.first(&self.nodes, &Key::new(from, envelope)).is_some()
    }

    pub fn push(&mut self, from: Peer, envelope: Envelope, message: T) {
        self.turn += 1;
        let link = Link::new(Key::new(from, envelope), self.turn);
        let node = Node { link, value: Some(message) };
        let at = if self.free == NONE {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            let at = self.free;
            self.free = std::mem::replace(&mut self.nodes[at as usize], node).link.next;
            at
        };
        self.chains.push(&mut self.nodes, at, link);
        self.order.insert((envelope.context, self.turn), at);
    }

    /// Whether there is any message in these contexts.
    pub fn is_any_in(&self, contexts: RangeInclusive<u32>) -> bool {
        !self.is_empty()
            && self.order.range((*contexts.start(), 0)..=(*contexts.end(), u64::MAX)).next().is_some()
    }

    fn locate(&self, want: &Want) -> Option<u32> {
        match want.exact() {
            Some(key) => self.chains.first(&self.nodes, &key),
            None => self.in_context(want.context).find(|&at| {
                let key = self.nodes[at as usize].link.key();
                want.takes(key.from, key.envelope())
            }),
        }
    }

    fn in_context(&self, context: u32) -> impl Iterator<Item = u32> + '_ {
        self.order.range((context, 0)..=(context, u64::MAX)).map(|(_, &at)| at)
    }

    /// The earliest message that a receive would take.
    pub fn peek(&self, want: &Want) -> Option<(Peer, Envelope, &T)> {
        let node = &self.nodes[self.locate(want)? as usize];
        Some((node.link.peer(), node.link.key().envelope(), node.value.as_ref()?))
    }

    /// Takes out the earliest message that a receive takes.
    pub fn take(&mut self, want: &Want) -> Option<(Peer, Envelope, T)> {
        self.take_at(self.locate(want)?)
    }

    /// Takes out the earliest message of a context, whatever its tag, among those whose sender is wanted.
    pub fn take_first(&mut self, context: u32, wanted: impl Fn(Peer) -> bool) -> Option<(Peer, Envelope, T)> {
        let at = self.in_context(context).find(|&at| wanted(self.nodes[at as usize].link.peer()))?;
        self.take_at(at)
    }

    /// Drops every message of one sender.
    pub fn drop_from(&mut self, peer: Peer) {
        let of_peer = |at: &u32| self.nodes[*at as usize].link.peer() == peer;
        for at in self.order.values().copied().filter(of_peer).collect::<Vec<_>>() {
            self.take_at(at);
        }
    }

    fn take_at(&mut self, at: u32) -> Option<(Peer, Envelope, T)> {
        let link = self.nodes[at as usize].link;
        let (from, envelope, turn) = (link.from, link.key().envelope(), link.turn);
        self.order.remove(&(envelope.context, turn));
        self.chains.remove(&mut self.nodes, at);
        let node = &mut self.nodes[at as usize];
        node.link.next = std::mem::replace(&mut self.free, at);
        node.value.take().map(|message| (from, envelope, message))
    }

    /// Takes out the first message for which `is_it` holds, whoever would have received it.
    pub fn take_back(&mut self, is_it: impl Fn(Peer, &T) -> bool) -> Option<T> {
        let (_, &at) = self.order.iter().find(|&(_, &at)| {
            let node = &self.nodes[at as usize];
            node.value.as_ref().is_some_and(|message| is_it(node.link.peer(), message))
        })?;
        self.take_at(at).map(|(_, _, message)| message)
    }

    /// Looks at all messages, in order of arrival in each context; they may become others where they stand.
    pub fn for_each(&mut self, mut look: impl FnMut(Peer, &mut T)) {
        for &at in self.order.values() {
            let node = &mut self.nodes[at as usize];
            let from = node.link.peer();
            node.value.iter_mut().for_each(|message| look(from, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Linked for Link {
        fn link(&self) -> &Link {
            self
        }

        fn link_mut(&mut self) -> &mut Link {
            self
        }
    }

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
            let mut links = vec![Link::LOOSE; 400];
            let mut plain_posted: Vec<(Want, u32)> = Vec::new();
            let mut plain_waiting: Vec<(Peer, Envelope, u32)> = Vec::new();
            for (n, step) in steps.into_iter().enumerate() {
                let n = n as u32;
                match step {
                    Step::Post(from, tag) => {
                        let want = Want { context: 1, from: from.map(Peer), tag };
                        let expected = plain_waiting.iter().position(|(f, e, _)| want.takes(*f, *e));
                        let expected = expected.map(|at| plain_waiting.remove(at));
                        prop_assert_eq!(waiting.peek(&want).map(|(f, e, &m)| (f, e, m)), expected);
                        if let (Some(from), Some(tag)) = (want.from, want.tag) {
                            let envelope = Envelope { context: 1, tag };
                            prop_assert_eq!(waiting.has(from, envelope), expected.is_some());
                        }
                        let found = waiting.take(&want);
                        prop_assert_eq!(found, expected);
                        if found.is_none() {
                            posted.post(&mut links, want, n);
                            plain_posted.push((want, n));
                        }
                    }
                    Step::Arrive(from, tag) => {
                        let envelope = Envelope { context: 1, tag };
                        let at = plain_posted.iter().position(|(want, _)| want.takes(Peer(from), envelope));
                        let expected = at.map(|at| plain_posted.remove(at).1);
                        prop_assert_eq!(posted.has(&links, Peer(from), envelope), expected.is_some());
                        prop_assert_eq!(posted.find(&mut links, Peer(from), envelope), expected);
                        if expected.is_none() {
                            waiting.push(Peer(from), envelope, n);
                            plain_waiting.push((Peer(from), envelope, n));
                        }
                    }
                    Step::Withdraw(at) if at < plain_posted.len() => {
                        let (_, request) = plain_posted.remove(at);
                        posted.withdraw(&mut links, request);
                    }
                    Step::Withdraw(_) => {}
                }
            }
            prop_assert_eq!(waiting.is_empty(), plain_waiting.is_empty());
        }
    }
}
