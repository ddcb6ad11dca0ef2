//! A bad wire made to order: every impairment a datagram can suffer, drawn from a seed.
//!
//! [`Fault`] takes datagrams with [`push`](Fault::push) and gives back, later, what a poor network would have
//! delivered with [`pop`](Fault::pop). It is one direction of a wire; two make a pair. The same seed and the
//! same calls give the same faults, so a failing run is replayed from its seed alone.
//!
//! ```
//! use barewire_core::filter::fault::{Fault, FaultConfig};
//! use barewire_core::time::Nanos;
//! let arrivals = |seed| {
//!     let mut wire = Fault::new(FaultConfig { loss: 0.5, ..FaultConfig::default() }, seed);
//!     (0..100).for_each(|number| wire.push(Nanos::ZERO, &[number]));
//!     Vec::from_iter(std::iter::from_fn(|| wire.pop(Nanos::ZERO)))
//! };
//! assert_eq!(arrivals(7), arrivals(7));
//! assert_ne!(arrivals(7), arrivals(8));
//! ```

use crate::time::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What the wire does to datagrams. The default does nothing: no loss, no delay.
///
/// Probabilities are per datagram, from 0.0 to 1.0; anything outside counts as the nearer end, NaN as 0.
///
/// ```
/// use barewire_core::filter::fault::FaultConfig;
/// use barewire_core::time::Nanos;
///
/// let bad = FaultConfig { loss: 0.05, delay: Nanos::from_micros(20), ..FaultConfig::default() };
/// assert_eq!(bad.duplicate, 0.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FaultConfig {
    /// Chance that a datagram disappears. Default 0.
    pub loss: f64,
    /// Chance that a datagram arrives twice, each copy with faults of its own. Default 0.
    pub duplicate: f64,
    /// Chance that a datagram is held back by up to [`jitter`](Self::jitter), so that later ones overtake it.
    /// Default 0.
    pub reorder: f64,
    /// Chance that one to eight bits are flipped. Default 0.
    pub corrupt: f64,
    /// Chance that the end is cut off, leaving any shorter length, zero included. Default 0.
    pub truncate: f64,
    /// How long every datagram takes. Default 0.
    pub delay: Nanos,
    /// The most a reordered datagram is held back on top of `delay`. Default 0.
    pub jitter: Nanos,
    /// The most datagrams in flight; further ones are lost, as in a full switch. Default 4096, which bounds
    /// the memory at 4096 times the datagram size.
    pub queue_max: usize,
}

impl Default for FaultConfig {
    fn default() -> Self {
        Self {
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            corrupt: 0.0,
            truncate: 0.0,
            delay: Nanos::ZERO,
            jitter: Nanos::ZERO,
            queue_max: 4096,
        }
    }
}

/// What a [`Fault`] has done so far.
///
/// ```
/// use barewire_core::filter::fault::{Fault, FaultConfig};
/// use barewire_core::time::Nanos;
///
/// let mut wire = Fault::new(FaultConfig { loss: 1.0, ..FaultConfig::default() }, 7);
/// wire.push(Nanos::ZERO, b"gone");
/// assert_eq!(wire.stats().lost, 1);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultStats {
    /// Datagrams pushed.
    pub pushed: u64,
    /// Datagrams handed out, copies included.
    pub popped: u64,
    /// Datagrams lost to chance, to a full queue, to a cut or to a crash.
    pub lost: u64,
    /// Extra copies made.
    pub duplicated: u64,
    /// Datagrams held back.
    pub reordered: u64,
    /// Datagrams with flipped bits.
    pub corrupted: u64,
    /// Datagrams cut short.
    pub truncated: u64,
}

/// One direction of an impaired wire.
///
/// ```
/// use barewire_core::filter::fault::{Fault, FaultConfig};
/// use barewire_core::time::Nanos;
///
/// let mut wire = Fault::new(FaultConfig { delay: Nanos::MICRO, ..FaultConfig::default() }, 0x51f2);
/// wire.push(Nanos::ZERO, b"hello");
/// assert_eq!(wire.pop(Nanos::ZERO), None);
/// assert_eq!(wire.deadline(), Some(Nanos::MICRO));
/// assert_eq!(wire.pop(Nanos::MICRO).as_deref(), Some(&b"hello"[..]));
/// ```
#[derive(Debug)]
pub struct Fault {
    config: FaultConfig,
    rng: SplitMix64,
    in_flight: BinaryHeap<Reverse<Flight>>,
    pushed_serial: u64,
    link: Link,
    stats: FaultStats,
}

