//! Performance variables of the tool interface: the counters of this process's endpoint.
//!
//! They always run and cannot be set, and belong to no object. A handle is the number of its variable.

use super::tool::{store, when_started};
use crate::boundary::{MPI_Datatype, Memory, Out, OutText, OutWord, Text};
use crate::world::world;
use barewire::core::Stats;
use barewire::mpi::datatype::Basic;
use barewire::mpi::error::Class;
use std::ffi::c_int;

/// A counter: its name, what it counts, and where it is.
type Counter = (&'static str, &'static str, fn(&Stats) -> u64);

const COUNTERS: [Counter; 8] = [
    ("barewire_sent", "messages sent", |stats| stats.sent),
    ("barewire_sent_bytes", "bytes sent", |stats| stats.sent_bytes),
    ("barewire_received", "messages received", |stats| stats.received),
    ("barewire_received_bytes", "bytes received", |stats| stats.received_bytes),
    ("barewire_stalled", "sends that found no room", |stats| stats.stalled),
    ("barewire_rung", "sleepers woken", |stats| stats.rung),
    ("barewire_retransmitted", "packets sent again", |stats| stats.retransmitted),
    ("barewire_direct_bytes", "bytes copied to or from a neighbour's memory", |stats| stats.direct_bytes),
];

/// The standard's numbers.
const CLASS_COUNTER: c_int = 7;
const VERBOSITY_USER_BASIC: c_int = 9;
const BIND_NO_OBJECT: c_int = 1;
/// The handle of the only session there can be; counters are the same in all.
const SESSION: usize = 1;
/// Handles of counters begin here: 0 is no handle, 1 is all of them.
const FIRST: usize = 2;

fn counter(handle: usize) -> Option<&'static Counter> {
    COUNTERS.get(handle.checked_sub(FIRST)?)
}

/// Runs a call on a handle of a session.
fn on_handle(session: usize, handle: usize, body: impl FnOnce(&Counter) -> c_int) -> c_int {
    when_started(|| match (session, counter(handle)) {
        (SESSION, Some(counter)) => body(counter),
        (SESSION, None) => Class::TInvalidHandle as c_int,
        _ => Class::TInvalidSession as c_int,
    })
}

/// The same for calls that may name all handles of a session at once: those whose counters it is not for are passed over.
fn on_handles(session: usize, handle: usize, refusal: Class) -> c_int {
    match (session, handle) {
        (SESSION, ALL_HANDLES) => when_started(|| 0),
        _ => on_handle(session, handle, |_| refusal as c_int),
    }
}

/// `MPI_T_PVAR_ALL_HANDLES`.
const ALL_HANDLES: usize = 1;

/// A string with the length the program has room for, which becomes the length it would need.
fn tell(text: &str, place: OutText, len: Out<c_int>) {
    let Ok(room) = len.get() else { return };
    if room > 0 && !place.is_null() {
        // There is a buffer, so it takes what fits.
        let _ = place.put(text.as_bytes(), room as usize);
    }
    len.put_wanted(text.len() as c_int + 1);
}

/// How many there are.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_pvar_get_num(num_pvar: Out<c_int>) -> c_int {
    when_started(|| store(num_pvar, COUNTERS.len() as c_int))
}

/// The number of a name.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_pvar_get_index(name: Text, var_class: c_int, pvar_index: Out<c_int>) -> c_int {
    when_started(|| {
        let Ok(name) = name.to_vec() else { return Class::TInvalid as c_int };
        match COUNTERS.iter().position(|(known, ..)| known.as_bytes() == name) {
            Some(index) if var_class == CLASS_COUNTER => store(pvar_index, index as c_int),
            _ => Class::TInvalidName as c_int,
        }
    })
}

/// What a variable is.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub extern "C" fn PMPI_T_pvar_get_info(
    pvar_index: c_int,
    name: OutText,
    name_len: Out<c_int>,
    verbosity: Out<c_int>,
    var_class: Out<c_int>,
    datatype: Out<MPI_Datatype>,
    enumtype: OutWord,
    desc: OutText,
    desc_len: Out<c_int>,
    bind: Out<c_int>,
    readonly: Out<c_int>,
    continuous: Out<c_int>,
    atomic: Out<c_int>,
) -> c_int {
    when_started(|| {
        let found = usize::try_from(pvar_index).ok().and_then(|index| COUNTERS.get(index));
        let Some((known, what, _)) = found else { return Class::TInvalidIndex as c_int };
        tell(known, name, name_len);
        tell(what, desc, desc_len);
        verbosity.put_wanted(VERBOSITY_USER_BASIC);
        var_class.put_wanted(CLASS_COUNTER);
        datatype.put_wanted(MPI_Datatype(Basic::UnsignedLongLong as usize));
        enumtype.put_wanted(0);
        bind.put_wanted(BIND_NO_OBJECT);
        readonly.put_wanted(1);
        continuous.put_wanted(1);
        atomic.put_wanted(0);
        0
    })
}

/// Begins a session.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_pvar_session_create(session: OutWord) -> c_int {
    when_started(|| store(session, SESSION))
}

/// Ends a session.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_pvar_session_free(session: OutWord) -> c_int {
    when_started(|| match session.get() {
        Ok(SESSION) => store(session, 0),
        _ => Class::TInvalidSession as c_int,
    })
}

/// A handle of a variable.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_pvar_handle_alloc(
    session: usize,
    pvar_index: c_int,
    obj_handle: Memory,
    handle: OutWord,
    count: Out<c_int>,
) -> c_int {
    let _ = obj_handle;
    when_started(|| match (session, usize::try_from(pvar_index)) {
        (SESSION, Ok(index)) if index < COUNTERS.len() => {
            count.put_wanted(1);
            store(handle, FIRST + index)
        }
        (SESSION, _) => Class::TInvalidIndex as c_int,
        _ => Class::TInvalidSession as c_int,
    })
}

/// Gives a handle back.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_pvar_handle_free(session: usize, handle: OutWord) -> c_int {
    let Ok(known) = handle.get() else { return Class::TInvalidHandle as c_int };
    on_handle(session, known, |_| store(handle, 0))
}

/// The value of a variable; 0 while no job runs.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_pvar_read(session: usize, handle: usize, buf: Memory) -> c_int {
    on_handle(session, handle, |(_, _, value)| {
        let stats = world().job().ok().and_then(|job| job.net.with(|endpoint, _| endpoint.stats()).ok());
        let now = stats.map_or(0, |stats| value(&stats));
        let mut place = buf;
        match place.bytes_mut(0, 8) {
            Ok(bytes) => {
                bytes.copy_from_slice(&now.to_ne_bytes());
                0
            }
            Err(_) => Class::TInvalid as c_int,
        }
    })
}

/// Counters run all the time.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_pvar_start(session: usize, handle: usize) -> c_int {
    on_handles(session, handle, Class::TPvarNoStartstop)
}

/// Counters run all the time.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_pvar_stop(session: usize, handle: usize) -> c_int {
    on_handles(session, handle, Class::TPvarNoStartstop)
}

/// Counters cannot be set.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_pvar_write(session: usize, handle: usize, buf: Memory) -> c_int {
    let _ = buf;
    on_handle(session, handle, |_| Class::TPvarNoWrite as c_int)
}

/// Counters cannot be set.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_pvar_reset(session: usize, handle: usize) -> c_int {
    on_handles(session, handle, Class::TPvarNoWrite)
}

/// Counters cannot be set.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_T_pvar_readreset(session: usize, handle: usize, buf: Memory) -> c_int {
    let _ = buf;
    on_handle(session, handle, |_| Class::TPvarNoWrite as c_int)
}
