//! The agent's loop: orders come down, bytes and ends go up.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use barewire_core::boot::frame::Unit;
use barewire_core::boot::{Fill, Link};
use barewire_core::job::JobKey;
use rustix::process::{Pid, Signal, WaitOptions, wait};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use super::bind::{Bind, Topology};
use super::branch::Branch;
use super::rank::{Fed, Image, Place, Rank};
use crate::poller::{Interest, Poller, Token};
use crate::proc;
use crate::signals::Signals;
use crate::wire::{self, Down, Setup, Start, Stream, Up};

/// The state of one agent.
pub struct Supervisor {
    link: Link,
    /// Whether the launcher is there; without it there is nobody to report to.
    connected: bool,
    poller: Poller,
    signals: Signals,
    setup: Option<Setup>,
    images: Vec<Image>,
    ranks: Vec<Rank>,
    index_of_rank: HashMap<u32, usize>,
    index_of_pid: HashMap<Pid, usize>,
    phase: Phase,
    /// Outputs are not read while the launcher is slow to take them.
    paused: bool,
    key: Option<JobKey>,
    /// The agents of other hosts behind this one.
    branch: Option<Branch>,
    /// When those that have not ended are given up.
    cut_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waiting for the ranks' names.
    Waiting,
    /// The ranks run.
    Running,
    /// They were asked to end, and will be killed at this time.
    Stopping(Instant),
    /// They were killed.
    Killed,
    /// All is over but the reports.
    Done,
}

impl Supervisor {
    /// An agent that talks over `link`.
    pub fn new(link: Link, key: Option<JobKey>) -> anyhow::Result<Self> {
        let poller = Poller::new().context("epoll")?;
        let signals = Signals::catch(&[SIGCHLD, SIGTERM, SIGINT, SIGHUP]).context("signals")?;
        poller.add(link.fd(), LAUNCHER, Interest::ReadWrite)?;
        poller.add(signals.fd(), SIGNALS, Interest::Read)?;
        Ok(Self {
            link,
            connected: true,
            poller,
            signals,
            setup: None,
            images: Vec::new(),
            ranks: Vec::new(),
            index_of_rank: HashMap::new(),
            index_of_pid: HashMap::new(),
            phase: Phase::Waiting,
            paused: false,
            key,
            branch: None,
            cut_at: None,
        })
    }

