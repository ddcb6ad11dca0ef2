//! Hellos on the local socket: nobody without the key gets in.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| barewire_core::fuzzing::local_hello(bytes));
