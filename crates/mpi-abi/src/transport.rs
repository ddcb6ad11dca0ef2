//! The way to the other processes, as the MPI objects need it.
//!
//! Making a communicator needs one thing from a transport: everybody learns what everybody says. [`Alone`] is the job of one process,
//! in which that is no work at all.

use crate::object::Comm;
use barewire::mpi::error::Result;

/// How this process reaches the others of its job.
pub trait Transport: Send + Sync {
    /// This process's number in the job.
    fn rank(&self) -> u32;

    /// Processes in the job.
    fn size(&self) -> u32;

    /// Gives `mine` to every process of `comm`, and returns what each of them gave, in the order of their ranks.
    fn all_gather(&self, comm: &Comm, mine: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// Ends the whole job with this exit code.
    fn abort(&self, code: i32) -> !;

    /// Says goodbye to the others; nothing is sent after this.
    fn finalize(&self) -> Result<()>;
}

/// A job of one process.
#[derive(Debug, Clone, Copy)]
pub struct Alone;

impl Transport for Alone {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        1
    }

    fn all_gather(&self, _: &Comm, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(vec![mine.to_vec()])
    }

    fn abort(&self, code: i32) -> ! {
        std::process::exit(code)
    }

    fn finalize(&self) -> Result<()> {
        Ok(())
    }
}
