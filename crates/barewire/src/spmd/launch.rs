//! Starting a program of one text without a launcher.

use std::error::Error;
use std::fmt::Display;

use barewire_core::job::Job;
use barewire_core::{Config, Endpoint, boot};

/// Runs `body` as a rank. In a process that a launcher started it is that rank, once; otherwise it is run by threads of this
/// process, first by as many as the first of `sizes` says, then by as many as the next. The first failure ends it.
///
/// ```
/// use barewire::spmd::{self, Quiet, World};
/// spmd::launch(&[2, 3], |endpoint| {
///     let mut world = World::new(endpoint, Quiet);
///     let all = world.all();
///     world.barrier(all)
/// }).unwrap();
/// ```
pub fn launch<E: Display>(
    sizes: &[u32],
    body: impl Fn(Endpoint) -> Result<(), E> + Sync,
) -> Result<(), Box<dyn Error>> {
    let rank = |job| {
        let endpoint = Endpoint::open(job, Config::default()).map_err(|error| error.to_string())?;
        body(endpoint).map_err(|error| error.to_string())
    };
    let job = boot::from_environment()?;
    if job.size > 1 {
        return Ok(rank(job)?);
    }
    for &size in sizes {
        std::thread::scope(|scope| {
            let jobs = Job::threads(size)?;
            let ranks: Vec<_> = jobs.into_iter().map(|job| scope.spawn(|| rank(job))).collect();
            let ends = ranks.into_iter().map(|rank| rank.join().unwrap_or(Err("a rank panicked".to_owned())));
            Ok::<(), Box<dyn Error>>(ends.collect::<Vec<_>>().into_iter().collect::<Result<(), String>>()?)
        })?;
    }
    Ok(())
}
