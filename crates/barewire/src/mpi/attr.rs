//! Attributes: values a program hangs on a communicator, a datatype or a window.
//!
//! A key carries two callbacks: one decides what a copy of the object gets, one is told when the value goes. Callbacks may call
//! MPI again, so they run with no lock held: the list is looked at, the callback runs, the list is changed.
//! A key that is freed lives on in the objects that use it.
//!
//! Attributes are copied in the order they were set and deleted in the opposite order.
//!
//! ```
//! use barewire::mpi::attr::{Attributes, Callbacks, Keyvals, Target};
//! /// A copy gets twice the value.
//! struct Doubling;
//! impl Callbacks for Doubling {
//!     type Value = u32;
//!     fn copy(&self, _: usize, _: i32, value: &u32) -> Result<Option<u32>, i32> { Ok(Some(2 * value)) }
//!     fn delete(&self, _: usize, _: i32, _: &u32) -> Result<(), i32> { Ok(()) }
//! }
//! let mut keys = Keyvals::new(100);
//! let key = keys.create(Target::Comm, Doubling);
//! let world = Attributes::default();
//! world.set(1, keys.get(key, Target::Comm)?, 21).unwrap();
//! assert_eq!(world.copy(1).unwrap().get(key), Some(42));
//! assert_eq!(world.get(key), Some(21));
//! # Ok::<(), barewire::mpi::error::Error>(())
//! ```

use super::error::{Class, Error, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What a key may be used on.
///
/// ```
/// use barewire::mpi::{attr::{Keyvals, Target}, error::Class};
/// let mut keys = Keyvals::new(1);
/// let key = keys.create(Target::Win, "callbacks");
/// assert!(keys.get(key, Target::Win).is_ok());
/// assert_eq!(keys.get(key, Target::Comm).unwrap_err().class(), Class::Keyval);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Communicators.
    Comm,
    /// Datatypes.
    Type,
    /// Windows.
    Win,
}

/// A key's callbacks. The object they are told about is a plain number to this module: the handle the program knows it by.
/// An error is the code the program's function returned.
///
/// ```
/// use barewire::mpi::attr::{Attributes, Callbacks, Keyvals, Target};
/// /// Nobody else gets the secret, and it cannot be taken away.
/// struct Secret;
/// impl Callbacks for Secret {
///     type Value = String;
///     fn copy(&self, _: usize, _: i32, _: &String) -> Result<Option<String>, i32> { Ok(None) }
///     fn delete(&self, _: usize, _: i32, _: &String) -> Result<(), i32> { Err(16) }
/// }
/// let mut keys = Keyvals::new(1);
/// let key = keys.create(Target::Type, Secret);
/// let object = Attributes::default();
/// object.set(7, keys.get(key, Target::Type)?, "xyzzy".into()).unwrap();
/// assert_eq!(object.copy(7).unwrap().get(key), None);
/// assert_eq!(object.delete(7, key), Err(16));
/// assert_eq!(object.get(key).as_deref(), Some("xyzzy"));
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
pub trait Callbacks {
    /// What is hung on objects; a clone is the same value.
    type Value: Clone + std::fmt::Debug;
    /// What a copy of `object` gets; none where the attribute is not copied.
    ///
    /// ```
    /// use barewire::mpi::attr::Callbacks;
    /// struct Depth;
    /// impl Callbacks for Depth {
    ///     type Value = u8;
    ///     /// Each copy is one deeper; the deepest has none.
    ///     fn copy(&self, _: usize, _: i32, depth: &u8) -> Result<Option<u8>, i32> { Ok(depth.checked_add(1)) }
    ///     # fn delete(&self, _: usize, _: i32, _: &u8) -> Result<(), i32> { Ok(()) }
    /// }
    /// assert_eq!(Depth.copy(1, 100, &4), Ok(Some(5)));
    /// assert_eq!(Depth.copy(1, 100, &255), Ok(None));
    /// ```
    fn copy(
        &self,
        object: usize,
        keyval: i32,
        value: &Self::Value,
    ) -> std::result::Result<Option<Self::Value>, i32>;
    /// The value is about to leave `object`.
    ///
    /// ```
    /// use barewire::mpi::attr::{Attributes, Callbacks, Keyvals, Target};
    /// use std::{cell::Cell, rc::Rc};
    /// /// Adds up what has gone.
    /// struct Gone(Rc<Cell<u64>>);
    /// impl Callbacks for Gone {
    ///     type Value = u64;
    ///     # fn copy(&self, _: usize, _: i32, value: &u64) -> Result<Option<u64>, i32> { Ok(Some(*value)) }
    ///     fn delete(&self, _: usize, _: i32, value: &u64) -> Result<(), i32> {
    ///         self.0.set(self.0.get() + value);
    ///         Ok(())
    ///     }
    /// }
    /// let gone = Rc::new(Cell::new(0));
    /// let mut keys = Keyvals::new(1);
    /// let key = keys.create(Target::Comm, Gone(gone.clone()));
    /// let object = Attributes::default();
    /// object.set(1, keys.get(key, Target::Comm)?, 40).unwrap();
    /// object.set(1, keys.get(key, Target::Comm)?, 2).unwrap();
    /// assert_eq!(gone.get(), 40, "the new value sent the old one away");
    /// object.delete(1, key).unwrap();
    /// assert_eq!(gone.get(), 42);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    fn delete(&self, object: usize, keyval: i32, value: &Self::Value) -> std::result::Result<(), i32>;
}

