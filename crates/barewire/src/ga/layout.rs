//! Which rank owns which block, and where in its memory an element is.

use std::ops::Range;

use super::{Error, Patch};

/// How an array is cut into blocks.
///
/// ```
/// # use barewire::{ga::*, spmd};
/// # spmd::launch(&[2], |endpoint| {
/// # let ga = Ga::new(endpoint);
/// # let me = ga.node_id();
/// let cut = Blocks::Starts(vec![vec![0, 7]]);
/// let a = ga.create_with::<i32>(&[10], &cut, &[0])?;
/// assert_eq!((a.distribution(0), a.distribution(1)), (Some(vec![0..7]), Some(vec![7..10])));
/// let short = ga.create_with::<i32>(&[5], &Blocks::AtLeast(vec![4]), &[0])?;
/// assert_eq!((short.distribution(0), short.distribution(1)), (Some(vec![0..5]), None)); // two would be too short
/// # Ok::<_, spmd::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// As equal as can be.
    Even,
    /// As equal as can be, but no block shorter than this in each dimension, unless the array is.
    AtLeast(Vec<usize>),
    /// For each dimension, where each block begins; the first begins at 0. No more blocks than ranks.
    Starts(Vec<Vec<usize>>),
}

/// The blocks of one array. Blocks are numbered row by row, and block `i` is rank `i`'s.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    dims: Vec<usize>,
    ghosts: Vec<usize>,
    /// For each dimension, where blocks begin, and the end of the last.
    bounds: Vec<Vec<usize>>,
}

/// Consecutive elements of a patch that are consecutive at their owner too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub rank: u32,
    /// The first one's place in the owner's memory.
    pub there: usize,
    /// The first one's place in the patch.
    pub here: usize,
    pub len: usize,
}

impl Layout {
    pub fn new(dims: &[usize], blocks: &Blocks, ghosts: &[usize], ranks: u32) -> Result<Layout, Error> {
        let elements = dims.iter().try_fold(1usize, |n, &dim| n.checked_mul(dim));
        if dims.is_empty() || dims.contains(&0) || elements.is_none() {
            return Err(Error::Mismatch("an array has at least one dimension, and none of length 0"));
        }
        if ghosts.len() != dims.len() || ghosts.iter().zip(dims).any(|(ghost, dim)| ghost > dim) {
            return Err(Error::Mismatch(
                "ghosts are given for each dimension, at most as many as it is long",
            ));
        }
        let bounds = match blocks {
            Blocks::Even => even(dims, &vec![1; dims.len()], ranks),
            Blocks::AtLeast(least) if least.len() == dims.len() => even(dims, least, ranks),
            Blocks::Starts(starts) if starts.len() == dims.len() => uneven(dims, starts, ranks)?,
            _ => return Err(Error::Mismatch("blocks are described for each dimension")),
        };
        Ok(Layout { dims: dims.to_vec(), ghosts: ghosts.to_vec(), bounds })
    }

    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    pub fn ghosts(&self) -> &[usize] {
        &self.ghosts
    }

    /// The block of a rank, if it has one.
    pub fn block(&self, rank: u32) -> Option<Patch> {
        let mut rest = rank as usize;
        let mut patch = vec![0..0; self.dims.len()];
        for (range, bounds) in patch.iter_mut().zip(&self.bounds).rev() {
            let blocks = bounds.len() - 1;
            let at = rest % blocks;
            *range = bounds[at]..bounds[at + 1];
            rest /= blocks;
        }
        (rest == 0).then_some(patch)
    }

    /// Elements in a rank's memory, ghosts included.
    pub fn local_len(&self, rank: u32) -> Option<usize> {
        let Some(block) = self.block(rank) else { return Some(0) };
        block
            .iter()
            .zip(&self.ghosts)
            .try_fold(1usize, |n, (range, ghost)| n.checked_mul(range.len() + 2 * ghost))
    }

    /// The rank that owns an element.
    pub fn owner(&self, at: &[usize]) -> Result<u32, Error> {
        self.check_element(at)?;
        let coordinates = at.iter().zip(&self.bounds).map(|(&at, bounds)| block_of(bounds, at));
        Ok(self.number(coordinates))
    }

    /// Where an element is: its owner, and its place in the owner's memory.
    pub fn place(&self, at: &[usize]) -> Result<(u32, usize), Error> {
        let rank = self.owner(at)?;
        let block = self.block(rank).expect("the owner has a block");
        Ok((rank, self.place_in(&block, at)))
    }

