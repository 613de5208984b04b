//! Tests of what holds at the time of a search: successors, contradictions, validity and filters.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::super::{
    IndexedMemory, Link, LinkKind, MemoryFilter, MemoryIndex, MemoryResult, Mode, Pipeline, Project,
    Provenance, Scope, SearchMachine, SearchQuery, TimePoint, Validity,
};
use super::tests::{World, query, standard};
use crate::retrieval::Tier;

fn link(from: &str, kind: LinkKind, to: &str) -> Link {
    Link {
        from: from.into(),
        to: to.into(),
        kind,
    }
}

fn supersedes(from: &str, to: &str) -> Link {
    link(from, LinkKind::Supersedes, to)
}

/// A world with memories of one text each, and links between them.
fn world(memories: &[(&str, &str)], links: Vec<Link>) -> World {
    let mut world = World {
        index: MemoryIndex::new("letters", 26),
        ..World::default()
    };
    for (id, text) in memories {
        world.add(id, &[text], Tier::Normal, "");
    }
    world.links = links;
    world
}

/// Sets the metadata of a memory; its text stays.
fn describe(world: &mut World, id: &str, tier: Tier, project: Option<&str>, provenance: Provenance) {
    world.index.put(IndexedMemory {
        id: id.into(),
        title: id.into(),
        tier,
        kind: "note".into(),
        confidence: 0.5,
        expires_at: None,
        bytes: 0,
        folder: String::new(),
        project: project.map(|name| Project::named(name).unwrap()),
        phrases: Vec::new(),
        provenance,
    });
}

fn results(world: &World, asked: SearchQuery) -> Vec<MemoryResult> {
    world.search(standard(asked)).0.results
}

fn ids(results: &[MemoryResult]) -> Vec<&str> {
    results.iter().map(|result| result.id.as_str()).collect()
}

const OLD: (&str, &str) = ("old", "the cache lock timeout is ten seconds");
const NEW: (&str, &str) = ("new", "zzz qqq vvv");
const OTHER: (&str, &str) = ("other", "cache of the web index");

#[test]
fn a_superseded_memory_ranks_below_its_successor_in_every_mode() {
    let world = world(&[OLD, NEW, OTHER], vec![supersedes("new", "old")]);
    for mode in Mode::ALL {
        let found = results(&world, query("cache lock timeout", mode));
        assert_eq!(
            ids(&found)[..2],
            ["new", "old"],
            "{mode}: the successor shares no word"
        );
        assert_eq!(found[1].superseded_by.as_deref(), Some("new"));
        assert_eq!(
            (found[0].superseded_by.as_ref(), found[0].constitutional_only),
            (None, false)
        );
        assert!(found[0].score >= found[1].score);
    }
    let only_one = SearchQuery {
        limit: Some(1),
        ..query("cache lock timeout", Mode::Quick)
    };
    assert_eq!(ids(&results(&world, only_one)), ["new"]);
}

#[test]
fn a_superseded_memory_is_not_raised() {
    let far = ("far", "one word about a cache");
    let mut memories = vec![OLD, far];
    memories.extend([
        ("x1", "cache lock"),
        ("x2", "lock timeout"),
        ("x3", "cache timeout lock"),
    ]);
    let world = world(&memories, vec![supersedes("old", "far")]);
    let found = results(&world, query("cache lock timeout", Mode::Quick));
    let place = |id: &str| ids(&found).iter().position(|found| *found == id);
    assert!(
        place("far").is_none_or(|far| Some(far) > place("x1")),
        "{:?}",
        ids(&found)
    );
}

#[test]
fn chains_end_at_the_current_memory_and_cycles_at_the_latest() {
    let memories = [OLD, ("b", "zzz"), ("c", "qqq"), ("d", "vvv")];
    let chain = vec![supersedes("b", "old"), supersedes("c", "b"), supersedes("d", "c")];
    let mut world = world(&memories, chain);
    let found = results(&world, query("cache lock timeout", Mode::Quick));
    assert_eq!(ids(&found)[..2], ["d", "old"]);
    assert_eq!(found[1].superseded_by.as_deref(), Some("d"));
    // `old` supersedes the end of its own chain; `c` was observed last.
    world.links.push(supersedes("old", "d"));
    let at = |recorded_at| Provenance {
        recorded_at,
        ..Provenance::default()
    };
    for (id, time) in [("old", -4), ("b", -3), ("c", -1), ("d", -2)] {
        describe(&mut world, id, Tier::Normal, None, at(time));
    }
    let found = results(&world, query("cache lock timeout", Mode::Quick));
    assert_eq!(ids(&found)[..2], ["c", "old"]);
    // Of two successors the later one counts.
    world.links = vec![supersedes("b", "old"), supersedes("d", "old")];
    assert_eq!(
        ids(&results(&world, query("cache lock timeout", Mode::Quick)))[..2],
        ["d", "old"]
    );
}

