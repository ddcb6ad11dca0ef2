//! Operations on whole arrays: every rank works on its own block, and fetches what it needs of others. All ranks call them.

use std::ops::Range;

use zerocopy::IntoBytes;

use super::layout::each_index;
use super::{Array, Element, Error, Patch};

/// Length of the strips in which a product fetches its factors.
const STRIP: usize = 128;

impl<T: Element> Array<'_, T> {
    /// Sets all elements.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// let a = ga.create::<i64>(&[5])?;
    /// a.fill(-7)?;
    /// assert_eq!(a.get(&[0..5])?, [-7; 5]);
    /// # ga.sync()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn fill(&self, value: T) -> Result<(), Error> {
        self.owners(|mine| mine.fill(value))
    }

    /// Sets all elements to zero.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, ga::*};
    /// # let ga = Ga::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// let a = ga.create::<i64>(&[2]).unwrap();
    /// a.set_local(&[1, 2]).unwrap();
    /// a.zero().unwrap();
    /// assert_eq!(a.local().unwrap(), [0, 0]);
    /// ```
    pub fn zero(&self) -> Result<(), Error> {
        self.fill(T::ZERO)
    }

    /// Multiplies all elements.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, ga::*};
    /// # let ga = Ga::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// let a = ga.create::<f64>(&[3]).unwrap();
    /// a.set_local(&[1.0, -2.0, 4.0]).unwrap();
    /// a.scale(0.5).unwrap();
    /// assert_eq!(a.local().unwrap(), [0.5, -1.0, 2.0]);
    /// ```
    pub fn scale(&self, factor: T) -> Result<(), Error> {
        self.owners(|mine| mine.iter_mut().for_each(|element| *element = *element * factor))
    }

    /// Becomes a copy of an array of the same dimensions, however that is cut.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// let even = ga.create::<i32>(&[4])?;
    /// let uneven = ga.create_with::<i32>(&[4], &Blocks::Starts(vec![vec![0, 1]]), &[0])?;
    /// even.set_local(&[me as i32, me as i32 + 5])?;
    /// ga.sync()?;
    /// uneven.copy_from(&even)?;
    /// assert_eq!(uneven.local()?, if me == 0 { vec![0] } else { vec![5, 1, 6] });
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn copy_from(&self, other: &Array<'_, T>) -> Result<(), Error> {
        self.same_dims(other)?;
        self.fill_from_patches(|block| other.get(block))
    }

    /// Becomes `alpha * a + beta * b`.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, ga::*};
    /// # let ga = Ga::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// let (a, b, sum) = (ga.create::<i32>(&[2]).unwrap(), ga.create(&[2]).unwrap(), ga.create(&[2]).unwrap());
    /// a.set_local(&[1, 2]).unwrap();
    /// b.set_local(&[10, 20]).unwrap();
    /// sum.add(3, &a, -1, &b).unwrap();
    /// assert_eq!(sum.local().unwrap(), [3 - 10, 6 - 20]);
    /// ```
    pub fn add(&self, alpha: T, a: &Array<'_, T>, beta: T, b: &Array<'_, T>) -> Result<(), Error> {
        self.same_dims(a)?;
        self.same_dims(b)?;
        self.fill_from_patches(|block| {
            let (a, b) = (a.get(block)?, b.get(block)?);
            Ok(a.into_iter().zip(b).map(|(a, b)| alpha * a + beta * b).collect())
        })
    }

    /// The sum of the products of elements at the same place; all ranks get it.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// let (a, b) = (ga.create::<f64>(&[4])?, ga.create::<f64>(&[4])?);
    /// a.fill(2.0)?;
    /// b.fill(0.5)?;
    /// assert_eq!(a.dot(&b)?, 4.0); // at both ranks
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn dot(&self, other: &Array<'_, T>) -> Result<T, Error> {
        self.same_dims(other)?;
        self.ga.sync()?;
        let mut sum = [T::ZERO];
        if let Some(block) = self.distribution(self.ga.node_id()) {
            let (mine, theirs) = (self.get(&block)?, other.get(&block)?);
            sum[0] = mine.into_iter().zip(theirs).fold(T::ZERO, |sum, (a, b)| sum + a * b);
        }
        self.ga.gop(&mut sum, |a, b| a + b)?;
        Ok(sum[0])
    }

    /// Becomes the transpose of a matrix.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, ga::*};
    /// # let ga = Ga::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// let (a, t) = (ga.create::<i32>(&[2, 3]).unwrap(), ga.create::<i32>(&[3, 2]).unwrap());
    /// a.set_local(&[1, 2, 3, 4, 5, 6]).unwrap();
    /// t.transpose(&a).unwrap();
    /// assert_eq!(t.local().unwrap(), [1, 4, 2, 5, 3, 6]);
    /// ```
    pub fn transpose(&self, other: &Array<'_, T>) -> Result<(), Error> {
        match (self.dims(), other.dims()) {
            ([rows, columns], [other_rows, other_columns])
                if (rows, columns) == (other_columns, other_rows) => {}
            _ => return Err(Error::Mismatch("a transpose needs two matrices of turned dimensions")),
        }
        self.fill_from_patches(|block| {
            let turned = other.get(&[block[1].clone(), block[0].clone()])?;
            let (rows, columns) = (block[0].len(), block[1].len());
            Ok((0..rows * columns).map(|i| turned[i % columns * rows + i / columns]).collect())
        })
    }

    /// Becomes `alpha * a * b + beta * self`, for matrices.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, ga::*};
    /// # let ga = Ga::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// let (a, b, c) = (ga.create::<i32>(&[1, 2]).unwrap(), ga.create(&[2, 1]).unwrap(), ga.create(&[1, 1]).unwrap());
    /// a.set_local(&[3, 4]).unwrap();
    /// b.set_local(&[5, 6]).unwrap();
    /// c.set_local(&[100]).unwrap();
    /// c.matmul(2, &a, &b, 1).unwrap();
    /// assert_eq!(c.local().unwrap(), [2 * (3 * 5 + 4 * 6) + 100]);
    /// ```
    pub fn matmul(&self, alpha: T, a: &Array<'_, T>, b: &Array<'_, T>, beta: T) -> Result<(), Error> {
        let (m, k, n) = match (self.dims(), a.dims(), b.dims()) {
            (&[m, n], &[am, ak], &[bk, bn]) if (m, n, ak) == (am, bn, bk) => (m, ak, n),
            _ => return Err(Error::Mismatch("the dimensions of the matrices do not go together")),
        };
        debug_assert!(m > 0 && n > 0, "arrays have no dimension of length 0");
        self.fill_from_patches(|block| {
            let (rows, columns) = (block[0].clone(), block[1].clone());
            let mut sums = self.get(block)?;
            sums.iter_mut().for_each(|sum| *sum = *sum * beta);
            for start in (0..k).step_by(STRIP) {
                let strip = start..(start + STRIP).min(k);
                let left = a.get(&[rows.clone(), strip.clone()])?;
                let right = b.get(&[strip.clone(), columns.clone()])?;
                multiply(alpha, &left, &right, strip.len(), &mut sums, columns.len());
                self.ga.inner.borrow_mut().world.poll();
            }
            Ok(sums)
        })
    }

    /// Brings everybody's ghost cells up to date; beyond the edges of the array they are those of the other side.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, ga::{Blocks, Ga}};
    /// # let ga = Ga::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// let a = ga.create_with::<i32>(&[3], &Blocks::Even, &[1]).unwrap();
    /// a.set_local(&[1, 2, 3]).unwrap();
    /// a.update_ghosts().unwrap();
    /// assert_eq!(a.local_with_ghosts().unwrap(), (vec![3, 1, 2, 3, 1], vec![5]));
    /// ```
    pub fn update_ghosts(&self) -> Result<(), Error> {
        self.ga.sync()?;
        if let Some(block) = self.distribution(self.ga.node_id()) {
            let sides: Vec<Vec<Side>> = (0..block.len())
                .map(|dim| sides(&block[dim], self.layout.ghosts()[dim], self.dims()[dim]))
                .collect();
            let choices: Patch = sides.iter().map(|sides| 0..sides.len()).collect();
            let mut wanted = Vec::new();
            each_index(&choices, |choice| {
                let picked: Vec<&Side> = choice.iter().zip(&sides).map(|(&i, sides)| &sides[i]).collect();
                if picked.iter().any(|side| side.is_ghost) {
                    let from: Patch = picked.iter().map(|side| side.from.clone()).collect();
                    wanted.push((from, picked.iter().map(|side| side.to).collect::<Vec<_>>()));
                }
            });
            for (from, to) in wanted {
                self.write_padded(&block, &to, &from, &self.get(&from)?)?;
            }
        }
        self.ga.sync()
    }

    /// Writes a patch to where it belongs in this rank's memory, ghosts included.
    fn write_padded(
        &self,
        block: &[Range<usize>],
        to: &[usize],
        from: &Patch,
        elements: &[T],
    ) -> Result<(), Error> {
        let padded: Vec<usize> =
            block.iter().zip(self.layout.ghosts()).map(|(range, ghost)| range.len() + 2 * ghost).collect();
        let last = from.len() - 1;
        let mut rows: Patch = from.iter().map(|range| 0..range.len()).collect();
        rows[last] = 0..1;
        let (mut row, mut written) = (0, true);
        each_index(&rows, |at| {
            let place =
                at.iter().zip(to).zip(&padded).fold(0, |place, ((at, to), len)| place * len + to + at);
            let bytes = elements[row * from[last].len()..][..from[last].len()].as_bytes();
            written &= self.memory.local().write(place * size_of::<T>(), bytes);
            row += 1;
        });
        if written { Ok(()) } else { Err(Error::OUT_OF_RANGE) }
    }

    /// Every rank changes its own block.
    fn owners(&self, change: impl FnOnce(&mut [T])) -> Result<(), Error> {
        self.ga.sync()?;
        self.update_local(change)?;
        self.ga.sync()
    }

    /// Every rank makes its own block anew, from anything, before anybody writes anything.
    fn fill_from_patches(
        &self,
        make: impl FnOnce(&[Range<usize>]) -> Result<Vec<T>, Error>,
    ) -> Result<(), Error> {
        self.ga.sync()?;
        let made = match self.distribution(self.ga.node_id()) {
            Some(block) => make(&block)?,
            None => Vec::new(),
        };
        self.ga.sync()?;
        self.set_local(&made)?;
        self.ga.sync()
    }

    fn same_dims(&self, other: &Array<'_, T>) -> Result<(), Error> {
        if self.dims() == other.dims() { Ok(()) } else { Err(Error::Mismatch("the arrays differ in shape")) }
    }
}

