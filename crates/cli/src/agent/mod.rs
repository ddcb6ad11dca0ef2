//! The agent: one a host, it starts ranks, carries their bytes and sees to it that nothing of theirs is left.
//!
//! It answers to one launcher over one connection, its own or another agent's: with many hosts agents form a tree. When that connection ends, for whatever reason, the ranks end too;
//! when the agent itself is killed, its ranks go with it and the launcher, which inherits what they started, kills that.

mod bind;
mod branch;
mod connect;
mod limits;
mod rank;
mod resolve;
mod supervise;

pub use bind::{Bind, Topology};
pub use connect::{AgentOptions, watch_path};
pub use rank::is_stale;

use anyhow::Context;
use barewire_core::boot::Link;

use crate::wire::{BODY_BYTES_MAX, Up, VERSION};

/// Runs an agent until its ranks have ended.
pub fn run(options: &AgentOptions) -> anyhow::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).context("becoming a subreaper")?;
    let (socket, key) = connect::connect(options)?;
    let mut link = Link::new(socket, BODY_BYTES_MAX);
    let capacity = limits::capacity();
    let ready = Up::Ready {
        version: VERSION,
        pid: std::process::id(),
        ranks_max: capacity.ranks,
        limit: capacity.limit,
    };
    link.queue(&ready.encode());
    supervise::Supervisor::new(link, key)?.run()
}
