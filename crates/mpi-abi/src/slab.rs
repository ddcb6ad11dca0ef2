//! Handles of what one thread at a time uses: requests and matched messages, in a slab without locks or counts.
//!
//! Handles have the form of those of [`crate::table`], so a stale one is found out in the same way.

use crate::table::{DYNAMIC, GENERATION_SHIFT, KIND_SHIFT};

const GENERATION_MASK: u32 = (1 << 27) - 1;

/// Objects of one kind, by handle.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    kind: u8,
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    /// No objects of kind number `kind` (below 16).
    pub fn new(kind: u8) -> Slab<T> {
        Slab { kind, slots: Vec::new(), free: Vec::new() }
    }

    /// A handle for a new object.
    #[inline]
    pub fn insert(&mut self, object: T) -> usize {
        let index = match self.free.pop() {
            Some(index) => index as usize,
            None => {
                self.slots.push((0, None));
                self.slots.len() - 1
            }
        };
        self.slots[index].1 = Some(object);
        self.encode(index)
    }

    /// The object of a handle.
    #[inline]
    pub fn get(&self, handle: usize) -> Option<&T> {
        let index = self.index(handle)?;
        self.slots[index].1.as_ref()
    }

    /// The object of a handle, to change it.
    #[inline]
    pub fn get_mut(&mut self, handle: usize) -> Option<&mut T> {
        let index = self.index(handle)?;
        self.slots[index].1.as_mut()
    }

    /// All objects, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|(_, object)| object.as_mut())
    }

    /// Takes the object of a handle, which then names nothing.
    #[inline]
    pub fn remove(&mut self, handle: usize) -> Option<T> {
        let index = self.index(handle)?;
        let (generation, object) = &mut self.slots[index];
        let taken = object.take()?;
        *generation = (*generation + 1) & GENERATION_MASK;
        self.free.push(index as u32);
        Some(taken)
    }

    /// The handle whose low half is `low`, for `MPI_…_fromint`.
    pub fn widen(&self, low: usize) -> Option<usize> {
        let index = low.checked_sub(DYNAMIC)?;
        self.slots.get(index)?.1.is_some().then(|| self.encode(index))
    }

    #[inline]
    fn encode(&self, index: usize) -> usize {
        (index + DYNAMIC)
            | usize::from(self.kind) << KIND_SHIFT
            | (self.slots[index].0 as usize) << GENERATION_SHIFT
    }

    #[inline]
    fn index(&self, handle: usize) -> Option<usize> {
        let index = (handle as u32 as usize).checked_sub(DYNAMIC)?;
        (index < self.slots.len() && self.encode(index) == handle).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_handle_is_not_the_next_object_in_its_slot() {
        let mut slab: Slab<&str> = Slab::new(8);
        let first = slab.insert("first");
        assert_eq!(slab.widen(first as u32 as usize), Some(first));
        assert_eq!(slab.remove(first), Some("first"));
        assert_eq!(slab.widen(first as u32 as usize), None);
        let second = slab.insert("second");
        assert_ne!(first, second);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&"second"));
        for made_up in [0, DYNAMIC, second + 1, second ^ 1 << 40, usize::MAX] {
            assert_eq!(slab.get(made_up), None, "{made_up:#x}");
        }
    }
}
