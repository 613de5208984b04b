//! JSON records of a file of any size, one at a time: lines of JSON Lines, elements of a list, or elements of
//! the list in a document such as `{"results": […]}`. Memory is bounded by the largest record.

use std::io::BufRead;

use serde_json::Value;

/// Maximum bytes of a record.
const MAX_RECORD_BYTES: usize = 64 << 20;
/// Keys whose lists hold the records of a document.
const LISTS: [&str; 4] = ["results", "memories", "conversations", "data"];

/// A record with the line where it begins.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonRecord {
    /// Line number, from 1.
    pub line: u64,
    /// The record, or what is wrong with it.
    pub value: Result<Value, String>,
}

/// Records of a JSON file.
#[derive(Debug)]
pub struct JsonRecords<R> {
    input: R,
    line: u64,
    /// Number of bytes consumed so far.
    offset: u64,
    /// Whether a record was returned.
    has_records: bool,
    mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Start,
    /// A record per line.
    Lines,
    /// Inside a list of records.
    List,
    End,
}

/// Result of reading one value of a document.
enum Scanned {
    Record(Vec<u8>),
    /// The value is a document whose list of records begins here.
    ListBegins,
    /// A list that has ended, or a comma.
    Nothing,
}

impl<R: BufRead> JsonRecords<R> {
    /// Reads records from a file.
    pub fn new(input: R) -> Self {
        Self {
            input,
            line: 1,
            offset: 0,
            has_records: false,
            mode: Mode::Start,
        }
    }

