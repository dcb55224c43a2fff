//! The list of laws, and the macros that make tests from it.

/// Passes the list to another macro, after the tokens that the caller gave.
#[doc(hidden)]
#[macro_export]
macro_rules! __with_subscriber_laws {
    ([$($then:tt)*] $($given:tt)*) => {
        $($then)*! {
            [$($given)*]
            registration {
                the_beginning_is_before_the_first_event,
                now_is_after_what_is_stored,
                after_is_just_there,
                what_is_to_come_before_a_start_is_in_the_ledger,
                a_time_is_before_the_first_event_recorded_then,
                one_that_is_there_stays_as_it_is,
                ids_are_checked,
                ids_are_compared_byte_by_byte,
                each_namespace_has_its_own,
            }
            leases {
                one_instance_owns_at_a_time,
                an_owner_goes_on_in_its_term,
                a_release_hands_over_at_once,
                only_what_is_owned_is_released,
                a_lease_ends_by_itself,
                each_owner_has_a_higher_term,
                an_owner_whose_answer_was_lost_owns_again,
                a_term_that_is_over_is_not_renewed,
                a_restarted_node_is_another_instance,
                answers_come_in_the_order_of_the_asks,
                two_that_ask_at_once_do_not_both_own,
                a_paused_subscriber_can_be_owned,
                what_the_owner_reports_is_shown,
                the_lease_is_shown,
                a_checkpoint_that_moves_renews_the_lease,
                a_move_makes_no_lease,
                leases_without_length_are_refused,
            }
            fences {
                an_owner_that_was_followed_writes_nothing,
                a_term_that_never_was_writes_nothing,
                after_a_reset_the_owner_writes_nothing,
                the_present_term_writes,
                without_a_lease_nothing_is_fenced,
                what_was_read_in_another_history_writes_nothing,
                an_owner_that_died_leaves_what_it_had_begun,
                one_that_was_removed_is_not_written,
                a_term_is_never_used_again,
                terms_rise_whatever_happens,
                an_id_that_is_not_there_is_not_found,
            }
            checkpoints {
                what_is_written_is_loaded,
                a_checkpoint_never_moves_back,
                a_ledger_changes_where_the_position_stays,
                a_ledger_does_not_grow_where_the_position_stays,
                the_term_is_told,
                the_last_event_stays_where_none_is_given,
                the_next_owner_goes_on_from_there,
                a_full_ledger_survives,
                the_lag_is_what_lies_ahead,
            }
            dead_letters {
                a_letter_is_kept_whole,
                burying_again_adds_what_is_new,
                one_that_was_done_with_may_die_again,
                none_waits_behind_itself,
                each_filter_finds_its_own,
                letters_come_by_subscriber_and_sequence,
                those_not_done_with_are_counted,
                what_is_discarded_is_done_with,
                a_key_is_parked_until_its_letters_are_done_with,
                what_parks_nothing_parks_no_key,
                a_letter_is_of_an_event_not_of_a_sequence,
                what_is_buried_and_not_passed_is_told,
                what_was_handled_before_a_reset_is_handled_again,
                many_are_kept_at_once,
            }
            redrives {
                nothing_is_due_before_it_is_asked_for,
                one_letter,
                what_is_handled_is_done_with,
                what_fails_again_is_dead_again,
                those_parked_behind_one_go_with_it,
                by_key,
                all_of_them,
                those_behind_one_that_fails_again_wait_again,
                one_that_is_parked_keeps_its_place,
                what_waits_behind_a_discarded_one_is_delivered,
                what_was_discarded_meanwhile_stays_so,
                the_next_owner_goes_on_with_them,
                each_subscriber_has_its_own,
            }
            management {
                pause_and_resume,
                a_pause_by_the_owner_is_a_pause,
                a_paused_subscriber_can_still_be_written,
                a_reset_moves_back_in_a_new_term,
                a_reset_moves_forwards,
                a_reset_keeps_what_the_ledger_has_before_it,
                a_reset_beyond_the_log_has_what_is_to_come_in_its_ledger,
                a_position_that_is_no_sequence_is_refused,
                a_reset_keeps_dead_letters,
                one_that_is_removed_is_forgotten,
                one_in_use_is_removed_only_by_force,
            }
            groups {
                each_partition_has_an_owner_a_term_and_a_checkpoint,
                a_partition_that_is_not_there_is_not_given,
                nobody_takes_more_than_its_share,
                members_come_to_shares_that_add_up,
                a_member_that_leaves_is_gone_at_once,
                a_member_that_does_not_come_back_is_gone,
                groups_that_are_not_there_are_left_out,
                a_subscriber_keeps_its_mode_and_its_partitions,
                letters_are_redriven_by_the_owner_of_their_key,
                the_whole_stands_where_the_furthest_behind_does,
                a_pause_by_an_owner_is_its_partitions_alone,
                a_reset_moves_all_partitions_in_a_new_term,
                a_group_in_use_is_removed_only_by_force,
            }
            changes {
                old_partitions_end_at_the_barrier_before_new_ones_begin,
                a_group_that_stands_even_and_that_nobody_runs_changes_at_once,
                who_asks_again_takes_the_next_step,
                a_dead_owner_does_not_hold_up_a_change,
                one_change_at_a_time,
                a_reset_drops_a_change,
                only_groups_are_changed_and_within_limits,
            }
            claims {
                two_workers_never_have_the_same_event,
                a_claim_has_the_events_whole,
                what_is_acked_is_not_delivered_again,
                claims_are_acked_with_the_next_claim,
                acks_of_a_claim_are_taken_all_or_none,
                some_events_of_a_claim_are_acked,
                a_claim_whose_parts_are_all_acked_is_done,
                a_claim_is_held_until_it_expires,
                an_expired_claim_that_nobody_took_over_is_acked,
                an_extended_claim_stays_and_is_never_made_shorter,
                new_events_come_in_claims_of_the_size_asked,
                a_paused_queue_gives_nothing_out_and_takes_acks,
                a_queue_begins_where_its_subscriber_was_registered,
                a_reset_queue_begins_there_and_its_claims_are_lost,
                the_position_is_before_what_is_not_settled,
                only_shared_subscribers_have_queues,
                what_cannot_be_asked_is_refused,
            }
            types {
                other_types_are_left_behind,
                a_star_stands_for_any_characters,
                what_was_left_behind_comes_before_what_is_new,
                what_comes_again_comes_to_those_who_want_it,
                a_queue_settles_what_it_does_not_take,
                a_queue_takes_the_types_of_every_registration,
                a_queue_takes_what_an_operator_sets,
                only_a_shared_subscriber_takes_some_types,
            }
            retries {
                what_is_handed_back_comes_again,
                what_is_to_come_later_waits,
                what_is_due_first_comes_first,
                some_events_of_a_claim_are_handed_back,
                a_claim_may_take_less_than_was_handed_back,
                what_was_not_tried_does_not_count,
                after_its_last_attempt_an_event_is_a_dead_letter,
                what_is_given_up_is_a_dead_letter_at_once,
                an_event_that_was_alone_when_its_worker_was_lost_counts_that,
                of_several_that_were_lost_none_counts_that,
                of_events_that_were_lost_a_worker_has_one_at_a_time,
                a_redriven_letter_is_claimed_and_done,
                a_redriven_letter_that_fails_is_dead_again,
                a_letter_that_is_discarded_meanwhile_is_not_delivered,
                nothing_is_lost_whatever_becomes_of_claims,
            }
            gaps {
                a_gap_is_recorded_once,
                an_event_in_a_permanent_gap_is_found,
            }
            audit {
                honest_work_is_clean,
                a_start_in_the_middle_counts_from_there,
                a_lost_event_is_named,
                several_lost_events_are_counted,
                one_too_many_is_found,
                another_event_in_its_place_is_found,
                what_is_in_the_ledger_is_not_missing,
                one_that_leaves_the_ledger_unsettled_is_named,
                the_same_move_twice_counts_once,
                a_reset_begins_to_count_anew,
                what_a_reset_kept_may_come_late,
                one_that_a_reset_kept_and_nobody_settled_is_named,
            }
        }
    };
}

