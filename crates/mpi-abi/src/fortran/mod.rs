//! Entry points for Fortran: addresses of everything, handles as integers, strings with their lengths.
//!
//! The build script writes most of them by the rules in `abi/fortran.rs`; here is what they call, and those that follow no rule.
#![allow(clippy::redundant_closure_call, reason = "conversions in generated code are closures")]

mod attr;
mod grequest;

use crate::boundary;
use crate::fault::{On, guard};
use crate::shim::convert;
use crate::world::world;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

include!(concat!(env!("OUT_DIR"), "/fortran.rs"));

/// Common blocks whose addresses are marks, and what C has in their place. A program has blocks of these names, too; the loader
/// takes the program's, so they are looked up.
macro_rules! marks {
    ($($name:ident = $symbol:literal, $value:literal;)*) => {
        $(
            /// A common block whose address is a mark.
            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals, reason = "Fortran calls it so")]
            pub static mut $name: [c_int; 8] = [0; 8];
        )*
        const MARKS: &[(&CStr, usize)] = &[$(($symbol, $value)),*];
    };
}

marks! {
    barewire_bottom_ = c"barewire_bottom_", 0;
    barewire_in_place_ = c"barewire_in_place_", 1;
    barewire_status_ignore_ = c"barewire_status_ignore_", 0;
    barewire_statuses_ignore_ = c"barewire_statuses_ignore_", 0;
    barewire_unweighted_ = c"barewire_unweighted_", 10;
    barewire_weights_empty_ = c"barewire_weights_empty_", 11;
}

/// An address, or what C has in place of a mark.
fn mark(address: *mut c_void) -> *mut c_void {
    unsafe extern "C" {
        fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    }
    static KNOWN: OnceLock<Vec<(usize, usize)>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        // SAFETY: the name ends with a zero, and null asks for the first object that has it.
        let find = |name: &CStr| unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) } as usize;
        MARKS.iter().map(|&(name, value)| (find(name), value)).collect()
    });
    match known.iter().find(|(mark, _)| *mark == address as usize) {
        Some(&(_, value)) => std::ptr::without_provenance_mut(value),
        None => address,
    }
}

/// The value of an argument.
fn take<T: Copy + Default>(place: *mut T) -> T {
    // SAFETY: Fortran passes the address of an argument.
    if place.is_null() { T::default() } else { unsafe { place.read_unaligned() } }
}

/// Stores a result.
fn give<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: Fortran passes the address of a variable.
        unsafe { place.write_unaligned(value) };
    }
}

/// Handles for integers.
fn handles(place: *mut c_int, len: usize, from: impl Fn(c_int) -> usize) -> Vec<usize> {
    (0..len).map(|i| from(take(place.wrapping_add(i)))).collect()
}

/// Integers for handles.
fn give_all(place: *mut c_int, handles: &[usize], to: impl Fn(usize) -> c_int) {
    for (i, handle) in handles.iter().enumerate() {
        // What has not changed may be a constant of the program's.
        if take(place.wrapping_add(i)) != to(*handle) {
            give(place.wrapping_add(i), to(*handle));
        }
    }
}

/// Indices count from one in Fortran.
fn one_based(place: *mut c_int, len: c_int) {
    for i in 0..usize::try_from(len).unwrap_or(0) {
        let index = take(place.wrapping_add(i));
        if index >= 0 {
            give(place.wrapping_add(i), index + 1);
        }
    }
}

/// How many processes a communicator's calls are with.
fn partners(comm: c_int) -> usize {
    world().comm(convert::PMPI_Comm_fromint(comm)).map_or(0, |comm| comm.partners().size())
}

/// Whether a buffer is the mark for data that is where it is to be already.
fn is_in_place(buffer: *mut c_void) -> bool {
    mark(buffer).addr() == 1
}

/// Room for a string of C's, which ends with a zero; none is asked for with none.
fn with_zero(len: c_int) -> c_int {
    if len > 0 { len.saturating_add(1) } else { len }
}

/// A string as C wants it, with room for the longest any call returns.
struct Text(Vec<u8>);

impl Text {
    const ROOM: usize = 8193;

    fn new(place: *mut u8, len: usize) -> Text {
        let mut bytes: Vec<u8> = (0..len).map(|i| take(place.wrapping_add(i))).collect();
        while bytes.last().is_some_and(|byte| *byte == b' ') {
            bytes.pop();
        }
        let begin = bytes.iter().take_while(|byte| **byte == b' ').count();
        bytes.drain(..begin);
        Text::padded(bytes)
    }

    /// Room for a string, with what is there now: a call may leave it.
    fn room(place: *mut u8, len: usize) -> Text {
        Text::padded((0..len).map(|i| take(place.wrapping_add(i))).collect())
    }

    fn padded(mut bytes: Vec<u8>) -> Text {
        bytes.resize(bytes.len().max(Text::ROOM) + 1, 0);
        Text(bytes)
    }

    fn pointer(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    fn give(&self, place: *mut u8, len: usize) {
        let text = self.0.iter().copied().take_while(|byte| *byte != 0).chain(std::iter::repeat(b' '));
        for (i, byte) in text.take(len).enumerate() {
            give(place.wrapping_add(i), byte);
        }
    }
}

/// Addresses for integers.
fn widened(place: *mut c_int, len: usize) -> Vec<i64> {
    (0..len).map(|i| take(place.wrapping_add(i)).into()).collect()
}

/// Exports subroutines under their names, and under those that a program's own are to call.
macro_rules! subroutines {
    ($(fn $name:ident $shifted:ident($($argument:ident: $kind:ty),* $(,)?) $body:block)*) => {$(
        #[doc = concat!("Fortran's `", stringify!($shifted), "`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $shifted($($argument: *mut $kind),*) $body

        #[doc = concat!("Fortran's `", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: *mut $kind),*) {
            $shifted($($argument),*);
        }
    )*};
}
use subroutines;

subroutines! {
    fn mpi_pcontrol_ pmpi_pcontrol_(level: c_int) {
        let _ = level;
    }

    fn mpi_type_extent_ pmpi_type_extent_(datatype: c_int, extent: c_int, ierror: c_int) {
        bounds(datatype, |_, length| give(extent, length as c_int), ierror);
    }

    fn mpi_type_lb_ pmpi_type_lb_(datatype: c_int, lb: c_int, ierror: c_int) {
        bounds(datatype, |low, _| give(lb, low as c_int), ierror);
    }

    fn mpi_type_ub_ pmpi_type_ub_(datatype: c_int, ub: c_int, ierror: c_int) {
        bounds(datatype, |low, length| give(ub, low.wrapping_add(length) as c_int), ierror);
    }
}

/// Tells the lower bound and the extent of a datatype.
fn bounds(datatype: *mut c_int, tell: impl FnOnce(i64, i64), ierror: *mut c_int) {
    let code = guard(On::Nothing, "PMPI_Type_get_extent", || {
        let datatype = world().datatype(convert::PMPI_Type_fromint(take(datatype)))?;
        tell(datatype.datatype.lower_bound(), datatype.datatype.extent());
        Ok(())
    });
    give(ierror, code);
}

/// `MPI_SIZEOF` for characters, whose length is the last argument.
#[unsafe(no_mangle)]
pub extern "C" fn barewire_sizeof_character_(
    _x: *mut c_void,
    size: *mut c_int,
    ierror: *mut c_int,
    len: usize,
) {
    give(size, len as c_int);
    give(ierror, 0);
}
