//! What every lock service must do, written once.
//!
//! A subject is a file; a case is an `async fn(&Bench)` in it. A backend is one line at the end of this file and one
//! file under `backends`, which says how to start an empty service. The time is the servers' own, so leases are short.

mod backends;
mod bench;
mod deadlocks;
mod endings;
mod fences;
mod holders;
mod leases;
mod lists;
mod many;
mod names;
mod queues;
mod sharing;

/// Makes a test of each case, for one backend. A case that is missing here is dead code, which the linter refuses.
macro_rules! suite {
    ($start:path) => {
        suite! { @subjects $start;
            holders: [
                one_holds_it_and_others_hear_who, asked_again_it_is_granted_again, a_renewal_moves_the_end,
                a_lapsed_lease_is_lost_and_never_made_anew, an_unknown_lease_is_neither_renewed_nor_released,
                the_shortest_and_the_longest_life, one_name_for_two_asks_is_refused, it_says_where_it_is,
            ],
            endings: [
                a_release_frees_it_and_is_answered_again, an_old_release_does_not_touch_a_newer_lease, a_lapsed_lease_is_released_as_lost,
                an_ended_attempt_gets_nothing, a_forced_release_takes_it_and_the_next_one_gets_it,
                after_close_all_is_unavailable,
            ],
            queues: [
                who_came_first_goes_first, whoever_does_not_wait_passes_nobody, a_wait_ends_and_keeps_its_place,
                a_place_that_is_given_up_is_passed, a_place_whose_owner_died_is_passed, a_lapsed_holder_is_followed,
                a_dropped_wait_gets_nothing, many_wait_and_each_gets_it_once,
            ],
            sharing: [
                readers_share_and_a_writer_waits, no_reader_passes_a_waiting_writer, so_many_permits_and_no_more,
                the_strictest_decides, readers_are_let_in_together,
            ],
            many: [
                all_or_none, opposite_orders_end, a_name_given_twice_is_asked_for_once, one_call_renews_and_releases_all,
                too_many_are_refused,
            ],
            fences: [ they_grow_with_each_holder, whoever_shares_has_the_same, each_name_has_its_own, they_are_exact_numbers ],
            names: [ every_name_is_its_own, what_is_no_name_is_refused ],
            lists: [ who_holds_and_how_many_wait, pages_run_byte_by_byte, what_is_free_is_not_told ],
            leases: [
                it_is_renewed_while_it_is_held, dropping_it_gives_it_back, a_dropped_acquire_is_handed_back_at_once,
                work_ends_when_it_is_lost, a_released_lease_stays_released, no_longer_than_it_may_be_held,
                whoever_waits_gets_it_at_the_release, many_take_turns_and_never_two_at_once,
            ],
        }
    };
    ($start:path, deadlocks) => {
        suite! { $start }
        suite! { @subjects $start;
            deadlocks: [
                the_youngest_of_a_circle_hears_of_it, queues_are_ways_too, who_only_waits_long_is_left_alone,
            ],
        }
    };
    (@subjects $start:path; $($subject:ident: [$($case:ident),* $(,)?]),* $(,)?) => {
        $(mod $subject {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let bench = $start().await;
                crate::$subject::$case(&bench).await;
                bench.service.close().await;
            })*
        })*
    };
}

mod in_process {
    suite!(crate::backends::in_process::start, deadlocks);
}

mod sqlite {
    suite!(crate::backends::sqlite::start, deadlocks);
}

mod postgres {
    suite!(crate::backends::postgres::start, deadlocks);
}

mod redis {
    suite!(crate::backends::redis::start);
}
