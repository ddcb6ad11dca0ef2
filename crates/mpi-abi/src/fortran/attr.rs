//! Attributes: values are integers, as wide as addresses or, in the calls of long ago, plain ones.

use super::{give, subroutines, take};
use crate::attribute::{AttributeCallbacks, Language, Value};
use crate::boundary::Callback;
use crate::fault::{On, guard};
use crate::shim::{attr, convert};
use crate::world::{lock, world};
use barewire::mpi::attr::Target;
use std::ffi::c_int;

subroutines! {
    fn mpi_comm_create_keyval_ pmpi_comm_create_keyval_(copy: Code, delete: Code, keyval: c_int, extra: i64, ierror: c_int) {
        create(Target::Comm, Language::Fortran, copy, delete, keyval, take(extra), ierror);
    }

    fn mpi_type_create_keyval_ pmpi_type_create_keyval_(copy: Code, delete: Code, keyval: c_int, extra: i64, ierror: c_int) {
        create(Target::Type, Language::Fortran, copy, delete, keyval, take(extra), ierror);
    }

    fn mpi_win_create_keyval_ pmpi_win_create_keyval_(copy: Code, delete: Code, keyval: c_int, extra: i64, ierror: c_int) {
        create(Target::Win, Language::Fortran, copy, delete, keyval, take(extra), ierror);
    }

    fn mpi_keyval_create_ pmpi_keyval_create_(copy: Code, delete: Code, keyval: c_int, extra: c_int, ierror: c_int) {
        create(Target::Comm, Language::OldFortran, copy, delete, keyval, take(extra).into(), ierror);
    }

    fn mpi_comm_set_attr_ pmpi_comm_set_attr_(comm: c_int, keyval: c_int, value: i64, ierror: c_int) {
        set(Target::Comm, comm, keyval, take(value), ierror);
    }

    fn mpi_type_set_attr_ pmpi_type_set_attr_(datatype: c_int, keyval: c_int, value: i64, ierror: c_int) {
        set(Target::Type, datatype, keyval, take(value), ierror);
    }

    fn mpi_win_set_attr_ pmpi_win_set_attr_(win: c_int, keyval: c_int, value: i64, ierror: c_int) {
        set(Target::Win, win, keyval, take(value), ierror);
    }

    fn mpi_attr_put_ pmpi_attr_put_(comm: c_int, keyval: c_int, value: c_int, ierror: c_int) {
        set(Target::Comm, comm, keyval, take(value).into(), ierror);
    }

    fn mpi_comm_get_attr_ pmpi_comm_get_attr_(comm: c_int, keyval: c_int, value: i64, flag: c_int, ierror: c_int) {
        get(Target::Comm, comm, keyval, |found| give(value, found), flag, ierror);
    }

    fn mpi_type_get_attr_ pmpi_type_get_attr_(datatype: c_int, keyval: c_int, value: i64, flag: c_int, ierror: c_int) {
        get(Target::Type, datatype, keyval, |found| give(value, found), flag, ierror);
    }

    fn mpi_win_get_attr_ pmpi_win_get_attr_(win: c_int, keyval: c_int, value: i64, flag: c_int, ierror: c_int) {
        get(Target::Win, win, keyval, |found| give(value, found), flag, ierror);
    }

    fn mpi_attr_get_ pmpi_attr_get_(comm: c_int, keyval: c_int, value: c_int, flag: c_int, ierror: c_int) {
        get(Target::Comm, comm, keyval, |found| give(value, found as c_int), flag, ierror);
    }
}

/// What messages about errors call the functions, by target.
const CREATE: [&str; 3] = ["MPI_Comm_create_keyval", "MPI_Type_create_keyval", "MPI_Win_create_keyval"];
const SET: [&str; 3] = ["MPI_Comm_set_attr", "MPI_Type_set_attr", "MPI_Win_set_attr"];
const GET: [&str; 3] = ["MPI_Comm_get_attr", "MPI_Type_get_attr", "MPI_Win_get_attr"];

/// What the address of a subroutine points to.
type Code = std::ffi::c_void;

fn create(
    target: Target,
    language: Language,
    copy: *mut Code,
    delete: *mut Code,
    keyval: *mut c_int,
    extra: i64,
    ierror: *mut c_int,
) {
    let code = guard(On::Nothing, CREATE[target as usize], || {
        let copy = Callback::at(copy).required()?;
        let delete = Callback::at(delete).required()?;
        let callbacks = AttributeCallbacks { language, copy, delete, extra: extra as usize };
        give(keyval, lock(&world().keyvals).create(target, callbacks));
        Ok(())
    });
    give(ierror, code);
}

fn set(target: Target, object: *mut c_int, keyval: *mut c_int, value: i64, ierror: *mut c_int) {
    let (object, on) = find(target, object);
    let set = || attr::set(target, object, take(keyval), Value::integer(value));
    give(ierror, guard(on, SET[target as usize], set));
}

fn get(
    target: Target,
    object: *mut c_int,
    keyval: *mut c_int,
    tell: impl FnOnce(i64),
    flag: *mut c_int,
    ierror: *mut c_int,
) {
    let (object, on) = find(target, object);
    let code = guard(on, GET[target as usize], || {
        let found = attr::get(target, object, take(keyval))?;
        give(flag, found.is_some().into());
        if let Some(found) = found {
            tell(found.to_integer());
        }
        Ok(())
    });
    give(ierror, code);
}

/// The object of an integer, and who hears about what is wrong with it.
fn find(target: Target, object: *mut c_int) -> (usize, On) {
    match target {
        Target::Comm => {
            let comm = convert::PMPI_Comm_fromint(take(object));
            (comm.0, comm.into())
        }
        Target::Type => (convert::PMPI_Type_fromint(take(object)).0, On::Nothing),
        Target::Win => {
            let win = convert::PMPI_Win_fromint(take(object));
            (win.0, win.into())
        }
    }
}

/// The predefined copy and delete functions.
macro_rules! predefined {
    ($($kind:ty: $null:ident $dup:ident $forget:ident;)*) => {$(
        #[doc = concat!("Fortran's `", stringify!($null), "`: nothing is copied.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $null(
            _object: *mut c_int, _keyval: *mut c_int, _extra: *mut $kind, _value: *mut $kind, _copy: *mut $kind,
            flag: *mut c_int, ierror: *mut c_int,
        ) {
            give(flag, 0);
            give(ierror, 0);
        }

        #[doc = concat!("Fortran's `", stringify!($dup), "`: the copy has the same value.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $dup(
            _object: *mut c_int, _keyval: *mut c_int, _extra: *mut $kind, value: *mut $kind, copy: *mut $kind,
            flag: *mut c_int, ierror: *mut c_int,
        ) {
            give(copy, take(value));
            give(flag, 1);
            give(ierror, 0);
        }

        #[doc = concat!("Fortran's `", stringify!($forget), "`: nothing happens.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $forget(
            _object: *mut c_int, _keyval: *mut c_int, _value: *mut $kind, _extra: *mut $kind, ierror: *mut c_int,
        ) {
            give(ierror, 0);
        }
    )*};
}

predefined! {
    i64: mpi_comm_null_copy_fn_ mpi_comm_dup_fn_ mpi_comm_null_delete_fn_;
    i64: mpi_type_null_copy_fn_ mpi_type_dup_fn_ mpi_type_null_delete_fn_;
    i64: mpi_win_null_copy_fn_ mpi_win_dup_fn_ mpi_win_null_delete_fn_;
    c_int: mpi_null_copy_fn_ mpi_dup_fn_ mpi_null_delete_fn_;
}
