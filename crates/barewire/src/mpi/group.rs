//! Groups: ordered sets of processes.
//!
//! A group never changes; making one from another copies a list of numbers. Ranks are places in that list.
//!
//! ```
//! use barewire::mpi::group::{Group, Process};
//! let world = Group::first(6);
//! let even = world.include(&[4, 2, 0])?;
//! assert_eq!(even.process(0)?, Process(4), "its rank 0 is the job's process 4");
//! let odd = world.difference(&even);
//! assert_eq!(odd.rank_of(Process(5)), Some(2));
//! # Ok::<(), barewire::mpi::error::Error>(())
//! ```

use super::error::{Class, Error, Result};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A process of the job, by its number in the job.
///
/// ```
/// use barewire::mpi::group::{Group, Process};
/// let backwards = Group::new((0..3).rev().map(Process))?;
/// assert_eq!(backwards.rank_of(Process(2)), Some(0), "a rank is a place, a process a number");
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process(pub u32);

/// An ordered set of processes; cheap to clone.
///
/// ```
/// use barewire::mpi::group::{Comparison, Group, Process};
/// let world = Group::first(4);
/// let odd = world.include(&[1, 3])?;
/// assert_eq!(odd.rank_of(Process(3)), Some(1));
/// assert_eq!(world.difference(&odd).members(), [Process(0), Process(2)]);
/// assert_eq!(odd.compare(&world.include(&[3, 1])?), Comparison::Similar);
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    members: Arc<[Process]>,
}

/// How two groups or communicators relate; the values are the standard ABI's.
///
/// ```
/// use barewire::mpi::group::{Comparison, Group};
/// let world = Group::first(3);
/// assert_eq!(world.compare(&world.include(&[2, 1, 0])?), Comparison::Similar);
/// assert_eq!(Comparison::Similar as i32, 203);
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Comparison {
    /// The same members in the same order; for communicators, the same communicator.
    Identical = 201,
    /// Communicators only: the same members in the same order.
    Congruent = 202,
    /// The same members in another order.
    Similar = 203,
    /// Different members.
    Unequal = 204,
}

/// Ranks `first`, `first + stride` … up to `last`.
///
/// ```
/// use barewire::mpi::group::{Group, Process, Range};
/// let range = Range { first: 1, last: 6, stride: 2 };
/// assert_eq!(Group::first(8).range_include(&[range])?.members(), [1, 3, 5].map(Process));
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first rank.
    pub first: i32,
    /// No rank lies beyond this one.
    pub last: i32,
    /// From one rank to the next; may be negative, never zero.
    pub stride: i32,
}

