//! System V message queues, so that measurements can stand them beside everything else.
//!
//! ```
//! use barewire_sys::sysv::Queue;
//! let Ok(mut mine) = Queue::create() else { return }; // a system without them
//! let id = mine.id();
//! let echo = std::thread::spawn(move || {
//!     let (mut queue, mut ball) = (Queue::open(id), [0; 4]);
//!     queue.receive(1, &mut ball).and_then(|len| queue.send(2, &ball[..len]))
//! });
//! mine.send(1, b"ping").unwrap();
//! let mut ball = [0; 4];
//! assert_eq!(mine.receive(2, &mut ball).unwrap(), 4);
//! assert_eq!(&ball, b"ping");
//! echo.join().unwrap().unwrap();
//! ```

use std::io;

/// A private queue of messages. Whoever knows its number may open it; it is gone when its maker drops it.
///
/// ```
/// use barewire_sys::sysv::Queue;
/// let Ok(mut queue) = Queue::create() else { return };
/// let mut same = Queue::open(queue.id());
/// queue.send(1, b"hello").unwrap();
/// let mut into = [0; 8];
/// assert_eq!(same.receive(1, &mut into).unwrap(), 5);
/// assert_eq!(&into[..5], b"hello");
/// ```
#[derive(Debug)]
pub struct Queue {
    id: i32,
    owned: bool,
    /// A message as the kernel wants it: its kind in front of its bytes.
    message: Vec<u64>,
}

/// Bytes of the kind in front of a message.
const KIND_BYTES: usize = 8;

impl Queue {
    /// A new queue, for this user only.
    ///
    /// ```
    /// use barewire_sys::sysv::Queue;
    /// let (Ok(one), Ok(other)) = (Queue::create(), Queue::create()) else { return };
    /// assert_ne!(one.id(), other.id());
    /// let id = one.id();
    /// drop(one);
    /// assert!(Queue::open(id).send(1, b"").is_err(), "it is gone");
    /// ```
    pub fn create() -> io::Result<Queue> {
        // SAFETY: takes two numbers and no memory of ours.
        let id = unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) };
        if id < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Queue { id, owned: true, message: Vec::new() })
    }

    /// The queue of another process, by its number.
    ///
    /// ```
    /// use barewire_sys::sysv::Queue;
    /// assert!(Queue::open(-1).send(1, b"to nobody").is_err());
    /// let Ok(mut queue) = Queue::create() else { return };
    /// drop(Queue::open(queue.id()));
    /// assert!(queue.send(1, b"still there").is_ok(), "only its maker takes it away");
    /// ```
    pub fn open(id: i32) -> Queue {
        Queue { id, owned: false, message: Vec::new() }
    }

    /// What others open it by.
    ///
    /// ```
    /// use barewire_sys::sysv::Queue;
    /// let Ok(queue) = Queue::create() else { return };
    /// let told = queue.id().to_string(); // as it is told to another process
    /// assert_eq!(Queue::open(told.parse().unwrap()).id(), queue.id());
    /// ```
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Appends a message, waiting for room. `kind` must be positive.
    ///
    /// ```
    /// use barewire_sys::sysv::Queue;
    /// let Ok(mut queue) = Queue::create() else { return };
    /// queue.send(1, b"").unwrap();
    /// queue.send(1, b"nine char").unwrap();
    /// assert!(queue.send(0, b"").is_err(), "kinds are positive");
    /// let mut into = [0; 16];
    /// assert_eq!([queue.receive(1, &mut into).unwrap(), queue.receive(1, &mut into).unwrap()], [0, 9]);
    /// assert_eq!(&into[..9], b"nine char");
    /// ```
    pub fn send(&mut self, kind: i64, bytes: &[u8]) -> io::Result<()> {
        self.reserve(bytes.len());
        self.message[0] = kind as u64;
        for (word, piece) in self.message[1..].iter_mut().zip(bytes.chunks(8)) {
            let mut eight = [0; 8];
            eight[..piece.len()].copy_from_slice(piece);
            *word = u64::from_ne_bytes(eight);
        }
        // SAFETY: `message` holds the kind and at least `bytes.len()` bytes behind it, and the call only reads them.
        let sent = unsafe { libc::msgsnd(self.id, self.message.as_ptr().cast(), bytes.len(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The next message of that kind, waiting for one; its length. A longer one than `into` is an error and stays.
    ///
    /// ```
    /// use barewire_sys::sysv::Queue;
    /// let Ok(mut queue) = Queue::create() else { return };
    /// queue.send(1, b"first").unwrap();
    /// queue.send(2, b"second").unwrap();
    /// let mut into = [0; 6];
    /// assert_eq!(queue.receive(2, &mut into).unwrap(), 6, "by kind, not by age");
    /// assert!(queue.receive(1, &mut into[..4]).is_err(), "too long");
    /// assert_eq!(queue.receive(1, &mut into).unwrap(), 5, "but it has stayed");
    /// ```
    pub fn receive(&mut self, kind: i64, into: &mut [u8]) -> io::Result<usize> {
        self.reserve(into.len());
        // SAFETY: `message` has room for the kind and `into.len()` bytes behind it, which is what the call may write.
        let got = unsafe { libc::msgrcv(self.id, self.message.as_mut_ptr().cast(), into.len(), kind, 0) };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        for (piece, word) in into[..got].chunks_mut(8).zip(&self.message[1..]) {
            piece.copy_from_slice(&word.to_ne_bytes()[..piece.len()]);
        }
        Ok(got)
    }

    fn reserve(&mut self, bytes: usize) {
        let words = (KIND_BYTES + bytes).div_ceil(8);
        if self.message.len() < words {
            self.message.resize(words, 0);
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: takes numbers and a null pointer, which this command does not follow.
            unsafe { libc::msgctl(self.id, libc::IPC_RMID, std::ptr::null_mut()) };
        }
    }
}