impl Fault {
    /// A wire with these faults, drawn from `seed`.
    ///
    /// ```
    /// # use barewire_core::{filter::fault::{Fault, FaultConfig}, time::Nanos};
    /// let mut good = Fault::new(FaultConfig::default(), 0);
    /// good.push(Nanos::ZERO, b"as it was");
    /// assert_eq!(good.pop(Nanos::ZERO).unwrap(), b"as it was");
    /// ```
    #[must_use]
    pub fn new(config: FaultConfig, seed: u64) -> Self {
        Self {
            config,
            rng: SplitMix64::new(seed),
            in_flight: BinaryHeap::new(),
            pushed_serial: 0,
            link: Link::Up,
            stats: FaultStats::default(),
        }
    }

    /// Puts a datagram on the wire.
    ///
    /// ```
    /// # use barewire_core::{filter::fault::{Fault, FaultConfig}, time::Nanos};
    /// let mut wire = Fault::new(FaultConfig { duplicate: 1.0, queue_max: 3, ..FaultConfig::default() }, 1);
    /// wire.push(Nanos::ZERO, b"a");
    /// wire.push(Nanos::ZERO, b"b");
    /// assert_eq!((wire.in_flight(), wire.stats().lost), (3, 1), "two of each, but there was room for three");
    /// ```
    pub fn push(&mut self, now: Nanos, datagram: &[u8]) {
        self.stats.pushed += 1;
        if self.link != Link::Up {
            self.stats.lost += 1;
            return;
        }
        let copies = self.config.impair(&mut self.rng, &mut self.stats, datagram);
        for copy in copies.into_iter().flatten() {
            if self.in_flight.len() >= self.config.queue_max {
                self.stats.lost += 1;
                continue;
            }
            let due = now + self.config.delay + copy.held_back;
            self.pushed_serial += 1;
            self.in_flight.push(Reverse(Flight { due, serial: self.pushed_serial, bytes: copy.bytes }));
        }
    }

    /// The next datagram that has arrived by `now`, or `None`.
    ///
    /// ```
    /// # use barewire_core::{filter::fault::{Fault, FaultConfig}, time::Nanos};
    /// let mut wire = Fault::new(FaultConfig { delay: Nanos::MILLI, ..FaultConfig::default() }, 1);
    /// wire.push(Nanos::ZERO, b"first");
    /// wire.push(Nanos::MILLI, b"second");
    /// assert_eq!(wire.pop(Nanos::MILLI).unwrap(), b"first");
    /// assert_eq!(wire.pop(Nanos::MILLI), None, "the second is still on its way");
    /// assert_eq!(wire.pop(Nanos::MILLI * 2).unwrap(), b"second");
    /// ```
    pub fn pop(&mut self, now: Nanos) -> Option<Vec<u8>> {
        if self.deadline()? > now {
            return None;
        }
        let Reverse(flight) = self.in_flight.pop()?;
        self.stats.popped += 1;
        Some(flight.bytes)
    }

