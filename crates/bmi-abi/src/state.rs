//! The interface of this process: one, opened by the first `BMI_initialize` and closed by the last `BMI_finalize`.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, RwLock};

use barewire::bmi::{Bmi, Buffer, Error, Result};

/// What the process has.
#[derive(Debug, Default)]
struct Process {
    bmi: Option<Bmi>,
    /// Calls of `BMI_initialize` that `BMI_finalize` has not answered.
    count: u32,
}

static PROCESS: RwLock<Process> = RwLock::new(Process { bmi: None, count: 0 });

/// Strings and memory that programs have of us.
#[derive(Debug, Default)]
pub(crate) struct Lent {
    names: Names,
    /// Memory of `BMI_memalloc` that was not given back: the network's, or from malloc.
    memory: BTreeMap<usize, Option<Buffer>>,
    copies: Copies,
}

/// URLs of addresses; pointers to them stay good until the address is dropped. Addresses of clients are dropped when these are gone, which
/// the program does not know at once: so the newest names stay a while longer.
#[derive(Debug, Default)]
struct Names {
    /// By address, and whether it called us: how many were made before, and the name.
    known: HashMap<(i64, bool), (u64, CString)>,
    made: u64,
    /// How many there may be before the next look for those of dropped addresses.
    most: usize,
}

/// Names that stay though their address was dropped.
const KEPT_NAMES: u64 = 1024;

/// Copies of unexpected messages, from malloc, that were not given back. A program may give them to `free`, of which we do not hear; so only
/// the newest are known, and an older one has to go that way.
#[derive(Debug, Default)]
struct Copies {
    by_place: HashMap<usize, u64>,
    by_age: BTreeMap<u64, usize>,
    made: u64,
}

/// Copies that are known.
const KNOWN_COPIES: usize = 1 << 16;

static LENT: LazyLock<Mutex<Lent>> = LazyLock::new(Mutex::default);

/// The interface.
pub(crate) fn bmi() -> Result<Bmi> {
    PROCESS.read().unwrap_or_else(PoisonError::into_inner).bmi.clone().ok_or(Error::Finalized)
}

/// Opens it, or counts that somebody else wants it too.
pub(crate) fn open(initialize: impl FnOnce() -> Result<Bmi>) -> Result<()> {
    let mut process = PROCESS.write().unwrap_or_else(PoisonError::into_inner);
    if process.bmi.is_none() {
        process.bmi = Some(initialize()?);
    }
    process.count += 1;
    Ok(())
}

/// Closes it with the last who wanted it.
pub(crate) fn close() -> Result<()> {
    let mut process = PROCESS.write().unwrap_or_else(PoisonError::into_inner);
    process.count = process.count.checked_sub(1).ok_or(Error::Finalized)?;
    if process.count == 0 {
        process.bmi.take().into_iter().for_each(Bmi::finalize);
        lent().names = Names::default();
    }
    Ok(())
}

/// What programs have of us.
pub(crate) fn lent() -> MutexGuard<'static, Lent> {
    LENT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lent {
    /// A string that stays until the address is dropped; null if it cannot be one. `is_known` says whether an address was not dropped.
    pub fn name(
        &mut self,
        addr: i64,
        unexpected: bool,
        url: &str,
        is_known: impl Fn(i64) -> bool,
    ) -> *const c_char {
        let Ok(url) = CString::new(url) else { return std::ptr::null() };
        self.names.prune(is_known);
        let Names { known, made, .. } = &mut self.names;
        let (_, place) = known.entry((addr, unexpected)).or_insert_with(|| {
            *made += 1;
            (*made, url)
        });
        place.as_ptr()
    }

    /// Forgets the strings of an address.
    pub fn forget_names(&mut self, addr: i64) {
        self.names.known.remove(&(addr, false));
        self.names.known.remove(&(addr, true));
    }

    /// Notes memory from malloc that is given out.
    pub fn give(&mut self, place: *mut c_void) -> *mut c_void {
        if !place.is_null() {
            self.memory.insert(place.addr(), None);
        }
        place
    }

    /// Notes a copy from malloc that is given out.
    pub fn give_copy(&mut self, place: *mut c_void) -> *mut c_void {
        if !place.is_null() {
            self.copies.insert(place.addr());
        }
        place
    }

    /// Gives memory of the network's out.
    pub fn give_buffer(&mut self, buffer: Buffer) -> *mut c_void {
        let place = std::ptr::with_exposed_provenance_mut::<c_void>(buffer.address() as usize);
        self.memory.insert(place.addr(), Some(buffer));
        place
    }

    /// Takes back memory that was given out, and says whether malloc has to have it back, too; `None` if it was not given out.
    pub fn take_back(&mut self, place: *mut c_void) -> Option<bool> {
        let copy = || self.copies.remove(place.addr()).then_some(true);
        self.memory.remove(&place.addr()).map(|buffer| buffer.is_none()).or_else(copy)
    }

    /// The part of the network's memory that a program's buffer is, if it is.
    pub fn find(&self, at: usize, len: usize) -> Option<Buffer> {
        let (&start, buffer) = self.memory.range(..=at).next_back()?;
        let buffer = buffer.as_ref().filter(|buffer| at - start + len <= buffer.len())?;
        Some(buffer.slice(at - start, len))
    }
}

