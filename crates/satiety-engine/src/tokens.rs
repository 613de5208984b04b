//! Tokens: who may ask a server, and for what. The secret is shown once and only its hash is kept.

use crate::handles::TokenOperations;
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

/// What every token begins with, so that scanners for leaked secrets can know it.
const PREFIX: &str = "satiety";
const DAY: i64 = 24 * 60 * 60 * 1_000_000;
/// `last_used_at` is kept to the minute: more would make every request a write.
const USED_EVERY: i64 = 60 * 1_000_000;

/// What a token permits; each permits what the ones before it do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// To look, and to have things computed that nobody keeps.
    Read,
    /// To keep things: conversations, memories, answers to proposals.
    Write,
    /// To run suites, to put a scorer into force, to record a cycle.
    Admin,
}

impl Scope {
    /// Its name.
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
            .ok_or_else(|| format!("`{text}` is not one of read, write, admin"))
    }
}

/// A token to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTokenRequest {
    /// What its owner calls it.
    pub name: String,
    /// What it permits.
    pub scope: Scope,
    /// For how many days; none for ever.
    pub expires_in_days: Option<u32>,
}

/// A token that was made.
#[derive(Clone, Serialize, JsonSchema)]
pub struct CreatedToken {
    /// The token itself: shown here and never again.
    pub token: String,
    /// What is known about it.
    #[serde(flatten)]
    pub about: Token,
}

// The secret must not get into a log by a derived `Debug`.
impl fmt::Debug for CreatedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreatedToken")
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}

/// A token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Token {
    /// The part of it that is no secret.
    pub token_id: String,
    /// What its owner calls it.
    pub name: String,
    /// What it permits.
    pub scope: Scope,
    /// When it was made.
    pub created_at: jiff::Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<jiff::Timestamp>,
    /// When it was taken back.
    pub revoked_at: Option<jiff::Timestamp>,
    /// When it last let somebody in, to the minute.
    pub last_used_at: Option<jiff::Timestamp>,
    /// Whether it lets anybody in now.
    pub valid: bool,
}

/// All tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TokenList {
    /// The newest first.
    pub tokens: Vec<Token>,
}

/// A write that was made through a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// When.
    pub at: jiff::Timestamp,
    /// Who: the id of a token, or `loopback`.
    pub who: String,
    /// From which address.
    pub address: String,
    /// The method.
    pub method: String,
    /// The path, without a query.
    pub path: String,
    /// The status of the answer.
    pub status: u16,
    /// What tells this request from others in logs and answers.
    pub request_id: String,
}

/// Writes that were made through a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AuditLog {
    /// The latest first.
    pub entries: Vec<AuditEntry>,
}

/// The journal's name for a write through a server.
const AUDIT: &str = "server.write";

