//! Values of attributes as C and Fortran see them, and the functions of attribute keys.

use crate::boundary::Callback;
use barewire::mpi::attr::{Attributes, Callbacks};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// What is hung on an object: a pointer if C hung it there, an integer if Fortran did or if it is predefined.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// Fortran reads it as a number.
    Pointer(usize),
    /// C gets its address, where an `int` and an `MPI_Aint` find the same number, and may change it there.
    Integer(Arc<AtomicI64>),
}

impl Value {
    /// An integer.
    pub fn integer(value: i64) -> Value {
        Value::Integer(Arc::new(AtomicI64::new(value)))
    }

    /// As C sees it.
    pub fn to_pointer(&self) -> usize {
        match self {
            Value::Pointer(pointer) => *pointer,
            Value::Integer(integer) => Arc::as_ptr(integer) as usize,
        }
    }

    /// As Fortran sees it.
    pub fn to_integer(&self) -> i64 {
        match self {
            Value::Pointer(pointer) => *pointer as i64,
            // SYNC integer: whoever changes a value while others read it orders that himself.
            Value::Integer(integer) => integer.load(Ordering::Relaxed),
        }
    }

    /// Changes an integer where it is.
    pub fn store(&self, value: i64) {
        if let Value::Integer(integer) = self {
            // SYNC integer: as above.
            integer.store(value, Ordering::Relaxed);
        }
    }

    /// The same for another object: an integer has a place of its own there.
    fn again(&self) -> Value {
        match self {
            Value::Pointer(pointer) => Value::Pointer(*pointer),
            Value::Integer(_) => Value::integer(self.to_integer()),
        }
    }
}

/// Whose functions a key has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// C's.
    C,
    /// Fortran's, with values as wide as addresses.
    Fortran,
    /// Those of `MPI_KEYVAL_CREATE`, with values of type `INTEGER`.
    OldFortran,
}

/// The functions and the extra state of an attribute key.
#[derive(Debug)]
pub(crate) struct AttributeCallbacks {
    /// Whose functions they are.
    pub language: Language,
    /// Decides what a copy gets.
    pub copy: Callback,
    /// Is told when a value goes.
    pub delete: Callback,
    /// Passed to both.
    pub extra: usize,
}

/// The attributes of an object.
pub(crate) type Hung = Attributes<AttributeCallbacks>;

impl Callbacks for AttributeCallbacks {
    type Value = Value;

    /// What comes out as it went in remains what it was, so a pointer that Fortran hands on is a pointer.
    fn copy(&self, object: usize, keyval: i32, value: &Value) -> Result<Option<Value>, i32> {
        if self.language == Language::C {
            let given = value.to_pointer();
            let copy = self.copy.copy(object, keyval, self.extra, given)?;
            return Ok(copy.map(|copy| if copy == given { value.again() } else { Value::Pointer(copy) }));
        }
        let given = value.to_integer();
        let copy = self.copy.copy_integer(object, keyval, self.extra as i64, given)?;
        let narrow = self.language == Language::OldFortran;
        Ok(copy.map(|copy| match copy {
            copy if copy == given => value.again(),
            copy if narrow => Value::integer((copy as i32).into()),
            copy => Value::integer(copy),
        }))
    }

    fn delete(&self, object: usize, keyval: i32, value: &Value) -> Result<(), i32> {
        match self.language {
            Language::C => self.delete.delete(object, keyval, value.to_pointer(), self.extra),
            _ => self.delete.delete_integer(object, keyval, value.to_integer(), self.extra as i64),
        }
    }
}
