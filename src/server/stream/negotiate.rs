//! Chooses the streaming protocol: reads the offers in a request's headers, and accepts or refuses them.
//!
//! Messages and statuses are the kubelet's, because clients fall back from one protocol to the other by them. Never
//! here: a path, or a right.

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::websocket::Form;
use crate::manifest::base64;

/// The headers of a request about protocols.
#[derive(Debug, Default)]
pub struct Offer<'a> {
    /// Values of `Connection`.
    pub connection: Vec<&'a str>,
    /// Values of `Upgrade`.
    pub upgrade: Vec<&'a str>,
    /// Values of `X-Stream-Protocol-Version`.
    pub stream_protocols: Vec<&'a str>,
    /// Values of `Sec-WebSocket-Protocol`.
    pub socket_protocols: Vec<&'a str>,
    /// The value of `Sec-WebSocket-Key`.
    pub socket_key: Option<&'a str>,
    /// The value of `Sec-WebSocket-Version`.
    pub socket_version: Option<&'a str>,
    /// Number of headers.
    pub headers: usize,
}

impl<'a> Offer<'a> {
    /// Whether the request asks for WebSocket.
    #[must_use]
    pub fn is_websocket(&self) -> bool {
        self.upgrades() && self.upgrade.iter().any(|value| value.trim().eq_ignore_ascii_case("websocket"))
    }

    /// Whether its first known WebSocket protocol for port-forward is the tunnel, which has its ports inside.
    #[must_use]
    pub fn is_tunnel(&self) -> bool {
        let first = first_known(words(&self.socket_protocols), &FORWARD_WEBSOCKET);
        first.is_some_and(|(_, protocol)| protocol == Forward::Tunnel)
    }

    fn upgrades(&self) -> bool {
        words(&self.connection).any(|word| word.eq_ignore_ascii_case("upgrade"))
    }
}

/// Comma-separated words, without spaces around them.
fn words<'a>(values: &[&'a str]) -> impl Iterator<Item = &'a str> {
    values.iter().flat_map(|value| value.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

/// An answer other than 101.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub text: String,
}

/// The chosen protocol, and the headers of the answer with status 101.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed<P> {
    pub protocol: P,
    pub headers: Vec<(&'static str, String)>,
}

/// The protocol of an exec or attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// SPDY, in this version of the remote command protocol: 1 to 4.
    Spdy(u8),
    /// WebSocket, in version 1, 4 or 5.
    WebSocket(u8, Form),
}

/// The protocol of a port-forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forward {
    Spdy,
    /// SPDY in messages of WebSocket.
    Tunnel,
    WebSocket(Form),
}

/// Protocols of exec and attach over SPDY, the best one first.
const COMMAND_SPDY: [(&str, u8); 4] =
    [("v4.channel.k8s.io", 4), ("v3.channel.k8s.io", 3), ("v2.channel.k8s.io", 2), ("channel.k8s.io", 1)];

/// Protocols of exec and attach over WebSocket.
const COMMAND_WEBSOCKET: [(&str, Command); 6] = [
    ("v5.channel.k8s.io", Command::WebSocket(5, Form::Raw)),
    ("v4.channel.k8s.io", Command::WebSocket(4, Form::Raw)),
    ("v4.base64.channel.k8s.io", Command::WebSocket(4, Form::Base64)),
    ("channel.k8s.io", Command::WebSocket(1, Form::Raw)),
    ("base64.channel.k8s.io", Command::WebSocket(1, Form::Base64)),
    ("", Command::WebSocket(1, Form::Raw)),
];

/// Protocols of port-forward over WebSocket.
const FORWARD_WEBSOCKET: [(&str, Forward); 4] = [
    ("SPDY/3.1+portforward.k8s.io", Forward::Tunnel),
    ("v4.channel.k8s.io", Forward::WebSocket(Form::Raw)),
    ("v4.base64.channel.k8s.io", Forward::WebSocket(Form::Base64)),
    ("", Forward::WebSocket(Form::Raw)),
];

/// Chooses the protocol of an exec or attach.
///
/// # Errors
/// The answer when no protocol fits.
pub fn command(offer: &Offer<'_>) -> Result<Agreed<Command>, Refusal> {
    if offer.is_websocket() {
        return websocket(offer, &COMMAND_WEBSOCKET);
    }
    let known = COMMAND_SPDY.map(|(name, version)| (name, Command::Spdy(version)));
    spdy(offer, &known)
}

/// Chooses the protocol of a port-forward.
///
/// # Errors
/// Like [`command`].
pub fn forward(offer: &Offer<'_>) -> Result<Agreed<Forward>, Refusal> {
    if offer.is_websocket() {
        return websocket(offer, &FORWARD_WEBSOCKET);
    }
    spdy(offer, &[("portforward.k8s.io", Forward::Spdy)])
}

