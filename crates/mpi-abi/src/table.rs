//! Handle tables: numbers that stand for objects, checked every time.
//!
//! A dynamic handle names a slot, the generation of the slot and the kind of object. A handle that was freed, or belongs to
//! another kind, or was never given out, is found out by comparing numbers, never by following a pointer.
//!
//! Layout: bits 0..32 slot number + 0x1000, bits 32..36 kind, bits 36..63 generation. Predefined handles lie below 0x1000, so the
//! low half alone tells the two apart, and is what `MPI_…_toint` returns.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Handles below this are predefined.
pub(crate) const DYNAMIC: usize = 0x1000;

/// Where in a handle its kind is.
pub(crate) const KIND_SHIFT: u32 = 32;
/// Where in a handle its generation is.
pub(crate) const GENERATION_SHIFT: u32 = 36;
const GENERATION_MASK: u32 = (1 << 27) - 1;

/// The objects of one kind.
#[derive(Debug)]
pub(crate) struct Table<T> {
    kind: u8,
    slots: RwLock<Slots<T>>,
}

#[derive(Debug)]
struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    references: u32,
    object: Option<Arc<T>>,
}

impl<T> Table<T> {
    /// No objects of kind number `kind` (below 16).
    pub const fn new(kind: u8) -> Table<T> {
        Table { kind, slots: RwLock::new(Slots { slots: Vec::new(), free: Vec::new() }) }
    }

    /// A handle for a new object.
    pub fn insert(&self, object: impl Into<Arc<T>>) -> usize {
        let mut slots = self.write();
        let index = slots.free.pop().unwrap_or_else(|| {
            slots.slots.push(Slot { generation: 0, references: 0, object: None });
            slots.slots.len() - 1
        });
        let slot = &mut slots.slots[index];
        slot.object = Some(object.into());
        slot.references = 1;
        self.encode(index, slot.generation)
    }

    /// The object of a handle.
    pub fn get(&self, handle: usize) -> Option<Arc<T>> {
        let slots = self.read();
        slots.slots.get(self.index(&slots, handle)?)?.object.clone()
    }

    /// A handle of an object that may already have one; whoever gets it has to release it.
    pub fn share(&self, object: &Arc<T>) -> usize {
        let mut slots = self.write();
        let same = |slot: &Slot<T>| slot.object.as_ref().is_some_and(|known| Arc::ptr_eq(known, object));
        match slots.slots.iter().position(same) {
            Some(index) => {
                slots.slots[index].references += 1;
                self.encode(index, slots.slots[index].generation)
            }
            None => {
                drop(slots);
                self.insert(object.clone())
            }
        }
    }

    /// Takes one reference away; true if the handle was valid.
    pub fn release(&self, handle: usize) -> bool {
        let mut slots = self.write();
        let Some(index) = self.index(&slots, handle) else { return false };
        let slot = &mut slots.slots[index];
        slot.references -= 1;
        if slot.references == 0 {
            let object = slot.object.take();
            slot.generation = (slot.generation + 1) & GENERATION_MASK;
            slots.free.push(index);
            drop(slots);
            drop(object);
        }
        true
    }

    /// The handle whose low half is `low`, for `MPI_…_fromint`.
    pub fn widen(&self, low: usize) -> Option<usize> {
        let slots = self.read();
        let index = low.checked_sub(DYNAMIC)?;
        let slot = slots.slots.get(index)?;
        slot.object.is_some().then(|| self.encode(index, slot.generation))
    }

    fn encode(&self, index: usize, generation: u32) -> usize {
        (index + DYNAMIC) | usize::from(self.kind) << KIND_SHIFT | (generation as usize) << GENERATION_SHIFT
    }

    fn index(&self, slots: &Slots<T>, handle: usize) -> Option<usize> {
        let index = (handle as u32 as usize).checked_sub(DYNAMIC)?;
        let slot = slots.slots.get(index)?;
        (slot.object.is_some() && self.encode(index, slot.generation) == handle).then_some(index)
    }

    fn read(&self) -> RwLockReadGuard<'_, Slots<T>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Slots<T>> {
        self.slots.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_handle_is_not_the_next_object_in_its_slot() {
        let table: Table<&str> = Table::new(3);
        let first = table.insert("first");
        assert!(first >= DYNAMIC);
        assert!(table.release(first));
        let second = table.insert("second");
        assert_ne!(first, second);
        assert_eq!(table.get(first), None);
        assert!(!table.release(first));
        assert_eq!(table.get(second).as_deref(), Some(&"second"));
    }

    #[test]
    fn a_handle_of_another_kind_or_made_up_is_refused() {
        let (groups, infos): (Table<&str>, Table<&str>) = (Table::new(1), Table::new(2));
        let group = groups.insert("group");
        infos.insert("info");
        assert_eq!(infos.get(group), None);
        for made_up in [0, 1, DYNAMIC, DYNAMIC - 1, usize::MAX, group + 1, group ^ 1 << 40] {
            assert_eq!(groups.get(made_up), None, "{made_up:#x}");
        }
    }

    #[test]
    fn a_shared_handle_lives_until_all_have_released_it() {
        let table = Table::new(1);
        let object = Arc::new("handler");
        let first = table.share(&object);
        assert_eq!(table.share(&object), first);
        assert!(table.release(first));
        assert!(table.get(first).is_some());
        assert!(table.release(first));
        assert!(table.get(first).is_none());
    }

    #[test]
    fn the_low_half_leads_back_to_the_handle() {
        let table: Table<&str> = Table::new(5);
        table.release(table.insert("gone"));
        let handle = table.insert("here");
        assert_eq!(table.widen(handle as u32 as usize), Some(handle));
        assert_eq!(table.widen(DYNAMIC + 7), None);
        assert_eq!(table.widen(3), None);
    }
}
