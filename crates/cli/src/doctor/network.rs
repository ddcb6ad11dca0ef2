//! The way between hosts: who reaches whom at which address, how fast, and whether the clocks agree.
//!
//! The doctor starts one `barewire probe` a host, as ordinary ranks. Each listens, publishes its addresses, and dials all
//! addresses of every other rank.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use barewire_core::boot::auth::{Caller, GREETING_BYTES, Greeter, Greeting, nonce};
use barewire_core::boot::{self, Client, Event};
use barewire_core::job::{Directory, JobKey};

/// Options of the probe; only the doctor types them.
#[derive(Debug, clap::Args)]
pub struct ProbeOptions {}

/// Starts probes on `hosts`; true if every host reached every other.
pub fn between(hosts: &str, remote_shell: Option<&str>) -> anyhow::Result<bool> {
    println!("between hosts {hosts}:");
    let here = std::env::current_exe().context("where this program is")?;
    let mut command = Command::new(&here);
    command.args(["run", "--hosts", hosts, "--per-host", "1"]);
    if let Some(shell) = remote_shell {
        command.args(["--remote-shell", shell]);
    }
    Ok(command.arg(here).arg("probe").status().context("starting the probes")?.success())
}

/// One rank of the probe.
pub fn probe(_: &ProbeOptions) -> anyhow::Result<ExitCode> {
    let job = boot::from_environment()?;
    let Directory::Boot(mut client) = job.directory else {
        println!("there is nobody to probe");
        return Ok(ExitCode::SUCCESS);
    };
    let listener =
        TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).or_else(|_| TcpListener::bind("0.0.0.0:0"))?;
    let port = listener.local_addr()?.port();
    let key = job.key.clone();
    std::thread::spawn(move || answer_all(&listener, &key));
    client.publish(card(&client.spec().host_name.clone(), port).as_bytes())?;
    let mut all_reached = true;
    for rank in (0..job.size).filter(|rank| *rank != job.rank) {
        let (host, addresses) = card_of(&mut client, rank)?;
        let own = client.spec().host_name.clone();
        all_reached &= report(&own, &host, &addresses, &job.key);
    }
    client.barrier(Duration::from_secs(120))?;
    Ok(if all_reached { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `name address:port address:port …`
fn card(host: &str, port: u16) -> String {
    let addresses = if_addrs::get_if_addrs().unwrap_or_default();
    let usable =
        addresses.iter().map(if_addrs::Interface::ip).filter(|ip| !ip.is_loopback() && !is_link_local(*ip));
    let sockets = usable.take(16).map(|ip| SocketAddr::new(ip, port).to_string());
    std::iter::once(host.to_owned()).chain(sockets).collect::<Vec<_>>().join(" ")
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn card_of(client: &mut Client, rank: u32) -> anyhow::Result<(String, Vec<SocketAddr>)> {
    client.request(rank)?;
    match crate::hello::next(client)? {
        Event::Card { bytes, .. } => {
            let text = String::from_utf8(bytes).context("a card")?;
            let mut words = text.split(' ');
            let host = words.next().unwrap_or_default().to_owned();
            Ok((host, words.filter_map(|word| word.parse().ok()).collect()))
        }
        other => bail!("asked for a card and got {other:?}"),
    }
}

fn report(own: &str, host: &str, addresses: &[SocketAddr], key: &JobKey) -> bool {
    let mut reached = false;
    for address in addresses {
        match measure(address, key) {
            Ok((flight, ahead)) => {
                reached = true;
                let clock = if ahead.unsigned_abs() > 5_000 {
                    format!(
                        ", its clock is {:.1} ms {}",
                        ahead.unsigned_abs() as f64 / 1000.0,
                        if ahead > 0 { "ahead" } else { "behind" }
                    )
                } else {
                    String::new()
                };
                println!("  {own} → {host} at {}: {} µs one way{clock}", address.ip(), flight.as_micros());
            }
            Err(error) => println!("  {own} → {host} at {}: not reached: {error}", address.ip()),
        }
    }
    if !reached {
        println!(
            "  {own} cannot reach {host} at all: is a firewall in between? name free ports with --port-range and open those"
        );
    }
    reached
}

/// The least of several times of flight, and by how many microseconds the other's clock is ahead.
fn measure(address: &SocketAddr, key: &JobKey) -> anyhow::Result<(Duration, i64)> {
    let mut stream = TcpStream::connect_timeout(address, DIAL_TIMEOUT)?;
    stream.set_read_timeout(Some(DIAL_TIMEOUT))?;
    stream.set_nodelay(true)?;
    let caller = Caller::new(key.clone(), 0, nonce()?);
    stream.write_all(&caller.call())?;
    let mut greeting = [0; GREETING_BYTES];
    stream.read_exact(&mut greeting)?;
    stream.write_all(&caller.enter(&greeting)?)?;
    let mut best = (Duration::MAX, 0);
    for _ in 0..ROUNDS {
        let (begun, before) = (Instant::now(), microseconds());
        stream.write_all(&[1])?;
        let mut theirs = [0; 8];
        stream.read_exact(&mut theirs)?;
        let round_trip = begun.elapsed();
        let middle = before + i64::try_from(round_trip.as_micros() / 2).unwrap_or(0);
        best = best.min((round_trip / 2, i64::from_le_bytes(theirs) - middle));
    }
    Ok(best)
}

/// Answers every byte of everybody who holds the key with the time.
fn answer_all(listener: &TcpListener, key: &JobKey) {
    for mut stream in listener.incoming().flatten() {
        let key = key.clone();
        std::thread::spawn(move || -> anyhow::Result<()> {
            stream.set_read_timeout(Some(DIAL_TIMEOUT))?;
            stream.set_nodelay(true)?;
            let mut greeter = Greeter::new(key, nonce()?);
            loop {
                let mut bytes = vec![0; greeter.wants_bytes()];
                stream.read_exact(&mut bytes)?;
                match greeter.feed(&bytes)? {
                    Greeting::More => {}
                    Greeting::Send(greeting) => stream.write_all(&greeting)?,
                    Greeting::Done { .. } => break,
                }
            }
            let mut byte = [0];
            loop {
                stream.read_exact(&mut byte)?;
                stream.write_all(&microseconds().to_le_bytes())?;
            }
        });
    }
}

fn microseconds() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}

const DIAL_TIMEOUT: Duration = Duration::from_secs(3);
const ROUNDS: usize = 30;