/// A part of a padded block in one dimension: the block itself, or a piece of its ghosts.
struct Side {
    from: Range<usize>,
    /// Where it begins in the padded block.
    to: usize,
    is_ghost: bool,
}

fn sides(block: &Range<usize>, ghost: usize, dim: usize) -> Vec<Side> {
    let mut sides = vec![Side { from: block.clone(), to: ghost, is_ghost: false }];
    let starts = [(block.start + dim - ghost, 0), (block.end, ghost + block.len())];
    for (start, to) in starts.into_iter().filter(|_| ghost > 0) {
        // Around the end of the dimension, if need be.
        let first = start % dim;
        let before_end = ghost.min(dim - first);
        sides.push(Side { from: first..first + before_end, to, is_ghost: true });
        if before_end < ghost {
            sides.push(Side { from: 0..ghost - before_end, to: to + before_end, is_ghost: true });
        }
    }
    sides
}

/// `sums += alpha * left * right`, where `left` has rows of `k` elements and `right` and `sums` rows of `n`.
fn multiply<T: Element>(alpha: T, left: &[T], right: &[T], k: usize, sums: &mut [T], n: usize) {
    for (row, sums) in left.chunks_exact(k).zip(sums.chunks_exact_mut(n)) {
        for (&a, right) in row.iter().zip(right.chunks_exact(n)) {
            let a = alpha * a;
            sums.iter_mut().zip(right).for_each(|(sum, &b)| *sum = *sum + a * b);
        }
    }
}