    /// The parts of a patch, by owner.
    pub fn parts(&self, patch: &[Range<usize>]) -> Result<Vec<(u32, Patch)>, Error> {
        self.check(patch)?;
        let mut parts = Vec::new();
        if patch.iter().any(Range::is_empty) {
            return Ok(parts);
        }
        let blocks: Vec<Range<usize>> = patch
            .iter()
            .zip(&self.bounds)
            .map(|(range, bounds)| block_of(bounds, range.start)..block_of(bounds, range.end - 1) + 1)
            .collect();
        each_index(&blocks, |coordinates| {
            let part = patch
                .iter()
                .zip(&self.bounds)
                .zip(coordinates)
                .map(|((range, bounds), &at)| range.start.max(bounds[at])..range.end.min(bounds[at + 1]));
            parts.push((self.number(coordinates.iter().copied()), part.collect()));
        });
        Ok(parts)
    }

    /// The runs of a patch.
    pub fn runs(&self, patch: &[Range<usize>]) -> Result<Vec<Run>, Error> {
        let mut runs = Vec::new();
        for (rank, part) in self.parts(patch)? {
            let block = self.block(rank).expect("owners have blocks");
            let last = part.len() - 1;
            let mut rows = part.clone();
            rows[last] = part[last].start..part[last].start + 1;
            each_index(&rows, |at| {
                let (there, here) = (self.place_in(&block, at), place_in_patch(patch, at));
                runs.push(Run { rank, there, here, len: part[last].len() });
            });
        }
        Ok(runs)
    }

    /// Where an element is in the memory of its owner, who has this block. Also for elements of its ghosts.
    fn place_in(&self, block: &[Range<usize>], at: &[usize]) -> usize {
        let dims = block.iter().zip(&self.ghosts).zip(at);
        dims.fold(0, |place, ((range, ghost), at)| {
            place * (range.len() + 2 * ghost) + at - range.start + ghost
        })
    }

    pub fn check(&self, patch: &[Range<usize>]) -> Result<(), Error> {
        let inside = patch.len() == self.dims.len()
            && patch.iter().zip(&self.dims).all(|(range, &dim)| range.start <= range.end && range.end <= dim);
        if inside { Ok(()) } else { Err(Error::OUT_OF_RANGE) }
    }

    fn check_element(&self, at: &[usize]) -> Result<(), Error> {
        let inside = at.len() == self.dims.len() && at.iter().zip(&self.dims).all(|(at, dim)| at < dim);
        if inside { Ok(()) } else { Err(Error::OUT_OF_RANGE) }
    }

    fn number(&self, coordinates: impl Iterator<Item = usize>) -> u32 {
        let dims = coordinates.zip(&self.bounds);
        dims.fold(0, |number, (at, bounds)| number * (bounds.len() - 1) + at) as u32
    }
}

/// Elements of a patch.
pub(crate) fn volume(patch: &[Range<usize>]) -> usize {
    patch.iter().map(Range::len).product()
}

/// An element's place in a patch.
fn place_in_patch(patch: &[Range<usize>], at: &[usize]) -> usize {
    patch.iter().zip(at).fold(0, |place, (range, at)| place * range.len() + at - range.start)
}

/// Calls `each` for every index of the patch, row by row.
pub(crate) fn each_index(patch: &[Range<usize>], mut each: impl FnMut(&[usize])) {
    if patch.iter().any(Range::is_empty) {
        return;
    }
    let mut at: Vec<usize> = patch.iter().map(|range| range.start).collect();
    loop {
        each(&at);
        let Some(dim) = (0..at.len()).rev().find(|&dim| at[dim] + 1 < patch[dim].end) else { return };
        at[dim] += 1;
        for later in dim + 1..at.len() {
            at[later] = patch[later].start;
        }
    }
}

/// The block in which an index is.
fn block_of(bounds: &[usize], at: usize) -> usize {
    bounds.partition_point(|&start| start <= at) - 1
}

