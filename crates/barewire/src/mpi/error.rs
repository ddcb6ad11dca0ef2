//! Errors: one class for each kind of misuse, a sentence for the person who has to act.
//!
//! A [`Class`] is the number a program may branch on; its value is the standard ABI's. An [`Error`] adds what was wrong this time.
//! [`Codes`] holds the classes, codes and strings a program adds at run time.
//!
//! ```
//! use barewire::mpi::{error::Class, group::Group};
//! let error = Group::first(4).process(9).unwrap_err();
//! assert_eq!(error.class(), Class::Rank, "what a program tests");
//! assert_eq!(error.to_string(), "rank is outside the group: rank 9 is not in a group of 4 processes");
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// What went wrong: a class a program can test, and a detail a person can read.
///
/// ```
/// use barewire::mpi::error::{Class, Error};
/// let error = Error::new(Class::Count, "count is -1");
/// assert_eq!(error.to_string(), "count is negative or too large: count is -1");
/// assert_eq!(error.class() as i32, 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", .0.class, .0.detail)]
pub struct Error(Box<Wrong>);

/// What an error says; elsewhere, so that a result without one is a word.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wrong {
    class: Class,
    detail: Cow<'static, str>,
}

impl Error {
    /// An error of `class`, with what a person needs in order to mend it.
    ///
    /// ```
    /// use barewire::mpi::error::{Class, Error};
    /// let fixed = Error::new(Class::Tag, "tag is -7");
    /// let made = Error::new(Class::Tag, format!("tag is {}", -7));
    /// assert_eq!(fixed, made);
    /// ```
    #[cold]
    pub fn new(class: Class, detail: impl Into<Cow<'static, str>>) -> Error {
        Error(Box::new(Wrong { class, detail: detail.into() }))
    }

    /// The class a program may branch on.
    ///
    /// ```
    /// use barewire::mpi::{error::Class, info::Info};
    /// let error = Info::new().delete("no_locks").unwrap_err();
    /// match error.class() {
    ///     Class::InfoNokey => {} // it was not there: nothing to do
    ///     other => panic!("{other}"),
    /// }
    /// ```
    pub fn class(&self) -> Class {
        self.0.class
    }

    /// What was wrong this time.
    ///
    /// ```
    /// use barewire::mpi::topology::Cart;
    /// let error = Cart::new(&[4, 0], &[false, false]).unwrap_err();
    /// assert_eq!(error.detail(), "a dimension is 0");
    /// ```
    pub fn detail(&self) -> &str {
        &self.0.detail
    }
}

/// The result of everything in this module.
///
/// ```
/// use barewire::mpi::{error::Result, group::{Group, Process}};
/// fn last(group: &Group) -> Result<Process> {
///     group.process(group.size() as i32 - 1)
/// }
/// assert_eq!(last(&Group::first(3))?, Process(2));
/// assert!(last(&Group::empty()).is_err());
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! classes {
    ($($variant:ident = $value:literal, $name:literal, $text:literal;)*) => {
        /// The error classes of MPI 5.0 with the values of its standard ABI.
        ///
        /// ```
        /// use barewire::mpi::error::Class;
        /// assert_eq!(Class::Success as i32, 0);
        /// assert_eq!((Class::Rank as i32, Class::Rank.name()), (6, "MPI_ERR_RANK"));
        /// assert!(Class::ALL.windows(2).all(|pair| (pair[0] as i32) < pair[1] as i32));
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(i32)]
        #[non_exhaustive]
        pub enum Class { $(#[doc = concat!("`", $name, "`: ", $text, ".")] $variant = $value,)* }

        impl Class {
            /// Every class, in the order of its value.
            pub const ALL: &'static [Class] = &[$(Class::$variant,)*];

            /// The class with this value.
            ///
            /// ```
            /// use barewire::mpi::error::Class;
            /// assert_eq!(Class::from_value(15), Some(Class::Truncate));
            /// assert_eq!(Class::from_value(63), None, "the standard has no such class");
            /// ```
            pub fn from_value(value: i32) -> Option<Class> {
                match value { $($value => Some(Class::$variant),)* _ => None }
            }

            /// The name the standard gives it, such as `MPI_ERR_COUNT`.
            ///
            /// ```
            /// use barewire::mpi::error::Class;
            /// assert_eq!(Class::Count.name(), "MPI_ERR_COUNT");
            /// assert_eq!(Class::TInvalidIndex.name(), "MPI_T_ERR_INVALID_INDEX");
            /// ```
            pub fn name(self) -> &'static str {
                match self { $(Class::$variant => $name,)* }
            }

            /// What it means, in a few words.
            ///
            /// ```
            /// use barewire::mpi::error::Class;
            /// assert_eq!(Class::Truncate.text(), "message is longer than the receive buffer");
            /// assert_eq!(Class::Truncate.to_string(), Class::Truncate.text());
            /// ```
            pub fn text(self) -> &'static str {
                match self { $(Class::$variant => $text,)* }
            }
        }
    };
}

