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
    line("ranks on one host talk through shared memory: they can pass each other memory descriptors".into());
    if plan.hosts.len() > 1 {
        let network = match &options.interface {
            Some(interface) => format!("on interface {interface}, as asked for"),
            None => "at the first address that a handshake proves reachable".to_owned(),
        };
        line(format!("ranks on different hosts talk over TCP, {network}"));
    }
    text
}