fn spdy<P: Copy>(offer: &Offer<'_>, known: &[(&str, P)]) -> Result<Agreed<P>, Refusal> {
    const VERSIONS: &str = "X-Stream-Protocol-Version";
    if words(&offer.stream_protocols).next().is_none() {
        let count = offer.headers;
        return Err(refusal(
            400,
            format!("unable to upgrade: header {VERSIONS} does not exist in request with {count} headers"),
        ));
    }
    let Some((name, protocol)) = first_known(words(&offer.stream_protocols), known) else {
        let asked: Vec<&str> = words(&offer.stream_protocols).collect();
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let text = format!(
            "unable to upgrade: unable to negotiate protocol: client supports [{}], server accepts [{}]",
            asked.join(" "),
            names.join(" ")
        );
        let accepted = |name: &str| ("X-Accepted-Stream-Protocol-Versions", name.to_owned());
        let headers = names.into_iter().map(accepted).collect();
        return Err(Refusal { status: 403, headers, text });
    };
    let is_spdy = offer.upgrade.iter().any(|value| value.to_ascii_lowercase().contains("spdy/3.1"));
    if !offer.upgrades() || !is_spdy {
        let shown =
            format!("Connection: {}; Upgrade: {}", offer.connection.join(", "), offer.upgrade.join(", "));
        return Err(refusal(400, format!("unable to upgrade: missing upgrade headers in request: {shown}")));
    }
    let headers = vec![
        ("Connection", "Upgrade".to_owned()),
        ("Upgrade", "SPDY/3.1".to_owned()),
        (VERSIONS, name.to_owned()),
    ];
    Ok(Agreed { protocol, headers })
}

fn websocket<P: Copy>(offer: &Offer<'_>, known: &[(&str, P)]) -> Result<Agreed<P>, Refusal> {
    if offer.socket_version != Some("13") {
        let headers = vec![("Sec-WebSocket-Version", "13".to_owned())];
        return Err(Refusal { status: 400, headers, text: "missing or bad WebSocket Version".to_owned() });
    }
    let key = offer.socket_key.map(str::trim);
    let Some(key) = key.filter(|key| base64::decode(key).is_some_and(|bytes| bytes.len() == 16)) else {
        return Err(refusal(400, "missing or bad Sec-WebSocket-Key".to_owned()));
    };
    let asked: Vec<&str> = words(&offer.socket_protocols).collect();
    let or_none = if asked.is_empty() { vec![""] } else { asked };
    let Some((name, protocol)) = first_known(or_none.iter().copied(), known) else {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let (asked, names) = (or_none.join(" "), names.join(" "));
        let text = format!("requested protocol(s) are not supported: [{asked}]; supports [{names}]");
        return Err(refusal(403, text));
    };
    let mut headers = vec![
        ("Connection", "Upgrade".to_owned()),
        ("Upgrade", "websocket".to_owned()),
        ("Sec-WebSocket-Accept", accept_key(key)),
    ];
    if !name.is_empty() {
        headers.push(("Sec-WebSocket-Protocol", name.to_owned()));
    }
    Ok(Agreed { protocol, headers })
}

