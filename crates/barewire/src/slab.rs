//! A table whose places are used again, under another generation: an old name never reaches a new entry.
//!
//! Whoever holds a [`Slot`] may do so for ever: a place that has been through all generations is not used any more. The short
//! form, for the wire, tells a few thousand generations apart; it is for what both ends still talk about.

/// Names an entry of a [`Slab`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot {
    pub index: u32,
    pub generation: u32,
}

/// Bits of an index that travel; the other bits of a word of 32 are the generation's last.
const INDEX_BITS: u32 = 20;

impl Slot {
    /// The name in 32 bits, for the wire.
    #[inline(always)]
    pub fn short(self) -> u32 {
        self.index | self.generation << INDEX_BITS
    }

    /// The name in 64 bits, for the user to hand around.
    pub fn bits(self) -> u64 {
        u64::from(self.index) | u64::from(self.generation) << 32
    }

    pub fn from_bits(bits: u64) -> Slot {
        Slot { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Adds an entry; `None` if a million of them are there.
    pub fn insert(&mut self, entry: T) -> Option<Slot> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.places.len() < 1 << INDEX_BITS => {
                self.places.push((0, None));
                (self.places.len() - 1) as u32
            }
            None => return None,
        };
        let (generation, place) = &mut self.places[index as usize];
        *place = Some(entry);
        Some(Slot { index, generation: *generation })
    }

    pub fn remove(&mut self, slot: Slot) -> Option<T> {
        let (generation, place) = self.places.get_mut(slot.index as usize)?;
        if *generation != slot.generation {
            return None;
        }
        let entry = place.take()?;
        *generation = generation.wrapping_add(1);
        if *generation > 0 {
            self.free.push(slot.index);
        }
        Some(entry)
    }

    #[inline(always)]
    pub fn get(&self, slot: Slot) -> Option<&T> {
        match self.places.get(slot.index as usize) {
            Some((generation, entry)) if *generation == slot.generation => entry.as_ref(),
            _ => None,
        }
    }

    #[inline(always)]
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        match self.places.get_mut(slot.index as usize) {
            Some((generation, entry)) if *generation == slot.generation => entry.as_mut(),
            _ => None,
        }
    }

    /// The entry behind a name from the wire.
    #[inline(always)]
    pub fn find(&mut self, short: u32) -> Option<(Slot, &mut T)> {
        let index = short & ((1 << INDEX_BITS) - 1);
        let (generation, entry) = self.places.get_mut(index as usize)?;
        let slot = Slot { index, generation: *generation };
        match entry {
            Some(entry) if slot.short() == short => Some((slot, entry)),
            _ => None,
        }
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Slot, &mut T)> {
        self.places.iter_mut().enumerate().filter_map(|(index, (generation, entry))| {
            let slot = Slot { index: index as u32, generation: *generation };
            entry.as_mut().map(|entry| (slot, entry))
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        self.places.iter().enumerate().filter_map(|(index, (generation, entry))| {
            let slot = Slot { index: index as u32, generation: *generation };
            entry.as_ref().map(|entry| (slot, entry))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_name_reaches_nothing_new() {
        let mut slab = Slab::default();
        let first = slab.insert('a').unwrap();
        assert_eq!(slab.remove(first), Some('a'));
        assert_eq!(slab.remove(first), None, "freed once");
        let second = slab.insert('b').unwrap();
        assert_eq!((second.index, slab.get(first)), (first.index, None));
        assert_eq!(slab.find(second.short()).map(|(slot, entry)| (slot, *entry)), Some((second, 'b')));
        assert!(slab.find(first.short()).is_none());
        assert_eq!(Slot::from_bits(second.bits()), second);
    }

    #[test]
    fn an_old_name_reaches_nothing_however_often_its_place_is_used_again() {
        let mut slab = Slab::default();
        let first = slab.insert(0).unwrap();
        let mut last = first;
        for turn in 1..=3 << (32 - INDEX_BITS) {
            slab.remove(last).unwrap();
            last = slab.insert(turn).unwrap();
            assert_eq!((last.index, slab.get(first)), (first.index, None));
            assert_eq!(slab.get_mut(first), None);
            assert_eq!(slab.remove(first), None);
            assert_eq!(slab.find(last.short()).map(|(slot, entry)| (slot, *entry)), Some((last, turn)));
            assert_eq!(Slot::from_bits(last.bits()), last);
        }
    }

    #[test]
    fn a_place_that_was_used_under_every_generation_is_left() {
        let mut slab = Slab { places: vec![(u32::MAX, None)], free: vec![0] };
        let last = slab.insert('a').unwrap();
        assert_eq!(slab.remove(last), Some('a'));
        assert_eq!(slab.insert('b').map(|slot| slot.index), Some(1));
        assert_eq!((slab.get(last), slab.get(Slot { index: 0, generation: 0 })), (None, None));
    }
}
