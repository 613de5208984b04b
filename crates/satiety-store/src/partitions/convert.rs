//! Partitioning a table that is in use, without copying it: the table becomes the first partition.
//!
//! Long steps do not block writers: indexes are built concurrently, and the constraint that makes a scan under
//! the exclusive lock unnecessary is validated before. The exchange itself is one short transaction. Each step
//! looks at the catalog for what is already there, so an interrupted conversion continues.

use super::extend::{add_statements, change, periods};
use super::{DAY, OWNER_INDEXES, Partitioned, day_start};
use crate::pool::Pool;
use crate::sql::{first_column, sql};
use crate::{StoreError, now_micros};

/// Time by which the first partition ends after now: until then, processes of the version before can write.
const GRACE: i64 = 2 * DAY;

/// A table and the length of its periods.
pub(super) struct Layout<'a> {
    pub(super) table: &'a Partitioned,
    pub(super) width: i64,
}

/// Partitions a table, if it is not partitioned.
pub(super) async fn convert(pool: &Pool, layout: &Layout<'_>) -> Result<(), StoreError> {
    let table = layout.table.table;
    let kind = "SELECT c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = current_schema() AND c.relname = $1";
    let kind: String = pool.one(sql!(kind; table)).await?.get(0)?;
    if kind == "p" {
        return Ok(());
    }
    let first = format!("SELECT CAST(1 AS BIGINT) FROM {table} LIMIT 1");
    if pool.row(sql!(first)).await?.is_none() {
        // Without rows, everything fits into the transaction of the exchange. A row that is written meanwhile
        // has a time of today at the earliest, so this does not lose it: attaching would fail.
        let indexes = missing_indexes(pool, layout.table).await?;
        let builds = indexes
            .iter()
            .map(|(name, unique, columns)| index_statement(table, name, *unique, columns, false));
        let builds: Vec<String> = builds.collect();
        let bound = day_start(now_micros());
        let prepare = format!(
            "LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE;\n{}",
            builds.join("\n")
        );
        return match exchange(pool, layout, &prepare, bound).await {
            // A row was written before the lock was taken: go on as for a table with rows.
            Err(error) if !is_check_violation(&error) => Err(error),
            Ok(()) => Ok(()),
            Err(_) => convert_online(pool, layout).await,
        };
    }
    convert_online(pool, layout).await
}

async fn convert_online(pool: &Pool, layout: &Layout<'_>) -> Result<(), StoreError> {
    let table = layout.table.table;
    tracing::info!(table, "partitioning a table; writers are not blocked");
    for (name, unique, columns) in missing_indexes(pool, layout.table).await? {
        let build = index_statement(table, &name, unique, columns, true);
        pool.execute_outside_transaction(&build).await?;
    }
    let bound = bound(pool, layout.table).await?;
    let validate = format!("ALTER TABLE {table} VALIDATE CONSTRAINT {table}_before_bound");
    pool.execute_outside_transaction(&validate).await?;
    exchange(pool, layout, "", bound).await
}

/// Adds the constraint that the first partition has, if it is not there or ends too soon; returns its end.
async fn bound(pool: &Pool, partitioned: &Partitioned) -> Result<i64, StoreError> {
    let Partitioned { table, column, .. } = partitioned;
    let select = sql!(
        "SELECT pg_get_constraintdef(c.oid) FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid
         JOIN pg_namespace n ON n.oid = t.relnamespace
         WHERE n.nspname = current_schema() AND t.relname = $1 AND c.conname = $2";
        *table, format!("{table}_before_bound")
    );
    let found: Option<String> = first_column(&pool.rows(select).await?)?.pop();
    // `CHECK ((at < '1763510400000000'::bigint)) NOT VALID`
    let end = found.as_deref().and_then(|text| {
        let digits = text.split_once('<')?.1.trim_start_matches([' ', '\'']);
        let length = digits.find(|letter: char| !letter.is_ascii_digit())?;
        digits[..length].parse::<i64>().ok()
    });
    let now = now_micros();
    if let Some(end) = end.filter(|end| *end >= now + DAY) {
        return Ok(end);
    }
    // Rows from the future, by a wrong clock, must fit as well. Only tables with a time of their own can have
    // them; a new `partition_at` is 0.
    let mut latest = now + GRACE;
    if *column != "partition_at" {
        let select = format!("SELECT MAX({column}) FROM {table}");
        latest = latest.max(pool.one(sql!(select)).await?.get::<Option<i64>>(0)?.unwrap_or(0));
    }
    let end = day_start(latest) + DAY;
    change(
        pool,
        &format!(
            "ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {table}_before_bound;
             ALTER TABLE {table} ADD CONSTRAINT {table}_before_bound CHECK ({column} < {end}) NOT VALID;"
        ),
    )
    .await?;
    Ok(end)
}

/// Indexes that the partitioned table will have and the table does not have yet. An existing index may have the
/// final name, or that of the first partition. Removes indexes whose build was interrupted.
async fn missing_indexes(
    pool: &Pool,
    partitioned: &Partitioned,
) -> Result<Vec<(String, bool, &'static str)>, StoreError> {
    let select = sql!(
        "SELECT c.relname::text, i.indisvalid, i.indnkeyatts::bigint FROM pg_index i
         JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
         JOIN pg_namespace n ON n.oid = t.relnamespace WHERE n.nspname = current_schema() AND t.relname = $1";
        partitioned.table
    );
    let mut known = std::collections::HashMap::new();
    for row in pool.rows(select).await? {
        known.insert(row.get::<String>(0)?, (row.get::<bool>(1)?, row.get::<i64>(2)?));
    }
    let mut missing = Vec::new();
    for (name, unique, columns) in partitioned.indexes {
        let build = format!("{name}_before");
        match known.get(&build) {
            Some((true, _)) => continue,
            Some((false, _)) => {
                pool.execute_outside_transaction(&format!("DROP INDEX CONCURRENTLY IF EXISTS {build}"))
                    .await?;
            }
            None => {}
        }
        let keys = columns.split(')').next().unwrap_or_default().split(',').count();
        let fits = known
            .get(*name)
            .is_some_and(|(valid, found)| *valid && usize::try_from(*found).is_ok_and(|found| found == keys));
        if !fits {
            missing.push((build, *unique, *columns));
        }
    }
    Ok(missing)
}

