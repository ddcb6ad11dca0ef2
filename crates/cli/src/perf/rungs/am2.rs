//! Active Messages II, carried by the core or by virtual interfaces: credits, tags, translations; short and bulk by size.

use anyhow::{Result, bail};
use barewire::am::{Bundle, Ep, Memory, Name, Node, Tag, ViaConfig};
use barewire_core::{Endpoint, Peer};

use super::pair::{self, Pair};
use super::{BUFFER_BYTES, Bench, Kept, PATIENCE, Trips, until};
use crate::perf::worker::Command;

const DATA: u8 = 1;
const HERE: u8 = 2;
const KEY: Tag = Tag(0x6265_6e63);
/// The most bytes that go as arguments.
const SHORT_BYTES_MAX: usize = 64;
/// Translations: one for each rank that can be told something.
const RANKS_MAX: u32 = 200;

/// What the handlers count.
#[derive(Default, Debug)]
struct Counts {
    data: u64,
    here: u32,
}

/// A rank that measures Active Messages II.
pub struct Am2Bench {
    node: Node<Counts>,
    bundle: Bundle,
    ep: Ep,
    me: u32,
    seen: u64,
    out: Memory,
    /// Whether another layer can have the endpoint afterwards.
    closes: bool,
}

impl Am2Bench {
    pub fn new(endpoint: Endpoint) -> Result<Am2Bench> {
        Am2Bench::with(Node::new(endpoint, Counts::default()), true)
    }

    /// The same over virtual interfaces, from which no endpoint comes back.
    pub fn over_via(endpoint: Endpoint) -> Result<Am2Bench> {
        Am2Bench::with(Node::over_via(endpoint, ViaConfig::default(), Counts::default()), false)
    }

    fn with(mut node: Node<Counts>, closes: bool) -> Result<Am2Bench> {
        let (me, size) = (node.core().me().0, node.core().size());
        let bundle = node.allocate_bundle()?;
        let ep = node.allocate_endpoint(bundle)?;
        node.set_tag(ep, KEY)?;
        node.set_seg(ep, Memory::shared(BUFFER_BYTES)?)?;
        let mut into = vec![0; 8 << 10];
        node.set_handler(ep, DATA, move |ctx, _| {
            // What is bulk is in place already; what is medium is taken out of the packet.
            ctx.read(&mut into);
            ctx.state.data += 1;
        })?;
        node.set_handler(ep, HERE, |ctx, _| ctx.state.here += 1)?;
        for rank in 0..size.min(RANKS_MAX) {
            let name = Name { peer: Peer(rank), ..node.name(ep) };
            node.map(ep, rank as u8, name, KEY)?;
        }
        Ok(Am2Bench { node, bundle, ep, me, seen: 0, out: Memory::shared(BUFFER_BYTES)?, closes })
    }
}

impl Pair for Am2Bench {
    const NAME: &'static str = "Active Messages II";

    fn rank(&self) -> u32 {
        self.me
    }

    #[inline(always)]
    fn send(&mut self, bytes: usize) -> Result<()> {
        let (ep, to) = (self.ep, (1 - self.me) as u8);
        if bytes <= SHORT_BYTES_MAX {
            return Ok(self.node.request(ep, to, DATA, &[1; SHORT_BYTES_MAX / 8][..bytes.div_ceil(8)])?);
        }
        Ok(self.node.request_xfer(ep, to, DATA, &[], 0, (&self.out, 0..bytes))?)
    }

    #[inline(always)]
    fn until(&mut self, data: u64) {
        until(|| {
            self.node.state().data >= data
                || (self.node.poll(self.bundle) > 0 && self.node.state().data >= data)
        });
    }

    fn seen(&mut self) -> &mut u64 {
        &mut self.seen
    }
}

impl Bench for Am2Bench {
    fn tell_here(&mut self, to: Peer) -> Result<()> {
        if to.0 >= RANKS_MAX {
            bail!("Active Messages II are measured among {RANKS_MAX} ranks at most");
        }
        Ok(self.node.request(self.ep, to.0 as u8, HERE, &[])?)
    }

    fn hear_here(&mut self, count: u32) -> Result<()> {
        self.node.wait(self.bundle, PATIENCE, |counts| counts.here >= count)?;
        self.node.state_mut().here -= count;
        Ok(())
    }

    fn once(&mut self, command: &Command, trips: &mut Trips) -> Result<f64> {
        if command.bytes > BUFFER_BYTES {
            bail!("messages of more than {BUFFER_BYTES} bytes are not measured");
        }
        pair::once(self, command, trips)
    }

    fn burst(&mut self, _: &str, bytes: usize, count: u64) -> Result<f64> {
        pair::burst(self, bytes, count)
    }

    fn idle(&mut self) {
        self.node.poll(self.bundle);
    }

    fn close(self: Box<Self>) -> Option<(Endpoint, Option<Kept>)> {
        self.closes.then(|| (self.node.into_core(), None))
    }
}
