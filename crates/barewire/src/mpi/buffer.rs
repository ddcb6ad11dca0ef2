//! Buffers of messages under way: a slice that is lent for the length of a call, or a vector that goes home when its message has ended.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use barewire_core::Incoming;
use barewire_core::tagged::{Gather, Scatter};
use barewire_sys::loan::{Borrower, Family, Lender};
use barewire_sys::wirebuf::{Places, WireMut, WireRef};
use zerocopy::IntoBytes;

use super::fault::Error;
use crate::spmd::Plain;

/// The parts of a message that a blocking call sends.
#[derive(Debug)]
pub(super) struct Parts;

impl Family for Parts {
    type Of<'a> = &'a [&'a [u8]];
}

/// The place that a blocking call receives into.
#[derive(Debug)]
pub(super) struct Place;

impl Family for Place {
    type Of<'a> = &'a mut [u8];
}

/// Bytes that are there while the call that lends them lasts. After that it gathers nothing.
#[derive(Debug)]
pub(super) struct LentParts(Borrower<Parts>);

impl LentParts {
    pub fn of(lender: &Lender<Parts>) -> LentParts {
        LentParts(lender.borrower())
    }
}

impl Gather for LentParts {
    fn gather(&mut self, offset: u64, wire: &mut WireMut<'_>) {
        self.0.with(|parts| gather(parts, offset, wire));
    }
}

/// Writes the bytes from `offset` on of parts that follow each other until the wire is full.
fn gather(parts: &[&[u8]], offset: u64, wire: &mut WireMut<'_>) {
    let mut skip = usize::try_from(offset).unwrap_or(usize::MAX);
    for part in parts {
        match part.get(skip..) {
            Some(bytes) => {
                wire.write(bytes);
                skip = 0;
            }
            None => skip -= part.len(),
        }
    }
}

/// A place that is there while the call that lends it lasts. After that it takes nothing.
#[derive(Debug)]
pub(super) struct LentPlace {
    len: usize,
    place: Borrower<Place>,
}

impl LentPlace {
    pub fn of(lender: &Lender<Place>, len: usize) -> LentPlace {
        LentPlace { len, place: lender.borrower() }
    }
}

impl Scatter for LentPlace {
    fn capacity(&self) -> u64 {
        self.len as u64
    }

    fn scatter(&mut self, offset: u64, packet: &mut Incoming<'_>, len: usize) {
        self.place.with(|place| range(place, offset, len).map(|place| packet.read(place)));
    }

    fn scatter_kept(&mut self, offset: u64, bytes: &[u8]) {
        self.place.with(|place| range(place, offset, bytes.len()).map(|place| place.copy_from_slice(bytes)));
    }
}

fn range(place: &mut [u8], offset: u64, len: usize) -> Option<&mut [u8]> {
    let at = usize::try_from(offset).ok()?;
    place.get_mut(at..at.checked_add(len)?)
}

/// A vector that belongs to a message under way. When that has ended, however it did, the vector is at home.
pub(super) struct Owned<T: Plain> {
    values: Vec<T>,
    home: Home<T>,
}

/// Where a vector is found again.
#[derive(Debug)]
pub(super) struct Home<T>(Arc<Mutex<Vec<T>>>);

impl<T> Home<T> {
    /// What has come home.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: Plain> Owned<T> {
    pub fn new(values: Vec<T>) -> (Box<Owned<T>>, Home<T>) {
        let home = Arc::new(Mutex::new(Vec::new()));
        (Box::new(Owned { values, home: Home(Arc::clone(&home)) }), Home(home))
    }
}

impl<T: Plain> Drop for Owned<T> {
    fn drop(&mut self) {
        *self.home.0.lock().unwrap_or_else(PoisonError::into_inner) = std::mem::take(&mut self.values);
    }
}

impl<T: Plain> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned").field("len", &self.values.len()).finish_non_exhaustive()
    }
}

impl<T: Plain> Gather for Owned<T> {
    fn gather(&mut self, offset: u64, wire: &mut WireMut<'_>) {
        gather(&[self.values.as_bytes()], offset, wire);
    }

    fn slice(&self, offset: u64, len: usize) -> Option<WireRef<'_>> {
        let rest = self.values.as_bytes().get(usize::try_from(offset).ok()?..)?;
        Some(WireRef::new(&rest[..len.min(rest.len())]))
    }
}

impl<T: Plain> Scatter for Owned<T> {
    fn capacity(&self) -> u64 {
        size_of_val(self.values.as_slice()) as u64
    }

    fn scatter(&mut self, offset: u64, packet: &mut Incoming<'_>, len: usize) {
        range(self.values.as_mut_bytes(), offset, len).map(|place| packet.read(place));
    }

    fn scatter_kept(&mut self, offset: u64, bytes: &[u8]) {
        if let Some(place) = range(self.values.as_mut_bytes(), offset, bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    fn place<'a>(&'a mut self, offset: u64, len: usize, places: &mut Places<'a>) {
        if let Some(place) = range(self.values.as_mut_bytes(), offset, len) {
            places.push(WireMut::new(place));
        }
    }
}

/// So many values of zeros; an error if there is no memory for them, as their number may come from elsewhere.
pub(super) fn zeroed<T: Plain>(len: usize) -> Result<Vec<T>, Error> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|error| Error::System(error.to_string()))?;
    values.resize(len, T::new_zeroed());
    Ok(values)
}

/// How many values so many bytes are.
pub(super) fn count<T>(bytes: u64) -> Result<usize, Error> {
    let element = size_of::<T>();
    match bytes.checked_rem(element as u64) {
        Some(0) => usize::try_from(bytes / element as u64).map_err(|error| Error::System(error.to_string())),
        None if bytes == 0 => Ok(0),
        _ => Err(Error::Ragged { bytes, element }),
    }
}
