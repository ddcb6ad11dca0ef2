//! The entry points: each turns its arguments into a call of [`barewire::bmi`] and the outcome into a number.

use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use barewire::bmi::{
    Addr, Answer, Bmi, Completion, ContextId, Error, OpId, Options, Posted, Query, Result, Setting,
};

use crate::boundary::{Bytes, In, Out, Parameter, Pieces, Text, UnexpectedInfo, allocate, copy, free};
use crate::state::{bmi, close, code, lent, open};

const INIT_SERVER: c_int = 1;
const TCP_BIND_SPECIFIC: c_int = 2;
const AUTO_REF_COUNT: c_int = 4;
const METHOD: &str = "bmi_tcp";

/// The call's arguments make no sense.
const fn invalid<T>(what: &'static str) -> Result<T> {
    Err(Error::Invalid(what))
}

/// `BMI_initialize`: opens the network; a server also listens.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_initialize(method_list: Text, listen_addr: Text, flags: c_int) -> c_int {
    let opened = open(|| {
        let (methods, listen) = (method_list.get(), listen_addr.get());
        if methods.is_some_and(|methods| !methods.split(',').any(|method| method.trim() == METHOD)) {
            return invalid("of the networks asked for there is none here but bmi_tcp");
        }
        let mut options = Options::default();
        if flags & INIT_SERVER != 0 {
            options =
                options.listen(&listen.ok_or(Error::Invalid("a server needs an address to listen at"))?);
        }
        if flags & TCP_BIND_SPECIFIC == 0 {
            options = options.every_interface();
        }
        if flags & AUTO_REF_COUNT != 0 {
            options = options.count_references();
        }
        Bmi::initialize(options)
    });
    if let Err(error) = &opened {
        // The number alone would not help anybody.
        eprintln!("barewire: BMI_initialize: {error}");
    }
    code(opened)
}

/// `BMI_finalize`: gives up what is under way and closes the network.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_finalize() -> c_int {
    code(close())
}

/// `BMI_open_context`.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_open_context(context_id: Out<i64>) -> c_int {
    if context_id.is_null() {
        return code(invalid("no place for the context"));
    }
    code(bmi().and_then(|bmi| bmi.open_context()).map(|context| context_id.put(context.to_raw())))
}

/// `BMI_close_context`: what was posted in it is given up.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_close_context(context_id: i64) {
    // It can only fail if there is no such context, and then there is nothing to close.
    let _ = bmi().and_then(|bmi| bmi.close_context(ContextId::from_raw(context_id)));
}

/// What most posts have in common.
struct Post {
    bmi: Bmi,
    addr: Addr,
    user: u64,
    context: ContextId,
}

/// Posts an operation and says how far it came: 1 if it has completed.
fn post(
    id: Out<i64>,
    (addr, user_ptr, context): (i64, *mut c_void, i64),
    actual: Out<i64>,
    start: impl FnOnce(Post) -> Result<Posted>,
) -> c_int {
    if id.is_null() {
        return code(invalid("no place for the operation"));
    }
    let posted = bmi().and_then(|bmi| {
        let (addr, context) = (Addr::from_raw(addr), ContextId::from_raw(context));
        start(Post { bmi, addr, user: user_ptr.expose_provenance() as u64, context })
    });
    match posted {
        Ok(Posted::Done(len)) => {
            actual.put(len as i64);
            1
        }
        Ok(Posted::Pending(op)) => {
            id.put(op.to_raw());
            0
        }
        Err(error) => error.code(),
    }
}

const NO_SUCH_BUFFER: Error = Error::Invalid("there cannot be such a buffer");
/// `BMI_PRE_ALLOC`: the buffer is from `BMI_memalloc`.
const PRE_ALLOC: c_int = 1;
/// Sends say how many bytes they took by nothing.
const UNWANTED: Out<i64> = Out::NULL;

/// `BMI_post_send`.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_post_send(
    id: Out<i64>,
    dest: i64,
    buffer: Bytes,
    size: i64,
    buffer_type: c_int,
    tag: i32,
    user_ptr: *mut c_void,
    context_id: i64,
    _hints: *mut c_void,
) -> c_int {
    post(id, (dest, user_ptr, context_id), UNWANTED, |post| {
        let ours = (buffer_type == PRE_ALLOC).then(|| buffer.ours(size)).flatten();
        let body = ours.or_else(|| buffer.outgoing(size)).ok_or(NO_SUCH_BUFFER)?;
        post.bmi.post_send(post.addr, body, tag, post.user, post.context)
    })
}

