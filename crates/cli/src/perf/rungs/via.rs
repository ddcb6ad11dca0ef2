//! Virtual interfaces: their queues asked one by one, through a completion queue, with credits, and many VIs on one queue; RDMA.

use std::time::Instant;

use anyhow::{Result, bail};
use barewire::via::{
    Completion, Cq, Cqs, Descriptor, Flow, MemAttributes, MemHandle, Nic, Op, Ptag, Status, Vi, ViAttributes,
};
use barewire_core::region::Memory;
use barewire_core::{Endpoint, Peer};

use super::pair::{self, Pair};
use super::{BUFFER_BYTES, Bench, Kept, PATIENCE, Trips, each, until};
use crate::perf::worker::Command;

/// Receives posted on each VI.
const RECEIVES: u64 = 8;
/// The discriminators of VIs that meet, and of those that are many; below these, one for each way of measuring.
const MEETING: u64 = 1 << 32;
const MANY: u64 = 2 << 32;

/// A rank that measures virtual interfaces. Ranks 0 and 1 are connected in every way, all others to rank 0 in order to meet.
pub struct ViaBench {
    nic: Nic,
    me: u32,
    tag: Ptag,
    memory: MemHandle,
    /// Memory that the other end may read and write; registered in the same order everywhere, so it has the same name there.
    open: MemHandle,
    /// Where everything but the polled VI ends, and where meetings do.
    cq: Cq,
    meetings: Cq,
    ways: Option<Ways>,
    /// VIs to rank 0, or at rank 0 to everybody else, rank 1 first.
    meeting: Vec<Vi>,
    heard: u32,
    /// Those that messages go through in turn, and how many have gone and come.
    through: Vec<Vi>,
    sent: u64,
    got: u64,
    seen: u64,
    /// Sends that have ended.
    #[allow(clippy::vec_box, reason = "boxes are what is posted")]
    spare: Vec<Box<Descriptor>>,
}

/// The VIs between ranks 0 and 1.
struct Ways {
    /// Its queues are asked themselves.
    polled: Vi,
    /// Its queues end in the completion queue.
    queued: Vi,
    /// The same, with credits.
    credited: Vi,
    /// Those that share the completion queue, as many as were asked for so far.
    many: Vec<Vi>,
}

impl ViaBench {
    pub fn new(endpoint: Endpoint) -> Result<ViaBench> {
        let (me, size) = (endpoint.me().0, endpoint.size());
        let mut nic = Nic::new(endpoint);
        let tag = nic.create_ptag()?;
        let memory = nic.register(&Memory::private(BUFFER_BYTES), tag, MemAttributes::default())?;
        let anything = MemAttributes { rdma_write: true, rdma_read: true };
        let open = nic.register(&Memory::shared(BUFFER_BYTES)?, tag, anything)?;
        let (cq, meetings) = (nic.create_cq()?, nic.create_cq()?);
        let mut bench = ViaBench {
            nic,
            me,
            tag,
            memory,
            open,
            cq,
            meetings,
            ways: None,
            meeting: Vec::new(),
            heard: 0,
            through: Vec::new(),
            sent: 0,
            got: 0,
            seen: 0,
            spare: Vec::new(),
        };
        let others = if me == 0 { 1..size } else { 0..1 };
        for other in others {
            let vi = bench.join(Flow::Credits, meetings.into(), Peer(other), MEETING)?;
            bench.meeting.push(vi);
        }
        if me < 2 {
            let other = Peer(1 - me);
            let polled = bench.join(Flow::None, Cqs::default(), other, 1)?;
            let queued = bench.join(Flow::None, cq.into(), other, 2)?;
            let credited = bench.join(Flow::Credits, cq.into(), other, 3)?;
            bench.ways = Some(Ways { polled, queued, credited, many: Vec::new() });
        }
        Ok(bench)
    }

    /// A VI with its receives posted, connected to a peer that does the same.
    fn join(&mut self, flow: Flow, cqs: Cqs, peer: Peer, discriminator: u64) -> Result<Vi> {
        let vi = self.nic.create_vi(self.tag, ViAttributes { flow, ..ViAttributes::default() }, cqs)?;
        for _ in 0..RECEIVES {
            let receive = Descriptor::receive().segment(self.memory, 0, BUFFER_BYTES as u64);
            self.nic.post_receive(vi, receive)?;
        }
        self.nic.connect_peer(vi, peer, discriminator, PATIENCE)?;
        Ok(vi)
    }

    /// As many VIs on the completion queue as are wanted.
    fn many(&mut self, count: usize) -> Result<Vec<Vi>> {
        loop {
            let known = self.ways.as_ref().map_or(&[][..], |ways| &ways.many);
            if known.len() >= count {
                return Ok(known[..count].to_vec());
            }
            let discriminator = MANY + known.len() as u64;
            let vi = self.join(Flow::None, self.cq.into(), Peer(1 - self.me), discriminator)?;
            self.ways.iter_mut().for_each(|ways| ways.many.push(vi));
        }
    }

    fn is_polled(&self) -> bool {
        self.ways.as_ref().is_some_and(|ways| self.through == [ways.polled])
    }

