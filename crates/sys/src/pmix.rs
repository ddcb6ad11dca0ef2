//! PMIx: a launcher's start-up service, spoken through the library that comes with it.
//!
//! The library is loaded when a launcher asks for it and never linked, so that programs run where there is none. Only
//! the few calls of the PMIx standard that a start needs are here, with the standard's memory layouts.
//!
//! ```
//! use barewire_sys::pmix::{Pmix, Value, key};
//! # let library = std::env::temp_dir().join(format!("libpmix-{}-{}.so", std::process::id(), line!()));
//! # let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/pmix/stand_in.c");
//! # let mut cc = std::process::Command::new("cc");
//! # let cc = cc.args(["-shared", "-fPIC", "-Wl,-soname,libpmix.so.2", source, "-o"]).arg(&library);
//! # assert!(cc.status().unwrap().success());
//! # let name = std::ffi::CString::new(library.as_os_str().as_encoded_bytes()).unwrap();
//! # // SAFETY: the library is the stand-in, and loading it runs nothing.
//! # assert!(!unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }.is_null());
//! # std::fs::remove_file(library).unwrap();
//! let pmix = Pmix::init()?;
//! let Some(Value::Number(size)) = pmix.get(None, key::JOB_SIZE, 5)? else { panic!("a job has a size") };
//! pmix.put("my.card", b"where I am")?;
//! pmix.commit_and_meet(60)?;
//! for rank in 0..size as u32 {
//!     assert_eq!(pmix.get(Some(rank), "my.card", 5)?, Some(Value::Bytes(b"where I am".to_vec())));
//! }
//! # Ok::<(), barewire_sys::pmix::PmixError>(())
//! ```

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;

/// Keys of the standard.
///
/// ```
/// use barewire_sys::pmix::{Pmix, Value, key};
/// # let library = std::env::temp_dir().join(format!("libpmix-{}-{}.so", std::process::id(), line!()));
/// # let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/pmix/stand_in.c");
/// # let mut cc = std::process::Command::new("cc");
/// # let cc = cc.args(["-shared", "-fPIC", "-Wl,-soname,libpmix.so.2", source, "-o"]).arg(&library);
/// # assert!(cc.status().unwrap().success());
/// # let name = std::ffi::CString::new(library.as_os_str().as_encoded_bytes()).unwrap();
/// # // SAFETY: the library is the stand-in, and loading it runs nothing.
/// # assert!(!unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }.is_null());
/// # std::fs::remove_file(library).unwrap();
/// let pmix = Pmix::init()?;
/// let text = |key| match pmix.get(Some(0), key, 5) {
///     Ok(Some(Value::Text(text))) => Some(text),
///     _ => None,
/// };
/// assert_eq!(text(key::HOST_NAME).as_deref(), Some("node7"));
/// assert_eq!(text(key::LOCAL_PEERS).as_deref(), Some("0"), "rank 0 is alone on its host");
/// assert_eq!(pmix.get(Some(0), key::NODE_ID, 5)?, Some(Value::Number(0)));
/// # Ok::<(), barewire_sys::pmix::PmixError>(())
/// ```
pub mod key {
    /// The number of processes in the job.
    pub const JOB_SIZE: &str = "pmix.job.size";
    /// The ranks on this host, as `0,1,2`.
    pub const LOCAL_PEERS: &str = "pmix.lpeers";
    /// The number of a process's host.
    pub const NODE_ID: &str = "pmix.nodeid";
    /// The name of a process's host.
    pub const HOST_NAME: &str = "pmix.hname";
}

