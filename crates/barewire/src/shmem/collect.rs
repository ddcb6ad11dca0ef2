//! Collectives over teams: broadcast, collect, reductions, all to all.

use zerocopy::IntoBytes;

use super::{Error, Plain, Shmem, Team};

/// How values are combined.
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
    pub fn broadcast<T: Plain>(&self, team: Team, root: u32, values: &mut [T]) -> Result<(), Error> {
        self.inner.borrow_mut().world.broadcast(team.0, root, values)
    }

    /// Everybody's values combined, place by place. The order depends on the PEs' numbers alone, so floats give the same in every run.
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
    pub fn collect<T: Plain>(&self, team: Team, values: &[T]) -> Result<Vec<T>, Error> {
        let parts = self.inner.borrow_mut().world.gather_all(team.0, values.as_bytes())?;
        values_of(&parts)
    }

    /// [`Shmem::collect`] of equally many values from each.
    pub fn fcollect<T: Plain>(&self, team: Team, values: &[T]) -> Result<Vec<T>, Error> {
        let all = self.collect(team, values)?;
        if all.len() == values.len() * team.n_pes() as usize {
            Ok(all)
        } else {
            Err(Error::Mismatch("an fcollect takes equally many values from each PE"))
        }
    }

    /// Block `i` of `values`, of `count` values, goes to PE `i` of the team; returns the blocks that came here, in the order of the team.
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
    pub fn alltoalls<T: Plain>(
        &self,
        team: Team,
        into: &mut [T],
        stride: usize,
        values: &[T],
        source_stride: usize,
        count: usize,
    ) -> Result<(), Error> {
        let total = count * team.n_pes() as usize;
        let last = total.saturating_sub(1);
        if total > 0 && (last * stride >= into.len() || last * source_stride >= values.len()) {
            return Err(Error::OUT_OF_RANGE);
        }
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