/// Cuts every dimension into equal blocks: again and again the one with the longest blocks, as long as there are ranks for it.
fn even(dims: &[usize], least: &[usize], ranks: u32) -> Vec<Vec<usize>> {
    let mut grid = vec![1; dims.len()];
    for prime in prime_factors(ranks) {
        let fits = |dim: &usize| dims[*dim] / (grid[*dim] * prime) >= least[*dim].max(1);
        let longest =
            (0..dims.len()).filter(fits).max_by_key(|&dim| (dims[dim] / grid[dim], dims.len() - dim));
        if let Some(dim) = longest {
            grid[dim] *= prime;
        }
    }
    let cut = |(&dim, &blocks): (&usize, &usize)| {
        (0..=blocks).map(|i| (dim as u128 * i as u128 / blocks as u128) as usize).collect()
    };
    dims.iter().zip(&grid).map(cut).collect()
}

/// The prime factors of `n`, the greatest first.
fn prime_factors(n: u32) -> Vec<usize> {
    let (mut n, mut factor, mut factors) = (n as usize, 2, Vec::new());
    while factor * factor <= n {
        while n % factor == 0 {
            factors.push(factor);
            n /= factor;
        }
        factor += 1;
    }
    if n > 1 {
        factors.push(n);
    }
    factors.reverse();
    factors
}

fn uneven(dims: &[usize], starts: &[Vec<usize>], ranks: u32) -> Result<Vec<Vec<usize>>, Error> {
    let sound = starts.iter().zip(dims).all(|(starts, &dim)| {
        starts.first() == Some(&0)
            && starts.windows(2).all(|pair| pair[0] < pair[1])
            && starts.last() < Some(&dim)
    });
    if !sound {
        return Err(Error::Mismatch("blocks begin at 0 and in rising order inside of the array"));
    }
    let blocks = starts.iter().try_fold(1usize, |n, starts| n.checked_mul(starts.len()));
    if blocks.is_none_or(|blocks| blocks > ranks as usize) {
        return Err(Error::Mismatch("there are more blocks than ranks"));
    }
    Ok(starts.iter().zip(dims).map(|(starts, &dim)| starts.iter().copied().chain([dim]).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_one_place_and_every_place_one_element() {
        for (dims, ranks) in
            [(vec![7], 3), (vec![5, 9], 4), (vec![3, 4, 5], 6), (vec![2, 2], 7), (vec![1, 100], 12)]
        {
            let layout = Layout::new(&dims, &Blocks::Even, &vec![1; dims.len()], ranks).unwrap();
            let whole: Patch = dims.iter().map(|&dim| 0..dim).collect();
            let mut seen = std::collections::HashSet::new();
            each_index(&whole, |at| {
                let (rank, place) = layout.place(at).unwrap();
                assert!(rank < ranks && place < layout.local_len(rank).unwrap());
                assert!(layout.block(rank).unwrap().iter().zip(at).all(|(range, at)| range.contains(at)));
                assert!(seen.insert((rank, place)), "{at:?} shares its place");
            });
            let mut covered = vec![0; volume(&whole)];
            for run in layout.runs(&whole).unwrap() {
                covered[run.here..run.here + run.len].iter_mut().for_each(|count| *count += 1);
                assert!((0..run.len).all(|i| seen.contains(&(run.rank, run.there + i))));
            }
            assert!(covered.iter().all(|&count| count == 1));
        }
    }

    #[test]
    fn blocks_are_cut_where_they_are_longest_and_not_below_their_least() {
        let blocks = |dims: &[usize], blocks: &Blocks, ranks| {
            let layout = Layout::new(dims, blocks, &vec![0; dims.len()], ranks).unwrap();
            layout.bounds.iter().map(|bounds| bounds.len() - 1).collect::<Vec<_>>()
        };
        assert_eq!(blocks(&[100, 100], &Blocks::Even, 4), [2, 2]);
        assert_eq!(blocks(&[1000, 10], &Blocks::Even, 6), [6, 1]);
        assert_eq!(blocks(&[2, 1], &Blocks::Even, 8), [2, 1], "no empty blocks");
        assert_eq!(blocks(&[100, 100], &Blocks::AtLeast(vec![1, 100]), 4), [4, 1]);
        assert_eq!(blocks(&[10, 10], &Blocks::Starts(vec![vec![0, 3], vec![0]]), 4), [2, 1]);
        for wrong in
            [vec![vec![1], vec![0]], vec![vec![0, 10], vec![0]], vec![vec![0, 5, 5], vec![0]], vec![vec![0]]]
        {
            assert!(Layout::new(&[10, 10], &Blocks::Starts(wrong), &[0, 0], 4).is_err());
        }
    }
}