/// Why PMIx cannot be used.
///
/// ```
/// use barewire_sys::pmix::{Pmix, PmixError};
/// # let library = std::env::temp_dir().join(format!("libpmix-{}-{}.so", std::process::id(), line!()));
/// # let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/pmix/stand_in.c");
/// # let mut cc = std::process::Command::new("cc");
/// # let cc = cc.args(["-shared", "-fPIC", "-Wl,-soname,libpmix.so.2", source, "-o"]).arg(&library);
/// # assert!(cc.status().unwrap().success());
/// # let name = std::ffi::CString::new(library.as_os_str().as_encoded_bytes()).unwrap();
/// # // SAFETY: the library is the stand-in, and loading it runs nothing.
/// # assert!(!unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }.is_null());
/// # std::fs::remove_file(library).unwrap();
/// let pmix = Pmix::init()?;
/// let error = pmix.put(&"long".repeat(200), b"").unwrap_err();
/// assert_eq!(error, PmixError::Unfit { what: "a key" });
/// assert_eq!(error.to_string(), "a key is too long for PMIx, or holds a zero byte");
/// # Ok::<(), PmixError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PmixError {
    /// There is no library.
    #[error("no libpmix could be loaded ({reason})")]
    NoLibrary {
        /// What the loader said.
        reason: String,
    },
    /// A call failed.
    #[error("{call}: {text} ({status})")]
    Failed {
        /// Which.
        call: &'static str,
        /// The library's words.
        text: String,
        /// The library's number.
        status: i32,
    },
    /// A key, or a value, that cannot be passed on.
    #[error("{what} is too long for PMIx, or holds a zero byte")]
    Unfit {
        /// What it is.
        what: &'static str,
    },
}

