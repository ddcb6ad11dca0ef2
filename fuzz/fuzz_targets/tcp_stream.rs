//! Bytes of a TCP connection, cut into packets.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| barewire_core::fuzzing::tcp_stream(bytes));
