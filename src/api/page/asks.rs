//! A browser's headers about a request: its cookie, and whether another site made it. Pure.

use std::net::IpAddr;

use crate::server::http::request::Request;

/// The value of a cookie. A cookie that occurs twice does not count, because either could be ours.
#[must_use]
pub fn cookie<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    let pairs = request.headers("cookie").flat_map(|header| header.split(';'));
    let mut values = pairs.filter_map(|pair| pair.trim().split_once('=')).filter(|(found, _)| *found == name);
    values.next().filter(|_| values.next().is_none()).map(|(_, value)| value)
}

/// Checks that the page's own site makes the request, as far as the browser says. `names` are the node's.
///
/// # Errors
/// The reason why it does not.
pub fn own_site(request: &Request, names: &[String]) -> Result<(), &'static str> {
    let host = own_host(request, names)?;
    if request.header("origin").is_some_and(|origin| !origin.eq_ignore_ascii_case(&format!("https://{host}")))
    {
        return Err("another site asks");
    }
    // `none` means a typed address or a bookmark.
    match request.header("sec-fetch-site") {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) => Err("another site asks"),
    }
}

/// The host of the request, if it is this node. Another site's name that points here is refused: a page of that site
/// would count as ours. An IP address is no site's name.
///
/// # Errors
/// It is not this node.
pub fn own_host<'r>(request: &'r Request, names: &[String]) -> Result<&'r str, &'static str> {
    let host = request.header("host").unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(name, _)| name),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_ours = name.parse::<IpAddr>().is_ok() || names.iter().any(|ours| ours.eq_ignore_ascii_case(name));
    if is_ours { Ok(host) } else { Err("the Host header names another machine") }
}

/// Whether a person follows a link. Programs that preview links must not use it up: it works once.
#[must_use]
pub fn is_followed(request: &Request) -> bool {
    let is_early = ["sec-purpose", "purpose", "x-moz", "x-purpose"]
        .iter()
        .filter_map(|name| request.header(name))
        .any(|value| ["prefetch", "prerender", "preview"].iter().any(|word| value.contains(word)));
    let is_page = |name: &str, word: &str| request.header(name).is_none_or(|value| value == word);
    !is_early && is_page("sec-fetch-mode", "navigate") && is_page("sec-fetch-dest", "document")
}

/// Whether a person's browser asks for a page.
#[must_use]
pub fn wants_html(request: &Request) -> bool {
    request.words("accept").any(|word| word.starts_with("text/html"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::http::request::parse;

    fn request(headers: &[&str]) -> Request {
        let lines: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        parse(format!("GET / HTTP/1.1\r\n{lines}\r\n").as_bytes()).unwrap()
    }

    #[test]
    fn a_cookie_counts_when_it_is_there_once() {
        let check = |lines: &[&str], expected: Option<&str>| {
            let mut all = vec!["Host: n"];
            all.extend(lines);
            assert_eq!(cookie(&request(&all), "a"), expected, "{lines:?}");
        };
        check(&[], None);
        check(&["Cookie: a=1"], Some("1"));
        check(&["Cookie: b=2; a=1=2; c=3"], Some("1=2"));
        check(&["Cookie: b=2", "Cookie: a=1"], Some("1"));
        check(&["Cookie: a=1; a=1"], None);
        check(&["Cookie: aa=1; a"], None);
    }

    #[test]
    fn another_site_is_told_from_ours() {
        let names = ["n1".to_owned(), "localhost".to_owned()];
        let check = |lines: &[&str], is_ours: bool| {
            assert_eq!(own_site(&request(lines), &names).is_ok(), is_ours, "{lines:?}");
        };
        check(&["Host: n1"], true);
        check(&["Host: N1:6443"], true);
        check(&["Host: localhost:9"], true);
        check(&["Host: 10.1.2.3:6443"], true);
        check(&["Host: [::1]:6443"], true);
        check(&["Host: evil.example:6443"], false);
        check(&["Host: n1.evil.example"], false);
        check(&["Host: [::1"], false);
        check(&["Host: "], false);
        check(&["Host: n1:1", "Origin: https://n1:1"], true);
        check(&["Host: n1:1", "Origin: http://n1:1"], false);
        check(&["Host: n1:1", "Origin: https://n1:2"], false);
        check(&["Host: n1:1", "Origin: null"], false);
        check(&["Host: n1", "Sec-Fetch-Site: same-origin"], true);
        check(&["Host: n1", "Sec-Fetch-Site: none"], true);
        check(&["Host: n1", "Sec-Fetch-Site: same-site"], false);
        check(&["Host: n1", "Sec-Fetch-Site: cross-site"], false);
    }

    #[test]
    fn who_only_looks_at_a_link_does_not_follow_it() {
        let check = |lines: &[&str], expected: bool| {
            let mut all = vec!["Host: n"];
            all.extend(lines);
            assert_eq!(is_followed(&request(&all)), expected, "{lines:?}");
        };
        check(&[], true);
        check(&["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-Site: cross-site"], true);
        check(&["Sec-Purpose: prefetch;prerender"], false);
        check(&["Purpose: prefetch"], false);
        check(&["Sec-Fetch-Mode: cors"], false);
        check(&["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"], false);
    }
}
