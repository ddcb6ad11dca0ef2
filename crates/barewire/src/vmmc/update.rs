//! Deliberate update: the bytes go into the imported buffer, in order, and then the owner is told if it is to be.

use barewire_core::region::{Memory, RegionError};
use barewire_core::{Endpoint, Peer, SendError};

use super::engine::{Engine, ImportEntry, ImportState, Stage, TransferEntry, Valid};
use super::names::{Import, Notify, Transfer, TransferError, Why};
use super::wire::{self, Kind};
use crate::slab::{Slab, Slot};

impl Engine {
    pub fn send(
        &mut self,
        core: &mut Endpoint,
        import: Import,
        offset: u64,
        (source, at, len): (&Memory, u64, u64),
        notify: Notify,
    ) -> Result<Transfer, TransferError> {
        let entry = self.imports.get_mut(import.0).ok_or(TransferError::NoSuch)?;
        let valid = entry.valid()?;
        if offset.checked_add(len).is_none_or(|end| end > valid.key.len) {
            return Err(TransferError::OutOfRange);
        }
        if at.checked_add(len).is_none_or(|end| end > source.len() as u64) {
            return Err(TransferError::SourceRange);
        }
        let source = source.clone();
        let transfer = TransferEntry { source, at, offset, len, notify, stage: Stage::Queued };
        let id = self.transfers.insert(transfer).ok_or(TransferError::TooMany)?;
        entry.queue.push_back(id);
        self.counters.transfers += 1;
        self.advance(core, import.0);
        Ok(Transfer(id))
    }

    /// Moves an import's transfers as far as they go.
    pub fn advance(&mut self, core: &mut Endpoint, id: Slot) {
        let Engine { imports, transfers, news, .. } = self;
        let Some(import) = imports.get_mut(id) else { return };
        let ImportState::Valid(valid) = import.state else { return };
        let mut stale = false;
        for at in 0..import.queue.len() {
            stale |= import.begin(core, transfers, import.queue[at], valid);
        }
        while let Some(&front) = import.queue.front() {
            let Some(transfer) = transfers.get_mut(front) else {
                import.queue.pop_front();
                continue;
            };
            if !transfer.end(core, id, import.peer, valid) {
                break;
            }
            import.queue.pop_front();
            *news += 1;
        }
        if stale {
            return self.invalidate(id, Why::Unexported);
        }
        if !import.queue.is_empty() && !import.listed {
            import.listed = true;
            self.busy.push(id);
        }
    }
}

impl ImportEntry {
    /// What is needed to write, or why there is nothing to write to.
    pub fn valid(&self) -> Result<Valid, TransferError> {
        match self.state {
            ImportState::Valid(valid) => Ok(valid),
            ImportState::Asked => Err(TransferError::NotYet),
            ImportState::Invalid(why) => Err(TransferError::Invalid(why)),
            ImportState::Refused(_) => Err(TransferError::NoSuch),
        }
    }

    /// Begins a transfer if it has not begun, and sees what has become of it if it has. True if the buffer is gone.
    fn begin(
        &mut self,
        core: &mut Endpoint,
        transfers: &mut Slab<TransferEntry>,
        id: Slot,
        valid: Valid,
    ) -> bool {
        let Some(transfer) = transfers.get_mut(id) else { return false };
        let TransferEntry { source, at, offset, len, .. } = &*transfer;
        if let Stage::Again = transfer.stage {
            match core.put_from(valid.key, *offset, source, *at, *len) {
                Ok(op) => transfer.stage = Stage::Under(op, None),
                Err(RegionError::Send(SendError::Full)) => return false,
                Err(error) => transfer.stage = Stage::Done(Err(error.into())),
            }
        }
        let TransferEntry { source, at, offset, len, .. } = &*transfer;
        if let Stage::Queued = transfer.stage {
            while self.aims.front().is_some_and(|aim| (aim.turn.wrapping_sub(self.turn) as i32) < 0) {
                self.aims.pop_front();
            }
            let next = self.aims.front().filter(|aim| aim.turn == self.turn && aim.room >= *len).copied();
            let (key, to) = next.map_or((valid.key, *offset), |aim| (aim.key, aim.at));
            match core.put_from(key, to, source, *at, *len) {
                Ok(op) => {
                    self.turn = self.turn.wrapping_add(1);
                    transfer.stage = Stage::Under(op, next);
                }
                Err(RegionError::Send(SendError::Full)) => return false,
                Err(error) => transfer.stage = Stage::Done(Err(error.into())),
            }
        }
        if let Stage::Under(op, aim) = &transfer.stage {
            let redirected = aim.is_some();
            match core.take(*op) {
                None => {}
                Some(Ok(_)) => transfer.stage = Stage::Placed { redirected },
                // The new place is gone again: the default buffer is not.
                Some(Err(RegionError::BadKey)) if redirected => transfer.stage = Stage::Again,
                Some(Err(error)) => {
                    transfer.stage = Stage::Done(Err(error.into()));
                    return error == RegionError::BadKey;
                }
            }
        }
        false
    }
}

impl TransferEntry {
    /// Ends a transfer that is in place, telling the owner if it is to be told; false while it is under way.
    fn end(&mut self, core: &mut Endpoint, import: Slot, peer: Peer, valid: Valid) -> bool {
        match self.stage {
            Stage::Queued | Stage::Again | Stage::Under(..) => false,
            Stage::Done(_) => true,
            Stage::Placed { redirected } => {
                if self.notify == Notify::Tell || valid.redirectable {
                    let tell = if self.notify == Notify::Tell { wire::TELL } else { 0 };
                    let word =
                        u64::from(import.short()) | tell | if redirected { wire::REDIRECTED } else { 0 };
                    let sent =
                        core.send_with(peer, Kind::Arrived.port(), u64::from(valid.export), 24, |wire| {
                            wire.write_words(&[word, self.offset, self.len]);
                        });
                    match sent {
                        Ok(()) => {}
                        Err(SendError::Full) => return false,
                        Err(error) => {
                            self.stage = Stage::Done(Err(RegionError::from(error).into()));
                            return true;
                        }
                    }
                }
                self.stage = Stage::Done(Ok(()));
                true
            }
        }
    }
}