#[test]
fn settings_hide_or_only_mark_what_is_not_current() {
    let mut world = world(&[OLD, NEW, OTHER], vec![supersedes("new", "old")]);
    let search = |world: &World, rule: &str| {
        let changes = json!({"currency": {"superseded": rule, "invalid": rule}});
        let machine = SearchMachine::new(
            Arc::new(Pipeline::with(&changes).unwrap()),
            query("cache lock timeout", Mode::Quick),
        );
        world.search(machine).0.results
    };
    assert_eq!(ids(&search(&world, "hide")), ["new", "other"]);
    let marked = search(&world, "mark");
    assert_eq!(ids(&marked), ["old", "other"]);
    assert_eq!(marked[0].superseded_by.as_deref(), Some("new"));
    world.links.clear();
    let past = Provenance {
        valid_until: Some(0),
        ..Provenance::default()
    };
    describe(&mut world, "old", Tier::Normal, None, past);
    assert_eq!(ids(&search(&world, "hide")), ["other"]);
    let marked = search(&world, "mark");
    assert_eq!(
        (ids(&marked)[0], marked[0].validity),
        ("old", Some(Validity::Past))
    );
}

#[test]
fn a_contradiction_brings_both_sides_with_a_mark() {
    let contradiction = link("new", LinkKind::Contradicts, "old");
    let world = world(&[OLD, NEW, OTHER], vec![contradiction]);
    let found = results(&world, query("cache lock timeout", Mode::Quick));
    assert_eq!(ids(&found), ["old", "new", "other"]);
    assert_eq!(
        (&found[0].contradicts, &found[1].contradicts),
        (&vec!["new".into()], &vec!["old".into()])
    );
    assert!(found[2].contradicts.is_empty());
}

#[test]
fn links_do_not_lead_out_of_the_scope() {
    let mut world = world(
        &[OLD, NEW],
        vec![
            supersedes("new", "old"),
            link("new", LinkKind::Contradicts, "old"),
        ],
    );
    describe(
        &mut world,
        "old",
        Tier::Normal,
        Some("mine"),
        Provenance::default(),
    );
    describe(
        &mut world,
        "new",
        Tier::Normal,
        Some("theirs"),
        Provenance::default(),
    );
    let asked = SearchQuery {
        scope: Scope::parse("mine").unwrap(),
        ..query("cache lock timeout", Mode::Deep)
    };
    let found = results(&world, asked);
    assert_eq!(ids(&found), ["old"]);
    assert_eq!((&found[0].superseded_by, found[0].contradicts.len()), (&None, 0));
}

#[test]
fn only_a_rule_supersedes_a_rule() {
    let mut world = world(&[OLD, NEW], vec![supersedes("new", "old")]);
    describe(
        &mut world,
        "old",
        Tier::Constitutional,
        None,
        Provenance::default(),
    );
    let found = results(&world, query("cache lock timeout", Mode::Quick));
    assert_eq!((ids(&found), &found[0].superseded_by), (vec!["old"], &None));
    describe(
        &mut world,
        "new",
        Tier::Constitutional,
        None,
        Provenance::default(),
    );
    let found = results(&world, query("cache lock timeout", Mode::Quick));
    assert_eq!(ids(&found), ["new", "old"]);
}

#[test]
fn validity_and_supersession_follow_the_time_that_is_asked_about() {
    let mut world = world(
        &[
            ("summer", "the lock timeout is ten"),
            ("winter", "the lock timeout is thirty"),
        ],
        Vec::new(),
    );
    let valid = |from, until| Provenance {
        valid_from: from,
        valid_until: until,
        recorded_at: -1000,
        ..Provenance::default()
    };
    describe(&mut world, "summer", Tier::Normal, None, valid(None, Some(-50)));
    describe(&mut world, "winter", Tier::Normal, None, valid(Some(-50), None));
    let at = |world: &World, time: Option<i64>| {
        let asked = SearchQuery {
            as_of: time.map(TimePoint::from_micros),
            ..query("lock timeout", Mode::Quick)
        };
        let found = results(world, asked);
        (found[0].id.clone(), found[1].validity)
    };
    assert_eq!(at(&world, None), ("winter".into(), Some(Validity::Past)));
    assert_eq!(at(&world, Some(-60)), ("summer".into(), Some(Validity::Future)));
    // Without explicit validity a successor counts from its observation.
    let seen = |observed_at| Provenance {
        observed_at: Some(observed_at),
        ..Provenance::default()
    };
    describe(&mut world, "summer", Tier::Normal, None, seen(-900));
    describe(&mut world, "winter", Tier::Normal, None, seen(-100));
    world.links = vec![supersedes("winter", "summer")];
    assert_eq!(at(&world, None), ("winter".into(), None));
    assert_eq!(at(&world, Some(-500)), ("summer".into(), Some(Validity::Future)));
}

