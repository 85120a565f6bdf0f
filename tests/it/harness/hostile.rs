//! A web server for one test, on loopback, plain or TLS, that answers as the test demands: good answers,
//! and everything that a broken or malicious server can do.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// A connection, plain or TLS.
pub trait Pipe: Read + Write {}
impl<T: Read + Write> Pipe for T {}

/// Answers one request, given its head. The connection ends when it returns.
type Handler = Arc<dyn Fn(&str, &mut dyn Pipe) -> io::Result<()> + Send + Sync>;

/// See the module.
pub struct Server {
    /// Address on which it listens.
    pub address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    handler: Arc<Mutex<Handler>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts on any port; answers 404 until [`Server::answer`] is called.
    pub fn start() -> Server {
        Server::listen("127.0.0.1:0", None)
    }

    /// Starts on this address again.
    pub fn at(address: SocketAddr) -> Server {
        Server::listen(&address.to_string(), None)
    }

    /// Starts with TLS.
    pub fn tls(config: ServerConfig) -> Server {
        Server::listen("127.0.0.1:0", Some(Arc::new(config)))
    }

    fn listen(address: &str, tls: Option<Arc<ServerConfig>>) -> Server {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let first: Handler = Arc::new(|_, pipe| pipe.write_all(&status("404 Not Found")));
        let handler = Arc::new(Mutex::new(first));
        let ends = Arc::new(AtomicBool::new(false));
        let thread = {
            let (heads, handler, ends) = (Arc::clone(&heads), Arc::clone(&handler), Arc::clone(&ends));
            thread::spawn(move || {
                for stream in listener.incoming() {
                    if ends.load(Ordering::Acquire) {
                        return;
                    }
                    let Ok(stream) = stream else { continue };
                    let (heads, handler, tls) = (Arc::clone(&heads), Arc::clone(&handler), tls.clone());
                    // Errors here are for the client to report.
                    thread::spawn(move || serve(stream, tls, &heads, &handler));
                }
            })
        };
        Server { address, heads, handler, ends, thread: Some(thread) }
    }

    /// From now on every request is answered like this.
    pub fn answer(&self, handler: impl Fn(&str, &mut dyn Pipe) -> io::Result<()> + Send + Sync + 'static) {
        *self.handler.lock().unwrap() = Arc::new(handler);
    }

    /// From now on it sends these bytes, and closes the connection.
    pub fn send(&self, bytes: impl Into<Vec<u8>>) {
        let bytes = bytes.into();
        self.answer(move |_, pipe| pipe.write_all(&bytes));
    }

    /// Heads of all requests so far.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// `http://127.0.0.1:PORT/pods.yaml`.
    pub fn url(&self) -> String {
        format!("http://{}/pods.yaml", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().unwrap().join();
    }
}

fn serve(
    mut stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    heads: &Mutex<Vec<String>>,
    handler: &Mutex<Handler>,
) -> io::Result<()> {
    match tls {
        None => converse(&mut stream, heads, handler),
        Some(config) => {
            let connection = ServerConnection::new(config).unwrap();
            let mut stream = StreamOwned::new(connection, stream);
            converse(&mut stream, heads, handler)?;
            stream.conn.send_close_notify();
            stream.flush()
        }
    }
}

fn converse(pipe: &mut dyn Pipe, heads: &Mutex<Vec<String>>, handler: &Mutex<Handler>) -> io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        pipe.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    heads.lock().unwrap().push(head.clone());
    let handler = Arc::clone(&handler.lock().unwrap());
    handler(&head, pipe)
}

/// An answer without a body.
pub fn status(line: &str) -> Vec<u8> {
    format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n").into_bytes()
}

/// A redirect.
pub fn redirect(location: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n").into_bytes()
}

/// 200 with a body and further header lines, each ended by CR LF.
pub fn ok(headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Sends nothing until the client has gone.
pub fn silence(pipe: &mut dyn Pipe) -> io::Result<()> {
    let mut rest = Vec::new();
    pipe.read_to_end(&mut rest).map(|_| ())
}

/// Sends the byte again and again, with short pauses, until the client has gone.
pub fn drip(pipe: &mut dyn Pipe, byte: u8) -> io::Result<()> {
    loop {
        pipe.write_all(&[byte])?;
        pipe.flush()?;
        thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// An authority that issues certificates for servers and clients.
pub struct Authority {
    /// Its own certificate, PEM.
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
    der: rustls::pki_types::CertificateDer<'static>,
}

/// A certificate and its key, PEM.
pub struct Certified {
    pub certificate: String,
    pub key: String,
    certificate_der: rustls::pki_types::CertificateDer<'static>,
    key_der: Vec<u8>,
}

impl Authority {
    pub fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // Authorities of the same name are taken for each other.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("authority {}", COUNT.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let (pem, der) = (certificate.pem(), certificate.der().clone());
        Authority { pem, der, issuer: Issuer::new(params, key) }
    }

    /// A certificate for this name, valid until the end of the year `until`.
    pub fn certify(&self, name: &str, until: i32) -> Certified {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(until, 12, 31);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Certified {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            certificate_der: certificate.der().clone(),
            key_der: key.serialize_der(),
        }
    }

    /// The authority's own certificate, for a server that wrongly shows it as its own.
    pub fn own(&self) -> Certified {
        let key = self.issuer.key();
        Certified {
            certificate: self.pem.clone(),
            key: key.serialize_pem(),
            certificate_der: self.der.clone(),
            key_der: key.serialize_der(),
        }
    }

    /// A server that shows this certificate, and demands one of this authority from its clients if `client`
    /// is true.
    pub fn server(&self, shown: &Certified, client: bool) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if client {
            let mut roots = RootCertStore::empty();
            roots.add(self.der.clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(shown.key_der.clone()));
        builder.with_single_cert(vec![shown.certificate_der.clone()], key).unwrap()
    }
}
