//! The entry points written by hand, one file a topic.

pub mod attr;
pub mod buffer;
pub mod collective;
pub mod comm;
pub mod convert;
pub mod counters;
pub mod datatype;
pub mod datatype_make;
pub mod env;
pub mod errors;
pub mod exchange;
pub mod group;
pub mod info;
pub mod inter;
pub mod onesided;
pub mod op;
pub mod p2p;
pub mod pack;
pub mod parts;
pub mod ports;
pub mod request;
pub mod session;
pub mod status;
pub mod tool;
pub mod topology;
pub mod win;

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
