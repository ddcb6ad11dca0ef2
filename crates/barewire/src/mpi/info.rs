//! Info objects: hints as pairs of key and value, in the order they were given.
//!
//! Keys and values are bytes, as C gives them; lengths are limited as the standard says.
//!
//! ```
//! use barewire::mpi::info::Info;
//! let mut hints = Info::new();
//! hints.set("striping_unit", "65536")?;
//! hints.set("path", b"/tmp/\xff")?;
//! assert_eq!(hints.get("path"), Some(&b"/tmp/\xff"[..]), "bytes, not text");
//! assert_eq!(hints.nth_key(0)?, b"striping_unit");
//! # Ok::<(), barewire::mpi::error::Error>(())
//! ```

use super::error::{Class, Error, Result};

/// The longest key, in bytes.
pub const KEY_MAX: usize = 255;
/// The longest value, in bytes.
pub const VALUE_MAX: usize = 1023;

/// An ordered set of hints.
///
/// ```
/// use barewire::mpi::info::Info;
/// let mut info = Info::new();
/// info.set("no_locks", "true")?;
/// info.set("no_locks", "false")?;
/// assert_eq!(info.get("no_locks"), Some(&b"false"[..]));
/// assert_eq!(info.keys().count(), 1);
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Info {
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Info {
    /// No hints.
    ///
    /// ```
    /// use barewire::mpi::info::Info;
    /// let info = Info::new();
    /// assert_eq!(info.keys().len(), 0);
    /// assert_eq!(info, Info::default());
    /// ```
    pub fn new() -> Info {
        Info::default()
    }

    /// Sets a hint; an older value of the same key goes.
    ///
    /// ```
    /// use barewire::mpi::{error::Class, info::{Info, KEY_MAX, VALUE_MAX}};
    /// let mut info = Info::new();
    /// info.set("k".repeat(KEY_MAX), "v".repeat(VALUE_MAX))?;
    /// assert_eq!(info.set("", "v").unwrap_err().class(), Class::InfoKey);
    /// assert_eq!(info.set("k", "v".repeat(VALUE_MAX + 1)).unwrap_err().class(), Class::InfoValue);
    /// assert_eq!(info.keys().len(), 1);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn set(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (checked_key(key.as_ref())?, value.as_ref());
        if value.len() > VALUE_MAX {
            let what = format!("the value has {} bytes; {VALUE_MAX} are allowed", value.len());
            return Err(Error::new(Class::InfoValue, what));
        }
        match self.pairs.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value.to_vec(),
            None => self.pairs.push((key.to_vec(), value.to_vec())),
        }
        Ok(())
    }

    /// The value of a key.
    ///
    /// ```
    /// use barewire::mpi::info::Info;
    /// let mut info = Info::new();
    /// info.set("cb_nodes", "8")?;
    /// assert_eq!(info.get("cb_nodes"), Some(&b"8"[..]));
    /// assert_eq!(info.get("CB_NODES"), None, "upper and lower case differ");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<&[u8]> {
        let key = key.as_ref();
        self.pairs.iter().find(|(known, _)| known == key).map(|(_, value)| &value[..])
    }

    /// Takes a hint out.
    ///
    /// ```
    /// use barewire::mpi::{error::Class, info::Info};
    /// let mut info = Info::new();
    /// info.set("host", "a")?;
    /// info.delete("host")?;
    /// assert_eq!(info.get("host"), None);
    /// assert_eq!(info.delete("host").unwrap_err().class(), Class::InfoNokey);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = checked_key(key.as_ref())?;
        let place = self.pairs.iter().position(|(known, _)| known == key).ok_or_else(|| {
            Error::new(Class::InfoNokey, format!("there is no key {:?}", String::from_utf8_lossy(key)))
        })?;
        self.pairs.remove(place);
        Ok(())
    }

    /// The keys in the order they were first set.
    ///
    /// ```
    /// use barewire::mpi::info::Info;
    /// let mut info = Info::new();
    /// for (key, value) in [("c", "1"), ("a", "2"), ("c", "3")] {
    ///     info.set(key, value)?;
    /// }
    /// assert_eq!(info.keys().collect::<Vec<_>>(), [b"c", b"a"]);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.pairs.iter().map(|(key, _)| &key[..])
    }

    /// Keys and values in the order the keys were first set.
    ///
    /// ```
    /// use barewire::mpi::info::Info;
    /// let mut info = Info::new();
    /// info.set("soft", "0:4")?;
    /// info.set("wdir", "/tmp")?;
    /// let text: Vec<String> = info.pairs().map(|(k, v)| [k, b"=", v].concat().escape_ascii().to_string()).collect();
    /// assert_eq!(text, ["soft=0:4", "wdir=/tmp"]);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn pairs(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.pairs.iter().map(|(key, value)| (&key[..], &value[..]))
    }

    /// The hints of `defaults`, each with this object's value if it has one; what is not among them is left out.
    ///
    /// ```
    /// use barewire::mpi::info::Info;
    /// let mut given = Info::new();
    /// given.set("no_locks", "true")?;
    /// given.set("striping_factor", "4")?;
    /// let used = given.over(&[("no_locks", "false"), ("same_size", "false")]);
    /// assert_eq!(used.get("no_locks"), Some(&b"true"[..]));
    /// assert_eq!(used.get("same_size"), Some(&b"false"[..]));
    /// assert_eq!(used.get("striping_factor"), None);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    #[must_use]
    pub fn over(&self, defaults: &[(&str, &str)]) -> Info {
        let pair = |(key, default): &(&str, &str)| {
            (key.as_bytes().to_vec(), self.get(key).unwrap_or(default.as_bytes()).to_vec())
        };
        Info { pairs: defaults.iter().map(pair).collect() }
    }

    /// The key at place `n`.
    ///
    /// ```
    /// use barewire::mpi::{error::Class, info::Info};
    /// let mut info = Info::new();
    /// info.set("first", "")?;
    /// info.set("second", "")?;
    /// assert_eq!(info.nth_key(1)?, b"second");
    /// info.delete("first")?;
    /// assert_eq!(info.nth_key(0)?, b"second", "the others move up");
    /// assert_eq!(info.nth_key(1).unwrap_err().class(), Class::Arg);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn nth_key(&self, n: usize) -> Result<&[u8]> {
        self.pairs.get(n).map(|(key, _)| &key[..]).ok_or_else(|| {
            Error::new(Class::Arg, format!("there is no key number {n}; the object has {}", self.pairs.len()))
        })
    }
}