/// A key: its number, what it may be used on, its callbacks.
///
/// ```
/// use barewire::mpi::attr::{Keyvals, Target};
/// let mut keys = Keyvals::new(1);
/// let id = keys.create(Target::Comm, "callbacks");
/// let key = keys.get(id, Target::Comm)?;
/// keys.free(id, Target::Comm)?;
/// assert!(keys.get(id, Target::Comm).is_ok(), "a freed key lives as long as somebody has it");
/// drop(key);
/// assert!(keys.get(id, Target::Comm).is_err());
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Keyval<C> {
    id: i32,
    target: Target,
    callbacks: C,
}

/// Every key the program has made and not freed, and those it freed while objects still have a value under them.
///
/// ```
/// use barewire::mpi::attr::{Keyvals, Target};
/// let mut keys = Keyvals::new(64);
/// let (first, second) = (keys.create(Target::Comm, "a"), keys.create(Target::Type, "b"));
/// assert_eq!((first, second), (64, 65));
/// assert!(keys.get(second, Target::Type).is_ok());
/// assert!(keys.get(66, Target::Type).is_err());
/// ```
#[derive(Debug)]
pub struct Keyvals<C> {
    known: BTreeMap<i32, Arc<Keyval<C>>>,
    freed: BTreeMap<i32, Weak<Keyval<C>>>,
    next: i32,
}

impl<C> Keyvals<C> {
    /// No keys; the first one made gets the number `first`.
    ///
    /// ```
    /// use barewire::mpi::attr::{Keyvals, Target};
    /// let mut keys = Keyvals::new(1000);
    /// assert!(keys.get(1000, Target::Comm).is_err(), "no key has been made yet");
    /// assert_eq!(keys.create(Target::Comm, "callbacks"), 1000);
    /// ```
    pub fn new(first: i32) -> Keyvals<C> {
        Keyvals { known: BTreeMap::new(), freed: BTreeMap::new(), next: first }
    }

    /// A new key.
    ///
    /// ```
    /// use barewire::mpi::attr::{Keyvals, Target};
    /// let mut keys = Keyvals::new(10);
    /// let one = keys.create(Target::Win, "callbacks");
    /// keys.free(one, Target::Win)?;
    /// assert_eq!(keys.create(Target::Win, "others"), one + 1, "no number is used twice");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn create(&mut self, target: Target, callbacks: C) -> i32 {
        let id = self.next;
        self.next += 1;
        self.known.insert(id, Arc::new(Keyval { id, target, callbacks }));
        id
    }

    /// The key with this number, if it may be used on `target`.
    ///
    /// ```
    /// use barewire::mpi::{attr::{Keyvals, Target}, error::Class};
    /// let mut keys = Keyvals::new(10);
    /// let key = keys.create(Target::Type, "callbacks");
    /// assert!(keys.get(key, Target::Type).is_ok());
    /// let error = keys.get(key, Target::Comm).unwrap_err();
    /// assert_eq!(error.class(), Class::Keyval);
    /// assert_eq!(error.detail(), "key 10 is for Type objects, not for Comm objects");
    /// ```
    pub fn get(&self, id: i32, target: Target) -> Result<Arc<Keyval<C>>> {
        let freed = || self.freed.get(&id).and_then(Weak::upgrade);
        match self.known.get(&id).cloned().or_else(freed) {
            Some(keyval) if keyval.target == target => Ok(keyval),
            Some(keyval) => {
                let what = format!("key {id} is for {:?} objects, not for {target:?} objects", keyval.target);
                Err(Error::new(Class::Keyval, what))
            }
            None => Err(Error::new(Class::Keyval, format!("key {id} was never made, or was freed"))),
        }
    }

    /// Frees a key. As long as an object has a value under it, its number still finds it: that is how such a value is deleted.
    ///
    /// ```
    /// # use barewire::mpi::attr::{Attributes, Callbacks, Keyvals, Target};
    /// # struct Plain;
    /// # impl Callbacks for Plain {
    /// #     type Value = u32;
    /// #     fn copy(&self, _: usize, _: i32, value: &u32) -> Result<Option<u32>, i32> { Ok(Some(*value)) }
    /// #     fn delete(&self, _: usize, _: i32, _: &u32) -> Result<(), i32> { Ok(()) }
    /// # }
    /// let mut keys = Keyvals::new(1);
    /// let key = keys.create(Target::Comm, Plain);
    /// let object = Attributes::default();
    /// object.set(5, keys.get(key, Target::Comm)?, 3).unwrap();
    /// keys.free(key, Target::Comm)?;
    /// assert_eq!(object.get(key), Some(3), "the value outlives the key's name");
    /// object.delete(5, key).unwrap();
    /// assert!(keys.get(key, Target::Comm).is_err(), "now nothing has it");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn free(&mut self, id: i32, target: Target) -> Result<()> {
        let keyval = self.get(id, target)?;
        self.known.remove(&id);
        self.freed.insert(id, Arc::downgrade(&keyval));
        drop(keyval);
        self.freed.retain(|_, keyval| keyval.strong_count() > 0);
        Ok(())
    }
}

