//! Everybody gives everybody a part, over the board.
//!
//! Two ranks swap more than a slot holds block after block: each gives its next before it takes the other's last, so that both copy all
//! the time and none waits for the other. More ranks send it.

use super::Data;
use super::board::{Gift, Given, Turn, something_else};
use super::places::SLOT_DATA;
use barewire::mpi::error::Result;

/// Most bytes that go this way; more is sent.
const SWAP_MAX: usize = 4 << 20;

impl Turn<'_> {
    pub(super) async fn alltoall(&self, parts: &[Data], places: &[Data]) -> Result<()> {
        let (number, rank) = (self.number(), self.board.rank);
        let given = self.give_parts(number, parts, self.swaps(parts))?;
        let sends = match given {
            Given::Sent => self.others().map(|to| self.call.start_send(to, &parts[to])).collect(),
            Given::Here | Given::InBlocks => Vec::new(),
        };
        let mut outcome = parts[rank].copy_to(&places[rank]);
        let mut swapped = None;
        for from in self.others() {
            let taken = match self.part(from, number) {
                Ok(Gift::InBlocks) if self.board.size == 2 => {
                    swapped = Some(&places[from]);
                    Ok(())
                }
                gift => self.take_part(from, gift, &places[from]).await,
            };
            outcome = outcome.and(taken);
        }
        self.leave_together(number);
        if given == Given::InBlocks || swapped.is_some() {
            let mine = (given == Given::InBlocks).then(|| &parts[1 - rank]);
            let both = mine.is_some() && swapped.is_some();
            let turn = if both { self.mutual_again() } else { *self };
            outcome = outcome.and(turn.swap(mine, swapped));
        }
        let sent = self.call.finish_all(sends).await;
        outcome.and(sent)
    }

    /// Whether this rank gives in blocks what does not fit a slot.
    fn swaps(&self, parts: &[Data]) -> bool {
        self.board.size == 2 && !self.board.is_crowded() && parts[1 - self.board.rank].len() <= SWAP_MAX
    }

    /// Gives `mine` in blocks, and takes what the other rank gives in blocks to `theirs`. Both ranks know of each other whether they do.
    pub(super) fn swap(&self, mine: Option<&Data>, theirs: Option<&Data>) -> Result<()> {
        let other = 1 - self.board.rank;
        let (mut given, mut taken, mut outcome) = (0, 0, Ok(()));
        let len = mine.map_or(0, Data::len);
        // Even nothing is given as a block that says so.
        let mut to_give = mine.map_or(0, |_| len.div_ceil(SLOT_DATA).max(1));
        // How much of the other's is still to come, once it has said so.
        let mut left = theirs.map(|_| u64::MAX);
        let mut give_next = |number| {
            let (at, here) = (given, (len - given).min(SLOT_DATA));
            given += here;
            self.give_of(number, (len - at) as u64, here, |wire| {
                mine.into_iter().for_each(|mine| mine.write_to(at as i64, wire));
            })
        };
        let mut number = self.number();
        if to_give > 0 {
            to_give -= 1;
            give_next(number)?;
        }
        loop {
            let mut next = None;
            if to_give > 0 {
                to_give -= 1;
                let ahead = self.number();
                give_next(ahead)?;
                next = Some(ahead);
            }
            if let (Some(place), Some(1..)) = (theirs, left) {
                let (mut block, announced) = self.block(other, number)?;
                let here = block.remaining();
                outcome = outcome.and(place.take_at(taken as i64, &mut block));
                taken += here;
                left = Some(announced.saturating_sub(here as u64));
                if here == 0 && announced > 0 || taken > SWAP_MAX {
                    return Err(something_else(other));
                }
            }
            self.leave(number);
            number = match (next, left) {
                (Some(next), _) => next,
                (None, Some(1..)) => self.number(),
                _ => return outcome,
            };
        }
    }
}
