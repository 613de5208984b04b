//! The frame of every page of the dashboard, and the small parts that pages share.

use std::fmt::Write;

use satiety_report::Tone;
use satiety_report::html::{Html, escape, joined};

/// The pages, in the order of the menu.
pub(super) const MENU: [(&str, &str); 9] = [
    ("/", "Overview"),
    ("/conversations", "Conversations"),
    ("/research", "Research"),
    ("/memory", "Memory"),
    ("/retrieval", "Retrieval"),
    ("/ab", "A/B tests"),
    ("/bench", "Bench"),
    ("/eviction", "Eviction"),
    ("/harness", "Harness"),
];

/// A page in the frame; `place` is the page of the menu that it belongs to.
pub(super) fn frame(place: &str, title: &str, body: &[Html]) -> String {
    let title = escape(title);
    let menu: Vec<Html> = MENU
        .iter()
        .map(|(to, name)| {
            let here = if *to == place {
                " aria-current=\"page\""
            } else {
                ""
            };
            Html(format!("<a href=\"{to}\"{here}>{}</a>", escape(name)))
        })
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title} · Satiety</title>\n<link rel=\"icon\" href=\"/assets/icon.svg\">\n\
         <link rel=\"stylesheet\" href=\"/assets/style.css\">\n<script src=\"/assets/dashboard.js\" defer></script>\n</head>\n\
         <body>\n<a class=\"skip\" href=\"#content\">To the content</a>\n\
         <header class=\"site\"><nav aria-label=\"Main\"><span class=\"brand\">Satiety</span>{menu}</nav></header>\n\
         <main id=\"content\" tabindex=\"-1\">\n<h1>{title}</h1>\n{body}\n</main>\n\
         <footer>Is the next unit still worth it? Everything here is also in the <a href=\"/docs\">HTTP API</a>.</footer>\n\
         </body>\n</html>\n",
        menu = joined(&menu),
        body = joined(body)
    )
}

/// A word in a coloured frame; the colour repeats what the word says.
pub(super) fn badge(class: &str, word: &str) -> Html {
    Html(format!("<span class=\"badge {class}\">{}</span>", escape(word)))
}

/// What a signal means for the reader.
pub(super) fn signal_tone(word: &str) -> Tone {
    match word {
        "SHIP" => Tone::Good,
        "STOP" => Tone::Bad,
        "ESCALATE" => Tone::Unsure,
        _ => Tone::Plain,
    }
}

/// A share, or a dash.
pub(super) fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), |value| format!("{:.1} %", 100.0 * value))
}

/// A figure, or a dash.
pub(super) fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), |value| format!("{value:.3}"))
}

/// A moment as people read it.
pub(super) fn moment(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M").to_string()
}

/// An id as people tell it from others: what it is of, and its end.
pub(super) fn short_id(id: &str) -> String {
    let Some((kind, rest)) = id.split_once('-').filter(|(_, rest)| rest.len() > 12) else {
        return id.to_owned();
    };
    let end: Vec<char> = rest.chars().rev().take(6).collect();
    format!("{kind} …{}", end.iter().rev().collect::<String>())
}

/// So many of something.
pub(super) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// What stands where there is nothing yet, with the command that changes that.
pub(super) fn nothing(what: &str, command: &str) -> Html {
    Html(format!(
        "<p class=\"empty\">{} <code>{}</code></p>",
        escape(what),
        escape(command)
    ))
}

/// A command to be typed.
pub(super) fn command(text: &str) -> Html {
    Html(format!("<pre><code>{}</code></pre>", escape(text)))
}

/// A card of the overview.
pub(super) fn card(title: &str, to: &str, parts: &[Html]) -> Html {
    Html(format!(
        "<li class=\"card\"><h2><a href=\"{}\">{}</a></h2>{}</li>",
        escape(to),
        escape(title),
        joined(parts)
    ))
}

/// A part of an address, safe between slashes.
pub(super) fn segment(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            safe.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(safe, "%{byte:02X}");
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_from_outside_cannot_act_and_nothing_is_fetched_from_elsewhere() {
        let page = frame("/bench", "<script>x</script>", &[]);
        assert!(!page.contains("<script>x"), "{page}");
        assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
        assert_eq!(page.matches("aria-current").count(), 1);
    }

    #[test]
    fn ids_are_told_by_their_ends() {
        assert_eq!(short_id("run-01a1e42729ac7469b9212539cc59e945"), "run …59e945");
        assert_eq!(short_id("heuristic-1"), "heuristic-1");
        assert_eq!(short_id("plain"), "plain");
    }

    #[test]
    fn an_id_cannot_leave_its_place_in_an_address() {
        assert_eq!(segment("../a b\"<"), "..%2Fa%20b%22%3C");
        assert_eq!(segment("run-1.2_x"), "run-1.2_x");
    }
}
