//! How the nodes talk to each other: which port means what.

use barewire_core::Port;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Kind {
    /// Wants to import: imm = number; payload: the import there.
    Import = 0,
    /// The answer: imm = the import there; payload: verdict, export here, and the key if it is granted.
    Imported = 1,
    /// The proxy is freed: imm = the export; payload: the import there.
    Unimport = 2,
    /// The buffer is unexported: imm = the import there.
    Invalid = 3,
    /// A transfer is in place: imm = the export; payload: the import there and flags, offset, length.
    Arrived = 4,
    /// A transfer may be re-aimed: imm = the import there; payload: turn, room, offset, key.
    Redirect = 5,
}

impl Kind {
    pub fn of(port: Port) -> Option<Kind> {
        use Kind::*;
        const ALL: [Kind; 6] = [Import, Imported, Unimport, Invalid, Arrived, Redirect];
        if port.0 & 0xff00 != MARK {
            return None;
        }
        ALL.get(usize::from(port.0 & 0xff)).copied()
    }

    pub fn port(self) -> Port {
        Port(MARK | self as u16)
    }
}

const MARK: u16 = 0xC000;

/// Flags of an arrival, beside the import's name.
pub(super) const TELL: u64 = 1 << 32;
pub(super) const REDIRECTED: u64 = 1 << 33;

/// Verdicts on a wish to import.
pub(super) const GRANTED: u64 = 0;
pub(super) const GRANTED_REDIRECTABLE: u64 = 1;
pub(super) const NOT_EXPORTED: u64 = 2;
pub(super) const DENIED: u64 = 3;
pub(super) const TWICE: u64 = 4;
pub(super) const TOO_MANY: u64 = 5;
