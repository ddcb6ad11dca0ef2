//! Hosts as people write them, on the command line and in files.

use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, bail};

/// A host and how many ranks it takes before the next one's turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// What people call it.
    pub name: String,
    /// Its slots, at least one.
    pub slots: u32,
}

impl Host {
    /// Whether this name means the host the launcher runs on.
    pub fn is_here(&self) -> bool {
        let own = own_name();
        let short = own.split('.').next().unwrap_or_default();
        if ["localhost", "127.0.0.1", "::1", own.as_str(), short].contains(&self.name.as_str()) {
            return true;
        }
        let Ok(address) = self.name.parse::<IpAddr>() else { return false };
        if_addrs::get_if_addrs().is_ok_and(|all| all.iter().any(|interface| interface.ip() == address))
    }
}

/// What this host calls itself.
pub fn own_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Reads `a:4,b:4`.
pub fn parse_list(text: &str) -> anyhow::Result<Vec<Host>> {
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let hosts: Vec<_> = entries.map(parse_entry).collect::<anyhow::Result<_>>()?;
    if hosts.is_empty() {
        bail!("--hosts names no host; write them as a:4,b:4");
    }
    Ok(merge(hosts))
}

/// Reads a file of hosts.
pub fn read_file(path: &Path) -> anyhow::Result<Vec<Host>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("host file {}", path.display()))?;
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            hosts.push(parse_line(line).with_context(|| format!("{}:{number}: {line:?}", path.display()))?);
        }
    }
    if hosts.is_empty() {
        bail!("host file {} names no host; write one a line, such as `node1:4`", path.display());
    }
    Ok(merge(hosts))
}

/// `name`, `name:4`, `name slots=4`, `name 4`.
fn parse_line(line: &str) -> anyhow::Result<Host> {
    let mut words = line.split_ascii_whitespace();
    let mut host = parse_entry(words.next().unwrap_or_default())?;
    for word in words {
        if let Some(slots) = word.strip_prefix("slots=").or(Some(word).filter(|w| w.parse::<u32>().is_ok())) {
            host.slots = parse_slots(slots)?;
        } else if !["max_slots=", "max-slots=", "cpu=", "binding="]
            .iter()
            .any(|known| word.starts_with(known))
        {
            bail!("{word:?} is not understood; write `name slots=4`");
        }
    }
    Ok(host)
}

fn parse_entry(entry: &str) -> anyhow::Result<Host> {
    // An IPv6 address has colons of its own and stands in brackets when slots follow.
    let (name, slots) = match entry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, rest)) => (name, rest.strip_prefix(':')),
        None if entry.parse::<IpAddr>().is_ok() => (entry, None),
        None => match entry.split_once(':') {
            Some((name, slots)) => (name, Some(slots)),
            None => (entry, None),
        },
    };
    if name.is_empty()
        || name.starts_with('-')
        || name.contains(|c: char| c.is_whitespace() || c.is_control())
    {
        bail!("{entry:?} is no host; write name or name:slots");
    }
    let slots = slots.map_or(Ok(1), parse_slots).with_context(|| format!("host {entry:?}"))?;
    Ok(Host { name: name.to_owned(), slots })
}

fn parse_slots(text: &str) -> anyhow::Result<u32> {
    match text.parse() {
        Ok(0) | Err(_) => bail!("{text:?} is no number of slots; write 1 or more"),
        Ok(slots) => Ok(slots),
    }
}

/// A host named twice has the slots of both.
fn merge(hosts: Vec<Host>) -> Vec<Host> {
    let mut merged: Vec<Host> = Vec::new();
    for host in hosts {
        match merged.iter_mut().find(|known| known.name == host.name) {
            Some(known) => known.slots = known.slots.saturating_add(host.slots),
            None => merged.push(host),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<(String, u32)> {
        parse_list(text).unwrap().into_iter().map(|host| (host.name, host.slots)).collect()
    }

    #[test]
    fn hosts_have_slots() {
        assert_eq!(list("a:4, b,a"), [("a".into(), 5), ("b".into(), 1)]);
        assert_eq!(
            list("10.0.0.1:2,fe80::1,[::1]:3"),
            [("10.0.0.1".into(), 2), ("fe80::1".into(), 1), ("::1".into(), 3)]
        );
    }

    #[test]
    fn nonsense_is_refused_with_words() {
        for (text, words) in
            [("", "no host"), ("a:0", "1 or more"), ("a:x", "1 or more"), ("-oProxyCommand=x", "no host")]
        {
            let error = format!("{:#}", parse_list(text).unwrap_err());
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn lines_of_host_files_come_in_many_styles() {
        for line in ["n1:4", "n1 slots=4", "n1 4", "n1 slots=4 max_slots=8"] {
            assert_eq!(parse_line(line).unwrap(), Host { name: "n1".into(), slots: 4 });
        }
        assert!(parse_line("n1 solts=4").is_err());
    }

    #[test]
    fn localhost_is_here() {
        let host = |name: &str| Host { name: name.into(), slots: 1 };
        assert!(host("localhost").is_here() && host("127.0.0.1").is_here());
        assert!(!host("surely-not-here").is_here());
    }
}
