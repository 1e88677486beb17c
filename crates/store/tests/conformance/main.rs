//! What every backend of the store must do, written once.
//!
//! A subject is a file; a case is an `async fn(&Bench)` in it. A backend is one line at the end of this file and one
//! file under `backends`, which says how to start an empty store and how to reach behind its back.

mod alarms;
mod backends;
mod batches;
mod bench;
mod commit;
mod concurrency;
mod dates;
mod events;
mod feed;
mod fences;
mod forget;
mod keys;
mod leases;
mod limits;
mod lists;
mod names;
mod requires;
mod rows;

/// Makes a test of each case, for one backend. A case that is missing here is dead code, which the linter refuses.
macro_rules! suite {
    ($start:path) => {
        suite! { @subjects $start;
            commit: [
                a_first_version_makes_the_record, later_versions_keep_when_it_was_created, one_commit_may_bring_many_versions,
                another_version_is_lost_and_shown, a_lost_commit_leaves_nothing, spaces_never_meet,
                times_are_whole_milliseconds, a_commit_is_found_by_its_id, a_commit_is_found_however_much_came_since,
                versions_pass_every_narrow_integer, it_says_where_it_is,
            ],
            batches: [
                a_rejected_set_fails_alone, sets_of_one_transaction_see_one_another, all_commit_together, none_commits_if_one_is_lost,
                none_commits_if_one_is_rejected, no_record_may_come_twice, nothing_at_all_is_committed_at_once,
                too_many_are_refused, requirements_mean_the_state_before, opposite_orders_end,
            ],
            keys: [
                a_taken_key_returns_its_outcome, a_taken_key_goes_before_a_lost_version, keys_belong_to_their_record,
                an_expired_key_is_replaced, confirm_finds_live_keys_and_the_version, a_refused_set_keeps_no_key,
                purge_forgets_what_has_expired, one_key_for_many_racers_is_taken_once,
            ],
            requires: [
                a_requirement_holds, a_requirement_fails, a_record_must_not_exist, keys_then_version_then_requirements,
            ],
            fences: [
                a_late_write_is_refused, an_equal_fence_passes_and_a_later_one_raises, resources_know_nothing_of_each_other,
                every_fence_of_a_set_counts, keys_version_requirements_then_fences, a_rule_that_is_broken_raises_nothing,
                all_or_none_have_their_fences, a_commit_under_a_row_lock_has_its_fences,
                sets_of_one_transaction_are_fenced_by_one_another, writers_under_one_fence_all_pass,
                after_a_later_fence_no_earlier_one_commits, opposite_orders_end, what_is_no_fence_is_refused,
                a_grant_fences_off_the_holder_before, purge_forgets_what_is_not_used, purge_forgets_leases_that_have_ended, the_floor_never_falls,
            ],
            leases: [
                rows_answer_as_memory_does, a_lease_lasts_by_the_stores_clock, a_place_lapses_by_the_stores_clock,
                a_grant_raises_the_fence_that_commits_are_held_to, circles_are_seen, only_so_many_may_hold,
                many_at_once_are_served_one_by_one,
            ],
            alarms: [
                what_is_due_is_told_once_oldest_first, a_page_is_as_long_as_it_was_asked_for, a_change_keeps_moves_or_ends_it,
                what_has_no_effect_sets_none, every_way_to_commit_sets_it, a_crowd_sets_its_own,
                nobody_is_told_what_another_was, one_that_nobody_knew_of_is_set_right,
            ],
            dates: [
                both_are_its_creation_until_they_are_set, what_is_told_is_claimed_for_a_while,
                they_move_alone_and_no_commit_moves_them, the_oldest_come_first_set_or_not, nobody_is_told_what_another_was,
                locked_records_hold_back_none_behind_them, a_locked_record_is_not_waited_for,
            ],
            events: [
                they_come_in_pages_without_gaps, an_unknown_record_has_none, limits_are_kept_in_bounds,
                large_events_end_a_page_early,
            ],
            feed: [
                all_events_come_in_pages, nothing_is_skipped_while_writers_commit, a_cursor_outlives_its_page,
                it_can_begin_at_the_end, foreign_cursors_are_told, large_events_end_a_page_early,
            ],
            forget: [
                the_oldest_events_go_first, a_version_goes_on_where_it_was, what_has_changed_is_left_alone, what_was_replaced_is_not_replaced_again,
                the_past_of_what_changes_can_be_forgotten, the_feed_tells_of_it,
            ],
            lists: [
                ids_run_byte_by_byte, the_newest_comes_first, facets_filter, what_has_an_unwanted_facet_takes_no_room, a_part_of_an_id_is_found, pages_stay_put_while_records_come,
                a_full_last_page_has_no_next, a_search_ends_early_and_goes_on, strange_cursors_are_refused, limits_are_kept_in_bounds,
                large_records_end_a_page_early,
            ],
            names: [ every_name_is_its_own_record, every_key_is_its_own, facets_and_parts_are_literal ],
            limits: [
                the_largest_allowed_is_taken, what_is_too_large_names_the_event, a_set_must_make_sense, the_record_stays_usable,
            ],
            concurrency: [
                every_version_is_committed_once, one_of_many_creates_the_record, what_was_answered_is_read,
                a_dropped_commit_leaves_no_half, readers_see_whole_commits, after_close_all_is_unavailable,
            ],
            rows: [
                a_locked_record_is_as_it_is, keys_can_be_asked_for_under_the_lock, another_locker_waits_its_turn, whoever_will_not_wait_is_told,
                a_wait_ends_at_its_bound, a_dropped_lock_is_given_back, a_dropped_wait_leaves_nothing,
                a_commit_under_the_lock_is_conditional, a_rule_that_is_broken_names_the_event,
                a_record_that_is_not_there_can_be_made, other_records_go_on, many_take_turns,
                a_set_of_another_life_is_lost,
            ],
        }
    };
    (@subjects $start:path; $($subject:ident: [$($case:ident),* $(,)?]),* $(,)?) => {
        $(mod $subject {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let bench = $start().await;
                crate::$subject::$case(&bench).await;
                bench.store.close().await;
            })*
        })*
    };
}

mod sqlite {
    suite!(crate::backends::sqlite::start);
}

mod postgres {
    suite!(crate::backends::postgres::start);
}
