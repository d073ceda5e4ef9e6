//! Registry and log over a whole store: by a model, through crashes, and with many threads; and that these find planted
//! bugs.

#![cfg_attr(feature = "planted", expect(dead_code, reason = "of the suite only the parts that find planted bugs run"))]

mod crash;
mod model;
#[cfg(feature = "planted")]
mod planted;
mod quarantine;
mod retention;
mod ring;
mod store;
mod threads;
mod times;
mod ways;

#[cfg(not(feature = "planted"))]
mod suite {
    use super::*;

    #[test]
    fn every_mode_says_what_happened() {
        (0..24).for_each(model::run);
    }

    #[test]
    fn after_every_crash_an_event_is_there_if_what_it_tells_is() {
        for config in [store::SYNC, store::DEFERRED] {
            crash::sweep(config, 3);
        }
    }

    #[test]
    fn what_is_registered_survives_every_crash() {
        crash::registered();
    }

    #[test]
    fn of_mode_async_a_crash_loses_no_more_than_the_ring_holds() {
        crash::lossy();
    }

    #[test]
    fn whoever_writes_meanwhile_is_logged_from_the_registration_on() {
        threads::exact();
    }

    #[test]
    fn many_events_in_one_instant_are_as_many_rows() {
        threads::one_instant(8, 500);
    }

    #[test]
    fn what_one_overwrites_is_what_the_one_before_wrote() {
        threads::chained(4, 500);
    }

    #[test]
    fn what_is_kept_out_of_reach_is_told_and_who_is_lost_is_unknown() {
        quarantine::all();
    }

    #[test]
    fn events_of_the_engine_are_kept_by_number_age_and_what_they_tell_of() {
        retention::all();
    }

    #[test]
    fn after_every_crash_the_events_of_live_tables_and_of_users_are_there() {
        retention::crashes(2);
    }

    #[test]
    fn what_ends_is_told_as_it_was() {
        times::all();
    }

    #[test]
    fn an_old_value_outlives_its_family() {
        threads::dropped_meanwhile();
        threads::asked_beside_a_drop();
        threads::overtaken();
    }

    #[test]
    fn what_waits_in_the_ring_outlives_family_and_store() {
        ring::dropped();
        ring::dropped_beside_writers();
        ring::closed_beside_writers();
    }

    #[test]
    fn a_forked_child_ends_nothing_of_its_parent_s() {
        threads::forked();
    }

    #[test]
    fn each_way_of_its_own() {
        ways::all();
    }
}
