//! Teams: some of the PEs, numbered anew. An active set of the older interface is a team that needs no agreement.

use super::{Error, Shmem};
use crate::spmd::Group;

/// Some of the PEs.
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
    pub fn n_pes(&self) -> u32 {
        self.0.size()
    }

    /// The number in the world of a PE of the team.
    pub fn translate(&self, pe: u32) -> Option<u32> {
        self.0.rank(pe)
    }

    /// The number in the team of a PE of the world, if it is in it.
    pub fn pe_of(&self, pe: u32) -> Option<u32> {
        self.0.index(pe)
    }

    /// The number in `other` of a PE of this team, if it is in both.
    pub fn translate_pe(&self, pe: u32, other: Team) -> Option<u32> {
        self.translate(pe).and_then(|pe| other.pe_of(pe))
    }
}

impl Shmem {
    /// The team of all PEs.
    pub fn team_world(&self) -> Team {
        Team(self.inner.borrow().world.all())
    }

    /// This PE's number in a team, if it is in it.
    pub fn team_my_pe(&self, team: Team) -> Option<u32> {
        team.pe_of(self.my_pe())
    }

    /// A team of `size` PEs of another: every `stride`th from `start` on. All PEs of the parent call it with the same shape, or with shapes that
    /// do not overlap; those that are not in it get `None`.
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
    pub fn team_sync(&self, team: Team) -> Result<(), Error> {
        self.inner.borrow_mut().world.barrier(team.0)
    }
}
