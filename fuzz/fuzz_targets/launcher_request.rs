//! What ranks say to the launcher, cut into units as its line cuts them: each is answered, or its rank is not listened to any more.
#![no_main]

use barewire_core::boot::frame::{BOOT_BODY_BYTES_MAX, split};
use barewire_core::boot::{Hub, Layout, LostReason, Outbox};
use barewire_core::job::{JobId, JobKey};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut hub = Hub::new(JobId([1; 16]), JobKey([2; 32]), Layout::single(RANKS), vec!["here".into()]);
    let mut rest = bytes;
    for turn in 0.. {
        let rank = turn % RANKS;
        let Ok(Some((_, used))) = split(rest, BOOT_BODY_BYTES_MAX) else { return };
        let (unit, later) = rest.split_at(used);
        rest = later;
        let mut out = Outbox::new();
        if hub.receive(rank, unit, &mut out).is_err() {
            hub.lost(rank, LostReason::Killed(9), &mut out);
        }
        hub.ask_for_wires(&mut out);
        for (to, answer) in out {
            assert!(to < RANKS, "an answer to nobody");
            assert!(
                matches!(split(&answer, BOOT_BODY_BYTES_MAX), Ok(Some(_))),
                "an answer nobody understands"
            );
        }
    }
});

const RANKS: u32 = 3;
