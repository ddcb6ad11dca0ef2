//! The datagram: the only file that knows byte offsets.
//!
//! ```text
//!  0  u32  CRC-32C of everything behind it, up to the end of the payload
//!  4  u8   version (1)
//!  5  u8   kind: 1 hello, 2 data, 3 ack, 4 probe, 5 reset
//!  6  u8   n, the number of selective acknowledgement words (0..=16)
//!  7  u8   flags: bit 0 set if `echo` and `held` mean something
//!  8  u64  session of the sender of this datagram
//! 16  u64  session of the receiver as far as the sender knows (hello: 0)
//! 24  u64  data: packet number; reset: the session that is refused; otherwise 0
//! 32  u64  ack: all packets before this number have arrived
//! 40  u16  window: how many packets from `ack` on the sender of this datagram can hold
//! 42  u16  payload length in bytes (0 unless data)
//! 44  u32  stamp: when this datagram left, in ticks of 64 ns of its sender's clock
//! 48  u32  echo: the stamp of the last data or probe that arrived
//! 52  u32  held: how many ticks ago it arrived
//! 56  n × u64   bit i of word w is set if packet ack + 1 + 64 w + i has arrived
//! .. payload
//! ```
//!
//! All little-endian. Bytes behind the payload are padding (short Ethernet frames have some) and are ignored.

use crate::time::Nanos;

/// Bytes before the selective acknowledgement words.
pub(super) const HEADER_BYTES: usize = 56;
/// The most selective acknowledgement words in a datagram, hence windows of at most 1024 packets.
pub(super) const SACK_WORDS_MAX: usize = 16;

/// What a datagram is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// "I have something to send and do not know your session." Answered by an ack.
    Hello = 1,
    /// One packet.
    Data = 2,
    /// Acknowledgement and window only.
    Ack = 3,
    /// Asks for an ack, carries nothing.
    Probe = 4,
    /// "The session you address is not mine."
    Reset = 5,
}

/// The fixed part of a datagram, in host terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub kind: Kind,
    pub src: u64,
    pub dst: u64,
    pub seq: u64,
    pub ack: u64,
    pub window: u16,
    pub stamp: Stamp,
    pub echo: Option<Echo>,
}

/// The stamp of the last datagram that asked for an answer, and how long ago it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Echo {
    pub stamp: Stamp,
    pub held_ticks: u32,
}

/// A datagram that passed every check that needs no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Datagram<'a> {
    pub header: Header,
    pub sack: Sack<'a>,
    pub payload: &'a [u8],
}

/// The datagram is damaged, foreign or nonsense. Which of these does not matter: it is dropped and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Invalid;

/// Checks and takes apart a datagram. Reads nothing outside `bytes` and believes nothing before the checksum.
pub(super) fn decode(bytes: &[u8]) -> Result<Datagram<'_>, Invalid> {
    let (head, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(Invalid)?;
    let sack_bytes = usize::from(head[6]) * 8;
    let payload_bytes = usize::from(u16_at(head, 42));
    let total = HEADER_BYTES + sack_bytes + payload_bytes;
    let body = bytes.get(4..total).ok_or(Invalid)?;
    if head[4] != VERSION || usize::from(head[6]) > SACK_WORDS_MAX || head[7] & !FLAG_ECHO != 0 {
        return Err(Invalid);
    }
    if u32_at(head, 0) != crc32c::crc32c(body) {
        return Err(Invalid);
    }
    let kind = match head[5] {
        1 => Kind::Hello,
        2 => Kind::Data,
        3 => Kind::Ack,
        4 => Kind::Probe,
        5 => Kind::Reset,
        _ => return Err(Invalid),
    };
    if kind != Kind::Data && payload_bytes != 0 {
        return Err(Invalid);
    }
    let echo = Echo { stamp: Stamp(u32_at(head, 48)), held_ticks: u32_at(head, 52) };
    let header = Header {
        kind,
        src: u64_at(head, 8),
        dst: u64_at(head, 16),
        seq: u64_at(head, 24),
        ack: u64_at(head, 32),
        window: u16_at(head, 40),
        stamp: Stamp(u32_at(head, 44)),
        echo: (head[7] & FLAG_ECHO != 0).then_some(echo),
    };
    let (sack, rest) = rest.split_at(sack_bytes);
    Ok(Datagram { header, sack: Sack { words: sack }, payload: &rest[..payload_bytes] })
}

