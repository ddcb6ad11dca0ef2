//! What an active message looks like inside a packet of the core. The only file here that knows where the bits are.
//!
//! ```text
//!  port:  0xA (4) │ kind (4) │ want an acknowledgement (1) │ … │ number of arguments (4)
//!  imm:   to endpoint (16) │ from endpoint (16) │ handler (8) │ translation (8) │ sequence (16)
//!  payload:  tag │ offset, bulk only │ arguments │ data, if medium or bulk
//!  returned: tag │ code, kind, count │ offset and length, bulk only │ arguments │ data, if medium
//! ```
//!
//! Translation and sequence are the requester's own; whoever answers hands them back unchanged. Because the messages of a
//! pair arrive in order, an answer to number *n* also acknowledges everything before it.

use barewire_core::Port;

use super::names::Code;

/// Most arguments a message can have.
///
/// ```
/// use barewire::am::{ARGS_MAX, CallError, Simple};
/// use barewire::core::{Config, Endpoint, Peer, job::Job};
/// let mut am = Simple::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), ());
/// assert_eq!(am.request(Peer(0), 0, &[0; ARGS_MAX]), Ok(()));
/// assert_eq!(am.request(Peer(0), 0, &[0; ARGS_MAX + 1]), Err(CallError::TooManyArgs(9)));
/// ```
pub const ARGS_MAX: usize = 8;

/// What kind of active message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    RequestShort = 0,
    ReplyShort = 1,
    RequestMedium = 2,
    ReplyMedium = 3,
    RequestXfer = 4,
    ReplyXfer = 5,
    Ack = 6,
    Returned = 7,
}

impl Kind {
    pub fn from_bits(bits: u16) -> Option<Kind> {
        use Kind::*;
        const ALL: [Kind; 8] =
            [RequestShort, ReplyShort, RequestMedium, ReplyMedium, RequestXfer, ReplyXfer, Ack, Returned];
        ALL.get(usize::from(bits)).copied()
    }

    #[inline(always)]
    pub fn is_request(self) -> bool {
        matches!(self, Kind::RequestShort | Kind::RequestMedium | Kind::RequestXfer)
    }

    pub fn is_xfer(self) -> bool {
        matches!(self, Kind::RequestXfer | Kind::ReplyXfer)
    }

    pub fn is_medium(self) -> bool {
        matches!(self, Kind::RequestMedium | Kind::ReplyMedium)
    }
}

/// Over virtual interfaces: the data of a bulk transfer is in its place already, and only the head follows, with the length behind the
/// offset.
pub(super) const PLACED: u16 = 0x40;
/// The same, but the data could not be put into its place: the message is to come back.
pub(super) const MISPLACED: u16 = 0x20;
/// May I put data there? Kind and handler are those of the message that would follow: port, tag, offset, length.
pub(super) const PLACE_ASK: Port = Port(MARK | 0x800);
/// The answer: a handle and the length of the segment, or nothing.
pub(super) const PLACE_TELL: Port = Port(MARK | 0x900);
/// Requests are done, and nothing else was sent for them.
pub(super) const CREDIT: Port = Port(MARK | 0xa00);

/// The same port with these flags.
#[inline(always)]
pub(super) fn with(port: Port, flags: u16) -> Port {
    Port(port.0 | flags)
}

const MARK: u16 = 0xA000;
const WANT: u16 = 0x80;
const ARGS: u16 = 0x0f;

/// The port of a message.
#[inline(always)]
pub(super) fn port(kind: Kind, want: bool, args: usize) -> Port {
    Port(MARK | (kind as u16) << 8 | if want { WANT } else { 0 } | args as u16)
}

/// Everything a port says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PortBits(pub u16);

impl PortBits {
    /// Whether it is a short message, and if so whether it is a request.
    #[inline(always)]
    pub fn short(self) -> Option<bool> {
        if self.0 & 0xfe00 == MARK { Some(self.0 & 0x100 == 0) } else { None }
    }

    pub fn kind(self) -> Option<Kind> {
        if self.0 & 0xf000 == MARK { Kind::from_bits(self.0 >> 8 & 0xf) } else { None }
    }

    #[inline(always)]
    pub fn want(self) -> bool {
        self.0 & WANT != 0
    }

    #[inline(always)]
    pub fn args(self) -> usize {
        usize::from(self.0 & ARGS)
    }
}

/// The immediate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Imm(pub u64);

impl Imm {
    #[inline(always)]
    pub fn new(to: u16, from: u16, handler: u8, slot: u8, seq: u16) -> Imm {
        Imm(u64::from(to) << 48
            | u64::from(from) << 32
            | u64::from(handler) << 24
            | u64::from(slot) << 16
            | u64::from(seq))
    }

    #[inline(always)]
    pub fn to(self) -> u16 {
        (self.0 >> 48) as u16
    }

    #[inline(always)]
    pub fn from(self) -> u16 {
        (self.0 >> 32) as u16
    }

    #[inline(always)]
    pub fn handler(self) -> u8 {
        (self.0 >> 24) as u8
    }

    #[inline(always)]
    pub fn slot(self) -> u8 {
        (self.0 >> 16) as u8
    }

    #[inline(always)]
    pub fn seq(self) -> u16 {
        self.0 as u16
    }

    /// The same with this handler and number, where it had none.
    #[inline(always)]
    pub fn with(self, handler: u8, seq: u16) -> Imm {
        Imm(self.0 | u64::from(handler) << 24 | u64::from(seq))
    }

    /// The way back, to `handler` of the sender.
    #[inline(always)]
    pub fn back(self, handler: u8) -> Imm {
        Imm::new(self.from(), self.to(), handler, self.slot(), self.seq())
    }
}

/// The second word of a returned message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Why {
    pub code: Code,
    pub kind: Kind,
    pub args: usize,
}

impl Why {
    pub fn word(self) -> u64 {
        self.code as u64 | (self.kind as u64) << 8 | (self.args as u64) << 16
    }

    pub fn from_word(word: u64) -> Option<Why> {
        let args = (word >> 16) as usize;
        Some(Why {
            code: Code::from_byte(word as u8)?,
            kind: Kind::from_bits((word >> 8 & 0xff) as u16)
                .filter(|k| !matches!(k, Kind::Ack | Kind::Returned))?,
            args: Some(args).filter(|&n| n <= ARGS_MAX)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_immediate_keeps_its_parts(to: u16, from: u16, handler: u8, slot: u8, seq: u16) {
            let imm = Imm::new(to, from, handler, slot, seq);
            prop_assert_eq!((imm.to(), imm.from(), imm.handler(), imm.slot(), imm.seq()), (to, from, handler, slot, seq));
            prop_assert_eq!(Imm::new(to, from, 0, slot, 0).with(handler, seq), imm);
            prop_assert_eq!(imm.back(7), Imm::new(from, to, 7, slot, seq));
        }

        #[test]
        fn any_word_is_a_reason_or_not(word: u64) {
            if let Some(why) = Why::from_word(word) {
                prop_assert_eq!(Why::from_word(why.word()), Some(why));
            }
        }

        #[test]
        fn any_port_is_a_kind_or_not(bits: u16) {
            let bits = PortBits(bits);
            let short = match bits.kind() {
                Some(Kind::RequestShort) => Some(true),
                Some(Kind::ReplyShort) => Some(false),
                _ => None,
            };
            prop_assert_eq!(bits.short(), short);
            if let Some(kind) = bits.kind() {
                let again = PortBits(port(kind, bits.want(), bits.args()).0);
                prop_assert_eq!((again.kind(), again.want(), again.args()), (Some(kind), bits.want(), bits.args()));
            }
        }
    }
}
