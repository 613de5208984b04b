//! Tests of the state machine: actions, limits, and invariants.

use super::super::{Channel, IndexedChunk, IndexedMemory, LinkKind, Pipeline, Provenance, encode_vector};
use super::*;
use crate::retrieval::Tier;
use proptest::prelude::*;
use serde_json::json;

const WORDS: [&str; 8] = [
    "database", "locked", "cache", "login", "deploy", "rollback", "index", "retry",
];
const FOLDERS: [&str; 4] = ["", "store", "store/sqlite", "web"];

/// Test fixture of a caller: an index, chunk texts and links.
#[derive(Default)]
pub(super) struct World {
    pub(super) index: MemoryIndex,
    pub(super) texts: HashMap<i64, String>,
    pub(super) links: Vec<Link>,
}

impl World {
    pub(super) fn add(&mut self, id: &str, bodies: &[&str], tier: Tier, folder: &str) {
        self.index.put(IndexedMemory {
            id: id.into(),
            title: id.into(),
            tier,
            kind: String::new(),
            confidence: 0.5,
            expires_at: None,
            bytes: bodies.iter().map(|body| body.len()).sum(),
            folder: folder.into(),
            project: None,
            phrases: Vec::new(),
            provenance: Provenance::default(),
        });
        let first = i64::try_from(self.texts.len()).unwrap();
        let vectors: Vec<String> = bodies.iter().map(|body| encode_vector(&embed(body))).collect();
        let chunks = bodies
            .iter()
            .zip(&vectors)
            .zip(first..)
            .map(|((body, vector), doc)| IndexedChunk {
                doc,
                title: id,
                phrases: "",
                body,
                vector: Some(("letters", vector)),
            });
        self.index.set_chunks(id, &chunks.collect::<Vec<_>>());
        self.texts
            .extend((first..).zip(bodies.iter().map(ToString::to_string)));
    }

    /// Runs a search to completion and returns the actions it took.
    pub(super) fn search(&self, mut machine: SearchMachine) -> (MemorySearch, Vec<Action>) {
        let index = Arc::new(self.index.clone());
        let mut actions = Vec::new();
        loop {
            let action = machine.next();
            actions.push(action.clone());
            match action {
                Action::EmbedQuery => machine.observe(Observation::QueryVector {
                    vector: (!self.index.embedder().is_empty()).then(|| embed(&machine.query.text)),
                    took_ms: 1.0,
                }),
                Action::OpenIndex => machine.observe(Observation::Index {
                    index: Arc::clone(&index),
                    history: SessionHistory::default(),
                    now: 0,
                }),
                Action::Compute { .. } => machine.compute(&|| 0.0),
                Action::ReadLinks(ids) => {
                    let at = |id: &String| ids.contains(id);
                    let links = self.links.iter().filter(|link| at(&link.from) || at(&link.to));
                    machine.observe(Observation::Links(links.cloned().collect()));
                }
                Action::ReadTexts(docs) => {
                    let text = |doc: &i64| Some((*doc, self.texts.get(doc)?.clone()));
                    machine.observe(Observation::Texts(docs.iter().filter_map(text).collect()));
                }
                Action::Done => return (machine.finish("q".into(), "t".into(), None, 2.0), actions),
            }
        }
    }
}

/// Letter frequencies of a text as a vector of length 1.
fn embed(text: &str) -> Vec<f32> {
    let mut vector = [0.01_f32; 26];
    for letter in text.bytes().filter(u8::is_ascii_lowercase) {
        vector[usize::from(letter - b'a')] += 1.0;
    }
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.iter().map(|value| value / length).collect()
}

pub(super) fn query(text: &str, mode: Mode) -> SearchQuery {
    SearchQuery {
        text: text.into(),
        mode: Some(mode),
        limit: None,
        token_budget: None,
        token_usage: None,
        folder: String::new(),
        scope: Scope::All,
        skip_shown: false,
        filter: MemoryFilter::default(),
        as_of: None,
        below_floor: false,
    }
}