    /// When the next datagram arrives; `None` while the wire is empty.
    ///
    /// ```
    /// # use barewire_core::{filter::fault::{Fault, FaultConfig}, time::Nanos};
    /// let mut wire = Fault::new(FaultConfig { delay: Nanos::MILLI, ..FaultConfig::default() }, 1);
    /// assert_eq!(wire.deadline(), None);
    /// wire.push(Nanos::SECOND, b"x");
    /// let at = wire.deadline().unwrap();
    /// assert_eq!(at, Nanos::SECOND + Nanos::MILLI);
    /// assert!(wire.pop(at).is_some());
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        self.in_flight.peek().map(|Reverse(flight)| flight.due)
    }

    /// Partitions the wire: what is in flight and what is pushed until [`restore`](Self::restore) is lost.
    ///
    /// ```
    /// use barewire_core::filter::fault::{Fault, FaultConfig};
    /// use barewire_core::time::Nanos;
    ///
    /// let mut wire = Fault::new(FaultConfig::default(), 1);
    /// wire.cut();
    /// wire.push(Nanos::ZERO, b"lost");
    /// wire.restore();
    /// wire.push(Nanos::ZERO, b"kept");
    /// assert_eq!(wire.pop(Nanos::ZERO).as_deref(), Some(&b"kept"[..]));
    /// ```
    pub fn cut(&mut self) {
        if self.link == Link::Up {
            self.link = Link::Cut;
        }
        self.stats.lost += self.in_flight.len() as u64;
        self.in_flight.clear();
    }

    /// Heals a [`cut`](Self::cut). A crashed wire stays silent.
    ///
    /// ```
    /// # use barewire_core::{filter::fault::{Fault, FaultConfig}, time::Nanos};
    /// let mut wire = Fault::new(FaultConfig::default(), 1);
    /// for heals in [true, false] {
    ///     if heals { wire.cut() } else { wire.crash() }
    ///     wire.restore();
    ///     wire.push(Nanos::ZERO, b"hello");
    ///     assert_eq!(wire.pop(Nanos::MAX).is_some(), heals);
    /// }
    /// ```
    pub fn restore(&mut self) {
        if self.link == Link::Cut {
            self.link = Link::Up;
        }
    }

    /// Kills the wire for good, as when the machine at its end loses power: nothing ever comes out again.
    ///
    /// ```
    /// use barewire_core::filter::fault::{Fault, FaultConfig};
    /// use barewire_core::time::Nanos;
    ///
    /// let mut wire = Fault::new(FaultConfig::default(), 1);
    /// wire.push(Nanos::ZERO, b"in flight");
    /// wire.crash();
    /// wire.restore();
    /// assert_eq!(wire.pop(Nanos::MAX), None);
    /// ```
    pub fn crash(&mut self) {
        self.cut();
        self.link = Link::Crashed;
    }

    /// Datagrams in flight.
    ///
    /// ```
    /// # use barewire_core::{filter::fault::{Fault, FaultConfig}, time::Nanos};
    /// let mut wire = Fault::new(FaultConfig::default(), 1);
    /// wire.push(Nanos::ZERO, b"a");
    /// wire.push(Nanos::ZERO, b"b");
    /// wire.pop(Nanos::ZERO);
    /// assert_eq!(wire.in_flight(), 1);
    /// ```
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// What has happened so far.
    ///
    /// ```
    /// # use barewire_core::{filter::fault::{Fault, FaultConfig}, time::Nanos};
    /// let mut wire = Fault::new(FaultConfig { truncate: 1.0, ..FaultConfig::default() }, 1);
    /// wire.push(Nanos::ZERO, b"longer than what arrives");
    /// assert!(wire.pop(Nanos::ZERO).unwrap().len() < 24);
    /// let stats = wire.stats();
    /// assert_eq!((stats.pushed, stats.popped, stats.truncated, stats.lost), (1, 1, 1, 0));
    /// ```
    #[must_use]
    pub fn stats(&self) -> FaultStats {
        self.stats
    }
}

/// What is left of a datagram, and how much later than others it arrives.
#[derive(Debug)]
pub(crate) struct Copy {
    pub bytes: Vec<u8>,
    pub held_back: Nanos,
}

impl FaultConfig {
    /// Decides what becomes of one datagram: nothing, one copy, or two, each with faults of its own.
    pub(crate) fn impair(
        &self,
        rng: &mut SplitMix64,
        stats: &mut FaultStats,
        datagram: &[u8],
    ) -> [Option<Copy>; 2] {
        if rng.chance(self.loss) {
            stats.lost += 1;
            return [None, None];
        }
        let first = self.damage(rng, stats, datagram);
        let twice = rng.chance(self.duplicate);
        stats.duplicated += u64::from(twice);
        [Some(first), twice.then(|| self.damage(rng, stats, datagram))]
    }

    /// One copy of a datagram, with its own damage and its own delay.
    fn damage(&self, rng: &mut SplitMix64, stats: &mut FaultStats, datagram: &[u8]) -> Copy {
        let mut bytes = datagram.to_vec();
        if rng.chance(self.truncate) && !bytes.is_empty() {
            bytes.truncate(rng.below(bytes.len() as u64) as usize);
            stats.truncated += 1;
        }
        if rng.chance(self.corrupt) && !bytes.is_empty() {
            stats.corrupted += 1;
            flip_bits(rng, &mut bytes);
        }
        let mut held_back = Nanos::ZERO;
        if rng.chance(self.reorder) {
            held_back = Nanos(rng.below(self.jitter.0.saturating_add(1)));
            stats.reordered += 1;
        }
        Copy { bytes, held_back }
    }
}

fn flip_bits(rng: &mut SplitMix64, bytes: &mut [u8]) {
    for _ in 0..=rng.below(8) {
        let at = rng.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << rng.below(8);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Up,
    Cut,
    Crashed,
}

/// Ordered by arrival, then by the order of pushing, so that equal delays keep their order.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    due: Nanos,
    serial: u64,
    bytes: Vec<u8>,
}

