//! Attributes: values a program hangs on a communicator, a datatype or a window.
//!
//! A key carries two callbacks: one decides what a copy of the object gets, one is told when the value goes. Callbacks may call
//! MPI again, so they run with no lock held: the list is looked at, the callback runs, the list is changed.
//! A key that is freed lives on in the objects that use it.
//!
//! Attributes are copied in the order they were set and deleted in the opposite order.

use super::error::{Class, Error, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What a key may be used on.
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
pub trait Callbacks {
    /// What is hung on objects; a clone is the same value.
    type Value: Clone + std::fmt::Debug;
    /// What a copy of `object` gets; none where the attribute is not copied.
    fn copy(
        &self,
        object: usize,
        keyval: i32,
        value: &Self::Value,
    ) -> std::result::Result<Option<Self::Value>, i32>;
    /// The value is about to leave `object`.
    fn delete(&self, object: usize, keyval: i32, value: &Self::Value) -> std::result::Result<(), i32>;
}

/// A key: its number, what it may be used on, its callbacks.
#[derive(Debug)]
pub struct Keyval<C> {
    id: i32,
    target: Target,
    callbacks: C,
}

/// Every key the program has made and not freed, and those it freed while objects still have a value under them.
#[derive(Debug)]
pub struct Keyvals<C> {
    known: BTreeMap<i32, Arc<Keyval<C>>>,
    freed: BTreeMap<i32, Weak<Keyval<C>>>,
    next: i32,
}

impl<C> Keyvals<C> {
    /// No keys; the first one made gets the number `first`.
    pub fn new(first: i32) -> Keyvals<C> {
        Keyvals { known: BTreeMap::new(), freed: BTreeMap::new(), next: first }
    }

    /// A new key.
    pub fn create(&mut self, target: Target, callbacks: C) -> i32 {
        let id = self.next;
        self.next += 1;
        self.known.insert(id, Arc::new(Keyval { id, target, callbacks }));
        id
    }

    /// The key with this number, if it may be used on `target`.
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
    pub fn get(&self, id: i32) -> Option<C::Value> {
        self.with(|entries| {
            entries.iter().find(|entry| entry.keyval.id == id).map(|entry| entry.value.clone())
        })
    }

    /// Sets a value; an older one is deleted first, and stays if its callback refuses.
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
    pub fn delete(&self, object: usize, id: i32) -> std::result::Result<(), i32> {
        let found = self.with(|entries| entries.iter().find(|entry| entry.keyval.id == id).cloned());
        if let Some(Entry { keyval, value }) = found {
            keyval.callbacks.delete(object, id, &value)?;
            self.with(|entries| entries.retain(|entry| entry.keyval.id != id));
        }
        Ok(())
    }

    /// What a copy of `object` gets; the first callback that refuses ends it.
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
