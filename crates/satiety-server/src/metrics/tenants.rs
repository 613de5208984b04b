//! Usage of the tenants as metrics, for admins of the main store. The number of labels is bounded.

use std::cmp::Reverse;
use std::fmt::Write as _;

use satiety_engine::tenants::Tenant;

/// Tenants with labels of their own: those with the most requests today. The others are summed up.
const MAX_LABELS: usize = 200;

/// Label of the other tenants; not a valid name of a tenant.
const OTHERS: &str = "_others";

/// Usage in the `OpenMetrics` text format.
pub(crate) fn tenants_text(tenants: &[Tenant]) -> String {
    type Reading = fn(&Tenant) -> Option<u64>;
    let mut order: Vec<&Tenant> = tenants.iter().collect();
    order.sort_by_key(|tenant| (Reverse(tenant.usage.requests), tenant.name.as_str()));
    let (shown, others) = order.split_at(order.len().min(MAX_LABELS));
    let metrics: [(&str, &str, Reading); 6] = [
        (
            "tenant_requests_today",
            "Requests of a tenant since midnight UTC",
            |tenant| Some(tenant.usage.requests),
        ),
        (
            "tenant_requests_per_day_quota",
            "Maximum number of requests of a tenant per day",
            |tenant| tenant.quotas.requests_per_day,
        ),
        (
            "tenant_model_tokens_today",
            "Tokens that models processed for a tenant since midnight UTC",
            |tenant| Some(tenant.usage.model_tokens),
        ),
        (
            "tenant_model_tokens_per_day_quota",
            "Maximum number of tokens of model work of a tenant per day",
            |tenant| tenant.quotas.model_tokens_per_day,
        ),
        (
            "tenant_storage_bytes",
            "Size of a tenant's store when it was last measured today",
            |tenant| tenant.usage.storage_bytes,
        ),
        (
            "tenant_storage_quota_bytes",
            "Maximum size of a tenant's store",
            |tenant| tenant.quotas.storage_bytes,
        ),
    ];
    let mut text = String::new();
    for (name, help, value) in metrics {
        let _ = writeln!(text, "# HELP satiety_{name} {help}.\n# TYPE satiety_{name} gauge");
        for tenant in shown {
            if let Some(value) = value(tenant) {
                // A name has only letters, digits and hyphens, so that nothing is to be escaped.
                let _ = writeln!(text, "satiety_{name}{{tenant=\"{}\"}} {value}", tenant.name);
            }
        }
        let rest: Vec<u64> = others.iter().filter_map(|tenant| value(tenant)).collect();
        if !rest.is_empty() {
            let sum: u64 = rest.iter().fold(0, |sum, value| sum.saturating_add(*value));
            let _ = writeln!(text, "satiety_{name}{{tenant=\"{OTHERS}\"}} {sum}");
        }
    }
    text.push_str("# EOF\n");
    text
}

#[cfg(test)]
mod tests {
    use satiety_engine::tenants::TenantUsage;

    use super::*;

    #[test]
    fn the_number_of_labels_is_bounded() {
        let tenant = |number: u64| Tenant {
            name: format!("t{number}"),
            enabled: true,
            created_at: jiff::Timestamp::UNIX_EPOCH,
            disabled_at: None,
            store: String::new(),
            root: None,
            quotas: satiety::quota::Quotas::default(),
            usage: TenantUsage {
                requests: number,
                ..TenantUsage::default()
            },
        };
        let many: Vec<Tenant> = (0..250).map(tenant).collect();
        let text = tenants_text(&many);
        assert!(text.contains("satiety_tenant_requests_today{tenant=\"t249\"} 249\n"));
        // 0 + 1 + … + 49
        assert!(text.contains("satiety_tenant_requests_today{tenant=\"_others\"} 1225\n"));
        let labels = text.matches("satiety_tenant_requests_today{").count();
        assert_eq!(labels, MAX_LABELS + 1);
        assert!(!text.contains("quota{"), "no quotas are set");
    }
}