/// A value of the job's store.
///
/// ```
/// use barewire_sys::pmix::{Pmix, Value, key};
/// # let library = std::env::temp_dir().join(format!("libpmix-{}-{}.so", std::process::id(), line!()));
/// # let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/pmix/stand_in.c");
/// # let mut cc = std::process::Command::new("cc");
/// # let cc = cc.args(["-shared", "-fPIC", "-Wl,-soname,libpmix.so.2", source, "-o"]).arg(&library);
/// # assert!(cc.status().unwrap().success());
/// # let name = std::ffi::CString::new(library.as_os_str().as_encoded_bytes()).unwrap();
/// # // SAFETY: the library is the stand-in, and loading it runs nothing.
/// # assert!(!unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }.is_null());
/// # std::fs::remove_file(library).unwrap();
/// let pmix = Pmix::init()?;
/// let described = match pmix.get(Some(0), key::HOST_NAME, 5)? {
///     Some(Value::Number(number)) => format!("number {number}"),
///     Some(Value::Text(text)) => text,
///     Some(Value::Bytes(bytes)) => format!("{} bytes", bytes.len()),
///     None => "nothing".to_owned(),
/// };
/// assert_eq!(described, "node7");
/// # Ok::<(), barewire_sys::pmix::PmixError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A number of any width.
    Number(u64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// This process as a client of its launcher's PMIx server, until dropped.
///
/// ```
/// use barewire_sys::pmix::{Pmix, Value, key};
/// # let library = std::env::temp_dir().join(format!("libpmix-{}-{}.so", std::process::id(), line!()));
/// # let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/pmix/stand_in.c");
/// # let mut cc = std::process::Command::new("cc");
/// # let cc = cc.args(["-shared", "-fPIC", "-Wl,-soname,libpmix.so.2", source, "-o"]).arg(&library);
/// # assert!(cc.status().unwrap().success());
/// # let name = std::ffi::CString::new(library.as_os_str().as_encoded_bytes()).unwrap();
/// # // SAFETY: the library is the stand-in, and loading it runs nothing.
/// # assert!(!unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }.is_null());
/// # std::fs::remove_file(library).unwrap();
/// for _ in 0..2 {
///     let pmix = Pmix::init()?; // a program may leave its job and join it again
///     assert_eq!((pmix.rank(), pmix.get(None, key::JOB_SIZE, 5)?), (0, Some(Value::Number(1))));
/// }
/// # Ok::<(), barewire_sys::pmix::PmixError>(())
/// ```
#[derive(Debug)]
pub struct Pmix {
    calls: Calls,
    me: Proc,
    guard: crate::fork::Guard,
}

impl Pmix {
    /// Loads the library and connects to the server that the environment names.
    ///
    /// ```
    /// use barewire_sys::pmix::{Pmix, PmixError};
    /// # let library = std::env::temp_dir().join(format!("libpmix-{}-{}.so", std::process::id(), line!()));
    /// # let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/pmix/stand_in.c");
    /// # let mut cc = std::process::Command::new("cc");
    /// # let cc = cc.args(["-shared", "-fPIC", "-Wl,-soname,libpmix.so.2", source, "-o"]).arg(&library);
    /// # assert!(cc.status().unwrap().success());
    /// # let name = std::ffi::CString::new(library.as_os_str().as_encoded_bytes()).unwrap();
    /// # // SAFETY: the library is the stand-in, and loading it runs nothing.
    /// # assert!(!unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }.is_null());
    /// # std::fs::remove_file(library).unwrap();
    /// match Pmix::init() {
    ///     Ok(pmix) => assert_eq!(pmix.rank(), 0),
    ///     Err(PmixError::NoLibrary { reason }) => panic!("is it installed? {reason}"),
    ///     Err(error) => panic!("was this started by a launcher? {error}"),
    /// }
    /// ```
    pub fn init() -> Result<Pmix, PmixError> {
        let calls = Calls::load()?;
        let mut me = Proc { nspace: [0; NSPACE_BYTES], rank: RANK_UNDEFINED };
        // SAFETY: `me` is a `pmix_proc_t` of the standard's layout, which the call fills; no directives are passed.
        let status = unsafe { (calls.init)(&raw mut me, std::ptr::null(), 0) };
        calls.check("PMIx_Init", status)?;
        Ok(Pmix { calls, me, guard: crate::fork::Guard::new() })
    }

    /// This process's rank.
    ///
    /// ```
    /// # use barewire_sys::pmix::{Pmix, Value, key};
    /// # let library = std::env::temp_dir().join(format!("libpmix-{}-{}.so", std::process::id(), line!()));
    /// # let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/pmix/stand_in.c");
    /// # let mut cc = std::process::Command::new("cc");
    /// # let cc = cc.args(["-shared", "-fPIC", "-Wl,-soname,libpmix.so.2", source, "-o"]).arg(&library);
    /// # assert!(cc.status().unwrap().success());
    /// # let name = std::ffi::CString::new(library.as_os_str().as_encoded_bytes()).unwrap();
    /// # // SAFETY: the library is the stand-in, and loading it runs nothing.
    /// # assert!(!unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }.is_null());
    /// # std::fs::remove_file(library).unwrap();
    /// let pmix = Pmix::init()?;
    /// let Some(Value::Text(here)) = pmix.get(None, key::LOCAL_PEERS, 5)? else { panic!("nobody is here") };
    /// assert!(here.split(',').any(|rank| rank == pmix.rank().to_string()), "we are one of those on this host");
    /// # Ok::<(), barewire_sys::pmix::PmixError>(())
    /// ```
    pub fn rank(&self) -> u32 {
        self.me.rank
    }

    /// What `rank` (or, without one, the job) has under `key`; `None` if there is nothing within `seconds`.
    ///
    /// ```
    /// # use barewire_sys::pmix::{Pmix, Value, key};
    /// # let library = std::env::temp_dir().join(format!("libpmix-{}-{}.so", std::process::id(), line!()));
    /// # let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/pmix/stand_in.c");
    /// # let mut cc = std::process::Command::new("cc");
    /// # let cc = cc.args(["-shared", "-fPIC", "-Wl,-soname,libpmix.so.2", source, "-o"]).arg(&library);
    /// # assert!(cc.status().unwrap().success());
    /// # let name = std::ffi::CString::new(library.as_os_str().as_encoded_bytes()).unwrap();
    /// # // SAFETY: the library is the stand-in, and loading it runs nothing.
    /// # assert!(!unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }.is_null());
    /// # std::fs::remove_file(library).unwrap();
    /// let pmix = Pmix::init()?;
    /// assert_eq!(pmix.get(None, key::JOB_SIZE, 5)?, Some(Value::Number(1)), "of the job");
    /// assert_eq!(pmix.get(Some(0), key::NODE_ID, 5)?, Some(Value::Number(0)), "of a rank");
    /// assert_eq!(pmix.get(Some(0), "never.put", 1)?, None);
    /// # Ok::<(), barewire_sys::pmix::PmixError>(())
    /// ```
    pub fn get(&self, rank: Option<u32>, key: &str, seconds: u32) -> Result<Option<Value>, PmixError> {
        let proc = Proc { nspace: self.me.nspace, rank: rank.unwrap_or(RANK_WILDCARD) };
        let key = fit_key(key)?;
        let directives = [Info::timeout(seconds)];
        let mut value: *mut RawValue = std::ptr::null_mut();
        // SAFETY: `proc`, `key` and `directives` live through the call and have the standard's layouts; `value` receives
        // a pointer that is ours to free.
        let status = unsafe {
            (self.calls.get)(&raw const proc, key.as_ptr(), directives.as_ptr(), 1, &raw mut value)
        };
        if matches!(status, NOT_FOUND | TIMEOUT) || (status == SUCCESS && value.is_null()) {
            return Ok(None);
        }
        self.calls.check("PMIx_Get", status)?;
        // SAFETY: the call succeeded, so `value` points to a value that the library allocated for us; nobody else has it.
        // Freeing it is the library's destructor for what it points to, then `free` for the value itself.
        unsafe {
            let read = read(&*value);
            (self.calls.value_destruct)(value);
            libc::free(value.cast::<c_void>());
            Ok(read)
        }
    }

    /// Puts `bytes` under `key` for everybody; seen after [`commit_and_meet`](Self::commit_and_meet).
    ///
    /// ```
    /// # use barewire_sys::pmix::{Pmix, Value};
    /// # let library = std::env::temp_dir().join(format!("libpmix-{}-{}.so", std::process::id(), line!()));
    /// # let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/pmix/stand_in.c");
    /// # let mut cc = std::process::Command::new("cc");
    /// # let cc = cc.args(["-shared", "-fPIC", "-Wl,-soname,libpmix.so.2", source, "-o"]).arg(&library);
    /// # assert!(cc.status().unwrap().success());
    /// # let name = std::ffi::CString::new(library.as_os_str().as_encoded_bytes()).unwrap();
    /// # // SAFETY: the library is the stand-in, and loading it runs nothing.
    /// # assert!(!unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }.is_null());
    /// # std::fs::remove_file(library).unwrap();
    /// let pmix = Pmix::init()?;
    /// pmix.put("my.key", &[0, 1, 2])?;
    /// pmix.put("my.nothing", b"")?;
    /// pmix.commit_and_meet(60)?;
    /// assert_eq!(pmix.get(Some(pmix.rank()), "my.key", 5)?, Some(Value::Bytes(vec![0, 1, 2])), "zeroes and all");
    /// assert_eq!(pmix.get(Some(pmix.rank()), "my.nothing", 5)?, Some(Value::Bytes(vec![])));
    /// # Ok::<(), barewire_sys::pmix::PmixError>(())
    /// ```
    pub fn put(&self, key: &str, bytes: &[u8]) -> Result<(), PmixError> {
        let key = fit_key(key)?;
        let data = Data { bytes: ByteObject { at: bytes.as_ptr().cast_mut().cast(), len: bytes.len() } };
        let mut value = RawValue { kind: BYTE_OBJECT, data };
        // SAFETY: `value` has the standard's layout and borrows `bytes`, which the call copies and does not write.
        let status = unsafe { (self.calls.put)(SCOPE_GLOBAL, key.as_ptr(), &raw mut value) };
        self.calls.check("PMIx_Put", status)
    }

    /// Makes what was put known and waits until all ranks of the job have come here.
    ///
    /// ```
    /// # use barewire_sys::pmix::{Pmix, Value};
    /// # let library = std::env::temp_dir().join(format!("libpmix-{}-{}.so", std::process::id(), line!()));
    /// # let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/pmix/stand_in.c");
    /// # let mut cc = std::process::Command::new("cc");
    /// # let cc = cc.args(["-shared", "-fPIC", "-Wl,-soname,libpmix.so.2", source, "-o"]).arg(&library);
    /// # assert!(cc.status().unwrap().success());
    /// # let name = std::ffi::CString::new(library.as_os_str().as_encoded_bytes()).unwrap();
    /// # // SAFETY: the library is the stand-in, and loading it runs nothing.
    /// # assert!(!unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }.is_null());
    /// # std::fs::remove_file(library).unwrap();
    /// let pmix = Pmix::init()?;
    /// pmix.put("my.key", b"mine")?;
    /// assert_eq!(pmix.get(Some(0), "my.key", 1)?, None, "not known yet");
    /// pmix.commit_and_meet(60)?;
    /// assert_eq!(pmix.get(Some(0), "my.key", 1)?, Some(Value::Bytes(b"mine".to_vec())));
    /// # Ok::<(), barewire_sys::pmix::PmixError>(())
    /// ```
    pub fn commit_and_meet(&self, seconds: u32) -> Result<(), PmixError> {
        // SAFETY: the call has no arguments.
        self.calls.check("PMIx_Commit", unsafe { (self.calls.commit)() })?;
        let directives = [Info::timeout(seconds)];
        // SAFETY: no list of processes means all of the job; `directives` lives through the call.
        let status = unsafe { (self.calls.fence)(std::ptr::null(), 0, directives.as_ptr(), 1) };
        self.calls.check("PMIx_Fence", status)
    }

    /// Asks the launcher to end the whole job.
    ///
    /// ```
    /// # use barewire_sys::pmix::{Pmix, Value};
    /// # let library = std::env::temp_dir().join(format!("libpmix-{}-{}.so", std::process::id(), line!()));
    /// # let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/pmix/stand_in.c");
    /// # let mut cc = std::process::Command::new("cc");
    /// # let cc = cc.args(["-shared", "-fPIC", "-Wl,-soname,libpmix.so.2", source, "-o"]).arg(&library);
    /// # assert!(cc.status().unwrap().success());
    /// # let name = std::ffi::CString::new(library.as_os_str().as_encoded_bytes()).unwrap();
    /// # // SAFETY: the library is the stand-in, and loading it runs nothing.
    /// # assert!(!unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }.is_null());
    /// # std::fs::remove_file(library).unwrap();
    /// let pmix = Pmix::init()?;
    /// pmix.abort(3, "rank 0\0 gives up");
    /// // A launcher would have ended us; the one of this example keeps the words.
    /// let words = pmix.get(Some(0), "last words", 5)?;
    /// assert_eq!(words, Some(Value::Bytes(b"rank 0 gives up".to_vec())), "without the zero byte, where they would end");
    /// # Ok::<(), barewire_sys::pmix::PmixError>(())
    /// ```
    pub fn abort(&self, code: i32, message: &str) {
        let words: Vec<u8> = message.bytes().filter(|&byte| byte != 0).collect();
        let Ok(words) = CString::new(words) else { return };
        // SAFETY: `words` ends with a zero byte and lives through the call; no list of processes means all of the job.
        unsafe { (self.calls.abort)(code, words.as_ptr(), std::ptr::null_mut(), 0) };
    }
}

impl Drop for Pmix {
    fn drop(&mut self) {
        // A forked child has the connection's memory but not the library's threads: it must leave the line alone.
        if !self.guard.is_parent() {
            return;
        }
        // SAFETY: pairs with the successful `PMIx_Init` in `init`; the library counts them. The library stays loaded, so
        // its own threads end in code that is still there.
        unsafe { (self.calls.finalize)(std::ptr::null(), 0) };
    }
}

/// The library's calls.
#[derive(Debug, Clone, Copy)]
struct Calls {
    init: unsafe extern "C" fn(*mut Proc, *const Info, usize) -> c_int,
    finalize: unsafe extern "C" fn(*const Info, usize) -> c_int,
    abort: unsafe extern "C" fn(c_int, *const c_char, *mut Proc, usize) -> c_int,
    put: unsafe extern "C" fn(u8, *const c_char, *mut RawValue) -> c_int,
    commit: unsafe extern "C" fn() -> c_int,
    fence: unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> c_int,
    get: unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut RawValue) -> c_int,
    value_destruct: unsafe extern "C" fn(*mut RawValue),
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl Calls {
    fn load() -> Result<Calls, PmixError> {
        let library = Library::open()?;
        // SAFETY: each name is that of a call of the PMIx standard, and each field's type is the C signature that the
        // standard gives it; the library stays loaded for the life of the process.
        unsafe {
            Ok(Calls {
                init: library.call(c"PMIx_Init")?,
                finalize: library.call(c"PMIx_Finalize")?,
                abort: library.call(c"PMIx_Abort")?,
                put: library.call(c"PMIx_Put")?,
                commit: library.call(c"PMIx_Commit")?,
                fence: library.call(c"PMIx_Fence")?,
                get: library.call(c"PMIx_Get")?,
                value_destruct: library.call(c"PMIx_Value_destruct")?,
                error_string: library.call(c"PMIx_Error_string")?,
            })
        }
    }

    fn check(&self, call: &'static str, status: c_int) -> Result<(), PmixError> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: the call takes any number and returns a static text, or nothing.
        let text = unsafe {
            let text = (self.error_string)(status);
            if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
        };
        Err(PmixError::Failed { call, text, status })
    }
}

/// A library that is never unloaded.
struct Library(*mut c_void);

impl Library {
    /// The library the launcher itself uses, which certainly speaks as it does, or else the one the loader knows.
    fn open() -> Result<Library, PmixError> {
        let mut reason = String::new();
        for path in launchers_own().into_iter().chain([PathBuf::from(SONAME)]) {
            let Ok(name) = CString::new(path.into_os_string().into_encoded_bytes()) else { continue };
            // SAFETY: `name` ends with a zero byte. Loading runs the library's constructors, which is what the user who
            // installed it, or whose launcher runs it, wants.
            let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            if !handle.is_null() {
                return Ok(Library(handle));
            }
            reason = loader_says();
        }
        Err(PmixError::NoLibrary { reason })
    }

    /// # Safety
    /// `T` must be the type of a function pointer with the C signature that the function `name` has.
    unsafe fn call<T: Copy>(&self, name: &CStr) -> Result<T, PmixError> {
        const { assert!(size_of::<T>() == size_of::<*mut c_void>()) };
        // SAFETY: the handle is open and `name` ends with a zero byte.
        let at = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if at.is_null() {
            return Err(PmixError::NoLibrary { reason: loader_says() });
        }
        // SAFETY: `at` is the address of the function, not null; by the caller's promise `T` is its pointer type, whose
        // size is that of a pointer.
        Ok(unsafe { std::mem::transmute_copy(&at) })
    }
}

fn loader_says() -> String {
    // SAFETY: the text, if there is one, stays until the next call of the loader by this thread, and is copied here.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            "no reason given".into()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}

/// Where the process that started us, or one above it, has its library from: a launcher in a prefix of its own brings one.
fn launchers_own() -> Option<PathBuf> {
    let mut pid = rustix::process::getppid()?.as_raw_nonzero().get();
    for _ in 0..4 {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        if let Some(path) = library_in(&maps) {
            return Some(path);
        }
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        pid = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()?;
    }
    None
}

fn library_in(maps: &str) -> Option<PathBuf> {
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    paths.map(PathBuf::from).find(|path| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("libpmix.so."))
    })
}

