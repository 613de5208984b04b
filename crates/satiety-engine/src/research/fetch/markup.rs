//! HTML normalizer: rewrites a page so that a tree builder can parse it in linear time.
//!
//! The HTML standard defines what a tree builder does with any input, and some input is expensive: an end tag
//! that matches nothing searches all open elements, formatting elements closed in the wrong order are copied
//! into each block they reach, text in a table outside its cells is moved before the table. A page of a
//! hundred kilobytes can occupy a tree builder for hours. This module makes one pass over the page first,
//! with a stack of open elements: the output has the same content, closes every element where it was opened,
//! has few attributes, and contains nothing hidden. For a page that is nested too deeply or has too many
//! elements, only the text is kept.

use std::borrow::Cow;
use std::collections::HashMap;

/// Maximum nesting depth, not counting elements that are closed implicitly.
const MAX_DEPTH: usize = 256;
/// Maximum number of elements in a page.
const MAX_ELEMENTS: usize = 30_000;
/// Maximum bytes of a normalized page.
const MAX_BYTES: usize = 2 << 20;
/// Maximum number of tags in a page, including end tags; after that only text is read.
const MAX_TAGS: usize = 3 * MAX_ELEMENTS;
/// Maximum number of attributes kept per element.
const MAX_ATTRIBUTES: usize = 12;
/// Maximum bytes kept per attribute.
const MAX_ATTRIBUTE_BYTES: usize = 2048;

/// Void elements.
const VOID: &[&str] = &[
    "area", "base", "br", "col", "embed", "hr", "image", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];
/// Elements that are closed implicitly by another one, so they do not nest.
const IMPLICITLY_CLOSED: &[&str] = &[
    "colgroup", "dd", "dt", "li", "optgroup", "option", "p", "rp", "rt", "tbody", "td", "tfoot", "th",
    "thead", "tr",
];
/// Raw text elements: their content up to the end tag is not for readers.
const RAW: &[&str] = &[
    "iframe", "noembed", "noframes", "noscript", "script", "style", "textarea", "xmp",
];
/// Elements that are removed with their content.
const REMOVED: &[&str] = &[
    "audio", "canvas", "frameset", "math", "object", "select", "svg", "template", "video",
];
/// Tags that are ignored: there is one of each, wherever it occurs.
const STRUCTURE: &[&str] = &["body", "frame", "head", "html", "plaintext"];
/// Elements that cannot contain each other.
const NOT_NESTED: &[&str] = &["a", "button", "form", "nobr"];
/// Elements that implicitly close a paragraph.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "center",
    "dd",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hgroup",
    "hr",
    "li",
    "listing",
    "main",
    "menu",
    "nav",
    "ol",
    "p",
    "pre",
    "search",
    "section",
    "summary",
    "table",
    "ul",
];
/// Elements that cannot be closed by an end tag inside them.
const BARRIERS: &[&str] = &["caption", "table", "td", "th"];
/// Attributes to keep: visibility, link targets and semantics.
const KEPT_ATTRIBUTES: &[&str] = &[
    "alt",
    "aria-hidden",
    "charset",
    "class",
    "colspan",
    "content",
    "datetime",
    "dir",
    "hidden",
    "href",
    "http-equiv",
    "id",
    "itemprop",
    "itemscope",
    "itemtype",
    "lang",
    "name",
    "property",
    "rel",
    "role",
    "rowspan",
    "src",
    "style",
    "title",
];

/// A normalized page.
#[derive(Debug, Default)]
pub(super) struct Normalized {
    /// Well-formed HTML; unusable if `is_flat`.
    pub(super) html: String,
    /// Text between the tags.
    pub(super) text: String,
    /// Whether the page is nested too deeply or has too many elements to keep its structure.
    pub(super) is_flat: bool,
    /// Nesting depth, not counting elements that are closed implicitly.
    pub(super) depth: usize,
}

/// Normalizes a page in one pass.
pub(super) fn normalize(html: &str) -> Normalized {
    let mut reader = Reader {
        page: Normalized::default(),
        open: Vec::new(),
        suppressed: HashMap::new(),
        names: HashMap::new(),
        elements: 0,
        tags: 0,
        nested: 0,
        hidden_at: None,
    };
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        reader.text(&rest[..at]);
        rest = reader.tag(&rest[at..]);
    }
    reader.text(rest);
    while !reader.open.is_empty() {
        reader.close_top();
    }
    reader.page
}

