//! Document model: the content of a report, independent of its rendering.

use std::fmt::Display;

use satiety::bench::{MarkKind, MarkedSpan};

use crate::charts::{Calibration, IntervalMark, MarginMark, Mark, Stack};
use crate::series::Lines;
use crate::timeline::Timeline;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// Page title. Terminals and Markdown start with the first block instead.
    pub title: String,
    pub blocks: Vec<Block>,
    /// Table for CSV export; programs rely on its column names.
    pub data: Option<Table>,
}

impl Document {
    pub fn new(title: impl Into<String>, blocks: Vec<Block>) -> Self {
        Self {
            title: title.into(),
            blocks,
            data: None,
        }
    }
}

impl From<Block> for Document {
    fn from(block: Block) -> Self {
        Self::new("", vec![block])
    }
}

/// How a word is to be read. Every rendering also says it in words, so that no information depends on colour
/// alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Good,
    Bad,
    Unsure,
    Plain,
}

/// Style of a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Style {
    Plain,
    /// Time; pages add the exact one (RFC 3339) as a tooltip.
    Time(String),
    Strong,
    Dim,
    /// Classifying word, coloured by tone.
    Badge(Tone),
    /// Link within the same site, or with a complete address. Terminals show only the label, and Markdown links only
    /// complete addresses.
    Link(String),
}

/// Part of a line in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub text: String,
    pub style: Style,
}

/// Line of text. Words between backticks are rendered as code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text(pub Vec<Span>);

macro_rules! plain_text {
    ($($kind:ty),*) => {
        $(impl From<$kind> for Text {
            fn from(text: $kind) -> Self {
                styled(text.to_string(), Style::Plain)
            }
        })*
    };
}

plain_text!(&str, String, &String, u32, u64, usize, i64);

impl Text {
    /// Appends `more` to the line.
    #[must_use]
    pub fn then(mut self, more: impl Into<Self>) -> Self {
        self.0.extend(more.into().0);
        self
    }

    /// Text without styles.
    pub fn plain(&self) -> String {
        self.0.iter().map(|span| span.text.as_str()).collect()
    }
}

fn styled(text: impl Into<String>, style: Style) -> Text {
    let text = text.into();
    Text(vec![Span { text, style }])
}

pub fn strong(text: impl Into<String>) -> Text {
    styled(text, Style::Strong)
}

pub fn dim(text: impl Into<String>) -> Text {
    styled(text, Style::Dim)
}

pub fn badge(tone: Tone, word: impl Into<String>) -> Text {
    styled(word, Style::Badge(tone))
}

/// Time in words, with the exact time in RFC 3339.
pub fn time(words: impl Into<String>, exact: impl Into<String>) -> Text {
    styled(words, Style::Time(exact.into()))
}

pub fn link(to: impl Into<String>, words: impl Into<String>) -> Text {
    styled(words, Style::Link(to.into()))
}

/// Formats a value, or a dash when it is missing.
pub fn or_dash(value: Option<f64>, format: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".into(), format)
}

/// Number with its singular or plural noun.
pub fn count<N: Copy + Display + PartialEq + From<bool>>(number: N, one: &str, many: &str) -> String {
    // `true` is 1 in every integer type.
    let noun = if number == N::from(true) { one } else { many };
    format!("{number} {noun}")
}

/// Formats a share in percent, or a dash when it is missing.
pub fn percent(share: Option<f64>) -> String {
    or_dash(share, |share| format!("{:.1} %", 100.0 * share))
}

/// Builds a table row; each cell is converted to a [`Text`].
#[macro_export]
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$($crate::document::Text::from($cell)),*] };
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    pub header: Vec<String>,
    /// Indexes of right-aligned columns.
    pub numbers: Vec<usize>,
    pub rows: Vec<Vec<Text>>,
    /// Row limit on terminals, for tables that may be long. Markdown and HTML then apply their own limits.
    pub limit: Option<usize>,
}

impl Table {
    pub fn new(header: &[&str], numbers: &[usize], rows: impl IntoIterator<Item = Vec<Text>>) -> Self {
        Self {
            header: header.iter().map(|name| (*name).to_owned()).collect(),
            numbers: numbers.to_vec(),
            rows: rows.into_iter().collect(),
            limit: None,
        }
    }

