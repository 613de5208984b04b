//! API tokens of a server and the audit log. A secret is shown once; only its hash is stored.

use crate::handles::TokenOperations;
use satiety::Hint;
use std::fmt;
use std::str::FromStr;

use satiety_store::journal::Event;
use satiety_store::now_micros;
use satiety_store::tokens::TokenRow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use zeroize::Zeroizing;

use crate::EngineError;

/// Prefix of every token, so that secret scanners can recognize it.
const PREFIX: &str = "satiety";
const DAY: i64 = 24 * 60 * 60 * 1_000_000;
/// `last_used_at` has a resolution of one minute: more would turn every request into a write.
const LAST_USED_RESOLUTION: i64 = 60 * 1_000_000;

/// Permissions of a token; each scope includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Read data and run stateless computations.
    Read,
    /// Store data: conversations, memories, answers to proposals.
    Write,
    /// Run suites, activate a scorer, record a cycle.
    Admin,
}

impl Scope {
    /// Returns the serialized name of the scope.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Read, Self::Write, Self::Admin]
            .into_iter()
            .find(|scope| scope.name() == text)
            .ok_or_else(|| format!("unknown scope `{text}` (expected one of: read, write, admin)"))
    }
}

/// Request to create a token.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTokenRequest {
    /// Descriptive name chosen by the owner.
    #[schemars(length(min = 1, max = 200))]
    pub name: String,
    /// Permissions of the token.
    pub scope: Scope,
    /// Lifetime in days; a token without one never expires.
    #[serde(default)]
    #[schemars(range(min = 1, max = 36_500))]
    pub expires_in_days: Option<u32>,
}

/// A newly created token with its secret.
#[derive(Clone, Serialize, JsonSchema)]
pub struct CreatedToken {
    /// The secret token; shown only once, in this response.
    pub token: String,
    /// Metadata of the token, without its secret.
    #[serde(flatten)]
    pub about: Token,
}

// A derived `Debug` could write the secret to a log.
impl fmt::Debug for CreatedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreatedToken")
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}

/// Metadata of a token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Token {
    /// Public id, the non-secret part of the token.
    pub token_id: String,
    /// Descriptive name chosen by the owner.
    pub name: String,
    /// Scope that the token permits.
    pub scope: Scope,
    /// Time when the token was created.
    pub created_at: jiff::Timestamp,
    /// Time when the token expires; absent if it never does.
    pub expires_at: Option<jiff::Timestamp>,
    /// Time when the token was revoked, if it was.
    pub revoked_at: Option<jiff::Timestamp>,
    /// Time of the last authenticated request, to the minute.
    pub last_used_at: Option<jiff::Timestamp>,
    /// Whether the token is neither expired nor revoked.
    pub valid: bool,
    /// Tenant whose data the token gives access to; absent for the main store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// All API tokens of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TokenList {
    /// Tokens, most recently created first.
    pub tokens: Vec<Token>,
}

/// A write request made through a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// Time of the write request.
    pub at: jiff::Timestamp,
    /// Token id of the caller, or `loopback`.
    pub who: String,
    /// IP address of the client.
    pub address: String,
    /// HTTP method of the request.
    pub method: String,
    /// Request path without the query string.
    pub path: String,
    /// HTTP status code of the response.
    pub status: u16,
    /// Request id, as in logs and responses.
    pub request_id: String,
}

/// Audit log of write requests made through a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AuditLog {
    /// Audit entries, most recent first.
    pub entries: Vec<AuditEntry>,
}

/// Journal event type of a write through a server.
const AUDIT: &str = "server.write";

