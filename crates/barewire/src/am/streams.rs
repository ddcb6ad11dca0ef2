//! Bulk transfers of more than one packet, as the receiver sees them: each part goes from wire memory into the segment at
//! once, and the handler runs after the last. A transfer that ends before all of it has come is a lie, and costs its sender the link.

use barewire_core::{Flow, Incoming, Peer};

use super::bulk::Place;
use super::context::Body;
use super::link::Link;
use super::names::{Code, Tag};
use super::side::Parcel;
use super::tables::{Tables, read_args};
use super::wire::{ARGS_MAX, Imm, Kind, PortBits};

/// A long message of which not all has arrived.
#[derive(Debug)]
pub(super) struct Open {
    from: Peer,
    stream: u32,
    /// Bytes announced, all of which have to come.
    total: u64,
    /// The head so far: a first packet may be too short for all of it.
    head: [u8; Open::HEAD_MAX],
    have: usize,
    /// Known once the head is complete.
    parcel: Option<Parcel>,
    /// Why the rest is thrown away.
    code: Option<Code>,
}

impl Open {
    const HEAD_MAX: usize = 8 * (2 + ARGS_MAX);

    fn new(packet: &Incoming<'_>, stream: u32) -> Open {
        let (from, total) = (packet.from, packet.total);
        Open { from, stream, total, head: [0; Open::HEAD_MAX], have: 0, parcel: None, code: None }
    }

    pub fn from(&self) -> Peer {
        self.from
    }

    /// What the message is, once its head is complete.
    fn read_head(&mut self, packet: &mut Incoming<'_>) -> Option<Parcel> {
        if self.parcel.is_some() {
            return self.parcel;
        }
        let bits = PortBits(packet.port.0);
        let (kind, need) = transfer(packet)?;
        self.have += packet.read(&mut self.head[self.have..need]);
        if self.have < need {
            return None;
        }
        let mut words = self.head[..need].chunks_exact(8);
        let mut next =
            || words.next().map(|word| u64::from_le_bytes(word.try_into().expect("eight of eight")));
        let (tag, offset) = (Tag(next()?), next()?);
        let (args, count) = read_args(bits.args(), next)?;
        self.parcel = Some(Parcel {
            from: self.from,
            kind,
            returned: None,
            want: bits.want() && kind.is_request(),
            imm: Imm(packet.imm),
            tag,
            place: Place { offset, len: packet.total - need as u64 },
            count,
            args,
            answers: !kind.is_request(),
            in_doubt: 0,
        });
        self.parcel
    }
}

/// The kind of a bulk transfer and the length of its head; `None` if the packet is of nothing like it.
fn transfer(packet: &Incoming<'_>) -> Option<(Kind, usize)> {
    let bits = PortBits(packet.port.0);
    let need = 8 * (2 + bits.args());
    let sound = bits.args() <= ARGS_MAX && packet.total >= need as u64;
    bits.kind().filter(|kind| kind.is_xfer() && sound).map(|kind| (kind, need))
}

impl<S> Tables<S> {
    /// One packet of a long message.
    pub(super) fn deliver_part(&mut self, core: &mut Link<'_>, mut packet: Incoming<'_>) -> Flow {
        let (from, Some(stream)) = (packet.from, packet.stream) else { return Flow::Continue };
        let (is_first, is_last) = (packet.is_first(), packet.is_last());
        let at = match self.open.iter().position(|open| (open.from, open.stream) == (from, stream)) {
            Some(at) => at,
            None if is_first && transfer(&packet).is_some() => {
                self.open.push(Open::new(&packet, stream));
                self.open.len() - 1
            }
            None => {
                self.backlog.dropped += 1;
                return Flow::Continue;
            }
        };
        if packet.total != self.open[at].total {
            // Ended before all of it came, which no sender of ours does: there is nothing to run, and nobody to trust.
            self.open.swap_remove(at);
            return Flow::Distrust;
        }
        let Some(parcel) = self.open[at].read_head(&mut packet) else { return Flow::Continue };
        if self.open[at].code.is_none() {
            let head = packet.total - parcel.place.len;
            let done = packet.offset - head;
            // Checked for each part: changing the tag or the segment stops a transfer in the middle.
            let put = self.check(&parcel).and_then(|side| {
                let offset = parcel.place.offset.checked_add(done).ok_or(Code::BadSegmentOffset)?;
                side.put(offset, &mut Body::Wire(packet))
            });
            self.open[at].code = put.err();
        }
        if !is_last {
            return Flow::Continue;
        }
        match self.open.swap_remove(at).code {
            None => self.accept(core, parcel, Body::Kept(&[])),
            Some(code) => {
                self.give_back(core, &parcel, Body::Kept(&[]), code);
                Flow::Continue
            }
        }
    }
}
