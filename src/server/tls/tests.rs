//! Tests of certificates that are made, read again, and signed by authorities.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use super::*;
use crate::base::testing::scratch;

fn settings(dir: &Path) -> Settings {
    let names = Settings::names_of("n1", &["10.0.0.1".parse().unwrap()]);
    Settings { given: None, signed: None, directory: dir.join("pki"), client_ca: None, names }
}

/// An authority, and a client certificate that it signed.
fn authority() -> (String, Vec<CertificateDer<'static>>) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "ca");
    let key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "u");
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let client = params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
    (ca.pem(), vec![client.der().clone()])
}

#[test]
fn a_certificate_is_made_once_and_kept() {
    let dir = scratch("made");
    let certificates = Certificates::open(settings(&dir));
    assert!(certificates.state().config.is_some(), "{:?}", certificates.state().problem);
    let key = fs::read(dir.join("pki/kubelet.key")).unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(fs::metadata(dir.join("pki/kubelet.key")).unwrap().permissions().mode() & 0o777, 0o600);
    drop(certificates);
    assert!(Certificates::open(settings(&dir)).state().config.is_some());
    assert_eq!(fs::read(dir.join("pki/kubelet.key")).unwrap(), key, "the second start takes it");
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn authorities_are_read_again_when_they_change_and_kept_while_they_are_broken() {
    let dir = scratch("client-ca");
    let (first, client) = authority();
    let (second, other) = authority();
    let path = dir.join("ca.pem");
    fs::write(&path, &first).unwrap();
    let certificates = Certificates::open(Settings { client_ca: Some(path.clone()), ..settings(&dir) });
    assert_eq!(certificates.verify(&client), Ok(()));
    assert!(certificates.verify(&other).is_err() && certificates.verify(&[]).is_err());
    let change = |text: &str, second: u64| {
        fs::write(&path, text).unwrap();
        let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000 + second);
        fs::File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
        certificates.look();
    };
    change("nonsense", 1);
    assert_eq!(certificates.verify(&client), Ok(()), "what was read last stays");
    assert!(certificates.state().problem.is_some());
    change(&second, 2);
    assert!(certificates.verify(&client).is_err());
    assert_eq!(certificates.verify(&other), Ok(()));
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn without_an_authority_no_client_is_known() {
    let dir = scratch("no-client-ca");
    let (_, client) = authority();
    assert!(Certificates::open(settings(&dir)).verify(&client).unwrap_err().contains("--client-ca-file"));
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_certificate_that_could_not_be_made_is_made_later_and_once() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let dir = scratch("made-later");
    let (certificate, key) = (dir.join("server.crt"), dir.join("server.key"));
    let calls = Arc::new(AtomicUsize::new(0));
    let make = {
        let (calls, certificate, key) = (Arc::clone(&calls), certificate.clone(), key.clone());
        move || match calls.fetch_add(1, Ordering::Relaxed) {
            0 => Err("the authority cannot be read".to_owned()),
            _ => made::make(certificate.parent().unwrap(), &certificate, &key, &["n1".to_owned()]),
        }
    };
    let settings = Settings { given: Some((certificate, key)), ..settings(&dir) };
    let certificates = Certificates::open_made(settings, Some(Make(Box::new(make))));
    assert!(certificates.state().config.is_none());
    assert_eq!(certificates.state().problem.as_deref(), Some("the authority cannot be read"));
    for _ in 0..2 {
        certificates.look();
        assert!(certificates.state().config.is_some() && certificates.state().problem.is_none());
    }
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    fs::remove_dir_all(&dir).unwrap();
}