#[test]
fn a_rule_outside_its_validity_is_not_placed_first() {
    let mut world = world(&[OLD, ("rule", "zzz"), OTHER], Vec::new());
    let past = Provenance {
        valid_until: Some(0),
        ..Provenance::default()
    };
    describe(&mut world, "rule", Tier::Constitutional, None, past);
    let found = results(&world, query("cache lock timeout", Mode::Quick));
    assert_eq!(found.last().unwrap().id, "rule");
}

#[test]
fn a_filter_is_applied_before_the_best_are_chosen() {
    let mut world = world(&[], Vec::new());
    for number in 0..400 {
        let id = format!("m{number:03}");
        let text = if number % 40 == 7 {
            "cache"
        } else {
            "cache lock timeout"
        };
        world.add(&id, &[text], Tier::Normal, "");
        let provenance = Provenance {
            tags: if number % 40 == 7 {
                vec!["rare".into()]
            } else {
                vec!["common".into(), "x".into()]
            },
            author: Some(if number % 2 == 0 { "Ada" } else { "Bo" }.into()),
            recorded_at: number,
            ..Provenance::default()
        };
        describe(&mut world, &id, Tier::Normal, None, provenance);
    }
    let search = |filter: MemoryFilter, mode| {
        let found = results(
            &world,
            SearchQuery {
                filter,
                limit: Some(10),
                below_floor: true,
                ..query("cache lock timeout", mode)
            },
        );
        found.into_iter().map(|result| result.id).collect::<Vec<_>>()
    };
    for mode in Mode::ALL {
        let rare = MemoryFilter {
            tags: vec!["rare".into()],
            ..MemoryFilter::default()
        };
        assert_eq!(
            search(rare, mode).len(),
            10,
            "{mode}: all ten are found although 390 fit better"
        );
    }
    let early = MemoryFilter {
        authors: vec!["ada".into()],
        recorded_until: Some(TimePoint::from_micros(5)),
        ..MemoryFilter::default()
    };
    let found: BTreeSet<String> = search(early, Mode::Quick).into_iter().collect();
    assert_eq!(found, ["m000", "m002", "m004"].map(String::from).into());
    let none = MemoryFilter {
        kinds: vec!["decision".into()],
        ..MemoryFilter::default()
    };
    assert!(search(none, Mode::Focused).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// Whatever the links: no result ranks above the memory that replaced it, no result occurs twice, limit and ranks hold.
    #[test]
    fn no_result_ranks_above_its_successor(
        links in proptest::collection::vec((0..12_usize, 0..12_usize, 0..5_usize), 0..24),
        times in proptest::collection::vec(-9..3_i64, 12), limit in 1..12_usize, mode in 0..3_usize, budget in 5..200_usize,
    ) {
        let texts = ["cache lock", "lock timeout", "cache timeout", "zzz", "deploy cache", "login lock"];
        let names: Vec<String> = (0..12).map(|number| format!("m{number:02}")).collect();
        let memories: Vec<(&str, &str)> =
            names.iter().enumerate().map(|(at, name)| (name.as_str(), texts[at % texts.len()])).collect();
        let links = links.iter().filter(|(from, to, _)| from != to)
            .map(|(from, to, kind)| link(&names[*from], LinkKind::ALL[*kind], &names[*to])).collect();
        let mut world = world(&memories, links);
        for (name, recorded_at) in names.iter().zip(&times) {
            let provenance = Provenance { recorded_at: *recorded_at, ..Provenance::default() };
            describe(&mut world, name, Tier::Normal, None, provenance);
        }
        let asked = SearchQuery {
            limit: Some(limit), token_budget: Some(budget), ..query("cache lock timeout", Mode::ALL[mode])
        };
        let found = results(&world, asked.clone());
        let ids = ids(&found);
        prop_assert!(found.len() <= limit);
        prop_assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        for (at, result) in found.iter().enumerate() {
            prop_assert_eq!(result.rank, at + 1);
            if let Some(current) = &result.superseded_by {
                prop_assert!(ids[..at].contains(&current.as_str()), "{:?}", found);
            }
        }
        let paid: usize = found.iter().map(|result| result.tokens).sum();
        prop_assert!(paid <= budget || found.len() == 1);
        prop_assert_eq!(&found, &results(&world, asked));
    }
}
