//! `barewire rendezvous`: a place to meet, for programs that start by themselves.
//!
//! Programs with `BAREWIRE_RENDEZVOUS=host:port` in their environment and the user's key come here, get the lowest free
//! rank, and find each other. One that leaves, or dies, frees its rank for the next.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::ExitCode;

use anyhow::Context;
use barewire_core::boot::frame::BOOT_BODY_BYTES_MAX;
use barewire_core::boot::{Environment, Fill, Hub, Layout, Link, LostReason, Notice, Outbox, user_key};
use barewire_core::job::JobId;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::agent::watch_path;
use crate::poller::{Interest, Poller, Token};
use crate::run::door::{Door, Heard};
use crate::signals::Signals;

/// Options of `barewire rendezvous`.
#[derive(Debug, clap::Args)]
pub struct RendezvousOptions {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// How many programs the job has
    #[arg(short = 'n', long = "ranks", value_name = "N")]
    ranks: u32,
}

/// Serves until it is interrupted.
pub fn run(options: &RendezvousOptions) -> anyhow::Result<ExitCode> {
    anyhow::ensure!((1..=RANKS_MAX).contains(&options.ranks), "-n takes 1 to {RANKS_MAX}");
    let key = user_key(&Environment::capture()?)?;
    let door =
        Door::at(key.clone(), options.listen).with_context(|| format!("listening on {}", options.listen))?;
    println!("{}={}", barewire_core::boot::environment::RENDEZVOUS, door.local_address()?);
    let layout = Layout::new((0..options.ranks).map(|rank| (rank, 1)));
    let hub = Hub::new(JobId::random()?, key, layout, Vec::new());
    let signals = Signals::catch(&[SIGINT, SIGTERM])?;
    let poller = Poller::new()?;
    poller.add(signals.fd(), SIGNALS, Interest::Read)?;
    poller.add(door.fd(), DOOR, Interest::Read)?;
    Rendezvous { ranks: options.ranks, poller, signals, door, hub, members: BTreeMap::new() }.serve()
}

struct Rendezvous {
    ranks: u32,
    poller: Poller,
    signals: Signals,
    door: Door,
    hub: Hub,
    members: BTreeMap<u32, Link>,
}

impl Rendezvous {
    fn serve(mut self) -> anyhow::Result<ExitCode> {
        loop {
            let timeout = self.door.sweep().map(|at| at.saturating_duration_since(std::time::Instant::now()));
            for token in self.poller.wait(timeout)? {
                match token {
                    SIGNALS if !self.signals.take().is_empty() => return Ok(ExitCode::SUCCESS),
                    SIGNALS => {}
                    DOOR => {
                        for (number, fd) in self.door.accept() {
                            self.poller.add(fd, CALLERS + number, Interest::Read)?;
                        }
                    }
                    token if token >= CALLERS => self.hear_caller(token - CALLERS)?,
                    token => self.hear_member(u32::try_from(token - MEMBERS)?)?,
                }
            }
        }
    }

    fn hear_caller(&mut self, number: u64) -> anyhow::Result<()> {
        let Heard::Member(_, stream) = self.door.hear(number) else { return Ok(()) };
        // When all ranks are taken the caller's connection ends, and it tries again.
        let Some(rank) = (0..self.ranks).find(|rank| !self.members.contains_key(rank)) else { return Ok(()) };
        self.poller.modify(stream.as_fd(), MEMBERS + Token::from(rank), Interest::Read)?;
        watch_path(&stream)?;
        self.members.insert(rank, Link::new(stream.into(), BOOT_BODY_BYTES_MAX));
        Ok(())
    }

    fn hear_member(&mut self, rank: u32) -> anyhow::Result<()> {
        let mut out = Outbox::new();
        let stays = self.serve_member(rank, &mut out);
        if !stays {
            self.members.remove(&rank);
            self.hub.lost(rank, LostReason::Left, &mut out);
        }
        let mut waiting: Vec<u32> = vec![rank];
        for (to, bytes) in out {
            if let Some(link) = self.members.get_mut(&to) {
                link.queue(&bytes);
                waiting.push(to);
            }
        }
        for rank in waiting {
            let Some(link) = self.members.get_mut(&rank) else { continue };
            // A connection that fails is noticed when it is read.
            let empty = link.flush().unwrap_or(true) || link.queued_bytes() > QUEUE_BYTES_MAX;
            let interest = if empty { Interest::Read } else { Interest::ReadWrite };
            self.poller.modify(link.fd(), MEMBERS + Token::from(rank), interest)?;
        }
        Ok(())
    }

    /// Answers what a member says; false when it is gone.
    fn serve_member(&mut self, rank: u32, out: &mut Outbox) -> bool {
        let Some(link) = self.members.get_mut(&rank) else { return true };
        if !matches!(link.fill(), Ok(Fill::Some(_) | Fill::Nothing)) || link.queued_bytes() > QUEUE_BYTES_MAX
        {
            return false;
        }
        loop {
            match link.next_raw() {
                Ok(None) => return true,
                Ok(Some(raw)) => match self.hub.receive(rank, raw, out) {
                    Ok(Some(Notice::Abort { .. })) | Err(_) => return false,
                    Ok(_) => {}
                },
                Err(_) => return false,
            }
        }
    }
}

const SIGNALS: Token = 0;
const DOOR: Token = 1;
const MEMBERS: Token = 2;
/// Callers come after all members.
const CALLERS: Token = 1 << 40;
const RANKS_MAX: u32 = 1 << 20;
const QUEUE_BYTES_MAX: usize = 8 << 20;