fn caused(from: &str, to: &str) -> Link {
    Link {
        from: from.into(),
        to: to.into(),
        kind: LinkKind::Caused,
    }
}

pub(super) fn standard(query: SearchQuery) -> SearchMachine {
    SearchMachine::new(Arc::clone(ValidPipeline::standard()), query)
}

fn world() -> World {
    let mut world = World {
        index: MemoryIndex::new("letters", 26),
        ..World::default()
    };
    world.add(
        "a",
        &["the database is locked", "the cache is cold"],
        Tier::Normal,
        "store",
    );
    world.add("b", &["rollback of a deploy"], Tier::Normal, "web");
    world.add("c", &["never log secrets"], Tier::Constitutional, "");
    world.links = vec![caused("a", "b"), caused("b", "c")];
    world
}

fn kinds(actions: &[Action]) -> Vec<&'static str> {
    let kind = |action: &Action| match action {
        Action::EmbedQuery => "embed",
        Action::OpenIndex => "open",
        Action::Compute { .. } => "compute",
        Action::ReadLinks(_) => "links",
        Action::ReadTexts(_) => "texts",
        Action::Done => "done",
    };
    actions.iter().map(kind).collect()
}

#[test]
fn each_mode_requests_only_required_actions() {
    let world = world();
    let (found, actions) = world.search(standard(query("cold cache", Mode::Focused)));
    assert_eq!(
        kinds(&actions),
        [
            "embed", "open", "compute", "links", "compute", "compute", "texts", "compute", "done"
        ]
    );
    assert_eq!(
        found.results[0].excerpt, "the cache is cold",
        "the chunk with the matching words is returned"
    );
    assert!(found.results[0].partial && found.results[0].rank == 1);
    assert_eq!(found.telemetry.stages.len(), 5);
    // Without vectors there is no embedding, texts are compared by words, and links are read only to
    // know which memories are current.
    let (found, actions) = world.search(standard(query("cold cache", Mode::Quick)));
    assert_eq!(
        kinds(&actions),
        [
            "open", "compute", "compute", "links", "texts", "compute", "compute", "done"
        ]
    );
    let ids: Vec<&str> = found.results.iter().map(|result| result.id.as_str()).collect();
    assert_eq!(ids, ["a", "c"]);
    assert!(found.results[1].constitutional_only);
    // Two hops, the second starting from results of the first.
    let (_, actions) = world.search(standard(query("locked database", Mode::Deep)));
    assert_eq!(kinds(&actions).iter().filter(|kind| **kind == "links").count(), 2);
}

#[test]
fn an_unexpected_observation_is_ignored() {
    let mut machine = standard(query("cold cache", Mode::Focused));
    machine.compute(&|| 0.0);
    machine.observe(Observation::Links(Vec::new()));
    machine.observe(Observation::Texts(Vec::new()));
    assert_eq!(machine.next(), Action::EmbedQuery);
}

#[test]
fn deleted_memories_are_omitted_and_a_failed_model_disables_only_vectors() {
    let mut world = world();
    world.texts.remove(&2);
    let (found, _) = world.search(standard(query("rollback", Mode::Quick)));
    assert!(found.results.iter().all(|result| result.id != "b"));
    assert_eq!(found.results[0].rank, 1);
    world.index = MemoryIndex::new("", 0);
    world.add("d", &["rollback again"], Tier::Normal, "");
    let (found, actions) = world.search(standard(query("rollback", Mode::Focused)));
    assert_eq!(actions[0], Action::EmbedQuery);
    assert_eq!(found.results[0].id, "d");
}

#[test]
fn links_are_followed_within_the_mode_and_share() {
    let mut world = world();
    world.add("d", &["zzz"], Tier::Normal, "web");
    world.links.push(caused("b", "d"));
    let changes = json!({"channels": {"vector": false}, "modes": {"focused": {"hops": 2}}});
    let pipeline = Arc::new(Pipeline::with(&changes).unwrap());
    let (found, _) = world.search(SearchMachine::new(pipeline, query("locked", Mode::Focused)));
    let graph = |id: &str| {
        let result = found.results.iter().find(|result| result.id == id).unwrap();
        result.channels.get(&Channel::Graph).map(|found| found.score)
    };
    let close = |found: Option<f64>, score: f64| (found.unwrap() - score).abs() < 1e-12;
    assert!(close(graph("b"), 0.6) && close(graph("d"), 0.36) && close(graph("a"), 0.36));
}