/// Writes a datagram to `out`, replacing what is there.
///
/// `sack` holds at most [`SACK_WORDS_MAX`] words and `payload` at most `u16::MAX` bytes; the configuration's
/// limits see to both.
pub(super) fn encode(header: &Header, sack: &[u64], payload: &[u8], out: &mut Vec<u8>) {
    debug_assert!(sack.len() <= SACK_WORDS_MAX && payload.len() <= usize::from(u16::MAX));
    let (echo, flags) = match header.echo {
        Some(echo) => (echo, FLAG_ECHO),
        None => (Echo { stamp: Stamp(0), held_ticks: 0 }, 0),
    };
    let mut head = [0u8; HEADER_BYTES];
    head[4..8].copy_from_slice(&[VERSION, header.kind as u8, sack.len() as u8, flags]);
    head[8..16].copy_from_slice(&header.src.to_le_bytes());
    head[16..24].copy_from_slice(&header.dst.to_le_bytes());
    head[24..32].copy_from_slice(&header.seq.to_le_bytes());
    head[32..40].copy_from_slice(&header.ack.to_le_bytes());
    head[40..42].copy_from_slice(&header.window.to_le_bytes());
    head[42..44].copy_from_slice(&(payload.len() as u16).to_le_bytes());
    head[44..48].copy_from_slice(&header.stamp.0.to_le_bytes());
    head[48..52].copy_from_slice(&echo.stamp.0.to_le_bytes());
    head[52..56].copy_from_slice(&echo.held_ticks.to_le_bytes());
    out.clear();
    out.extend_from_slice(&head);
    for word in sack {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(payload);
    let crc = crc32c::crc32c(&out[4..]);
    out[..4].copy_from_slice(&crc.to_le_bytes());
}

/// The selective acknowledgement words as they lie in the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sack<'a> {
    words: &'a [u8],
}

impl<'a> Sack<'a> {
    /// The set bits in rising order: `i` stands for packet `ack + 1 + i`.
    pub fn offsets(self) -> impl Iterator<Item = u64> + use<'a> {
        self.words().enumerate().flat_map(|(at, word)| Bits(word).map(move |bit| at as u64 * 64 + bit))
    }

    /// The highest set bit.
    pub fn highest(self) -> Option<u64> {
        let (at, word) = self.words().enumerate().filter(|&(_, word)| word != 0).last()?;
        Some(at as u64 * 64 + u64::from(63 - word.leading_zeros()))
    }

    fn words(self) -> impl Iterator<Item = u64> + use<'a> {
        self.words
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("a chunk has 8 bytes")))
    }
}

/// The set bits of a word, lowest first.
struct Bits(u64);

impl Iterator for Bits {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let bit = (self.0 != 0).then(|| u64::from(self.0.trailing_zeros()))?;
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

/// The low 32 bits of a time in ticks of 64 ns: wraps after 274 s, which outlives any datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(pub u32);

impl Stamp {
    /// The stamp of a datagram that leaves now.
    pub fn of(now: Nanos) -> Self {
        Self(ticks(now) as u32)
    }

