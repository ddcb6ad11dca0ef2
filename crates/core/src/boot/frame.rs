//! Frames: the bytes between a rank, its host's agent and the launcher.
//!
//! A frame is an 8-byte header (magic, kind, two zero bytes, body length) and a body of bounded length. The magic is no
//! letter, so the same stream can also carry the newline-terminated text of PMI-1: [`split`] tells the two apart by
//! their first byte and returns one whole unit of either.

/// First byte of every frame.
pub const MAGIC: u8 = 0xBA;
/// Bytes before the body.
pub const HEADER_BYTES: usize = 8;
/// Longest body between a rank and its server.
pub const BOOT_BODY_BYTES_MAX: usize = 64 * 1024;
/// Longest line of PMI-1 text, newline included.
pub const LINE_BYTES_MAX: usize = 16 * 1024;

/// Bytes that no correct partner sends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The stream continues with something that is neither a frame nor a line of text.
    #[error("byte {byte:#04x} starts neither a frame nor a PMI line")]
    NoFrame {
        /// The offending byte.
        byte: u8,
    },
    /// A length beyond what this connection allows.
    #[error("a frame of {len} bytes is longer than the {max} allowed here")]
    TooLong {
        /// The length claimed.
        len: usize,
        /// The most that is allowed.
        max: usize,
    },
    /// A kind this end does not know.
    #[error("unknown frame kind {kind}")]
    UnknownKind {
        /// The kind.
        kind: u8,
    },
    /// A body that ends early, has bytes left over, or holds a value out of range.
    #[error("malformed {what}")]
    Malformed {
        /// What was being read.
        what: &'static str,
    },
}

/// One unit of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit<'a> {
    /// A frame of ours.
    Frame {
        /// What it says.
        kind: u8,
        /// With what.
        body: &'a [u8],
    },
    /// A line of PMI-1 text, without its newline.
    Line(&'a [u8]),
}

/// The first whole unit of `bytes` and its length, or `None` until more bytes have come.
///
/// ```
/// use barewire_core::boot::frame::{encode, split, Unit};
/// let bytes = encode(7, b"card");
/// assert_eq!(split(&bytes, 100).unwrap(), Some((Unit::Frame { kind: 7, body: b"card" }, bytes.len())));
/// assert_eq!(split(&bytes[..5], 100).unwrap(), None);
/// assert_eq!(split(b"cmd=init\n", 100).unwrap(), Some((Unit::Line(b"cmd=init"), 9)));
/// assert!(split(b"\xff", 100).is_err());
/// ```
pub fn split(bytes: &[u8], body_bytes_max: usize) -> Result<Option<(Unit<'_>, usize)>, FrameError> {
    match bytes.first() {
        None => Ok(None),
        Some(&MAGIC) => split_frame(bytes, body_bytes_max),
        Some(byte) if byte.is_ascii_lowercase() => split_line(bytes),
        Some(&byte) => Err(FrameError::NoFrame { byte }),
    }
}

fn split_frame(bytes: &[u8], body_bytes_max: usize) -> Result<Option<(Unit<'_>, usize)>, FrameError> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    if header[2..4] != [0, 0] {
        return Err(FrameError::Malformed { what: "frame header" });
    }
    let len = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
    if len > body_bytes_max {
        return Err(FrameError::TooLong { len, max: body_bytes_max });
    }
    Ok(rest.get(..len).map(|body| (Unit::Frame { kind: header[1], body }, HEADER_BYTES + len)))
}

fn split_line(bytes: &[u8]) -> Result<Option<(Unit<'_>, usize)>, FrameError> {
    let seen = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    match seen.iter().position(|&byte| byte == b'\n') {
        Some(end) => Ok(Some((Unit::Line(&bytes[..end]), end + 1))),
        None if seen.len() == LINE_BYTES_MAX => {
            Err(FrameError::TooLong { len: bytes.len(), max: LINE_BYTES_MAX })
        }
        None => Ok(None),
    }
}

/// A frame, ready to send.
pub fn encode(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    let len = u32::try_from(body.len()).expect("bodies are far below 4 GiB");
    bytes.extend_from_slice(&[MAGIC, kind, 0, 0]);
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// Writes a body field by field.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// An empty body.
    pub fn new() -> Self {
        Self::default()
    }
    /// Appends a byte.
    pub fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }
    /// Appends a number.
    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    /// Appends a signed number.
    pub fn i32(mut self, value: i32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    /// Appends a long number.
    pub fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    /// Appends bytes of a length that both sides know.
    pub fn array(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }
    /// Appends a length and that many bytes.
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        let len = u32::try_from(bytes.len()).expect("fields are far below 4 GiB");
        self.0.extend_from_slice(&len.to_le_bytes());
        self.0.extend_from_slice(bytes);
        self
    }
    /// Appends a count and each of `items`.
    pub fn list<T>(self, items: &[T], each: impl Fn(Self, &T) -> Self) -> Self {
        let len = u32::try_from(items.len()).expect("lists are far below 4 Gi items");
        items.iter().fold(self.u32(len), each)
    }
    /// The frame of this kind with this body.
    pub fn frame(self, kind: u8) -> Vec<u8> {
        encode(kind, &self.0)
    }
}

/// Reads a body field by field; every read checks that the bytes are there.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Reads `body`; `what` names it in errors.
    pub fn new(body: &'a [u8], what: &'static str) -> Self {
        Self { rest: body, what }
    }
    /// The error for a value that makes no sense.
    pub fn malformed(&self) -> FrameError {
        FrameError::Malformed { what: self.what }
    }
    /// Takes `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.malformed())?;
        self.rest = rest;
        Ok(*head)
    }
    /// Takes a byte.
    pub fn u8(&mut self) -> Result<u8, FrameError> {
        self.array::<1>().map(|bytes| bytes[0])
    }
    /// Takes a number.
    pub fn u32(&mut self) -> Result<u32, FrameError> {
        self.array().map(u32::from_le_bytes)
    }
    /// Takes a signed number.
    pub fn i32(&mut self) -> Result<i32, FrameError> {
        self.array().map(i32::from_le_bytes)
    }
    /// Takes a long number.
    pub fn u64(&mut self) -> Result<u64, FrameError> {
        self.array().map(u64::from_le_bytes)
    }
    /// Takes a length and that many bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], FrameError> {
        let len = self.u32()? as usize;
        let (head, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.malformed())?;
        self.rest = rest;
        Ok(head)
    }
    /// Takes a length and that much text.
    pub fn text(&mut self) -> Result<String, FrameError> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes.to_vec()).map_err(|_| self.malformed())
    }
    /// Takes a count and that many items. The count is believed only as far as there are bytes for it.
    pub fn list<T>(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<T, FrameError>,
    ) -> Result<Vec<T>, FrameError> {
        let count = self.u32()? as usize;
        if count > self.rest.len() {
            return Err(self.malformed());
        }
        (0..count).map(|_| each(self)).collect()
    }
    /// Checks that nothing is left over.
    pub fn finish(self) -> Result<(), FrameError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.malformed()) }
    }
}
