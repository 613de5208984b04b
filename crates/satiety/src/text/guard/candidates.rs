//! Index of statements by their numbers and names: finds the statements that the guard may accept without
//! looking at those that it refuses.
//!
//! A conversation may contain thousands of claims that differ only in a number or an identifier. The guard
//! refuses a pair when each side has a number (or a name) without a counterpart on the other. So an accepted
//! statement contains a counterpart of *every* number of the query, or each of *its* numbers has one in the
//! query: the first kind is listed under any number of the query, the second under any of its own. Hashes may
//! collide; a collision only adds a candidate.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

use super::lexicon::LEXICON;
use super::names::{ENOUGH_IN_COMMON, acronym_letters, initials};
use super::numbers::Quantity;
use super::parsed::{ParsedStatement, Term};

/// Longest acronym, see [`acronym_letters`].
const LONGEST_ACRONYM: usize = 6;
/// Shortest name that may be a part of a longer one.
const SHORTEST_PART: usize = 4;

/// Lists of statements by key.
type Lists = FxHashMap<u64, Vec<u32>>;

/// Statements by their numbers and names. Ids ascend in the order of insertion.
#[derive(Debug, Clone, Default)]
pub(crate) struct GuardIndex {
    numbers: NumberLists,
    names: NameLists,
    /// Number of each content word.
    words: FxHashMap<Box<str>, u32>,
    groups: FxHashMap<Group, u32>,
    /// Groups by number.
    listed_groups: Vec<Group>,
    group_of: FxHashMap<u32, u32>,
}

/// Statements that the guard treats alike: with the same plain content words, and refused by their numbers or
/// by their names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Group {
    /// Whether its statements have a number that can contradict another; otherwise they have a name.
    is_numbered: bool,
    /// Ascending.
    content: Box<[u32]>,
}

#[derive(Debug, Clone, Default)]
struct NumberLists {
    /// Statements by all of their numbers.
    all: Lists,
    /// Statements by the rarest of their numbers.
    rarest: Lists,
}

#[derive(Debug, Clone, Default)]
struct NameLists {
    all: TermLists,
    /// Statements by the rarest of their names.
    rarest: TermLists,
    /// Statements by adjacent initials of their terms.
    initials: Lists,
    /// Statements by the rarest of their names, if it may be an acronym.
    acronyms: Lists,
}

/// Statements by their terms.
#[derive(Debug, Clone, Default)]
struct TermLists {
    /// By the whole term, its stem and its alias.
    whole: Lists,
    /// By the parts of a term that may stand for it.
    parts: Lists,
}

impl GuardIndex {
    /// Adds a statement and returns its group; `None`, without adding it, if it has neither numbers that can
    /// contradict others nor names.
    pub(crate) fn insert(&mut self, id: u32, statement: &ParsedStatement) -> Option<u32> {
        let is_numbered = statement.quantities().any(|own| !own.weak);
        if is_numbered {
            self.numbers.insert(id, statement);
        } else if statement.names().next().is_some() {
            self.names.insert(id, statement);
        } else {
            return None;
        }
        let words = &mut self.words;
        let mut content: Vec<u32> = statement
            .plain_content()
            .into_iter()
            .map(|word| {
                let next = u32::try_from(words.len()).unwrap_or(u32::MAX);
                words.get(word).copied().unwrap_or_else(|| {
                    words.insert(word.into(), next);
                    next
                })
            })
            .collect();
        content.sort_unstable();
        let group = Group {
            is_numbered,
            content: content.into(),
        };
        let next = u32::try_from(self.listed_groups.len()).unwrap_or(u32::MAX);
        let number = self.groups.get(&group).copied().unwrap_or(next);
        if number == next {
            self.groups.insert(group.clone(), number);
            self.listed_groups.push(group);
        }
        self.group_of.insert(id, number);
        Some(number)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.group_of.is_empty()
    }

    /// The statements that the guard may accept as the same as `query`.
    pub(crate) fn candidates(&self, query: &ParsedStatement) -> Candidates<'_> {
        let by_number = self.numbers.candidates(query);
        let by_name = self.names.candidates(query);
        let words = query.plain_content();
        let mut known: Vec<u32> = words
            .iter()
            .filter_map(|word| self.words.get(*word).copied())
            .collect();
        known.sort_unstable();
        let are_restricted = (by_number.is_some(), by_name.is_some());
        let mut listed = by_number.unwrap_or_default();
        listed.extend(by_name.unwrap_or_default());
        listed.sort_unstable();
        listed.dedup();
        Candidates {
            index: self,
            listed,
            are_restricted,
            content: (known, words.len()),
            restricted_groups: RefCell::default(),
        }
    }
}

