//! Teams: some of the PEs, numbered anew. An active set of the older interface is a team that needs no agreement.

use super::{Error, Shmem};
use crate::spmd::Group;

/// Some of the PEs.
///
/// ```
/// # use barewire::{shmem::*, spmd};
/// # spmd::launch(&[3], |endpoint| {
/// # let shmem = Shmem::init(endpoint, 1 << 16)?;
/// # let me = shmem.my_pe();
/// let pair = Team::active_set(1, 0, 2).unwrap(); // PEs 1 and 2
/// if shmem.team_my_pe(pair).is_some() {
///     assert_eq!(shmem.collect(pair, &[me])?, [1, 2]);
/// }
/// # Ok::<_, spmd::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Team(pub(super) Group);

impl Team {
    /// The active set of `size` PEs: `start`, `start + 2^log_stride`, and so on. `None` if there can be no such set.
    ///
    /// ```
    /// use barewire::shmem::Team;
    /// let odd = Team::active_set(1, 1, 3).unwrap();
    /// assert_eq!((0..3).map(|i| odd.translate(i).unwrap()).collect::<Vec<_>>(), [1, 3, 5]);
    /// ```
    pub fn active_set(start: u32, log_stride: u32, size: u32) -> Option<Team> {
        Group::strided(start, log_stride, size).map(Team)
    }

    /// How many PEs it has.
    ///
    /// ```
    /// use barewire::shmem::Team;
    /// assert_eq!(Team::active_set(3, 2, 5).unwrap().n_pes(), 5);
    /// ```
    pub fn n_pes(&self) -> u32 {
        self.0.size()
    }

    /// The number in the world of a PE of the team.
    ///
    /// ```
    /// use barewire::shmem::Team;
    /// let every_fourth = Team::active_set(3, 2, 5).unwrap();
    /// assert_eq!((every_fourth.translate(2), every_fourth.translate(5)), (Some(11), None));
    /// ```
    pub fn translate(&self, pe: u32) -> Option<u32> {
        self.0.rank(pe)
    }

    /// The number in the team of a PE of the world, if it is in it.
    ///
    /// ```
    /// use barewire::shmem::Team;
    /// let even = Team::active_set(0, 1, 4).unwrap();
    /// assert_eq!((even.pe_of(6), even.pe_of(7), even.pe_of(8)), (Some(3), None, None));
    /// ```
    pub fn pe_of(&self, pe: u32) -> Option<u32> {
        self.0.index(pe)
    }

    /// The number in `other` of a PE of this team, if it is in both.
    ///
    /// ```
    /// use barewire::shmem::Team;
    /// let (even, from_four) = (Team::active_set(0, 1, 4).unwrap(), Team::active_set(4, 0, 4).unwrap());
    /// assert_eq!(even.translate_pe(3, from_four), Some(2)); // PE 6 of the world
    /// assert_eq!(even.translate_pe(1, from_four), None);
    /// ```
    pub fn translate_pe(&self, pe: u32, other: Team) -> Option<u32> {
        self.translate(pe).and_then(|pe| other.pe_of(pe))
    }
}

impl Shmem {
    /// The team of all PEs.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let world = shmem.team_world();
    /// assert_eq!((world.n_pes(), world.pe_of(me)), (2, Some(me)));
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn team_world(&self) -> Team {
        Team(self.inner.borrow().world.all())
    }

    /// This PE's number in a team, if it is in it.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let without_first = Team::active_set(1, 0, 2).unwrap();
    /// assert_eq!(shmem.team_my_pe(without_first), [None, Some(0), Some(1)][me as usize]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn team_my_pe(&self, team: Team) -> Option<u32> {
        team.pe_of(self.my_pe())
    }

    /// A team of `size` PEs of another: every `stride`th from `start` on. All PEs of the parent call it with the same shape, or with shapes that
    /// do not overlap; those that are not in it get `None`.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let ends = shmem.team_split_strided(shmem.team_world(), 0, 2, 2)?;
    /// assert_eq!(ends.is_some(), me != 1);
    /// if let Some(ends) = ends {
    ///     assert_eq!(shmem.reduce(ends, Op::Sum, &[me + 1])?, [1 + 3]);
    /// }
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn team_split_strided(
        &self,
        parent: Team,
        start: u32,
        stride: u32,
        size: u32,
    ) -> Result<Option<Team>, Error> {
        let team = Team(self.inner.borrow_mut().world.split(parent.0, start, stride, size)?);
        Ok(team.pe_of(self.my_pe()).map(|_| team))
    }

    /// Rows of `x_range` PEs each, and the columns across them: the row and the column of this PE. All PEs of the parent call it.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[4], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let (row, column) = shmem.team_split_2d(shmem.team_world(), 2)?;
    /// assert_eq!((row.translate(0), row.translate(1)), if me < 2 { (Some(0), Some(1)) } else { (Some(2), Some(3)) });
    /// assert_eq!(shmem.reduce(column, Op::Sum, &[me])?, [if me % 2 == 0 { 0 + 2 } else { 1 + 3 }]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn team_split_2d(&self, parent: Team, x_range: u32) -> Result<(Team, Team), Error> {
        let me = self.team_my_pe(parent).ok_or(Error::NotMember)?;
        if x_range == 0 {
            return Err(Error::Mismatch("a row has at least one PE"));
        }
        let (size, x_range) = (parent.n_pes(), x_range.min(parent.n_pes()));
        let (x, y) = (me % x_range, me / x_range);
        let row_len = x_range.min(size - y * x_range);
        let column_len = (size - x).div_ceil(x_range);
        let world = &mut self.inner.borrow_mut().world;
        let row = world.split(parent.0, y * x_range, 1, row_len)?;
        let column = world.split(parent.0, x, x_range, column_len)?;
        Ok((Team(row), Team(column)))
    }

    /// Returns when all PEs of the team have called it. Does not wait for what they have started elsewhere.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// let arrived = AtomicU32::new(0);
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let last_two = Team::active_set(1, 0, 2).unwrap();
    /// if me > 0 {
    ///     arrived.fetch_add(1, Ordering::SeqCst);
    ///     shmem.team_sync(last_two)?;
    ///     assert_eq!(arrived.load(Ordering::SeqCst), 2);
    /// }
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn team_sync(&self, team: Team) -> Result<(), Error> {
        self.inner.borrow_mut().world.barrier(team.0)
    }
}
