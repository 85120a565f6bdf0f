//! Reads fields of a certificate: its names, its validity, its key. Pure.
//!
//! Never here: whether a certificate is trusted; TLS decides that.

use rustls::pki_types::{CertificateDer, ServerName};

use crate::base::clock::Timestamp;
use crate::base::table::Set;

/// DER tags.
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const VERSION: u8 = 0xa0;

/// 2.5.4.3 and 2.5.4.10.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// The time range in which a certificate is valid, wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub from: Timestamp,
    pub until: Timestamp,
}

/// The common name and the organizations of a certificate; `None` when it has no readable common name.
#[must_use]
pub fn subject(certificate: &CertificateDer<'_>) -> Option<(String, Set<String>)> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    let mut rest = parsed.subject();
    let (mut name, mut groups) = (None, Set::new());
    while !rest.is_empty() {
        let (mut set, after) = element(rest, SET)?;
        rest = after;
        while !set.is_empty() {
            let (pair, after) = element(set, SEQUENCE)?;
            set = after;
            let (kind, value) = element(pair, OBJECT_IDENTIFIER)?;
            match kind {
                // The last one is used, as in Go's `pkix.Name`.
                COMMON_NAME => name = Some(text(value)?),
                ORGANIZATION => _ = groups.insert(text(value)?),
                _ => {}
            }
        }
    }
    let name = name.filter(|name| !name.is_empty())?;
    Some((name, groups))
}

/// The validity of a certificate; `None` when it cannot be read.
#[must_use]
pub fn validity(certificate: &CertificateDer<'_>) -> Option<Validity> {
    let (outer, _) = element(certificate, SEQUENCE)?;
    let (body, _) = element(outer, SEQUENCE)?;
    let rest = element(body, VERSION).map_or(body, |(_, rest)| rest);
    let (_serial, rest) = element(rest, INTEGER)?;
    let (_algorithm, rest) = element(rest, SEQUENCE)?;
    let (_issuer, rest) = element(rest, SEQUENCE)?;
    let (both, _) = element(rest, SEQUENCE)?;
    let (from, rest) = time(both)?;
    let (until, _) = time(rest)?;
    Some(Validity { from, until })
}

/// The key of a certificate, as `SubjectPublicKeyInfo` in DER; `None` for anything but a certificate.
#[must_use]
pub fn public_key(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    Some(parsed.subject_public_key_info().as_ref().to_vec())
}

/// Whether a certificate is valid for this DNS name or address.
#[must_use]
pub fn is_for(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let Ok(parsed) = webpki::EndEntityCert::try_from(certificate) else { return false };
    ServerName::try_from(name).is_ok_and(|name| parsed.verify_is_valid_for_subject_name(&name).is_ok())
}

/// A time, and the rest of the input.
fn time(der: &[u8]) -> Option<(Timestamp, &[u8])> {
    let tag = *der.first()?;
    let (bytes, rest) = element(der, tag)?;
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, text) = match tag {
        UTC_TIME => {
            let (year, text) = text.split_at_checked(2)?;
            // RFC 5280, 4.1.2.5.1.
            (format!("{}{year}", if year < "50" { "20" } else { "19" }), text)
        }
        GENERALIZED_TIME => {
            let (year, text) = text.split_at_checked(4)?;
            (year.to_owned(), text)
        }
        _ => return None,
    };
    let at = |begin: usize| text.get(begin..begin.checked_add(2)?);
    let (month, day, hour, minute, second) = (at(0)?, at(2)?, at(4)?, at(6)?, at(8)?);
    let moment = format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z").parse().ok()?;
    Some((moment, rest))
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

/// The content of the first element, which must have this tag, and the rest of the input.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match usize::from(*first) {
        short @ 0..=0x7f => (short, rest),
        // A certificate of more than 65,535 bytes is not accepted.
        long @ (0x81 | 0x82) => {
            let (bytes, rest) = rest.split_at_checked(long & 0x7f)?;
            (bytes.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    if *found == tag { rest.split_at_checked(length) } else { None }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn what_stands_in_a_certificate() {
        let names = ["n1".to_owned(), "192.0.2.1".to_owned(), "2001:db8::1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(DnType::CommonName, "system:node:n1");
        // The first time is written as UTCTime, the second as GeneralizedTime.
        (params.not_before, params.not_after) = (date_time_ymd(2026, 2, 3), date_time_ymd(2061, 12, 31));
        let key = KeyPair::generate().unwrap();
        let made = params.self_signed(&key).unwrap();
        let der = made.der();
        let (name, groups) = subject(der).unwrap();
        assert_eq!((name.as_str(), groups.len()), ("system:node:n1", 1));
        let held = validity(der).unwrap();
        assert_eq!(held.from.to_string(), "2026-02-03T00:00:00Z");
        assert_eq!(held.until.to_string(), "2061-12-31T00:00:00Z");
        use rcgen::PublicKeyData as _;
        assert_eq!(public_key(der).unwrap(), key.subject_public_key_info());
        assert!(is_for(der, "n1") && is_for(der, "192.0.2.1") && is_for(der, "2001:db8::1"));
        assert!(!is_for(der, "n2") && !is_for(der, "192.0.2.2") && !is_for(der, "no name"));
        for cut in 0..der.len() {
            let part = CertificateDer::from(der[..cut].to_vec());
            assert!(subject(&part).is_none() && public_key(&part).is_none());
            _ = validity(&part);
        }
    }
}
