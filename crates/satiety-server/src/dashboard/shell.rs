//! Page frame of the dashboard, and helpers that the pages share.

use std::fmt::Write;

pub(super) use satiety_report::document::count;
use satiety_report::document::time;
use satiety_report::html::{Html, escape, joined, render_inline};
use satiety_report::{Text, Tone};

/// Pages in menu order.
pub(super) const MENU: [(&str, &str); 10] = [
    ("/", "Overview"),
    ("/conversations", "Conversations"),
    ("/progress", "Agent runs"),
    ("/research", "Research"),
    ("/memory", "Memory"),
    ("/retrieval", "Retrieval"),
    ("/ab", "Experiments"),
    ("/bench", "Bench"),
    ("/eviction", "Eviction"),
    ("/harness", "Harness"),
];

/// Place of the status line in the footer; [`with_status`] fills it in for each response.
const STATUS_MARK: &str = "<!-- status -->";

/// The page with the status of the server in its footer.
pub(super) fn with_status(page: &str, status: &str) -> String {
    page.replacen(STATUS_MARK, &format!(", {}", escape(status)), 1)
}

/// Renders a page; `place` is the menu entry it belongs to.
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
         <body>\n<a class=\"skip\" href=\"#content\">Skip to content</a>\n\
         <header class=\"site\"><nav aria-label=\"Main\"><span class=\"brand\">Satiety</span>{menu}</nav></header>\n\
         <main id=\"content\" tabindex=\"-1\">\n<h1>{title}</h1>\n{body}\n</main>\n\
         <footer>Satiety {version}{STATUS_MARK}. All data is also available through the <a href=\"/docs\">HTTP API</a>.</footer>\n\
         </body>\n</html>\n",
        version = env!("CARGO_PKG_VERSION"),
        menu = joined(&menu),
        body = joined(body)
    )
}

/// Path from the menu entry to this page, one link per level.
pub(super) fn trail(levels: &[(&str, &str)]) -> Html {
    let links = levels
        .iter()
        .map(|(to, name)| format!("<li><a href=\"{}\">{}</a></li>", escape(to), escape(name)));
    Html(format!(
        "<nav class=\"trail\" aria-label=\"Breadcrumb\"><ol>{}</ol></nav>",
        links.collect::<String>()
    ))
}

/// Links to the previous and the next page of a kind: address, words and key of each.
pub(super) fn neighbors(label: &str, links: &[Option<(String, &str, &str)>]) -> Html {
    let links: Vec<String> = links
        .iter()
        .flatten()
        .map(|(to, words, key)| format!("<a href=\"{}\" data-key=\"{key}\">{words}</a>", escape(to)))
        .collect();
    if links.is_empty() {
        return Html::default();
    }
    Html(format!(
        "<nav class=\"pages\" aria-label=\"{}\">{}</nav>",
        escape(label),
        links.concat()
    ))
}

/// Word in a colored frame; the color repeats the meaning of the word.
pub(super) fn badge(class: &str, word: &str) -> Html {
    Html(format!("<span class=\"badge {class}\">{}</span>", escape(word)))
}

/// Tone of a signal.
pub(super) fn signal_tone(word: &str) -> Tone {
    match word {
        "SHIP" => Tone::Good,
        "STOP" => Tone::Bad,
        "ESCALATE" => Tone::Unsure,
        _ => Tone::Plain,
    }
}

/// Tone of a signal about an agent at work, for which ESCALATE means that it is stuck.
pub(super) fn run_tone(word: &str) -> Tone {
    match word {
        "NUDGE" => Tone::Unsure,
        "ESCALATE" => Tone::Bad,
        other => signal_tone(other),
    }
}

/// Formats a share as a percentage, or a dash.
pub(super) fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), |value| format!("{:.1} %", 100.0 * value))
}

/// Formats a metric, or a dash.
pub(super) fn metric(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), |value| format!("{value:.3}"))
}

