//! How the NICs talk to each other: which port means what. The only file here that knows where the bits are.
//!
//! ```text
//!  port:     0xB (4) │ kind (4) │ … │ has an immediate (1)
//!  message:  imm = the user's immediate │ payload = to VI (32), number (32) │ data
//!  the rest: imm and a few words, named in the functions below
//! ```

use barewire_core::Port;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Kind {
    /// Data for the next receive descriptor.
    Message = 0,
    /// An RDMA write with an immediate is in place: to VI and number, length.
    Notice = 1,
    /// What has been received, and how many receives were posted: to VI and number, posted.
    Ack = 2,
    /// A message could not be received: to VI and number; imm = why.
    Nak = 3,
    /// Wants to connect, as a client: imm = discriminator; VI, attributes, posted.
    Connect = 4,
    /// The server's word: to VI and from VI; imm = verdict; posted, discriminator.
    Answer = 5,
    /// Wants to connect, as a peer: like `Connect`.
    Meet = 6,
    /// Takes `Connect` or `Meet` back: imm = discriminator; VI.
    Withdraw = 7,
    /// The connection ends: to VI; from VI.
    Bye = 8,
    /// Asks for access to memory: to VI and from VI; imm = handle; rights.
    Resolve = 9,
    /// Access, or not: to VI and from VI; imm = handle; rights, whether, and the region's key.
    Resolved = 10,
}

impl Kind {
    #[inline(always)]
    pub fn of(port: Port) -> Option<Kind> {
        use Kind::*;
        const ALL: [Kind; 11] =
            [Message, Notice, Ack, Nak, Connect, Answer, Meet, Withdraw, Bye, Resolve, Resolved];
        if port.0 & 0xf000 != MARK {
            return None;
        }
        ALL.get(usize::from(port.0 >> 8 & 0xf)).copied()
    }
}

/// Why a message could not be received: not yet. Everything else is a cause's code.
pub(super) const NOT_READY: u64 = u64::MAX;

const MARK: u16 = 0xB000;
const IMMEDIATE: u16 = 1;

#[inline(always)]
pub(super) fn port(kind: Kind, immediate: bool) -> Port {
    Port(MARK | (kind as u16) << 8 | u16::from(immediate))
}

#[inline(always)]
pub(super) fn has_immediate(port: Port) -> bool {
    port.0 & IMMEDIATE != 0
}

/// A VI and a number in one word.
#[inline(always)]
pub(super) fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[inline(always)]
pub(super) fn split(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_is_a_kind_or_not() {
        let mut found = 0;
        for bits in 0..=u16::MAX {
            if let Some(kind) = Kind::of(Port(bits)) {
                assert_eq!(Kind::of(port(kind, has_immediate(Port(bits)))), Some(kind));
                found += 1;
            }
        }
        assert_eq!(found, 11 * 256);
    }
}