struct Reader<'a> {
    page: Normalized,
    open: Vec<Cow<'a, str>>,
    /// Elements that were not opened because of the limits, by name: their end tags are ignored.
    suppressed: HashMap<String, usize>,
    names: HashMap<Cow<'a, str>, usize>,
    elements: usize,
    tags: usize,
    nested: usize,
    /// Number of open elements before the outermost hidden one.
    hidden_at: Option<usize>,
}

impl<'a> Reader<'a> {
    fn is_hidden(&self) -> bool {
        self.hidden_at.is_some()
    }

    fn text(&mut self, text: &str) {
        if text.is_empty() || self.is_hidden() {
            return;
        }
        // A tree builder reports each of them as a separate error.
        let without_zeros;
        let text = if text.contains('\0') {
            without_zeros = text.replace('\0', "");
            &without_zeros
        } else {
            text
        };
        self.page.text.push_str(text);
        let is_blank = text.bytes().all(|byte| byte.is_ascii_whitespace());
        if !is_blank && self.is_between_cells() {
            // A tree builder would move it before the table.
            self.open_table_parts();
        }
        if !self.page.is_flat {
            self.page.html.push_str(text);
            self.limit();
        }
    }

    /// Returns true inside a table but outside its cells.
    fn is_between_cells(&self) -> bool {
        self.open
            .last()
            .is_some_and(|name| matches!(&**name, "table" | "tbody" | "thead" | "tfoot" | "tr" | "colgroup"))
    }

    fn open_table_parts(&mut self) {
        if self.top_is("colgroup") {
            self.close_top();
        }
        if !self.top_is("tr") {
            self.push("tr".into(), "");
        }
        self.push("td".into(), "");
    }

    fn top_is(&self, name: &str) -> bool {
        self.open.last().is_some_and(|open| open == name)
    }

