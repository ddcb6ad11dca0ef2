//! Agents behind this one: it starts them, carries what they and the launcher say to each other, and reports their loss.
//!
//! What goes down is passed to the child that leads to its host; what comes up is passed on with the name of the host it
//! came from. Nothing is decided here.

use std::collections::HashMap;
use std::os::fd::AsFd;

use barewire_core::boot::frame::Unit;
use barewire_core::boot::{Fill, Link};
use barewire_core::job::JobKey;
use rustix::process::Signal;

use super::watch_path;
use crate::poller::{Interest, Poller, Token};
use crate::proc;
use crate::run::door::{Door, Heard};
use crate::run::outcome::ending;
use crate::run::remotes::{Agent, State};
use crate::run::start::Remote;
use crate::run::tree::groups;
use crate::wire::{self, BODY_BYTES_MAX, Down, Up};

/// The agents behind this one.
pub struct Branch {
    children: Vec<Child>,
    door: Option<Door>,
    /// The child that leads to a host.
    route: HashMap<u32, usize>,
    order: wire::Branch,
}

struct Child {
    number: u32,
    agent: Agent,
    /// The hosts behind it.
    below: Vec<(u32, String)>,
}

impl Branch {
    /// Starts the agents that `order` names; reports of those that could not be started are the second part.
    pub fn start(order: wire::Branch, key: JobKey, poller: &Poller) -> anyhow::Result<(Self, Vec<Up>)> {
        let door = Door::open(key.clone(), order.ports)?;
        let addresses = door.addresses(order.interface.as_deref())?;
        poller.add(door.fd(), DOOR, Interest::Read)?;
        let remote = Remote::new(&order.shell, Some(&order.program), &addresses, key)?;
        let mut branch = Self { children: Vec::new(), door: Some(door), route: HashMap::new(), order };
        let mut reports = Vec::new();
        for group in groups(&branch.order.hosts, branch.order.fan_out as usize) {
            let Some(((number, name), below)) = group.split_first() else { continue };
            let index = branch.children.len();
            let mut agent = Agent::new(name);
            match remote.start(*number, name) {
                Ok(called) => {
                    poller.add(&called.complaints, token(index) + 1, Interest::Read)?;
                    agent.called(called);
                }
                Err(error) => {
                    agent.state = State::Lost;
                    reports.push(Up::Missing { host: *number, reason: format!("{error:#}") });
                }
            }
            branch.route.extend(group.iter().map(|(host, _)| (*host, index)));
            branch.children.push(Child { number: *number, agent, below: below.to_vec() });
        }
        Ok((branch, reports))
    }

    /// Whether nothing more is to be expected of any of them.
    pub fn is_over(&self) -> bool {
        self.children.iter().all(|child| child.agent.is_over())
    }

    /// The processes here that lead to the others.
    pub fn shells(&self) -> Vec<u32> {
        self.children.iter().filter_map(|child| child.agent.pid).collect()
    }

    /// Passes the launcher's words on towards a host.
    pub fn pass(&mut self, host: u32, bytes: Vec<u8>) {
        let Some(child) = self.route.get(&host).map(|&index| &mut self.children[index]) else { return };
        let Some(link) = &mut child.agent.link else { return };
        if child.number == host {
            link.queue(&bytes);
        } else {
            link.queue(&Down::Pass { host, bytes }.encode());
        }
    }

    /// Says the same to all children, who say it to theirs.
    pub fn tell_all(&mut self, down: &Down) {
        for link in self.children.iter_mut().filter_map(|child| child.agent.link.as_mut()) {
            link.queue(&down.encode());
        }
    }

    /// Nothing more is started: agents that have not called are given up.
    pub fn stop(&mut self) {
        for child in &mut self.children {
            if child.agent.link.is_none() && !child.agent.is_over() {
                child.end(Signal::TERM);
            }
        }
        self.door = None;
    }

    /// Gives up all that have not ended; returns what is to be said about them.
    pub fn cut(&mut self, reason: &str) -> Vec<Up> {
        let left = self.children.iter_mut().filter(|child| !child.agent.is_over());
        let cut = left.map(|child| {
            child.end(Signal::KILL);
            child.missing(reason.to_owned())
        });
        cut.collect()
    }

    /// Deals with one thing that became ready; returns what is to be said to the launcher.
    pub fn hear(&mut self, at: Token, poller: &Poller) -> anyhow::Result<Vec<Vec<u8>>> {
        match at {
            DOOR => self.open_door(poller)?,
            at if at >= CALLERS => self.hear_caller(at - CALLERS, poller)?,
            at if (at - CHILDREN) % 2 == 1 => {
                let agent = &mut self.children[((at - CHILDREN) / 2) as usize].agent;
                while agent.read_complaints() {}
            }
            at => return Ok(self.hear_child(((at - CHILDREN) / 2) as usize)),
        }
        Ok(Vec::new())
    }

    /// Whether a token is one of this branch.
    pub fn owns(at: Token) -> bool {
        at == DOOR || at >= CHILDREN
    }