fn fit_key(key: &str) -> Result<CString, PmixError> {
    let unfit = PmixError::Unfit { what: "a key" };
    if key.len() >= KEY_BYTES { Err(unfit) } else { CString::new(key).map_err(|_| unfit) }
}

/// # Safety
/// `value` must be one that the library filled: its union holds what its kind says.
unsafe fn read(value: &RawValue) -> Option<Value> {
    // SAFETY: by the caller's promise the field read is the one that the library wrote; texts end with a zero byte and
    // byte objects have as many bytes as they say.
    unsafe {
        Some(match value.kind {
            UINT8 => Value::Number(value.data.uint8.into()),
            UINT16 => Value::Number(value.data.uint16.into()),
            UINT | UINT32 | PROC_RANK => Value::Number(value.data.uint32.into()),
            UINT64 | SIZE => Value::Number(value.data.uint64),
            INT | INT32 => Value::Number(u64::try_from(value.data.int32).ok()?),
            STRING if !value.data.text.is_null() => {
                Value::Text(CStr::from_ptr(value.data.text).to_string_lossy().into_owned())
            }
            BYTE_OBJECT if value.data.bytes.at.is_null() => Value::Bytes(Vec::new()),
            BYTE_OBJECT => {
                let ByteObject { at, len } = value.data.bytes;
                Value::Bytes(std::slice::from_raw_parts(at.cast::<u8>(), len).to_vec())
            }
            _ => return None,
        })
    }
}

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Proc {
    nspace: [c_char; NSPACE_BYTES],
    rank: u32,
}

