//! The list of laws, and the macros that make tests from it.

/// Passes the list to another macro, after the tokens that the caller gave.
#[doc(hidden)]
#[macro_export]
macro_rules! __with_laws {
    ([$($then:tt)*] $($given:tt)*) => {
        $($then)*! {
            [$($given)*]
            append {
                the_first_version_is_1,
                several_events_get_consecutive_versions_in_the_order_given,
                an_event_without_a_stream_has_no_version,
                the_log_keeps_the_order_given,
                one_append_is_one_transaction,
                an_append_without_events_is_refused,
                a_large_append_is_stored_whole,
            }
            fields {
                every_field_survives,
                what_is_not_set_stays_unset,
                headers_survive,
                places_given_by_the_caller_are_ignored,
                times_are_kept_in_microseconds,
                times_before_all_calendars_are_refused,
            }
            data {
                every_kind_of_json_survives,
                no_data_and_null_are_the_same,
                numbers_keep_every_digit,
                all_of_unicode_survives,
                formatting_does_not_matter,
                deep_nesting_survives,
                what_cannot_be_stored_is_refused,
            }
            expected_versions {
                any_accepts_whatever_is_there,
                no_stream_accepts_only_a_new_stream,
                exists_accepts_only_an_existing_stream,
                exact_accepts_only_that_version,
                exact_0_is_no_stream,
                versions_beyond_any_stream_conflict,
                a_conflict_stores_nothing,
                a_conflict_leaves_its_event_ids_free,
                an_expectation_of_a_stream_without_events_is_refused,
            }
            streams {
                each_stream_counts_its_own_versions,
                an_append_may_interleave_streams,
                an_append_may_mix_streams_and_none,
                several_expectations_must_all_hold,
                a_conflict_of_one_stream_stores_nothing_of_any,
                the_first_stream_that_conflicts_is_named,
                names_are_compared_byte_by_byte,
            }
            retry {
                a_retry_answers_the_first_result,
                a_retry_answers_the_first_result_after_later_appends,
                a_retry_is_no_conflict_with_itself,
                a_retry_of_several_streams_answers_the_first_result,
                a_retry_of_events_without_a_stream_answers_the_first_result,
                a_retry_changes_nothing,
                a_retry_through_another_handle_answers_the_first_result,
                an_append_of_which_some_is_stored_is_refused,
                an_id_with_another_type_is_refused,
                an_id_with_another_stream_is_refused,
                a_reused_id_goes_before_a_conflict,
                an_id_twice_in_one_append_is_refused,
            }
            limits {
                stream_ids_are_checked,
                event_types_are_checked,
                keys_are_checked,
                actor_ids_are_checked,
                schema_versions_are_checked,
                headers_with_nul_are_refused,
                payloads_up_to_the_limit_pass,
                a_refused_append_stores_nothing,
                page_sizes_are_checked,
                a_stream_id_is_checked_when_it_is_read,
                a_filter_with_nul_finds_nothing_or_is_refused,
            }
            namespaces {
                names_are_checked,
                settings_are_checked,
                each_has_its_own_events_streams_and_sequence,
                the_payload_limit_is_a_setting,
                a_log_knows_its_namespace,
            }
            read_stream {
                forwards_and_backwards,
                ranges_include_both_ends,
                ranges_beyond_the_stream_are_cut,
                any_page_size_gives_the_same_events,
                a_limit_holds_across_pages,
                an_absent_stream_is_empty,
                only_its_own_events,
                a_page_is_no_larger_than_asked,
            }
            read_log {
                an_empty_log_is_empty,
                after_is_left_out_and_up_to_is_included,
                backwards_is_the_reverse,
                a_limit_holds,
                by_event_type,
                by_stream,
                by_stream_prefix,
                a_prefix_is_taken_literally,
                filters_must_all_hold,
                nothing_lies_after_the_last_sequence_that_can_be,
                an_event_is_found_by_its_id,
                all_events_since_a_sequence,
            }
            read_log_pages {
                any_page_size_gives_the_same_events,
                a_limit_holds_across_pages,
                the_cursor_finds_what_comes_later,
                the_cursor_passes_what_the_filter_left_out,
                gaps_and_events_cover_the_log,
                the_horizon_covers_what_is_appended,
                what_was_refused_holds_nothing_back,
            }
            lineage {
                correlated_events_come_in_order,
                correlated_events_are_paged_by_sequence,
                a_chain_holds_causes_and_effects_but_no_siblings,
                a_chain_from_its_first_and_last_events,
                a_chain_is_cut_after_the_limit,
                a_cause_that_is_not_stored_ends_the_chain,
                a_command_has_effects_without_being_stored,
                a_circle_of_causes_ends,
            }
            concurrency {
                one_writer_wins_each_version,
                any_version_leaves_no_holes,
                every_reader_sees_the_same_order,
                the_same_append_sent_at_once_is_stored_once,
                each_answer_is_its_own,
                streams_in_opposite_order_do_not_block_each_other,
                a_reader_that_follows_misses_nothing,
            }
        }
    };
}

/// Makes the laws callable from other crates. This is their only use in this crate, so a law that
/// is missing from the list is dead code.
macro_rules! callable {
    ([] $($topic:ident { $($law:ident,)* })*) => {
        /// The laws, for [`log_laws!`](crate::log_laws).
        #[doc(hidden)]
        pub mod by_topic {
            $(pub mod $topic {
                $(pub async fn $law(log: &crate::TestLog) {
                    crate::$topic::$law(log).await;
                })*
            })*
        }
    };
}

__with_laws! { [callable] }

/// Makes a test from each law for one backend, named `backend::topic::law`.
///
/// The expression gives a future of a new [`Backend`](crate::Backend). It runs once per test.
#[macro_export]
macro_rules! log_laws {
    (mod $backend:ident => $start:expr) => {
        $crate::__with_laws! { [$crate::__tests] $backend $start }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ([$backend:ident $start:expr] $($topic:ident { $($law:ident,)* })*) => {
        #[cfg(test)]
        mod $backend {
            $(mod $topic {
                #[allow(unused_imports)]
                use super::super::*;

                $(#[test]
                fn $law() {
                    $crate::check(async {
                        let log = $crate::TestLog::new($start.await).await;
                        $crate::by_topic::$topic::$law(&log).await;
                    });
                })*
            })*
        }
    };
}
