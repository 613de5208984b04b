//! Splits long Markdown at headings, then at blank lines, then at sentences. Each chunk carries the headings
//! above it, because "Use WAL" means different things under "SQLite" and under "PostgreSQL".

use super::estimate_tokens;

/// Size limits of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkSettings {
    /// Maximum number of tokens per chunk; a text that fits is one chunk. The built-in embedding model reads
    /// 256 tokens.
    pub most_tokens: usize,
}

impl Default for ChunkSettings {
    fn default() -> Self {
        Self { most_tokens: 220 }
    }
}

/// A chunk of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Headings above the chunk, outermost first, joined by ` > `; empty before the first heading.
    pub heading: String,
    /// Text of the chunk.
    pub body: String,
}

/// Splits a text. Every word is in exactly one chunk or heading, in the original order.
pub fn chunk(content: &str, settings: ChunkSettings) -> Vec<Chunk> {
    let content = content.trim();
    if estimate_tokens(content) <= settings.most_tokens {
        let body = content.to_owned();
        return if body.is_empty() {
            Vec::new()
        } else {
            vec![Chunk {
                heading: String::new(),
                body,
            }]
        };
    }
    let mut chunks = Vec::new();
    for section in sections(content) {
        pack(&section, settings.most_tokens, &mut chunks);
    }
    chunks
}

struct Section<'a> {
    heading: String,
    paragraphs: Vec<&'a str>,
}

/// Splits a text by headings; `#` inside a fenced code block is not a heading.
fn sections(content: &str) -> Vec<Section<'_>> {
    let mut sections = vec![Section {
        heading: String::new(),
        paragraphs: Vec::new(),
    }];
    let mut above: Vec<(usize, &str)> = Vec::new();
    let mut fence: Option<&str> = None;
    let mut start = 0;
    let mut at = 0;
    for line in content.split_inclusive('\n') {
        let end = at + line.len();
        let trimmed = line.trim();
        let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
        let heading = if fence.is_none() { heading(trimmed) } else { None };
        if heading.is_some() || (fence.is_none() && trimmed.is_empty()) {
            push_paragraph(&mut sections, &content[start..at]);
            start = end;
        }
        if let Some((level, text)) = heading {
            above.retain(|(other, _)| *other < level);
            above.push((level, text));
            let names: Vec<&str> = above.iter().map(|(_, text)| *text).collect();
            sections.push(Section {
                heading: names.join(" > "),
                paragraphs: Vec::new(),
            });
        }
        at = end;
    }
    push_paragraph(&mut sections, &content[start..]);
    sections
}

fn push_paragraph<'a>(sections: &mut [Section<'a>], paragraph: &'a str) {
    let paragraph = paragraph.trim_matches(['\n', '\r']).trim_end();
    if let Some(section) = sections.last_mut()
        && !paragraph.trim().is_empty()
    {
        section.paragraphs.push(paragraph);
    }
}

/// Parses `## Two words` as level 2 and its text.
fn heading(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    let text = text
        .strip_prefix([' ', '\t'])?
        .trim()
        .trim_end_matches('#')
        .trim();
    ((1..=6).contains(&level) && !text.is_empty()).then_some((level, text))
}

/// Fills chunks with complete paragraphs. A paragraph that is too long is split at lines and sentences, and those
/// at words. A question stays with its answer.
fn pack(section: &Section<'_>, most: usize, chunks: &mut Vec<Chunk>) {
    let mut body = String::new();
    // Start of the last part in the body.
    let mut last = 0;
    let flush = |body: &mut String, chunks: &mut Vec<Chunk>| {
        if !body.is_empty() {
            chunks.push(Chunk {
                heading: section.heading.clone(),
                body: std::mem::take(body),
            });
        }
    };
    for paragraph in &section.paragraphs {
        let parts = if estimate_tokens(paragraph) <= most {
            vec![(*paragraph, "\n\n")]
        } else {
            split_paragraph(paragraph, most)
        };
        for (part, separator) in parts {
            let joined = body.len() + separator.len() + part.len();
            if !body.is_empty() && joined.div_ceil(4) > most {
                // A question moves to the chunk of its answer if both fit.
                let question = body.get(last..).unwrap_or_default().to_owned();
                let both = question.len() + separator.len() + part.len();
                let moves = last > 0 && question.ends_with('?') && both.div_ceil(4) <= most;
                if moves {
                    body.truncate(last);
                    body.truncate(body.trim_end().len());
                }
                flush(&mut body, chunks);
                if moves {
                    body = question;
                }
            }
            if !body.is_empty() {
                body.push_str(separator);
            }
            last = body.len();
            body.push_str(part);
        }
    }
    flush(&mut body, chunks);
}

