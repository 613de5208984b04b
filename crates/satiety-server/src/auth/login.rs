//! Login for pages: the token goes into a cookie that scripts cannot read and foreign pages cannot use
//! (`HttpOnly`, `SameSite=Strict`). Writes from pages are also checked by origin.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::{Extension, Form};
use serde::Deserialize;

use crate::http::{App, Peer, Problem};
use satiety_report::html::escape;

pub(crate) const COOKIE: &str = "satiety_token";
/// Lifetime of the cookie in seconds; the token may expire earlier.
const COOKIE_SECONDS: u32 = 7 * 24 * 60 * 60;

/// Query of the login page: the path to return to.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Next {
    next: Option<String>,
}

/// Fields of the login form.
#[derive(Deserialize)]
pub(crate) struct Login {
    token: String,
    next: Option<String>,
}

pub(crate) async fn login_page(Query(Next { next }): Query<Next>) -> Html<String> {
    form(None, next.as_deref())
}

/// Validates the token and stores it in a cookie.
pub(crate) async fn login(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
    Form(form_sent): Form<Login>,
) -> Response {
    let next = local(form_sent.next.as_deref()).to_owned();
    match app.engine.tokens().check(form_sent.token.trim()).await {
        Ok(Some(_)) => {
            let mut response = Redirect::to(&next).into_response();
            set(
                &mut response,
                form_sent.token.trim(),
                COOKIE_SECONDS,
                app.is_encrypted(),
            );
            response
        }
        Ok(None) => {
            if let Err(problem) = app.auth.rates.failed(peer.address.ip()) {
                return problem.into_response();
            }
            let page = form(Some("The token is unknown, expired or revoked."), Some(&next));
            (StatusCode::UNAUTHORIZED, page).into_response()
        }
        Err(error) => Problem::from(error).into_response(),
    }
}

/// Clears the cookie.
pub(crate) async fn logout(State(app): State<Arc<App>>) -> Response {
    let mut response = Redirect::to("/login").into_response();
    set(&mut response, "", 0, app.is_encrypted());
    response
}

fn set(response: &mut Response, token: &str, seconds: u32, encrypted: bool) {
    let secure = if encrypted { "; Secure" } else { "" };
    let text = format!("{COOKIE}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    if let Ok(value) = HeaderValue::from_str(&text) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
}

/// Returns `next` if it is a path on this server: a login must not redirect to another site.
fn local(next: Option<&str>) -> &str {
    next.filter(|next| {
        next.starts_with('/')
            && !next.starts_with("//")
            && !next.contains('\\')
            && next.is_ascii()
            && !next.bytes().any(|byte| byte.is_ascii_control())
    })
    .unwrap_or("/")
}

fn form(complaint: Option<&str>, next: Option<&str>) -> Html<String> {
    let complaint = complaint.map_or_else(String::new, |text| {
        format!("<p role=\"alert\">{}</p>", escape(text))
    });
    Html(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>Satiety: log in</title>\
         <link rel=\"stylesheet\" href=\"/docs/style.css\"></head><body><main><h1>Log in</h1>{complaint}\
         <form method=\"post\" action=\"/login\"><input type=\"hidden\" name=\"next\" value=\"{next}\">\
         <p><label for=\"token\">Token</label><br>\
         <input id=\"token\" name=\"token\" type=\"password\" autocomplete=\"off\" required size=\"60\"></p>\
         <p><button type=\"submit\">Log in</button></p></form>\
         <p>Create a token on the server with <code>satiety token create NAME</code>.</p></main></body></html>\n",
        next = escape(local(next)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_redirects_stay_on_this_server() {
        assert_eq!(local(Some("/bench?suite=a")), "/bench?suite=a");
        for foreign in [
            "https://evil.example",
            "//evil.example",
            "/\\evil.example",
            "evil",
            "/a\r\nb",
            "",
        ] {
            assert_eq!(local(Some(foreign)), "/", "{foreign}");
        }
    }
}
