//! Edits of a JSON text that leave everything else as it is: comments, order, indentation, line ends.

/// A value with its place in the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) start: usize,
    /// Position after the last byte.
    pub(super) end: usize,
    pub(super) value: NodeValue,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum NodeValue {
    Object(Vec<Member>),
    Array(Vec<Node>),
    Text(String),
    /// Number, boolean or null.
    Other,
}

/// A member of an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Member {
    pub(super) key: String,
    /// Position of the key.
    pub(super) start: usize,
    pub(super) value: Node,
}

/// Text to insert at a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Insertion {
    pub(super) at: usize,
    pub(super) text: String,
}

impl Node {
    /// The last member with this key, which is the one that counts.
    pub(super) fn member(&self, key: &str) -> Option<&Member> {
        match &self.value {
            NodeValue::Object(members) => members.iter().rev().find(|member| member.key == key),
            _ => None,
        }
    }

    /// Text of a member.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match &self.member(key)?.value.value {
            NodeValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Elements of an array; empty for other values.
    pub(super) fn elements(&self) -> &[Node] {
        match &self.value {
            NodeValue::Array(elements) => elements,
            _ => &[],
        }
    }

    /// Members of an object; empty for other values.
    pub(super) fn members(&self) -> &[Member] {
        match &self.value {
            NodeValue::Object(members) => members,
            _ => &[],
        }
    }

    /// Places of the members or elements.
    pub(super) fn children(&self) -> Vec<(usize, usize)> {
        match &self.value {
            NodeValue::Object(members) => {
                let place = |member: &Member| (member.start, member.value.end);
                members.iter().map(place).collect()
            }
            NodeValue::Array(elements) => elements.iter().map(|node| (node.start, node.end)).collect(),
            _ => Vec::new(),
        }
    }
}

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 64;

/// Parses a JSON text, which may have a byte order mark, comments and trailing commas.
pub(super) fn parse(text: &str) -> Result<Node, String> {
    let mut parser = Parser { text, position: 0 };
    if text.starts_with('\u{feff}') {
        parser.position = '\u{feff}'.len_utf8();
    }
    parser.skip_trivia()?;
    let root = parser.value(0)?;
    parser.skip_trivia()?;
    if parser.position < text.len() {
        return Err(parser.unexpected());
    }
    Ok(root)
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn unexpected(&self) -> String {
        let line = 1 + self.text[..self.position].matches('\n').count();
        format!("line {line}: not valid JSON")
    }

    /// Skips white space and comments.
    fn skip_trivia(&mut self) -> Result<(), String> {
        loop {
            let rest = &self.text[self.position..];
            if rest.starts_with([' ', '\t', '\n', '\r']) {
                self.position += 1;
            } else if rest.starts_with("//") {
                self.position += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                self.position += rest.find("*/").ok_or_else(|| self.unexpected())? + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, String> {
        if depth > MAX_DEPTH {
            return Err("nested too deeply".into());
        }
        let start = self.position;
        let value = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => NodeValue::Text(self.string()?),
            _ => self.scalar()?,
        };
        Ok(Node {
            start,
            end: self.position,
            value,
        })
    }

    fn object(&mut self, depth: usize) -> Result<NodeValue, String> {
        let mut members = Vec::new();
        self.position += 1;
        loop {
            self.skip_trivia()?;
            match self.peek() {
                Some(b'}') => break,
                Some(b'"') => {}
                _ => return Err(self.unexpected()),
            }
            let start = self.position;
            let key = self.string()?;
            self.skip_trivia()?;
            if self.peek() != Some(b':') {
                return Err(self.unexpected());
            }
            self.position += 1;
            self.skip_trivia()?;
            let value = self.value(depth + 1)?;
            members.push(Member { key, start, value });
            if !self.next_child(b'}')? {
                break;
            }
        }
        self.position += 1;
        Ok(NodeValue::Object(members))
    }

    fn array(&mut self, depth: usize) -> Result<NodeValue, String> {
        let mut elements = Vec::new();
        self.position += 1;
        loop {
            self.skip_trivia()?;
            if self.peek() == Some(b']') {
                break;
            }
            elements.push(self.value(depth + 1)?);
            if !self.next_child(b']')? {
                break;
            }
        }
        self.position += 1;
        Ok(NodeValue::Array(elements))
    }

    /// Skips the comma after a child; returns false at the end of the container.
    fn next_child(&mut self, end: u8) -> Result<bool, String> {
        self.skip_trivia()?;
        match self.peek() {
            Some(b',') => {
                self.position += 1;
                Ok(true)
            }
            Some(byte) if byte == end => Ok(false),
            _ => Err(self.unexpected()),
        }
    }

    fn string(&mut self) -> Result<String, String> {
        let bytes = self.text.as_bytes();
        let mut end = self.position + 1;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
                None => return Err(self.unexpected()),
            }
        }
        let quoted = self
            .text
            .get(self.position..=end)
            .ok_or_else(|| self.unexpected())?;
        let string = serde_json::from_str(quoted).map_err(|_| self.unexpected())?;
        self.position = end + 1;
        Ok(string)
    }

    fn scalar(&mut self) -> Result<NodeValue, String> {
        let rest = &self.text[self.position..];
        let end = rest
            .find(|character: char| !(character.is_ascii_alphanumeric() || "+-.".contains(character)))
            .unwrap_or(rest.len());
        let scalar: serde_json::Value = serde_json::from_str(&rest[..end]).map_err(|_| self.unexpected())?;
        debug_assert!(!scalar.is_string());
        self.position += end;
        Ok(NodeValue::Other)
    }
}

