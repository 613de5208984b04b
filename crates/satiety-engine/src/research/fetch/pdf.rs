//! Text extraction from PDF, with limits against decompression bombs and malformed files.

use std::time::Duration;

use super::parse::{Parsed, run_with_timeout, tidy};

/// Maximum decompressed bytes of one page.
const MAX_PAGE_BYTES: usize = 16 << 20;
/// Maximum decompressed bytes of all pages and object streams.
const MAX_PDF_BYTES: usize = 128 << 20;
/// Maximum number of pages that are read.
const MAX_PAGES: usize = 500;
/// Maximum number of streams: each may be small and decompress to a lot.
const MAX_STREAMS: usize = 20_000;
/// Maximum bytes of extracted text.
const MAX_TEXT_BYTES: usize = 4 << 20;
/// Timeout of reading a PDF, which may have hundreds of pages.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Extracts the text of a PDF, page by page. Skips unreadable pages; a file without any text is an error.
pub(super) fn extract_pdf(bytes: &[u8]) -> Result<String, String> {
    let streams = count(bytes, b"stream") / 2;
    if streams > MAX_STREAMS {
        return Err(format!("more than {MAX_STREAMS} streams in the PDF"));
    }
    let bytes = bytes.to_vec();
    match run_with_timeout(TIMEOUT, move || parse_pdf(&bytes, streams)) {
        Parsed::Done(outcome) => outcome,
        Parsed::Failed => Err("damaged PDF".into()),
        Parsed::Late => Err("timeout while reading the PDF".into()),
    }
}

fn parse_pdf(bytes: &[u8], streams: usize) -> Result<String, String> {
    // The library's limit applies to one stream: divide the total limit by the number of streams.
    let each = (MAX_PDF_BYTES / streams.max(1)).clamp(64 << 10, MAX_PAGE_BYTES);
    let options = lopdf::LoadOptions::with_max_decompressed_size(each);
    let document =
        lopdf::Document::load_mem_with_options(bytes, options).map_err(|error| error.to_string())?;
    if document.is_encrypted() {
        return Err("encrypted PDF".to_owned());
    }
    // Several pages may share one stream, so decompressed bytes are counted per page.
    let mut left = MAX_PDF_BYTES;
    let mut text = String::new();
    for (number, id) in document.get_pages().into_iter().take(MAX_PAGES) {
        let limit = MAX_PAGE_BYTES.min(left);
        match document.get_page_content_with_limit(id, limit) {
            Ok(content) => {
                left = left.saturating_sub(content.len());
                if let Ok(found) = document.extract_text_with_limit(&[number], limit) {
                    text.push_str(&found);
                    text.push_str("\n\n");
                }
            }
            Err(_) => left = left.saturating_sub(limit),
        }
        if text.len() > MAX_TEXT_BYTES || left == 0 {
            break;
        }
    }
    let text = tidy(&text);
    if text.is_empty() {
        Err("no text in the PDF".to_owned())
    } else {
        Ok(text)
    }
}

/// Counts the occurrences of a byte string.
fn count(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).filter(|window| *window == what).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_pdfs_are_refused() {
        for pdf in [
            &b""[..],
            b"%PDF-1.7",
            b"%PDF-1.7\n1 0 obj\n<< /Length -1 >>",
            &[0xff; 64],
        ] {
            assert!(extract_pdf(pdf).is_err());
        }
    }

    /// Small files that decompress to a lot, or reference themselves.
    #[test]
    fn hostile_pdfs_are_parsed_in_time() {
        let zeros = |megabytes: usize| {
            use std::io::Write as _;
            let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
            for _ in 0..megabytes {
                packed.write_all(&vec![b' '; 1 << 20]).unwrap();
            }
            packed.finish().unwrap()
        };
        let bomb = zeros(40);
        let shared = super::test_pdf::pages_of_one_stream(&bomb, 400);
        let small = zeros(15);
        let many = super::test_pdf::pages_of_one_stream(&small, 100);
        let circle = b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [2 0 R 2 0 R] \
            /Count 99999999 >>\nendobj\ntrailer\n<< /Root 1 0 R >>\n".to_vec();
        let nested = format!(
            "%PDF-1.4\n1 0 obj\n{}\nendobj\ntrailer << /Root 1 0 R >>",
            "[".repeat(200_000)
        );
        let streams = format!(
            "%PDF-1.4\n{}",
            "1 0 obj <<>> stream\nendstream endobj\n".repeat(30_000)
        );
        for (name, pdf) in [
            ("a bomb", shared),
            ("many pages of one stream", many),
            ("a circle", circle),
            ("deep", nested.into_bytes()),
            ("streams", streams.into_bytes()),
        ] {
            let began = std::time::Instant::now();
            let read = extract_pdf(&pdf);
            assert!(
                began.elapsed() < Duration::from_secs(8),
                "{name}: {:?}",
                began.elapsed()
            );
            assert!(read.is_err(), "{name}");
        }
    }

    #[test]
    fn the_text_of_a_pdf_is_read() {
        let pdf = super::test_pdf::one_page("Heated wings bend upwards.");
        let text = extract_pdf(&pdf).unwrap();
        assert!(text.contains("Heated wings bend upwards."), "{text}");
    }
}