/// Result of [`GuardIndex::candidates`].
pub(crate) struct Candidates<'a> {
    index: &'a GuardIndex,
    /// Ascending. Contains every statement of restricted groups that the guard may accept.
    listed: Vec<u32>,
    /// Whether `listed` is complete for statements with numbers, and for those with names.
    are_restricted: (bool, bool),
    /// Known content words of the query, ascending, and the number of all.
    content: (Vec<u32>, usize),
    restricted_groups: RefCell<FxHashMap<u32, bool>>,
}

impl Candidates<'_> {
    /// Statements that the guard may accept; complete for restricted groups.
    pub(crate) fn listed(&self) -> &[u32] {
        &self.listed
    }

    /// Whether the guard refuses every statement of the group that is not listed.
    pub(crate) fn is_restricted(&self, group: u32) -> bool {
        let Some(found) = self.index.listed_groups.get(group as usize) else {
            return false;
        };
        if found.is_numbered {
            return self.are_restricted.0;
        }
        self.are_restricted.1
            && *self
                .restricted_groups
                .borrow_mut()
                .entry(group)
                .or_insert_with(|| self.common_share(&found.content) >= ENOUGH_IN_COMMON)
    }

    /// Whether the guard certainly refuses a statement. `false` for statements that are not in the index.
    pub(crate) fn is_refused(&self, id: u32) -> bool {
        self.index
            .group_of
            .get(&id)
            .is_some_and(|group| self.is_restricted(*group) && self.listed.binary_search(&id).is_err())
    }

    /// Like [`super::names::common_content_share`].
    fn common_share(&self, content: &[u32]) -> f64 {
        let (known, size) = &self.content;
        match content.len().min(*size) {
            0 => f64::from(u8::from(content.is_empty() && *size == 0)),
            smaller => {
                let common = known.iter().filter(|word| content.binary_search(word).is_ok());
                common.count() as f64 / smaller as f64
            }
        }
    }
}

impl NumberLists {
    fn insert(&mut self, id: u32, statement: &ParsedStatement) {
        let mut rarest: Option<(usize, &Quantity)> = None;
        for own in statement.quantities() {
            let others: usize = number_keys(own).map(|key| length(&self.all, key)).sum();
            if !own.weak && rarest.is_none_or(|(least, _)| others < least) {
                rarest = Some((others, own));
            }
        }
        for own in statement.quantities() {
            number_keys(own).for_each(|key| push(&mut self.all, key, id));
        }
        if let Some((_, own)) = rarest {
            number_keys(own).for_each(|key| push(&mut self.rarest, key, id));
        }
    }

    /// `None` if the query has no number that can contradict another.
    fn candidates(&self, query: &ParsedStatement) -> Option<Vec<u32>> {
        let size = |own: &Quantity| -> usize { near_keys(own).map(|key| length(&self.all, key)).sum() };
        let own = query
            .quantities()
            .filter(|own| !own.weak)
            .min_by_key(|own| size(own))?;
        let mut found = Vec::new();
        near_keys(own).for_each(|key| extend(&mut found, &self.all, key));
        for own in query.quantities() {
            near_keys(own).for_each(|key| extend(&mut found, &self.rarest, key));
        }
        Some(found)
    }
}

impl NameLists {
    fn insert(&mut self, id: u32, statement: &ParsedStatement) {
        let rarest = statement
            .names()
            .min_by_key(|name| length(&self.all.whole, hash(&name.stem)));
        if let Some(name) = rarest {
            self.rarest.insert(id, name);
            if let Some(letters) = acronym_letters(name) {
                push(&mut self.acronyms, hash(&letters), id);
            }
        }
        for term in &statement.terms {
            self.all.insert(id, term);
        }
        for_each_acronym(statement, |letters| push(&mut self.initials, hash(&letters), id));
    }