/// Makes the laws callable from other crates. This is their only use in this crate, so a law that
/// is missing from the list is dead code.
macro_rules! callable {
    ([] $($topic:ident { $($law:ident,)* })*) => {
        /// The laws, for [`subscriber_laws!`](crate::subscriber_laws).
        #[doc(hidden)]
        pub mod laws_by_topic {
            $(pub mod $topic {
                $(pub async fn $law(test: &crate::TestSubscribers) {
                    crate::subscribers::$topic::$law(test).await;
                })*
            })*
        }
    };
}

__with_subscriber_laws! { [callable] }

/// Makes a test from each law for one backend, named `backend::topic::law`.
///
/// The expression gives a future of a new [`SubscriberBackend`](crate::SubscriberBackend). It runs
/// once per test.
#[macro_export]
macro_rules! subscriber_laws {
    (mod $backend:ident => $start:expr) => {
        $crate::__with_subscriber_laws! { [$crate::__subscriber_tests] $backend $start }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __subscriber_tests {
    ([$backend:ident $start:expr] $($topic:ident { $($law:ident,)* })*) => {
        #[cfg(test)]
        mod $backend {
            $(mod $topic {
                #[allow(unused_imports)]
                use super::super::*;

                $(#[test]
                fn $law() {
                    $crate::check(async {
                        let test = $crate::TestSubscribers::new($start.await).await;
                        $crate::subscriber_laws_by_topic::$topic::$law(&test).await;
                    });
                })*
            })*
        }
    };
}