/// `BMI_post_sendunexpected_class`.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_post_sendunexpected_class(
    id: Out<i64>,
    dest: i64,
    buffer: Bytes,
    size: i64,
    _buffer_type: c_int,
    tag: i32,
    msg_class: u8,
    user_ptr: *mut c_void,
    context_id: i64,
    _hints: *mut c_void,
) -> c_int {
    post(id, (dest, user_ptr, context_id), UNWANTED, |post| {
        let body = buffer.outgoing(size).ok_or(NO_SUCH_BUFFER)?;
        post.bmi.post_sendunexpected(post.addr, body, tag, msg_class, post.user, post.context)
    })
}

/// `BMI_post_recv`.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_post_recv(
    id: Out<i64>,
    src: i64,
    buffer: Bytes,
    expected_size: i64,
    actual_size: Out<i64>,
    _buffer_type: c_int,
    tag: i32,
    user_ptr: *mut c_void,
    context_id: i64,
    _hints: *mut c_void,
) -> c_int {
    post(id, (src, user_ptr, context_id), actual_size, |post| {
        let place = buffer.place(expected_size).ok_or(NO_SUCH_BUFFER)?;
        post.bmi.post_recv(post.addr, place, tag, post.user, post.context)
    })
}

/// `BMI_post_send_list`.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_post_send_list(
    id: Out<i64>,
    dest: i64,
    buffer_list: In<Bytes>,
    size_list: In<i64>,
    list_count: c_int,
    total_size: i64,
    _buffer_type: c_int,
    tag: i32,
    user_ptr: *mut c_void,
    context_id: i64,
    _hints: *mut c_void,
) -> c_int {
    post(id, (dest, user_ptr, context_id), UNWANTED, |post| {
        let list = Pieces::new(buffer_list, size_list, list_count, total_size).ok_or(NO_SUCH_BUFFER)?;
        post.bmi.post_send(post.addr, list.outgoing(), tag, post.user, post.context)
    })
}

/// `BMI_post_recv_list`.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_post_recv_list(
    id: Out<i64>,
    src: i64,
    buffer_list: In<Bytes>,
    size_list: In<i64>,
    list_count: c_int,
    total_expected_size: i64,
    total_actual_size: Out<i64>,
    _buffer_type: c_int,
    tag: i32,
    user_ptr: *mut c_void,
    context_id: i64,
    _hints: *mut c_void,
) -> c_int {
    post(id, (src, user_ptr, context_id), total_actual_size, |post| {
        let list =
            Pieces::new(buffer_list, size_list, list_count, total_expected_size).ok_or(NO_SUCH_BUFFER)?;
        post.bmi.post_recv(post.addr, list.place(), tag, post.user, post.context)
    })
}

/// `BMI_post_sendunexpected_list_class`.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_post_sendunexpected_list_class(
    id: Out<i64>,
    dest: i64,
    buffer_list: In<Bytes>,
    size_list: In<i64>,
    list_count: c_int,
    total_size: i64,
    _buffer_type: c_int,
    tag: i32,
    msg_class: u8,
    user_ptr: *mut c_void,
    context_id: i64,
    _hints: *mut c_void,
) -> c_int {
    post(id, (dest, user_ptr, context_id), UNWANTED, |post| {
        let list = Pieces::new(buffer_list, size_list, list_count, total_size).ok_or(NO_SUCH_BUFFER)?;
        post.bmi.post_sendunexpected(post.addr, list.outgoing(), tag, msg_class, post.user, post.context)
    })
}

/// Places for completions.
#[derive(Clone, Copy)]
struct Completions {
    error_codes: Out<i32>,
    actual_sizes: Out<i64>,
    user_ptrs: Out<*mut c_void>,
}

impl Completions {
    fn put(self, at: usize, completion: &Completion) {
        self.error_codes.put_at(at, completion.outcome.map_or_else(|failure| failure.code(), |_| 0));
        self.actual_sizes.put_at(at, completion.outcome.map_or(0, |len| len as i64));
        self.user_ptrs.put_at(at, std::ptr::with_exposed_provenance_mut(completion.user as usize));
    }
}

fn milliseconds(max_idle_time_ms: c_int) -> Duration {
    Duration::from_millis(u64::try_from(max_idle_time_ms).unwrap_or(0))
}

/// `BMI_test`.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_test(
    id: i64,
    outcount: Out<c_int>,
    error_code: Out<i32>,
    actual_size: Out<i64>,
    user_ptr: Out<*mut c_void>,
    max_idle_time_ms: c_int,
    context_id: i64,
) -> c_int {
    outcount.put(0);
    let (op, context) = (OpId::from_raw(id), ContextId::from_raw(context_id));
    let places = Completions { error_codes: error_code, actual_sizes: actual_size, user_ptrs: user_ptr };
    code(bmi().and_then(|bmi| bmi.test(op, milliseconds(max_idle_time_ms), context)).map(|found| {
        if let Some(completion) = found {
            places.put(0, &completion);
            outcount.put(1);
        }
    }))
}