/// Splits a paragraph into lines or sentences that fit, each with its separator.
fn split_paragraph(paragraph: &str, most: usize) -> Vec<(&str, &'static str)> {
    let mut parts = Vec::new();
    for line in paragraph.split('\n').filter(|line| !line.trim().is_empty()) {
        let mut separator = "\n";
        let mut start = 0;
        let mut last_space = None;
        for (at, character) in line.char_indices() {
            let ends = character.is_whitespace() && line[start..at].ends_with(['.', '!', '?']);
            let full = estimate_tokens(&line[start..at]) >= most;
            if ends || full {
                // A word longer than a chunk is split.
                let end = if ends { at } else { last_space.unwrap_or(at) };
                parts.push((line[start..end].trim(), separator));
                (start, last_space) = (end, None);
                separator = " ";
            } else if character.is_whitespace() && at > start {
                last_space = Some(at);
            }
        }
        parts.push((line[start..].trim(), separator));
    }
    parts.retain(|(part, _)| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut_at(text: &str, most_tokens: usize) -> Vec<(String, String)> {
        let chunks = chunk(text, ChunkSettings { most_tokens });
        chunks
            .into_iter()
            .map(|chunk| (chunk.heading, chunk.body))
            .collect()
    }

    #[test]
    fn a_short_text_is_one_chunk_and_an_empty_one_none() {
        assert_eq!(cut_at("# A\n\nb", 100), [(String::new(), "# A\n\nb".into())]);
        assert_eq!(cut_at(" \n ", 100), []);
    }

    #[test]
    fn chunks_carry_headings_and_code_is_not_a_heading() {
        let text = "Before.\n# Store\nOne store.\n## SQLite\nUse WAL.\n```sh\n# no heading\n```\n## PostgreSQL ##\nUse a pool.\n# Other\nEnd.";
        let found = cut_at(text, 6);
        let of = |heading: &str| {
            let bodies = found.iter().filter(|(name, _)| name == heading);
            bodies
                .map(|(_, body)| body.as_str())
                .collect::<Vec<_>>()
                .join("|")
        };
        assert_eq!(of(""), "Before.");
        assert_eq!(of("Store"), "One store.");
        assert_eq!(of("Store > PostgreSQL"), "Use a pool.");
        assert_eq!(of("Other"), "End.");
        assert!(of("Store > SQLite").contains("# no heading"), "{found:?}");
    }

    #[test]
    fn paragraphs_stay_together_while_they_fit() {
        // 8, 8 and 12 bytes: 2, 2 and 3 tokens.
        assert_eq!(
            cut_at("aaaa bbb\n\ncccc ddd\n\neeee ffff gg", 5),
            [
                (String::new(), "aaaa bbb\n\ncccc ddd".into()),
                (String::new(), "eeee ffff gg".into())
            ]
        );
    }

    #[test]
    fn a_question_stays_with_its_answer() {
        let text =
            "Mara: we cleared the brambles\nTom: where does the quince go?\nMara: into the corner\nTom: good";
        let bodies: Vec<String> = cut_at(text, 15).into_iter().map(|(_, body)| body).collect();
        assert_eq!(
            bodies,
            [
                "Mara: we cleared the brambles",
                "Tom: where does the quince go?\nMara: into the corner",
                "Tom: good"
            ]
        );
    }

    proptest! {
        #[test]
        fn no_word_is_lost_or_moved_and_no_chunk_is_too_long(
            text in "([a-zäß]{1,9}[.!?]?[ \n]{1,3}){1,80}", most in 3usize..40
        ) {
            let parts = cut_at(&text, most);
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let joined: String = parts.iter().map(|(_, body)| body.as_str()).collect::<Vec<_>>().join(" ");
            // Words longer than a chunk may be split; ignoring spaces, no text is lost.
            prop_assert_eq!(words(&joined).concat(), words(&text).concat());
            for (_, body) in &parts {
                prop_assert!(estimate_tokens(body) <= most + 2, "{} in {:?}", estimate_tokens(body), body);
            }
        }

        #[test]
        fn any_text_can_be_chunked(text in "\\PC{0,200}", most in 1usize..20) {
            let _ = cut_at(&text, most);
        }
    }
}