impl TokenOperations<'_> {
    /// Makes a token. What is returned is the only place where its secret ever stands.
    pub async fn create(self, request: CreateTokenRequest) -> Result<CreatedToken, EngineError> {
        let name = request.name.trim();
        if name.is_empty() || name.len() > 200 {
            return Err(EngineError::Unacceptable {
                what: "this name of a token".into(),
                hint: "say in 1 to 200 letters what it is for, such as `ci`".into(),
            });
        }
        let mut random = Zeroizing::new([0_u8; 40]);
        getrandom::fill(&mut *random).map_err(|error| EngineError::File {
            action: "read",
            path: "the system's source of chance".into(),
            cause: std::io::Error::other(error.to_string()),
        })?;
        let digits = Zeroizing::new(random.iter().fold(String::with_capacity(80), |mut text, byte| {
            use fmt::Write as _;
            let _ = write!(text, "{byte:02x}");
            text
        }));
        // 64 bits name it, 256 bits are the secret.
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
        };
        let store = self.engine.store().await?;
        store.tokens().put(&row).await?;
        let body = json!({"name": row.name, "scope": row.scope, "expires_at": row.expires_at});
        store
            .journal()
            .append(Event::now("token.created", token_id, body))
            .await?;
        Ok(CreatedToken {
            token: format!("{PREFIX}_{token_id}_{secret}"),
            about: shown(row),
        })
    }

    /// All tokens.
    pub async fn list(self) -> Result<TokenList, EngineError> {
        let rows = self.engine.store().await?.tokens().list().await?;
        Ok(TokenList {
            tokens: rows.into_iter().map(shown).collect(),
        })
    }

    /// Takes a token back, by its id or by its name where only one valid token has it.
    pub async fn revoke(self, named: &str) -> Result<Token, EngineError> {
        let store = self.engine.store().await?;
        let now = now_micros();
        let rows: Vec<TokenRow> = store
            .tokens()
            .list()
            .await?
            .into_iter()
            .filter(|row| row.token_id == named || (row.name == named && is_valid(row, now)))
            .collect();
        let row = match <[TokenRow; 1]>::try_from(rows) {
            Ok([row]) => row,
            Err(rows) => {
                return Err(EngineError::NotThere {
                    what: match rows.len() {
                        0 => format!("token `{named}`"),
                        count => format!("single token `{named}`: {count} have that name"),
                    },
                    hint: "`satiety token list` shows the ids".into(),
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
        Ok(shown(row))
    }

    /// Who comes with this token, if it lets anybody in.
    pub async fn check(self, presented: &str) -> Result<Option<Token>, EngineError> {
        let Some((token_id, secret)) = parts(presented) else {
            return Ok(None);
        };
        let store = self.engine.store().await?;
        let Some(row) = store.tokens().get(token_id).await? else {
            return Ok(None);
        };
        let Ok(kept) = blake3::Hash::from_hex(&row.hash) else {
            return Ok(None);
        };
        let now = now_micros();
        // Comparing two of these takes the same time wherever they differ.
        if kept != hash(secret) || !is_valid(&row, now) {
            return Ok(None);
        }
        if row.last_used_at.is_none_or(|at| now - at > USED_EVERY) {
            store.tokens().touch(token_id, now).await?;
        }
        Ok(Some(shown(row)))
    }

    /// Keeps who wrote what through a server.
    pub async fn audit(self, entry: &AuditEntry) -> Result<(), EngineError> {
        let event = Event::now(AUDIT, &entry.who, serde_json::to_value(entry)?);
        Ok(self.engine.store().await?.journal().append(event).await?)
    }

    /// Writes that were made through a server, the latest first.
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

/// The id and the secret of what looks like a token.
fn parts(presented: &str) -> Option<(&str, &str)> {
    let rest = presented.strip_prefix(PREFIX)?.strip_prefix('_')?;
    let (token_id, secret) = rest.split_once('_')?;
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (digits(token_id, 16) && digits(secret, 64)).then_some((token_id, secret))
}

/// A secret of 256 random bits cannot be guessed from its hash, so a fast one will do.
fn hash(secret: &str) -> blake3::Hash {
    blake3::hash(secret.as_bytes())
}

fn is_valid(row: &TokenRow, now: i64) -> bool {
    row.revoked_at.is_none() && row.expires_at.is_none_or(|at| at > now)
}

fn shown(row: TokenRow) -> Token {
    Token {
        valid: is_valid(&row, now_micros()),
        // The table accepts no other word; the least is what a damaged one permits.
        scope: row.scope.parse().unwrap_or(Scope::Read),
        token_id: row.token_id,
        name: row.name,
        created_at: crate::time(row.created_at),
        expires_at: row.expires_at.map(crate::time),
        revoked_at: row.revoked_at.map(crate::time),
        last_used_at: row.last_used_at.map(crate::time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_looks_like_a_token_is_looked_up() {
        let good = format!("satiety_{}_{}", "0".repeat(16), "a".repeat(64));
        assert!(parts(&good).is_some());
        for bad in [
            "",
            "satiety_",
            "Bearer x",
            &good.replace("satiety", "other"),
            &good[..good.len() - 1],
            &good.replace('a', "'"),
            &format!("{good}0"),
        ] {
            assert_eq!(parts(bad), None, "{bad}");
        }
    }

    #[test]
    fn more_permits_what_less_does() {
        assert!(Scope::Admin > Scope::Write && Scope::Write > Scope::Read);
        assert_eq!("write".parse(), Ok(Scope::Write));
        assert!("root".parse::<Scope>().is_err());
    }
}
