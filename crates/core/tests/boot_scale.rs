//! A boot of 4096 ranks, without processes: what it costs is in proportion to their number, by count.

use barewire_core::boot::message::{Request, VERSION};
use barewire_core::boot::{Hub, Layout, LostReason, Outbox};
use barewire_core::job::{JobId, JobKey};
use barewire_sys::counting::Counting;

#[global_allocator]
static COUNTING: Counting = Counting::new();

/// What a boot cost.
#[derive(Debug, Default)]
struct Cost {
    allocations: u64,
    answers: usize,
    bytes: usize,
    /// Most answers that waited at a time.
    waiting_max: usize,
}

/// All ranks join, publish, ask for both neighbours' cards, meet and end.
fn boot(ranks: u32) -> Cost {
    let mut cost = Cost::default();
    let mut hub =
        Hub::new(JobId([1; 16]), JobKey([2; 32]), Layout::new((0..ranks / 64).map(|h| (h, 64))), vec![]);
    let mut out = Outbox::new();
    let mut settle = |out: &mut Outbox| {
        cost.waiting_max = cost.waiting_max.max(out.len());
        cost.answers += out.len();
        cost.bytes += out.drain(..).map(|(_, bytes)| bytes.len()).sum::<usize>();
    };
    let hello = Request::Hello { version: VERSION, nonce: 7, pid: 1 };
    let allocations = COUNTING.during(|| {
        for rank in 0..ranks {
            for request in [
                hello.clone(),
                Request::Publish(vec![0; 200]),
                Request::Card((rank + 1) % ranks),
                Request::Card((rank + ranks - 1) % ranks),
            ] {
                hub.receive(rank, &request.encode(), &mut out).unwrap();
                settle(&mut out);
            }
        }
        for rank in 0..ranks {
            hub.receive(rank, &Request::Barrier.encode(), &mut out).unwrap();
            settle(&mut out);
        }
        for rank in 0..ranks {
            hub.lost(rank, LostReason::Exited(0), &mut out);
            settle(&mut out);
        }
    });
    cost.allocations = allocations;
    cost
}

#[test]
fn a_boot_of_4096_ranks_costs_in_proportion() {
    const RANKS: usize = 4096;
    let cost = boot(RANKS as u32);
    println!("{RANKS} ranks: {cost:?}");
    // A welcome, two cards and the barrier's end for each.
    assert_eq!(cost.answers, 4 * RANKS);
    assert!(cost.bytes < 2000 * RANKS, "{cost:?}");
    assert!(cost.allocations < 200 * RANKS as u64, "{cost:?}");
    // Nothing but the end of the barrier is for more than a few at a time.
    assert_eq!(cost.waiting_max, RANKS);
}
