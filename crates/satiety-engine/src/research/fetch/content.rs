//! Conversion of bytes to text: character sets, and the HTML and PDF parsers compiled into this build.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// Bytes at the start of a page that are searched for its character set.
const SNIFFED_BYTES: usize = 2048;

/// A page as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageText {
    /// Title; may be empty.
    pub title: String,
    /// Main content as Markdown.
    pub markdown: String,
}

/// Returns the character set named by a content type.
pub fn parse_charset(content_type: &str) -> Option<String> {
    content_type.split(';').skip(1).find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let value = value.trim().trim_matches(['"', '\'']);
        name.trim()
            .eq_ignore_ascii_case("charset")
            .then(|| value.to_owned())
    })
}

/// Decodes bytes: by a byte-order mark, else by the server's character set, else by the page's own, else as
/// UTF-8 if valid, else as Windows-1252, which accepts any bytes.
pub fn decoded(bytes: &[u8], charset: Option<&str>) -> String {
    if let Some((encoding, _)) = Encoding::for_bom(bytes) {
        return encoding.decode(bytes).0.into_owned();
    }
    let named = charset
        .and_then(|name| Encoding::for_label(name.as_bytes()))
        .or_else(|| declared_charset(bytes));
    let encoding = named.unwrap_or(if std::str::from_utf8(bytes).is_ok() {
        UTF_8
    } else {
        WINDOWS_1252
    });
    encoding.decode_without_bom_handling(bytes).0.into_owned()
}

/// Finds `<meta charset=…>` or its older form in the first bytes.
fn declared_charset(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(SNIFFED_BYTES)]).to_ascii_lowercase();
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

/// Extracts the main content of an HTML page as Markdown. Fails if the build does not include HTML.
#[cfg_attr(
    not(feature = "html"),
    expect(unused_variables, reason = "the build does not include HTML")
)]
pub fn extract_html(html: &str, address: Option<&str>) -> Result<PageText, String> {
    #[cfg(feature = "html")]
    return Ok(super::html::extract_html(html, address));
    #[cfg(not(feature = "html"))]
    Err(crate::feature_disabled("reading HTML", "html"))
}

/// Extracts the text of a PDF, page by page. Skips unreadable pages; a file without any text is an error.
#[cfg_attr(
    not(feature = "pdf"),
    expect(unused_variables, reason = "the build does not include PDF")
)]
pub fn extract_pdf(bytes: &[u8]) -> Result<String, String> {
    #[cfg(feature = "pdf")]
    return super::pdf::extract_pdf(bytes);
    #[cfg(not(feature = "pdf"))]
    Err(crate::feature_disabled("reading PDF", "pdf"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn character_sets_are_detected() {
        assert_eq!(
            parse_charset("text/html; charset=\"ISO-8859-1\"").as_deref(),
            Some("ISO-8859-1")
        );
        assert_eq!(parse_charset("text/html"), None);
        assert_eq!(decoded(b"Fl\xfcgel", Some("iso-8859-1")), "Flügel");
        assert_eq!(decoded(b"Fl\xfcgel", None), "Flügel");
        assert_eq!(decoded("Flügel".as_bytes(), None), "Flügel");
        assert_eq!(
            decoded(b"\xff\xfeF\x00l\x00", Some("utf-8")),
            "Fl",
            "a byte-order mark overrides the header"
        );
        let page = b"<html><head><meta charset='shift_jis'></head><body>\x93\x8c\x8b\x9e</body>";
        assert!(decoded(page, None).contains("東京"));
        let old = b"<meta http-equiv=content-type content=\"text/html; charset=windows-1251\">\xcf";
        assert!(decoded(old, None).ends_with('П'));
    }
}