    #[must_use]
    pub fn limit(mut self, terminal: usize) -> Self {
        self.limit = Some(terminal);
        self
    }

    /// Visible rows and the number of hidden ones. `more` replaces the limit of a limited table.
    pub(crate) fn visible_rows(&self, more: Option<usize>) -> (&[Vec<Text>], usize) {
        let most = self.limit.map_or(usize::MAX, |limit| more.unwrap_or(limit));
        let shown = self.rows.get(..most).unwrap_or(&self.rows);
        (shown, self.rows.len() - shown.len())
    }
}

/// A chart. HTML draws it and adds its values as a table; terminals and Markdown show lines as bars, timelines
/// as characters, and omit other charts, so the surrounding text has to state what matters.
#[derive(Debug, Clone, PartialEq)]
pub enum Chart {
    /// Signed values as bars.
    Changes(String, Vec<Mark>),
    /// Values with intervals around a zero line.
    Intervals(String, Vec<IntervalMark>),
    /// Shares between 0 and 1 with intervals.
    Shares(String, Vec<IntervalMark>),
    /// Differences in units of their margins.
    Margins(String, Vec<MarginMark>),
    /// Values over time.
    Lines(Lines),
    /// Predicted and observed shares.
    Calibration(Calibration),
    /// Stacked bars.
    Stack(Stack),
    /// Steps of a run.
    Timeline(Timeline),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Heading and its content.
    Section(Text, Vec<Block>),
    Text(Text),
    /// Verdict: a word, a sentence and the reasons. It comes first on a page and last on a terminal, where
    /// readers look first.
    Verdict {
        tone: Tone,
        word: String,
        sentence: String,
        reasons: Vec<String>,
    },
    List(Vec<Text>),
    Fields(Vec<(String, Text)>),
    Table(Table),
    Chart(Chart),
    /// A remark under a label: `note`, `warning`, `next`.
    Note(Tone, String, Text),
    /// Preformatted text.
    Verbatim(String),
    /// Preformatted answer with the parts marked that an expectation matches or misses.
    Marked(Vec<MarkedSpan>),
    /// Collapsible content on pages; terminals omit it.
    Details {
        summary: Text,
        open: bool,
        blocks: Vec<Block>,
    },
    /// Blocks for one medium only.
    Only(Medium, Vec<Block>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    Terminal,
    /// Markdown and HTML.
    Page,
    /// Terminal and Markdown, which draw line charts only.
    Text,
}

impl Block {
    pub fn text(text: impl Into<Text>) -> Self {
        Self::Text(text.into())
    }

    pub fn section(title: impl Into<Text>, blocks: Vec<Self>) -> Self {
        Self::Section(title.into(), blocks)
    }

    pub fn verdict(
        tone: Tone,
        word: impl Into<String>,
        sentence: impl Into<String>,
        reasons: &[String],
    ) -> Self {
        Self::Verdict {
            tone,
            word: word.into(),
            sentence: sentence.into(),
            reasons: reasons.to_vec(),
        }
    }

    pub fn list(items: &[String]) -> Self {
        Self::List(items.iter().map(Text::from).collect())
    }

    pub fn note(text: impl Into<Text>) -> Self {
        Self::Note(Tone::Unsure, "note".into(), text.into())
    }

    pub fn details(summary: impl Into<Text>, blocks: Vec<Self>) -> Self {
        Self::Details {
            summary: summary.into(),
            open: false,
            blocks,
        }
    }

    /// Text of marked parts without a way to style them, in the notation of `wdiff`.
    pub(crate) fn marked_text(spans: &[MarkedSpan]) -> String {
        let part = |span: &MarkedSpan| match span.kind {
            MarkKind::Plain | MarkKind::Match => span.text.clone(),
            MarkKind::Extra => format!("{{+{}+}}", span.text),
            MarkKind::Missing => format!("[-{}-]", span.text),
        };
        spans.iter().map(part).collect()
    }

    /// Builds fields; entries without a value are omitted.
    pub fn fields(fields: impl IntoIterator<Item = (&'static str, Option<Text>)>) -> Self {
        let present = fields
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Self::Fields(present.collect())
    }
}
