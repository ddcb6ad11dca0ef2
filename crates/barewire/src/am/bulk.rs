//! Bulk data: where it comes from, how it is put behind a message's head, and what is still on its way out.

use std::ops::Range;

use barewire_core::{Peer, SendError};
use barewire_sys::memory::Memory;
use barewire_sys::wirebuf::WireMut;

use super::link::{Link, Stream};
use super::names::Tag;
use super::side::{Parcel, Ticket};
use super::wire::{self, ARGS_MAX};

/// The bytes of a bulk transfer, where they are now.
///
/// ```
/// use barewire::am::{Bulk, Memory};
/// let memory = Memory::private(100);
/// assert_eq!(Bulk::from(&[1u8, 2, 3][..]).len(), 3);
/// assert_eq!(Bulk::from((&memory, 10..30)).len(), 20);
/// ```
#[derive(Clone, Debug)]
pub enum Bulk<'a> {
    /// Private bytes.
    Bytes(&'a [u8]),
    /// Bytes of a counted block, which can be sent later without a copy.
    Memory(&'a Memory, Range<usize>),
}

impl<'a> From<&'a [u8]> for Bulk<'a> {
    fn from(bytes: &'a [u8]) -> Bulk<'a> {
        Bulk::Bytes(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Bulk<'a> {
    fn from(bytes: &'a [u8; N]) -> Bulk<'a> {
        Bulk::Bytes(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Bulk<'a> {
    fn from(bytes: &'a Vec<u8>) -> Bulk<'a> {
        Bulk::Bytes(bytes)
    }
}

impl<'a> From<(&'a Memory, Range<usize>)> for Bulk<'a> {
    fn from((memory, range): (&'a Memory, Range<usize>)) -> Bulk<'a> {
        Bulk::Memory(memory, range)
    }
}

impl Bulk<'_> {
    /// How many bytes.
    ///
    /// ```
    /// use barewire::am::{Bulk, Memory};
    /// let memory = Memory::private(100);
    /// assert_eq!((Bulk::from(b"five!").len(), Bulk::from((&memory, 40..100)).len()), (5, 60));
    /// ```
    pub fn len(&self) -> usize {
        match self {
            Bulk::Bytes(bytes) => bytes.len(),
            Bulk::Memory(_, range) => range.len(),
        }
    }

    /// Whether there are none.
    ///
    /// ```
    /// use barewire::am::Bulk;
    /// assert!(Bulk::from(b"").is_empty() && !Bulk::from(b"x").is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the range does not lie in its memory.
    pub(super) fn is_bad(&self) -> bool {
        match self {
            Bulk::Bytes(_) => false,
            Bulk::Memory(memory, range) => range.start > range.end || range.end > memory.len(),
        }
    }

    /// Writes `n` bytes from `at` on.
    pub(super) fn write(&self, wire: &mut WireMut<'_>, at: usize, n: usize) {
        match self {
            Bulk::Bytes(bytes) => {
                wire.write(&bytes[at..at + n]);
            }
            Bulk::Memory(memory, range) => {
                if let Some(mut from) = memory.wire_ref(range.start + at, n) {
                    wire.write_from(&mut from);
                }
            }
        }
    }

    fn to_source(&self) -> Source {
        match self {
            Bulk::Bytes(bytes) => Source::Bytes(bytes.to_vec()),
            Bulk::Memory(memory, range) => Source::Memory((*memory).clone(), range.clone()),
        }
    }
}

/// Where in the target's segment bulk data goes.
///
/// ```
/// # use barewire::am::*;
/// # use barewire::core::{Config, Endpoint, Peer, job::Job};
/// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
/// # let bundle = node.allocate_bundle().unwrap();
/// # let ep = node.allocate_endpoint(bundle).unwrap();
/// # node.set_tag(ep, Tag(5)).unwrap();
/// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
/// node.set_seg(ep, Memory::shared(100).unwrap()).unwrap();
/// node.set_handler(ep, 1, |ctx, _| ctx.state.push(ctx.place().unwrap())).unwrap();
/// node.request_xfer(ep, 0, 1, &[], 20, b"hello").unwrap();
/// while node.poll(bundle) > 0 {}
/// assert_eq!(*node.state(), [Place { offset: 20, len: 5 }]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// First byte.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
}

/// What stands before the data: tag, offset, arguments.
#[derive(Debug)]
pub(super) struct Head {
    bytes: [u8; Head::BYTES_MAX],
    len: usize,
    pub args: usize,
}

impl Head {
    /// The longest head, of a returned message: tag, reason, offset, length and arguments.
    pub const BYTES_MAX: usize = 8 * (4 + ARGS_MAX);

    pub fn new(tag: Tag, offset: Option<u64>, args: &[u64]) -> Head {
        Head::of(tag, offset.as_slice(), args)
    }

    /// A head with any words between the tag and the arguments, at most three of them.
    pub fn of(tag: Tag, words: &[u64], args: &[u64]) -> Head {
        let mut head = Head { bytes: [0; Head::BYTES_MAX], len: 0, args: args.len().min(ARGS_MAX) };
        for word in [tag.0].iter().chain(words).chain(&args[..head.args]) {
            head.bytes[head.len..][..8].copy_from_slice(&word.to_le_bytes());
            head.len += 8;
        }
        head
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// One of the words: 0 is the tag, 1 the offset of a bulk transfer.
    pub fn word(&self, at: usize) -> u64 {
        self.bytes[8 * at..][..8].try_into().map_or(0, u64::from_le_bytes)
    }

    /// Writes `n` bytes from `at` on of the head with `data` behind it.
    pub fn gather(&self, data: &Bulk<'_>, wire: &mut WireMut<'_>, at: usize, n: usize) {
        let of_head = n.min(self.len.saturating_sub(at));
        if of_head > 0 {
            wire.write(&self.bytes[at..at + of_head]);
        }
        if n > of_head {
            data.write(wire, at + of_head - self.len, n - of_head);
        }
    }
}

/// A message that goes out piece by piece, or waits behind one that does.
#[derive(Debug)]
pub(super) struct Out {
    /// What comes back if it cannot be delivered; `returned` is not set.
    pub parcel: Parcel,
    /// The translation that an asynchronous request keeps busy.
    pub slot: Option<(u16, u8)>,
    head: Head,
    data: Source,
    sending: Option<Stream>,
}

/// Bytes that outlive the call that wants them sent.
#[derive(Debug)]
enum Source {
    Bytes(Vec<u8>),
    Memory(Memory, Range<usize>),
}

impl Source {
    fn bulk(&self) -> Bulk<'_> {
        match self {
            Source::Bytes(bytes) => Bulk::Bytes(bytes),
            Source::Memory(memory, range) => Bulk::Memory(memory, range.clone()),
        }
    }
}

impl Out {
    pub fn new(parcel: Parcel, slot: Option<(u16, u8)>, head: Head, data: &Bulk<'_>) -> Out {
        Out { parcel, slot, head, data: data.to_source(), sending: None }
    }

    pub fn to(&self) -> Peer {
        self.parcel.from
    }

    /// What the request spends once it is sent.
    pub fn ticket(&self) -> Ticket {
        let Parcel { from, tag, imm, want, .. } = self.parcel;
        Ticket { to: from, tag, imm: imm.back(imm.handler()), want }
    }

    /// Sends as much as there is room for; true once all is sent.
    pub fn pump(&mut self, core: &mut Link<'_>) -> Result<bool, SendError> {
        let to = self.parcel.from;
        let port = wire::port(self.parcel.kind, self.parcel.want, self.parcel.count);
        let imm = self.parcel.imm.back(self.parcel.imm.handler());
        let data = self.data.bulk();
        let len = self.head.bytes().len() + data.len();
        if self.slot.is_none() && self.sending.is_none() && len <= core.message_max(to) {
            core.reply_with(to, port, imm.0, len, |wire| self.head.gather(&data, wire, 0, len))?;
            return Ok(true);
        }
        if self.sending.is_none() {
            self.sending = Some(core.begin(to, port, imm.0, len as u64)?);
        }
        let sending = self.sending.as_mut().expect("set just above");
        while !sending.is_done() {
            match core.push(sending, &self.head, &data) {
                Ok(()) => {}
                Err(SendError::Full) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_data_come_out_in_order_whatever_the_pieces() {
        let memory = Memory::private(40);
        let data: Vec<u8> = (0..40).collect();
        assert!(memory.write(0, &data));
        let head = Head::new(Tag(7), Some(9), &[1, 2, 3]);
        for bulk in [Bulk::from(&data[5..35]), Bulk::from((&memory, 5..35))] {
            let mut want = head.bytes().to_vec();
            want.extend(&data[5..35]);
            for piece in 1..want.len() {
                let mut got = Vec::new();
                while got.len() < want.len() {
                    let n = piece.min(want.len() - got.len());
                    let mut part = vec![0; n];
                    head.gather(&bulk, &mut WireMut::new(&mut part), got.len(), n);
                    got.extend(part);
                }
                assert_eq!(got, want, "pieces of {piece}");
            }
        }
    }
}
