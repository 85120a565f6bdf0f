//! A real server over TLS for tests: it sends the test's answers, and records the requests.

use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// Signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
    der: rustls::pki_types::CertificateDer<'static>,
}

/// A certificate and its key, PEM.
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("authority {}", NUMBER.fetch_add(1, Ordering::SeqCst));
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let (pem, der) = (certificate.pem(), certificate.der().clone());
        Authority { issuer: Issuer::new(params, key), pem, der }
    }

    /// A certificate for this common name, valid for `names` as a server.
    pub fn sign(&self, common_name: &str, names: &[&str]) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// A recorded request.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// `GET /path?query`.
    pub line: String,
    /// All lines of the head after the first.
    pub headers: String,
    pub body: String,
    /// Number of the connection, from 0.
    pub connection: usize,
    /// The certificate that the client showed, DER.
    pub certificate: Option<Vec<u8>>,
}

/// Writes the answer to the client. An error or `false` closes the connection.
pub type Answerer = dyn Fn(&Asked, &mut dyn Write) -> std::io::Result<bool> + Send + Sync;

/// See the head of this file. Its threads end with the test's process.
pub struct Server {
    pub address: SocketAddr,
    pub asked: Arc<Mutex<Vec<Asked>>>,
    pub connections: Arc<AtomicUsize>,
}

impl Server {
    /// A server over TLS with a certificate of this authority, for `localhost` and `127.0.0.1`.
    pub fn start(authority: &Authority, answer: Box<Answerer>) -> Server {
        let pair = authority.sign("server", &["localhost", "127.0.0.1"]);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(authority.der.clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
        let verifier = verifier.allow_unauthenticated().build().unwrap();
        use rustls::pki_types::pem::PemObject as _;
        let chain =
            vec![rustls::pki_types::CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap())
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, connections): (Arc<Mutex<Vec<Asked>>>, Arc<AtomicUsize>) = Default::default();
        let answer: Arc<Answerer> = answer.into();
        let (out, count) = (Arc::clone(&asked), Arc::clone(&connections));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let (config, answer, out) = (Arc::clone(&config), Arc::clone(&answer), Arc::clone(&out));
                thread::spawn(move || serve(stream, config, number, &*answer, &out));
            }
        });
        Server { address, asked, connections }
    }

    /// The first lines of all requests so far.
    pub fn lines(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|asked| asked.line.clone()).collect()
    }

    /// Writes a kubeconfig for this server into a directory; `user` in YAML's flow style.
    pub fn kubeconfig(&self, directory: &Path, authority: &Authority, user: &str) -> PathBuf {
        let path = directory.join("kubeconfig");
        std::fs::write(directory.join("ca.crt"), &authority.pem).unwrap();
        let text = format!(
            "current-context: x\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\nclusters: [{{name: c, cluster: \
             {{server: 'https://localhost:{}', certificate-authority: ca.crt}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n",
            self.address.port()
        );
        std::fs::write(&path, text).unwrap();
        path
    }
}

fn serve(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    connection: usize,
    answer: &Answerer,
    out: &Mutex<Vec<Asked>>,
) {
    let tls = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    let mut reader = BufReader::new(tls);
    loop {
        let mut asked = Asked { connection, ..Asked::default() };
        let mut length = 0;
        loop {
            let mut line = String::new();
            if !matches!(reader.read_line(&mut line), Ok(read) if read > 0) {
                return;
            }
            let line = line.trim_end();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            match (line.is_empty(), asked.line.is_empty()) {
                (true, _) => break,
                (_, true) => asked.line = line.trim_end_matches(" HTTP/1.1").to_owned(),
                _ => asked.headers += &format!("{line}\n"),
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        asked.body = String::from_utf8(body).unwrap();
        let shown = reader.get_ref().conn.peer_certificates().and_then(|chain| chain.first());
        asked.certificate = shown.map(|certificate| certificate.to_vec());
        out.lock().unwrap().push(asked.clone());
        if !answer(&asked, reader.get_mut()).unwrap_or(false) {
            return;
        }
    }
}

/// Writes an answer with a length.
pub fn json(out: &mut dyn Write, status: u16, body: &str) -> std::io::Result<bool> {
    let length = body.len();
    write!(
        out,
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    out.flush()?;
    Ok(true)
}

/// Begins an answer with no known length.
pub fn begin(out: &mut dyn Write) -> std::io::Result<()> {
    out.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
    )?;
    out.flush()
}

/// Writes a chunk of it.
pub fn chunk(out: &mut dyn Write, text: &str) -> std::io::Result<()> {
    write!(out, "{:x}\r\n{text}\r\n", text.len())?;
    out.flush()
}