    /// Rank 0 has so many RDMA operations under way at a time, and waits for the ends of all; rank 1 serves until it is told.
    fn rdma(&mut self, op: Op, vi: Vi, (bytes, count, window): (usize, u64, u64)) -> Result<f64> {
        if self.me != 0 {
            self.seen += 1;
            self.until(self.seen);
            return Ok(0.0);
        }
        let new = || match op {
            Op::RdmaRead => Descriptor::rdma_read(self.open.remote(), 0),
            _ => Descriptor::rdma_write(self.open.remote(), 0),
        };
        let mut free: Vec<_> = (0..window).map(|_| new().segment(self.memory, 0, bytes as u64)).collect();
        let nic = &mut self.nic;
        let start = Instant::now();
        for first in (0..count).step_by(window as usize) {
            let batch = window.min(count - first) as usize;
            for _ in 0..batch {
                nic.post_send(vi, free.pop().expect("one for each"))?;
            }
            while free.len() < window as usize {
                match nic.send_done(vi) {
                    Some(ended) if ended.status != Status::Success => {
                        bail!("RDMA ended with {:?}", ended.status)
                    }
                    // What told rank 1 the last time that it was over.
                    Some(ended) if ended.op == Op::Send => self.spare.push(ended),
                    Some(ended) => free.push(ended),
                    None => drop(nic.poll()),
                }
            }
        }
        let each = each(start, count);
        self.send(0)?;
        Ok(each)
    }

    /// What has ended since the last look. Receives are posted again.
    #[inline(always)]
    fn look(&mut self) {
        self.nic.poll();
        if self.is_polled() {
            let vi = self.through[0];
            while let Some(receive) = self.nic.receive_done(vi) {
                self.took(vi, receive);
            }
            while let Some(send) = self.nic.send_done(vi) {
                self.spare.push(send);
            }
        }
        while let Some(Completion { vi, descriptor, .. }) = self.nic.cq_done(self.cq) {
            match descriptor.op {
                Op::Receive => self.took(vi, descriptor),
                _ => self.spare.push(descriptor),
            }
        }
    }

    #[inline(always)]
    fn took(&mut self, vi: Vi, receive: Box<Descriptor>) {
        self.got += 1;
        self.nic.post_receive(vi, receive).expect("it was posted there before");
    }
}

impl Pair for ViaBench {
    const NAME: &'static str = "virtual interfaces";

    fn rank(&self) -> u32 {
        self.me
    }

    #[inline(always)]
    fn send(&mut self, bytes: usize) -> Result<()> {
        let vi = self.through[self.sent as usize % self.through.len()];
        let mut send = match self.spare.pop() {
            Some(send) => send,
            None => Descriptor::send().segment(self.memory, 0, 0),
        };
        send.segments[0].len = bytes as u64;
        self.sent += 1;
        Ok(self.nic.post_send(vi, send)?)
    }

    #[inline(always)]
    fn until(&mut self, got: u64) {
        until(|| {
            self.look();
            self.got >= got
        });
    }

    fn seen(&mut self) -> &mut u64 {
        &mut self.seen
    }
}

impl Bench for ViaBench {
    fn tell_here(&mut self, to: Peer) -> Result<()> {
        let vi = self.meeting[to.0.saturating_sub(1) as usize];
        Ok(self.nic.post_send(vi, Descriptor::send())?)
    }

    fn hear_here(&mut self, count: u32) -> Result<()> {
        while self.heard < count {
            let Completion { vi, descriptor, .. } = self.nic.cq_wait(self.meetings, PATIENCE)?;
            if descriptor.op == Op::Receive {
                self.heard += 1;
                self.nic.post_receive(vi, descriptor)?;
            }
        }
        self.heard -= count;
        Ok(())
    }

    fn once(&mut self, command: &Command, trips: &mut Trips) -> Result<f64> {
        if command.bytes > BUFFER_BYTES {
            bail!("messages of more than {BUFFER_BYTES} bytes are not measured");
        }
        let (_, verb) = command.parts();
        let Some(Ways { polled, queued, credited, .. }) = self.ways else { return Ok(0.0) };
        let one_way = match verb {
            "many" => self.many(command.window.max(1) as usize)?,
            "queued" => vec![queued],
            "credited" | "rate" => vec![credited],
            _ => vec![polled],
        };
        (self.through, self.sent) = (one_way, 0);
        let work = |window| (command.bytes, command.count, window);
        match verb {
            "rdma-read" => self.rdma(Op::RdmaRead, polled, work(1)),
            "rdma-write" => self.rdma(Op::RdmaWrite, polled, work(1)),
            "rdma-reads" => self.rdma(Op::RdmaRead, polled, work(command.window.max(1))),
            "rdma-writes" => self.rdma(Op::RdmaWrite, polled, work(command.window.max(1))),
            "polled" | "queued" | "credited" | "many" => {
                pair::latency(self, command.bytes, command.count, trips)
            }
            _ => pair::once(self, command, trips),
        }
    }

    fn burst(&mut self, _: &str, _: usize, _: u64) -> Result<f64> {
        bail!("virtual interfaces have ranks of their own, where no overheads are measured")
    }

    fn idle(&mut self) {
        self.nic.poll();
    }

    fn close(self: Box<Self>) -> Option<(Endpoint, Option<Kept>)> {
        None
    }
}