/// Absolute time in UTC to the minute, where markup is not possible.
pub(super) fn moment(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// Time relative to `now`, with the exact time as a tooltip.
pub(super) fn ago(at: jiff::Timestamp, now: jiff::Timestamp) -> Text {
    time(relative(at, now), at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// The same for a time as text; text that is not a time stays as it is.
pub(super) fn ago_text(at: &str, now: jiff::Timestamp) -> Text {
    at.parse().map_or_else(|_| at.into(), |at| ago(at, now))
}

/// Words such as `3 min ago`; a date for times more than 30 days ago or in the future.
fn relative(at: jiff::Timestamp, now: jiff::Timestamp) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let seconds = now.as_second() - at.as_second();
    // Clocks of servers may differ by a few seconds.
    if !(-MINUTE..30 * DAY).contains(&seconds) {
        at.strftime("%Y-%m-%d").to_string()
    } else if seconds < MINUTE {
        "just now".into()
    } else if seconds < HOUR {
        format!("{} min ago", seconds / MINUTE)
    } else if seconds < DAY {
        format!("{} h ago", seconds / HOUR)
    } else if seconds < 2 * DAY {
        "1 day ago".into()
    } else {
        format!("{} days ago", seconds / DAY)
    }
}

/// Short form of an id: its kind and its last characters.
pub(super) fn short_id(id: &str) -> String {
    let Some((kind, rest)) = id.split_once('-').filter(|(_, rest)| rest.len() > 12) else {
        return id.to_owned();
    };
    let end: Vec<char> = rest.chars().rev().take(6).collect();
    format!("{kind} …{}", end.iter().rev().collect::<String>())
}

/// Empty state of a page, with the commands to run next.
pub(super) fn empty_state(what: &str, commands: &str) -> Html {
    Html(format!(
        "<div class=\"empty\"><p>{}</p>{}</div>",
        render_inline(what),
        command(commands)
    ))
}

/// Command to copy; the page's script adds a button.
pub(super) fn command(text: &str) -> Html {
    Html(format!(
        "<pre class=\"command\"><code>{}</code></pre>",
        escape(text)
    ))
}

/// Sentence that says what a list shows.
pub(super) fn lead(text: &str) -> Html {
    Html(format!("<p class=\"lead\">{}</p>", render_inline(text)))
}

/// The text with a capital letter.
pub(super) fn sentence_case(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}

/// Writes a message as a sentence: with a capital letter and a full stop.
pub(super) fn sentence(message: &str) -> String {
    let mut text = sentence_case(message.trim());
    if !text.ends_with(['.', '!', '?', ':']) {
        text.push('.');
    }
    text
}

/// Card of the overview.
pub(super) fn card(title: &str, to: &str, parts: &[Html]) -> Html {
    Html(format!(
        "<li class=\"card\"><h2><a href=\"{}\">{}</a></h2>{}</li>",
        escape(to),
        escape(title),
        joined(parts)
    ))
}

/// Percent-encodes a path segment.
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
    fn titles_are_escaped_and_pages_are_self_contained() {
        let page = frame("/bench", "<script>x</script>", &[]);
        assert!(!page.contains("<script>x"), "{page}");
        assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
        assert_eq!(page.matches("aria-current").count(), 1);
    }

    #[test]
    fn ids_are_abbreviated_to_their_ends() {
        assert_eq!(short_id("run-01a1e42729ac7469b9212539cc59e945"), "run …59e945");
        assert_eq!(short_id("heuristic-1"), "heuristic-1");
        assert_eq!(short_id("plain"), "plain");
    }

    #[test]
    fn times_are_relative_and_exact_in_the_tooltip() {
        let now: jiff::Timestamp = "2026-11-17T12:00:00Z".parse().unwrap();
        for (at, words) in [
            ("2026-11-17T12:00:30Z", "just now"),
            ("2026-11-17T11:59:01Z", "just now"),
            ("2026-11-17T11:56:59Z", "3 min ago"),
            ("2026-11-17T09:00:00Z", "3 h ago"),
            ("2026-11-16T11:00:00Z", "1 day ago"),
            ("2026-11-10T12:00:00Z", "7 days ago"),
            ("2026-01-02T12:00:00Z", "2026-01-02"),
            ("2026-12-24T12:00:00Z", "2026-12-24"),
            ("never", "never"),
        ] {
            assert_eq!(ago_text(at, now).plain(), words, "{at}");
        }
        assert_eq!(
            satiety_report::html::line(&ago_text("2026-11-17T11:57:00.5Z", now)).to_string(),
            "<time datetime=\"2026-11-17T11:57:00Z\" title=\"2026-11-17 11:57:00 UTC\">3 min ago</time>"
        );
    }

    #[test]
    fn messages_become_sentences() {
        assert_eq!(sentence("run `x` not found"), "Run `x` not found.");
        assert_eq!(sentence("`x` is unknown."), "`x` is unknown.");
        assert_eq!(sentence(""), ".");
    }

    #[test]
    fn ids_are_escaped_in_addresses() {
        assert_eq!(segment("../a b\"<"), "..%2Fa%20b%22%3C");
        assert_eq!(segment("run-1.2_x"), "run-1.2_x");
    }
}
