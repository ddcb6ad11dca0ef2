//! What a packet looks like: two header words, then the payload. The only file that knows offsets.
//!
//! ```text
//!  w0:  len (32) │ port (16) │ flags (8) │ kind (8)      never zero, because no kind is
//!  w1:  the message's immediate, or what the kind says
//! ```
//!
//! Every number that comes in here comes from outside and is checked: an unknown kind or a length beyond the
//! link's limit makes [`Head::unpack`] or its caller refuse the packet.

use barewire_sys::wirebuf::WireRef;

use crate::{Peer, Port};

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A whole message. `w1` is its immediate.
    Message = 1,
    /// The first packet of a long message. `w1` is its immediate; the payload opens with [`Begin`], which stays in the ring where the rest is in a chunk. By the shuttle it is the only one: its length is
    /// that of the message, and the stream stands beside the header.
    Begin = 2,
    /// A further packet of a long message. `w1` is the stream.
    Piece = 3,
    /// `w1` is how many bytes of packets, headers and all, the receiver is done with since the link opened.
    Credit = 4,
    /// Bytes for a region. `w1` is the operation; the payload opens with [`Access`].
    Put = 5,
    /// A wish for bytes of a region. `w1` is the operation; the payload is [`Access`].
    Get = 6,
    /// Bytes of a region that were wished for. `w1` is the operation; the payload opens with the offset among them.
    Data = 7,
    /// An operation's outcome. `w1` is the operation; the payload is a status word and a value.
    Ack = 8,
    /// An atomic update. `w1` is the operation; the payload is [`Access`], code, operand, comparand.
    Atomic = 9,
    /// A neighbour asks for the descriptor behind a region. `w1` is the operation; the payload is [`Access`].
    Map = 10,
    /// The sender leaves in good order.
    Bye = 11,
    /// Nothing: proof that the wire is alive.
    Ping = 12,
}

impl Kind {
    #[inline]
    fn from_byte(byte: u8) -> Option<Kind> {
        use Kind::*;
        const ALL: [Kind; 12] = [Message, Begin, Piece, Credit, Put, Get, Data, Ack, Atomic, Map, Bye, Ping];
        ALL.get(usize::from(byte).wrapping_sub(1)).copied()
    }
}

/// The payload is not here but in a chunk of the sender's pool; here is only where, and what opens it if it begins a long message.
pub const FLAG_CHUNK: u8 = 1;
/// The last packet of a put: answer it, and run the port's handler if it carries a notice. On a piece: the message ends
/// here, before the length it announced.
pub const FLAG_LAST: u8 = 2;
/// A put that runs the port's handler once its bytes are in place.
pub const FLAG_NOTICE: u8 = 4;

/// A packet's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What it is for.
    pub kind: Kind,
    /// `FLAG_*` bits.
    pub flags: u8,
    /// The handler it is for.
    pub port: Port,
    /// Bytes of payload.
    pub len: u32,
    /// The immediate, or what the kind says.
    pub w1: u64,
}

/// Bytes of a header on a byte-stream wire.
pub const HEAD_BYTES: usize = 16;

/// `w0` of a plain message, which is all the hot path makes and looks for.
#[inline(always)]
pub const fn message_w0(port: Port, len: usize) -> u64 {
    len as u64 | (port.0 as u64) << 32 | (Kind::Message as u64) << 56
}

/// The length and port in `w0`, if it is that of a plain message with no flags.
#[inline(always)]
pub const fn as_message(w0: u64) -> Option<(Port, usize)> {
    if w0 >> 48 == (Kind::Message as u64) << 8 {
        Some((Port((w0 >> 32) as u16), (w0 & 0xffff_ffff) as usize))
    } else {
        None
    }
}

/// The length and port in `w0`, if it is that of a plain message whose payload is in a chunk of the sender's pool.
#[inline(always)]
pub const fn as_chunked_message(w0: u64) -> Option<(Port, usize)> {
    as_message(w0 ^ chunked(0))
}

/// The same header of a packet whose payload is in a chunk of the sender's pool.
#[inline(always)]
pub const fn chunked(w0: u64) -> u64 {
    w0 | (FLAG_CHUNK as u64) << 48
}

impl Head {
    /// The first header word.
    #[inline]
    pub fn w0(&self) -> u64 {
        u64::from(self.len)
            | u64::from(self.port.0) << 32
            | u64::from(self.flags) << 48
            | (self.kind as u64) << 56
    }

    /// Both header words, and the bytes of payload.
    #[inline(always)]
    pub fn words(&self) -> (u64, u64, usize) {
        (self.w0(), self.w1, self.len as usize)
    }

    /// The header in two words, if its kind is known.
    #[inline]
    pub fn unpack(w0: u64, w1: u64) -> Option<Head> {
        Some(Head {
            kind: Kind::from_byte((w0 >> 56) as u8)?,
            flags: (w0 >> 48) as u8,
            port: Port((w0 >> 32) as u16),
            len: w0 as u32,
            w1,
        })
    }

    /// That of a long message by the shuttle, if it is one.
    pub fn unpack_long(w0: u64, w1: u64) -> Option<Head> {
        Head::unpack(w0, w1).filter(|head| (head.kind, head.flags) == (Kind::Begin, 0))
    }

