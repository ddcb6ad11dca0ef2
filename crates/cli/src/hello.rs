//! `barewire hello`: the smallest parallel program, to see whether starting one works here.

mod talk;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use barewire_core::boot::{self, Client, Event, LostReason};
use barewire_core::job::Directory;

/// Options of `barewire hello`.
#[derive(Debug, clap::Args)]
pub struct HelloOptions {
    /// Exchange address cards with both neighbours and meet all ranks
    #[arg(long)]
    exchange: bool,
    /// Open an endpoint and make so many round trips with the next rank, checking each
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    /// The same for so many seconds
    #[arg(long, value_name = "SECONDS", conflicts_with = "rounds")]
    seconds: Option<f64>,
    /// Talk over TCP even within a host
    #[arg(long)]
    tcp: bool,
    /// Stay in the job for so many milliseconds
    #[arg(long, value_name = "MS", default_value = "0")]
    linger_ms: u64,
    /// End the job from this rank
    #[arg(long, value_name = "RANK")]
    abort: Option<u32>,
    /// Wait for ever for a rank that never answers, as a program with a bug does
    #[arg(long)]
    stick: bool,
    /// Wait until a rank is lost, and say which
    #[arg(long)]
    mourn: bool,
}

/// Says who this process is.
pub fn run(options: &HelloOptions) -> anyhow::Result<ExitCode> {
    let job = boot::from_environment()?;
    let (rank, size) = (job.rank, job.size);
    if options.rounds.is_some() || options.seconds.is_some() {
        let time = options.seconds.map(Duration::try_from_secs_f64).transpose().context("--seconds")?;
        talk::talk(job, talk::Talk { rounds: options.rounds, time, tcp: options.tcp })?;
        return Ok(ExitCode::SUCCESS);
    }
    let Directory::Boot(mut client) = job.directory else {
        println!("hello from rank {rank} of {size}, alone");
        return Ok(ExitCode::SUCCESS);
    };
    let host = client.spec().host_name.clone();
    let local: Vec<_> = client.spec().local_ranks().collect();
    if options.exchange {
        exchange(&mut client, rank, size)?;
    }
    println!("hello from rank {rank} of {size} on {host}, one of {} there", local.len());
    if options.abort == Some(rank) {
        client.abort(42, "asked to by --abort");
    }
    if options.stick {
        stick(&mut client, (rank + 1) % size)?;
    }
    if options.mourn {
        mourn(&mut client)?;
    }
    std::thread::sleep(Duration::from_millis(options.linger_ms));
    Ok(ExitCode::SUCCESS)
}

fn exchange(client: &mut Client, rank: u32, size: u32) -> anyhow::Result<()> {
    let card = |rank: u32| format!("card of rank {rank}").into_bytes();
    client.publish(&card(rank))?;
    for neighbour in [(rank + 1) % size, (rank + size - 1) % size] {
        client.request(neighbour)?;
        loop {
            match next(client)? {
                Event::Card { rank, bytes } if rank == neighbour && bytes == card(neighbour) => break,
                Event::Lost { reason: LostReason::Left, .. } | Event::Report | Event::Explain => {}
                other => bail!("rank {rank} asked for the card of {neighbour} and got {other:?}"),
            }
        }
    }
    client.barrier(Duration::from_secs(60)).context("meeting the other ranks")
}

fn stick(client: &mut Client, peer: u32) -> anyhow::Result<()> {
    loop {
        if let Event::Report = next(client)? {
            client.report_stuck(&format!("waits for a message from rank {peer}"));
        }
    }
}

fn mourn(client: &mut Client) -> anyhow::Result<()> {
    loop {
        if let Event::Lost { rank, reason } = next(client)? {
            println!("rank {rank} is gone: {reason}");
            return Ok(());
        }
    }
}

/// Waits for the next event.
pub fn next(client: &mut Client) -> anyhow::Result<Event> {
    use rustix::event::{PollFd, PollFlags, poll};
    loop {
        if let Some(event) = client.poll()? {
            return Ok(event);
        }
        let fd = client.fd().context("there is nothing to wait for")?;
        poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None)?;
    }
}
