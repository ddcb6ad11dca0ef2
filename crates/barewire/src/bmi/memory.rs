//! Memory of ours: shared, so that neighbours copy long messages straight out of it, and kept for whoever asks next.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire_core::Endpoint;
use barewire_core::region::{Key, Memory, Rights, Who};

/// Less memory than this is not worth sharing: what fits in it is sent at once.
const SHARED_BYTES_MIN: usize = 16 << 10;
/// Blocks longer than this are made to measure; others come in powers of two, so that they fit more often.
const ROUNDED_BYTES_MAX: usize = 1 << 26;
/// Bytes that are kept for whoever asks next.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// A block of shared memory, and the key with which neighbours read it once there is one.
#[derive(Debug)]
struct Block {
    memory: Memory,
    key: Option<Key>,
}

impl Block {
    /// Whether nobody uses it any more: only we hold it, and the export that the key is of.
    fn is_idle(&self) -> bool {
        self.memory.handles() <= 1 + usize::from(self.key.is_some())
    }
}

/// The blocks that nobody has. Handles are to the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Shelf(Arc<Mutex<Vec<Block>>>);

impl Shelf {
    fn blocks(&self) -> MutexGuard<'_, Vec<Block>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block of at least `len` bytes; `None` if so few are not worth it, or if there is no memory to share.
    pub fn take(&self, len: usize) -> Option<Arc<Lease>> {
        if len < SHARED_BYTES_MIN {
            return None;
        }
        let size = if len <= ROUNDED_BYTES_MAX { len.next_power_of_two() } else { len };
        let fits = |block: &Block| block.memory.len() == size && block.is_idle();
        let kept = {
            let mut blocks = self.blocks();
            blocks.iter().position(fits).map(|at| blocks.swap_remove(at))
        };
        let block = match kept {
            Some(block) => block,
            None => Block { memory: Memory::shared(size).ok()?, key: None },
        };
        Some(Arc::new(Lease { memory: block.memory, key: Mutex::new(block.key), shelf: self.clone() }))
    }

    /// Lets go of what is more than worth keeping, the oldest first.
    pub fn trim(&self, endpoint: &mut Endpoint) {
        let mut blocks = self.blocks();
        let mut bytes: usize = blocks.iter().map(|block| block.memory.len()).sum();
        while bytes > KEPT_BYTES_MAX {
            let block = blocks.remove(0);
            bytes -= block.memory.len();
            block.key.map(|key| endpoint.revoke(key));
        }
    }
}

/// A block that somebody has; back on the shelf when the last handle is gone.
#[derive(Debug)]
pub(super) struct Lease {
    pub memory: Memory,
    key: Mutex<Option<Key>>,
    shelf: Shelf,
}

impl Lease {
    /// The key with which neighbours read it; `None` if there is no randomness for one.
    pub fn key(&self, endpoint: &mut Endpoint) -> Option<Key> {
        let mut key = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        if !key.is_some_and(|key| endpoint.is_exported(key)) {
            *key = endpoint.export(&self.memory, Rights::READ, Who::Anyone).ok();
        }
        *key
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let key = *self.key.get_mut().unwrap_or_else(PoisonError::into_inner);
        // The block is ours alone once this handle, which is about to go, is gone.
        self.shelf.blocks().push(Block { memory: self.memory.clone(), key });
    }
}
