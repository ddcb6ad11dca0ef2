//! Hellos and welcomes on a TCP connection: nobody without the key gets in.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| barewire_core::fuzzing::tcp_hello(bytes));
