//! Collectives over teams: broadcast, collect, reductions, all to all.

use zerocopy::IntoBytes;

use super::transfer::strided;
use super::{Error, Plain, Shmem, Team};

/// How values are combined.
///
/// ```
/// # use barewire::{shmem::*, spmd};
/// # spmd::launch(&[3], |endpoint| {
/// # let shmem = Shmem::init(endpoint, 1 << 16)?;
/// # let me = shmem.my_pe();
/// let team = shmem.team_world();
/// assert_eq!(shmem.reduce(team, Op::Max, &[me, 3 - me])?, [2, 3]);
/// assert_eq!(shmem.reduce(team, Op::Or, &[1 << me])?, [0b111]);
/// assert_eq!(shmem.reduce(team, Op::Prod, &[me + 1])?, [6]);
/// # Ok::<_, spmd::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// The greatest.
    Max,
    /// The least.
    Min,
    /// Integers wrap around.
    Sum,
    /// Integers wrap around.
    Prod,
}

/// Values that can be combined.
///
/// ```
/// use barewire::shmem::{Op, Reducible};
/// assert_eq!(u8::combine(Op::Sum, 200, 100), Some(44)); // wraps around
/// assert_eq!(f64::combine(Op::Min, 1.5, -2.0), Some(-2.0));
/// assert_eq!(f64::combine(Op::And, 1.5, -2.0), None);
/// ```
pub trait Reducible: Plain {
    /// The combination, if these values have one: floats have no bitwise ones.
    fn combine(op: Op, a: Self, b: Self) -> Option<Self>;
}

macro_rules! reducible_integers {
    ($($word:ty)*) => { $(
        impl Reducible for $word {
            fn combine(op: Op, a: $word, b: $word) -> Option<$word> {
                Some(match op {
                    Op::And => a & b,
                    Op::Or => a | b,
                    Op::Xor => a ^ b,
                    Op::Max => a.max(b),
                    Op::Min => a.min(b),
                    Op::Sum => a.wrapping_add(b),
                    Op::Prod => a.wrapping_mul(b),
                })
            }
        }
    )* };
}

macro_rules! reducible_floats {
    ($($float:ty)*) => { $(
        impl Reducible for $float {
            fn combine(op: Op, a: $float, b: $float) -> Option<$float> {
                match op {
                    Op::And | Op::Or | Op::Xor => None,
                    Op::Max => Some(a.max(b)),
                    Op::Min => Some(a.min(b)),
                    Op::Sum => Some(a + b),
                    Op::Prod => Some(a * b),
                }
            }
        }
    )* };
}

reducible_integers! { u8 i8 u16 i16 u32 i32 u64 i64 usize isize }
reducible_floats! { f32 f64 }

impl Shmem {
    /// What PE `root` of the team has in `values` is in everybody's.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let mut seed = [if me == 2 { 99 } else { 0 }];
    /// shmem.broadcast(shmem.team_world(), 2, &mut seed)?;
    /// assert_eq!(seed, [99]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn broadcast<T: Plain>(&self, team: Team, root: u32, values: &mut [T]) -> Result<(), Error> {
        self.inner.borrow_mut().world.broadcast(team.0, root, values)
    }

    /// Everybody's values combined, place by place. The order depends on the PEs' numbers alone, so floats give the same in every run.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let worst = shmem.reduce(shmem.team_world(), Op::Min, &[0.5 + f64::from(me), -f64::from(me)])?;
    /// assert_eq!(worst, [0.5, -1.0]); // place by place, at both
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn reduce<T: Reducible>(&self, team: Team, op: Op, values: &[T]) -> Result<Vec<T>, Error> {
        let mut all = values.to_vec();
        if values.first().is_some_and(|&first| T::combine(op, first, first).is_none()) {
            return Err(Error::Mismatch("floats have no bitwise combinations"));
        }
        let world = &mut self.inner.borrow_mut().world;
        world.reduce(team.0, &mut all, |a, b| T::combine(op, a, b).unwrap_or(a))?;
        Ok(all)
    }

    /// Everybody's values, one after the other in the order of the team, however many each has.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let mine = vec![me; me as usize];
    /// assert_eq!(shmem.collect(shmem.team_world(), &mine)?, [1, 2, 2]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn collect<T: Plain>(&self, team: Team, values: &[T]) -> Result<Vec<T>, Error> {
        let parts = self.inner.borrow_mut().world.gather_all(team.0, values.as_bytes())?;
        values_of(&parts)
    }

    /// [`Shmem::collect`] of equally many values from each.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let pairs = shmem.fcollect(shmem.team_world(), &[me, 10 * me])?;
    /// assert_eq!(pairs, [0, 0, 1, 10]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn fcollect<T: Plain>(&self, team: Team, values: &[T]) -> Result<Vec<T>, Error> {
        let all = self.collect(team, values)?;
        if all.len() == values.len() * team.n_pes() as usize {
            Ok(all)
        } else {
            Err(Error::Mismatch("an fcollect takes equally many values from each PE"))
        }
    }

    /// Block `i` of `values`, of `count` values, goes to PE `i` of the team; returns the blocks that came here, in the order of the team.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let mine = [[1u8, 2, 3, 4], [5, 6, 7, 8]][me as usize];
    /// let came = shmem.alltoall(shmem.team_world(), &mine, 2)?;
    /// assert_eq!(came, if me == 0 { [1, 2, 5, 6] } else { [3, 4, 7, 8] });
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn alltoall<T: Plain>(&self, team: Team, values: &[T], count: usize) -> Result<Vec<T>, Error> {
        if count.checked_mul(team.n_pes() as usize) != Some(values.len()) {
            return Err(Error::Mismatch("an alltoall has one block for each PE"));
        }
        let blocks: Vec<&[u8]> = if count == 0 {
            vec![&[]; team.n_pes() as usize]
        } else {
            values.chunks(count).map(IntoBytes::as_bytes).collect()
        };
        let parts = self.inner.borrow_mut().world.exchange(team.0, &blocks)?;
        values_of(&parts)
    }

    /// [`Shmem::alltoall`] of single values that lie `source_stride` apart, into places `stride` apart.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// // Every second value goes out, and lands in every third place.
    /// let mine = [[1, 0, 2], [3, 0, 4]][me as usize];
    /// let mut into = [0; 4];
    /// shmem.alltoalls(shmem.team_world(), &mut into, 3, &mine, 2, 1)?;
    /// assert_eq!(into, if me == 0 { [1, 0, 0, 3] } else { [2, 0, 0, 4] });
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn alltoalls<T: Plain>(
        &self,
        team: Team,
        into: &mut [T],
        stride: usize,
        values: &[T],
        source_stride: usize,
        count: usize,
    ) -> Result<(), Error> {
        let total = count.checked_mul(team.n_pes() as usize).ok_or(Error::OUT_OF_RANGE)?;
        strided(into.len(), 0, stride, total)?;
        strided(values.len(), 0, source_stride, total)?;
        let packed: Vec<T> = (0..total).map(|i| values[i * source_stride]).collect();
        let came = self.alltoall(team, &packed, count)?;
        came.into_iter().enumerate().for_each(|(i, value)| into[i * stride] = value);
        Ok(())
    }
}

/// The values in parts that came from others.
fn values_of<T: Plain>(parts: &[Vec<u8>]) -> Result<Vec<T>, Error> {
    let mut values = Vec::new();
    for part in parts {
        for bytes in part.chunks(size_of::<T>().max(1)) {
            let value = T::read_from_bytes(bytes);
            values.push(value.map_err(|_| Error::Mismatch("PEs called a collective with different types"))?);
        }
    }
    Ok(values)
}