classes! {
    Success = 0, "MPI_SUCCESS", "no error";
    Buffer = 1, "MPI_ERR_BUFFER", "buffer pointer is not usable";
    Count = 2, "MPI_ERR_COUNT", "count is negative or too large";
    Type = 3, "MPI_ERR_TYPE", "datatype is null, freed, not committed or not allowed here";
    Tag = 4, "MPI_ERR_TAG", "tag is outside 0..=MPI_TAG_UB";
    Comm = 5, "MPI_ERR_COMM", "communicator is null, freed or of the wrong kind";
    Rank = 6, "MPI_ERR_RANK", "rank is outside the group";
    Request = 7, "MPI_ERR_REQUEST", "request is null, freed or of the wrong kind";
    Root = 8, "MPI_ERR_ROOT", "root is outside the group";
    Group = 9, "MPI_ERR_GROUP", "group is null or freed";
    Op = 10, "MPI_ERR_OP", "operation is null, freed or not defined on this datatype";
    Topology = 11, "MPI_ERR_TOPOLOGY", "communicator has no topology of this kind";
    Dims = 12, "MPI_ERR_DIMS", "dimensions do not fit";
    Arg = 13, "MPI_ERR_ARG", "argument is not allowed";
    Unknown = 14, "MPI_ERR_UNKNOWN", "unknown error";
    Truncate = 15, "MPI_ERR_TRUNCATE", "message is longer than the receive buffer";
    Other = 16, "MPI_ERR_OTHER", "error of another class";
    Intern = 17, "MPI_ERR_INTERN", "internal error of the library";
    Pending = 18, "MPI_ERR_PENDING", "operation has neither failed nor completed";
    InStatus = 19, "MPI_ERR_IN_STATUS", "error code is in the status";
    Access = 20, "MPI_ERR_ACCESS", "permission denied";
    Amode = 21, "MPI_ERR_AMODE", "access mode is not allowed";
    Assert = 22, "MPI_ERR_ASSERT", "assertion is not allowed";
    BadFile = 23, "MPI_ERR_BAD_FILE", "file name is not usable";
    Base = 24, "MPI_ERR_BASE", "base address is not usable";
    Conversion = 25, "MPI_ERR_CONVERSION", "data conversion function failed";
    Disp = 26, "MPI_ERR_DISP", "displacement is not allowed";
    DupDatarep = 27, "MPI_ERR_DUP_DATAREP", "data representation is already registered";
    FileExists = 28, "MPI_ERR_FILE_EXISTS", "file exists";
    FileInUse = 29, "MPI_ERR_FILE_IN_USE", "file is open in some process";
    File = 30, "MPI_ERR_FILE", "file handle is null or closed";
    InfoKey = 31, "MPI_ERR_INFO_KEY", "info key is empty or too long";
    InfoNokey = 32, "MPI_ERR_INFO_NOKEY", "info object has no such key";
    InfoValue = 33, "MPI_ERR_INFO_VALUE", "info value is too long";
    Info = 34, "MPI_ERR_INFO", "info object is null or freed";
    Io = 35, "MPI_ERR_IO", "input or output failed";
    Keyval = 36, "MPI_ERR_KEYVAL", "attribute key is not valid here";
    Locktype = 37, "MPI_ERR_LOCKTYPE", "lock type is not allowed";
    Name = 38, "MPI_ERR_NAME", "service name is not published";
    NoMem = 39, "MPI_ERR_NO_MEM", "no memory left";
    NotSame = 40, "MPI_ERR_NOT_SAME", "argument differs between processes";
    NoSpace = 41, "MPI_ERR_NO_SPACE", "no space left";
    NoSuchFile = 42, "MPI_ERR_NO_SUCH_FILE", "no such file";
    Port = 43, "MPI_ERR_PORT", "port name is not usable";
    Quota = 44, "MPI_ERR_QUOTA", "quota exceeded";
    ReadOnly = 45, "MPI_ERR_READ_ONLY", "file or file system is read only";
    RmaAttach = 46, "MPI_ERR_RMA_ATTACH", "memory cannot be attached to the window";
    RmaConflict = 47, "MPI_ERR_RMA_CONFLICT", "accesses to the window conflict";
    RmaRange = 48, "MPI_ERR_RMA_RANGE", "target memory is not part of the window";
    RmaShared = 49, "MPI_ERR_RMA_SHARED", "memory cannot be shared";
    RmaSync = 50, "MPI_ERR_RMA_SYNC", "window is in the wrong epoch for this call";
    Service = 51, "MPI_ERR_SERVICE", "service name cannot be withdrawn";
    Size = 52, "MPI_ERR_SIZE", "size is not allowed";
    Spawn = 53, "MPI_ERR_SPAWN", "processes could not be started";
    UnsupportedDatarep = 54, "MPI_ERR_UNSUPPORTED_DATAREP", "data representation is not supported";
    UnsupportedOperation = 55, "MPI_ERR_UNSUPPORTED_OPERATION", "operation is not supported";
    Win = 56, "MPI_ERR_WIN", "window is null or freed";
    RmaFlavor = 57, "MPI_ERR_RMA_FLAVOR", "window is of the wrong flavor for this call";
    ProcAborted = 58, "MPI_ERR_PROC_ABORTED", "a process has ended";
    ValueTooLarge = 59, "MPI_ERR_VALUE_TOO_LARGE", "value does not fit the argument; use the large-count call";
    Session = 60, "MPI_ERR_SESSION", "session is null or finalized";
    Errhandler = 61, "MPI_ERR_ERRHANDLER", "error handler is null, freed or of the wrong kind";
    Abi = 62, "MPI_ERR_ABI", "value is outside what the ABI allows";
    TCannotInit = 1001, "MPI_T_ERR_CANNOT_INIT", "tool interface cannot be initialised";
    TNotAccessible = 1002, "MPI_T_ERR_NOT_ACCESSIBLE", "tool value cannot be reached now";
    TNotInitialized = 1003, "MPI_T_ERR_NOT_INITIALIZED", "tool interface is not initialised";
    TNotSupported = 1004, "MPI_T_ERR_NOT_SUPPORTED", "tool call is not supported";
    TMemory = 1005, "MPI_T_ERR_MEMORY", "tool interface has no memory left";
    TInvalid = 1006, "MPI_T_ERR_INVALID", "tool argument is not allowed";
    TInvalidIndex = 1007, "MPI_T_ERR_INVALID_INDEX", "tool index is out of range";
    TInvalidItem = 1008, "MPI_T_ERR_INVALID_ITEM", "tool item is out of range";
    TInvalidSession = 1009, "MPI_T_ERR_INVALID_SESSION", "tool session is not valid";
    TInvalidHandle = 1010, "MPI_T_ERR_INVALID_HANDLE", "tool handle is not valid";
    TInvalidName = 1011, "MPI_T_ERR_INVALID_NAME", "tool name is not known";
    TOutOfHandles = 1012, "MPI_T_ERR_OUT_OF_HANDLES", "no tool handles left";
    TOutOfSessions = 1013, "MPI_T_ERR_OUT_OF_SESSIONS", "no tool sessions left";
    TCvarSetNotNow = 1014, "MPI_T_ERR_CVAR_SET_NOT_NOW", "control variable cannot be set now";
    TCvarSetNever = 1015, "MPI_T_ERR_CVAR_SET_NEVER", "control variable can never be set";
    TPvarNoWrite = 1016, "MPI_T_ERR_PVAR_NO_WRITE", "performance variable cannot be written or reset";
    TPvarNoStartstop = 1017, "MPI_T_ERR_PVAR_NO_STARTSTOP", "performance variable cannot be started or stopped";
    TPvarNoAtomic = 1018, "MPI_T_ERR_PVAR_NO_ATOMIC", "performance variable cannot be read and reset in one step";
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The highest code the library itself uses; what a program adds lies above.
pub const LAST_CODE: i32 = 16383;

/// Error classes, codes and strings added by the program.
///
/// ```
/// use barewire::mpi::error::{Class, Codes};
/// let mut codes = Codes::new();
/// let class = codes.add_class();
/// let code = codes.add_code(class)?;
/// codes.set_string(code, "the oven is cold")?;
/// assert_eq!(codes.class_of(code)?, class);
/// assert_eq!(codes.string(code)?, "the oven is cold");
/// assert_eq!(codes.string(Class::Tag as i32)?, Class::Tag.text());
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Codes {
    added: BTreeMap<i32, Added>,
    next: i32,
}

#[derive(Debug)]
struct Added {
    class: i32,
    string: String,
}

impl Default for Codes {
    fn default() -> Codes {
        Codes::new()
    }
}

impl Codes {
    /// Only the predefined classes.
    ///
    /// ```
    /// use barewire::mpi::error::{Class, Codes, LAST_CODE};
    /// let codes = Codes::new();
    /// assert_eq!(codes.class_of(Class::Root as i32)?, 8);
    /// assert!(codes.class_of(LAST_CODE + 1).is_err(), "nothing was added yet");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn new() -> Codes {
        Codes { added: BTreeMap::new(), next: LAST_CODE + 1 }
    }

    /// The highest code in use: the value of the attribute `MPI_LASTUSEDCODE`.
    ///
    /// ```
    /// use barewire::mpi::error::{Codes, LAST_CODE};
    /// let mut codes = Codes::new();
    /// assert_eq!(codes.last_used(), LAST_CODE);
    /// let class = codes.add_class();
    /// assert_eq!(codes.last_used(), class);
    /// ```
    pub fn last_used(&self) -> i32 {
        self.next - 1
    }

    /// A new class; it is also a code of that class.
    ///
    /// ```
    /// use barewire::mpi::error::{Codes, LAST_CODE};
    /// let mut codes = Codes::new();
    /// let class = codes.add_class();
    /// assert_eq!(class, LAST_CODE + 1);
    /// assert_eq!(codes.class_of(class)?, class);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn add_class(&mut self) -> i32 {
        let class = self.next;
        self.insert(class)
    }

    /// A new code of `class`.
    ///
    /// ```
    /// use barewire::mpi::error::{Class, Codes};
    /// let mut codes = Codes::new();
    /// let code = codes.add_code(Class::Io as i32)?;
    /// assert_eq!(codes.class_of(code)?, Class::Io as i32);
    /// assert_eq!(codes.add_code(code).unwrap_err().class(), Class::Arg, "a code is not a class");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn add_code(&mut self, class: i32) -> Result<i32> {
        if self.class_of(class)? != class {
            return Err(Error::new(Class::Arg, format!("{class} is an error code, not an error class")));
        }
        Ok(self.insert(class))
    }

    fn insert(&mut self, class: i32) -> i32 {
        let code = self.next;
        self.next += 1;
        self.added.insert(code, Added { class, string: String::new() });
        code
    }

    /// Withdraws a class added earlier, once it has neither a code nor a string.
    ///
    /// ```
    /// use barewire::mpi::error::{Class, Codes};
    /// let mut codes = Codes::new();
    /// let class = codes.add_class();
    /// let code = codes.add_code(class)?;
    /// assert!(codes.remove_class(class).is_err(), "it still has a code");
    /// codes.remove_code(code)?;
    /// codes.remove_class(class)?;
    /// assert!(codes.class_of(class).is_err());
    /// assert!(codes.remove_class(Class::Tag as i32).is_err(), "the standard's own stay");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn remove_class(&mut self, class: i32) -> Result<()> {
        if self.added(class)?.class != class {
            return Err(Error::new(Class::Arg, format!("{class} is an error code, not an error class")));
        }
        if self.added.iter().any(|(&code, added)| added.class == class && code != class) {
            return Err(Error::new(Class::Arg, format!("error class {class} still has codes")));
        }
        self.without_string(class)?;
        self.added.remove(&class);
        self.shrink();
        Ok(())
    }

    /// Withdraws a code added earlier, once it has no string.
    ///
    /// ```
    /// use barewire::mpi::error::{Class, Codes};
    /// let mut codes = Codes::new();
    /// let code = codes.add_code(Class::Io as i32)?;
    /// codes.set_string(code, "the tape is full")?;
    /// assert!(codes.remove_code(code).is_err(), "it still has a string");
    /// codes.remove_string(code)?;
    /// codes.remove_code(code)?;
    /// assert!(codes.string(code).is_err());
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn remove_code(&mut self, code: i32) -> Result<()> {
        if self.added(code)?.class == code {
            return Err(Error::new(Class::Arg, format!("{code} is an error class, not an error code")));
        }
        self.without_string(code)?;
        self.added.remove(&code);
        self.shrink();
        Ok(())
    }

    fn without_string(&self, code: i32) -> Result<()> {
        if self.added(code)?.string.is_empty() {
            return Ok(());
        }
        Err(Error::new(Class::Arg, format!("error code {code} still has a string")))
    }

    fn shrink(&mut self) {
        self.next = self.added.last_key_value().map_or(LAST_CODE, |(&code, _)| code) + 1;
    }

    /// Gives a string to a code or class added earlier.
    ///
    /// ```
    /// use barewire::mpi::error::{Class, Codes};
    /// let mut codes = Codes::new();
    /// let class = codes.add_class();
    /// codes.set_string(class, "kitchen trouble")?;
    /// assert_eq!(codes.string(class)?, "kitchen trouble");
    /// assert!(codes.set_string(Class::Io as i32, "mine").is_err(), "not the program's to change");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn set_string(&mut self, code: i32, string: &str) -> Result<()> {
        self.added(code)?;
        if let Some(added) = self.added.get_mut(&code) {
            added.string = string.to_owned();
        }
        Ok(())
    }

    /// Takes the string from a code or class added earlier.
    ///
    /// ```
    /// use barewire::mpi::error::Codes;
    /// let mut codes = Codes::new();
    /// let class = codes.add_class();
    /// codes.set_string(class, "burnt")?;
    /// codes.remove_string(class)?;
    /// assert_eq!(codes.string(class)?, "");
    /// assert!(codes.remove_string(class).is_err(), "there is none any more");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn remove_string(&mut self, code: i32) -> Result<()> {
        if self.added(code)?.string.is_empty() {
            return Err(Error::new(Class::Arg, format!("error code {code} has no string")));
        }
        self.set_string(code, "")
    }

    fn added(&self, code: i32) -> Result<&Added> {
        self.added.get(&code).ok_or_else(|| {
            Error::new(Class::Arg, format!("{code} was not added by this program, or was removed"))
        })
    }

    /// The class a code belongs to.
    ///
    /// ```
    /// use barewire::mpi::error::{Class, Codes};
    /// let mut codes = Codes::new();
    /// let code = codes.add_code(Class::Win as i32)?;
    /// assert_eq!(Class::from_value(codes.class_of(code)?), Some(Class::Win));
    /// assert!(codes.class_of(-1).is_err());
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn class_of(&self, code: i32) -> Result<i32> {
        match Class::from_value(code) {
            Some(class) => Ok(class as i32),
            None => Ok(self.added(code)?.class),
        }
    }

    /// What a code means.
    ///
    /// ```
    /// use barewire::mpi::error::{Class, Codes};
    /// let mut codes = Codes::new();
    /// let code = codes.add_class();
    /// assert_eq!(codes.string(code)?, "", "new codes have no string");
    /// assert_eq!(codes.string(Class::NoSpace as i32)?, "no space left");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn string(&self, code: i32) -> Result<&str> {
        match Class::from_value(code) {
            Some(class) => Ok(class.text()),
            None => Ok(&self.added(code)?.string),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_found_again_by_its_value() {
        for &class in Class::ALL {
            assert_eq!(Class::from_value(class as i32), Some(class));
        }
        assert_eq!(Class::from_value(63), None);
        assert_eq!(Class::from_value(-1), None);
    }

    #[test]
    fn predefined_codes_cannot_be_changed() {
        let mut codes = Codes::new();
        assert_eq!(codes.set_string(3, "x").unwrap_err().class(), Class::Arg);
        assert_eq!(codes.remove_class(3).unwrap_err().class(), Class::Arg);
        assert_eq!(codes.remove_code(3).unwrap_err().class(), Class::Arg);
    }

    #[test]
    fn a_class_with_codes_stays_until_its_codes_are_gone() {
        let mut codes = Codes::new();
        let class = codes.add_class();
        let code = codes.add_code(class).unwrap();
        assert!(codes.remove_class(class).is_err());
        assert!(codes.add_code(code).is_err(), "a code is not a class");
        codes.set_string(code, "burnt").unwrap();
        assert!(codes.remove_code(code).is_err(), "it still has a string");
        codes.remove_string(code).unwrap();
        codes.remove_code(code).unwrap();
        codes.remove_class(class).unwrap();
        assert_eq!(codes.last_used(), LAST_CODE);
        assert!(codes.class_of(class).is_err());
    }
}