    fn open_door(&mut self, poller: &Poller) -> anyhow::Result<()> {
        let Some(door) = &mut self.door else { return Ok(()) };
        for (number, fd) in door.accept() {
            poller.add(fd, CALLERS + number, Interest::Read)?;
        }
        door.sweep();
        Ok(())
    }

    fn hear_caller(&mut self, number: u64, poller: &Poller) -> anyhow::Result<()> {
        let Some(door) = &mut self.door else { return Ok(()) };
        let Heard::Member(who, stream) = door.hear(number) else { return Ok(()) };
        let expected = |child: &Child| child.number == who && child.agent.is_expected();
        let Some(index) = self.children.iter().position(expected) else { return Ok(()) };
        poller.remove(stream.as_fd())?;
        watch_path(&stream)?;
        let mut link = Link::new(stream.into(), BODY_BYTES_MAX);
        let child = &mut self.children[index];
        if !child.below.is_empty() {
            link.queue(
                &Down::Branch(wire::Branch { hosts: child.below.clone(), ..self.order.clone() }).encode(),
            );
        }
        poller.add(link.fd(), token(index), Interest::ReadWrite)?;
        child.agent.link = Some(link);
        if self.children.iter().all(|child| child.agent.link.is_some() || child.agent.is_over()) {
            // Everybody is in: a port that is not open cannot be attacked.
            self.door = None;
        }
        Ok(())
    }

    fn hear_child(&mut self, index: usize) -> Vec<Vec<u8>> {
        let child = &mut self.children[index];
        let mut said = Vec::new();
        loop {
            let Some(link) = &mut child.agent.link else { return said };
            let trouble = match link.fill() {
                Ok(Fill::Some(_)) => match pass_up(link, child.number, &mut said) {
                    Ok(false) => continue,
                    Ok(true) => {
                        child.agent.state = State::Done;
                        child.agent.link = None;
                        return said;
                    }
                    Err(trouble) => trouble,
                },
                Ok(Fill::Nothing) => return said,
                Ok(Fill::Closed) => "its agent closed the connection".to_owned(),
                Err(error) => error.to_string(),
            };
            said.push(child.missing(trouble).encode());
        }
    }

    /// A process of ours ended; returns what is to be said about it.
    pub fn reaped(&mut self, pid: u32, status: i32) -> Option<Up> {
        let child = self.children.iter_mut().find(|child| child.agent.pid == Some(pid))?;
        child.agent.pid = None;
        while child.agent.read_complaints() {}
        if child.agent.link.is_some() || child.agent.is_over() {
            return None;
        }
        let hint =
            "\n  it was started from another of the hosts; with --fan-out 100000 all are started from here";
        let reason = child.agent.never_called(&ending(status)) + hint;
        Some(child.missing(reason))
    }

    /// Sends what the children take.
    pub fn flush(&mut self, poller: &Poller) {
        for (index, child) in self.children.iter_mut().enumerate() {
            let Some(link) = &mut child.agent.link else { continue };
            let empty = link.flush().unwrap_or_else(|_| {
                // What it said last is still to be read, and behind it that this was the end.
                link.drop_queued();
                true
            });
            let interest = if empty { Interest::Read } else { Interest::ReadWrite };
            // A child that is not listened to at the moment is not watched.
            let _ = poller.modify(link.fd(), token(index), interest);
        }
    }

    /// Stops listening to children while the launcher is slow to take what they say, or begins again.
    pub fn pause(&self, pause: bool, poller: &Poller) -> std::io::Result<()> {
        for (index, child) in self.children.iter().enumerate() {
            match &child.agent.link {
                Some(link) if pause => poller.remove(link.fd())?,
                Some(link) => drop(poller.add(link.fd(), token(index), Interest::ReadWrite)?),
                None => {}
            }
        }
        Ok(())
    }
}

impl Child {
    fn missing(&mut self, reason: String) -> Up {
        self.agent.link = None;
        self.agent.state = State::Lost;
        Up::Missing { host: self.number, reason: format!("{reason}{}", self.agent.last_complaints()) }
    }

    fn end(&mut self, signal: Signal) {
        if let Some(pid) = self.agent.pid {
            // It may have ended by itself.
            let _ = proc::send(pid, signal);
        }
        self.agent.link = None;
        self.agent.state = State::Lost;
    }
}

/// Collects what a child said, under its number; true once it is done.
fn pass_up(link: &mut Link, number: u32, said: &mut Vec<Vec<u8>>) -> Result<bool, String> {
    while let Some(raw) = link.next_raw().map_err(|error| error.to_string())? {
        let raw = raw.to_vec();
        let Ok(Some((Unit::Frame { kind, .. }, _))) = barewire_core::boot::frame::split(&raw, BODY_BYTES_MAX)
        else {
            return Err("it sent text".into());
        };
        if Up::is_from_below(kind) {
            said.push(raw);
        } else {
            said.push(Up::From { host: number, bytes: raw }.encode());
        }
        if Up::is_done(kind) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn token(index: usize) -> Token {
    CHILDREN + 2 * index as Token
}

const DOOR: Token = 2;
const CHILDREN: Token = 1 << 40;
/// Callers at the door come after all children.
const CALLERS: Token = 1 << 41;
