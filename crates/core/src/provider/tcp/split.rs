//! Cutting a stream of bytes into packets, and long packets into the parts that have arrived.

use crate::wire::{Begin, FLAG_CHUNK, FLAG_LAST, HEAD_BYTES, Head, Kind};

use super::payload_max;

/// Fewer bytes of a long packet are not worth a call of its handler.
const PART_BYTES_MIN: usize = 2048;

/// What the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// A packet, or a part of a long message: `skip` bytes of header, then `head.len` bytes.
    Packet { head: Head, skip: usize },
    /// Not enough to say.
    More,
    /// Nothing a peer of ours would say.
    Nonsense(&'static str),
}

/// Where in the stream of packets we are.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    /// The rest of a packet whose beginning was handed out: as a piece of its message.
    rest: Option<Head>,
}

impl Splitter {
    /// What comes next in `bytes`. A packet that is returned counts as taken.
    #[inline]
    pub fn next(&mut self, bytes: &[u8]) -> Split {
        if let Some(rest) = self.rest {
            return self.next_of(rest, bytes.len());
        }
        let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else { return Split::More };
        let Some(head) = Head::from_bytes(head) else { return Split::Nonsense("an unknown kind of packet") };
        if head.len as usize > payload_max(head.kind) || head.flags & FLAG_CHUNK != 0 {
            return Split::Nonsense("a packet that does not belong on this wire");
        }
        let body = &bytes[HEAD_BYTES..];
        if body.len() >= head.len as usize {
            return Split::Packet { head, skip: HEAD_BYTES };
        }
        match head.kind {
            Kind::Piece => self.begin_of(head, body.len(), head.w1),
            Kind::Begin => match body.get(8..16).and_then(|word| word.try_into().ok()) {
                Some(word) => self.begin_of(head, body.len(), u64::from_le_bytes(word)),
                None => Split::More,
            },
            _ => Split::More,
        }
    }

    /// The message of which more bytes come next, and how many of its packet; `None` between packets, or if the packet ends it.
    #[inline]
    pub fn ahead(&self) -> Option<(u64, usize)> {
        let rest = self.rest.filter(|rest| rest.flags & FLAG_LAST == 0)?;
        Some((rest.w1, rest.len as usize))
    }

    /// So many of the bytes that are [ahead](Splitter::ahead) were taken elsewhere.
    pub fn took(&mut self, bytes: usize) {
        self.rest = self.rest.and_then(|rest| {
            let len = rest.len.saturating_sub(bytes as u32);
            (len > 0).then_some(Head { len, ..rest })
        });
    }

    /// The first part of a packet of which `here` bytes have arrived.
    fn begin_of(&mut self, head: Head, here: usize, stream: u64) -> Split {
        if here < PART_BYTES_MIN + Begin::BYTES {
            return Split::More;
        }
        let here = here as u32;
        self.rest = Some(Head { kind: Kind::Piece, len: head.len - here, w1: stream, ..head });
        Split::Packet { head: Head { len: here, flags: head.flags & !FLAG_LAST, ..head }, skip: HEAD_BYTES }
    }

