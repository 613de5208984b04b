//! The list of every page: a table that is filtered, sorted and paged on the server. Its whole state is in the address,
//! so a list can be shared and works without a script; the script adds keys, a selection and copying.

use std::fmt::Write as _;

use satiety_report::Text;
use satiety_report::html::{Html, escape, joined, line};

use super::ROWS;
use super::shell::segment;

/// Path and query of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) path: String,
    pairs: Vec<(String, String)>,
}

impl Address {
    /// Address of a page; empty fields, which forms send, are dropped.
    pub(super) fn new(path: impl Into<String>, pairs: Vec<(String, String)>) -> Self {
        let trimmed = pairs
            .into_iter()
            .map(|(name, value)| (name, value.trim().to_owned()));
        Self {
            path: path.into(),
            pairs: trimmed.filter(|(_, value)| !value.is_empty()).collect(),
        }
    }

    /// Whether the address asks for nothing in particular: no filter and the first page.
    pub(super) fn is_bare(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Value of a field.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.pairs.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// All values of a field.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let found = self.pairs.iter().filter(move |(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Number in a field; an error names the field.
    pub(super) fn number(&self, name: &str) -> Result<Option<f64>, String> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        // A decimal comma is what many keyboards offer.
        match value.replace(',', ".").parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(format!("`{name}` is not a number")),
        }
    }

    /// Column and direction of the order: `score`, or `-score` for descending.
    pub(super) fn sort(&self) -> Option<(&str, bool)> {
        let sort = self.get("sort")?;
        Some(sort.strip_prefix('-').map_or((sort, false), |name| (name, true)))
    }

    /// This address with one field changed or removed, at the first page.
    pub(super) fn with(&self, name: &str, value: Option<&str>) -> String {
        let kept = self.pairs.iter().filter(|(key, _)| key != name && key != "after");
        let kept = kept.map(|(key, value)| (key.as_str(), value.as_str()));
        self.written(kept.chain(value.map(|value| (name, value))))
    }

    /// Address of the page after a cursor.
    pub(super) fn after(&self, cursor: &str) -> String {
        let kept = self.pairs.iter().filter(|(key, _)| key != "after");
        let kept = kept.map(|(key, value)| (key.as_str(), value.as_str()));
        self.written(kept.chain([("after", cursor)]))
    }

    /// The whole address.
    pub(super) fn text(&self) -> String {
        self.written(
            self.pairs
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str())),
        )
    }

    fn written<'a>(&self, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
        let pairs: Vec<String> = pairs
            .map(|(name, value)| format!("{}={}", segment(name), segment(value)))
            .collect();
        if pairs.is_empty() {
            self.path.clone()
        } else {
            format!("{}?{}", self.path, pairs.join("&"))
        }
    }
}