impl Names {
    /// Forgets names of addresses that were dropped, if there are many names and they are not new.
    fn prune(&mut self, is_known: impl Fn(i64) -> bool) {
        let Names { known, made, most } = self;
        if known.len() >= (*most).max(2 * KEPT_NAMES as usize) {
            known.retain(|&(addr, _), (number, _)| *number + KEPT_NAMES > *made || is_known(addr));
            *most = 2 * known.len();
        }
    }
}

impl Copies {
    fn insert(&mut self, place: usize) {
        self.made += 1;
        // Memory that was freed and given out anew is new.
        if let Some(before) = self.by_place.insert(place, self.made) {
            self.by_age.remove(&before);
        }
        self.by_age.insert(self.made, place);
        if self.by_age.len() > KNOWN_COPIES {
            self.by_age.pop_first().map(|(_, oldest)| self.by_place.remove(&oldest));
        }
    }

    /// Forgets a copy; false if it is not known.
    fn remove(&mut self, place: usize) -> bool {
        self.by_place.remove(&place).map(|number| self.by_age.remove(&number)).is_some()
    }
}

/// A call's result as C wants it.
pub(crate) fn code(result: Result<()>) -> c_int {
    result.map_or_else(|error| error.code(), |()| 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_dropped_addresses_are_forgotten_after_a_while() {
        let mut lent = Lent::default();
        // A server that asks every client's name; only the first stays.
        let first = lent.name(0, true, "tcp://first:1", |_| true);
        for addr in 1..100_000 {
            let name = lent.name(addr, true, &format!("tcp://client:{addr}"), |addr| addr == 0);
            assert_eq!(name, lent.name(addr, true, "another", |addr| addr == 0), "it stays where it is");
            assert!(lent.names.known.len() <= 2 * (KEPT_NAMES as usize + 1), "those kept, and the first");
        }
        assert_eq!(lent.name(0, true, "another", |_| true), first);
        assert!(lent.names.known.contains_key(&(99_999 - KEPT_NAMES as i64 / 2, true)), "the newest stay");
        lent.forget_names(0);
        assert!(!lent.names.known.contains_key(&(0, true)));
        // As many as there are clients.
        for addr in 0..10_000 {
            lent.name(addr, false, "tcp://client:1", |_| true);
        }
        assert!(lent.names.known.len() >= 10_000);
    }

    #[test]
    fn copies_that_the_program_freed_itself_are_forgotten_after_a_while() {
        let mut lent = Lent::default();
        let place = |at: usize| std::ptr::without_provenance_mut::<c_void>(at * 16);
        for at in 1..=KNOWN_COPIES + 10 {
            lent.give_copy(place(at));
        }
        assert_eq!((lent.copies.by_place.len(), lent.copies.by_age.len()), (KNOWN_COPIES, KNOWN_COPIES));
        assert_eq!(lent.take_back(place(10)), None, "too old");
        assert_eq!((lent.take_back(place(11)), lent.take_back(place(11))), (Some(true), None), "once");
        for _ in 0..3 {
            lent.give_copy(place(12));
        }
        let (places, ages) = (lent.copies.by_place.len(), lent.copies.by_age.len());
        assert_eq!((places, ages), (KNOWN_COPIES - 1, KNOWN_COPIES - 1), "one place, one entry");
        assert_eq!((lent.take_back(place(12)), lent.take_back(place(12))), (Some(true), None));
        lent.give(place(12));
        assert_eq!((lent.take_back(place(12)), lent.take_back(place(12))), (Some(true), None));
    }
}
