//! The launcher's loop: one thread, one poller, a few deadlines.

mod ending;
mod hearing;
mod starting;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use barewire_core::boot::{Hub, Outbox};
use barewire_core::job::{JobId, JobKey};
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};

use super::ask::Ear;
use super::door::Door;
use super::hosts::Host;
use super::input::Input;
use super::options::RunOptions;
use super::outcome::Outcome;
use super::output::{Output, Tags};
use super::plan::Plan;
use super::remotes::Agent;
use super::tree::Tree;
use crate::poller::{Interest, Poller, Token};
use crate::signals::Signals;
use crate::wire::Down;

/// A job on its way from plan to exit status.
pub struct Launch<'a> {
    options: &'a RunOptions,
    plan: Plan,
    id: JobId,
    key: JobKey,
    poller: Poller,
    signals: Signals,
    output: Output,
    outcome: Outcome,
    agents: Vec<Agent>,
    tree: Tree,
    /// Where this program is on other hosts.
    remote_program: Option<std::path::PathBuf>,
    door: Option<Door>,
    hub: Option<Hub>,
    ear: Option<Ear>,
    input: Option<Input>,
    ranks: Vec<RankState>,
    phase: Phase,
    begun: Instant,
    /// When to say that hosts are slow to answer.
    progress_at: Option<Instant>,
    /// When to print what ranks wait for.
    report_at: Option<Instant>,
    /// Ranks that were running when they were asked to end.
    ended_by_us: usize,
    /// Whether ranks are killed that were asked to end.
    killing: bool,
    /// Whether agents are not listened to because the printer is behind.
    paused: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Agents are coming.
    Starting,
    /// Ranks run.
    Running,
    /// Ranks were asked to end; agents that are not done by then are killed.
    Stopping(Instant),
}

#[derive(Debug, Clone, Default)]
struct RankState {
    pid: Option<u32>,
    ended: bool,
    waits_for: Option<String>,
    wires: Option<String>,
    described: Option<String>,
}

impl<'a> Launch<'a> {
    /// Prepares to carry out `plan`; nothing is started yet.
    pub fn new(plan: Plan, options: &'a RunOptions) -> anyhow::Result<Self> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .context("becoming a subreaper")?;
        let poller = Poller::new().context("epoll")?;
        let caught = [SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT];
        let signals = Signals::catch(&caught).context("signals")?;
        poller.add(signals.fd(), SIGNALS, Interest::Read)?;
        let output = Output::new(tags(&plan, options), options.output_dir.as_deref())?;
        let agent = |host: &Host| Agent { is_here: host.is_here(), ..Agent::new(&host.name) };
        let agents: Vec<_> = plan.hosts.iter().map(agent).collect();
        let remote: Vec<_> = (0..agents.len()).filter(|&index| !agents[index].is_here).collect();
        let tree = Tree::new(agents.len(), &remote, options.fan_out as usize);
        let now = Instant::now();
        Ok(Self {
            options,
            id: JobId::random().context("making the job's name")?,
            key: JobKey::random().context("making the job's key")?,
            poller,
            signals,
            output,
            outcome: Outcome::default(),
            agents,
            tree,
            remote_program: None,
            door: None,
            hub: None,
            ear: None,
            input: None,
            ranks: Vec::new(),
            phase: Phase::Starting,
            begun: now,
            progress_at: Some(now + PROGRESS_AFTER).filter(|_| !options.quiet),
            report_at: None,
            ended_by_us: 0,
            killing: false,
            paused: false,
            plan,
        })
    }

    /// Carries the plan out; returns the exit status.
    pub fn run(mut self) -> anyhow::Result<u8> {
        self.start_agents()?;
        while !self.agents.iter().all(Agent::is_over) {
            let timeout = self.timeout();
            for token in self.poller.wait(timeout)? {
                self.hear(token)?;
            }
            self.read_file_input()?;
            self.keep_time()?;
            self.talk()?;
        }
        Ok(self.finish())
    }

    fn hear(&mut self, token: Token) -> anyhow::Result<()> {
        match token {
            SIGNALS => self.hear_signals()?,
            DOOR => self.open_door()?,
            STDIN => self.read_input()?,
            EAR => self.hear_question(),
            token if token >= CALLERS => self.hear_caller(token - CALLERS)?,
            token if (token - AGENTS) % 2 == 0 => self.hear_agent(((token - AGENTS) / 2) as usize)?,
            token => self.hear_complaints(((token - AGENTS) / 2) as usize),
        }
        Ok(())
    }

