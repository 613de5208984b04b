//! Several processes on one database.

use std::collections::BTreeSet;

use crate::durability::{acknowledged, assert_whole, start_writer, stored};
use crate::support::on_both_engines;

on_both_engines! {
    async fn four_concurrent_writers_see_no_lock_error(fixture: Fixture) {
        fixture.open().await.close().await;
        let batches = 60_u32;
        let children: Vec<_> = (0..4)
            .map(|number| {
                let name = format!("process-{number}");
                let child = start_writer(&fixture.url_text, &name, Some(batches.into()));
                (name, child)
            })
            .collect();
        let store = fixture.open().await;
        for (name, mut child) in children {
            let acknowledged: BTreeSet<i64> =
                tokio::task::block_in_place(|| acknowledged(&mut child).collect());
            assert!(child.wait().unwrap().success(), "{name} failed");
            assert_eq!(acknowledged.len(), batches as usize, "{name}");
            assert_whole(&stored(&store, &name).await, &acknowledged, &name);
        }
    }
}
