//! Plain receives: for once, from one rank, into a buffer of the program's.
//!
//! The most frequent of all requests has no entry in a table of ours. Its handle is the core's request itself, and what else there is to
//! know of it the core keeps with it as a note: the communicator whose error handler hears of a failure, and the rank it is from.

use crate::boundary::MPI_Comm;
use crate::table::{GENERATION_SHIFT, KIND_SHIFT};
use barewire::core::tagged::{Note, Request};

const KIND: usize = 11;
/// The lower halves of these handles begin here, those of others below.
const FIRST: usize = 1 << 30;

// A generation and the kind have room beside a sign that is not set.
const _: () = assert!((Request::GENERATIONS as usize) << GENERATION_SHIFT <= 1 << 63);

/// What to note of a receive.
#[inline(always)]
pub(crate) fn note(comm: MPI_Comm, rank: i32) -> Note {
    [comm.0 as u64, u64::from(rank as u32)]
}

/// The communicator and the rank of a note.
#[inline(always)]
pub(crate) fn noted([comm, rank]: Note) -> (MPI_Comm, i32) {
    (MPI_Comm(comm as usize), rank as u32 as i32)
}

/// The handle of a receive.
#[inline(always)]
pub(crate) fn handle(receive: Request) -> usize {
    (receive.slot() as usize + FIRST)
        | KIND << KIND_SHIFT
        | (receive.generation() as usize) << GENERATION_SHIFT
}

/// The receive of a handle, if it is one's; there may be none any more.
#[inline(always)]
pub(crate) fn receive(handle: usize) -> Option<Request> {
    let (low, high) = (handle as u32 as usize, handle >> KIND_SHIFT);
    if high % (1 << (GENERATION_SHIFT - KIND_SHIFT)) != KIND || low < FIRST {
        return None;
    }
    Some(Request::of((low - FIRST) as u32, (handle >> GENERATION_SHIFT) as u32))
}

/// The slot of the receive whose handle has this lower half.
pub(crate) fn slot(low: usize) -> Option<u32> {
    u32::try_from(low.checked_sub(FIRST)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_its_receive() {
        for request in [Request::of(0, 0), Request::of(77, 5), Request::of(1 << 29, Request::GENERATIONS - 1)]
        {
            let handle = handle(request);
            assert_eq!(receive(handle), Some(request));
            assert_eq!(slot(handle as u32 as usize), Some(request.slot()));
            assert!(handle as isize > 0 && handle as u32 as i32 > 0);
            assert_eq!(receive(handle ^ 1 << KIND_SHIFT), None);
        }
        for other in [0, 0x180, 0x1000, 8 << KIND_SHIFT | 0x1000, KIND << KIND_SHIFT | 0x1000] {
            assert_eq!(receive(other), None, "{other:#x}");
        }
        assert_eq!(noted(note(MPI_Comm(9 << 40), -2)), (MPI_Comm(9 << 40), -2));
    }
}
