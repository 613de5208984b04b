//! Quotas and usage of a tenant, at the end of its overview.

use std::fmt::Write as _;

use satiety_engine::Engine;
use satiety_report::html::escape;

/// The overview with the usage of the engine's tenant; unchanged for the main store.
pub(super) fn with_usage(page: &str, engine: &Engine) -> String {
    let Some(meter) = engine.meter() else {
        return page.to_owned();
    };
    let (quotas, today, storage) = meter.snapshot();
    let rows = [
        ("Requests today", Some(today.requests), quotas.requests_per_day),
        (
            "Model tokens today",
            Some(today.tokens),
            quotas.model_tokens_per_day,
        ),
        ("Storage in bytes", storage, quotas.storage_bytes),
    ];
    let mut table = String::new();
    for (name, used, limit) in rows {
        let number = |value: Option<u64>| value.map_or_else(|| "–".into(), |value| value.to_string());
        let _ = write!(
            table,
            "<tr><th scope=\"row\">{name}</th><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
            number(used),
            limit.map_or_else(|| "no limit".into(), |limit| limit.to_string())
        );
    }
    let section = format!(
        "<section id=\"usage\"><h2>Usage of tenant {}</h2><table><thead><tr><th scope=\"col\">Quota</th>\
         <th scope=\"col\">Used</th><th scope=\"col\">Limit</th></tr></thead><tbody>{table}</tbody></table></section>\n",
        escape(meter.name())
    );
    page.replacen("</main>", &format!("{section}</main>"), 1)
}
