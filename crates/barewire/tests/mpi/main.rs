//! What holds for MPI programs in Rust, whatever the wire. To run the suite over another wire, add it at `suites!`.

mod collectives;
#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "patterns are for those who send bytes")]
mod common;
mod futures;
#[path = "../onesided/kit.rs"]
mod kit;
mod messages;
mod requests;
mod windows;

use barewire::mpi::{self, Comm};
use kit::{PATIENCE, Wire};

/// Runs `body` as each of `size` ranks; they leave together.
fn run(wire: &Wire, size: u32, body: impl Fn(&Comm) + Sync) {
    run_until_they_leave(wire, size, |comm| {
        body(&comm);
        comm.finish().unwrap();
    });
}

/// Runs `body` as each of `size` ranks, which leave when they like.
fn run_until_they_leave(wire: &Wire, size: u32, body: impl Fn(Comm) + Sync) {
    wire.run(size, |endpoint| {
        let comm = mpi::over(endpoint);
        comm.set_timeout(PATIENCE).unwrap();
        body(comm);
    });
}

macro_rules! suites {
    ($($wire:ident)*) => { $(mod $wire { crate::suite!($wire); })* };
}

/// Every test of the suite, for one wire.
macro_rules! suite {
    ($wire:ident) => {
        crate::suite! { $wire,
            messages {
                messages_of_all_lengths_arrive_expected_or_not
                messages_do_not_overtake_each_other
                wildcards_take_what_comes_first
                a_message_that_is_too_long_says_by_how_much
                messages_of_other_elements_are_ragged
                a_synchronous_send_waits_for_its_receive
                probed_and_claimed_messages_are_the_ones_received
                a_claimed_message_is_nobody_elses
                long_messages_go_round_in_a_circle
                parts_arrive_as_one_message
                elements_of_the_program
                what_makes_no_sense_is_an_error
                communicators_do_not_mix
                communicators_split_as_they_are_told
                a_receive_from_one_who_left_is_an_error
                a_receive_from_anybody_ends_when_all_have_left
            }
            requests {
                requests_end_in_any_order
                many_requests_of_all_lengths
                forgotten_requests_do_no_harm
                a_cancelled_receive_takes_nothing
                what_nobody_receives_does_not_keep_anybody
                a_dropped_communicator_leaves_in_good_order
                a_timeout_leaves_the_slice_alone
                everything_after_finish_is_an_error
            }
            collectives {
                everything_agrees_with_a_plain_computation
                reductions_keep_the_order_of_ranks
                long_reductions_keep_the_order_of_ranks
                sums_are_the_same_bits_everywhere
                parts_of_different_lengths
                groups_make_their_calls_apart
                calls_that_do_not_wait_overlap
                a_task_goes_on_while_others_wait
                different_lengths_are_an_error_for_all
                wrong_arguments_do_nothing
                a_member_that_dies_is_an_error_for_all
                a_member_that_dies_ends_calls_under_way
            }
            windows {
                what_is_put_is_got
                concurrent_updates_lose_nothing
                locks_exclude
                shared_locks_let_others_in
                spans_of_two_sides
                requests_on_windows
                windows_of_some_ranks
                what_is_not_there_is_an_error
                a_freed_window_is_an_error
                a_window_of_the_dead_is_an_error
                a_lock_of_the_dead_is_an_error
            }
            futures {
                futures_run_on_the_endpoint
                futures_run_under_tokio
                another_thread_wakes_a_future
            }
        }
    };
    ($wire:ident, $($part:ident { $($test:ident)* })*) => {
        $(mod $part { $(#[test] fn $test() { crate::$part::$test(&crate::kit::$wire()); })* })*
    };
}
use suite;

suites! { shm narrow_shm tcp sim }
