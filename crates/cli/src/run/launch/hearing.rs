//! What agents, signals and standard input have to say.

use std::time::Duration;

use barewire_core::boot::frame::{Unit, split};
use barewire_core::boot::{Fill, LostReason, Notice, Outbox};
use rustix::process::{Pid, Signal, WaitOptions, wait, waitpid};
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGTSTP, SIGUSR1, SIGUSR2};

use super::super::ask::{Account, Ear, explain};
use super::super::outcome::{Failure, ending};
use super::super::remotes::State;
use super::{Launch, STDIN};
use crate::proc;
use crate::wire::{BODY_BYTES_MAX, Down, Up};

impl Launch<'_> {
    pub(super) fn hear_agent(&mut self, index: usize) -> anyhow::Result<()> {
        let Some(link) = &mut self.agents[index].link else { return Ok(()) };
        match link.fill() {
            Ok(Fill::Some(_)) => {}
            Ok(Fill::Nothing) => return Ok(()),
            Ok(Fill::Closed) => {
                let reason = self.why_closed(index);
                self.agent_is_lost(index, &reason);
                return Ok(());
            }
            Err(error) => {
                self.agent_is_lost(index, &error.to_string());
                return Ok(());
            }
        }
        self.heed_all(index)
    }

    /// Hears an agent of this host out: its process has ended, but what it said may still lie in the socket.
    fn hear_out(&mut self, index: usize) -> anyhow::Result<()> {
        if !self.agents[index].is_here {
            return Ok(());
        }
        while let Some(link) = &mut self.agents[index].link {
            match link.fill() {
                Ok(Fill::Some(_)) => self.heed_all(index)?,
                Ok(Fill::Nothing | Fill::Closed) | Err(_) => break,
            }
        }
        Ok(())
    }

    /// Heeds every whole report that was read.
    fn heed_all(&mut self, index: usize) -> anyhow::Result<()> {
        loop {
            let Some(link) = &mut self.agents[index].link else { return Ok(()) };
            let report = match link.next_unit() {
                Ok(None) => return Ok(()),
                Ok(Some(Unit::Frame { kind, body })) => {
                    Up::decode(kind, body).map_err(|error| error.to_string())
                }
                Ok(Some(Unit::Line(_))) => Err("it sent text".into()),
                Err(error) => Err(error.to_string()),
            };
            match report {
                Ok(report) => self.heed(index, report)?,
                Err(reason) => self.agent_is_lost(index, &reason),
            }
        }
    }

    /// Why an agent's line ended: one of this host is our child, and its status tells.
    fn why_closed(&mut self, index: usize) -> String {
        let agent = &mut self.agents[index];
        let pid = agent.pid.filter(|_| agent.is_here).and_then(|pid| i32::try_from(pid).ok());
        for _ in 0..EXIT_LOOKS {
            let Some(pid) = pid.and_then(Pid::from_raw) else { break };
            if let Ok(Some((_, status))) = waitpid(Some(pid), WaitOptions::NOHANG) {
                agent.pid = None;
                return format!("its agent {}", ending(status.as_raw()));
            }
            std::thread::sleep(EXIT_PAUSE);
        }
        "its agent closed the connection".into()
    }

    fn heed(&mut self, index: usize, report: Up) -> anyhow::Result<()> {
        match report {
            Up::Ready { version, ranks_max, limit, .. } => {
                self.agent_is_ready(index, version, ranks_max, limit)
            }
            Up::Bindings(picture) => {
                let host = self.agents[index].host.clone();
                self.output.say(&format!("{host} may run\n{picture}"));
            }
            Up::NoProgram { status, reason } => self.not_started(index, status, reason),
            Up::Started { rank, pid } => {
                if let Some(state) = self.ranks.get_mut(rank as usize) {
                    state.pid = Some(pid);
                }
            }
            Up::Output { rank, stream, bytes } => self.output.take(rank, stream, &bytes),
            Up::InputTaken => {
                if let Some(input) = &mut self.input {
                    input.taken(&self.poller, STDIN)?;
                }
            }
            Up::InputClosed => {
                if let Some(mut input) = self.input.take() {
                    input.close(&self.poller);
                }
            }
            Up::Boot { rank, bytes } => self.heed_boot(rank, &bytes),
            Up::BootBroken { rank, reason } => self.boot_is_broken(rank, &reason),
            Up::Ended { rank, status } => self.rank_has_ended(rank, status),
            Up::Described { rank, text } => {
                if let Some(state) = self.ranks.get_mut(rank as usize) {
                    state.described = Some(text);
                }
            }
            Up::Done => {
                self.agents[index].state = State::Done;
                self.agents[index].link = None;
                self.agents_behind_are_lost(index, "the agent that leads there has ended");
            }
            Up::From { host, bytes } if self.is_behind(host, index) => match whole(&bytes) {
                Some(report) => self.heed(host as usize, report)?,
                None => self.agent_is_lost(host as usize, "it sent nonsense"),
            },
            Up::Missing { host, reason } if self.is_behind(host, index) => {
                self.agent_is_lost(host as usize, &reason)
            }
            Up::From { host, .. } | Up::Missing { host, .. } => {
                self.agent_is_lost(
                    index,
                    &format!("its agent speaks of host {host}, which is not behind it"),
                );
            }
        }
        Ok(())
    }

    fn is_behind(&self, host: u32, index: usize) -> bool {
        host as usize != index && self.tree.is_behind(host as usize, index)
    }

    fn heed_boot(&mut self, rank: u32, bytes: &[u8]) {
        let Some(hub) = &mut self.hub else { return };
        let mut out = Outbox::new();
        let heard = hub.receive(rank, bytes, &mut out);
        self.deliver(out);
        match heard {
            Ok(Some(Notice::Abort { code, message })) => self.abort(rank, code, message),
            Ok(Some(Notice::Stuck(text))) => {
                if let Some(state) = self.ranks.get_mut(rank as usize) {
                    state.waits_for = Some(text);
                }
            }
            Ok(Some(Notice::Wires(text))) => {
                if let Some(state) = self.ranks.get_mut(rank as usize) {
                    state.wires = Some(text);
                }
                self.answer_if_complete();
            }
            Ok(Some(Notice::Joined) | None) => {}
            Err(error) => self.boot_is_broken(rank, &error.to_string()),
        }
    }

    /// Somebody asks which wires the job uses: the ranks know.
    pub(super) fn hear_question(&mut self) {
        if !self.ear.as_mut().is_some_and(Ear::accept) {
            return;
        }
        self.ranks.iter_mut().for_each(|state| state.wires = None);
        let mut out = Outbox::new();
        if let Some(hub) = &self.hub {
            hub.ask_for_wires(&mut out);
        }
        self.deliver(out);
    }

    fn answer_if_complete(&mut self) {
        let asked = self.ear.as_ref().is_some_and(|ear| ear.due().is_some());
        if asked && self.ranks.iter().all(|state| state.ended || state.wires.is_some()) {
            self.answer_question();
        }
    }

    /// Answers with what the ranks have said by now.
    pub(super) fn answer_question(&mut self) {
        let hosts: Vec<_> = (0..self.plan.size()).map(|rank| self.host_name(rank)).collect();
        let account = |(state, host): (&'_ super::RankState, &'_ String)| {
            (host.clone(), state.ended, state.wires.clone())
        };
        let accounts: Vec<_> = self.ranks.iter().zip(&hosts).map(account).collect();
        let accounts = accounts.iter().map(|(host, ended, wires)| Account {
            host,
            ended: *ended,
            wires: wires.as_deref(),
        });
        let text = explain(accounts);
        if let Some(ear) = &mut self.ear {
            ear.answer(&text);
        }
    }

    fn boot_is_broken(&mut self, rank: u32, reason: &str) {
        let host = self.host_name(rank);
        self.output
            .say(&format!("rank {rank} on {host} wrote nonsense to its launcher's connection ({reason})"));
    }

    pub(super) fn hear_complaints(&mut self, index: usize) {
        while self.agents[index].read_complaints() {}
    }

    pub(super) fn hear_signals(&mut self) -> anyhow::Result<()> {
        for signal in self.signals.take() {
            match signal {
                SIGCHLD => self.reap()?,
                SIGUSR1 | SIGUSR2 => self.say_to_all(&Down::Signal(signal)),
                SIGTSTP => {
                    self.say_to_all(&Down::Signal(SIGTSTP));
                    self.talk()?;
                    proc::send(std::process::id(), Signal::STOP)?;
                }
                SIGCONT => {
                    self.say_to_all(&Down::Signal(SIGCONT));
                    if let Some(input) = &mut self.input {
                        input.taken(&self.poller, STDIN)?;
                    }
                }
                signal => self.interrupted(signal),
            }
        }
        Ok(())
    }

    /// Collects children that have ended: agents, remote shells, and what lost agents left.
    fn reap(&mut self) -> anyhow::Result<()> {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get().unsigned_abs();
            let Some(index) = self.agents.iter().position(|agent| agent.pid == Some(pid)) else { continue };
            self.agents[index].pid = None;
            self.hear_complaints(index);
            self.hear_out(index)?;
            self.agent_process_ended(index, status.as_raw());
        }
        Ok(())
    }

    /// A rank ended; the first to end badly decides about the job.
    fn rank_has_ended(&mut self, rank: u32, status: i32) {
        let Some(state) = self.ranks.get_mut(rank as usize) else { return };
        if std::mem::replace(&mut state.ended, true) {
            return;
        }
        self.output.end_of(rank);
        let status_of = <std::process::ExitStatus as std::os::unix::process::ExitStatusExt>::from_raw(status);
        let reason = match std::os::unix::process::ExitStatusExt::signal(&status_of) {
            Some(signal) => LostReason::Killed(signal),
            None => LostReason::Exited(status_of.code().unwrap_or(-1)),
        };
        if let Some(hub) = &mut self.hub {
            let mut out = Outbox::new();
            hub.lost(rank, reason, &mut out);
            self.deliver(out);
        }
        if status != 0 {
            self.rank_failed(Failure::Rank { rank, status });
        }
    }

    pub(super) fn read_input(&mut self) -> anyhow::Result<()> {
        let Some(input) = &mut self.input else { return Ok(()) };
        let rank = input.rank;
        if let Some(bytes) = input.read(&self.poller)? {
            if let Some(host) = self.plan.layout.host_of(rank) {
                self.say_to(host as usize, &Down::Input { rank, bytes });
            }
        }
        Ok(())
    }

    pub(super) fn read_file_input(&mut self) -> anyhow::Result<()> {
        match &self.input {
            Some(input) if input.is_always_ready() => self.read_input(),
            _ => Ok(()),
        }
    }
}

/// The report in a whole frame that another agent passed on.
fn whole(bytes: &[u8]) -> Option<Up> {
    match split(bytes, BODY_BYTES_MAX) {
        Ok(Some((Unit::Frame { kind, body }, used))) if used == bytes.len() && !Up::is_from_below(kind) => {
            Up::decode(kind, body).ok()
        }
        _ => None,
    }
}

/// A process whose socket is closed has ended, or is about to.
const EXIT_LOOKS: usize = 100;
const EXIT_PAUSE: Duration = Duration::from_millis(2);