    /// Parses a construct that starts with `<`, and returns the rest.
    fn tag(&mut self, from: &'a str) -> &'a str {
        let after = &from[1..];
        let second = after.bytes().next();
        match second {
            Some(byte) if byte.is_ascii_alphabetic() => self.start_tag(after),
            Some(b'/') if after.as_bytes().get(1).is_some_and(u8::is_ascii_alphabetic) => {
                self.end_tag(&after[1..])
            }
            Some(b'!') if after.starts_with("!--") => {
                self.separate_words();
                after
                    .get(3..)
                    .and_then(|rest| rest.split_once("-->"))
                    .map_or("", |(_, rest)| rest)
            }
            Some(b'!' | b'?' | b'/') => {
                self.separate_words();
                after.split_once('>').map_or("", |(_, rest)| rest)
            }
            _ => {
                if !self.is_hidden() {
                    self.page.text.push('<');
                    if !self.page.is_flat {
                        self.page.html.push_str("&lt;");
                        self.limit();
                    }
                }
                after
            }
        }
    }

    /// Keeps words on both sides of a tag separate.
    fn separate_words(&mut self) {
        if !self.is_hidden() {
            self.page.text.push(' ');
        }
    }

    fn start_tag(&mut self, from: &'a str) -> &'a str {
        let (name, rest) = name_of(from);
        let (attributes, closes_itself, rest) = attributes_of(rest);
        self.separate_words();
        if RAW.contains(&&*name) {
            return after_raw(rest, &name);
        }
        if REMOVED.contains(&&*name) {
            return if closes_itself {
                rest
            } else {
                after_element(rest, &name)
            };
        }
        if STRUCTURE.contains(&&*name) || self.has_too_many_tags() {
            return rest;
        }
        if name == "title" {
            let (text, after) = raw_text(rest, "title");
            if self.elements < MAX_ELEMENTS && !self.page.is_flat && !self.is_hidden() {
                self.elements += 1;
                self.page.html.push_str("<title>");
                self.page.html.push_str(&text.replace('<', "&lt;"));
                self.page.html.push_str("</title>");
            }
            return after;
        }
        self.close_implied(&name);
        if NOT_NESTED.contains(&&*name) && self.is_open(&name) {
            *self.suppressed.entry(name.into_owned()).or_default() += 1;
            return rest;
        }
        let is_hidden = attributes.is_hidden;
        if VOID.contains(&&*name) {
            if !self.is_hidden() && !is_hidden {
                self.elements += 1;
                self.limit();
                if !self.page.is_flat {
                    self.write_tag(&name, &attributes.written);
                }
            }
            return rest;
        }
        if is_hidden && self.hidden_at.is_none() {
            self.hidden_at = Some(self.open.len());
        }
        self.push(name, &attributes.written);
        rest
    }

    fn push(&mut self, name: Cow<'a, str>, attributes: &str) {
        self.elements += 1;
        if !IMPLICITLY_CLOSED.contains(&&*name) {
            self.nested += 1;
            self.page.depth = self.page.depth.max(self.nested);
        }
        self.limit();
        if self.page.is_flat && self.open.len() >= 2 * MAX_DEPTH {
            // From here on, only the open elements matter, and only for visibility.
            if !IMPLICITLY_CLOSED.contains(&&*name) {
                self.nested -= 1;
            }
            *self.suppressed.entry(name.into_owned()).or_default() += 1;
            return;
        }
        if !self.page.is_flat && !self.is_hidden() {
            self.write_tag(&name, attributes);
        }
        *self.names.entry(name.clone()).or_default() += 1;
        self.open.push(name);
    }

    /// Counts a tag. Beyond the limit nothing is opened or closed, and hidden content stays hidden.
    fn has_too_many_tags(&mut self) -> bool {
        self.tags += 1;
        if self.tags > MAX_TAGS {
            self.page.is_flat = true;
            self.page.html.clear();
        }
        self.tags > MAX_TAGS
    }

    fn is_open(&self, name: &str) -> bool {
        self.names.get(name).is_some_and(|count| *count > 0)
    }

    fn limit(&mut self) {
        if self.elements > MAX_ELEMENTS || self.page.depth > MAX_DEPTH || self.page.html.len() > MAX_BYTES {
            self.page.is_flat = true;
            self.page.html.clear();
        }
    }

    fn write_tag(&mut self, name: &str, attributes: &str) {
        self.page.html.push('<');
        self.page.html.push_str(name);
        self.page.html.push_str(attributes);
        self.page.html.push('>');
    }

    fn close_top(&mut self) {
        let Some(name) = self.open.pop() else {
            return;
        };
        if let Some(count) = self.names.get_mut(&name) {
            *count = count.saturating_sub(1);
        }
        if !IMPLICITLY_CLOSED.contains(&&*name) {
            self.nested = self.nested.saturating_sub(1);
        }
        if !self.is_hidden() && !self.page.is_flat {
            self.page.html.push_str("</");
            self.page.html.push_str(&name);
            self.page.html.push('>');
        }
        if self.hidden_at.is_some_and(|at| self.open.len() <= at) {
            self.hidden_at = None;
        }
    }

    /// Closes elements until `count` are open.
    fn close_to(&mut self, count: usize) {
        while self.open.len() > count {
            self.close_top();
        }
    }

    /// Returns the position of the innermost open element that matches `wanted`, stopping at one that matches
    /// `barrier`.
    fn innermost(&self, wanted: impl Fn(&str) -> bool, barrier: impl Fn(&str) -> bool) -> Option<usize> {
        for (at, name) in self.open.iter().enumerate().rev() {
            if wanted(name) {
                return Some(at);
            }
            if barrier(name) {
                return None;
            }
        }
        None
    }

    /// Closes elements that the start of this element closes implicitly.
    fn close_implied(&mut self, name: &str) {
        let barrier = |open: &str| BARRIERS.contains(&open);
        if BLOCKS.contains(&name)
            && self.is_open("p")
            && let Some(at) = self.innermost(|open| open == "p", barrier)
        {
            self.close_to(at);
        }
        let is_list = |open: &str| matches!(open, "ul" | "ol" | "dl" | "menu" | "dir") || barrier(open);
        let in_table = |open: &str| open == "table";
        let found = match name {
            "li" => self.innermost(|open| open == "li", is_list),
            "dd" | "dt" => self.innermost(|open| matches!(open, "dd" | "dt"), is_list),
            "td" | "th" => self.innermost(|open| matches!(open, "td" | "th" | "caption"), in_table),
            "tr" => self.innermost(|open| matches!(open, "tr" | "caption" | "colgroup"), in_table),
            "tbody" | "thead" | "tfoot" | "caption" | "colgroup" => self.innermost(
                |open| matches!(open, "tbody" | "thead" | "tfoot" | "caption" | "colgroup"),
                in_table,
            ),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self
                .open
                .last()
                .filter(|open| is_heading(open))
                .map(|_| self.open.len() - 1),
            "option" | "optgroup" | "rp" | "rt" => self
                .open
                .last()
                .filter(|open| **open == name)
                .map(|_| self.open.len() - 1),
            _ => None,
        };
        if let Some(at) = found {
            self.close_to(at);
        }
        let is_part = matches!(
            name,
            "caption" | "col" | "colgroup" | "tbody" | "td" | "tfoot" | "th" | "thead" | "tr"
        );
        if is_part {
            self.open_parts_before(name);
        } else if self.is_between_cells() {
            if name == "table" {
                // A table directly inside a table closes the outer one.
                if let Some(at) = self.innermost(|open| open == "table", |_| false) {
                    self.close_to(at);
                }
            } else {
                self.open_table_parts();
            }
        }
    }

    /// Opens the row that a cell needs. Table parts outside a table are left alone; the tree builder drops
    /// them.
    fn open_parts_before(&mut self, name: &str) {
        if matches!(name, "td" | "th") && self.is_between_cells() && !self.top_is("tr") {
            if self.top_is("colgroup") {
                self.close_top();
            }
            self.push("tr".into(), "");
        }
        if matches!(name, "tr") && self.top_is("colgroup") {
            self.close_top();
        }
    }

    fn end_tag(&mut self, from: &'a str) -> &'a str {
        let (name, rest) = name_of(from);
        let (_, _, rest) = attributes_of(rest);
        self.separate_words();
        if self.has_too_many_tags() {
            return rest;
        }
        if let Some(count) = self.suppressed.get_mut(&*name)
            && *count > 0
        {
            *count -= 1;
            return rest;
        }
        let is_part = matches!(
            &*name,
            "caption" | "table" | "tbody" | "td" | "tfoot" | "th" | "thead" | "tr"
        );
        let found = if is_part {
            self.innermost(|open| *open == name, |open| open == "table" && name != "table")
        } else if is_heading(&name) {
            self.innermost(is_heading, |open| BARRIERS.contains(&open))
        } else if self.is_open(&name) {
            self.innermost(|open| *open == name, |open| BARRIERS.contains(&open))
        } else {
            None
        };
        if let Some(at) = found {
            self.close_to(at);
        }
        rest
    }
}

fn is_heading(name: &str) -> bool {
    matches!(name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6")
}

/// Returns the lower-case tag name and the rest.
fn name_of(from: &str) -> (Cow<'_, str>, &str) {
    let end = from
        .find(|letter: char| letter.is_ascii_whitespace() || matches!(letter, '/' | '>' | '<'))
        .unwrap_or(from.len());
    let name = &from[..end];
    let plain = name
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let short = name.len() <= 32;
    let name = match (plain, short) {
        (true, true) => Cow::Borrowed(name),
        // No HTML element has such a name; its content is kept, as for every unknown element.
        (_, false) => Cow::Borrowed("span"),
        (false, true) => Cow::Owned(
            name.chars()
                .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-')
                .map(|letter| letter.to_ascii_lowercase())
                .collect(),
        ),
    };
    (name, &from[end..])
}

#[derive(Default)]
struct Attributes {
    written: String,
    is_hidden: bool,
}

/// Returns the attributes to keep, whether the tag closes itself, and the rest.
fn attributes_of(from: &str) -> (Attributes, bool, &str) {
    let bytes = from.as_bytes();
    let mut found = Attributes::default();
    let mut names: Vec<String> = Vec::new();
    let mut at = 0;
    let mut closes_itself = false;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'>' => return (found, closes_itself, &from[at + 1..]),
            byte if byte.is_ascii_whitespace() => at += 1,
            b'/' => {
                closes_itself = bytes.get(at + 1) == Some(&b'>');
                at += 1;
            }
            _ => {
                let (name, value, next) = attribute_at(from, at);
                at = next;
                if names.len() >= MAX_ATTRIBUTES || name.len() > 32 {
                    continue;
                }
                let name = name.to_ascii_lowercase();
                if !KEPT_ATTRIBUTES.contains(&name.as_str()) || names.contains(&name) {
                    continue;
                }
                found.is_hidden |=
                    name == "hidden" || (name == "aria-hidden" && value.eq_ignore_ascii_case("true"));
                let value = shortened(value);
                found.written.push(' ');
                found.written.push_str(&name);
                found.written.push_str("=\"");
                found.written.push_str(&value.replace('"', "&quot;"));
                found.written.push('"');
                names.push(name);
            }
        }
    }
    // A tag without an end is dropped with everything after it.
    (found, closes_itself, "")
}

/// Parses the attribute at this position: its name, its value, and where the next one may start.
fn attribute_at(from: &str, at: usize) -> (&str, &str, usize) {
    let bytes = from.as_bytes();
    let is_end = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b'=' | b'>' | b'/');
    let until = |start: usize, is_end: &dyn Fn(u8) -> bool| {
        bytes
            .get(start..)
            .and_then(|rest| rest.iter().position(|byte| is_end(*byte)))
            .map_or(bytes.len(), |length| start + length)
    };
    let is_blank = |byte: u8| byte.is_ascii_whitespace();
    let is_not_blank = |byte: u8| !byte.is_ascii_whitespace();
    // A name has at least one character, even an equals sign.
    let name_end = until(at + 1, &is_end);
    let name = from.get(at..name_end).unwrap_or_default();
    let equals = until(name_end, &is_not_blank);
    if bytes.get(equals) != Some(&b'=') {
        return (name, "", name_end);
    }
    let start = until(equals + 1, &is_not_blank);
    if let Some(quote @ (b'"' | b'\'')) = bytes.get(start) {
        let end = until(start + 1, &|byte| byte == *quote);
        let value = from.get(start + 1..end).unwrap_or_default();
        return (name, value, (end + 1).min(bytes.len()));
    }
    let end = until(start, &|byte| is_blank(byte) || byte == b'>');
    (name, from.get(start..end).unwrap_or_default(), end)
}

fn shortened(value: &str) -> &str {
    let mut end = value.len().min(MAX_ATTRIBUTE_BYTES);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    &value[..end]
}

/// Returns the text up to the end tag of this element, and the rest.
fn raw_text<'a>(from: &'a str, name: &str) -> (&'a str, &'a str) {
    let mut start = 0;
    while let Some(at) = from[start..].find("</").map(|at| start + at) {
        let rest = &from[at + 2..];
        let is_end = rest.len() >= name.len()
            && rest.is_char_boundary(name.len())
            && rest[..name.len()].eq_ignore_ascii_case(name)
            && rest[name.len()..]
                .chars()
                .next()
                .is_none_or(|next| next.is_ascii_whitespace() || matches!(next, '>' | '/'));
        if is_end {
            let after = rest.split_once('>').map_or("", |(_, after)| after);
            return (&from[..at], after);
        }
        start = at + 2;
    }
    (from, "")
}

