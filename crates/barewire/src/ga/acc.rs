//! Accumulation: the owner adds what others send, element by element, with atomic operations.
//!
//! So every contribution counts exactly once, whoever else accumulates or increments at the same time. The owner answers every
//! message, and a rank looks at a patch again only when its own contributions to it are in.

use std::collections::HashMap;
use std::ops::{Add, Mul};
use std::sync::atomic::Ordering;

use barewire_core::region::{Memory, RegionError, Width};
use barewire_core::{Deliver, Endpoint, Flow, Incoming, Peer, Port};

use super::{Error, Inner, Plain};

const ACC: Port = Port(0x6a01);
const ACC_DONE: Port = Port(0x6a02);
/// Bytes before the elements: where the first belongs, and the factor.
const PREFIX_BYTES: usize = 16;
/// Messages to one rank that may be unanswered.
const UNANSWERED_MAX: u64 = 256;
/// Bytes of elements in one message, at most.
const ELEMENTS_BYTES_MAX: usize = 8 << 10;

/// What an array can have as elements: integers and floats of 32 and 64 bits.
///
/// ```
/// use barewire::ga::Element;
/// fn sum<T: Element>(values: &[T]) -> T {
///     values.iter().fold(T::ZERO, |sum, &value| sum + value)
/// }
/// assert_eq!((sum(&[1, 2, 3]), sum(&[0.5f32; 4])), (6, 2.0));
/// ```
pub trait Element: Plain + PartialEq + Add<Output = Self> + Mul<Output = Self> {
    /// Zero.
    const ZERO: Self;
    /// How the wire calls it.
    #[doc(hidden)]
    const KIND: Kind;
    #[doc(hidden)]
    fn to_bits(self) -> u64;
}

/// Elements that [`Array::read_inc`](super::Array::read_inc) counts with.
///
/// ```
/// # use barewire::{core::{Config, Endpoint, job::Job}, ga::*};
/// # let ga = Ga::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// fn take<T: Counter>(tasks: &Array<'_, T>, one: T) -> T {
///     tasks.read_inc(&[0], one).unwrap()
/// }
/// let tasks = ga.create::<i32>(&[1]).unwrap();
/// assert_eq!((take(&tasks, 1), take(&tasks, 1)), (0, 1));
/// ```
pub trait Counter: Element {
    #[doc(hidden)]
    const WIDTH: Width;
    #[doc(hidden)]
    fn from_bits(bits: u64) -> Self;
}

/// A type of elements.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    I32,
    I64,
    F32,
    F64,
}

impl Kind {
    fn from_code(code: u64) -> Option<Kind> {
        [Kind::I32, Kind::I64, Kind::F32, Kind::F64].into_iter().find(|&kind| kind as u64 == code)
    }

    fn bytes(self) -> usize {
        match self {
            Kind::I32 | Kind::F32 => 4,
            Kind::I64 | Kind::F64 => 8,
        }
    }
}

macro_rules! elements {
    ($($element:ty, $kind:ident, $zero:expr, $bits:expr;)*) => { $(
        impl Element for $element {
            const ZERO: $element = $zero;
            const KIND: Kind = Kind::$kind;
            fn to_bits(self) -> u64 {
                let bits: fn($element) -> u64 = $bits;
                bits(self)
            }
        }
    )* };
}

elements! {
    i32, I32, 0, |x| u64::from(x as u32);
    i64, I64, 0, |x| x as u64;
    f32, F32, 0.0, |x| u64::from(f32::to_bits(x));
    f64, F64, 0.0, f64::to_bits;
}

impl Counter for i32 {
    const WIDTH: Width = Width::U32;
    fn from_bits(bits: u64) -> i32 {
        bits as i32
    }
}

impl Counter for i64 {
    const WIDTH: Width = Width::U64;
    fn from_bits(bits: u64) -> i64 {
        bits as i64
    }
}

/// The owner's side, and the answers to ours.
#[derive(Debug)]
pub(super) struct Accs {
    arrays: HashMap<u32, Memory>,
    /// Our accumulations at each rank that it has not answered.
    unanswered: Vec<u64>,
    refused: bool,
}

impl Accs {
    pub fn new(ranks: u32) -> Accs {
        Accs { arrays: HashMap::new(), unanswered: vec![0; ranks as usize], refused: false }
    }

    pub fn open(&mut self, array: u32, memory: &Memory) {
        self.arrays.insert(array, memory.clone());
    }

    pub fn close(&mut self, array: u32) -> bool {
        self.arrays.remove(&array).is_some()
    }

    /// Whether the array has not been destroyed.
    pub fn check(&self, array: u32) -> Result<(), Error> {
        if self.arrays.contains_key(&array) { Ok(()) } else { Err(Error::Region(RegionError::BadKey)) }
    }

    /// How many accumulations of ours a rank has not answered.
    #[inline]
    pub fn unanswered(&self, rank: u32) -> u64 {
        self.unanswered[rank as usize]
    }