    /// How long nothing may happen.
    fn timeout(&self) -> Option<Duration> {
        let mut deadlines = vec![self.progress_at, self.report_at, self.timeout_at()];
        if let Phase::Stopping(at) = self.phase {
            deadlines.push(Some(at));
        }
        deadlines.push(self.ear.as_ref().and_then(Ear::due));
        if self.output.has_prompt() {
            deadlines.push(Some(Instant::now() + PROMPT_AFTER));
        }
        if self.paused {
            deadlines.push(Some(Instant::now() + RESUME_AFTER));
        }
        if self.door.is_some() {
            deadlines.push(Some(Instant::now() + SWEEP_AFTER));
        }
        if self.input.as_ref().is_some_and(Input::is_always_ready) {
            deadlines.push(Some(Instant::now()));
        }
        deadlines.into_iter().flatten().min().map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// When `--timeout` is up.
    fn timeout_at(&self) -> Option<Instant> {
        let waiting = self.report_at.is_none() && !matches!(self.phase, Phase::Stopping(_));
        self.options.timeout.filter(|_| waiting).and_then(|after| self.begun.checked_add(after))
    }

    fn keep_time(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        let due = |at: Option<Instant>| at.is_some_and(|at| now >= at);
        if due(self.progress_at) {
            self.report_progress();
        }
        if due(self.timeout_at()) {
            self.time_is_up();
        }
        if due(self.ear.as_ref().and_then(Ear::due)) {
            self.answer_question();
        }
        if due(self.report_at) {
            self.report_stuck_ranks();
        }
        if let Phase::Stopping(at) = self.phase {
            if now >= at {
                self.kill_agents();
            }
        }
        if let Some(door) = &mut self.door {
            door.sweep();
        }
        self.output.show_prompt();
        if let Some(failure) = self.output.trouble() {
            self.output_is_lost(failure);
        }
        self.pause_or_resume()
    }

    /// Sends what waits for agents.
    fn talk(&mut self) -> anyhow::Result<()> {
        for index in 0..self.agents.len() {
            let Some(link) = &mut self.agents[index].link else { continue };
            let empty = link.flush().unwrap_or_else(|_| {
                // It has ended, or its host is gone. What it said last is still to be read, and behind it that this was the end.
                link.drop_queued();
                true
            });
            if !self.paused {
                let interest = if empty { Interest::Read } else { Interest::ReadWrite };
                self.poller.modify(link.fd(), agent_token(index), interest)?;
            }
        }
        Ok(())
    }

    fn pause_or_resume(&mut self) -> anyhow::Result<()> {
        let behind = self.output.printer().is_behind();
        if behind == self.paused {
            return Ok(());
        }
        self.paused = behind;
        for (index, agent) in self.agents.iter().enumerate() {
            match &agent.link {
                Some(link) if behind => self.poller.remove(link.fd())?,
                Some(link) => drop(self.poller.add(link.fd(), agent_token(index), Interest::Read)?),
                None => {}
            }
        }
        Ok(())
    }

    fn say_to(&mut self, index: usize, down: &Down) {
        let hop = self.tree.first_hop(index);
        let Some(link) = &mut self.agents[hop].link else { return };
        match hop == index {
            true => link.queue(&down.encode()),
            false => link.queue(&Down::Pass { host: index as u32, bytes: down.encode() }.encode()),
        }
    }

    fn say_to_all(&mut self, down: &Down) {
        (0..self.agents.len()).for_each(|index| self.say_to(index, down));
    }

    /// Sends the hub's answers to the agents of the ranks they are for.
    fn deliver(&mut self, out: Outbox) {
        for (rank, bytes) in out {
            if let Some(host) = self.plan.layout.host_of(rank) {
                self.say_to(host as usize, &Down::Boot { rank, bytes });
            }
        }
    }

    fn host_name(&self, rank: u32) -> String {
        let host = self.plan.layout.host_of(rank).and_then(|host| self.plan.hosts.get(host as usize));
        host.map_or_else(|| "an unknown host".into(), |host| host.name.clone())
    }

    /// Ranks and what is said of them, those alike together, in the order of their first rank.
    fn grouped(&self, text: impl Fn(&RankState) -> Option<String>) -> Vec<(Vec<u32>, String)> {
        let mut groups: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (rank, state) in (0..).zip(&self.ranks) {
            if let Some(text) = text(state) {
                groups.entry(text).or_default().push(rank);
            }
        }
        let mut groups: Vec<_> = groups.into_iter().map(|(text, ranks)| (ranks, text)).collect();
        groups.sort_unstable();
        groups
    }
}

fn tags(plan: &Plan, options: &RunOptions) -> Tags {
    let name = |rank| {
        let host = plan.layout.host_of(rank).and_then(|host| plan.hosts.get(host as usize));
        host.map(|host| host.name.clone()).unwrap_or_default()
    };
    Tags {
        on: options.tag_output,
        hosts: (options.tag_output && plan.hosts.len() > 1).then(|| (0..plan.size()).map(name).collect()),
        width: plan.size().saturating_sub(1).to_string().len(),
    }
}

fn agent_token(index: usize) -> Token {
    AGENTS + 2 * index as Token
}

fn complaints_token(index: usize) -> Token {
    agent_token(index) + 1
}

const SIGNALS: Token = 0;
const DOOR: Token = 1;
const STDIN: Token = 2;
const EAR: Token = 3;
const AGENTS: Token = 4;
/// Callers at the door come after all agents.
const CALLERS: Token = 1 << 40;

const PROGRESS_AFTER: Duration = Duration::from_secs(3);
const PROMPT_AFTER: Duration = Duration::from_millis(100);
const RESUME_AFTER: Duration = Duration::from_millis(10);
const SWEEP_AFTER: Duration = Duration::from_secs(1);
