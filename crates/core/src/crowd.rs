//! Crowds: whether more endpoints want to run on this host than it has processors.

use crate::boot::environment::{LOCAL_CPUS, LOCAL_SIZE};
use crate::job::Directory;

/// Whether a job of `size` whose members find each other by `directory` is a crowd on this host. Where nobody says how many
/// of them are here, all of them may be.
pub(crate) fn is_crowded(directory: &Directory, size: u32) -> bool {
    match directory {
        Directory::Alone => false,
        Directory::Memory(_) => size as usize > barewire_sys::cpu::usable_cpus(),
        Directory::Boot(_) => {
            let told = |names: &[&str]| {
                names.iter().find_map(|name| std::env::var(name).ok()?.parse::<usize>().ok())
            };
            // The launcher's own processors count, not those it bound this rank to.
            let cpus = told(&[LOCAL_CPUS]).unwrap_or_else(barewire_sys::cpu::machine_cpus);
            told(&[LOCAL_SIZE, "MPI_LOCALNRANKS"]).unwrap_or(size as usize) > cpus
        }
    }
}
