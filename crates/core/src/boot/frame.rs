//! Frames: the bytes between a rank, its host's agent and the launcher.
//!
//! A frame is an 8-byte header (magic, kind, two zero bytes, body length) and a body of bounded length. The magic is no
//! letter, so the same stream can also carry the newline-terminated text of PMI-1: [`split`] tells the two apart by
//! their first byte and returns one whole unit of either.
//!
//! ```
//! use barewire_core::boot::frame::{Reader, Unit, Writer, split};
//!
//! let stream = [Writer::new().u32(3).bytes(b"card").frame(9), b"cmd=init\n".to_vec()].concat();
//! let (first, used) = split(&stream, 100).unwrap().unwrap();
//! let Unit::Frame { kind: 9, body } = first else { panic!("{first:?}") };
//! let mut reader = Reader::new(body, "card");
//! assert_eq!((reader.u32(), reader.bytes(), reader.finish()), (Ok(3), Ok(&b"card"[..]), Ok(())));
//! assert_eq!(split(&stream[used..], 100), Ok(Some((Unit::Line(b"cmd=init"), 9))));
//! ```

/// First byte of every frame.
const MAGIC: u8 = 0xBA;
/// Bytes before the body.
const HEADER_BYTES: usize = 8;
/// Longest body between a rank and its server.
pub const BOOT_BODY_BYTES_MAX: usize = 64 * 1024;
/// Longest line of PMI-1 text, newline included.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// Bytes that no correct partner sends.
///
/// ```
/// use barewire_core::boot::frame::{FrameError, Writer, split};
/// let long = Writer::new().bytes(&[0; 200]).frame(1);
/// assert_eq!(split(&long, 100), Err(FrameError::TooLong { len: 204, max: 100 }));
/// assert_eq!(split(b"\0", 100).unwrap_err().to_string(), "byte 0x00 starts neither a frame nor a PMI line");
/// ```
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
///
/// ```
/// use barewire_core::boot::frame::{Unit, Writer, split};
/// let what = |bytes: &[u8]| match split(bytes, 100) {
///     Ok(Some((Unit::Frame { kind, body }, _))) => format!("frame {kind} of {} bytes", body.len()),
///     Ok(Some((Unit::Line(text), _))) => String::from_utf8_lossy(text).into_owned(),
///     other => format!("{other:?}"),
/// };
/// assert_eq!(what(&Writer::new().u8(1).frame(6)), "frame 6 of 1 bytes");
/// assert_eq!(what(b"cmd=finalize\n"), "cmd=finalize");
/// ```
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
/// use barewire_core::boot::frame::{Unit, Writer, split};
/// let bytes = Writer::new().u8(b'c').frame(7);
/// assert_eq!(split(&bytes, 100).unwrap(), Some((Unit::Frame { kind: 7, body: b"c" }, bytes.len())));
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
fn encode(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    let len = u32::try_from(body.len()).expect("bodies are far below 4 GiB");
    bytes.extend_from_slice(&[MAGIC, kind, 0, 0]);
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// Writes a body field by field.
///
/// ```
/// # use barewire_core::boot::frame::{Reader, Unit, Writer, split};
/// let names = ["a", "bc"];
/// let frame = Writer::new().u32(7).list(&names, |w, name| w.bytes(name.as_bytes())).frame(1);
/// # let (Unit::Frame { body, .. }, _) = split(&frame, 100).unwrap().unwrap() else { panic!() };
/// let mut reader = Reader::new(body, "names");
/// assert_eq!(reader.u32().unwrap(), 7);
/// assert_eq!(reader.list(|r| r.text()).unwrap(), names);
/// ```
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// An empty body.
    ///
    /// ```
    /// # use barewire_core::boot::frame::{Unit, Writer, split};
    /// let frame = Writer::new().frame(5);
    /// assert_eq!(split(&frame, 0), Ok(Some((Unit::Frame { kind: 5, body: b"" }, 8))), "a header and nothing else");
    /// ```
    pub fn new() -> Self {
        Self::default()
    }
    /// Appends a byte.
    ///
    /// ```
    /// # use barewire_core::boot::frame::{Unit, Writer, split};
    /// let frame = Writer::new().u8(1).u8(255).frame(2);
    /// assert_eq!(split(&frame, 2).unwrap().unwrap().0, Unit::Frame { kind: 2, body: &[1, 255] });
    /// ```
    pub fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }
    /// Appends a number.
    ///
    /// ```
    /// # use barewire_core::boot::frame::{Unit, Writer, split};
    /// let frame = Writer::new().u32(0x0403_0201).frame(2);
    /// assert_eq!(split(&frame, 4).unwrap().unwrap().0, Unit::Frame { kind: 2, body: &[1, 2, 3, 4] });
    /// ```
    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    /// Appends a signed number.
    ///
    /// ```
    /// # use barewire_core::boot::frame::{Unit, Writer, split};
    /// let frame = Writer::new().i32(-2).frame(2);
    /// assert_eq!(split(&frame, 4).unwrap().unwrap().0, Unit::Frame { kind: 2, body: &[0xfe, 0xff, 0xff, 0xff] });
    /// ```
    pub fn i32(mut self, value: i32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    /// Appends a long number.
    pub(super) fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    /// Appends bytes of a length that both sides know.
    pub(super) fn array(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }
    /// Appends a length and that many bytes.
    ///
    /// ```
    /// # use barewire_core::boot::frame::{Unit, Writer, split};
    /// let frame = Writer::new().bytes(b"ab").bytes(b"").frame(2);
    /// assert_eq!(split(&frame, 10).unwrap().unwrap().0, Unit::Frame { kind: 2, body: b"\x02\0\0\0ab\0\0\0\0" });
    /// ```
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        let len = u32::try_from(bytes.len()).expect("fields are far below 4 GiB");
        self.0.extend_from_slice(&len.to_le_bytes());
        self.0.extend_from_slice(bytes);
        self
    }
    /// Appends a count and each of `items`.
    ///
    /// ```
    /// # use barewire_core::boot::frame::{Unit, Writer, split};
    /// let frame = Writer::new().list(&[7, 8, 9], |writer, number| writer.u8(*number)).frame(2);
    /// assert_eq!(split(&frame, 10).unwrap().unwrap().0, Unit::Frame { kind: 2, body: &[3, 0, 0, 0, 7, 8, 9] });
    /// ```
    pub fn list<T>(self, items: &[T], each: impl Fn(Self, &T) -> Self) -> Self {
        let len = u32::try_from(items.len()).expect("lists are far below 4 Gi items");
        items.iter().fold(self.u32(len), each)
    }
    /// The frame of this kind with this body.
    ///
    /// ```
    /// # use barewire_core::boot::frame::Writer;
    /// assert_eq!(Writer::new().u8(b'x').frame(6), [0xba, 6, 0, 0, 1, 0, 0, 0, b'x']);
    /// ```
    pub fn frame(self, kind: u8) -> Vec<u8> {
        encode(kind, &self.0)
    }
}

