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
    /// URLs of addresses; pointers to them stay good until the address is dropped.
    names: HashMap<(i64, bool), CString>,
    /// Memory that was given out and not given back: the network's, or from malloc.
    memory: BTreeMap<usize, Option<Buffer>>,
}

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
        lent().names.clear();
    }
    Ok(())
}

/// What programs have of us.
pub(crate) fn lent() -> MutexGuard<'static, Lent> {
    LENT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lent {
    /// A string that stays until the address is dropped; null if it cannot be one.
    pub fn name(&mut self, addr: i64, unexpected: bool, url: &str) -> *const c_char {
        let Ok(url) = CString::new(url) else { return std::ptr::null() };
        let place = self.names.entry((addr, unexpected)).or_insert(url);
        place.as_ptr()
    }

    /// Forgets the strings of an address.
    pub fn forget_names(&mut self, addr: i64) {
        self.names.remove(&(addr, false));
        self.names.remove(&(addr, true));
    }

    /// Notes memory from malloc that is given out.
    pub fn give(&mut self, place: *mut c_void) -> *mut c_void {
        if !place.is_null() {
            self.memory.insert(place.addr(), None);
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
        self.memory.remove(&place.addr()).map(|buffer| buffer.is_none())
    }

    /// The part of the network's memory that a program's buffer is, if it is.
    pub fn find(&self, at: usize, len: usize) -> Option<Buffer> {
        let (&start, buffer) = self.memory.range(..=at).next_back()?;
        let buffer = buffer.as_ref().filter(|buffer| at - start + len <= buffer.len())?;
        Some(buffer.slice(at - start, len))
    }
}

/// A call's result as C wants it.
pub(crate) fn code(result: Result<()>) -> c_int {
    result.map_or_else(|error| error.code(), |()| 0)
}
