//! Lines of PMI-1 that ranks say to the launcher: each is answered by a line, or by the end of a barrier.
#![no_main]

use barewire_core::boot::frame::{BOOT_BODY_BYTES_MAX, Unit, split};
use barewire_core::boot::{Hub, Layout, Outbox};
use barewire_core::job::{JobId, JobKey};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut hub = Hub::new(JobId([1; 16]), JobKey([2; 32]), Layout::single(RANKS), vec!["here".into()]);
    for (turn, line) in (0..).zip(bytes.split(|&byte| byte == b'\n')) {
        let (raw, mut out) = ([b"cmd=", line, b"\n"].concat(), Outbox::new());
        if hub.receive(turn % RANKS, &raw, &mut out).is_err() {
            return;
        }
        for (_, answer) in out {
            let whole = matches!(split(&answer, BOOT_BODY_BYTES_MAX), Ok(Some((Unit::Line(_), n))) if n == answer.len());
            assert!(whole, "an answer that is no line");
        }
    }
});

const RANKS: u32 = 2;