/// The attributes of one object.
///
/// ```
/// # use barewire::mpi::attr::{Attributes, Callbacks, Keyvals, Target};
/// # struct Plain;
/// # impl Callbacks for Plain {
/// #     type Value = &'static str;
/// #     fn copy(&self, _: usize, _: i32, value: &&'static str) -> Result<Option<&'static str>, i32> { Ok(Some(*value)) }
/// #     fn delete(&self, _: usize, _: i32, _: &&'static str) -> Result<(), i32> { Ok(()) }
/// # }
/// let mut keys = Keyvals::new(1);
/// let (color, shape) = (keys.create(Target::Type, Plain), keys.create(Target::Type, Plain));
/// let object = Attributes::default();
/// object.set(5, keys.get(color, Target::Type)?, "red").unwrap();
/// assert_eq!(object.get(color), Some("red"));
/// assert_eq!(object.get(shape), None);
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Attributes<C: Callbacks> {
    entries: Mutex<Vec<Entry<C>>>,
}

#[derive(Debug)]
struct Entry<C: Callbacks> {
    keyval: Arc<Keyval<C>>,
    value: C::Value,
}

impl<C: Callbacks> Clone for Entry<C> {
    fn clone(&self) -> Entry<C> {
        Entry { keyval: self.keyval.clone(), value: self.value.clone() }
    }
}

impl<C: Callbacks> Default for Attributes<C> {
    fn default() -> Attributes<C> {
        Attributes { entries: Mutex::new(Vec::new()) }
    }
}

