//! Hosts made of network namespaces on a bridge: as many as a test wants, gone when it ends.

use std::process::Command;

/// Hosts `{name}1`, `{name}2`, … with addresses 10.`net`.0.1, … and the bridge at 10.`net`.0.254.
pub struct Hosts {
    name: String,
    count: u32,
    net: u8,
}

impl Hosts {
    /// Sets `count` hosts up. `net` must differ between tests that run at the same time.
    pub fn new(net: u8, count: u32) -> Self {
        let hosts = Self { name: format!("bw{}x{net}h", std::process::id() % 100_000), count, net };
        // Left over from an earlier run that was killed, by the same number.
        hosts.tear_down();
        ip(&format!("link add {} type bridge", hosts.bridge()));
        ip(&format!("addr add 10.{net}.0.254/24 dev {}", hosts.bridge()));
        ip(&format!("link set {} up", hosts.bridge()));
        for index in 1..=count {
            let (host, port, bridge) = (hosts.host(index), hosts.port(index), hosts.bridge());
            ip(&format!("netns add {host}"));
            ip(&format!("link add {port} type veth peer name eth0 netns {host}"));
            ip(&format!("link set {port} master {bridge} up"));
            ip(&format!("netns exec {host} ip addr add 10.{net}.0.{index}/24 dev eth0"));
            ip(&format!("netns exec {host} ip link set eth0 up"));
            ip(&format!("netns exec {host} ip link set lo up"));
        }
        hosts
    }

    pub fn host(&self, index: u32) -> String {
        format!("{}{index}", self.name)
    }

    /// `--hosts` with so many slots each.
    pub fn list(&self, slots: u32) -> String {
        (1..=self.count).map(|index| format!("{}:{slots}", self.host(index))).collect::<Vec<_>>().join(",")
    }

    /// The address of a host, or of the bridge (254).
    pub fn address(&self, index: u32) -> String {
        format!("10.{}.0.{index}", self.net)
    }

    /// Cuts a host off, or joins it again.
    pub fn link(&self, index: u32, up: bool) {
        ip(&format!("link set {} {}", self.port(index), if up { "up" } else { "down" }));
    }

    /// Processes in a host.
    pub fn processes(&self, index: u32) -> Vec<u32> {
        let listed =
            Command::new("ip").args(["netns", "pids", &self.host(index)]).output().expect("ip starts");
        String::from_utf8_lossy(&listed.stdout)
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect()
    }

    /// Where somebody listens on a host, sorted.
    pub fn listening(&self, index: u32) -> Vec<String> {
        let host = self.host(index);
        let words = ["netns", "exec", &host, "ss", "-Hltn"];
        let listed = Command::new("ip").args(words).output().expect("ss starts");
        let text = String::from_utf8_lossy(&listed.stdout);
        let mut places: Vec<_> =
            text.lines().filter_map(|line| line.split_whitespace().nth(3)).map(str::to_owned).collect();
        places.sort();
        places
    }

    /// Kills everything on a host, as a loss of power does.
    pub fn kill(&self, index: u32) {
        let pids = self.processes(index).into_iter().map(|pid| pid.to_string());
        // Ranks may go with their agent before their own turn comes.
        let _ = Command::new("kill").arg("-KILL").args(pids).output();
    }

    /// No process is left in any host.
    #[track_caller]
    pub fn are_empty(&self) {
        super::wait_until("the hosts to be empty", || {
            (1..=self.count).all(|index| self.processes(index).is_empty())
        });
    }

    fn bridge(&self) -> String {
        format!("{}b", self.name)
    }

    fn port(&self, index: u32) -> String {
        format!("{}p{index}", self.name)
    }

    fn tear_down(&self) {
        for index in 1..=self.count {
            let _ = Command::new("ip").args(["netns", "del", &self.host(index)]).output();
            let _ = Command::new("ip").args(["link", "del", &self.port(index)]).output();
        }
        let _ = Command::new("ip").args(["link", "del", &self.bridge()]).output();
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.tear_down();
    }
}

#[track_caller]
fn ip(words: &str) {
    let ran = Command::new("ip").args(words.split(' ')).output().expect("iproute2 is installed");
    assert!(ran.status.success(), "ip {words}: {} (root is needed)", String::from_utf8_lossy(&ran.stderr));
}

/// The remote shell that reaches these hosts.
pub const SHELL: &str = "ip netns exec {host}";
