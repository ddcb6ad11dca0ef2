//! What holds for the layers in which ranks share memory, whatever the wire. To run the suite over another wire, add it at `suites!`.

mod ga;
mod kit;
mod shmem;
mod splitc;
mod world;

macro_rules! suites {
    ($($wire:ident)*) => { $(mod $wire { crate::suite!($wire); })* };
}

/// Every test of the suite, for one wire.
macro_rules! suite {
    ($wire:ident) => {
        crate::suite! { $wire,
            world {
                collectives_agree_for_every_size_and_root
                long_letters_go_round_in_a_circle
                groups_do_not_mix
                a_wrong_key_touches_nothing
                memory_that_one_rank_has_not_nobody_has
                a_revoked_block_is_an_error
                a_member_that_leaves_breaks_the_group_for_all
                a_member_that_fails_breaks_the_group_for_all
                operations_on_a_rank_that_left_fail
            }
            splitc {
                what_is_written_is_read
                gets_are_valid_only_after_sync
                futures_end_in_any_order
                a_future_that_is_polled_only_when_woken_ends
                stores_are_counted_in_flight
                store_sync_counts_bytes
                bulk_transfers_of_all_lengths
                spread_arrays_lie_on_all_processors
                places_outside_of_the_heap_are_errors
                the_heap_is_bounded
                empty_blocks_and_no_processors_are_errors
                waiting_for_stores_of_the_dead_is_an_error
                a_processor_that_leaves_early_is_an_error_for_all_that_wait
            }
            shmem {
                puts_and_gets_of_all_forms
                a_fence_orders_puts
                concurrent_atomics_lose_nothing
                a_sleeper_is_woken_by_a_put
                waits_find_any_some_and_all
                words_are_compared_each_with_its_own_value
                old_values_come_with_quiet
                floats_are_read_set_and_swapped
                objects_grow_and_shrink
                a_signal_comes_after_its_data
                locks_exclude
                collectives_over_active_sets_and_teams
                teams_split_in_rows_and_columns
                the_heap_is_symmetric_and_bounded
                what_does_not_fit_is_an_error_and_touches_nothing
                waiting_for_the_dead_is_an_error
                a_pe_that_leaves_early_is_an_error_for_all_that_wait
                a_pe_that_has_finished_disturbs_nobody
                a_lock_whose_holder_is_gone_is_an_error
            }
            ga {
                patches_across_owners
                accumulation_is_exact_under_concurrency
                one_rank_sees_its_own_order
                single_elements_scatter_and_gather
                nobody_gets_a_number_twice
                ones_own_block
                ghosts_wrap_around
                blocks_as_described
                whole_arrays
                products_and_transposes
                what_is_not_in_the_array_is_an_error
                a_destroyed_array_is_an_error
                arrays_of_the_dead_are_errors
            }
        }
    };
    ($wire:ident, $($part:ident { $($test:ident)* })*) => {
        $(mod $part { $(#[test] fn $test() { crate::$part::$test(&crate::kit::$wire()); })* })*
    };
}
use suite;

suites! { shm narrow_shm tcp sim }
