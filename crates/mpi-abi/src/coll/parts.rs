//! One rank's part for each of the others, over the board: what gathers and scatters do, and alltoalls.

use super::board::{BY_BLOCKS, BY_MESSAGES, Gift, Given, Turn, something_else, table_bytes};
use super::places::SLOT_DATA;
use super::{Data, goes_by_messages};
use barewire::mpi::error::Result;

impl<'a> Turn<'a> {
    pub(super) async fn gather(&self, mine: Option<&Data>, places: &[Data], root: usize) -> Result<()> {
        let number = self.number();
        if self.board.rank != root {
            let nothing = Data::none();
            let mine = mine.unwrap_or(&nothing);
            if mine.len() <= SLOT_DATA && !self.call.is_fetched(root, mine.len()) {
                self.give_data(number, mine)?;
                self.leave(number);
                return Ok(());
            }
            self.give(number, BY_MESSAGES, |_| {})?;
            self.leave(number);
            return self.call.send(root, mine).await;
        }
        if let Some(mine) = mine {
            mine.copy_to(&places[root])?;
        }
        let mut outcome = Ok(());
        for rank in self.others() {
            let gift = Ok(self.gift(rank, number)?);
            outcome = outcome.and(self.take_part(rank, gift, &places[rank]).await);
        }
        self.leave_together(number);
        outcome
    }

    pub(super) async fn scatter(&self, parts: &[Data], mine: Option<&Data>, root: usize) -> Result<()> {
        let number = self.number();
        if self.board.rank == root {
            if let Some(mine) = mine {
                parts[root].copy_to(mine)?;
            }
            let given = self.give_parts(number, parts, false)?;
            self.leave(number);
            if given == Given::Sent {
                let sends = self.others().map(|rank| self.call.start_send(rank, &parts[rank])).collect();
                return self.call.finish_all(sends).await;
            }
            return Ok(());
        }
        let nothing = Data::none();
        let taken = self.take_part(root, self.part(root, number), mine.unwrap_or(&nothing)).await;
        self.leave(number);
        taken
    }

    /// Gives everybody its part, or says how they come if they do not fit: in blocks, if that is a way.
    ///
    /// The parts follow each other, after a table of their ends; this rank's own is not among them.
    pub(super) fn give_parts(&self, number: u64, parts: &[Data], in_blocks: bool) -> Result<Given> {
        let table = table_bytes(parts.len());
        let bytes = |to: usize| if to == self.board.rank { 0 } else { parts[to].len() };
        let total = (0..parts.len()).fold(table, |total, to| total.saturating_add(bytes(to)));
        let least = self.others().map(|to| parts[to].len()).min().unwrap_or(0);
        let by_messages = goes_by_messages(&self.call.comm, least);
        if total > SLOT_DATA || by_messages {
            let (len, given) = match in_blocks && !by_messages {
                true => (BY_BLOCKS, Given::InBlocks),
                false => (BY_MESSAGES, Given::Sent),
            };
            self.give(number, len, |_| {})?;
            return Ok(given);
        }
        self.give(number, total as u64, |wire| {
            let mut end = table;
            for to in 0..parts.len() {
                end += bytes(to);
                wire.write_u64(end as u64);
            }
            let others = parts.iter().enumerate().filter(|&(to, _)| to != self.board.rank);
            others.for_each(|(_, part)| part.write_to(0, wire));
        })?;
        Ok(Given::Here)
    }

    /// Takes this rank's part of what another one gave.
    pub(super) async fn take_part(&self, from: usize, gift: Result<Gift<'_>>, place: &Data) -> Result<()> {
        match gift? {
            Gift::Here(mut part) => place.take(&mut part),
            Gift::Sent => self.call.receive(from, place).await,
            Gift::InBlocks => Err(something_else(from)),
        }
    }

    /// Waits for this rank's part of what another one gives.
    pub fn part(&self, from: usize, number: u64) -> Result<Gift<'a>> {
        let mut bytes = match self.gift(from, number)? {
            Gift::Here(bytes) => bytes,
            otherwise => return Ok(otherwise),
        };
        let (rank, total) = (self.board.rank, bytes.remaining());
        let mut start = table_bytes(self.board.size);
        if rank > 0 {
            bytes.discard(8 * (rank - 1));
            start = bytes.read_u64().map_or(usize::MAX, |word| word as usize);
        }
        let end = bytes.read_u64().map_or(0, |word| word as usize);
        if end < start || end > total {
            return Err(something_else(from));
        }
        let given = self.data(from, number, total);
        let part = self.board.memory.wire_ref(given + start, end - start);
        Ok(Gift::Here(part.expect("it is within what was given")))
    }
}
