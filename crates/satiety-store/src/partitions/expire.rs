//! Retention of whole partitions: a period whose rows are all past their retention time is dropped.

use std::path::Path;

use futures_util::TryStreamExt;

use super::{Bounds, PARTITIONED, Partitioned, partitions};
use crate::retention::{Archive, Scope};
use crate::sql::sql;
use crate::transfer::row_to_json;
use crate::{Store, StoreError};

/// Rows that are archived at once.
const BATCH: usize = 1000;

/// Partitions whose period ended before the retention time began.
pub(crate) struct ExpiredPartitions {
    cutoff: i64,
    found: Vec<Expired>,
}

struct Expired {
    partitioned: &'static Partitioned,
    name: String,
    from: i64,
    to: i64,
}

impl ExpiredPartitions {
    /// Finds the partitions of a rule's table, and of the tables whose rows belong to its rows, oldest first.
    pub(crate) async fn find(store: &Store, scope: &Scope<'_>, cutoff: i64) -> Result<Self, StoreError> {
        let mut found = Vec::new();
        // A prefix selects rows, never whole periods.
        if scope.prefix.is_empty() {
            for partition in partitions(&store.pool).await? {
                let owned =
                    |table: &&Partitioned| table.table == partition.table && table.owner == scope.table.name;
                let (Some(partitioned), Bounds::Period(from, to)) =
                    (PARTITIONED.iter().find(owned), partition.bounds)
                else {
                    continue;
                };
                if to <= cutoff {
                    let name = partition.name;
                    found.push(Expired {
                        partitioned,
                        name,
                        from,
                        to,
                    });
                }
            }
        }
        found.sort_by_key(|expired| expired.from);
        Ok(Self { cutoff, found })
    }

    /// Counts the rows of the rule's table in them.
    pub(crate) async fn count_rows(&self, store: &Store, scope: &Scope<'_>) -> Result<u64, StoreError> {
        let mut rows = 0;
        for expired in self.own(scope) {
            rows += store.count_rows(&expired.name).await?.0;
        }
        Ok(u64::try_from(rows).unwrap_or(0))
    }

    fn own(&self, scope: &Scope<'_>) -> impl Iterator<Item = &Expired> {
        let table = scope.table.name;
        self.found
            .iter()
            .filter(move |expired| expired.partitioned.table == table)
    }

    /// Archives (if `archive_folder` is given) and drops the partitions; returns the number of rows of the
    /// rule's table in them. Rows that belong to rows of the rule's table are archived with these.
    pub(crate) async fn remove(
        &self,
        store: &Store,
        scope: &Scope<'_>,
        archive_folder: Option<&Path>,
        archive: &mut Option<Archive>,
    ) -> Result<u64, StoreError> {
        let mut removed = 0;
        for expired in &self.found {
            let is_own = expired.partitioned.table == scope.table.name;
            let young = expired.select_young(scope, self.cutoff);
            if (!is_own && archive_folder.is_some()) || store.pool.row(sql!(young.clone())).await?.is_some() {
                continue;
            }
            expired.keep_marked_rows(store, scope).await?;
            let (rows, exact) = match archive_folder {
                Some(folder) => {
                    let rows = expired.archive(store, scope, folder, archive).await?;
                    (rows, Some(rows))
                }
                None => (store.count_rows(&expired.name).await?.0, None),
            };
            // Looks again for young rows under the lock: one may have been written meanwhile.
            let owner = (!is_own).then_some(scope.table.name);
            let dropped =
                super::drop_partition(&store.pool, &expired.name, exact, owner, Some(&young)).await?;
            if dropped && is_own {
                removed += u64::try_from(rows).unwrap_or(0);
            }
        }
        Ok(removed)
    }

    /// Drops the partitions that have no rows.
    pub(crate) async fn remove_empty(&mut self, store: &Store) -> Result<(), StoreError> {
        let known = partitions(&store.pool).await?;
        for expired in &self.found {
            if known.iter().any(|partition| partition.name == expired.name) {
                super::drop_partition(&store.pool, &expired.name, Some(0), None, None).await?;
            }
        }
        Ok(())
    }
}

impl Expired {
    /// Statement that selects a row that is younger than its partition says, or that has such rows in it.
    fn select_young(&self, scope: &Scope<'_>, cutoff: i64) -> String {
        let (table, age) = (scope.table.name, scope.age);
        if self.partitioned.table == table {
            return format!(
                "SELECT CAST(1 AS BIGINT) FROM {} WHERE {age} >= {cutoff} LIMIT 1",
                self.name
            );
        }
        format!(
            "SELECT CAST(1 AS BIGINT) FROM {table}
             WHERE partition_at >= {} AND partition_at < {} AND {age} >= {cutoff} LIMIT 1",
            self.from, self.to
        )
    }

    /// Moves rows that are exempt from retention to the first partition.
    async fn keep_marked_rows(&self, store: &Store, scope: &Scope<'_>) -> Result<(), StoreError> {
        if let (Some(keep), true) = (scope.table.keep, self.partitioned.table == scope.table.name) {
            let update = format!(
                "UPDATE {} SET partition_at = 0 WHERE {keep} AND partition_at >= $1 AND partition_at < $2",
                scope.table.name
            );
            store.pool.execute(sql!(update; self.from, self.to)).await?;
        }
        Ok(())
    }

    /// Writes all rows to the archive; returns their number.
    async fn archive(
        &self,
        store: &Store,
        scope: &Scope<'_>,
        folder: &Path,
        archive: &mut Option<Archive>,
    ) -> Result<i64, StoreError> {
        let select = format!(
            "SELECT {} FROM {} ORDER BY {}",
            scope.table.column_list(),
            self.name,
            scope.age
        );
        let mut snapshot = store.pool.begin_snapshot().await?;
        let mut stream = snapshot.stream(&sql!(select))?;
        let mut batch = Vec::with_capacity(BATCH);
        let mut count = 0;
        loop {
            let row = stream.try_next().await?;
            let ended = row.is_none();
            if let Some(row) = row {
                batch.push(row_to_json(scope.table, &row)?);
                count += 1;
            }
            if !batch.is_empty() && (ended || batch.len() == BATCH) {
                let file = Archive::open(archive, folder, scope.table.name).await?;
                file.write(scope.table.name, &batch).await?;
                batch.clear();
            }
            if ended {
                break;
            }
        }
        if let Some(file) = archive {
            file.sync().await?;
        }
        Ok(count)
    }
}