/// `pmix_value_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawValue {
    kind: u16,
    data: Data,
}

/// The union in `pmix_value_t`: what is used of it, and its size.
#[repr(C)]
#[derive(Clone, Copy)]
union Data {
    uint8: u8,
    uint16: u16,
    uint32: u32,
    uint64: u64,
    int32: i32,
    text: *mut c_char,
    bytes: ByteObject,
    whole: [u64; 3],
}

/// `pmix_byte_object_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ByteObject {
    at: *mut c_char,
    len: usize,
}

/// `pmix_info_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    key: [c_char; KEY_BYTES],
    flags: u32,
    value: RawValue,
}

impl Info {
    fn timeout(seconds: u32) -> Info {
        let mut key = [0; KEY_BYTES];
        for (to, from) in key.iter_mut().zip(b"pmix.timeout") {
            *to = c_char::from_ne_bytes([*from]);
        }
        let mut data = Data { whole: [0; 3] };
        data.int32 = i32::try_from(seconds).unwrap_or(i32::MAX);
        Info { key, flags: 0, value: RawValue { kind: INT, data } }
    }
}

const _: () = assert!(size_of::<Proc>() == 260 && size_of::<RawValue>() == 32 && size_of::<Info>() == 552);

const SONAME: &str = "libpmix.so.2";
const NSPACE_BYTES: usize = 256;
const KEY_BYTES: usize = 512;
const RANK_UNDEFINED: u32 = u32::MAX;
const RANK_WILDCARD: u32 = u32::MAX - 1;
const SCOPE_GLOBAL: u8 = 3;
const SUCCESS: c_int = 0;
const TIMEOUT: c_int = -24;
const NOT_FOUND: c_int = -46;
const STRING: u16 = 3;
const SIZE: u16 = 4;
const INT: u16 = 6;
const INT32: u16 = 9;
const UINT: u16 = 11;
const UINT8: u16 = 12;
const UINT16: u16 = 13;
const UINT32: u16 = 14;
const UINT64: u16 = 15;
const BYTE_OBJECT: u16 = 27;
const PROC_RANK: u16 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launchers_library_is_found_in_its_maps() {
        let maps = "7f00-7f01 r-xp 00000000 08:01 12 /usr/lib/libc.so.6\n\
                    7f02-7f03 r-xp 00000000 08:01 13 /opt/their prefix/lib/libpmix.so.2.13.7\n\
                    7f04-7f05 rw-p 00000000 00:00 0\n";
        assert_eq!(library_in(maps), Some(PathBuf::from("/opt/their prefix/lib/libpmix.so.2.13.7")));
        assert_eq!(library_in("7f04-7f05 rw-p 00000000 00:00 0 [heap]\n"), None);
    }

    #[test]
    fn keys_that_do_not_fit_are_refused() {
        assert!(fit_key(&"k".repeat(KEY_BYTES)).is_err());
        assert!(fit_key("a\0b").is_err());
        assert!(fit_key(key::JOB_SIZE).is_ok());
    }

    #[test]
    fn values_are_read_by_their_kind() {
        let mut data = Data { whole: [0; 3] };
        data.uint32 = 7;
        let text = c"0,1,2";
        let bytes = [1u8, 2, 3];
        let object = ByteObject { at: bytes.as_ptr().cast_mut().cast(), len: 3 };
        // SAFETY: each value's union holds what its kind says, and lives through the calls.
        unsafe {
            assert_eq!(read(&RawValue { kind: UINT32, data }), Some(Value::Number(7)));
            assert_eq!(read(&RawValue { kind: 999, data }), None);
            let data = Data { text: text.as_ptr().cast_mut() };
            assert_eq!(read(&RawValue { kind: STRING, data }), Some(Value::Text("0,1,2".into())));
            let data = Data { bytes: object };
            assert_eq!(read(&RawValue { kind: BYTE_OBJECT, data }), Some(Value::Bytes(vec![1, 2, 3])));
        }
    }
}