    /// `None` if the query has no names.
    fn candidates(&self, query: &ParsedStatement) -> Option<Vec<u32>> {
        let mut fewest: Option<Vec<u32>> = None;
        for name in query.names() {
            let mut found = Vec::new();
            self.all.extend(&mut found, name);
            if let Some(letters) = acronym_letters(name) {
                extend(&mut found, &self.initials, hash(&letters));
            }
            if fewest.as_ref().is_none_or(|fewest| found.len() < fewest.len()) {
                fewest = Some(found);
            }
        }
        let mut found = fewest?;
        for term in &query.terms {
            self.rarest.extend(&mut found, term);
        }
        for_each_acronym(query, |letters| {
            extend(&mut found, &self.acronyms, hash(&letters));
        });
        Some(found)
    }
}

impl TermLists {
    fn insert(&mut self, id: u32, term: &Term) {
        whole_keys(term).for_each(|key| push(&mut self.whole, key, id));
        for_each_part(&term.stem, |part| push(&mut self.parts, hash(part), id));
    }

    /// Adds the statements with a term that may be a counterpart of `term`, in either role, see
    /// [`super::names::is_counterpart`].
    fn extend(&self, found: &mut Vec<u32>, term: &Term) {
        whole_keys(term).for_each(|key| extend(found, &self.whole, key));
        for_each_part(&term.stem, |part| extend(found, &self.whole, hash(part)));
        extend(found, &self.parts, hash(&term.stem));
    }
}

/// Keys of a term; terms with equal stems, or aliases, share one.
fn whole_keys(term: &Term) -> impl Iterator<Item = u64> {
    let alias = LEXICON
        .alias_group(&term.stem)
        .map(|group| hash(&("alias", group)));
    [Some(hash(&term.stem)), Some(hash(&term.word_stem)), alias]
        .into_iter()
        .flatten()
}

/// Calls `each` for the beginnings and ends of a name that may stand for it: the rest has no digit.
fn for_each_part(stem: &str, mut each: impl FnMut(&str)) {
    let bytes = stem.as_bytes();
    let last_digit = bytes.iter().rposition(u8::is_ascii_digit);
    let first_digit = bytes.iter().position(u8::is_ascii_digit);
    let is_long = |part: &str| part.chars().nth(SHORTEST_PART - 1).is_some();
    for (at, _) in stem.char_indices().skip(1) {
        if last_digit.is_none_or(|digit| at > digit) && is_long(&stem[..at]) {
            each(&stem[..at]);
        }
        if first_digit.is_none_or(|digit| at <= digit) && is_long(&stem[at..]) {
            each(&stem[at..]);
        }
    }
}

/// Calls `each` for every acronym that adjacent terms of the statement spell out.
fn for_each_acronym(statement: &ParsedStatement, mut each: impl FnMut(&[char])) {
    let initials = initials(statement);
    for length in 2..=LONGEST_ACRONYM {
        initials.windows(length).for_each(&mut each);
    }
}

/// Keys under which a number is listed.
fn number_keys(own: &Quantity) -> impl Iterator<Item = u64> {
    scales(own).into_iter().flatten().map(|place| hash(&place))
}

/// Keys of all numbers that may agree with this one.
fn near_keys(own: &Quantity) -> impl Iterator<Item = u64> {
    scales(own)
        .into_iter()
        .flatten()
        .flat_map(|(scale, place)| [-1, 0, 1].map(|step| hash(&(scale, place.saturating_add(step)))))
}

/// Places of a number on the scales on which numbers are compared, coarse enough that two that agree are in the
/// same place of some scale or next to it.
fn scales(own: &Quantity) -> [Option<(u8, i64)>; 3] {
    let bare = (0, logarithmic_place(own.bare));
    let value = (0, logarithmic_place(own.value));
    let is_share = own.rounded || own.dimension == Some("ratio");
    [
        Some(bare),
        Some(value).filter(|value| *value != bare),
        // Shares in words agree with percentages up to a hundredth.
        is_share.then(|| (1, to_integer(own.value * 100.0))),
    ]
}

/// Numbers that are equal up to the seventh digit are at most one place apart.
fn logarithmic_place(value: f64) -> i64 {
    const PER_UNIT: f64 = 1e6;
    if value == 0.0 {
        return i64::MIN / 2;
    }
    let place = to_integer(libm::log(value.abs()) * PER_UNIT);
    // Negative numbers are beyond all positive ones: logarithms of finite numbers are between -746 and 710.
    if value < 0.0 { place + (1 << 40) } else { place }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the cast saturates, and a wrong place only adds a candidate for infinite numbers, which agree with none"
)]
fn to_integer(value: f64) -> i64 {
    value.floor().clamp(-1e15, 1e15) as i64
}

