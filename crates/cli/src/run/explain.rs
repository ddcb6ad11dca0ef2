//! What was decided, and why, before anything starts.

use std::fmt::Write;

use super::options::RunOptions;
use super::outcome::intervals;
use super::plan::Plan;

/// The plan in words: who runs where, and how they talk.
pub fn explain(plan: &Plan, options: &RunOptions) -> String {
    let mut text = String::new();
    let mut line = |words: String| writeln!(text, "barewire: {words}").expect("a String takes all text");
    let count = |count: u64, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    line(format!("{} on {}", count(plan.size().into(), "rank"), count(plan.hosts.len() as u64, "host")));
    for (index, host) in (0..).zip(&plan.hosts) {
        let ranks: Vec<_> = plan.layout.ranks_on(index).collect();
        let start = if host.is_here() { "fork and exec, here" } else { options.remote_shell.as_str() };
        line(format!(
            "  {}: ranks {} ({} slots; started by: {start})",
            host.name,
            intervals(&ranks),
            host.slots
        ));
    }
    let ranks = |host: usize| intervals(&plan.layout.ranks_on(host as u32).collect::<Vec<_>>());
    let why = "they are on one host and can pass each other memory descriptors, else tcp";
    if plan.hosts.len() <= PAIRS_OF_HOSTS_MAX {
        let shared = (0..plan.hosts.len()).filter(|&host| plan.layout.ranks_on(host as u32).nth(1).is_some());
        shared.for_each(|host| line(format!("  {} among themselves: shm, because {why}", ranks(host))));
        for first in 0..plan.hosts.len() {
            for second in first + 1..plan.hosts.len() {
                line(format!(
                    "  {} with {}: tcp, because they are on different hosts",
                    ranks(first),
                    ranks(second)
                ));
            }
        }
    } else {
        line(format!("ranks of one host: shm, because {why}; ranks of different hosts: tcp"));
    }
    if plan.hosts.len() > 1 {
        let network = match &options.interface {
            Some(interface) => format!("on interface {interface}, as asked for"),
            None => "at the first address that a handshake proves reachable".to_owned(),
        };
        line(format!(
            "tcp goes {network}; once the job runs, `barewire info --job {}` tells",
            std::process::id()
        ));
    }
    text
}

/// More hosts than this are not listed pair by pair.
const PAIRS_OF_HOSTS_MAX: usize = 6;
