//! The entry points written by hand, one file a topic.

pub(crate) mod attr;
pub(crate) mod buffer;
pub(crate) mod collective;
pub(crate) mod comm;
pub(crate) mod convert;
pub(crate) mod counters;
pub(crate) mod datatype;
pub(crate) mod datatype_make;
pub(crate) mod env;
pub(crate) mod errors;
pub(crate) mod exchange;
pub(crate) mod group;
pub(crate) mod info;
pub(crate) mod inter;
pub(crate) mod onesided;
pub(crate) mod op;
pub(crate) mod p2p;
pub(crate) mod pack;
pub(crate) mod parts;
pub(crate) mod ports;
pub(crate) mod request;
pub(crate) mod session;
pub(crate) mod status;
pub(crate) mod tool;
pub(crate) mod topology;
pub(crate) mod win;

/// Exports functions under their C names and sends what they return through the error handler.
///
/// `on x` names the argument whose error handler is told; without it `MPI_COMM_SELF`'s is.
macro_rules! shims {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(on $object:ident)? $body:block)*) => {$(
        #[doc = concat!("The entry point `", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "the standard says so")]
        pub extern "C" fn $name($($argument: $kind),*) -> std::ffi::c_int {
            #[allow(unused_mut, unused_assignments, reason = "not every entry point has an object")]
            let mut on = crate::fault::On::Nothing;
            $(on = $object.into();)?
            #[allow(unreachable_code, reason = "MPI_Abort does not return")]
            crate::fault::guard(on, stringify!($name), || { $body; Ok(()) })
        }
    )*};
}
pub(crate) use shims;