    /// Works until all ranks have ended and all reports are sent.
    pub fn run(mut self) -> anyhow::Result<()> {
        loop {
            let ready = self.poller.wait(self.timeout())?;
            for token in ready {
                match token {
                    LAUNCHER => self.hear_launcher(),
                    SIGNALS => self.hear_signals(),
                    token if Branch::owns(token) => self.hear_branch(token),
                    token => self.hear_rank(token),
                }
            }
            self.keep_time();
            self.finish_if_over();
            self.talk()?;
            if self.phase == Phase::Done && (!self.connected || self.link.queued_bytes() == 0) {
                return Ok(());
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        match self.phase {
            Phase::Stopping(at) => Some(at.saturating_duration_since(Instant::now())),
            Phase::Killed => Some(KILL_AGAIN),
            _ => None,
        }
    }

    /// Whether agents behind this one have not ended yet.
    fn has_branch(&self) -> bool {
        self.branch.as_ref().is_some_and(|branch| !branch.is_over())
    }

    fn grow(&mut self, order: wire::Branch) {
        let hosts: Vec<u32> = order.hosts.iter().map(|(host, _)| *host).collect();
        let key = self.key.clone().context("the agent of the launcher's own host has no others behind it");
        match key.and_then(|key| Branch::start(order, key, &self.poller)) {
            Ok((branch, reports)) => {
                self.branch = Some(branch);
                reports.iter().for_each(|report| self.say(report));
            }
            Err(error) => {
                let reason = format!("the agent that should start it could not: {error:#}");
                hosts.into_iter().for_each(|host| self.say(&Up::Missing { host, reason: reason.clone() }));
            }
        }
    }

    fn hear_branch(&mut self, token: Token) {
        let Some(branch) = &mut self.branch else { return };
        match branch.hear(token, &self.poller) {
            Ok(said) if self.connected => said.iter().for_each(|bytes| self.link.queue(bytes)),
            Ok(_) => {}
            // What cannot be watched cannot be waited for.
            Err(error) => {
                let lost = branch.cut(&error.to_string());
                lost.iter().for_each(|report| self.say(report));
            }
        }
    }

    fn say(&mut self, up: &Up) {
        if self.connected {
            self.link.queue(&up.encode());
        }
    }

    /// Sends what the launcher takes, and stops reading outputs while it takes nothing.
    fn talk(&mut self) -> anyhow::Result<()> {
        if let Some(branch) = &mut self.branch {
            branch.flush(&self.poller);
        }
        if !self.connected {
            return Ok(());
        }
        let Ok(empty) = self.link.flush() else {
            self.launcher_is_gone();
            return Ok(());
        };
        let interest = if empty { Interest::Read } else { Interest::ReadWrite };
        self.poller.modify(self.link.fd(), LAUNCHER, interest)?;
        let queued = self.link.queued_bytes();
        if !self.paused && queued > QUEUE_BYTES_MAX {
            self.pause(true)?;
        } else if self.paused && queued < QUEUE_BYTES_MAX / 4 {
            self.pause(false)?;
        }
        Ok(())
    }

    fn pause(&mut self, pause: bool) -> anyhow::Result<()> {
        self.paused = pause;
        if let Some(branch) = &self.branch {
            branch.pause(pause, &self.poller)?;
        }
        for (index, rank) in self.ranks.iter().enumerate() {
            for (fd, what) in rank.outputs.iter().zip([OUT, ERR]) {
                match fd {
                    Some(fd) if pause => self.poller.remove(fd)?,
                    Some(fd) => drop(self.poller.add(fd, token(index, what), Interest::Read)?),
                    None => {}
                }
            }
        }
        Ok(())
    }

    fn hear_launcher(&mut self) {
        match self.link.fill() {
            Ok(Fill::Some(_)) => {}
            Ok(Fill::Nothing) => return,
            Ok(Fill::Closed) | Err(_) => return self.launcher_is_gone(),
        }
        loop {
            let order = match self.link.next_unit() {
                Ok(None) => return,
                Ok(Some(Unit::Frame { kind, body })) => Down::decode(kind, body).ok(),
                Ok(Some(Unit::Line(_))) | Err(_) => None,
            };
            match order {
                Some(order) => self.obey(order),
                None => return self.launcher_is_gone(),
            }
        }
    }

    fn launcher_is_gone(&mut self) {
        if !std::mem::replace(&mut self.connected, false) {
            return;
        }
        // The link stays in the poller's set until it is dropped, and would report its end again and again.
        let _ = self.poller.remove(self.link.fd());
        self.stop();
    }

    fn obey(&mut self, order: Down) {
        match order {
            Down::Setup(setup) => self.setup = Some(setup),
            Down::Program(program) => match Image::find(program) {
                Ok(image) => self.images.push(image),
                Err(problem) => self.refuse(problem.status, problem.reason),
            },
            Down::Start(starts) if self.phase == Phase::Waiting => self.start(&starts),
            Down::Start(_) => {}
            Down::Boot { rank, bytes } => self.feed_boot(rank, &bytes),
            Down::Input { rank, bytes } => self.feed_input(rank, &bytes),
            Down::Signal(signal) => {
                if let Some(signal) = Signal::from_named_raw(signal) {
                    self.ranks.iter().for_each(|rank| rank.signal(signal));
                }
            }
            Down::Stop => self.stop(),
            Down::Kill => self.kill(),
            Down::Describe => self.describe(),
            Down::Branch(order) => self.grow(order),
            Down::Pass { host, bytes } => {
                if let Some(branch) = &mut self.branch {
                    branch.pass(host, bytes);
                }
            }
        }
    }

    /// Nothing will be started here.
    fn refuse(&mut self, status: i32, reason: String) {
        self.say(&Up::NoProgram { status, reason });
        self.stop();
    }

    fn start(&mut self, starts: &[Start]) {
        let Some(setup) = self.setup.clone() else { return };
        self.phase = Phase::Running;
        let bind = <Bind as clap::ValueEnum>::from_str(&setup.bind, true).unwrap_or(Bind::None);
        let topology =
            if bind == Bind::None && !setup.report_bindings { None } else { Some(Topology::here()) };
        if let Some(topology) = topology.as_ref().filter(|_| setup.report_bindings) {
            let ranks: Vec<_> = starts.iter().map(|start| start.rank).collect();
            self.say(&Up::Bindings(topology.picture(bind, &ranks)));
        }
        let local_size = u32::try_from(starts.len()).unwrap_or(u32::MAX);
        let local_cpus = barewire_sys::cpu::usable_cpus();
        for (local_rank, start) in (0..).zip(starts) {
            let place = Place { rank: start.rank, size: setup.size, local_rank, local_size, local_cpus };
            let cpus = topology.as_ref().and_then(|topology| topology.place(bind, local_rank as usize));
            let reads_input = setup.input_rank == Some(start.rank);
            let started = match self.images.get(start.program as usize) {
                Some(image) => Rank::start(image, place, cpus, reads_input),
                None => Err("the launcher names a program it never described".to_owned()),
            };
            match started.and_then(|rank| self.adopt(rank).map_err(|error| error.to_string())) {
                Ok(()) => {}
                Err(reason) => return self.refuse(126, format!("rank {}: {reason}", start.rank)),
            }
        }
    }

    fn adopt(&mut self, rank: Rank) -> std::io::Result<()> {
        let index = self.ranks.len();
        for (fd, what) in rank.outputs.iter().zip([OUT, ERR]) {
            if let Some(fd) = fd {
                self.poller.add(fd, token(index, what), Interest::Read)?;
            }
        }
        if let Some(boot) = &rank.boot {
            self.poller.add(boot.fd(), token(index, BOOT), Interest::Read)?;
        }
        if let Some(pid) = rank.pid {
            self.index_of_pid.insert(pid, index);
            self.say(&Up::Started { rank: rank.number, pid: pid.as_raw_nonzero().get().unsigned_abs() });
        }
        self.index_of_rank.insert(rank.number, index);
        self.ranks.push(rank);
        Ok(())
    }

    fn hear_rank(&mut self, token: Token) {
        let (index, what) = ((token / KINDS) as usize - 1, token % KINDS);
        match what {
            OUT => self.carry_output(index, Stream::Out),
            ERR => self.carry_output(index, Stream::Err),
            BOOT => self.carry_boot(index),
            _ => self.pour_input(index),
        }
    }

    /// Reads one piece; true if there may be more.
    fn carry_output(&mut self, index: usize, stream: Stream) {
        let rank = &mut self.ranks[index];
        let number = rank.number;
        if let Some(bytes) = rank.read_output(stream).filter(|bytes| !bytes.is_empty()) {
            self.say(&Up::Output { rank: number, stream, bytes });
        }
    }

    fn carry_boot(&mut self, index: usize) {
        let rank = &mut self.ranks[index];
        let number = rank.number;
        let Some(boot) = &mut rank.boot else { return };
        let mut carried = Vec::new();
        let outcome = loop {
            match boot.next_raw() {
                Ok(Some(raw)) => carried.push(raw.to_vec()),
                Ok(None) => match boot.fill() {
                    Ok(Fill::Some(_)) => {}
                    Ok(Fill::Nothing) => break Ok(true),
                    Ok(Fill::Closed) | Err(_) => break Ok(false),
                },
                Err(error) => break Err(error.to_string()),
            }
        };
        if let Ok(true) = outcome {
            let empty = boot.flush().unwrap_or(true);
            let interest = if empty { Interest::Read } else { Interest::ReadWrite };
            // The descriptor is watched as long as the rank has it.
            let _ = self.poller.modify(boot.fd(), token(index, BOOT), interest);
        } else {
            rank.boot = None;
        }
        for bytes in carried {
            self.say(&Up::Boot { rank: number, bytes });
        }
        if let Err(reason) = outcome {
            self.say(&Up::BootBroken { rank: number, reason });
        }
    }

    fn feed_boot(&mut self, rank: u32, bytes: &[u8]) {
        let Some(&index) = self.index_of_rank.get(&rank) else { return };
        let Some(boot) = &mut self.ranks[index].boot else { return };
        boot.queue(bytes);
        match boot.flush() {
            Ok(true) => {}
            // A rank that does not read what it asked for keeps it waiting, up to a bound.
            Ok(false) if boot.queued_bytes() <= BOOT_QUEUE_BYTES_MAX => {
                let _ = self.poller.modify(boot.fd(), token(index, BOOT), Interest::ReadWrite);
            }
            Ok(false) | Err(_) => self.ranks[index].boot = None,
        }
    }

    fn feed_input(&mut self, rank: u32, bytes: &[u8]) {
        let index = self.index_of_rank.get(&rank).copied();
        match index.and_then(|index| self.ranks[index].input.as_mut()) {
            Some(input) => input.push(bytes),
            None => return self.say(&Up::InputClosed),
        }
        self.pour_input(index.unwrap_or_default());
    }

    fn pour_input(&mut self, index: usize) {
        let slot = &mut self.ranks[index].input;
        let Some(input) = slot else { return };
        let fed = input.feed();
        // Watched only while something waits; a descriptor that is not watched needs no removal.
        let _ = self.poller.remove(input.fd());
        match fed {
            Fed::Later => drop(self.poller.add(input.fd(), token(index, INPUT), Interest::Write)),
            Fed::Taken => self.say(&Up::InputTaken),
            Fed::Closed => {
                *slot = None;
                self.say(&Up::InputClosed);
            }
        }
    }

    fn hear_signals(&mut self) {
        for signal in self.signals.take() {
            if signal == SIGCHLD {
                self.reap();
            } else {
                self.stop();
            }
        }
    }

    /// Collects all children that have ended: ranks, and what they left behind.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let Some(index) = self.index_of_pid.remove(&pid) else {
                let pid = pid.as_raw_nonzero().get().unsigned_abs();
                let report = self.branch.as_mut().and_then(|branch| branch.reaped(pid, status.as_raw()));
                report.iter().for_each(|report| self.say(report));
                continue;
            };
            // What the rank wrote is in the pipes already, and comes before its end.
            for stream in [Stream::Out, Stream::Err] {
                while self.ranks[index].outputs[stream as usize].is_some() {
                    let number = self.ranks[index].number;
                    match self.ranks[index].read_output(stream) {
                        Some(bytes) if !bytes.is_empty() => {
                            self.say(&Up::Output { rank: number, stream, bytes });
                        }
                        _ => break,
                    }
                }
            }
            self.carry_boot(index);
            let rank = &mut self.ranks[index];
            rank.pid = None;
            rank.boot = None;
            rank.input = None;
            let ended = Up::Ended { rank: rank.number, status: status.as_raw() };
            self.say(&ended);
        }
    }

    fn stop(&mut self) {
        let grace = self.setup.as_ref().map_or(GRACE_DEFAULT, |s| Duration::from_millis(s.grace_ms.into()));
        if let Some(branch) = &mut self.branch {
            branch.tell_all(&Down::Stop);
            branch.stop();
            self.cut_at.get_or_insert(Instant::now() + grace + BRANCH_GRACE);
        }
        match self.phase {
            Phase::Waiting => self.phase = Phase::Killed,
            Phase::Running => {
                self.phase = Phase::Stopping(Instant::now() + grace);
                for rank in &self.ranks {
                    rank.signal(Signal::TERM);
                    rank.signal(Signal::CONT);
                }
            }
            Phase::Stopping(_) | Phase::Killed | Phase::Done => {}
        }
    }

    fn kill(&mut self) {
        self.ranks.iter().for_each(|rank| rank.signal(Signal::KILL));
        if let Some(branch) = &mut self.branch {
            branch.tell_all(&Down::Kill);
        }
        let spared = self.branch.as_ref().map(Branch::shells).unwrap_or_default();
        proc::kill_descendants(&spared);
        if self.phase != Phase::Done {
            self.phase = Phase::Killed;
        }
    }

    fn keep_time(&mut self) {
        if self.cut_at.is_some_and(|at| Instant::now() >= at) {
            self.cut_at = None;
            let lost = self.branch.as_mut().map(|branch| branch.cut("it did not end in time"));
            lost.iter().flatten().for_each(|report| self.say(report));
        }
        match self.phase {
            Phase::Stopping(at) if Instant::now() >= at => self.kill(),
            Phase::Killed if !self.index_of_pid.is_empty() => self.kill(),
            _ => {}
        }
    }

    /// When the last rank has ended: kills what ranks left running, and says so.
    fn finish_if_over(&mut self) {
        let over = self.index_of_pid.is_empty() && !self.has_branch();
        if matches!(self.phase, Phase::Waiting | Phase::Done) || !over {
            return;
        }
        while proc::kill_descendants(&[]) {
            std::thread::sleep(SETTLE);
            self.reap();
        }
        for index in 0..self.ranks.len() {
            for stream in [Stream::Out, Stream::Err] {
                self.carry_output(index, stream);
            }
        }
        self.phase = Phase::Done;
        self.say(&Up::Done);
    }

    fn describe(&mut self) {
        let running = self.ranks.iter().filter_map(|rank| Some((rank.number, rank.pid?)));
        let texts: Vec<_> = running
            .map(|(rank, pid)| (rank, proc::describe(pid.as_raw_nonzero().get().unsigned_abs())))
            .collect();
        for (rank, text) in texts {
            self.say(&Up::Described { rank, text });
        }
    }
}

fn token(index: usize, what: u64) -> Token {
    (index as u64 + 1) * KINDS + what
}

const LAUNCHER: Token = 0;
const SIGNALS: Token = 1;
/// Tokens of one rank; the first rank's come after the two above.
const KINDS: u64 = 4;
const OUT: u64 = 0;
const ERR: u64 = 1;
const BOOT: u64 = 2;
const INPUT: u64 = 3;

const GRACE_DEFAULT: Duration = Duration::from_secs(2);
const KILL_AGAIN: Duration = Duration::from_millis(200);
const SETTLE: Duration = Duration::from_millis(2);
/// How much longer than ranks the agents behind this one may take to end.
const BRANCH_GRACE: Duration = Duration::from_secs(3);
/// Most bytes that wait for a launcher that is slow to read.
const QUEUE_BYTES_MAX: usize = 1 << 20;
/// Most bytes that wait for a rank that does not read its boot connection.
const BOOT_QUEUE_BYTES_MAX: usize = 8 << 20;
