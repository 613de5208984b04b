//! Rate limits that workers share through the store.

use std::time::{Duration, Instant};

use satiety::bench::rate::RateLimit;
use satiety_store::Store;
use satiety_store::rates::PermitRequest;

use crate::support::on_both_engines;

fn request(name: &str, rate: u32, count: usize) -> PermitRequest<'_> {
    PermitRequest {
        name,
        limit: RateLimit {
            requests_per_minute: Some(rate),
            tokens_per_minute: None,
        },
        count,
        tokens: 0.0,
        owed_tokens: 0.0,
    }
}

/// Adds a row to the table of limits.
pub(crate) async fn fill(store: &Store) {
    store.rates().reserve(&request("target \0", 60, 1)).await.unwrap();
}

on_both_engines! {
    async fn processes_share_a_limit(fixture: Fixture) {
        // Each with its own connections, like separate processes.
        let mut stores = Vec::new();
        for _ in 0..6 {
            stores.push(fixture.open().await);
        }
        let began = Instant::now();
        let tasks: Vec<_> = stores
            .into_iter()
            .map(|store| {
                tokio::spawn(async move {
                    let mut starts = Vec::new();
                    while began.elapsed() < Duration::from_secs(2) {
                        let taken = store.rates().reserve(&request("target", 1200, 3)).await.unwrap();
                        for permit in &taken.reservation.permits {
                            assert!(permit.end > taken.now, "a permit has expired");
                            starts.push(permit.start);
                        }
                        if taken.reservation.permits.is_empty() {
                            assert!(taken.reservation.retry_at > taken.now);
                            tokio::time::sleep(Duration::from_millis(20)).await;
                        }
                    }
                    starts
                })
            })
            .collect();
        let mut starts = Vec::new();
        for task in tasks {
            starts.extend(task.await.unwrap());
        }
        starts.sort_unstable();
        // No slot is given out twice, and slots are a minute and two seconds divided by the limit apart.
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= 62_000_000 / 1200), "{starts:?}");
        let seconds = began.elapsed().as_secs_f64();
        // Slots of the last second are given out, and those of the next one.
        let share = starts.len() as f64 / ((seconds + 2.0) * 1200.0 / 62.0);
        assert!((0.5..=1.05).contains(&share), "{} permits in {seconds} s", starts.len());
    }
}

on_both_engines! {
    async fn a_pause_applies_to_all_processes(fixture: Fixture) {
        let (one, two) = (fixture.open().await, fixture.open().await);
        one.rates().pause("target", Duration::from_secs(30)).await.unwrap();
        one.rates().pause("target", Duration::from_secs(5)).await.unwrap();
        let pauses = two.rates().pauses(&["other", "target"]).await.unwrap();
        assert_eq!(pauses.len(), 1);
        let left = pauses[0].1;
        assert!(left > Duration::from_secs(25) && left <= Duration::from_secs(30), "{left:?}");
        let taken = two.rates().reserve(&request("target", 600, 1)).await.unwrap();
        assert!(taken.reservation.permits.is_empty());
        let wait = taken.reservation.retry_at - taken.now;
        assert!((20_000_000..30_000_000).contains(&wait), "{wait}");
        assert_eq!(two.rates().reserve(&request("other", 600, 1)).await.unwrap().reservation.permits.len(), 1);
        assert!(two.rates().pauses(&[]).await.unwrap().is_empty());
        two.rates().remove_unused().await.unwrap();
        assert_eq!(two.rates().pauses(&["target"]).await.unwrap().len(), 1);
    }
}

on_both_engines! {
    async fn tokens_of_the_last_calls_are_recorded_without_a_permit(fixture: Fixture) {
        let (one, two) = (fixture.open().await, fixture.open().await);
        let limit = RateLimit { requests_per_minute: None, tokens_per_minute: Some(6200) };
        let tokens = |count, owed_tokens| PermitRequest { name: "target", limit, count, tokens: 1.0, owed_tokens };
        assert_eq!(one.rates().reserve(&tokens(1, 0.0)).await.unwrap().reservation.permits.len(), 1);
        // A worker that ends: half a minute of tokens more than reserved.
        assert!(one.rates().reserve(&tokens(0, 3100.0)).await.unwrap().reservation.permits.is_empty());
        let next = two.rates().reserve(&tokens(1, 0.0)).await.unwrap();
        assert!(next.reservation.permits.is_empty());
        let wait = next.reservation.retry_at - next.now;
        assert!((20_000_000..31_000_000).contains(&wait), "{wait}");
    }
}