    /// The full tick count of a stamp of our own that has come back; `None` if it lies in the future or too
    /// far back to tell, which an honest peer's echo does not.
    pub fn ticks_at(self, now: Nanos) -> Option<u64> {
        let age = (ticks(now) as u32).wrapping_sub(self.0);
        if age > u32::MAX / 2 {
            return None;
        }
        ticks(now).checked_sub(u64::from(age))
    }
}

/// A time in ticks.
pub(super) fn ticks(time: Nanos) -> u64 {
    time.0 >> TICK_SHIFT
}

/// The span of this many ticks.
pub(super) fn span(ticks: u64) -> Nanos {
    Nanos(ticks.saturating_mul(1 << TICK_SHIFT))
}

/// Overwrites the sessions of a datagram and makes its checksum right again, so that a fuzzer's bytes get
/// past the first two doors. Leaves anything too short alone.
#[cfg(any(test, fuzzing))]
pub(super) fn reseal(bytes: &mut [u8], src: u64, dst: u64) {
    if bytes.len() < HEADER_BYTES {
        return;
    }
    bytes[4] = VERSION;
    bytes[8..16].copy_from_slice(&src.to_le_bytes());
    bytes[16..24].copy_from_slice(&dst.to_le_bytes());
    let payload = usize::from(u16::from_le_bytes([bytes[42], bytes[43]]));
    let total = HEADER_BYTES + usize::from(bytes[6]) * 8 + payload;
    if let Some(body) = bytes.get(4..total) {
        let crc = crc32c::crc32c(body);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
    }
}

fn u16_at(head: &[u8; HEADER_BYTES], at: usize) -> u16 {
    u16::from_le_bytes([head[at], head[at + 1]])
}

fn u32_at(head: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

fn u64_at(head: &[u8; HEADER_BYTES], at: usize) -> u64 {
    u64::from(u32_at(head, at)) | u64::from(u32_at(head, at + 4)) << 32
}

const VERSION: u8 = 1;
const FLAG_ECHO: u8 = 1;
const TICK_SHIFT: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kinds() -> impl Strategy<Value = Kind> {
        prop_oneof![
            Just(Kind::Hello),
            Just(Kind::Data),
            Just(Kind::Ack),
            Just(Kind::Probe),
            Just(Kind::Reset)
        ]
    }

    prop_compose! {
        fn headers()(
            kind in kinds(),
            (src, dst, seq, ack) in any::<(u64, u64, u64, u64)>(),
            window in any::<u16>(),
            stamp in any::<u32>(),
            echo in any::<Option<(u32, u32)>>(),
        ) -> Header {
            let echo = echo.map(|(stamp, held_ticks)| Echo { stamp: Stamp(stamp), held_ticks });
            Header { kind, src, dst, seq, ack, window, stamp: Stamp(stamp), echo }
        }
    }

    fn any_datagram() -> impl Strategy<Value = (Header, Vec<u64>, Vec<u8>)> {
        let sack = prop::collection::vec(any::<u64>(), 0..=SACK_WORDS_MAX);
        let payload = prop::collection::vec(any::<u8>(), 0..2000);
        (headers(), sack, payload).prop_map(|(header, sack, payload)| {
            let payload = if header.kind == Kind::Data { payload } else { Vec::new() };
            (header, sack, payload)
        })
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded((header, sack, payload) in any_datagram(), padding in 0usize..40) {
            let mut bytes = vec![0xee; 5];
            encode(&header, &sack, &payload, &mut bytes);
            prop_assert_eq!(bytes.len(), HEADER_BYTES + sack.len() * 8 + payload.len());
            bytes.resize(bytes.len() + padding, 0x5a);
            let datagram = decode(&bytes).expect("an encoded datagram is valid");
            prop_assert_eq!(datagram.header, header);
            prop_assert_eq!(datagram.payload, &payload[..]);
            let set: Vec<u64> =
                (0..sack.len() as u64 * 64).filter(|i| sack[*i as usize / 64] >> (i % 64) & 1 == 1).collect();
            prop_assert_eq!(datagram.sack.highest(), set.last().copied());
            prop_assert_eq!(datagram.sack.offsets().collect::<Vec<_>>(), set);
        }

        #[test]
        fn one_to_three_flipped_bits_are_always_noticed(
            (header, sack, payload) in any_datagram(),
            flips in prop::collection::vec(any::<prop::sample::Index>(), 1..=3),
        ) {
            let mut good = Vec::new();
            encode(&header, &sack, &payload, &mut good);
            let mut bad = good.clone();
            for flip in flips {
                let bit = flip.index(bad.len() * 8);
                bad[bit / 8] ^= 1 << (bit % 8);
            }
            prop_assert!(bad == good || decode(&bad).is_err());
        }

        #[test]
        fn a_truncated_datagram_is_invalid(
            (header, sack, payload) in any_datagram(),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = Vec::new();
            encode(&header, &sack, &payload, &mut bytes);
            bytes.truncate(cut.index(bytes.len()));
            prop_assert_eq!(decode(&bytes), Err(Invalid));
        }

        #[test]
        fn arbitrary_bytes_never_panic_the_decoder(
            mut bytes in prop::collection::vec(any::<u8>(), 0..400),
            seal in any::<bool>(),
        ) {
            if seal {
                reseal(&mut bytes, 1, 2);
            }
            if let Ok(datagram) = decode(&bytes) {
                prop_assert!(datagram.sack.offsets().count() <= SACK_WORDS_MAX * 64);
            }
        }
    }

    #[test]
    fn a_stamp_comes_back_as_its_tick_even_across_the_wrap() {
        let left = Nanos(u64::from(u32::MAX) << TICK_SHIFT);
        let back = left + Nanos::from_millis(7);
        assert_eq!(Stamp::of(left).ticks_at(back), Some(ticks(left)));
        assert_eq!(Stamp::of(back).ticks_at(left), None);
    }

    #[test]
    fn a_stamp_from_before_the_clock_began_is_refused() {
        assert_eq!(Stamp(u32::MAX - 5).ticks_at(Nanos::ZERO), None);
    }

    #[test]
    fn the_checksum_is_the_published_crc32c() {
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
    }
}