#[cfg(test)]
mod test_pdf {
    use std::fmt::Write as _;

    /// A PDF whose pages all share one compressed stream.
    pub(crate) fn pages_of_one_stream(packed: &[u8], pages: usize) -> Vec<u8> {
        let kids = (0..pages).fold(String::new(), |mut kids, page| {
            let _ = write!(kids, "{} 0 R ", page + 10);
            kids
        });
        let mut pdf = b"%PDF-1.4\n".to_vec();
        let mut places: Vec<(usize, usize)> = Vec::new();
        let mut add = |pdf: &mut Vec<u8>, number: usize, object: &[u8]| {
            places.push((number, pdf.len()));
            pdf.extend_from_slice(format!("{number} 0 obj\n").as_bytes());
            pdf.extend_from_slice(object);
            pdf.extend_from_slice(b"\nendobj\n");
        };
        add(&mut pdf, 1, b"<< /Type /Catalog /Pages 2 0 R >>");
        add(
            &mut pdf,
            2,
            format!("<< /Type /Pages /Kids [{kids}] /Count {pages} >>").as_bytes(),
        );
        let mut stream =
            format!("<< /Length {} /Filter /FlateDecode >>\nstream\n", packed.len()).into_bytes();
        stream.extend_from_slice(packed);
        stream.extend_from_slice(b"\nendstream");
        add(&mut pdf, 3, &stream);
        for page in 0..pages {
            let object =
                b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 3 0 R /Resources << >> >>";
            add(&mut pdf, page + 10, object);
        }
        let start = pdf.len();
        let mut table = String::from("xref\n");
        for (number, place) in &places {
            write!(table, "{number} 1\n{place:010} 00000 n \n").unwrap();
        }
        write!(
            table,
            "trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n",
            pages + 10
        )
        .unwrap();
        pdf.extend_from_slice(table.as_bytes());
        pdf
    }

    /// A minimal PDF of one page with one line of text.
    pub(crate) fn one_page(line: &str) -> Vec<u8> {
        let stream = format!("BT /F1 24 Tf 72 720 Td ({line}) Tj ET");
        let objects = [
            "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
            "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R \
             /Resources << /Font << /F1 5 0 R >> >> >>"
                .to_owned(),
            format!("<< /Length {} >>\nstream\n{stream}\nendstream", stream.len()),
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned(),
        ];
        let mut pdf = String::from("%PDF-1.4\n");
        let mut places = Vec::new();
        for (number, object) in (1..).zip(&objects) {
            places.push(pdf.len());
            writeln!(pdf, "{number} 0 obj\n{object}\nendobj").unwrap();
        }
        let start = pdf.len();
        writeln!(pdf, "xref\n0 {}\n0000000000 65535 f ", objects.len() + 1).unwrap();
        for place in places {
            writeln!(pdf, "{place:010} 00000 n ").unwrap();
        }
        write!(
            pdf,
            "trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n",
            objects.len() + 1
        )
        .unwrap();
        pdf.into_bytes()
    }
}