/// Column of a list.
pub(super) struct Column {
    name: &'static str,
    /// Name in `sort`, and whether the first click sorts in descending order.
    sort: Option<(&'static str, bool)>,
    number: bool,
}

pub(super) const fn text_column(name: &'static str) -> Column {
    Column {
        name,
        sort: None,
        number: false,
    }
}

pub(super) const fn number_column(name: &'static str) -> Column {
    Column {
        name,
        sort: None,
        number: true,
    }
}

impl Column {
    /// Makes the column sortable.
    pub(super) const fn sortable(mut self, name: &'static str, descending_first: bool) -> Self {
        self.sort = Some((name, descending_first));
        self
    }
}

/// Field of the form above a list.
pub(super) enum Filter {
    /// Search field; its name is `q`.
    Search(&'static str),
    /// Choice of one value; the label, and values with their words.
    Choice(&'static str, &'static str, Vec<(String, String)>),
    Flag(&'static str, &'static str),
    Number(&'static str, &'static str),
    /// Text other than the search.
    Text(&'static str, &'static str),
}

impl Filter {
    /// Choice between words that stand for themselves.
    pub(super) fn words(name: &'static str, label: &'static str, words: &[&str]) -> Self {
        let words = words.iter().map(|word| ((*word).to_owned(), (*word).to_owned()));
        Self::Choice(name, label, words.collect())
    }
}

/// Row of a list. The first cell has the link that Enter opens.
pub(super) struct ListRow {
    pub(super) cells: Vec<Text>,
    /// Value of the checkbox, in lists whose rows can be submitted.
    pub(super) value: Option<String>,
}

impl From<Vec<Text>> for ListRow {
    fn from(cells: Vec<Text>) -> Self {
        Self { cells, value: None }
    }
}

/// A list with its form.
pub(super) struct List<'a> {
    pub(super) address: &'a Address,
    /// What one row is.
    pub(super) one: &'a str,
    /// What the rows are, in the plural.
    pub(super) label: &'a str,
    pub(super) columns: &'a [Column],
    /// Sort of a list whose address names none.
    pub(super) default_sort: &'a str,
    pub(super) filters: Vec<Filter>,
    pub(super) rows: Vec<ListRow>,
    /// Cursor of the next page.
    pub(super) next: Option<String>,
    /// Form that the selected rows are submitted to: address, name of the field, words of the button.
    pub(super) action: Option<(&'a str, &'a str, &'a str)>,
}

impl List<'_> {
    pub(super) fn render(&self) -> Html {
        let mut parts = vec![self.form(), self.position()];
        if self.rows.is_empty() {
            parts.push(Html(format!(
                "<p class=\"empty\">No {} match. <a href=\"{}\">Clear the filter</a></p>",
                escape(self.label),
                escape(&self.address.path)
            )));
        } else if let Some((to, _, button)) = self.action {
            parts.push(Html(format!(
                "<form method=\"get\" action=\"{}\">{}<p><button class=\"primary\">{}</button></p></form>",
                escape(to),
                self.table(),
                escape(button)
            )));
        } else {
            parts.push(self.table());
        }
        parts.push(self.pages());
        Html(format!(
            "<section class=\"list\" aria-label=\"{}\">\n{}\n</section>",
            escape(self.label),
            joined(&parts)
        ))
    }

    fn form(&self) -> Html {
        let mut fields: Vec<Html> = self.filters.iter().map(|filter| self.field(filter)).collect();
        let orders: Vec<(String, String)> = self
            .columns
            .iter()
            .filter_map(|column| Some((column.name, column.sort?)))
            .flat_map(|(name, (key, _))| {
                [
                    (key.to_owned(), format!("{name}, ascending")),
                    (format!("-{key}"), format!("{name}, descending")),
                ]
            })
            .collect();
        if !orders.is_empty() {
            let chosen = self.address.get("sort").unwrap_or(self.default_sort);
            fields.push(choice("sort", "Sort by", &orders, chosen, false));
        }
        if fields.is_empty() {
            return Html::default();
        }
        let named: Vec<&str> = self
            .filters
            .iter()
            .map(|filter| match filter {
                Filter::Search(_) => "q",
                Filter::Choice(name, ..)
                | Filter::Flag(name, _)
                | Filter::Number(name, _)
                | Filter::Text(name, _) => name,
            })
            .collect();
        // Fields of the address that the form does not show, such as the compared runs.
        let kept = self.address.pairs.iter().filter(|(name, _)| {
            !named.contains(&name.as_str()) && !matches!(name.as_str(), "sort" | "after")
        });
        let kept: Vec<Html> = kept
            .map(|(name, value)| {
                Html(format!(
                    "<input type=\"hidden\" name=\"{}\" value=\"{}\">",
                    escape(name),
                    escape(value)
                ))
            })
            .collect();
        let filtered = named.iter().any(|name| self.address.get(name).is_some());
        let clear = if filtered {
            format!("<a href=\"{}\">Clear</a>", escape(&self.address.path))
        } else {
            String::new()
        };
        Html(format!(
            "<form class=\"line filters\" method=\"get\" action=\"{}\" role=\"search\" aria-label=\"Filter {}\">{}{}\
             <button>Apply</button>{clear}</form>",
            escape(&self.address.path),
            escape(self.label),
            joined(&kept),
            joined(&fields)
        ))
    }

