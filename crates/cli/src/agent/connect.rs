//! How an agent reaches its launcher: over a socket it inherited, or by dialling it.

use std::io::BufRead;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use barewire_core::boot::{dial, hex};
use barewire_core::job::JobKey;

/// Options of the agent; only launchers type them.
#[derive(Debug, clap::Args)]
pub struct AgentOptions {
    /// Descriptor of the launcher's socket
    #[arg(long, conflicts_with = "connect")]
    fd: Option<i32>,
    /// Where the launcher listens
    #[arg(long, value_delimiter = ',', requires = "host")]
    connect: Vec<SocketAddr>,
    /// This host's number in the job
    #[arg(long)]
    host: Option<u32>,
}

/// Connects to the launcher; an agent of another host has the job's key too.
pub fn connect(options: &AgentOptions) -> anyhow::Result<(OwnedFd, Option<JobKey>)> {
    match (options.fd, options.host) {
        (Some(fd), _) => Ok((barewire_sys::inherit::take(fd).context("the launcher's socket")?, None)),
        (None, Some(host)) => {
            let key = read_key()?;
            let deadline = Instant::now() + DIAL_TIMEOUT;
            let stream = dial(&options.connect, &key, host, deadline).with_context(|| {
                let addresses: Vec<_> = options.connect.iter().map(ToString::to_string).collect();
                format!("this host cannot reach the launcher at {}", addresses.join(" or "))
            })?;
            watch_path(&stream)?;
            Ok((stream.into(), Some(key)))
        }
        _ => bail!("the agent is started by `barewire run`, not by hand"),
    }
}

/// Has the kernel notice a dead host or a cut link. A launcher that is only stopped still has a kernel that answers.
pub fn watch_path(stream: &TcpStream) -> std::io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
    let silence = KEEPALIVE_IDLE + KEEPALIVE_INTERVAL * KEEPALIVE_PROBES;
    sockopt::set_tcp_user_timeout(stream, u32::try_from(silence.as_millis()).unwrap_or(u32::MAX))?;
    stream.set_nodelay(true)
}

/// The key comes on standard input: the command line is for everybody to see.
fn read_key() -> anyhow::Result<JobKey> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("reading the job's key")?;
    let bytes = hex::decode(line.trim()).and_then(|bytes| bytes.try_into().ok());
    bytes.map(JobKey).context("the launcher sent no key: does the remote shell pass standard input on?")
}

const DIAL_TIMEOUT: Duration = Duration::from_secs(20);
const KEEPALIVE_IDLE: Duration = Duration::from_secs(2);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
const KEEPALIVE_PROBES: u32 = 4;