/// Reads a body field by field; every read checks that the bytes are there.
///
/// ```
/// # use barewire_core::boot::frame::Reader;
/// let mut reader = Reader::new(&[1, 0, 0, 0, b'!'], "greeting");
/// assert_eq!(reader.text().unwrap(), "!");
/// assert_eq!(reader.u8().unwrap_err().to_string(), "malformed greeting", "nothing is left");
/// ```
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Reads `body`; `what` names it in errors.
    ///
    /// ```
    /// # use barewire_core::boot::frame::{FrameError, Reader};
    /// let too_short = Reader::new(&[1, 2], "card request").u32();
    /// assert_eq!(too_short, Err(FrameError::Malformed { what: "card request" }));
    /// ```
    pub fn new(body: &'a [u8], what: &'static str) -> Self {
        Self { rest: body, what }
    }
    /// The error for a value that makes no sense.
    ///
    /// ```
    /// # use barewire_core::boot::frame::{FrameError, Reader};
    /// fn port(reader: &mut Reader<'_>) -> Result<u16, FrameError> {
    ///     u16::try_from(reader.u32()?).map_err(|_| reader.malformed())
    /// }
    /// assert_eq!(port(&mut Reader::new(&[80, 0, 0, 0], "port")), Ok(80));
    /// assert_eq!(port(&mut Reader::new(&[0, 0, 1, 0], "port")).unwrap_err().to_string(), "malformed port");
    /// ```
    pub fn malformed(&self) -> FrameError {
        FrameError::Malformed { what: self.what }
    }
    /// Takes `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.malformed())?;
        self.rest = rest;
        Ok(*head)
    }
    /// Takes a byte.
    ///
    /// ```
    /// # use barewire_core::boot::frame::Reader;
    /// let mut reader = Reader::new(&[3, 250], "pair");
    /// assert_eq!((reader.u8(), reader.u8()), (Ok(3), Ok(250)));
    /// assert!(reader.u8().is_err());
    /// ```
    pub fn u8(&mut self) -> Result<u8, FrameError> {
        self.array::<1>().map(|bytes| bytes[0])
    }
    /// Takes a number.
    ///
    /// ```
    /// # use barewire_core::boot::frame::Reader;
    /// let mut reader = Reader::new(&[1, 2, 3, 4, 5], "number");
    /// assert_eq!(reader.u32(), Ok(0x0403_0201));
    /// assert!(reader.u32().is_err(), "one byte is no number");
    /// ```
    pub fn u32(&mut self) -> Result<u32, FrameError> {
        self.array().map(u32::from_le_bytes)
    }
    /// Takes a signed number.
    ///
    /// ```
    /// # use barewire_core::boot::frame::Reader;
    /// assert_eq!(Reader::new(&[0xff; 4], "status").i32(), Ok(-1));
    /// assert!(Reader::new(&[0xff; 3], "status").i32().is_err());
    /// ```
    pub fn i32(&mut self) -> Result<i32, FrameError> {
        self.array().map(i32::from_le_bytes)
    }
    /// Takes a long number.
    pub(super) fn u64(&mut self) -> Result<u64, FrameError> {
        self.array().map(u64::from_le_bytes)
    }
    /// Takes a length and that many bytes.
    ///
    /// ```
    /// # use barewire_core::boot::frame::Reader;
    /// let mut reader = Reader::new(&[2, 0, 0, 0, 10, 20, 200, 0, 0, 0, 1], "pieces");
    /// assert_eq!(reader.bytes().unwrap(), [10, 20]);
    /// assert!(reader.bytes().is_err(), "200 bytes are promised, one is there");
    /// ```
    pub fn bytes(&mut self) -> Result<&'a [u8], FrameError> {
        let len = self.u32()? as usize;
        let (head, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.malformed())?;
        self.rest = rest;
        Ok(head)
    }
    /// Takes a length and that much text.
    ///
    /// ```
    /// # use barewire_core::boot::frame::Reader;
    /// assert_eq!(Reader::new(&[2, 0, 0, 0, 0xc3, 0xa9], "name").text().unwrap(), "é");
    /// assert!(Reader::new(&[1, 0, 0, 0, 0xc3], "name").text().is_err(), "half a letter");
    /// ```
    pub fn text(&mut self) -> Result<String, FrameError> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes.to_vec()).map_err(|_| self.malformed())
    }
    /// Takes a count and that many items. The count is believed only as far as there are bytes for it.
    ///
    /// ```
    /// # use barewire_core::boot::frame::Reader;
    /// let mut reader = Reader::new(&[2, 0, 0, 0, 7, 8, 0xff, 0xff, 0xff, 0xff], "ranks");
    /// assert_eq!(reader.list(|r| r.u8()).unwrap(), [7, 8]);
    /// assert!(reader.list(|r| r.u8()).is_err(), "four billion items in no bytes");
    /// ```
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
    ///
    /// ```
    /// # use barewire_core::boot::frame::Reader;
    /// let mut reader = Reader::new(&[1, 2], "flag");
    /// reader.u8().unwrap();
    /// assert!(reader.finish().is_err(), "a byte is left over");
    /// ```
    pub fn finish(self) -> Result<(), FrameError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.malformed()) }
    }
}