    fn field(&self, filter: &Filter) -> Html {
        let value = |name: &str| escape(self.address.get(name).unwrap_or_default());
        match filter {
            Filter::Search(label) => Html(format!(
                "<label>{}<input type=\"search\" name=\"q\" value=\"{}\" data-search></label>",
                escape(label),
                value("q")
            )),
            Filter::Text(name, label) => Html(format!(
                "<label>{}<input name=\"{name}\" value=\"{}\" size=\"12\"></label>",
                escape(label),
                value(name)
            )),
            Filter::Number(name, label) => Html(format!(
                "<label>{}<input name=\"{name}\" value=\"{}\" size=\"5\" inputmode=\"decimal\"></label>",
                escape(label),
                value(name)
            )),
            Filter::Flag(name, label) => Html(format!(
                "<label class=\"flag\"><input type=\"checkbox\" name=\"{name}\" value=\"1\"{}>{}</label>",
                if self.address.get(name).is_some() {
                    " checked"
                } else {
                    ""
                },
                escape(label)
            )),
            Filter::Choice(name, label, options) => {
                let chosen = self.address.get(name).unwrap_or_default();
                choice(name, label, options, chosen, true)
            }
        }
    }

    /// How many rows the page shows.
    fn position(&self) -> Html {
        let more = match &self.next {
            // The filter was checked for a part of the list only.
            Some(_) if self.rows.len() < ROWS as usize => {
                let looked = satiety_engine::lists::WINDOW;
                format!(" among {looked} searched; the next page continues")
            }
            Some(_) => ", more follow".to_owned(),
            None => String::new(),
        };
        let start = if self.address.get("after").is_some() {
            "Further "
        } else {
            ""
        };
        Html(format!(
            "<p class=\"of\" role=\"status\">{start}{} {}{more}</p>",
            self.rows.len(),
            escape(if self.rows.len() == 1 {
                self.one
            } else {
                self.label
            })
        ))
    }

    fn table(&self) -> Html {
        let chosen = self.address.sort().or_else(|| {
            let sort = self.default_sort;
            Some(sort.strip_prefix('-').map_or((sort, false), |name| (name, true)))
        });
        let mut head: Vec<String> = self
            .columns
            .iter()
            .map(|column| self.head(column, chosen))
            .collect();
        if self.action.is_some() {
            head.insert(
                0,
                "<th scope=\"col\"><span class=\"hidden\">select</span></th>".into(),
            );
        }
        let rows: Vec<String> = self.rows.iter().map(|row| self.row(row)).collect();
        Html(format!(
            "<div class=\"wide\" tabindex=\"0\"><table class=\"stack rows\">\n<thead><tr>{}</tr></thead>\n<tbody>\n{}\n\
             </tbody>\n</table></div>",
            head.concat(),
            rows.join("\n")
        ))
    }

    fn head(&self, column: &Column, chosen: Option<(&str, bool)>) -> String {
        let class = if column.number { " class=\"number\"" } else { "" };
        let Some((key, descending_first)) = column.sort else {
            return format!("<th scope=\"col\"{class}>{}</th>", escape(column.name));
        };
        let now = chosen.filter(|(name, _)| *name == key).map(|(_, down)| down);
        let descending = now.map_or(descending_first, |down| !down);
        let to = if descending {
            format!("-{key}")
        } else {
            key.to_owned()
        };
        let (state, arrow) = match now {
            Some(true) => (" aria-sort=\"descending\"", " ↓"),
            Some(false) => (" aria-sort=\"ascending\"", " ↑"),
            None => ("", ""),
        };
        format!(
            "<th scope=\"col\"{class}{state}><a href=\"{}\">{}{arrow}</a></th>",
            escape(&self.address.with("sort", Some(&to))),
            escape(column.name)
        )
    }