    /// The header as bytes.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&self.w0().to_le_bytes());
        bytes[8..].copy_from_slice(&self.w1.to_le_bytes());
        bytes
    }

    /// The header in these bytes, if its kind is known.
    #[inline]
    pub fn from_bytes(bytes: &[u8; HEAD_BYTES]) -> Option<Head> {
        let (w0, w1) = bytes.split_at(8);
        let word = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("half of sixteen is eight"));
        Head::unpack(word(w0), word(w1))
    }
}

/// What opens the payload of a [`Kind::Begin`] packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Bytes of the whole message.
    pub total: u64,
    /// Which of the sender's open messages this is.
    pub stream: u32,
}

impl Begin {
    /// Bytes on the wire.
    pub const BYTES: usize = 16;

    /// As words on the wire.
    pub fn words(&self) -> [u64; 2] {
        [self.total, u64::from(self.stream)]
    }

    /// From words on the wire.
    pub fn from_words([total, stream]: [u64; 2]) -> Option<Begin> {
        Some(Begin { total, stream: u32::try_from(stream).ok()? })
    }

    /// From the words that open a payload.
    #[inline]
    pub fn read(payload: &mut WireRef<'_>) -> Option<Begin> {
        Begin::from_words([payload.read_u64()?, payload.read_u64()?])
    }
}

/// Which bytes of which region, and by what right: opens the payload of region packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which export.
    pub slot: u32,
    /// The secret that proves it was granted.
    pub nonce: u64,
    /// First byte.
    pub offset: u64,
    /// How many bytes the whole operation is about.
    pub len: u64,
}

impl Access {
    /// Bytes on the wire.
    pub const BYTES: usize = 32;

    /// As words on the wire.
    pub fn words(&self) -> [u64; 4] {
        [u64::from(self.slot), self.nonce, self.offset, self.len]
    }

    /// From words on the wire.
    pub fn from_words([slot, nonce, offset, len]: [u64; 4]) -> Option<Access> {
        Some(Access { slot: u32::try_from(slot).ok()?, nonce, offset, len })
    }
}

/// The address card of an endpoint: how others can reach it. Passed through the job's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Who it is.
    pub peer: Peer,
    /// Its process id, for messages to people.
    pub pid: u32,
    /// Two endpoints with the same value can share memory.
    pub host: [u8; 16],
    /// The name of its local socket; empty if it has none.
    pub local: String,
    /// Where it listens for TCP; empty if it does not.
    pub tcp: Vec<std::net::SocketAddr>,
}

impl Card {
    /// The longest card accepted.
    pub const BYTES_MAX: usize = 1024;

    /// As a line of text.
    pub fn encode(&self) -> Vec<u8> {
        let host: String = self.host.iter().map(|b| format!("{b:02x}")).collect();
        let tcp: Vec<String> = self.tcp.iter().map(|a| a.to_string()).collect();
        format!("1 {} {} {host} {} {}", self.peer.0, self.pid, dash(&self.local), dash(&tcp.join(",")))
            .into_bytes()
    }

    /// From a line of text; `None` if it is not a card.
    pub fn decode(bytes: &[u8]) -> Option<Card> {
        if bytes.len() > Card::BYTES_MAX {
            return None;
        }
        let text = std::str::from_utf8(bytes).ok()?;
        let mut words = text.split(' ');
        if words.next()? != "1" {
            return None;
        }
        let peer = Peer(words.next()?.parse().ok()?);
        let pid = words.next()?.parse().ok()?;
        let hex = words.next()?.as_bytes();
        if hex.len() != 32 {
            return None;
        }
        let mut host = [0; 16];
        for (byte, pair) in host.iter_mut().zip(hex.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        let local = undash(words.next()?).to_owned();
        let tcp = undash(words.next()?);
        let tcp = tcp.split(',').filter(|a| !a.is_empty()).map(|a| a.parse().ok()).collect::<Option<_>>()?;
        if words.next().is_some() {
            return None;
        }
        Some(Card { peer, pid, host, local, tcp })
    }
}

fn dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

fn undash(text: &str) -> &str {
    if text == "-" { "" } else { text }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_fast_form_is_the_slow_form() {
        let head = Head { kind: Kind::Message, flags: 0, port: Port(0xabcd), len: 0x12345, w1: 9 };
        assert_eq!(head.w0(), message_w0(head.port, head.len as usize));
        assert_eq!(as_message(head.w0()), Some((head.port, 0x12345)));
        assert_eq!(as_message(Head { flags: FLAG_CHUNK, ..head }.w0()), None);
        assert_eq!(as_message(Head { kind: Kind::Begin, ..head }.w0()), None);
    }

    #[test]
    fn a_card_survives_the_directory() {
        let tcp = vec!["127.0.0.1:80".parse().unwrap()];
        let card = Card { peer: Peer(3), pid: 7, host: [9; 16], local: "bw-x".into(), tcp };
        assert_eq!(Card::decode(&card.encode()), Some(card));
    }

    proptest! {
        #[test]
        fn a_header_survives_the_wire(w0: u64, w1: u64) {
            if let Some(head) = Head::unpack(w0, w1) {
                prop_assert_eq!(head.w0(), w0);
                prop_assert_eq!(Head::from_bytes(&head.to_bytes()), Some(head));
            }
        }
    }
}
