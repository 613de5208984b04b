//! Bytes to text: character sets, and the parsers of HTML and PDF that this build has.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// Where a page says its own character set.
const SNIFFED: usize = 2048;

/// A page as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageText {
    /// Its title; may be empty.
    pub title: String,
    /// Its main content.
    pub markdown: String,
}

/// The character set that a content type names.
pub fn charset_of(content_type: &str) -> Option<String> {
    content_type.split(';').skip(1).find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let value = value.trim().trim_matches(['"', '\'']);
        name.trim()
            .eq_ignore_ascii_case("charset")
            .then(|| value.to_owned())
    })
}

/// Bytes as text: by a byte-order mark, else by what the server said, else by what the page says, else as UTF-8 if they
/// are, else as Windows-1252, which can read anything.
pub fn decoded(bytes: &[u8], charset: Option<&str>) -> String {
    if let Some((encoding, _)) = Encoding::for_bom(bytes) {
        return encoding.decode(bytes).0.into_owned();
    }
    let named = charset
        .and_then(|name| Encoding::for_label(name.as_bytes()))
        .or_else(|| own_charset(bytes));
    let encoding = named.unwrap_or(if std::str::from_utf8(bytes).is_ok() {
        UTF_8
    } else {
        WINDOWS_1252
    });
    encoding.decode_without_bom_handling(bytes).0.into_owned()
}

/// `<meta charset=…>` or its older form, within the first bytes.
fn own_charset(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(SNIFFED)]).to_ascii_lowercase();
    let at = head
        .find("<meta")
        .and_then(|from| Some(from + head[from..].find("charset=")?))?;
    let name: String = head[at + "charset=".len()..]
        .trim_start_matches(['"', '\''])
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        .collect();
    Encoding::for_label(name.as_bytes())
}

/// The main content of an HTML page as Markdown. Fails where the build leaves HTML out.
#[cfg_attr(
    not(feature = "html"),
    expect(unused_variables, reason = "the build leaves HTML out")
)]
pub fn page_of_html(html: &str, address: Option<&str>) -> Result<PageText, String> {
    #[cfg(feature = "html")]
    return Ok(super::html::page_of_html(html, address));
    #[cfg(not(feature = "html"))]
    Err(crate::left_out("reading HTML", "html"))
}

/// The text of a PDF, page by page. Pages that cannot be read are left out; a file without any text is an error.
#[cfg_attr(
    not(feature = "pdf"),
    expect(unused_variables, reason = "the build leaves PDF out")
)]
pub fn text_of_pdf(bytes: &[u8]) -> Result<String, String> {
    #[cfg(feature = "pdf")]
    return super::pdf::text_of_pdf(bytes);
    #[cfg(not(feature = "pdf"))]
    Err(crate::left_out("reading PDF", "pdf"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn character_sets_are_found_where_they_are_said() {
        assert_eq!(
            charset_of("text/html; charset=\"ISO-8859-1\"").as_deref(),
            Some("ISO-8859-1")
        );
        assert_eq!(charset_of("text/html"), None);
        assert_eq!(decoded(b"Fl\xfcgel", Some("iso-8859-1")), "Flügel");
        assert_eq!(decoded(b"Fl\xfcgel", None), "Flügel");
        assert_eq!(decoded("Flügel".as_bytes(), None), "Flügel");
        assert_eq!(
            decoded(b"\xff\xfeF\x00l\x00", Some("utf-8")),
            "Fl",
            "a mark is stronger"
        );
        let page = b"<html><head><meta charset='shift_jis'></head><body>\x93\x8c\x8b\x9e</body>";
        assert!(decoded(page, None).contains("東京"));
        let old = b"<meta http-equiv=content-type content=\"text/html; charset=windows-1251\">\xcf";
        assert!(decoded(old, None).ends_with('П'));
    }
}