/// How a text is laid out.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    newline: &'static str,
    /// One level of indentation.
    unit: String,
    /// Whether the text has one line only.
    single_line: bool,
}

impl Layout {
    pub(super) fn detect(text: &str) -> Self {
        let indentation = text.lines().find_map(|line| {
            let indentation: String = line
                .chars()
                .take_while(|character| matches!(character, ' ' | '\t'))
                .collect();
            let is_indented = !indentation.is_empty() && indentation.len() < line.trim_end().len();
            is_indented.then_some(indentation)
        });
        Self {
            newline: if text.contains("\r\n") { "\r\n" } else { "\n" },
            unit: indentation.unwrap_or_else(|| "  ".into()),
            single_line: !text.trim_end().contains('\n') && text.contains('{'),
        }
    }

    /// A document of its own.
    pub(super) fn document(&self, value: &impl serde::Serialize) -> String {
        format!("{}{}", self.render(value, ""), self.newline)
    }

    /// A value whose first line is already indented by `indentation`.
    fn render(&self, value: &impl serde::Serialize, indentation: &str) -> String {
        let mut bytes = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(self.unit.as_bytes());
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        // Writing texts and numbers to memory cannot fail; an empty value would be refused later.
        let _ = value.serialize(&mut serializer);
        let text = String::from_utf8(bytes).unwrap_or_default();
        text.replace('\n', &format!("{}{indentation}", self.newline))
    }

    /// Insertion of children at the end of a container. A child is a key, for objects, and a value.
    pub(super) fn append<T: serde::Serialize>(
        &self,
        text: &str,
        container: &Node,
        children: &[(Option<&str>, T)],
    ) -> Insertion {
        let existing = container.children();
        let outer = indentation_at(text, container.start);
        let inline = match existing.first() {
            Some((first, _)) => !text[container.start..*first].contains('\n'),
            None => self.single_line,
        };
        let indentation = match existing.first() {
            Some((first, _)) if !inline => indentation_at(text, *first).to_owned(),
            _ => format!("{outer}{}", self.unit),
        };
        let child = |(key, value): &(Option<&str>, T)| {
            let value = if inline {
                serde_json::to_string(value).unwrap_or_default()
            } else {
                self.render(value, &indentation)
            };
            match key {
                Some(key) => format!("\"{key}\": {value}"),
                None => value,
            }
        };
        let between = if inline {
            ", ".to_owned()
        } else {
            format!(",{}{indentation}", self.newline)
        };
        let joined = children.iter().map(child).collect::<Vec<_>>().join(&between);
        match existing.last() {
            Some((_, end)) => Insertion {
                at: *end,
                text: format!("{between}{joined}"),
            },
            None if inline => Insertion {
                at: container.start + 1,
                text: joined,
            },
            None => {
                let inside = &text[container.start + 1..container.end - 1];
                let close = if inside.contains('\n') {
                    String::new()
                } else {
                    format!("{}{outer}", self.newline)
                };
                Insertion {
                    at: container.start + 1,
                    text: format!("{}{indentation}{joined}{close}", self.newline),
                }
            }
        }
    }
}

