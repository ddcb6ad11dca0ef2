//! The tool interface: it starts and stops, and has no control variables, categories or events; `counters` has the rest.

use crate::boundary::{Out, Text};
use barewire::mpi::error::Class;
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

/// How often the tool interface has been started and not stopped.
static STARTED: AtomicI32 = AtomicI32::new(0);

/// The code of a tool call: there is no error handler to tell.
pub(crate) fn when_started(body: impl FnOnce() -> c_int) -> c_int {
    // SYNC started: a counter alone; it guards no other memory.
    if STARTED.load(Ordering::Relaxed) > 0 { body() } else { Class::TNotInitialized as c_int }
}

/// Stores a result.
pub(crate) fn store<T: Copy>(place: Out<T>, value: T) -> c_int {
    if place.put(value).is_ok() { 0 } else { Class::TInvalid as c_int }
}

/// Starts the tool interface.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_init_thread(required: c_int, provided: Out<c_int>) -> c_int {
    STARTED.fetch_add(1, Ordering::Relaxed);
    store(provided, required)
}

/// Stops the tool interface.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_finalize() -> c_int {
    when_started(|| {
        STARTED.fetch_sub(1, Ordering::Relaxed);
        0
    })
}

/// How many there are: none.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_cvar_get_num(num_cvar: Out<c_int>) -> c_int {
    when_started(|| store(num_cvar, 0))
}

/// How many there are: none.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_category_get_num(num_cat: Out<c_int>) -> c_int {
    when_started(|| store(num_cat, 0))
}

/// How many there are: none.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_event_get_num(num_events: Out<c_int>) -> c_int {
    when_started(|| store(num_events, 0))
}

/// How many there are: none.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_source_get_num(num_sources: Out<c_int>) -> c_int {
    when_started(|| store(num_sources, 0))
}

/// How often the categories have changed: never.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_category_changed(update_number: Out<c_int>) -> c_int {
    when_started(|| store(update_number, 0))
}

/// The number of a name: no name is known.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_cvar_get_index(name: Text, cvar_index: Out<c_int>) -> c_int {
    let _ = (name, cvar_index);
    when_started(|| Class::TInvalidName as c_int)
}

/// The number of a name: no name is known.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_category_get_index(name: Text, cat_index: Out<c_int>) -> c_int {
    let _ = (name, cat_index);
    when_started(|| Class::TInvalidName as c_int)
}

/// The number of a name: no name is known.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_event_get_index(name: Text, event_index: Out<c_int>) -> c_int {
    let _ = (name, event_index);
    when_started(|| Class::TInvalidName as c_int)
}