    /// Whether one of ours was refused since the last time.
    pub fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.refused)
    }

    /// Applies what came; `None` if there is no such place.
    fn apply(&self, packet: &mut Incoming<'_>) -> Option<()> {
        let kind = Kind::from_code(packet.imm >> 32)?;
        let memory = self.arrays.get(&(packet.imm as u32))?;
        let (place, factor) = (usize::try_from(packet.read_u64()?).ok()?, packet.read_u64()?);
        let len = packet.remaining();
        if len > ELEMENTS_BYTES_MAX || len % kind.bytes() != 0 || place.checked_add(len)? > memory.len() {
            return None;
        }
        let mut elements = [0; ELEMENTS_BYTES_MAX];
        packet.read(&mut elements[..len]);
        accumulate(memory, place, kind, factor, &elements[..len])
    }
}

impl Deliver for Accs {
    fn deliver(&mut self, endpoint: &mut Endpoint, mut packet: Incoming<'_>) -> Flow {
        let from = packet.from;
        if packet.port == ACC {
            let refused = u64::from(self.apply(&mut packet).is_none());
            // Whoever is gone needs no answer.
            let _ = endpoint.reply(from, ACC_DONE, refused, &[]);
        } else if let (ACC_DONE, Some(open @ 1..)) = (packet.port, self.unanswered.get_mut(from.0 as usize)) {
            *open -= 1;
            self.refused |= packet.imm != 0;
        }
        Flow::Continue
    }
}

impl Inner {
    /// Adds `factor` times the elements to those from `place` on, in bytes, of a rank's part of the array.
    pub(super) fn acc<T: Element>(
        &mut self,
        (array, memory): (u32, &Memory),
        rank: u32,
        place: usize,
        factor: T,
        elements: &[u8],
    ) -> Result<(), Error> {
        let (to, factor) = (Peer(rank), factor.to_bits());
        if rank == self.world.rank() {
            self.world.hub.layer.check(array)?;
            return accumulate(memory, place, T::KIND, factor, elements).ok_or(Error::OUT_OF_RANGE);
        }
        let imm = (T::KIND as u64) << 32 | u64::from(array);
        let most =
            self.world.endpoint.message_max(to).clamp(PREFIX_BYTES + 64, PREFIX_BYTES + ELEMENTS_BYTES_MAX);
        let most = (most - PREFIX_BYTES) / size_of::<T>() * size_of::<T>();
        for (i, piece) in elements.chunks(most).enumerate() {
            let at = (place + i * most) as u64;
            self.world.send(to, |endpoint| {
                endpoint.send_with(to, ACC, imm, PREFIX_BYTES + piece.len(), |wire| {
                    wire.write_u64(at);
                    wire.write_u64(factor);
                    wire.write(piece);
                })
            })?;
            let unanswered = &mut self.world.hub.layer.unanswered[rank as usize];
            *unanswered += 1;
            // So many answers may be owed to us, and no more.
            if *unanswered >= UNANSWERED_MAX {
                self.settle(rank)?;
            }
        }
        Ok(())
    }
}

/// Adds `factor` times each element to what is there.
fn accumulate(memory: &Memory, place: usize, kind: Kind, factor: u64, elements: &[u8]) -> Option<()> {
    for (i, element) in elements.chunks_exact(kind.bytes()).enumerate() {
        let at = place + i * kind.bytes();
        match kind {
            Kind::I32 => {
                let by = i32::from_ne_bytes(element.try_into().ok()?).wrapping_mul(factor as i32);
                // SYNC accumulate: relaxed, because `sync` and its letters order what is read afterwards.
                memory.atomic_u32(at)?.fetch_add(by as u32, Ordering::Relaxed);
            }
            Kind::I64 => {
                let by = i64::from_ne_bytes(element.try_into().ok()?).wrapping_mul(factor as i64);
                memory.atomic_u64(at)?.fetch_add(by as u64, Ordering::Relaxed);
            }
            Kind::F32 => {
                let by = f32::from_ne_bytes(element.try_into().ok()?) * f32::from_bits(factor as u32);
                let add = |bits| Some((f32::from_bits(bits) + by).to_bits());
                let _ = memory.atomic_u32(at)?.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
            }
            Kind::F64 => {
                let by = f64::from_ne_bytes(element.try_into().ok()?) * f64::from_bits(factor);
                let add = |bits| Some((f64::from_bits(bits) + by).to_bits());
                let _ = memory.atomic_u64(at)?.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ga::Ga;

    #[test]
    fn an_answer_that_nobody_asked_for_counts_for_nothing() {
        crate::spmd::launch(&[2], |endpoint| {
            let ga = Ga::new(endpoint);
            let array = ga.create::<i64>(&[8])?;
            if ga.me == 1 {
                for refused in [0, 1, 1] {
                    let world = &mut ga.inner.borrow_mut().world;
                    world.send(Peer(0), |endpoint| endpoint.send(Peer(0), ACC_DONE, refused, &[]))?;
                }
            }
            ga.sync()?;
            if ga.me == 0 {
                array.acc(&[0..8], 1, &[1; 8])?;
                array.acc(&[0..8], 1, &[1; 8])?;
                assert_eq!(array.get(&[0..8])?, [2; 8]);
            }
            ga.sync()
        })
        .unwrap();
    }
}
