//! The page itself, and the pages in its place. Each is one answer: nothing is fetched from elsewhere, and the browser
//! is told to run and fetch nothing else.

use std::sync::OnceLock;

use ring::digest::{SHA256, digest};

use crate::base::packed::Packed;
use crate::manifest::base64;
use crate::server::http::answer::Answer;

const HEAD: &str = include_str!("head.html");
static STYLE: Packed = Packed::new(include_bytes!(concat!(env!("OUT_DIR"), "/page.css.packed")));
static BODY: Packed = Packed::new(include_bytes!(concat!(env!("OUT_DIR"), "/body.html.packed")));
static SCRIPT: Packed = Packed::new(include_bytes!(concat!(env!("OUT_DIR"), "/page.js.packed")));
const CLOSED: &str = include_str!("closed.html");

/// The answer to a link: a browser sends its new cookie with the next request that comes from this page, wherever the
/// link was.
const OPENED: &str = "<!doctype html>\n<meta charset=utf-8><meta http-equiv=refresh content=\"0;url=/\">\
                      <title>podkeeper</title><p><a href=\"/\">Open the page</a>\n";

/// The text of the page, joined when it is asked for: the program has each part once.
fn whole() -> String {
    let (style, body, script) = (STYLE.text(), BODY.text(), SCRIPT.text());
    [HEAD, "<style>", style, "</style>\n", body, "<script>", script, "</script>\n"].concat()
}

/// The text of the page without a session.
fn without_session() -> String {
    [HEAD, "<style>", STYLE.text(), "</style>\n", CLOSED].concat()
}

/// The page.
#[must_use]
pub fn page() -> Answer {
    secure(Answer::new(200, HTML, whole()))
}

/// The answer without a session.
#[must_use]
pub fn closed() -> Answer {
    secure(Answer::new(401, HTML, without_session()))
}

/// The answer when a link was used; `cookie` is the header's value.
#[must_use]
pub fn opened(cookie: String) -> Answer {
    opened_before().with("Set-Cookie", cookie)
}

/// The answer to a browser that follows a used link and has a session.
#[must_use]
pub fn opened_before() -> Answer {
    secure(Answer::new(200, HTML, OPENED))
}

const HTML: &str = "text/html; charset=utf-8";

/// Adds the headers of every answer of the page.
#[must_use]
pub fn secure(answer: Answer) -> Answer {
    static POLICY: OnceLock<String> = OnceLock::new();
    let hash = |text: &str| base64::encode(digest(&SHA256, text.as_bytes()).as_ref());
    let policy = POLICY.get_or_init(|| {
        format!(
            "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; img-src data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
             trusted-types 'none'",
            hash(SCRIPT.text()),
            hash(STYLE.text())
        )
    });
    answer
        .with("Content-Security-Policy", policy.clone())
        .with("Cache-Control", "no-store")
        .with("Referrer-Policy", "no-referrer")
        .with("X-Content-Type-Options", "nosniff")
        .with("X-Frame-Options", "DENY")
        .with("Cross-Origin-Opener-Policy", "same-origin")
        .with("Cross-Origin-Resource-Policy", "same-origin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_whole() {
        let page = whole();
        assert!(page.len() < 60 * 1024, "{} bytes", page.len());
        // No part of it is fetched from elsewhere, and only its one script runs.
        for word in ["http://", "https://", "src=", "@import", "url(", " on", "innerHTML", "eval(", "style="]
        {
            let is_known = |at: usize| {
                let from = page.get(at..).unwrap_or_default();
                word == " on"
                    && !["onclick", "onload", "onerror", "onchange", "oninput", "onkey"]
                        .iter()
                        .any(|handler| from.trim_start().starts_with(handler))
                    || from.starts_with("http://www.w3.org/2000/svg")
            };
            let found = page.match_indices(word).find(|(at, _)| !is_known(*at));
            assert!(found.is_none(), "{:?}", found.map(|(at, _)| page.get(at.saturating_sub(40)..at + 40)));
        }
        assert_eq!(page.matches("<script").count(), 1);
        assert!(!without_session().contains("<script"));
        // Text that would end the script or the style early.
        let (script, style) = (SCRIPT.text(), STYLE.text());
        assert!(!script.contains("</") && !script.contains("<!--") && !style.contains("</"));
    }
}