/// `BMI_testsome`.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_testsome(
    incount: c_int,
    id_array: In<i64>,
    outcount: Out<c_int>,
    index_array: Out<c_int>,
    error_code_array: Out<i32>,
    actual_size_array: Out<i64>,
    user_ptr_array: Out<*mut c_void>,
    max_idle_time_ms: c_int,
    context_id: i64,
) -> c_int {
    outcount.put(0);
    let places = Completions {
        error_codes: error_code_array,
        actual_sizes: actual_size_array,
        user_ptrs: user_ptr_array,
    };
    let tested = id_array.get(incount).ok_or(Error::Invalid("no operations to test")).and_then(|ids| {
        // Zero stands for an operation that was told before.
        let asked: Vec<(usize, OpId)> = ids
            .iter()
            .enumerate()
            .filter(|(_, id)| **id != 0)
            .map(|(at, &id)| (at, OpId::from_raw(id)))
            .collect();
        let ops: Vec<OpId> = asked.iter().map(|&(_, op)| op).collect();
        let found = bmi()?.testsome(&ops, milliseconds(max_idle_time_ms), ContextId::from_raw(context_id))?;
        for (at, (which, completion)) in found.iter().enumerate() {
            index_array.put_at(at, asked[*which].0 as c_int);
            places.put(at, completion);
        }
        outcount.put(found.len() as c_int);
        Ok(())
    });
    code(tested)
}

/// `BMI_testcontext`.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_testcontext(
    incount: c_int,
    out_id_array: Out<i64>,
    outcount: Out<c_int>,
    error_code_array: Out<i32>,
    actual_size_array: Out<i64>,
    user_ptr_array: Out<*mut c_void>,
    max_idle_time_ms: c_int,
    context_id: i64,
) -> c_int {
    outcount.put(0);
    let places = Completions {
        error_codes: error_code_array,
        actual_sizes: actual_size_array,
        user_ptrs: user_ptr_array,
    };
    let most = usize::try_from(incount).unwrap_or(0);
    let context = ContextId::from_raw(context_id);
    let tested = bmi().and_then(|bmi| bmi.testcontext(most, milliseconds(max_idle_time_ms), context));
    code(tested.map(|found| {
        for (at, completion) in found.iter().enumerate() {
            out_id_array.put_at(at, completion.op.to_raw());
            places.put(at, completion);
        }
        outcount.put(found.len() as c_int);
    }))
}

/// `BMI_testunexpected_class`: the buffers are from malloc; `BMI_unexpected_free` or `free` gives them back.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_testunexpected_class(
    incount: c_int,
    outcount: Out<c_int>,
    info_array: Out<UnexpectedInfo>,
    msg_class: u8,
    max_idle_time_ms: c_int,
) -> c_int {
    outcount.put(0);
    if info_array.is_null() {
        return code(invalid("no place for messages"));
    }
    let most = usize::try_from(incount).unwrap_or(0);
    let tested = bmi().and_then(|bmi| bmi.testunexpected(most, msg_class, milliseconds(max_idle_time_ms)));
    code(tested.map(|found| {
        for (at, message) in found.iter().enumerate() {
            let (addr, size, tag) = (message.from.to_raw(), message.bytes.len() as i64, message.tag);
            let buffer = lent().give_copy(copy(&message.bytes));
            let error_code = if buffer.is_null() { NO_MEMORY } else { 0 };
            info_array.put_at(at, UnexpectedInfo { error_code, addr, buffer, size, tag });
        }
        outcount.put(found.len() as c_int);
    }))
}

/// `BMI_ENOMEM`, as an outcome.
const NO_MEMORY: i32 = -(1 << 30 | 1 << 7 | 8);

/// `BMI_memalloc`.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_memalloc(_addr: i64, size: i64, _send_recv: c_int) -> *mut c_void {
    let Ok(size) = usize::try_from(size) else { return std::ptr::null_mut() };
    match bmi().ok().and_then(|bmi| bmi.shared_memory(size)) {
        Some(buffer) => lent().give_buffer(buffer),
        None => lent().give(allocate(size)),
    }
}

/// `BMI_memfree`: memory that is not from `BMI_memalloc`, or was given back, is left alone.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_memfree(_addr: i64, buffer: *mut c_void, _size: i64, _send_recv: c_int) -> c_int {
    give_back(buffer)
}