    /// Number of bytes read so far, for progress.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn step(&mut self) -> std::io::Result<Option<JsonRecord>> {
        loop {
            match self.mode {
                Mode::Start => self.begin()?,
                Mode::Lines => return self.read_line(),
                Mode::List => {
                    let Some(byte) = self.skip_space()? else {
                        self.mode = Mode::End;
                        let value = Err("the file ends within a list: it is incomplete".to_owned());
                        return Ok(Some(JsonRecord {
                            line: self.line,
                            value,
                        }));
                    };
                    match byte {
                        b',' => drop(self.next_byte()?),
                        b']' => {
                            self.next_byte()?;
                            self.mode = Mode::End;
                        }
                        _ => {
                            let line = self.line;
                            return Ok(match self.scan(false)? {
                                Ok(Scanned::Record(bytes)) => Some(JsonRecord {
                                    line,
                                    value: parse(&bytes),
                                }),
                                Ok(_) => continue,
                                Err(problem) => Some(JsonRecord {
                                    line,
                                    value: Err(problem),
                                }),
                            });
                        }
                    }
                }
                Mode::End => return Ok(None),
            }
        }
    }

    /// Skips what precedes the first record, and decides between a list and lines.
    fn begin(&mut self) -> std::io::Result<()> {
        // A byte order mark is not part of the first record.
        if self.input.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
            self.input.consume(3);
            self.offset += 3;
        }
        let Some(byte) = self.skip_space()? else {
            self.mode = Mode::End;
            return Ok(());
        };
        self.mode = match byte {
            b'[' => {
                self.next_byte()?;
                Mode::List
            }
            _ => Mode::Lines,
        };
        Ok(())
    }

    /// Reads a line as a record. The first line decides: if it is not a complete value, the file is one document
    /// that spans lines.
    fn read_line(&mut self) -> std::io::Result<Option<JsonRecord>> {
        let Some(byte) = self.skip_space()? else {
            self.mode = Mode::End;
            return Ok(None);
        };
        let line = self.line;
        if byte == b'{' && !self.has_records && self.opens_document()? {
            self.has_records = true;
            return match self.scan(true)? {
                Ok(Scanned::ListBegins) => {
                    self.mode = Mode::List;
                    self.step()
                }
                Ok(Scanned::Record(bytes)) => Ok(Some(JsonRecord {
                    line,
                    value: parse(&bytes),
                })),
                Ok(Scanned::Nothing) => self.step(),
                Err(problem) => Ok(Some(JsonRecord {
                    line,
                    value: Err(problem),
                })),
            };
        }
        self.has_records = true;
        let value = match self.take_line()? {
            None => Err(format!("record too large (limit {MAX_RECORD_BYTES} bytes)")),
            Some(bytes) => parse(&bytes),
        };
        Ok(Some(JsonRecord { line, value }))
    }

    /// Whether the object that begins here is a document with a list of records, or spans lines: its buffered
    /// first line is neither complete nor followed by another record.
    fn opens_document(&mut self) -> std::io::Result<bool> {
        let buffered = self.input.fill_buf()?;
        let end = memchr::memchr(b'\n', buffered);
        let first = buffered[..end.unwrap_or(buffered.len())].trim_ascii();
        let names_list = LISTS.iter().any(|list| {
            let key = format!("\"{list}\"");
            let at = first.windows(key.len()).position(|part| part == key.as_bytes());
            // A list of objects; a record may have a field of that name, too.
            at.is_some_and(|at| {
                let rest = first.get(at + key.len()..).unwrap_or_default().trim_ascii_start();
                let list = rest
                    .strip_prefix(b":")
                    .and_then(|rest| rest.trim_ascii_start().strip_prefix(b"["));
                list.is_some_and(|list| matches!(list.trim_ascii_start().first(), None | Some(b'{' | b']')))
            })
        });
        let is_whole = serde_json::from_slice::<serde::de::IgnoredAny>(first).is_ok();
        let short = first.len() < 100;
        Ok(names_list || (!is_whole && end.is_some() && short))
    }

    /// Rest of the line without its end; `None` if it is too long, in which case it is skipped.
    fn take_line(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let mut too_long = false;
        loop {
            let buffered = self.input.fill_buf()?;
            if buffered.is_empty() {
                break;
            }
            let end = memchr::memchr(b'\n', buffered);
            let part = &buffered[..end.unwrap_or(buffered.len())];
            too_long |= bytes.len() + part.len() > MAX_RECORD_BYTES;
            if !too_long {
                bytes.extend_from_slice(part);
            }
            let used = end.map_or(buffered.len(), |end| end + 1);
            self.input.consume(used);
            self.offset += used as u64;
            if end.is_some() {
                self.line += 1;
                break;
            }
        }
        Ok((!too_long).then_some(bytes))
    }

    /// Consumes one JSON value by its brackets and strings. With `document`, stops at the list of records of an
    /// object.
    fn scan(&mut self, document: bool) -> std::io::Result<Result<Scanned, String>> {
        let mut bytes = Vec::new();
        let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
        let (mut text_start, mut last_text) = (0, (0, 0));
        let mut too_large = false;
        while let Some(byte) = self.peek()? {
            if !in_string && depth == 0 && !bytes.is_empty() && matches!(byte, b',' | b']' | b'}') {
                break;
            }
            if in_string {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' => escaped = true,
                    b'"' => {
                        in_string = false;
                        last_text = (text_start, bytes.len());
                    }
                    _ => {}
                }
            } else {
                match byte {
                    b'"' => {
                        in_string = true;
                        text_start = bytes.len() + 1;
                    }
                    b'[' if document && depth == 1 => {
                        let key = bytes.get(last_text.0..last_text.1).unwrap_or_default();
                        if LISTS.iter().any(|list| list.as_bytes() == key) {
                            self.next_byte()?;
                            return Ok(Ok(Scanned::ListBegins));
                        }
                        depth += 1;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth = depth.saturating_sub(1),
                    _ => {}
                }
            }
            self.next_byte()?;
            if bytes.len() < MAX_RECORD_BYTES {
                bytes.push(byte);
            } else {
                too_large = true;
            }
            if depth == 0 && !in_string && matches!(byte, b'}' | b']') {
                break;
            }
        }
        if too_large {
            return Ok(Err(format!("record too large (limit {MAX_RECORD_BYTES} bytes)")));
        }
        if depth > 0 || in_string {
            self.mode = Mode::End;
            return Ok(Err("the file ends within a record: it is incomplete".to_owned()));
        }
        Ok(Ok(if bytes.is_empty() {
            Scanned::Nothing
        } else {
            Scanned::Record(bytes)
        }))
    }

    fn peek(&mut self) -> std::io::Result<Option<u8>> {
        Ok(self.input.fill_buf()?.first().copied())
    }

    fn next_byte(&mut self) -> std::io::Result<Option<u8>> {
        let byte = self.peek()?;
        if let Some(byte) = byte {
            self.input.consume(1);
            self.offset += 1;
            self.line += u64::from(byte == b'\n');
        }
        Ok(byte)
    }

    /// Skips white space; returns the next byte without consuming it.
    fn skip_space(&mut self) -> std::io::Result<Option<u8>> {
        loop {
            match self.peek()? {
                Some(b' ' | b'\t' | b'\r' | b'\n') => drop(self.next_byte()?),
                other => return Ok(other),
            }
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(|error| {
        let text = error.to_string();
        let problem = text.split(" at line ").next().unwrap_or(&text).to_owned();
        format!("invalid JSON at column {}: {problem}", error.column())
    })
}

impl<R: BufRead> Iterator for JsonRecords<R> {
    type Item = std::io::Result<JsonRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