fn index_statement(table: &str, name: &str, unique: bool, columns: &str, concurrently: bool) -> String {
    format!(
        "CREATE {}INDEX {}{name} ON {table} {columns};",
        if unique { "UNIQUE " } else { "" },
        if concurrently { "CONCURRENTLY " } else { "" },
    )
}

/// Makes the table the first partition of a new one with its name, in one transaction.
async fn exchange(pool: &Pool, layout: &Layout<'_>, prepare: &str, bound: i64) -> Result<(), StoreError> {
    let Layout {
        table: partitioned,
        width,
    } = layout;
    let Partitioned {
        table,
        column,
        indexes,
        owner,
    } = partitioned;
    let mut statements = vec![
        // Writers lock the parent first; the same order avoids deadlocks.
        if owner == table {
            String::new()
        } else {
            format!("LOCK TABLE {owner} IN SHARE ROW EXCLUSIVE MODE;")
        },
        prepare.to_owned(),
        format!("ALTER TABLE {table} RENAME TO {table}_before;"),
        format!("ALTER TABLE {table}_before DROP CONSTRAINT IF EXISTS {table}_pkey;"),
    ];
    let names: Vec<&str> = indexes.iter().map(|(name, ..)| *name).collect();
    statements.push(rename_indexes(table, &names));
    statements.push(format!(
        "CREATE TABLE {table} (LIKE {table}_before INCLUDING DEFAULTS) PARTITION BY RANGE ({column});"
    ));
    if *column == "partition_at" {
        // A process of the version before does not set the time. Its rows would not be where readers look for them,
        // so that its writes must fail.
        statements.push(format!(
            "ALTER TABLE {table} ALTER COLUMN partition_at DROP DEFAULT;"
        ));
    }
    statements.push(copy_constraints_and_grants(table));
    for (name, unique, columns) in *indexes {
        statements.push(index_statement(table, name, *unique, columns, false));
    }
    statements.push(format!(
        "ALTER TABLE {table} ATTACH PARTITION {table}_before FOR VALUES FROM (MINVALUE) TO ({bound});
         ALTER TABLE {table}_before DROP CONSTRAINT IF EXISTS {table}_before_bound;
         CREATE TABLE {table}_default PARTITION OF {table} DEFAULT;"
    ));
    for (from, to) in periods(bound, now_micros(), *width) {
        statements.push(add_statements(partitioned, from, to));
    }
    change(pool, &statements.join("\n")).await
}

/// Gives the indexes of the first partition names of their own, and removes those that do not have the time in
/// their unique key: they are replaced.
fn rename_indexes(table: &str, names: &[&str]) -> String {
    let list: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    format!(
        "DO $$ DECLARE name text; BEGIN
             FOR name IN SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                 WHERE i.indrelid = '{table}_before'::regclass AND c.relname IN ({})
             LOOP
                 IF to_regclass(quote_ident(name || '_before')) IS NULL THEN
                     EXECUTE format('ALTER INDEX %I RENAME TO %I', name, name || '_before');
                 ELSE
                     EXECUTE format('DROP INDEX %I', name);
                 END IF;
             END LOOP;
         END $$;",
        list.join(", ")
    )
}

/// Copies check constraints, foreign keys and privileges from the first partition to the new table.
fn copy_constraints_and_grants(table: &str) -> String {
    format!(
        "DO $$ DECLARE statement text; BEGIN
             FOR statement IN SELECT format('ALTER TABLE {table} ADD CONSTRAINT %I %s', conname,
                     pg_get_constraintdef(oid)) FROM pg_constraint
                 WHERE conrelid = '{table}_before'::regclass AND contype IN ('c', 'f')
                     AND conname <> '{table}_before_bound'
             LOOP EXECUTE statement; END LOOP;
             FOR statement IN SELECT format('GRANT %s ON {table} TO %s', a.privilege_type,
                     CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END)
                 FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = '{table}_before'::regclass
                     AND a.grantee <> c.relowner
             LOOP EXECUTE statement; END LOOP;
         END $$;"
    )
}

/// Builds the indexes of parents that retention needs, without blocking writers.
pub(super) async fn index_owners(pool: &Pool) -> Result<(), StoreError> {
    for (table, name) in OWNER_INDEXES {
        let select = sql!(
            "SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
             JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE n.nspname = current_schema() AND c.relname = $1";
            *name
        );
        match first_column::<bool>(&pool.rows(select).await?)?.first() {
            Some(true) => continue,
            Some(false) => {
                pool.execute_outside_transaction(&format!("DROP INDEX CONCURRENTLY IF EXISTS {name}"))
                    .await?;
            }
            None => {}
        }
        let build = format!("CREATE INDEX CONCURRENTLY {name} ON {table} (partition_at)");
        pool.execute_outside_transaction(&build).await?;
    }
    Ok(())
}

fn is_check_violation(error: &StoreError) -> bool {
    matches!(error, StoreError::Engine { cause, .. }
        if cause.as_database_error().is_some_and(sqlx::error::DatabaseError::is_check_violation))
}
