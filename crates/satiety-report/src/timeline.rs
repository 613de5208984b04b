//! Timelines: the steps of a run as one cell each, in chronological order.

use std::fmt::Write;

use crate::document::Tone;
use crate::html::{Html, details, escape, table};

/// Cells of a group; groups are set apart so that steps can be counted.
const GROUP: usize = 10;
/// Rows that a terminal shows of a long timeline: the first and the last ones.
const FIRST_ROWS: usize = 2;
const LAST_ROWS: usize = 8;

/// The steps of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    pub title: String,
    pub cells: Vec<TimelineCell>,
}

/// One step of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelineCell {
    pub kind: CellKind,
    /// Tooltip text.
    pub hint: String,
}

/// What a cell shows: a character and its meaning, which the legend lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellKind {
    pub symbol: char,
    pub name: &'static str,
    pub tone: Tone,
}

impl Timeline {
    /// The kinds that occur, in the order of their first occurrence.
    pub(crate) fn kinds(&self) -> Vec<CellKind> {
        let mut kinds: Vec<CellKind> = Vec::new();
        for cell in &self.cells {
            if !kinds.contains(&cell.kind) {
                kinds.push(cell.kind);
            }
        }
        kinds
    }

    /// Rows of cells that fit a width, each with the number of its first step. Long timelines are cut in the
    /// middle; `None` marks the cut.
    pub(crate) fn rows(&self, width: usize) -> Vec<Option<(usize, &[TimelineCell])>> {
        let groups = width.saturating_sub(self.label_width() + 2) / (GROUP + 1);
        let per_row = GROUP * groups.clamp(1, 10);
        let mut rows: Vec<_> = self
            .cells
            .chunks(per_row)
            .enumerate()
            .map(|(row, cells)| Some((row * per_row + 1, cells)))
            .collect();
        if rows.len() > FIRST_ROWS + 1 + LAST_ROWS {
            rows.splice(FIRST_ROWS..rows.len() - LAST_ROWS, [None]);
        }
        rows
    }

    /// Width of the step numbers at the beginning of rows.
    pub(crate) fn label_width(&self) -> usize {
        self.cells.len().to_string().len()
    }
}

/// Groups of adjacent cells that are drawn without a space between them.
pub(crate) fn groups(cells: &[TimelineCell]) -> impl Iterator<Item = &[TimelineCell]> {
    cells.chunks(GROUP)
}

/// Draws the cells as characters over coloured bars, with a legend and the steps as a table.
pub(crate) fn draw(timeline: &Timeline) -> Html {
    const WIDTH: f64 = 760.0;
    const LEFT: f64 = 46.0;
    const CELL: f64 = 13.0;
    const ROW: f64 = 26.0;
    const PER_ROW: usize = 50;
    let mut inside = String::new();
    // Writing to a string cannot fail.
    for (index, cell) in timeline.cells.iter().enumerate() {
        let (row, column) = (index / PER_ROW, index % PER_ROW);
        let x = LEFT + column as f64 * CELL + (column / GROUP) as f64 * 8.0;
        let y = 16.0 + row as f64 * ROW;
        if column == 0 {
            let _ = write!(
                inside,
                "<text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                index + 1
            );
        }
        let _ = write!(
            inside,
            "<g><title>{}</title><text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>\
             <rect class=\"{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"4\"/></g>",
            escape(&format!("step {}: {}", index + 1, cell.hint)),
            x + CELL / 2.0,
            escape(&cell.kind.symbol.to_string()),
            class(cell.kind.tone),
            y + 4.0,
            CELL - 1.0
        );
    }
    let rows = timeline.cells.iter().enumerate().map(|(index, cell)| {
        vec![
            (index + 1).to_string(),
            cell.kind.name.to_owned(),
            cell.hint.clone(),
        ]
    });
    let values = table(&["step", "kind", "description"], &[0], rows);
    let legend: Vec<String> = timeline
        .kinds()
        .iter()
        .map(|kind| format!("{} {}", kind.symbol, kind.name))
        .collect();
    let title = escape(&timeline.title);
    let height = 16.0 + timeline.cells.len().div_ceil(PER_ROW) as f64 * ROW;
    Html(format!(
        "<figure class=\"chart\"><figcaption>{title}: {legend}</figcaption>\
         <div class=\"drawing\" tabindex=\"0\" role=\"group\" aria-label=\"Chart: {title}\">\
         <svg role=\"img\" aria-label=\"{title}\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\">{inside}</svg></div>\
         {}</figure>",
        details("As a table", std::slice::from_ref(&values)),
        legend = escape(&legend.join(", "))
    ))
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "up",
        Tone::Bad => "down",
        Tone::Unsure => "mark",
        Tone::Plain => "same",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Block, Chart, Document};
    use crate::{html, markdown, terminal};

    const NEW: CellKind = CellKind {
        symbol: '·',
        name: "new",
        tone: Tone::Plain,
    };
    const STOP: CellKind = CellKind {
        symbol: 'S',
        name: "stop",
        tone: Tone::Bad,
    };

    fn timeline(steps: usize) -> Timeline {
        let cells = (0..steps)
            .map(|step| TimelineCell {
                kind: if step + 1 == steps { STOP } else { NEW },
                hint: "<ls>".into(),
            })
            .collect();
        Timeline {
            title: "Steps".into(),
            cells,
        }
    }

    fn document(steps: usize) -> Document {
        Document::from(Block::Chart(Chart::Timeline(timeline(steps))))
    }

    fn plain(steps: usize, width: usize) -> String {
        terminal::plain_timeline(&timeline(steps), width)
    }

    #[test]
    fn rows_are_numbered_and_fit_the_width() {
        let text = plain(23, 30);
        assert_eq!(text, " 1  ·········· ··········\n21  ··S\n    · new  S stop");
        assert!(plain(500, 80).lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn a_long_timeline_is_cut_in_the_middle() {
        let text = plain(2000, 80);
        assert!(text.contains('…') && text.lines().count() <= 14, "{text}");
        assert!(text.contains("1981") && text.contains('S'), "{text}");
    }

    #[test]
    fn every_rendering_names_the_kinds() {
        assert!(plain(0, 80).is_empty());
        assert!(markdown::render(&document(3)).contains("```text\n1  ··S"));
        let page = html::render(&document(3));
        assert!(page.contains("S stop") && page.contains("&lt;ls&gt;") && !page.contains("<ls>"));
    }
}