impl TokenOperations<'_> {
    /// Creates a token. The response is the only place that ever contains the secret.
    pub async fn create(self, request: CreateTokenRequest) -> Result<CreatedToken, EngineError> {
        let name = request.name.trim();
        if name.is_empty() || name.len() > 200 {
            return Err(EngineError::Unacceptable {
                what: "this token name".into(),
                hint: "use 1 to 200 characters that say what it is for, such as `ci`".into(),
            });
        }
        let mut random = Zeroizing::new([0_u8; 40]);
        getrandom::fill(&mut *random).map_err(|error| EngineError::File {
            action: "read",
            path: "the system's random number generator".into(),
            cause: std::io::Error::other(error.to_string()),
        })?;
        let digits = Zeroizing::new(random.iter().fold(String::with_capacity(80), |mut text, byte| {
            use fmt::Write as _;
            let _ = write!(text, "{byte:02x}");
            text
        }));
        // 64 bits identify the token, 256 bits are the secret.
        let (token_id, secret) = digits.split_at(16);
        let now = now_micros();
        let row = TokenRow {
            token_id: token_id.to_owned(),
            name: name.to_owned(),
            hash: hash(secret).to_hex().to_string(),
            scope: request.scope.name().into(),
            created_at: now,
            expires_at: request.expires_in_days.map(|days| now + i64::from(days) * DAY),
            revoked_at: None,
            last_used_at: None,
            tenant: self.engine.tenant_name().map(str::to_owned),
        };
        let store = self.engine.registry().store().await?;
        store.tokens().put(&row).await?;
        let body =
            json!({"name": row.name, "scope": row.scope, "expires_at": row.expires_at, "tenant": row.tenant});
        store
            .journal()
            .append(Event::now("token.created", token_id, body))
            .await?;
        Ok(CreatedToken {
            token: format!("{PREFIX}_{token_id}_{secret}"),
            about: token_metadata(row),
        })
    }

    /// Lists all tokens; a tenant sees its own.
    pub async fn list(self) -> Result<TokenList, EngineError> {
        let rows = self.visible_rows().await?;
        Ok(TokenList {
            tokens: rows.into_iter().map(token_metadata).collect(),
        })
    }

    /// Tokens that the engine may administer.
    async fn visible_rows(self) -> Result<Vec<TokenRow>, EngineError> {
        let mut rows = self.engine.registry().store().await?.tokens().list().await?;
        if let Some(tenant) = self.engine.tenant_name() {
            rows.retain(|row| row.tenant.as_deref() == Some(tenant));
        }
        Ok(rows)
    }

    /// Revokes a token by id, or by name if only one valid token has it.
    pub async fn revoke(self, named: &str) -> Result<Token, EngineError> {
        let store = self.engine.registry().store().await?;
        let now = now_micros();
        let rows: Vec<TokenRow> = self
            .visible_rows()
            .await?
            .into_iter()
            .filter(|row| row.token_id == named || (row.name == named && is_valid(row, now)))
            .collect();
        let row = match <[TokenRow; 1]>::try_from(rows) {
            Ok([row]) => row,
            Err(rows) => {
                return Err(EngineError::NotFound {
                    what: match rows.len() {
                        0 => format!("token `{named}`"),
                        count => format!("single token `{named}` ({count} tokens have this name)"),
                    },
                    hint: Hint::with_command("list the tokens to see their ids", "satiety token list"),
                });
            }
        };
        store.tokens().revoke(&row.token_id, now).await?;
        store
            .journal()
            .append(Event::now(
                "token.revoked",
                &row.token_id,
                json!({"name": row.name}),
            ))
            .await?;
        let row = store.tokens().get(&row.token_id).await?.unwrap_or(row);
        Ok(token_metadata(row))
    }

    /// Authenticates a token; returns `None` if it is unknown, expired or revoked, or if its tenant is disabled.
    pub async fn check(self, presented: &str) -> Result<Option<Token>, EngineError> {
        let Some((token_id, secret)) = split_token(presented) else {
            return Ok(None);
        };
        let store = self.engine.registry().store().await?;
        let Some(row) = store.tokens().get_enabled(token_id).await? else {
            return Ok(None);
        };
        let Ok(kept) = blake3::Hash::from_hex(&row.hash) else {
            return Ok(None);
        };
        let now = now_micros();
        // Comparing two hashes takes constant time.
        if kept != hash(secret) || !is_valid(&row, now) {
            return Ok(None);
        }
        if row.last_used_at.is_none_or(|at| now - at > LAST_USED_RESOLUTION) {
            store.tokens().touch(token_id, now).await?;
        }
        Ok(Some(token_metadata(row)))
    }

    /// Records a write through a server in the audit log.
    pub async fn audit(self, entry: &AuditEntry) -> Result<(), EngineError> {
        let event = Event::now(AUDIT, &entry.who, serde_json::to_value(entry)?);
        Ok(self.engine.store().await?.journal().append(event).await?)
    }

    /// Returns the audit log, most recent first.
    pub async fn audit_log(self, limit: u32) -> Result<AuditLog, EngineError> {
        let events = self
            .engine
            .store()
            .await?
            .journal()
            .latest(AUDIT, i64::from(limit))
            .await?;
        let entries = events
            .into_iter()
            .map(|event| serde_json::from_value(event.body))
            .collect::<Result<_, _>>()?;
        Ok(AuditLog { entries })
    }
}

/// Splits a well-formed token into its id and secret.
fn split_token(presented: &str) -> Option<(&str, &str)> {
    let rest = presented.strip_prefix(PREFIX)?.strip_prefix('_')?;
    let (token_id, secret) = rest.split_once('_')?;
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (digits(token_id, 16) && digits(secret, 64)).then_some((token_id, secret))
}

/// A fast hash is enough: a secret of 256 random bits cannot be guessed from it.
fn hash(secret: &str) -> blake3::Hash {
    blake3::hash(secret.as_bytes())
}

fn is_valid(row: &TokenRow, now: i64) -> bool {
    row.revoked_at.is_none() && row.expires_at.is_none_or(|at| at > now)
}

fn token_metadata(row: TokenRow) -> Token {
    Token {
        valid: is_valid(&row, now_micros()),
        // The table accepts no other scope; a corrupt value gets the fewest permissions.
        scope: row.scope.parse().unwrap_or(Scope::Read),
        token_id: row.token_id,
        name: row.name,
        created_at: crate::time(row.created_at),
        expires_at: row.expires_at.map(crate::time),
        revoked_at: row.revoked_at.map(crate::time),
        last_used_at: row.last_used_at.map(crate::time),
        tenant: row.tenant,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_tokens_are_rejected_without_a_lookup() {
        let good = format!("satiety_{}_{}", "0".repeat(16), "a".repeat(64));
        assert!(split_token(&good).is_some());
        for bad in [
            "",
            "satiety_",
            "Bearer x",
            &good.replace("satiety", "other"),
            &good[..good.len() - 1],
            &good.replace('a', "'"),
            &format!("{good}0"),
        ] {
            assert_eq!(split_token(bad), None, "{bad}");
        }
    }

    #[test]
    fn broader_scopes_include_narrower_ones() {
        assert!(Scope::Admin > Scope::Write && Scope::Write > Scope::Read);
        assert_eq!("write".parse(), Ok(Scope::Write));
        assert!("root".parse::<Scope>().is_err());
    }
}
