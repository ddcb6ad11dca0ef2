//! What this machine is and allows, read from where the kernel says it.

use std::fs;

use rustix::process::{Resource, getrlimit};

/// The first line of a file under /proc or /sys.
pub fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.lines().next().unwrap_or_default().trim().to_owned())
}

/// A number in a file under /proc or /sys.
pub fn number(path: &str) -> Option<u64> {
    line(path)?.parse().ok()
}

/// A field of /proc/meminfo, in bytes.
pub fn memory(field: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let mut words = line.split_ascii_whitespace();
    let value: u64 = words.next()?.parse().ok()?;
    Some(if words.next() == Some("kB") { value * 1024 } else { value })
}

/// The processors that a control group grants, if it limits them.
pub fn cgroup_processors() -> Option<f64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?.trim_end_matches('/').to_owned();
    // A limit anywhere above holds here too.
    let mut folders: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let mut least: Option<f64> = None;
    loop {
        let file = format!("/sys/fs/cgroup/{}/cpu.max", folders.join("/"));
        if let Some(granted) = line(&file).as_deref().and_then(parse_cpu_max) {
            least = Some(least.map_or(granted, |least| least.min(granted)));
        }
        if folders.pop().is_none() {
            return least;
        }
    }
}

/// `max 100000` or `150000 100000`.
fn parse_cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.trim().parse::<f64>().ok().filter(|period| *period > 0.0)?)
}

/// A resource limit: what holds now, and how far it can be raised.
pub fn limit(resource: Resource) -> (Option<u64>, Option<u64>) {
    let limit = getrlimit(resource);
    (limit.current, limit.maximum)
}

/// A limit for people.
pub fn shown(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".into(), |limit| limit.to_string())
}

/// Bytes for people.
pub fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (count as f64, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", units[unit]) }
}

/// The kernel's version as two numbers.
pub fn kernel() -> (u32, u32) {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its numeric addresses.
    pub addresses: Vec<String>,
    /// Up, down, unknown.
    pub state: String,
    /// Largest packet.
    pub mtu: Option<u64>,
    /// Megabits a second.
    pub speed: Option<u64>,
    /// The driver, or what kind of software it is.
    pub driver: String,
}

/// The network interfaces of this host, or of the namespace this process is in.
pub fn interfaces() -> Vec<Interface> {
    let addresses = if_addrs::get_if_addrs().unwrap_or_default();
    let entries = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    let describe = |name: String| {
        let folder = format!("/sys/class/net/{name}");
        let driver = fs::read_link(format!("{folder}/device/driver")).ok();
        let driver = driver.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
        let kind = line(&format!("{folder}/uevent"))
            .and_then(|text| Some(text.strip_prefix("DEVTYPE=")?.to_owned()));
        Interface {
            addresses: addresses.iter().filter(|a| a.name == name).map(|a| a.ip().to_string()).collect(),
            state: line(&format!("{folder}/operstate")).unwrap_or_else(|| "unknown".into()),
            mtu: number(&format!("{folder}/mtu")),
            speed: number(&format!("{folder}/speed")),
            driver: driver.or(kind).unwrap_or_else(|| software(&folder).into()),
            name,
        }
    };
    names.into_iter().map(describe).collect()
}

/// One end of a pair names the other as what it runs over; other software interfaces name themselves.
fn software(folder: &str) -> &'static str {
    match number(&format!("{folder}/iflink")) == number(&format!("{folder}/ifindex")) {
        true => "software",
        false => "veth",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_limits_are_read_as_the_kernel_writes_them() {
        assert_eq!((parse_cpu_max("max 100000"), parse_cpu_max("150000 100000")), (None, Some(1.5)));
        assert_eq!((parse_cpu_max(""), parse_cpu_max("1 0")), (None, None));
    }

    #[test]
    fn bytes_are_shown_in_fitting_units() {
        assert_eq!(
            (bytes(5), bytes(1536), bytes(3 << 30)),
            ("5 B".into(), "1.5 KiB".into(), "3.0 GiB".into())
        );
    }

    #[test]
    fn this_machine_has_memory_a_kernel_and_a_loopback() {
        assert!(memory("MemTotal").unwrap() > 1 << 20);
        assert!(kernel().0 >= 4);
        assert!(interfaces().iter().any(|interface| interface.name == "lo"));
    }
}
