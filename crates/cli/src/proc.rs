//! The process table: who descends from whom, and what a process is doing.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// All living descendants of `root`, parents before children.
pub fn descendants(root: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for (pid, stat) in processes() {
        if stat.state != 'Z' {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    found.split_off(1)
}

/// Kills all descendants of this process except `spared` and theirs; true if there were any.
pub fn kill_descendants(spared: &[u32]) -> bool {
    let protected: Vec<u32> = spared.iter().flat_map(|&pid| [vec![pid], descendants(pid)].concat()).collect();
    let mut doomed = descendants(std::process::id());
    doomed.retain(|pid| !protected.contains(pid));
    for &pid in &doomed {
        // It may be gone by now.
        let _ = send(pid, Signal::KILL);
    }
    !doomed.is_empty()
}

/// Sends a signal to one process.
pub fn send(pid: u32, signal: Signal) -> rustix::io::Result<()> {
    match i32::try_from(pid).ok().and_then(Pid::from_raw) {
        Some(pid) => kill_process(pid, signal),
        None => Err(rustix::io::Errno::SRCH),
    }
}

/// What a process is doing, in a few words, for somebody who asks why it does not end.
pub fn describe(pid: u32) -> String {
    let Some(stat) = stat(pid) else { return "gone".into() };
    let state = match stat.state {
        'R' => "running",
        'S' => "sleeping",
        'D' => "waiting for a device",
        'T' => "stopped",
        't' => "stopped by a debugger",
        'Z' => "ended",
        _ => "in an unknown state",
    };
    let place = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    match place.trim() {
        "" | "0" => state.to_owned(),
        place => format!("{state} in the kernel's {place}"),
    }
}

/// Agents whose launcher is gone: they should have ended with it.
pub fn agents_without_launcher() -> Vec<u32> {
    let is_agent = |pid: u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|&byte| byte == 0);
        words.next().is_some_and(|word| word.ends_with(b"barewire")) && words.next() == Some(b"agent")
    };
    processes().filter(|(pid, stat)| stat.parent == 1 && is_agent(*pid)).map(|(pid, _)| pid).collect()
}

struct Stat {
    state: char,
    parent: u32,
}

fn processes() -> impl Iterator<Item = (u32, Stat)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?)))
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The command stands in parentheses and may hold anything, parentheses too.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    Some(Stat { state: fields.next()?.chars().next()?, parent: fields.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_descends_from_this_process() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        assert!(descendants(std::process::id()).contains(&child.id()));
        assert!(!describe(child.id()).is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!descendants(std::process::id()).contains(&child.id()));
        assert_eq!(describe(child.id()), "gone");
    }
}