    /// The next part of a packet that was begun.
    fn next_of(&mut self, rest: Head, here: usize) -> Split {
        if here < PART_BYTES_MIN.min(rest.len as usize) {
            return Split::More;
        }
        let now = (here.min(rest.len as usize)) as u32;
        self.rest = (now < rest.len).then_some(Head { len: rest.len - now, ..rest });
        // Of a packet that ends its message, only the last part does.
        let flags = if self.rest.is_some() { rest.flags & !FLAG_LAST } else { rest.flags };
        Split::Packet { head: Head { len: now, flags, ..rest }, skip: 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Port;

    /// Feeds `stream` in portions, as reads of a socket would, some of them straight to their place if they may; says what each message's bytes
    /// were.
    fn received(
        stream: &[u8],
        portions: &[usize],
        direct: bool,
    ) -> Result<Vec<(u64, Vec<u8>)>, &'static str> {
        let (mut splitter, mut buffer, mut rest) = (Splitter::default(), Vec::new(), stream);
        let mut got: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut portions = portions.iter().cycle();
        while !rest.is_empty() {
            let (now, later) = rest.split_at((*portions.next().unwrap()).min(rest.len()));
            rest = later;
            let mut now = now;
            if let (true, true, Some((stream, len))) = (direct, buffer.is_empty(), splitter.ahead()) {
                let (placed, behind) = now.split_at(now.len().min(len));
                let open = got.iter_mut().rev().find(|(id, _)| *id == stream).expect("it is open");
                open.1.extend_from_slice(placed);
                splitter.took(placed.len());
                now = behind;
            }
            buffer.extend_from_slice(now);
            loop {
                match splitter.next(&buffer) {
                    Split::More => break,
                    Split::Nonsense(what) => return Err(what),
                    Split::Packet { head, skip } => {
                        let end = skip + head.len as usize;
                        let mut body = buffer[skip..end].to_vec();
                        if head.kind == Kind::Begin {
                            assert!(body.len() >= Begin::BYTES);
                            got.push((u64::from_le_bytes(body[8..16].try_into().unwrap()), Vec::new()));
                            body.drain(..Begin::BYTES);
                        }
                        match got.iter_mut().rev().find(|(id, _)| *id == head.w1) {
                            Some(open) if head.kind == Kind::Piece => open.1.extend(body),
                            _ if head.kind == Kind::Begin => got.last_mut().unwrap().1.extend(body),
                            _ => got.push((head.w1, body)),
                        }
                        buffer.drain(..end);
                    }
                }
            }
        }
        assert!(buffer.is_empty(), "everything is handed out once everything is there");
        Ok(got)
    }

    proptest! {
        #[test]
        fn packets_come_out_as_they_went_in_however_the_stream_is_cut(
            messages in proptest::collection::vec((0usize..40_000, 0usize..20_000), 1..8),
            portions in proptest::collection::vec(1usize..10_000, 1..8),
            direct: bool,
        ) {
            let (mut stream, mut sent) = (Vec::new(), Vec::new());
            for (i, &(first, second)) in messages.iter().enumerate() {
                let id = i as u64;
                let bytes: Vec<u8> = (0..first + second).map(|j| (j * 7 + i) as u8).collect();
                let head = |kind, len: usize, w1| Head { kind, flags: 0, port: Port(1), len: len as u32, w1 };
                if second == 0 {
                    stream.extend_from_slice(&head(Kind::Message, first, id).to_bytes());
                    stream.extend_from_slice(&bytes);
                } else {
                    stream.extend_from_slice(&head(Kind::Begin, first + Begin::BYTES, 99).to_bytes());
                    let begin = Begin { total: bytes.len() as u64, stream: i as u32 };
                    begin.words().iter().for_each(|word| stream.extend_from_slice(&word.to_le_bytes()));
                    stream.extend_from_slice(&bytes[..first]);
                    stream.extend_from_slice(&head(Kind::Piece, second, id).to_bytes());
                    stream.extend_from_slice(&bytes[first..]);
                }
                sent.push((id, bytes));
            }
            prop_assert_eq!(received(&stream, &portions, direct), Ok(sent));
        }

        #[test]
        fn any_bytes_are_packets_or_not(stream in proptest::collection::vec(any::<u8>(), 0..5000), kind in 0u8..14) {
            let mut splitter = Splitter::default();
            let mut stream = stream;
            if stream.len() > 8 {
                // A likely header, so that more than the first check is reached.
                (stream[2], stream[3], stream[6], stream[7]) = (0, 0, 0, kind);
            }
            let mut rest = &stream[..];
            while let Split::Packet { head, skip } = splitter.next(rest) {
                let end = skip + head.len as usize;
                prop_assert!(end <= rest.len() && end > 0);
                rest = &rest[end..];
            }
        }
    }
}