impl<C: Callbacks> Attributes<C> {
    /// The value of a key.
    ///
    /// ```
    /// # use barewire::mpi::attr::{Attributes, Callbacks, Keyvals, Target};
    /// # struct Plain;
    /// # impl Callbacks for Plain {
    /// #     type Value = u32;
    /// #     fn copy(&self, _: usize, _: i32, value: &u32) -> Result<Option<u32>, i32> { Ok(Some(*value)) }
    /// #     fn delete(&self, _: usize, _: i32, _: &u32) -> Result<(), i32> { Ok(()) }
    /// # }
    /// # let mut keys = Keyvals::new(1);
    /// # let key = keys.create(Target::Comm, Plain);
    /// let (one, other) = (Attributes::default(), Attributes::<Plain>::default());
    /// one.set(5, keys.get(key, Target::Comm)?, 3).unwrap();
    /// assert_eq!(one.get(key), Some(3));
    /// assert_eq!(other.get(key), None, "every object has its own values");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn get(&self, id: i32) -> Option<C::Value> {
        self.with(|entries| {
            entries.iter().find(|entry| entry.keyval.id == id).map(|entry| entry.value.clone())
        })
    }

    /// Sets a value; an older one is deleted first, and stays if its callback refuses.
    ///
    /// ```
    /// # use barewire::mpi::attr::{Attributes, Callbacks, Keyvals, Target};
    /// # struct Sticky;
    /// # impl Callbacks for Sticky {
    /// #     type Value = u32;
    /// #     fn copy(&self, _: usize, _: i32, value: &u32) -> Result<Option<u32>, i32> { Ok(Some(*value)) }
    /// #     fn delete(&self, _: usize, _: i32, value: &u32) -> Result<(), i32> { if *value == 13 { Err(99) } else { Ok(()) } }
    /// # }
    /// # let mut keys = Keyvals::new(1);
    /// # let key = keys.create(Target::Comm, Sticky);
    /// // The callback of this key lets every value go but 13.
    /// let (key, object) = (keys.get(key, Target::Comm)?, Attributes::default());
    /// assert_eq!(object.set(5, key.clone(), 12), Ok(()));
    /// assert_eq!(object.set(5, key.clone(), 13), Ok(()));
    /// assert_eq!(object.set(5, key, 14), Err(99));
    /// assert_eq!(object.get(1), Some(13));
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn set(
        &self,
        object: usize,
        keyval: Arc<Keyval<C>>,
        value: C::Value,
    ) -> std::result::Result<(), i32> {
        if let Some(old) = self.get(keyval.id) {
            keyval.callbacks.delete(object, keyval.id, &old)?;
        }
        self.with(|entries| match entries.iter_mut().find(|entry| entry.keyval.id == keyval.id) {
            Some(entry) => entry.value = value,
            None => entries.push(Entry { keyval, value }),
        });
        Ok(())
    }

    /// Deletes a value; a key without a value is no error.
    ///
    /// ```
    /// # use barewire::mpi::attr::{Attributes, Callbacks, Keyvals, Target};
    /// # struct Plain;
    /// # impl Callbacks for Plain {
    /// #     type Value = u32;
    /// #     fn copy(&self, _: usize, _: i32, value: &u32) -> Result<Option<u32>, i32> { Ok(Some(*value)) }
    /// #     fn delete(&self, _: usize, _: i32, _: &u32) -> Result<(), i32> { Ok(()) }
    /// # }
    /// # let mut keys = Keyvals::new(1);
    /// # let key = keys.create(Target::Comm, Plain);
    /// let object = Attributes::default();
    /// object.set(5, keys.get(key, Target::Comm)?, 3).unwrap();
    /// object.delete(5, key).unwrap();
    /// assert_eq!(object.get(key), None);
    /// assert_eq!(object.delete(5, key), Ok(()), "there is nothing left to delete");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn delete(&self, object: usize, id: i32) -> std::result::Result<(), i32> {
        let found = self.with(|entries| entries.iter().find(|entry| entry.keyval.id == id).cloned());
        if let Some(Entry { keyval, value }) = found {
            keyval.callbacks.delete(object, id, &value)?;
            self.with(|entries| entries.retain(|entry| entry.keyval.id != id));
        }
        Ok(())
    }

    /// What a copy of `object` gets; the first callback that refuses ends it.
    ///
    /// ```
    /// # use barewire::mpi::attr::{Attributes, Callbacks, Keyvals, Target};
    /// struct IfEven;
    /// impl Callbacks for IfEven {
    ///     type Value = u32;
    ///     fn copy(&self, _: usize, _: i32, value: &u32) -> Result<Option<u32>, i32> {
    ///         if *value == 13 { Err(99) } else { Ok(Some(*value).filter(|value| value % 2 == 0)) }
    ///     }
    ///     # fn delete(&self, _: usize, _: i32, _: &u32) -> Result<(), i32> { Ok(()) }
    /// }
    /// # let mut keys = Keyvals::new(1);
    /// # let (a, b) = (keys.create(Target::Comm, IfEven), keys.create(Target::Comm, IfEven));
    /// let object = Attributes::default();
    /// object.set(5, keys.get(a, Target::Comm)?, 2).unwrap();
    /// object.set(5, keys.get(b, Target::Comm)?, 3).unwrap();
    /// let copy = object.copy(5).unwrap();
    /// assert_eq!((copy.get(a), copy.get(b)), (Some(2), None));
    /// object.set(5, keys.get(b, Target::Comm)?, 13).unwrap();
    /// assert_eq!(object.copy(5).err(), Some(99));
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn copy(&self, object: usize) -> std::result::Result<Attributes<C>, i32> {
        let mut copied = Vec::new();
        for Entry { keyval, value } in self.with(|entries| entries.clone()) {
            if let Some(value) = keyval.callbacks.copy(object, keyval.id, &value)? {
                copied.push(Entry { keyval, value });
            }
        }
        Ok(Attributes { entries: Mutex::new(copied) })
    }

    /// Deletes everything, the newest first; the first callback that refuses ends it.
    ///
    /// ```
    /// # use barewire::mpi::attr::{Attributes, Callbacks, Keyvals, Target};
    /// # use std::{cell::RefCell, rc::Rc};
    /// struct Diary(Rc<RefCell<Vec<u32>>>);
    /// impl Callbacks for Diary {
    ///     type Value = u32;
    ///     # fn copy(&self, _: usize, _: i32, value: &u32) -> Result<Option<u32>, i32> { Ok(Some(*value)) }
    ///     fn delete(&self, _: usize, _: i32, value: &u32) -> Result<(), i32> { self.0.borrow_mut().push(*value); Ok(()) }
    /// }
    /// let (mut keys, diary, object) = (Keyvals::new(1), Rc::new(RefCell::new(Vec::new())), Attributes::default());
    /// for value in [10, 20, 30] {
    ///     let key = keys.create(Target::Win, Diary(diary.clone()));
    ///     object.set(5, keys.get(key, Target::Win)?, value).unwrap();
    /// }
    /// object.clear(5).unwrap();
    /// assert_eq!(*diary.borrow(), [30, 20, 10]);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn clear(&self, object: usize) -> std::result::Result<(), i32> {
        while let Some(id) = self.with(|entries| entries.last().map(|entry| entry.keyval.id)) {
            self.delete(object, id)?;
        }
        Ok(())
    }

    fn with<T>(&self, look: impl FnOnce(&mut Vec<Entry<C>>) -> T) -> T {
        look(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Writes down what is called; copies even values, refuses to delete 13.
    struct Diary(Rc<RefCell<Vec<String>>>);

    impl Callbacks for Diary {
        type Value = usize;
        fn copy(&self, object: usize, keyval: i32, value: &usize) -> std::result::Result<Option<usize>, i32> {
            self.0.borrow_mut().push(format!("copy {object} {keyval} {value}"));
            Ok((value % 2 == 0).then_some(*value))
        }
        fn delete(&self, object: usize, keyval: i32, value: &usize) -> std::result::Result<(), i32> {
            self.0.borrow_mut().push(format!("delete {object} {keyval} {value}"));
            if *value == 13 { Err(99) } else { Ok(()) }
        }
    }

    fn setup() -> (Keyvals<Diary>, Rc<RefCell<Vec<String>>>) {
        (Keyvals::new(1000), Rc::new(RefCell::new(Vec::new())))
    }

    #[test]
    fn copies_go_in_order_and_deletions_backwards() {
        let (mut keys, diary) = setup();
        let ids: Vec<i32> = (0..3).map(|_| keys.create(Target::Type, Diary(diary.clone()))).collect();
        let attributes = Attributes::default();
        for (i, &id) in ids.iter().enumerate() {
            attributes.set(7, keys.get(id, Target::Type).unwrap(), i).unwrap();
        }
        let copy = attributes.copy(7).unwrap();
        assert_eq!(copy.get(ids[0]), Some(0));
        assert_eq!(copy.get(ids[1]), None, "an odd value is not copied");
        copy.clear(8).unwrap();
        let expected =
            ["copy 7 1000 0", "copy 7 1001 1", "copy 7 1002 2", "delete 8 1002 2", "delete 8 1000 0"];
        assert_eq!(*diary.borrow(), expected);
    }

    #[test]
    fn setting_again_deletes_the_old_value_first() {
        let (mut keys, diary) = setup();
        let id = keys.create(Target::Comm, Diary(diary.clone()));
        let keyval = keys.get(id, Target::Comm).unwrap();
        let attributes = Attributes::default();
        attributes.set(1, keyval.clone(), 12).unwrap();
        attributes.set(1, keyval.clone(), 13).unwrap();
        assert_eq!(attributes.set(1, keyval, 14), Err(99));
        assert_eq!(attributes.get(id), Some(13), "a refused deletion leaves the value");
        assert_eq!(*diary.borrow(), ["delete 1 1000 12", "delete 1 1000 13"]);
        assert_eq!(attributes.clear(1), Err(99));
    }

    #[test]
    fn a_freed_key_lives_on_where_it_is_used() {
        let (mut keys, diary) = setup();
        let id = keys.create(Target::Win, Diary(diary.clone()));
        let attributes = Attributes::default();
        attributes.set(1, keys.get(id, Target::Win).unwrap(), 4).unwrap();
        assert_eq!(keys.free(id, Target::Comm).unwrap_err().class(), Class::Keyval);
        keys.free(id, Target::Win).unwrap();
        assert!(keys.get(id, Target::Win).is_ok(), "its value can still be deleted by its number");
        keys.free(id, Target::Win).unwrap();
        assert_eq!(attributes.get(id), Some(4));
        attributes.delete(1, id).unwrap();
        attributes.delete(1, id).unwrap();
        assert!(keys.get(id, Target::Win).is_err(), "nothing uses it any more");
        assert_eq!(*diary.borrow(), ["delete 1 1000 4"]);
    }
}