fn after_raw<'a>(from: &'a str, name: &str) -> &'a str {
    raw_text(from, name).1
}

/// Returns the rest after a removed element, including nested elements of the same name.
fn after_element<'a>(from: &'a str, name: &str) -> &'a str {
    let mut depth = 1_usize;
    let mut rest = from;
    while let Some(at) = rest.find('<') {
        let after = &rest[at + 1..];
        rest = after;
        let (closing, tag) = match after.strip_prefix('/') {
            Some(tag) => (true, tag),
            None => (false, after),
        };
        if !tag.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            continue;
        }
        let (found, behind) = name_of(tag);
        if !closing && RAW.contains(&&*found) {
            rest = after_raw(behind, &found);
            continue;
        }
        if found == name {
            let (_, closes_itself, behind) = attributes_of(behind);
            rest = behind;
            match (closing, closes_itself) {
                (true, _) => depth -= 1,
                (false, true) => {}
                (false, false) => depth += 1,
            }
            if depth == 0 {
                return rest;
            }
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(text: &str) -> String {
        normalize(text).html
    }

    #[test]
    fn elements_are_closed_in_order() {
        assert_eq!(html("<p>a<p>b"), "<p>a</p><p>b</p>");
        assert_eq!(html("<b>a<i>b</b>c</i>d"), "<b>a<i>b</i></b>cd");
        assert_eq!(html("<div></b>x</div>"), "<div>x</div>");
        assert_eq!(
            html("<ul><li>a<li>b<ul><li>c</ul></ul>"),
            "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>"
        );
        assert_eq!(html("<a href=x>a<a href=y>b</a>c</a>d"), "<a href=\"x\">abc</a>d");
        assert_eq!(html("<h1>a</h2>b"), "<h1>a</h1>b");
        assert_eq!(
            html("<table>x<tr><td>a<td>b<tr><td>c</table>d"),
            "<table><tr><td>x</td></tr><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>d"
        );
        assert_eq!(html("<td></div>a</td><div>"), "<td>a</td><div></div>");
        assert_eq!(html("1 < 2 <3 </ x> a"), "1 &lt; 2 &lt;3  a");
        assert_eq!(html("<IMG SRC='a\"b' onerror=x hidden"), "");
        assert_eq!(html("<IMG SRC='a\"b' onerror=x>"), "<img src=\"a&quot;b\">");
    }

    #[test]
    fn hidden_elements_are_omitted() {
        assert_eq!(html("a<script>if (a</b) { '</p>' }</script>b"), "ab");
        assert_eq!(html("a<svg><svg/><title>x</title></svg>b"), "ab");
        assert_eq!(html("a<template><template>x</template>y</template>b"), "ab");
        assert_eq!(html("a<div hidden><p>x<div>y</div></div>b"), "ab");
        assert_eq!(html("a<p aria-hidden=true>x<p>b"), "a<p>b</p>");
        assert_eq!(html("a<!-- <p> -->b<!doctype html>c<?php x ?>d"), "abcd");
        assert_eq!(normalize("<div hidden>x</div>y").text.trim(), "y");
        assert_eq!(html("<title>a<b</title>x"), "<title>a&lt;b</title>x");
    }

    #[test]
    fn too_deep_or_too_many_elements_become_text() {
        let deep = normalize(&format!("{}words <b>here</b>", "<div>".repeat(20_000)));
        assert!(deep.is_flat && deep.html.is_empty());
        assert_eq!(deep.text.trim(), "words  here");
        let many = normalize(&"<b>x</b>".repeat(MAX_ELEMENTS + 1));
        assert!(many.is_flat);
        assert_eq!(many.text.matches('x').count(), MAX_ELEMENTS + 1);
        let hidden = normalize(&format!(
            "{}<div hidden>no{}</div>yes",
            "<div>".repeat(1000),
            "<div>".repeat(1000)
        ));
        assert!(!hidden.text.contains("no"), "{}", hidden.text);
    }

    proptest::proptest! {
        /// The output of any input is balanced and not much longer.
        #[test]
        fn any_input_gives_balanced_markup(soup in proptest::collection::vec(
            proptest::sample::select(vec!["<div>", "</div>", "<b>", "</b>", "<p>", "</p>", "<table>", "</table>", "<tr>", "<td>",
                "</td>", "<a>", "</a>", "<li>", "<ul>", "</ul>", "x", "<", "&", "<h1>", "</h2>", "<select>", "<div hidden>",
                "<script>", "</script>", "<!--", "-->", "<br>", "<tbody>", "<caption>", "<svg>", "é"]), 0..60)) {
            let page = normalize(&soup.concat());
            let mut open = Vec::new();
            for piece in page.html.split('<').skip(1) {
                let tag = piece.split('>').next().unwrap_or_default();
                if let Some(name) = tag.strip_prefix('/') {
                    proptest::prop_assert_eq!(open.pop(), Some(name.to_owned()));
                } else if !VOID.contains(&tag) {
                    open.push(tag.to_owned());
                }
            }
            proptest::prop_assert!(open.is_empty());
        }
    }
}
