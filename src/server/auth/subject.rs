//! The user that a certificate names: its common name, and its organizations as groups (upstream
//! `staging/src/k8s.io/apiserver/pkg/authentication/request/x509`). Pure.
//!
//! Only for a certificate that was verified.

use std::collections::BTreeSet;

use rustls::pki_types::CertificateDer;

use super::User;

/// DER's tags.
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;

/// 2.5.4.3 and 2.5.4.10.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// The user of a certificate; `None` when it has no common name that can be read.
#[must_use]
pub fn user(certificate: &CertificateDer<'_>) -> Option<User> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    let mut rest = parsed.subject();
    let (mut name, mut groups) = (None, BTreeSet::new());
    while !rest.is_empty() {
        let (mut set, after) = element(rest, SET)?;
        rest = after;
        while !set.is_empty() {
            let (pair, after) = element(set, SEQUENCE)?;
            set = after;
            let (kind, value) = element(pair, OBJECT_IDENTIFIER)?;
            match kind {
                // The last one counts, as in Go's `pkix.Name`.
                COMMON_NAME => name = Some(text(value)?),
                ORGANIZATION => _ = groups.insert(text(value)?),
                _ => {}
            }
        }
    }
    let name = name.filter(|name| !name.is_empty())?;
    Some(User { name, groups })
}

fn text(value: &[u8]) -> Option<String> {
    let tag = *value.first()?;
    if ![UTF8_STRING, PRINTABLE_STRING, IA5_STRING].contains(&tag) {
        return None;
    }
    let (bytes, _) = element(value, tag)?;
    let text = std::str::from_utf8(bytes).ok()?;
    // It is printed in the log.
    (!text.chars().any(char::is_control)).then(|| text.to_owned())
}

/// The content of the first element, which has this tag, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match usize::from(*first) {
        short @ 0..=0x7f => (short, rest),
        // A name of more than 65,535 bytes is none.
        long @ (0x81 | 0x82) => {
            let (bytes, rest) = rest.split_at_checked(long & 0x7f)?;
            (bytes.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    if *found == tag { rest.split_at_checked(length) } else { None }
}
