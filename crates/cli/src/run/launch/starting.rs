//! From plan to running ranks.

use std::os::fd::AsFd;
use std::time::Instant;

use barewire_core::boot::{Hub, Link};

use super::super::ask::Ear;
use super::super::door::{Door, Heard};
use super::super::input::Input;
use super::super::outcome::Failure;
use super::super::plan::inherited;
use super::super::remotes::State;
use super::super::start::{self, Remote};
use super::{
    CALLERS, DOOR, EAR, Launch, PROGRESS_AFTER, Phase, RankState, STDIN, agent_token, complaints_token,
};
use crate::agent::{is_stale, watch_path};
use crate::poller::Interest;
use crate::wire::{BODY_BYTES_MAX, Branch, Down, Program, Setup, Start, VERSION};

impl Launch<'_> {
    /// Starts one agent a host; those of other hosts will call at the door.
    pub(super) fn start_agents(&mut self) -> anyhow::Result<()> {
        let remote = if self.agents.iter().all(|agent| agent.is_here) { None } else { Some(self.remote()?) };
        for index in 0..self.agents.len() {
            match &remote {
                _ if !self.tree.is_direct(index) => {}
                Some(remote) if !self.agents[index].is_here => {
                    if let Err(error) = self.call_agent(remote, index) {
                        self.not_started(index, 1, format!("{error:#}"));
                        return Ok(());
                    }
                }
                _ => {
                    let (pid, link) = start::local()?;
                    self.agents[index].pid = Some(pid);
                    self.attach(index, link)?;
                }
            }
        }
        Ok(())
    }

    fn remote(&mut self) -> anyhow::Result<Remote> {
        let door = Door::open(self.key.clone(), self.options.port_range)?;
        let addresses = door.addresses(self.options.interface.as_deref())?;
        self.poller.add(door.fd(), DOOR, Interest::Read)?;
        self.door = Some(door);
        let program = self.options.remote_program.as_deref();
        let remote = Remote::new(&self.options.remote_shell, program, &addresses, self.key.clone())?;
        self.remote_program = Some(remote.program().to_owned());
        Ok(remote)
    }

    fn call_agent(&mut self, remote: &Remote, index: usize) -> anyhow::Result<()> {
        let agent = &mut self.agents[index];
        let called = remote.start(u32::try_from(index).unwrap_or(u32::MAX), &agent.host)?;
        self.poller.add(&called.complaints, complaints_token(index), Interest::Read)?;
        agent.called(called);
        Ok(())
    }

    fn attach(&mut self, index: usize, link: Link) -> anyhow::Result<()> {
        self.poller.add(link.fd(), agent_token(index), Interest::ReadWrite)?;
        self.agents[index].link = Some(link);
        Ok(())
    }

    pub(super) fn open_door(&mut self) -> anyhow::Result<()> {
        let Some(door) = &mut self.door else { return Ok(()) };
        for (number, fd) in door.accept() {
            self.poller.add(fd, CALLERS + number, Interest::Read)?;
        }
        Ok(())
    }

    pub(super) fn hear_caller(&mut self, number: u64) -> anyhow::Result<()> {
        let Some(door) = &mut self.door else { return Ok(()) };
        let Heard::Member(who, stream) = door.hear(number) else { return Ok(()) };
        let index = who as usize;
        let is_expected = self.agents.get(index).is_some_and(super::Agent::is_expected);
        if !is_expected || !self.tree.is_direct(index) {
            return Ok(());
        }
        self.poller.remove(stream.as_fd())?;
        watch_path(&stream)?;
        self.attach(index, Link::new(stream.into(), BODY_BYTES_MAX))
    }

    /// An agent is there; when all are, the ranks start.
    pub(super) fn agent_is_ready(&mut self, index: usize, version: u32, ranks_max: u32, limit: String) {
        if version != VERSION {
            let reason = format!(
                "the barewire there speaks protocol {version}, this one {VERSION}: install the same release on all hosts"
            );
            return self.not_started(index, 1, reason);
        }
        if self.agents[index].is_over() {
            return;
        }
        self.agents[index].state = State::Ready;
        if self.tree.is_direct(index) {
            self.grow(index);
        }
        self.agents[index].capacity = Some((ranks_max, limit));
        if self.phase == Phase::Starting && self.agents.iter().all(|agent| agent.state == State::Ready) {
            self.start_ranks();
        }
    }

    /// Has an agent start those behind it, which see to the ones behind them.
    fn grow(&mut self, index: usize) {
        let behind = self.tree.behind(index);
        let Some(remote) = self.remote_program.clone().filter(|_| !behind.is_empty()) else { return };
        let hosts = behind.into_iter().map(|host| (host as u32, self.agents[host].host.clone())).collect();
        let branch = Branch {
            fan_out: self.options.fan_out,
            shell: self.options.remote_shell.clone(),
            program: remote,
            interface: self.options.interface.clone(),
            ports: self.options.port_range,
            hosts,
        };
        self.say_to(index, &Down::Branch(branch));
    }

    fn start_ranks(&mut self) {
        self.progress_at = None;
        // Everybody is in: a port that is not open cannot be attacked.
        self.door = None;
        for index in 0..self.agents.len() {
            let count = self.plan.layout.ranks_on(index as u32).count();
            let Some((most, limit)) = self.agents[index].capacity.clone() else { return };
            if count > most as usize {
                let reason = format!("{count} ranks are too many: {most} fit ({limit}), or use more hosts");
                return self.not_started(index, 1, reason);
            }
        }
        let names = self.plan.hosts.iter().map(|host| host.name.clone()).collect();
        self.hub = Some(Hub::new(self.id, self.key.clone(), self.plan.layout.clone(), names));
        self.ranks = vec![RankState::default(); self.plan.size() as usize];
        self.phase = Phase::Running;
        for index in 0..self.agents.len() {
            self.start_ranks_on(index);
        }
        self.ear = Ear::open().ok().filter(|ear| self.poller.add(ear.fd(), EAR, Interest::Read).is_ok());
        if let Some(rank) = self.options.stdin.0 {
            // Without an input the rank reads the end of file.
            self.input = Input::start(rank, &self.poller, STDIN).ok();
        }
    }

    fn start_ranks_on(&mut self, index: usize) {
        let host = index as u32;
        let setup = Setup {
            size: self.plan.size(),
            grace_ms: u32::try_from(self.options.kill_after.as_millis()).unwrap_or(u32::MAX),
            bind: format!("{:?}", self.options.bind_to).to_lowercase(),
            report_bindings: self.options.report_bindings,
            input_rank: self.options.stdin.0,
        };
        self.say_to(index, &Down::Setup(setup));
        let is_here = self.agents[index].is_here;
        for (program, _) in self.plan.programs.clone() {
            let program = if is_here { program } else { with_our_variables(program) };
            self.say_to(index, &Down::Program(program));
        }
        let start = |rank| Start { rank, program: self.plan.program_of(rank) };
        let starts = self.plan.layout.ranks_on(host).map(start).collect();
        self.say_to(index, &Down::Start(starts));
    }

    /// Says who has not answered yet.
    pub(super) fn report_progress(&mut self) {
        let waiting = self.agents.iter().filter(|agent| agent.state == State::Starting);
        let waiting: Vec<_> = waiting.map(|agent| agent.host.as_str()).collect();
        if waiting.is_empty() || self.phase != Phase::Starting {
            self.progress_at = None;
            return;
        }
        let shown = waiting.iter().take(8).copied().collect::<Vec<_>>().join(", ");
        let more = if waiting.len() > 8 { ", …" } else { "" };
        let seconds = self.begun.elapsed().as_secs();
        let text = format!(
            "{} of {} hosts have not answered after {seconds} s: {shown}{more}",
            waiting.len(),
            self.agents.len()
        );
        self.output.say(&text);
        self.progress_at = Some(Instant::now() + 3 * PROGRESS_AFTER);
    }

    /// A host where nothing can be started.
    pub(super) fn not_started(&mut self, index: usize, status: i32, reason: String) {
        let host = self.agents[index].host.clone();
        self.fail(Failure::NotStarted { host, status, reason });
    }
}

/// A program on another host gets this process's variables, except those that describe this host or this login.
fn with_our_variables(mut program: Program) -> Program {
    if program.base.is_some() {
        return program;
    }
    let local = |name: &str| {
        let names = ["HOSTNAME", "PWD", "OLDPWD", "SHLVL", "_", "DISPLAY", "TMPDIR", "WINDOWID"];
        let families = ["SSH_", "XDG_", "DBUS_", "BASH_FUNC_"];
        names.contains(&name) || families.iter().any(|family| name.starts_with(family))
    };
    let mut set = inherited(|name| !local(name) && !is_stale(name.as_ref()));
    set.append(&mut program.set);
    program.set = set;
    program
}