impl Group {
    /// The group of these processes; a process given twice is an error.
    ///
    /// ```
    /// use barewire::mpi::{error::Class, group::{Group, Process}};
    /// let group = Group::new([Process(7), Process(3)])?;
    /// assert_eq!(group.rank_of(Process(3)), Some(1));
    /// assert_eq!(Group::new([Process(7), Process(7)]).unwrap_err().class(), Class::Group);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn new(members: impl IntoIterator<Item = Process>) -> Result<Group> {
        let members: Arc<[Process]> = members.into_iter().collect();
        let mut seen = HashSet::with_capacity(members.len());
        match members.iter().find(|process| !seen.insert(**process)) {
            Some(Process(twice)) => {
                Err(Error::new(Class::Group, format!("process {twice} is in the group twice")))
            }
            None => Ok(Group { members }),
        }
    }

    /// The group of the first `n` processes of the job.
    ///
    /// ```
    /// use barewire::mpi::group::{Group, Process};
    /// assert_eq!(Group::first(3).members(), [Process(0), Process(1), Process(2)]);
    /// ```
    pub fn first(n: u32) -> Group {
        Group { members: (0..n).map(Process).collect() }
    }

    /// The group without members.
    ///
    /// ```
    /// use barewire::mpi::group::Group;
    /// let nobody = Group::empty();
    /// assert_eq!(nobody.size(), 0);
    /// assert_eq!(Group::first(2).union(&nobody), Group::first(2));
    /// ```
    pub fn empty() -> Group {
        Group::first(0)
    }

    /// How many processes it has.
    ///
    /// ```
    /// use barewire::mpi::group::Group;
    /// let world = Group::first(5);
    /// assert_eq!(world.exclude(&[0, 4])?.size(), 3);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The processes in the order of their ranks.
    ///
    /// ```
    /// use barewire::mpi::group::{Group, Process};
    /// let group = Group::new([Process(9), Process(2)])?;
    /// for (rank, &process) in group.members().iter().enumerate() {
    ///     assert_eq!(group.rank_of(process), Some(rank));
    /// }
    /// assert_eq!(group.members()[0], Process(9));
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn members(&self) -> &[Process] {
        &self.members
    }

    /// The process at `rank`.
    ///
    /// ```
    /// use barewire::mpi::{error::Class, group::{Group, Process}};
    /// let group = Group::new([Process(4), Process(8)])?;
    /// assert_eq!(group.process(1)?, Process(8));
    /// assert_eq!(group.process(2).unwrap_err().class(), Class::Rank);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    #[inline]
    pub fn process(&self, rank: i32) -> Result<Process> {
        self.get(rank).ok_or_else(|| self.no_process(rank))
    }

    /// The process at `rank`, if there is one.
    ///
    /// ```
    /// use barewire::mpi::group::{Group, Process};
    /// let group = Group::first(2);
    /// assert_eq!(group.get(1), Some(Process(1)));
    /// assert_eq!(group.get(-1), None);
    /// assert_eq!(group.get(2), None);
    /// ```
    #[inline(always)]
    pub fn get(&self, rank: i32) -> Option<Process> {
        self.members.get(usize::try_from(rank).ok()?).copied()
    }

    #[cold]
    fn no_process(&self, rank: i32) -> Error {
        let what = format!("rank {rank} is not in a group of {} processes", self.size());
        Error::new(Class::Rank, what)
    }

    /// The rank of a process.
    ///
    /// ```
    /// use barewire::mpi::group::{Group, Process};
    /// let group = Group::new([Process(5), Process(0), Process(3)])?;
    /// assert_eq!(group.rank_of(Process(3)), Some(2));
    /// assert_eq!(group.rank_of(Process(1)), None, "it is not a member");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn rank_of(&self, process: Process) -> Option<usize> {
        match self.members.get(process.0 as usize) {
            Some(found) if *found == process => Some(process.0 as usize),
            _ => self.members.iter().position(|member| *member == process),
        }
    }

    /// Those of this group, then those only in `other`.
    ///
    /// ```
    /// use barewire::mpi::group::{Group, Process};
    /// let (a, b) = (Group::new([3, 1].map(Process))?, Group::new([0, 1, 2].map(Process))?);
    /// assert_eq!(a.union(&b).members(), [3, 1, 0, 2].map(Process));
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn union(&self, other: &Group) -> Group {
        let mine = self.set();
        let more = other.members.iter().filter(|process| !mine.contains(process));
        Group { members: self.members.iter().chain(more).copied().collect() }
    }

    /// Those of this group that are in `other` too.
    ///
    /// ```
    /// use barewire::mpi::group::{Group, Process};
    /// let (a, b) = (Group::new([3, 1, 2].map(Process))?, Group::first(3));
    /// assert_eq!(a.intersection(&b).members(), [1, 2].map(Process), "in the order of the first");
    /// assert_eq!(b.intersection(&Group::empty()).size(), 0);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn intersection(&self, other: &Group) -> Group {
        let theirs = other.set();
        self.filtered(|process| theirs.contains(process))
    }

    /// Those of this group that are not in `other`.
    ///
    /// ```
    /// use barewire::mpi::group::{Group, Process};
    /// let all = Group::first(4);
    /// let workers = all.difference(&all.include(&[0])?);
    /// assert_eq!(workers.members(), [1, 2, 3].map(Process));
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn difference(&self, other: &Group) -> Group {
        let theirs = other.set();
        self.filtered(|process| !theirs.contains(process))
    }

    /// The processes at these ranks, in this order.
    ///
    /// ```
    /// use barewire::mpi::{error::Class, group::{Group, Process}};
    /// let world = Group::first(4);
    /// assert_eq!(world.include(&[3, 0])?.members(), [Process(3), Process(0)]);
    /// assert_eq!(world.include(&[1, 1]).unwrap_err().class(), Class::Rank);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn include(&self, ranks: &[i32]) -> Result<Group> {
        let members = self.distinct(ranks.iter().copied())?;
        Ok(Group { members: members.into() })
    }

    /// All but the processes at these ranks, in the old order.
    ///
    /// ```
    /// use barewire::mpi::group::{Group, Process};
    /// let world = Group::first(4);
    /// assert_eq!(world.exclude(&[2, 0])?.members(), [Process(1), Process(3)]);
    /// assert!(world.exclude(&[4]).is_err());
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn exclude(&self, ranks: &[i32]) -> Result<Group> {
        let out: HashSet<Process> = self.distinct(ranks.iter().copied())?.into_iter().collect();
        Ok(self.filtered(|process| !out.contains(process)))
    }

    /// The processes at the ranks of these ranges.
    ///
    /// ```
    /// use barewire::mpi::group::{Group, Process, Range};
    /// let down = Group::first(5).range_include(&[Range { first: 4, last: 0, stride: -2 }])?;
    /// assert_eq!(down.members(), [Process(4), Process(2), Process(0)]);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn range_include(&self, ranges: &[Range]) -> Result<Group> {
        self.include(&self.ranks(ranges)?)
    }

    /// All but the processes at the ranks of these ranges.
    ///
    /// ```
    /// use barewire::mpi::group::{Group, Process, Range};
    /// let every_third = Range { first: 0, last: 6, stride: 3 };
    /// assert_eq!(Group::first(7).range_exclude(&[every_third])?.members(), [1, 2, 4, 5].map(Process));
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn range_exclude(&self, ranges: &[Range]) -> Result<Group> {
        self.exclude(&self.ranks(ranges)?)
    }

    /// Where each of these ranks is in `other`; none where the process is not there.
    ///
    /// ```
    /// use barewire::mpi::group::Group;
    /// let world = Group::first(6);
    /// let odd = world.include(&[1, 3, 5])?;
    /// assert_eq!(world.translate(&[5, 4, 1], &odd)?, [Some(2), None, Some(0)]);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn translate(&self, ranks: &[i32], other: &Group) -> Result<Vec<Option<usize>>> {
        const FEW: usize = 8;
        let processes: Vec<Process> = ranks.iter().map(|&rank| self.process(rank)).collect::<Result<_>>()?;
        if processes.len() <= FEW {
            return Ok(processes.into_iter().map(|process| other.rank_of(process)).collect());
        }
        let places: HashMap<Process, usize> =
            other.members.iter().enumerate().map(|(i, p)| (*p, i)).collect();
        Ok(processes.iter().map(|process| places.get(process).copied()).collect())
    }

    /// Whether two groups have the same members, and in the same order.
    ///
    /// ```
    /// use barewire::mpi::group::{Comparison, Group};
    /// let world = Group::first(2);
    /// assert_eq!(world.compare(&Group::first(2)), Comparison::Identical);
    /// assert_eq!(world.compare(&world.include(&[1, 0])?), Comparison::Similar);
    /// assert_eq!(world.compare(&Group::first(3)), Comparison::Unequal);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn compare(&self, other: &Group) -> Comparison {
        if self.members == other.members {
            Comparison::Identical
        } else if self.size() == other.size() && self.set() == other.set() {
            Comparison::Similar
        } else {
            Comparison::Unequal
        }
    }

    fn set(&self) -> HashSet<Process> {
        self.members.iter().copied().collect()
    }

    fn filtered(&self, keep: impl Fn(&Process) -> bool) -> Group {
        Group { members: self.members.iter().copied().filter(keep).collect() }
    }

    fn distinct(&self, ranks: impl Iterator<Item = i32>) -> Result<Vec<Process>> {
        let mut seen = HashSet::new();
        ranks
            .map(|rank| {
                let process = self.process(rank)?;
                if seen.insert(process) {
                    Ok(process)
                } else {
                    Err(Error::new(Class::Rank, format!("rank {rank} is given twice")))
                }
            })
            .collect()
    }

    /// The ranks of ranges, each checked before it is written out.
    fn ranks(&self, ranges: &[Range]) -> Result<Vec<i32>> {
        let mut ranks = Vec::new();
        for &Range { first, last, stride } in ranges {
            if stride == 0 {
                return Err(Error::new(Class::Arg, "a range of ranks has stride 0"));
            }
            if (first < last && stride < 0) || (first > last && stride > 0) {
                let what = format!("from rank {first}, steps of {stride} never reach rank {last}");
                return Err(Error::new(Class::Arg, what));
            }
            self.process(first)?;
            self.process(last)?;
            let steps = (i64::from(last) - i64::from(first)) / i64::from(stride);
            ranks.extend((0..=steps).map(|i| (i64::from(first) + i * i64::from(stride)) as i32));
            if ranks.len() > self.size() {
                return Err(Error::new(Class::Rank, "the ranges of ranks overlap"));
            }
        }
        Ok(ranks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers(group: &Group) -> Vec<u32> {
        group.members().iter().map(|process| process.0).collect()
    }

    fn any_group() -> impl Strategy<Value = Group> {
        prop::sample::subsequence((0..12u32).collect::<Vec<_>>(), 0..12)
            .prop_shuffle()
            .prop_map(|list| Group::new(list.into_iter().map(Process)).unwrap())
    }

    proptest! {
        #[test]
        fn set_operations_keep_the_order_the_standard_says(a in any_group(), b in any_group()) {
            let (x, y) = (numbers(&a), numbers(&b));
            let mut union = x.clone();
            union.extend(y.iter().filter(|n| !x.contains(n)));
            prop_assert_eq!(numbers(&a.union(&b)), union);
            let both: Vec<u32> = x.iter().copied().filter(|n| y.contains(n)).collect();
            prop_assert_eq!(numbers(&a.intersection(&b)), both);
            let only: Vec<u32> = x.iter().copied().filter(|n| !y.contains(n)).collect();
            prop_assert_eq!(numbers(&a.difference(&b)), only);
        }

        #[test]
        fn translation_finds_the_same_process(a in any_group(), b in any_group()) {
            let ranks: Vec<i32> = (0..a.size() as i32).collect();
            for (rank, place) in a.translate(&ranks, &b).unwrap().into_iter().enumerate() {
                prop_assert_eq!(place, b.members().iter().position(|p| *p == a.members()[rank]));
            }
        }

        #[test]
        fn including_and_excluding_are_complements(group in any_group(), picks in prop::collection::vec(any::<bool>(), 12)) {
            let ranks: Vec<i32> = (0..group.size() as i32).filter(|&i| picks[i as usize]).collect();
            let (inside, outside) = (group.include(&ranks).unwrap(), group.exclude(&ranks).unwrap());
            prop_assert_eq!(inside.size() + outside.size(), group.size());
            prop_assert_eq!(inside.intersection(&outside).size(), 0);
            prop_assert_eq!(inside.union(&outside).compare(&group) == Comparison::Unequal, false);
        }
    }

    #[test]
    fn ranks_outside_or_twice_are_refused() {
        let group = Group::first(4);
        for ranks in [&[4][..], &[-1], &[1, 1]] {
            assert_eq!(group.include(ranks).unwrap_err().class(), Class::Rank);
            assert_eq!(group.exclude(ranks).unwrap_err().class(), Class::Rank);
        }
        assert_eq!(Group::new([Process(1), Process(1)]).unwrap_err().class(), Class::Group);
    }

    #[test]
    fn ranges_are_checked_before_they_are_written_out() {
        let group = Group::first(6);
        let range = |first, last, stride| group.range_include(&[Range { first, last, stride }]);
        assert_eq!(numbers(&range(1, 4, 2).unwrap()), [1, 3]);
        assert_eq!(numbers(&range(3, 3, 7).unwrap()), [3]);
        assert_eq!(range(0, 4, 0).unwrap_err().class(), Class::Arg);
        assert_eq!(range(4, 0, 1).unwrap_err().class(), Class::Arg);
        assert_eq!(range(0, i32::MAX, 1).unwrap_err().class(), Class::Rank);
        let twice = [Range { first: 0, last: 3, stride: 1 }, Range { first: 3, last: 5, stride: 1 }];
        assert_eq!(group.range_include(&twice).unwrap_err().class(), Class::Rank);
        let rest = group.range_exclude(&[Range { first: 5, last: 1, stride: -2 }]).unwrap();
        assert_eq!(numbers(&rest), [0, 2, 4]);
    }
}
