//! How a job ends, whatever the reason: everybody is asked, then killed, and nothing is left.

use std::time::{Duration, Instant};

use barewire_core::boot::{LostReason, Outbox};
use rustix::process::Signal;

use super::super::outcome::{Failure, View, ending, intervals};
use super::super::remotes::State;
use super::{Launch, Phase};
use crate::proc;
use crate::wire::Down;

impl Launch<'_> {
    /// Something after which the job cannot go on.
    pub(super) fn fail(&mut self, failure: Failure) {
        if let Phase::Stopping(until) = self.phase {
            // So far ranks have only been asked to end: one that something else killed is why others gave up, or died beside them.
            let only_asked = !self.killing && Instant::now() + AGENT_GRACE * self.levels() < until;
            if only_asked && failure.is_a_kill() {
                self.outcome.note(failure);
                self.ended_by_us = self.ended_by_us.saturating_sub(1);
            }
            return;
        }
        self.outcome.note_the_end(failure);
        self.stop();
    }

    /// Levels of the tree of agents.
    fn levels(&self) -> u32 {
        u32::try_from(self.tree.depth()).unwrap_or(1).max(1)
    }

    /// A rank failed, or a host: the job may go on if it is meant to.
    pub(super) fn rank_failed(&mut self, failure: Failure) {
        // Ranks that were asked to end have not failed.
        if self.options.keep_going && !matches!(self.phase, Phase::Stopping(_)) {
            self.outcome.note(failure);
        } else {
            self.fail(failure);
        }
    }

    /// Nobody takes what the ranks print; a job that is meant to go on does so where somebody still looks at it.
    pub(super) fn output_is_lost(&mut self, failure: Failure) {
        match failure {
            Failure::NobodyReads => self.fail(failure),
            _ => self.rank_failed(failure),
        }
    }

    pub(super) fn abort(&mut self, rank: u32, code: i32, message: String) {
        self.fail(Failure::Abort { rank, code, message });
    }

    /// Somebody wants the launcher to end; whoever asks twice does not want to wait.
    pub(super) fn interrupted(&mut self, signal: i32) {
        if matches!(self.phase, Phase::Stopping(_)) {
            self.killing = true;
            self.say_to_all(&Down::Kill);
        }
        self.fail(Failure::Signal(signal));
    }

    /// Asks everything to end.
    fn stop(&mut self) {
        let running = self.ranks.iter().filter(|state| state.pid.is_some() && !state.ended).count();
        // The rank that aborts the job ends by itself.
        let aborted = matches!(self.outcome.first(), Some(Failure::Abort { .. }));
        self.ended_by_us = running.saturating_sub(usize::from(aborted));
        self.phase = Phase::Stopping(Instant::now() + self.options.kill_after + AGENT_GRACE * self.levels());
        self.report_at = None;
        self.progress_at = None;
        self.say_to_all(&Down::Stop);
        for index in 0..self.agents.len() {
            // An agent that never called has nothing to clean up; its remote shell is ended.
            if self.agents[index].state == State::Starting && self.agents[index].link.is_none() {
                self.end_process(index, Signal::TERM);
                self.agents[index].state = State::Lost;
            }
        }
    }

    /// Agents that did not manage in time.
    pub(super) fn kill_agents(&mut self) {
        for index in 0..self.agents.len() {
            if !self.agents[index].is_over() {
                self.end_process(index, Signal::KILL);
                self.agents[index].state = State::Lost;
                self.agents[index].link = None;
            }
        }
    }

    fn end_process(&self, index: usize, signal: Signal) {
        if let Some(pid) = self.agents[index].pid {
            // It may have ended by itself.
            let _ = proc::send(pid, signal);
        }
    }

    /// The line to an agent broke.
    pub(super) fn agent_is_lost(&mut self, index: usize, reason: &str) {
        let agent = &mut self.agents[index];
        agent.link = None;
        if agent.is_over() {
            return;
        }
        let was_starting = agent.state == State::Starting;
        let host = agent.host.clone();
        let behind = match self.tree.behind(index).len() {
            0 => String::new(),
            1 => "; with it the host that is reached through it".into(),
            count => format!("; with it the {count} hosts that are reached through it"),
        };
        let reason = format!("{reason}{}{behind}", agent.last_complaints());
        let failure = match was_starting {
            true if self.tree.is_direct(index) => {
                Failure::NotStarted { host, status: 1, reason: format!("the agent there ended: {reason}") }
            }
            true => Failure::NotStarted { host, status: 1, reason },
            false => Failure::Host { host, reason },
        };
        self.ranks_are_lost(index);
        self.agents_behind_are_lost(index, "");
        self.rank_failed(failure);
    }

    /// Agents that were reached through one that is gone.
    pub(super) fn agents_behind_are_lost(&mut self, index: usize, reason: &str) {
        for host in self.tree.behind(index) {
            if self.agents[host].is_over() {
                continue;
            }
            if reason.is_empty() {
                self.ranks_are_lost(host);
            } else {
                self.agent_is_lost(host, reason);
            }
        }
    }

    /// Nothing more will be heard of this host.
    fn ranks_are_lost(&mut self, index: usize) {
        self.agents[index].state = State::Lost;
        let ranks: Vec<u32> = self.plan.layout.ranks_on(index as u32).collect();
        let mut out = Outbox::new();
        for rank in ranks {
            if let Some(state) = self.ranks.get_mut(rank as usize) {
                state.ended = true;
            }
            self.output.end_of(rank);
            if let Some(hub) = &mut self.hub {
                hub.lost(rank, LostReason::HostLost, &mut out);
            }
        }
        self.deliver(out);
    }

    /// An agent's process, or its remote shell, ended.
    pub(super) fn agent_process_ended(&mut self, index: usize, status: i32) {
        let agent = &self.agents[index];
        if agent.is_over() || (agent.link.is_some() && !agent.is_here) {
            return;
        }
        if agent.is_here {
            return self.agent_is_lost(index, &format!("its agent {}", ending(status)));
        }
        let reason = agent.never_called(&ending(status));
        self.agents[index].state = State::Lost;
        self.not_started(index, 1, reason);
    }

    /// `--timeout` is up: asks everybody what they wait for, and gives them a moment to answer.
    pub(super) fn time_is_up(&mut self) {
        let mut out = Outbox::new();
        if let Some(hub) = &self.hub {
            hub.ask_for_reports(&mut out);
        }
        self.deliver(out);
        self.say_to_all(&Down::Describe);
        self.report_at = Some(Instant::now() + REPORT_GRACE);
    }

    /// Prints what every rank was doing, and ends the job.
    pub(super) fn report_stuck_ranks(&mut self) {
        let groups = self.grouped(|state| {
            let running = state.pid.is_some() && !state.ended;
            let text = state.waits_for.as_deref().or(state.described.as_deref()).unwrap_or("no answer");
            running.then(|| text.to_owned())
        });
        for (ranks, text) in groups {
            let who = if ranks.len() == 1 { "rank" } else { "ranks" };
            let host =
                if ranks.len() == 1 { format!(" on {}", self.host_name(ranks[0])) } else { String::new() };
            self.output.say(&format!("{who} {}{host}: {text}", intervals(&ranks)));
        }
        let after = self.options.timeout.unwrap_or_default();
        self.fail(Failure::Timeout(after));
    }

    /// Makes sure that nothing is left, prints the summary, and gives the exit status.
    pub(super) fn finish(mut self) -> u8 {
        self.let_agents_go();
        while proc::kill_descendants(&[]) {
            std::thread::sleep(SETTLE);
            while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
        }
        let patience = match self.outcome.first() {
            Some(Failure::Signal(_) | Failure::Timeout(_) | Failure::NobodyReads | Failure::Unwritten(_)) => {
                Duration::from_secs(1)
            }
            _ => Duration::MAX,
        };
        let settled = self.output.settle(patience);
        if let Some(failure) = self.output.trouble() {
            self.outcome.note(failure);
        }
        self.say_summary();
        self.output.finish(if settled { patience } else { Duration::ZERO });
        self.outcome.exit_code(self.options.keep_going)
    }

    fn say_summary(&mut self) {
        let lines: Vec<String> = if self.options.quiet {
            self.outcome.unwritten().map(str::to_owned).into_iter().collect()
        } else {
            let view = View {
                place: &|rank| {
                    (self.host_name(rank), self.ranks.get(rank as usize).and_then(|state| state.pid))
                },
                last_words: &|rank| self.output.last_words(rank).map(str::to_owned),
                ended: self.ended_by_us,
            };
            self.outcome.summary(&view)
        };
        lines.iter().for_each(|line| self.output.say(line));
    }

    /// Agents that are done end by themselves; waits for that a moment.
    fn let_agents_go(&mut self) {
        let deadline = Instant::now() + AGENT_GRACE;
        while self.agents.iter().any(|agent| agent.pid.is_some()) && Instant::now() < deadline {
            match rustix::process::wait(rustix::process::WaitOptions::NOHANG) {
                Ok(Some((pid, _))) => {
                    let pid = pid.as_raw_nonzero().get().unsigned_abs();
                    self.agents
                        .iter_mut()
                        .filter(|agent| agent.pid == Some(pid))
                        .for_each(|agent| agent.pid = None);
                }
                Ok(None) => std::thread::sleep(SETTLE),
                Err(_) => return,
            }
        }
    }
}

/// How much longer than its ranks an agent may take.
const AGENT_GRACE: Duration = Duration::from_secs(3);
const REPORT_GRACE: Duration = Duration::from_millis(300);
const SETTLE: Duration = Duration::from_millis(1);