fn hash(key: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = FxHasher::default();
    key.hash(&mut hasher);
    hasher.finish()
}

fn push(lists: &mut Lists, key: u64, id: u32) {
    let list = lists.entry(key).or_default();
    if list.last() != Some(&id) {
        list.push(id);
    }
}

fn extend(found: &mut Vec<u32>, lists: &Lists, key: u64) {
    found.extend(lists.get(&key).into_iter().flatten());
}

fn length(lists: &Lists, key: u64) -> usize {
    lists.get(&key).map_or(0, Vec::len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::are_different;
    use super::*;

    /// Fragments in which the guard compares statements, so that all kinds of counterparts occur.
    const TERMS: [&str; 58] = [
        "3",
        "5",
        "3.0",
        "three",
        "one",
        "17",
        "170",
        "1,700",
        "1.7k",
        "-3",
        "0",
        "40%",
        "0.4",
        "half",
        "50%",
        "a third of",
        "33%",
        "5 ms",
        "5 s",
        "0.005 s",
        "$5",
        "two hundred",
        "2026-11-17",
        "2026-11-18",
        "v1.2",
        "1.2",
        "1.2.3",
        "host-17",
        "host-18",
        "host17",
        "hostab",
        "hostcd",
        "host",
        "src/main.rs",
        "main.rs",
        "Postgres",
        "PostgreSQL",
        "K8s",
        "Kubernetes",
        "API",
        "application programming interface",
        "Alice",
        "alice",
        "Bob",
        "Service A",
        "Service B",
        "p99",
        "not",
        "never",
        "safe",
        "unsafe",
        "cache",
        "node",
        "fails",
        "must",
        "may",
        "all",
        "some",
    ];

    fn statement() -> impl Strategy<Value = String> {
        proptest::collection::vec(0..TERMS.len(), 1..9)
            .prop_map(|picks| picks.iter().map(|at| TERMS[*at]).collect::<Vec<_>>().join(" "))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_500))]

        #[test]
        fn only_different_statements_are_refused(
            texts in proptest::collection::vec(statement(), 1..24),
            query in statement(),
        ) {
            let query = ParsedStatement::of(&query);
            let mut index = GuardIndex::default();
            let parsed: Vec<ParsedStatement> = texts.iter().map(|text| ParsedStatement::of(text)).collect();
            for (id, statement) in (0..).zip(&parsed) {
                index.insert(id, statement);
            }
            let candidates = index.candidates(&query);
            for (id, statement) in (0..).zip(&parsed) {
                if candidates.is_refused(id) {
                    prop_assert!(are_different(statement, &query), "{:?}", texts[id as usize]);
                    prop_assert!(are_different(&query, statement), "{:?}", texts[id as usize]);
                }
            }
        }

        #[test]
        fn numbers_that_agree_share_a_key(a in 0.0_f64..1e4, digits in -9_i32..9, unit in 0..4_usize) {
            let units = ["ms", "s", "%", "GB"];
            let b = a * (1.0 + libm::pow(10.0, f64::from(digits) - 9.0));
            let share = Quantity::share(a / 1e4);
            let mut all = vec![Quantity::number(a), Quantity::number(b), Quantity::number(-a), share];
            all.extend([a, b, a / 100.0].iter().filter_map(|value| Quantity::number(*value).in_unit(units[unit])));
            for x in &all {
                for y in &all {
                    if x.agrees_with(y) {
                        prop_assert!(
                            near_keys(x).any(|key| number_keys(y).any(|other| other == key)),
                            "{x:?} {y:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn thousands_of_other_numbers_and_names_are_not_listed() {
        let mut index = GuardIndex::default();
        for id in 0..2_000 {
            let text = if id % 2 == 0 {
                format!("Claim number {id} about subject {} is new", id % 20)
            } else {
                format!("The request req-{id}-x waits for the worker")
            };
            index.insert(id, &ParsedStatement::of(&text));
        }
        let listed = |text: &str| index.candidates(&ParsedStatement::of(text)).listed().to_vec();
        // "Claim number 0 about subject 0" has no number that the query lacks.
        assert_eq!(listed("Claim number 500 about subject 0 is new"), [0, 500]);
        assert_eq!(listed("The request req-501-x waits for the worker"), [501]);
        assert_eq!(listed("Claim number 4000 about subject 0 is new"), [0]);
        assert!(listed("The request req-4001-x waits for the worker").is_empty());
    }
}
