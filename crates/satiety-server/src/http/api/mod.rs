//! Route table: everything that `/v1` offers, once. The router and the OpenAPI document are generated from
//! it.

mod bench;
mod bindings;
mod conversations;
mod operation;
mod research;
mod retrieval_runs;

use std::sync::LazyLock;

use satiety_engine::operations::Operation;

use super::route::Route;

pub use research::ResearchJobProgress;
pub use retrieval_runs::RetrievalJobProgress;

/// Operations of the server itself.
pub(super) fn operations() -> Vec<Operation> {
    let mut operations = bench::operations();
    operations.extend(research::operations());
    operations.extend(retrieval_runs::operations());
    operations.extend(operation::operations());
    operations
}

/// All routes. They are made once per process: their schemas take a while, and each tenant has a router.
pub(crate) fn routes() -> Vec<Route> {
    static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(make_routes);
    ROUTES.clone()
}

fn make_routes() -> Vec<Route> {
    let mut routes: Vec<Route> = bindings::bindings()
        .into_iter()
        .filter_map(Route::of_operation)
        .collect();
    routes.extend(conversations::routes());
    routes.extend(bench::routes());
    routes.extend(operation::routes());
    routes
}

#[cfg(test)]
mod tests {
    use satiety_engine::operations;

    use super::super::route::Kind;
    use super::*;

    #[test]
    fn every_binding_has_its_operation() {
        assert_eq!(
            bindings::bindings().len(),
            routes()
                .iter()
                .filter(|route| matches!(route.kind, Kind::Operation(_)))
                .count()
        );
        assert!(operations::all().len() > 40);
    }
}