/// White space at the beginning of the line of a position.
fn indentation_at(text: &str, position: usize) -> &str {
    let begin = text[..position].rfind('\n').map_or(0, |newline| newline + 1);
    let line = &text[begin..position];
    let end = line
        .find(|character| !matches!(character, ' ' | '\t'))
        .unwrap_or(line.len());
    &line[..end]
}

/// Applies insertions at different positions.
pub(super) fn apply(text: &str, insertions: &[Insertion]) -> String {
    let mut sorted: Vec<&Insertion> = insertions.iter().collect();
    sorted.sort_by_key(|insertion| insertion.at);
    let mut edited = String::with_capacity(text.len() + 1024);
    let mut begin = 0;
    for insertion in sorted {
        edited.push_str(&text[begin..insertion.at]);
        edited.push_str(&insertion.text);
        begin = insertion.at;
    }
    edited.push_str(&text[begin..]);
    edited
}

/// Removes one of the children of a container, with its comma. Comments stay.
pub(super) fn remove_child(text: &str, children: &[(usize, usize)], index: usize) -> String {
    let Some(&(start, end)) = children.get(index) else {
        return text.to_owned();
    };
    let is_space = |character: char| matches!(character, ' ' | '\t' | '\n' | '\r');
    let after_comma = |from: usize| {
        let mut parser = Parser { text, position: from };
        let is_comma = parser.skip_trivia().is_ok() && parser.peek() == Some(b',');
        is_comma.then_some(parser.position + 1)
    };
    if index + 1 < children.len()
        && let Some(comma) = after_comma(end)
    {
        let rest = text[comma..].trim_start_matches(is_space);
        return format!("{}{rest}", &text[..start]);
    }
    let before = text[..start].trim_end_matches(is_space);
    let previous = index.checked_sub(1).and_then(|previous| children.get(previous));
    match previous.and_then(|(_, previous_end)| after_comma(*previous_end)) {
        // The comma after ours, if any, takes the place of the one before.
        Some(comma) if after_comma(end).is_none() => {
            let between = before.get(comma..).unwrap_or_default();
            format!("{}{between}{}", &text[..comma - 1], &text[end..])
        }
        Some(_) => format!("{before}{}", after_comma(end).map_or("", |comma| &text[comma..])),
        None => format!("{before}{}", &text[after_comma(end).unwrap_or(end)..]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn children_are_appended_in_the_layout_of_the_text() {
        for (text, edited) in [
            ("{}", "{\"x\": [1]}"),
            ("{\n}\n", "{\n  \"x\": [\n    1\n  ]\n}\n"),
            ("{\"a\": 1}", "{\"a\": 1, \"x\": [1]}"),
            ("{\n\t\"a\": 1\n}", "{\n\t\"a\": 1,\n\t\"x\": [\n\t\t1\n\t]\n}"),
            (
                "{\r\n    \"a\": {} // last\r\n}\r\n",
                "{\r\n    \"a\": {},\r\n    \"x\": [\r\n        1\r\n    ] // last\r\n}\r\n",
            ),
            ("{\n  \"a\": 1,\n}", "{\n  \"a\": 1,\n  \"x\": [\n    1\n  ],\n}"),
        ] {
            let root = parse(text).unwrap();
            let insertion = Layout::detect(text).append(text, &root, &[(Some("x"), json!([1]))]);
            assert_eq!(apply(text, &[insertion]), edited);
            parse(edited).unwrap();
        }
    }

    #[test]
    fn a_removed_child_leaves_its_neighbours_and_comments() {
        for (text, index, edited) in [
            ("[1, 2, 3]", 0, "[2, 3]"),
            ("[1, 2, 3]", 1, "[1, 3]"),
            ("[1, 2, 3]", 2, "[1, 2]"),
            ("[ 1 ]", 0, "[ ]"),
            ("[1, // one\n 2 // two\n]", 1, "[1 // one // two\n]"),
            ("[\n 1,\n // two\n 2\n]", 0, "[\n // two\n 2\n]"),
            ("[1, 2,]", 1, "[1,]"),
            ("[1,]", 0, "[]"),
        ] {
            let root = parse(text).unwrap();
            assert_eq!(remove_child(text, &root.children(), index), edited, "{text}");
            parse(edited).unwrap();
        }
    }

    #[test]
    fn broken_texts_are_refused() {
        for text in [
            "",
            "{",
            "{\"a\"}",
            "[1 2]",
            "{\"a\": nul}",
            "/* x",
            "\"\\",
            "{} x",
            "{'a': 1}",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