fn words() -> impl Strategy<Value = String> {
    proptest::collection::vec(0..WORDS.len(), 1..8).prop_map(|words| {
        words
            .iter()
            .map(|word| WORDS[*word])
            .collect::<Vec<_>>()
            .join(" ")
    })
}

fn memories() -> impl Strategy<Value = Vec<(String, usize, usize)>> {
    proptest::collection::vec((words(), 0..5_usize, 0..FOLDERS.len()), 0..20)
}

fn filled(memories: &[(String, usize, usize)]) -> World {
    let mut world = World {
        index: MemoryIndex::new("letters", 26),
        ..World::default()
    };
    let tiers = [
        Tier::Temporary,
        Tier::Normal,
        Tier::Important,
        Tier::Critical,
        Tier::Constitutional,
    ];
    for (number, (text, tier, folder)) in memories.iter().enumerate() {
        world.add(&format!("m{number:02}"), &[text], tiers[*tier], FOLDERS[*folder]);
    }
    let ids: Vec<String> = world.index.ids().map(str::to_owned).collect();
    world.links = ids
        .iter()
        .zip(ids.iter().skip(1))
        .map(|(a, b)| caused(a, b))
        .collect();
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Limits hold, ranks are consecutive, no memory occurs twice, up to five constitutional memories of
    /// the folder are included, no other memory is from another folder, and equal observations give equal
    /// results.
    #[test]
    fn every_search_keeps_its_invariants(
        memories in memories(), text in words(), mode in 0..3_usize, folder in 0..FOLDERS.len(),
        limit in 5..12_usize, budget in 1..300_usize,
    ) {
        let world = filled(&memories);
        let asked = SearchQuery {
            limit: Some(limit),
            token_budget: Some(budget),
            folder: FOLDERS[folder].into(),
            ..query(&text, Mode::ALL[mode])
        };
        let (found, _) = world.search(standard(asked.clone()));
        prop_assert!(found.results.len() <= limit);
        let ids: BTreeSet<&str> = found.results.iter().map(|result| result.id.as_str()).collect();
        prop_assert_eq!(ids.len(), found.results.len());
        for (at, result) in found.results.iter().enumerate() {
            prop_assert_eq!(result.rank, at + 1);
            let inside = crate::memory::in_folder(&result.folder, FOLDERS[folder]);
            prop_assert!(inside || result.tier == Tier::Constitutional);
        }
        let filter = world.index.filter(FOLDERS[folder], &Scope::All, 0);
        let rules = world.index.rules(&filter, FOLDERS[folder]);
        let first = found.results.iter().take(5).filter(|result| result.tier == Tier::Constitutional);
        prop_assert!(first.count() >= rules.len().min(5));
        let paid = found.results.iter().filter(|result| result.tier != Tier::Constitutional);
        let paid: Vec<usize> = paid.map(|result| result.tokens).collect();
        prop_assert!(paid.iter().sum::<usize>() <= budget || found.results.len() == 1);
        prop_assert_eq!(&found, &world.search(standard(asked)).0);
    }

    /// A search keeps its index snapshot: changing a clone has no effect.
    #[test]
    fn a_snapshot_does_not_change(memories in memories(), others in memories(), text in words()) {
        let mut world = filled(&memories);
        let before = world.index.clone();
        let expected = world.search(standard(query(&text, Mode::Focused))).0;
        for (number, (text, ..)) in others.iter().enumerate() {
            world.add(&format!("m{:02}", number * 2), &[text, "another chunk"], Tier::Important, "new");
            world.index.remove(&format!("m{:02}", number * 2 + 1));
        }
        world.index = before;
        prop_assert_eq!(world.search(standard(query(&text, Mode::Focused))).0, expected);
    }
}