/// A small, fast, seeded generator (SplitMix64): good enough to choose faults, useless for secrets.
///
/// ```
/// use barewire_core::filter::fault::SplitMix64;
///
/// let (mut one, mut two) = (SplitMix64::new(9), SplitMix64::new(9));
/// assert_eq!(one.next_u64(), two.next_u64());
/// assert!(one.below(10) < 10);
/// assert!(one.chance(1.0) && !one.chance(0.0));
/// ```
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// A generator whose whole future follows from `seed`.
    ///
    /// ```
    /// # use barewire_core::filter::fault::SplitMix64;
    /// let numbers = |seed| { let mut rng = SplitMix64::new(seed); [rng.next_u64(), rng.next_u64()] };
    /// assert_eq!(numbers(1), numbers(1));
    /// assert_ne!(numbers(1), numbers(2));
    /// ```
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    ///
    /// ```
    /// # use barewire_core::filter::fault::SplitMix64;
    /// assert_eq!(SplitMix64::new(0).next_u64(), 0xe220_a839_7b1d_cdaf, "as in the published algorithm");
    /// ```
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if `end` is 0.
    ///
    /// ```
    /// # use barewire_core::filter::fault::SplitMix64;
    /// let mut dice = SplitMix64::new(3);
    /// let mut seen = [0; 6];
    /// (0..600).for_each(|_| seen[dice.below(6) as usize] += 1);
    /// assert!(seen.iter().all(|&times| times > 60), "{seen:?}");
    /// assert_eq!(dice.below(0), 0);
    /// ```
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// True with this probability.
    ///
    /// ```
    /// # use barewire_core::filter::fault::SplitMix64;
    /// let mut rng = SplitMix64::new(3);
    /// let hits = (0..1000).filter(|_| rng.chance(0.25)).count();
    /// assert!((200..300).contains(&hits), "{hits}");
    /// assert!(!rng.chance(f64::NAN));
    /// ```
    pub fn chance(&mut self, probability: f64) -> bool {
        let unit = (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        unit < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_faults() -> FaultConfig {
        FaultConfig {
            loss: 0.2,
            duplicate: 0.2,
            reorder: 0.5,
            corrupt: 0.2,
            truncate: 0.2,
            delay: Nanos::from_micros(5),
            jitter: Nanos::from_micros(50),
            ..FaultConfig::default()
        }
    }

    fn run(seed: u64) -> (Vec<Vec<u8>>, FaultStats) {
        let mut wire = Fault::new(all_faults(), seed);
        for step in 0..500u64 {
            wire.push(Nanos::from_micros(step), &step.to_le_bytes());
        }
        let arrived = std::iter::from_fn(|| wire.pop(Nanos::MAX)).collect();
        (arrived, wire.stats())
    }

    #[test]
    fn the_same_seed_gives_the_same_faults_and_another_seed_others() {
        assert_eq!(run(3), run(3));
        assert_ne!(run(3).0, run(4).0);
    }

    #[test]
    fn every_fault_happens_and_the_books_balance() {
        let (arrived, stats) = run(11);
        for count in [stats.lost, stats.duplicated, stats.reordered, stats.corrupted, stats.truncated] {
            assert!(count > 20, "{stats:?}");
        }
        assert_eq!(arrived.len() as u64, stats.popped);
        assert_eq!(stats.pushed + stats.duplicated, stats.popped + stats.lost);
    }

    #[test]
    fn a_good_wire_keeps_order_and_bytes() {
        let mut wire = Fault::new(FaultConfig::default(), 5);
        for byte in 0..100u8 {
            wire.push(Nanos::ZERO, &[byte]);
        }
        let arrived: Vec<_> = std::iter::from_fn(|| wire.pop(Nanos::ZERO)).collect();
        assert_eq!(arrived, (0..100u8).map(|byte| vec![byte]).collect::<Vec<_>>());
    }

    #[test]
    fn a_full_queue_loses_and_does_not_grow() {
        let mut wire = Fault::new(FaultConfig { queue_max: 3, duplicate: 1.0, ..FaultConfig::default() }, 5);
        for _ in 0..10 {
            wire.push(Nanos::ZERO, b"x");
        }
        assert_eq!(wire.in_flight(), 3);
        assert_eq!(wire.stats().lost, 17);
    }

    #[test]
    fn odd_probabilities_do_no_harm() {
        let mut wire = Fault::new(
            FaultConfig {
                loss: f64::NAN,
                duplicate: 7.0,
                truncate: -1.0,
                corrupt: 2.0,
                ..FaultConfig::default()
            },
            5,
        );
        wire.push(Nanos::MAX, b"");
        assert_eq!(wire.in_flight(), 2);
    }
}
