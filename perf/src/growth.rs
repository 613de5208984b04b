//! Conversations that are hard to score: thousands of claims, questions or actions that are nearly the same.

use satiety::dialogue::{Outputs, Round, RoundVectors};

/// A kind of conversation whose size can be chosen.
#[derive(Debug, Clone, Copy)]
pub struct HardInput {
    pub name: &'static str,
    /// Whether the claims have vectors that are nearly equal, as a sentence model gives for such claims.
    pub has_vectors: bool,
    outputs: fn(usize) -> Outputs,
}

pub const HARD_INPUTS: [HardInput; 12] = [
    HardInput::words("claims differ in numbers", |at| {
        claim(format!("Claim number {at} about subject {} is new", at % 40))
    }),
    HardInput::words("claims differ in ids", |at| {
        claim(format!("The request req-{at:x}-q waits for the worker again"))
    }),
    HardInput::words("claims differ in names without digits", |at| {
        claim(format!(
            "The machine host-{} lost its connection today",
            letters(at)
        ))
    }),
    HardInput::words("claims differ in dates and versions", |at| {
        claim(format!(
            "Release 1.{at}.{} was deployed on 2026-{:02}-{:02}",
            at % 7,
            1 + at % 12,
            1 + at % 28
        ))
    }),
    HardInput::words("claims differ in a word and a number", |at| {
        claim(format!(
            "Claim number {at} about the {} cache is new",
            letters(at % 997)
        ))
    }),
    HardInput::words("claims alternate between yes and no", |at| {
        let negation = if at % 2 == 0 { "" } else { "not " };
        claim(format!("The {} is {negation}safe under load", letters(at % 997)))
    }),
    HardInput::words("claims are all the same", |_| {
        claim("The cache is cold after every deploy")
    }),
    HardInput::words("long claims differ in a number", |at| {
        let words: Vec<String> = (0..60).map(|word| format!("part{}", letters(word))).collect();
        claim(format!("{} in step {at}", words.join(" ")))
    }),
    HardInput::words("questions differ in two words", |at| Outputs {
        open_questions: vec![format!(
            "Who owns {} and {} here?",
            letters(at),
            letters(at * 31 + 7)
        )],
        ..Outputs::default()
    }),
    HardInput::words("actions differ in two words", |at| Outputs {
        next_actions: vec![format!("Write {} and {} now", letters(at), letters(at * 31 + 7))],
        ..Outputs::default()
    }),
    HardInput::words("claims have nothing in common", |at| {
        claim(
            (0..12)
                .map(|word| letters(at * 12 + word))
                .collect::<Vec<_>>()
                .join(" "),
        )
    }),
    HardInput {
        name: "claims differ in numbers, with vectors",
        has_vectors: true,
        outputs: |at| claim(format!("Claim number {at} about subject {} is new", at % 40)),
    },
];

impl HardInput {
    const fn words(name: &'static str, outputs: fn(usize) -> Outputs) -> Self {
        Self {
            name,
            has_vectors: false,
            outputs,
        }
    }

    /// The round at a position, and its vectors.
    pub fn round(&self, at: usize) -> (Round, Option<RoundVectors>) {
        let round = Round::new(u32::try_from(at + 1).unwrap_or(u32::MAX), (self.outputs)(at));
        let vectors = self
            .has_vectors
            .then(|| RoundVectors::new("m", &round, vec![nearly_equal_vector(at)]).ok())
            .flatten();
        (round, vectors)
    }
}

fn claim(text: impl AsRef<str>) -> Outputs {
    Outputs {
        claims: vec![text.as_ref().into()],
        ..Outputs::default()
    }
}

/// A distinct word without digits for each number.
fn letters(mut number: usize) -> String {
    let mut word = String::from("k");
    loop {
        word.push(char::from(b'a' + u8::try_from(number % 26).unwrap_or(0)));
        number /= 26;
        if number == 0 {
            return word;
        }
    }
}

/// 384 dimensions, cosines of .97 and more between any two.
fn nearly_equal_vector(at: usize) -> Vec<f32> {
    let mut state = at as u64 + 1;
    (0..384)
        .map(|dimension| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let noise = f32::from(u16::try_from(state >> 48).unwrap_or(0)) / 65_536.0;
            f32::from(u8::try_from(dimension % 7).unwrap_or(0)) + 2.0 * noise
        })
        .collect()
}
