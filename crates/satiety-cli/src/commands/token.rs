//! `satiety token`: manages API tokens and shows the audit log.

use satiety_engine::Engine;
use satiety_engine::tokens::{
    AuditLog, CreateTokenRequest, CreatedToken, Scope, Token as TokenView, TokenList,
};

use crate::args::{Token, TokenScope};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::table::table;

pub(super) async fn run(command: Token, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    match command {
        Token::Create { name, scope, days } => {
            let request = CreateTokenRequest {
                name,
                scope: match scope {
                    TokenScope::Read => Scope::Read,
                    TokenScope::Write => Scope::Write,
                    TokenScope::Admin => Scope::Admin,
                },
                expires_in_days: days,
            };
            printer.answer(&engine.tokens().create(request).await?)?;
            printer.note("Store this token now: it is shown only once, and only its hash is kept.");
        }
        Token::List => printer.answer(&engine.tokens().list().await?)?,
        Token::Revoke { token } => printer.answer(&engine.tokens().revoke(&token).await?)?,
        Token::Audit { limit } => printer.answer(&engine.tokens().audit_log(limit).await?)?,
    }
    Ok(Exit::Done)
}

impl Render for CreatedToken {
    fn human(&self) -> String {
        self.token.clone()
    }
}

impl Render for TokenList {
    fn human(&self) -> String {
        if self.tokens.is_empty() {
            return "No tokens. Create one with `satiety token create NAME`.".into();
        }
        let header = ["id", "name", "scope", "state", "last used"];
        if self.tokens.iter().all(|token| token.tenant.is_none()) {
            return table(&header, &[], self.tokens.iter().map(row));
        }
        let with_tenant = self.tokens.iter().map(|token| {
            let mut cells = row(token);
            cells.push(token.tenant.clone().unwrap_or_else(|| "-".into()));
            cells
        });
        table(&[&header[..], &["tenant"]].concat(), &[], with_tenant)
    }
}

impl Render for TokenView {
    fn human(&self) -> String {
        format!("{} ({}) is {}", self.token_id, self.name, state(self))
    }
}

impl Render for AuditLog {
    fn human(&self) -> String {
        if self.entries.is_empty() {
            return "The audit log is empty: no changes through a server yet.".into();
        }
        let rows = self.entries.iter().map(|entry| {
            vec![
                entry.at.to_string(),
                entry.who.clone(),
                entry.address.clone(),
                format!("{} {}", entry.method, entry.path),
                entry.status.to_string(),
            ]
        });
        table(&["time", "token", "address", "request", "status"], &[4], rows)
    }
}

pub(super) fn row(token: &TokenView) -> Vec<String> {
    vec![
        token.token_id.clone(),
        token.name.clone(),
        token.scope.to_string(),
        state(token),
        token
            .last_used_at
            .map_or_else(|| "never".into(), |at| at.to_string()),
    ]
}

fn state(token: &TokenView) -> String {
    match (token.revoked_at, token.expires_at) {
        (Some(at), _) => format!("revoked {at}"),
        (None, Some(at)) if !token.valid => format!("expired {at}"),
        (None, Some(at)) => format!("valid until {at}"),
        (None, None) => "valid".into(),
    }
}
