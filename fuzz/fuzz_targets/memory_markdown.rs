//! Arbitrary files: each is a memory or an error, and its chunks respect the length limit and can be indexed and searched.
#![no_main]

use libfuzzer_sys::fuzz_target;
use satiety::memory::{ChunkSettings, LexicalIndex, chunk, estimate_tokens, query_terms, read_markdown};

fuzz_target!(|input: (u8, &str)| {
    let (most, text) = input;
    let settings = ChunkSettings {
        most_tokens: usize::from(most) + 1,
    };
    let Ok(draft) = read_markdown(text, "note", "folder") else {
        return;
    };
    let pieces = chunk(&draft.content, settings);
    for piece in &pieces {
        assert!(estimate_tokens(&piece.body) <= settings.most_tokens + 4);
    }
    let mut index = LexicalIndex::default();
    index.put(0, pieces.iter().map(|piece| (piece.heading.as_str(), piece.body.as_str())));
    let terms = query_terms(&draft.title, true).weighed(1.0);
    let lexical = satiety::memory::Pipeline::default().lexical;
    let question = index.question(&terms);
    assert!(question.search(lexical, 10, |_| true).len() <= 1);
    assert!(question.best_chunk(lexical, 0).is_none_or(|piece| (piece as usize) < pieces.len()));
});