/// The first protocol of the client that is known.
fn first_known<'k, 'a, P: Copy>(
    mut asked: impl Iterator<Item = &'a str>,
    known: &[(&'k str, P)],
) -> Option<(&'k str, P)> {
    asked.find_map(|name| known.iter().find(|(other, _)| *other == name).copied())
}

fn refusal(status: u16, text: String) -> Refusal {
    Refusal { status, headers: Vec::new(), text }
}

/// The proof that the handshake was understood (RFC 6455, section 4.2.2).
fn accept_key(key: &str) -> String {
    const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    base64::encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes()).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPDY: [(&str, &str); 2] = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
    const SOCKET: [(&str, &str); 4] = [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "WebSocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    fn read<'a>(headers: &[(&'a str, &'a str)]) -> Offer<'a> {
        let mut offer = Offer { headers: headers.len(), ..Offer::default() };
        for (name, value) in headers {
            match *name {
                "connection" => offer.connection.push(value),
                "upgrade" => offer.upgrade.push(value),
                "x-stream-protocol-version" => offer.stream_protocols.push(value),
                "sec-websocket-protocol" => offer.socket_protocols.push(value),
                "sec-websocket-key" => offer.socket_key = Some(value),
                "sec-websocket-version" => offer.socket_version = Some(value),
                _ => panic!("{name}"),
            }
        }
        offer
    }

    fn header<'a>(answer: &'a [(&'static str, String)], name: &str) -> Vec<&'a str> {
        answer.iter().filter(|(known, _)| *known == name).map(|(_, value)| value.as_str()).collect()
    }

    #[test]
    fn spdy_takes_the_first_that_the_client_names() {
        let check = |asked: &[&str], expected: Command, name: &str| {
            let asked = asked.iter().map(|value| ("x-stream-protocol-version", *value));
            let headers: Vec<_> = SPDY.into_iter().chain(asked).collect();
            let agreed = command(&read(&headers)).unwrap();
            assert_eq!(agreed.protocol, expected);
            assert_eq!(header(&agreed.headers, "X-Stream-Protocol-Version"), [name]);
            assert_eq!(header(&agreed.headers, "Connection"), ["Upgrade"]);
            assert_eq!(header(&agreed.headers, "Upgrade"), ["SPDY/3.1"]);
        };
        check(&["v4.channel.k8s.io", "channel.k8s.io"], Command::Spdy(4), "v4.channel.k8s.io");
        check(&["v5.channel.k8s.io, v3.channel.k8s.io"], Command::Spdy(3), "v3.channel.k8s.io");
        check(&["channel.k8s.io,v4.channel.k8s.io"], Command::Spdy(1), "channel.k8s.io");
        check(&["v2.channel.k8s.io"], Command::Spdy(2), "v2.channel.k8s.io");
    }

    #[test]
    fn websocket_takes_the_first_that_the_client_names() {
        let check = |asked: Option<&str>, expected: Command| {
            let asked_headers = asked.map(|value| ("sec-websocket-protocol", value));
            let headers: Vec<_> = SOCKET.into_iter().chain(asked_headers).collect();
            let agreed = command(&read(&headers)).unwrap();
            assert_eq!(agreed.protocol, expected);
            assert_eq!(header(&agreed.headers, "Upgrade"), ["websocket"]);
            // The example of RFC 6455.
            assert_eq!(header(&agreed.headers, "Sec-WebSocket-Accept"), ["s3pPLMBiTxaQ9kYGzzhZRbK+xOo="]);
            let named = header(&agreed.headers, "Sec-WebSocket-Protocol");
            assert_eq!(named.first().copied(), asked.and_then(|value| value.split(',').next_back()));
        };
        check(None, Command::WebSocket(1, Form::Raw));
        check(Some("channel.k8s.io"), Command::WebSocket(1, Form::Raw));
        check(Some("base64.channel.k8s.io"), Command::WebSocket(1, Form::Base64));
        check(Some("v4.base64.channel.k8s.io"), Command::WebSocket(4, Form::Base64));
        check(Some("unknown,v4.channel.k8s.io"), Command::WebSocket(4, Form::Raw));
        check(Some("v5.channel.k8s.io"), Command::WebSocket(5, Form::Raw));
    }

    #[test]
    fn port_forward_has_protocols_of_its_own() {
        let spdy = [("x-stream-protocol-version", "portforward.k8s.io"), SPDY[0], SPDY[1]];
        assert_eq!(forward(&read(&spdy)).unwrap().protocol, Forward::Spdy);
        let check = |asked: &str, expected: Forward| {
            let headers: Vec<_> = SOCKET.into_iter().chain([("sec-websocket-protocol", asked)]).collect();
            assert_eq!(forward(&read(&headers)).unwrap().protocol, expected);
        };
        check("SPDY/3.1+portforward.k8s.io", Forward::Tunnel);
        check("v4.channel.k8s.io", Forward::WebSocket(Form::Raw));
        check("v4.base64.channel.k8s.io", Forward::WebSocket(Form::Base64));
    }

    #[test]
    fn what_is_not_understood_is_refused_as_the_kubelet_does() {
        let check = |headers: &[(&str, &str)], status: u16, text: &str, more: (&str, &[&str])| {
            let refused = command(&read(headers)).unwrap_err();
            assert_eq!((refused.status, refused.text.as_str()), (status, text));
            assert_eq!(header(&refused.headers, more.0), more.1);
        };
        let none = ("X", &[][..]);
        let missing =
            "unable to upgrade: header X-Stream-Protocol-Version does not exist in request with 2 headers";
        check(&SPDY, 400, missing, none);
        let four = ("x-stream-protocol-version", "v4.channel.k8s.io");
        let text = "unable to upgrade: missing upgrade headers in request: Connection: ; Upgrade: h2c";
        check(&[four, ("upgrade", "h2c")], 400, text, none);
        check(
            &[("x-stream-protocol-version", "v9.channel.k8s.io,v5.channel.k8s.io"), SPDY[0], SPDY[1]],
            403,
            "unable to upgrade: unable to negotiate protocol: client supports [v9.channel.k8s.io \
             v5.channel.k8s.io], server accepts [v4.channel.k8s.io v3.channel.k8s.io v2.channel.k8s.io \
             channel.k8s.io]",
            (
                "X-Accepted-Stream-Protocol-Versions",
                &["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"],
            ),
        );
        let version = ("Sec-WebSocket-Version", &["13"][..]);
        check(&SOCKET[..2], 400, "missing or bad WebSocket Version", version);
        check(&SOCKET[..3], 400, "missing or bad Sec-WebSocket-Key", none);
        let short = [SOCKET[0], SOCKET[1], SOCKET[2], ("sec-websocket-key", "c2hvcnQ=")];
        check(&short, 400, "missing or bad Sec-WebSocket-Key", none);
        let unknown = ("sec-websocket-protocol", "v9.channel.k8s.io");
        let text = "requested protocol(s) are not supported: [v9.channel.k8s.io]; supports [v5.channel.k8s.io \
                    v4.channel.k8s.io v4.base64.channel.k8s.io channel.k8s.io base64.channel.k8s.io ]";
        check(&[SOCKET[0], SOCKET[1], SOCKET[2], SOCKET[3], unknown], 403, text, none);
    }
}