    fn row(&self, row: &ListRow) -> String {
        let mut cells = String::new();
        if let (Some((_, name, _)), Some(value)) = (self.action, &row.value) {
            let label = row.cells.first().map(Text::plain).unwrap_or_default();
            // Writing to a string cannot fail.
            let _ = write!(
                cells,
                "<td class=\"check\"><input type=\"checkbox\" name=\"{name}\" value=\"{}\" aria-label=\"Select {}\"></td>",
                escape(value),
                escape(&label)
            );
        }
        for (column, cell) in self.columns.iter().zip(&row.cells) {
            let class = if column.number { " class=\"number\"" } else { "" };
            let label = match column.name {
                "" => String::new(),
                name => format!(" data-label=\"{}\"", escape(name)),
            };
            let _ = write!(cells, "<td{class}{label}>{}</td>", line(cell));
        }
        format!("<tr>{cells}</tr>")
    }

    fn pages(&self) -> Html {
        let first = self.address.get("after").map(|_| {
            Html(format!(
                "<a href=\"{}\">First page</a>",
                escape(&self.address.with("after", None))
            ))
        });
        let next = self.next.as_ref().map(|cursor| {
            Html(format!(
                "<a rel=\"next\" href=\"{}\">Next page</a>",
                escape(&self.address.after(cursor))
            ))
        });
        let links: Vec<Html> = first.into_iter().chain(next).collect();
        if links.is_empty() {
            return Html::default();
        }
        Html(format!(
            "<nav class=\"pages\" aria-label=\"Pages of {}\">{}</nav>",
            escape(self.label),
            joined(&links)
        ))
    }
}

/// Select element; `any` adds a first entry without a value.
fn choice(name: &str, label: &str, options: &[(String, String)], chosen: &str, any: bool) -> Html {
    let any = any.then(|| (String::new(), "any".to_owned()));
    let options: Vec<String> = any
        .iter()
        .chain(options)
        .map(|(value, words)| {
            let selected = if value == chosen { " selected" } else { "" };
            format!(
                "<option value=\"{}\"{selected}>{}</option>",
                escape(value),
                escape(words)
            )
        })
        .collect();
    Html(format!(
        "<label>{}<select name=\"{name}\">{}</select></label>",
        escape(label),
        options.concat()
    ))
}

#[cfg(test)]
mod tests {
    use satiety_report::document::link;
    use satiety_report::row;

    use super::*;

    fn address(pairs: &[(&str, &str)]) -> Address {
        let pairs = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Address::new("/list", pairs.collect())
    }

    #[test]
    fn addresses_keep_the_state_and_drop_empty_fields() {
        let at = address(&[
            ("q", " a b "),
            ("status", ""),
            ("sort", "-score"),
            ("after", "[1]"),
        ]);
        assert_eq!(at.get("q"), Some("a b"));
        assert_eq!(at.sort(), Some(("score", true)));
        assert_eq!(at.with("q", None), "/list?sort=-score");
        assert_eq!(at.with("q", Some("<x>")), "/list?sort=-score&q=%3Cx%3E");
        assert_eq!(at.after("[2]"), "/list?q=a%20b&sort=-score&after=%5B2%5D");
        assert_eq!(address(&[("min", "0,5")]).number("min"), Ok(Some(0.5)));
        assert!(address(&[("min", "NaN")]).number("min").is_err());
    }

    #[test]
    fn lists_sort_by_links_and_mark_the_sorted_column() {
        let at = address(&[("sort", "-score"), ("q", "\"<b>")]);
        let mut list = List {
            address: &at,
            one: "case",
            label: "cases",
            columns: &[
                text_column("case").sortable("case", false),
                number_column("score").sortable("score", true),
            ],
            default_sort: "case",
            filters: vec![Filter::Search("Search")],
            rows: vec![row![link("/a", "a"), "1.0"].into()],
            next: Some("[1]".into()),
            action: None,
        };
        let html = list.render().0;
        assert!(html.contains("1 case among 10000 searched"), "{html}");
        list.rows = (0..ROWS).map(|_| row![link("/a", "a"), "1.0"].into()).collect();
        let html = list.render().0;
        assert!(html.contains("aria-sort=\"descending\""), "{html}");
        assert!(
            html.contains("href=\"/list?q=%22%3Cb%3E&amp;sort=score\""),
            "{html}"
        );
        assert!(html.contains("value=\"&quot;&lt;b&gt;\""), "{html}");
        assert!(
            html.contains("rel=\"next\"") && html.contains("more follow"),
            "{html}"
        );
    }
}