/// The key itself, if its length is allowed.
///
/// ```
/// use barewire::mpi::info::{KEY_MAX, checked_key};
/// assert_eq!(checked_key(b"no_locks")?, b"no_locks");
/// assert!(checked_key(&[b'k'; KEY_MAX + 1]).is_err());
/// assert!(checked_key(b"").is_err());
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
pub fn checked_key(key: &[u8]) -> Result<&[u8]> {
    if key.is_empty() || key.len() > KEY_MAX {
        let what = format!("the key has {} bytes; 1 to {KEY_MAX} are allowed", key.len());
        return Err(Error::new(Class::InfoKey, what));
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_the_order_of_their_first_setting() {
        let mut info = Info::new();
        for (key, value) in [("c", "1"), ("a", "2"), ("b", "3"), ("a", "4")] {
            info.set(key, value).unwrap();
        }
        assert_eq!(info.keys().collect::<Vec<_>>(), [b"c", b"a", b"b"]);
        assert_eq!(info.nth_key(1).unwrap(), b"a");
        info.delete("c").unwrap();
        assert_eq!(info.nth_key(0).unwrap(), b"a");
        assert_eq!(info.get("a"), Some(&b"4"[..]));
        assert_eq!(info.nth_key(2).unwrap_err().class(), Class::Arg);
        assert_eq!(info.delete("c").unwrap_err().class(), Class::InfoNokey);
    }

    #[test]
    fn lengths_outside_the_limits_are_refused() {
        let mut info = Info::new();
        assert_eq!(info.set("", "v").unwrap_err().class(), Class::InfoKey);
        assert_eq!(info.set("k".repeat(KEY_MAX + 1), "v").unwrap_err().class(), Class::InfoKey);
        assert_eq!(info.set("k", "v".repeat(VALUE_MAX + 1)).unwrap_err().class(), Class::InfoValue);
        info.set("empty", "").unwrap();
        info.set("k".repeat(KEY_MAX), "v".repeat(VALUE_MAX)).unwrap();
    }
}
