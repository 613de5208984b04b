//! The document: what a report says, without how it looks.

use crate::charts::{Calibration, Margined, Mark, Ranged, Stack};
use crate::series::Lines;

/// A report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// The title of a page; terminals and Markdown begin with the first block.
    pub title: String,
    pub blocks: Vec<Block>,
    /// The table that a spreadsheet gets, under names that programs rely on.
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

/// What a word means for the reader. Every rendering repeats it in words, so that nothing is said by colour alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Good,
    Bad,
    Unsure,
    Plain,
}

/// How a piece of a line is set apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Style {
    Plain,
    Strong,
    Dim,
    /// A word that classifies.
    Badge(Tone),
    /// An address inside the same site. Terminals and Markdown show the words.
    Link(String),
}

/// A piece of a line in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub text: String,
    pub style: Style,
}

/// A line of text. Words between backticks are code.
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
    /// The line, continued.
    #[must_use]
    pub fn then(mut self, more: impl Into<Self>) -> Self {
        self.0.extend(more.into().0);
        self
    }

    /// The words without their styles.
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

pub fn link(to: impl Into<String>, words: impl Into<String>) -> Text {
    styled(words, Style::Link(to.into()))
}

/// A value that may be missing, as a dash where it is.
pub fn or_dash(value: Option<f64>, shown: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".into(), shown)
}

/// A share in percent, as a dash where it is missing.
pub fn percent(share: Option<f64>) -> String {
    or_dash(share, |share| format!("{:.1} %", 100.0 * share))
}

/// Cells of a table row, each made into a [`Text`].
#[macro_export]
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$($crate::document::Text::from($cell)),*] };
}

/// Rows under named columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    pub header: Vec<String>,
    /// Columns aligned to the right.
    pub numbers: Vec<usize>,
    pub rows: Vec<Vec<Text>>,
    /// Rows that a terminal shows of a table that may be long; Markdown and pages then have limits of their own.
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

    /// The rows that are shown, and how many are left out; `more` is the limit where there is one.
    pub(crate) fn shown(&self, more: Option<usize>) -> (&[Vec<Text>], usize) {
        let most = self.limit.map_or(usize::MAX, |limit| more.unwrap_or(limit));
        let shown = self.rows.get(..most).unwrap_or(&self.rows);
        (shown, self.rows.len() - shown.len())
    }
}

/// A drawing. Pages draw it and have its values as a table; terminals and Markdown show lines as a row of bars and
/// leave the others out, so what a reader must know is also said beside it.
#[derive(Debug, Clone, PartialEq)]
pub enum Chart {
    /// Signed values side by side.
    Changes(String, Vec<Mark>),
    /// Values with intervals beside a line at zero.
    Intervals(String, Vec<Ranged>),
    /// Shares between 0 and 1 with intervals.
    Shares(String, Vec<Ranged>),
    /// Differences in units of what may be lost.
    Margins(String, Vec<Margined>),
    /// Values over time.
    Lines(Lines),
    /// Predicted beside observed shares.
    Calibration(Calibration),
    /// Bars of coloured parts.
    Stack(Stack),
}

/// A part of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A heading with what belongs to it.
    Section(Text, Vec<Block>),
    Text(Text),
    /// The answer: a word, a sentence and the reasons. It is first on a page and last on a terminal, where the eye is.
    Verdict {
        tone: Tone,
        word: String,
        sentence: String,
        reasons: Vec<String>,
    },
    List(Vec<Text>),
    /// Names and values.
    Fields(Vec<(String, Text)>),
    Table(Table),
    Chart(Chart),
    /// A remark under a label: `note`, `warning`, `next`.
    Note(Tone, String, Text),
    /// Text as it was written, line by line.
    Verbatim(String),
    /// What a page shows when asked; terminals leave it out.
    Details {
        summary: Text,
        open: bool,
        blocks: Vec<Block>,
    },
    /// What one kind of reader needs and the others do not.
    Only(Medium, Vec<Block>),
}

/// Where a document is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    Terminal,
    /// Markdown and HTML.
    Page,
    /// Terminal and Markdown, where only lines are drawn.
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

    /// Names and values; what has no value is left out.
    pub fn fields(fields: impl IntoIterator<Item = (&'static str, Option<Text>)>) -> Self {
        let present = fields
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Self::Fields(present.collect())
    }
}