/// `BMI_unexpected_free`: a buffer that was given back, or is older than many others, is left alone.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_unexpected_free(_addr: i64, buffer: *mut c_void) -> c_int {
    give_back(buffer)
}

fn give_back(buffer: *mut c_void) -> c_int {
    match lent().take_back(buffer) {
        None => code(invalid("this memory is not ours, or was given back")),
        Some(false) => 0,
        Some(true) => {
            // SAFETY: it was given out by `allocate` or `copy`, and the list of what is out names it once.
            unsafe { free(buffer) };
            0
        }
    }
}

/// `BMI_set_info`.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_set_info(addr: i64, option: c_int, _inout_parameter: Parameter) -> c_int {
    let place = Addr::from_raw(addr);
    let setting = match option {
        1 => Setting::DropAddr(place),
        5 => Setting::IncRef(place),
        6 => Setting::DecRef(place),
        13 => Setting::CloseSocket(place),
        // Cancelling is always forceful, who is trusted is decided by keys, and buffers size themselves.
        8 | 9 | 11 | 12 | 14 | 15 => return code(bmi().map(drop)),
        _ => return code(Err(Error::NoSuchOption)),
    };
    let set = bmi().and_then(|bmi| {
        bmi.set_info(setting)?;
        if bmi.addr_rev_lookup(place).is_err() {
            lent().forget_names(addr);
        }
        Ok(())
    });
    code(set)
}

/// `BMI_get_info`.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_get_info(addr: i64, option: c_int, inout_parameter: Parameter) -> c_int {
    const NETWORK_DOWN: c_int = -(1 << 30 | 1 << 7 | 49);
    let query = match option {
        2 => return bmi().map_or(NETWORK_DOWN, |_| 0),
        3 => Query::MaxSize,
        7 => Query::Droppable(Addr::from_raw(addr)),
        10 => Query::UnexpectedSize,
        17 => Query::Methods,
        18 => Query::Port,
        _ => return code(Err(Error::NoSuchOption)),
    };
    if inout_parameter.int().is_null() {
        return code(invalid("no place for the answer"));
    }
    code(bmi().and_then(|bmi| bmi.get_info(query)).map(|answer| match answer {
        Answer::Flag(flag) => inout_parameter.int().put(c_int::from(flag)),
        Answer::Number(number) => inout_parameter.int().put(c_int::try_from(number).unwrap_or(c_int::MAX)),
        Answer::Text(text) => inout_parameter.pointer().put(copy(format!("{text}\0").as_bytes())),
    }))
}

/// `BMI_addr_lookup`.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_addr_lookup(new_addr: Out<i64>, id_string: Text) -> c_int {
    let looked_up = match (new_addr.is_null(), id_string.get()) {
        (false, Some(url)) => bmi().and_then(|bmi| bmi.addr_lookup(&url)),
        _ => invalid("no address, or no place for it"),
    };
    code(looked_up.map(|addr| new_addr.put(addr.to_raw())))
}

/// `BMI_addr_rev_lookup`: null if the address was not looked up.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_addr_rev_lookup(addr: i64) -> *const c_char {
    name(addr, false, |bmi| bmi.addr_rev_lookup(Addr::from_raw(addr)))
}

/// `BMI_addr_rev_lookup_unexpected`: null if there is no such address.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_addr_rev_lookup_unexpected(addr: i64) -> *const c_char {
    name(addr, true, |bmi| bmi.addr_rev_lookup_unexpected(Addr::from_raw(addr)).map(Some))
}

fn name(addr: i64, unexpected: bool, look_up: impl FnOnce(&Bmi) -> Result<Option<String>>) -> *const c_char {
    let found = bmi().and_then(|bmi| Ok((look_up(&bmi)?, bmi)));
    let Ok((Some(url), bmi)) = found else { return std::ptr::null() };
    lent().name(addr, unexpected, &url, |addr| bmi.addr_rev_lookup(Addr::from_raw(addr)).is_ok())
}

/// `BMI_query_addr_range`: 1 if the address lies in the network, 0 if not.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_query_addr_range(addr: i64, id_string: Text, netmask: c_int) -> c_int {
    let inside = match (id_string.get(), u32::try_from(netmask)) {
        (Some(network), Ok(bits)) => {
            bmi().and_then(|bmi| bmi.query_addr_range(Addr::from_raw(addr), &network, bits))
        }
        _ => invalid("no network"),
    };
    inside.map_or_else(|error| error.code(), c_int::from)
}

/// `BMI_cancel`.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_cancel(id: i64, context_id: i64) -> c_int {
    code(bmi().and_then(|bmi| bmi.cancel(OpId::from_raw(id), ContextId::from_raw(context_id))))
}
