//! API documentation as a page, rendered on the server without scripts or external resources.

use std::fmt::Write as _;

use serde_json::Value;

use satiety_report::html::escape;

pub(crate) fn page(document: &Value) -> String {
    let mut body = String::new();
    let mut contents = String::new();
    let mut last = "";
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let tag = operation["tags"][0].as_str().unwrap_or_default();
            if tag != last {
                let _ = write!(body, "<h2 id=\"{0}\">{0}</h2>", escape(tag));
                let _ = write!(contents, "<li><a href=\"#{0}\">{0}</a></li>", escape(tag));
                last = tag;
            }
            body.push_str(&operation_html(method, path, operation));
        }
    }
    let mut schemas = String::new();
    for (name, schema) in document["components"]["schemas"]
        .as_object()
        .into_iter()
        .flatten()
    {
        let text = serde_json::to_string_pretty(schema).unwrap_or_default();
        let _ = write!(
            schemas,
            "<details id=\"schema-{0}\"><summary><code>{0}</code> {1}</summary><pre tabindex=\"0\">{2}</pre></details>",
            escape(name),
            escape(first_line(&schema["description"])),
            escape(&text),
        );
    }
    let info = &document["info"];
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>Satiety: HTTP API</title>\
         <link rel=\"stylesheet\" href=\"/docs/style.css\"></head>\n<body><a class=\"skip\" href=\"#content\">Skip to content</a><main id=\"content\" tabindex=\"-1\">\n<h1>Satiety {version}: HTTP API</h1>\n\
         <p>{about}</p>\n<p><a href=\"/openapi.json\">OpenAPI document as JSON</a> (OpenAPI 3.1)</p>\n\
         <nav aria-label=\"Sections\"><ul>{contents}<li><a href=\"#schemas\">schemas</a></li></ul></nav>\n{body}\n\
         <h2 id=\"schemas\">schemas</h2>\n{schemas}</main></body>\n</html>\n",
        version = escape(info["version"].as_str().unwrap_or_default()),
        about = escape(info["description"].as_str().unwrap_or_default()),
    )
}

fn operation_html(method: &str, path: &str, operation: &Value) -> String {
    let text = |value: &Value| escape(value.as_str().unwrap_or_default());
    let mut html = format!(
        "<section id=\"{id}\"><h3><span class=\"method\">{method}</span> <code>{path}</code></h3><p>{summary}</p><dl>\
         <dt>Scope</dt><dd>{scope}</dd>",
        id = text(&operation["operationId"]),
        method = escape(&method.to_ascii_uppercase()),
        path = escape(path),
        summary = text(&operation["summary"]),
        scope = operation["x-scope"]
            .as_str()
            .map_or_else(|| escape("none"), escape),
    );
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let needed = if parameter["required"] == true {
            ""
        } else {
            " (optional)"
        };
        let _ = write!(
            html,
            "<dt><code>{}</code> in the {}{needed}</dt><dd>{}</dd>",
            text(&parameter["name"]),
            text(&parameter["in"]),
            text(&parameter["description"]),
        );
    }
    if let Some(schema) = operation["requestBody"].pointer("/content/application~1json/schema") {
        let _ = write!(html, "<dt>Body</dt><dd>{}</dd>", shape(schema));
    }
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let content = response["content"].as_object().into_iter().flatten().next();
        if let Some((kind, content)) = content {
            let _ = write!(
                html,
                "<dt>Response {}</dt><dd>{} {}</dd>",
                escape(status),
                shape(&content["schema"]),
                escape(kind)
            );
        }
    }
    let problems: Vec<&str> = operation["responses"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, response)| response["$ref"].is_string())
        .map(|(status, _)| status.as_str())
        .collect();
    let _ = writeln!(
        html,
        "<dt>Problems</dt><dd>{}</dd></dl></section>",
        escape(&problems.join(", "))
    );
    html
}

/// Short form of a schema, with a link if it has a name.
fn shape(schema: &Value) -> String {
    if let Some(name) = schema["$ref"]
        .as_str()
        .and_then(|target| target.rsplit('/').next())
    {
        return format!("<a href=\"#schema-{0}\"><code>{0}</code></a>", escape(name));
    }
    if schema["type"] == "array" {
        return format!("list of {}", shape(&schema["items"]));
    }
    format!(
        "<code>{}</code>",
        escape(schema["type"].as_str().unwrap_or("any"))
    )
}

fn first_line(text: &Value) -> &str {
    text.as_str()
        .and_then(|text| text.lines().next())
        .unwrap_or_default()
}

/// Style sheet for light and dark mode.
pub(crate) fn style() -> &'static str {
    "\
:root{color-scheme:light dark;--line:light-dark(#d0d7de,#3d444d);--soft:light-dark(#f3f5f7,#1c2128)}
body{font:16px/1.5 system-ui,sans-serif;margin:0;background:light-dark(#fff,#15191d);color:light-dark(#1c2024,#e6e9ec)}
main{max-width:60rem;margin:0 auto;padding:1rem}
main:focus{outline:none}
:focus-visible{outline:2px solid light-dark(#0550ae,#79b8ff);outline-offset:2px}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:.5rem;background:light-dark(#fff,#15191d);padding:.4rem .8rem}
a{color:light-dark(#0550ae,#79b8ff)}
h2{border-bottom:1px solid var(--line);margin-top:2.5rem}
h3{margin-bottom:.25rem}
code,pre{font-family:ui-monospace,monospace;font-size:.9em}
pre{background:var(--soft);padding:.75rem;overflow:auto;border-radius:6px}
.method{display:inline-block;min-width:4.5rem;font-size:.85em}
dl{display:grid;grid-template-columns:minmax(9rem,auto) 1fr;gap:.15rem 1rem}
dt{font-weight:600}dd{margin:0}
nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1rem;padding:0;list-style:none}
input,button{font:inherit;padding:.4rem .6rem;max-width:100%;box-sizing:border-box}
@media(max-width:40rem){dl{grid-template-columns:1fr}dd{margin-bottom:.4rem}}
"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_every_operation_and_is_self_contained() {
        let document = super::super::document();
        let page = page(&document);
        for methods in document["paths"].as_object().unwrap().values() {
            for operation in methods.as_object().unwrap().values() {
                let id = operation["operationId"].as_str().unwrap();
                assert!(page.contains(&format!("id=\"{id}\"")), "{id} is missing");
            }
        }
        for foreign in ["http://", "https://", "<script", "style=\""] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
}
