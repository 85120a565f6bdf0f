//! A proxy between a node and the real API server that bends answers: it replaces them, cuts them at a byte, or lets a
//! watch expire. Behind it is `kubectl proxy` with the node's credentials, so that this one reads plain HTTP.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fs, io, thread};

use crate::cluster::control_plane::{ControlPlane, programs};
use crate::harness::Node;

/// A place in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// So many bytes after its beginning.
    Head(usize),
    /// So many bytes after the beginning of this chunk, which is the chunk's own head.
    Chunk(usize, usize),
}

/// What happens to the answers about this node's pods: lists and watches.
#[derive(Debug, Clone, Default)]
pub enum Fault {
    #[default]
    None,
    /// Each answer, and that to every other request, is this one.
    Answer(Vec<u8>),
    /// The connection ends at this place of the next answer; then comes the next fault.
    Cut(At),
    /// Nothing of the server's comes any more on a watch that is open.
    Deaf,
    /// A watch that is open ends with the event that its version has expired; then comes the next fault.
    Expire,
}

#[derive(Default)]
struct State {
    fault: Fault,
    /// The faults after that.
    next: VecDeque<Fault>,
    /// Requests for pods so far, without the host.
    asked: Vec<String>,
    /// Answers that were replaced.
    replaced: usize,
    /// Number of watches that have expired.
    expired: usize,
    /// Places of the cuts so far.
    cuts: Vec<At>,
    open: Vec<TcpStream>,
}

impl State {
    fn go_on(&mut self) {
        self.fault = self.next.pop_front().unwrap_or_default();
    }
}

/// See the module.
pub struct Bent {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    behind: Child,
}

impl Bent {
    /// For this node, which does not run yet.
    pub fn of(plane: &ControlPlane, node: &Node) -> Bent {
        let mut command = Command::new(programs().join("kubectl"));
        command.arg("--kubeconfig").arg(plane.node(&node.name)).args(["proxy", "--port=0"]);
        let mut behind = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(behind.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let far = line.trim().rsplit(' ').next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, state) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(State::default())));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let (state, far) = (Arc::clone(&shared), far.clone());
                // An error is a connection that ended: nobody is left to report it to.
                thread::spawn(move || _ = serve(&near, &far, &state));
            }
        });
        Bent { address, state, behind }
    }

    /// A kubeconfig that uses this proxy.
    pub fn kubeconfig(&self, node: &Node) -> PathBuf {
        let path = node.base.join("bent.kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- {{name: c, cluster: {{server: 'http://{}'}}}}\nusers:\n\
             - {{name: u, user: {{}}}}\ncontexts:\n- {{name: x, context: {{cluster: c, user: u}}}}\ncurrent-context: x\n",
            self.address
        );
        fs::write(&path, text).unwrap();
        path
    }

    pub fn set(&self, fault: Fault) {
        self.set_all([fault]);
    }

    /// These faults come one after the other.
    pub fn set_all(&self, faults: impl IntoIterator<Item = Fault>) {
        let mut state = self.state.lock().unwrap();
        state.next = faults.into_iter().collect();
        state.go_on();
    }

    /// Ends all connections.
    pub fn cut(&self) {
        for stream in self.state.lock().unwrap().open.drain(..) {
            _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Requests for pods so far.
    pub fn asked(&self) -> Vec<String> {
        self.state.lock().unwrap().asked.clone()
    }

    /// How many answers about pods were replaced.
    pub fn replaced(&self) -> usize {
        self.state.lock().unwrap().replaced
    }

    /// How many watches have expired.
    pub fn expired(&self) -> usize {
        self.state.lock().unwrap().expired
    }

    /// Places of the cuts so far.
    pub fn cuts(&self) -> Vec<At> {
        self.state.lock().unwrap().cuts.clone()
    }
}

impl Drop for Bent {
    fn drop(&mut self) {
        _ = self.behind.kill();
        _ = self.behind.wait();
        self.cut();
    }
}

/// Whether it is a request for this node's pods.
fn is_of_pods(request: &str) -> bool {
    request.starts_with("GET /api/v1/pods?")
}

/// Passes one request on, and its answer back.
fn serve(near: &TcpStream, far: &str, state: &Mutex<State>) -> io::Result<()> {
    let mut reader = BufReader::new(near);
    let (mut request, mut head, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut request)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let (name, value) = line.trim().split_once(':').unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "" => break,
            "content-length" => length = value.trim().parse().unwrap(),
            "connection" => continue,
            _ => {}
        }
        head += &line;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let far = TcpStream::connect(far)?;
    let replaced = {
        let mut state = state.lock().unwrap();
        state.open.extend([near.try_clone()?, far.try_clone()?]);
        if is_of_pods(&request) {
            state.asked.push(request.clone());
        }
        match &state.fault {
            Fault::Answer(answer) => {
                let answer = answer.clone();
                state.replaced += usize::from(is_of_pods(&request));
                Some(answer)
            }
            _ => None,
        }
    };
    let mut to_near = near;
    if let Some(answer) = replaced {
        to_near.write_all(&answer)?;
    } else {
        (&far).write_all(format!("{request}{head}Connection: close\r\n\r\n").as_bytes())?;
        (&far).write_all(&body)?;
        relay(&far, near, is_of_pods(&request), state)?;
    }
    _ = near.shutdown(Shutdown::Both);
    _ = far.shutdown(Shutdown::Both);
    Ok(())
}

/// The end of a watch whose version has expired: a chunk, and the last one.
fn expiry() -> Vec<u8> {
    let event = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired","code":410}}"#;
    format!("{:x}\r\n{event}\n\r\n0\r\n\r\n", event.len() + 1).into_bytes()
}

fn relay(mut far: &TcpStream, mut near: &TcpStream, bends: bool, state: &Mutex<State>) -> io::Result<()> {
    far.set_read_timeout(Some(Duration::from_millis(10)))?;
    let (mut all, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        let read = match far.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            // Between two chunks.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => 0,
            Err(error) => return Err(error),
        };
        if is_closed(near)? {
            // Nobody would see the fault.
            return Ok(());
        }
        let before = all.len();
        all.extend_from_slice(&buffer[..read]);
        let mut state = state.lock().unwrap();
        let mut until = all.len();
        match state.fault {
            _ if !bends => {}
            // It was there before this fault.
            Fault::Cut(at) if place(&all, at).is_some_and(|place| place < before) => {}
            Fault::Cut(at) => {
                let place = place(&all, at).filter(|place| *place <= all.len());
                if let Some(place) = place {
                    state.cuts.push(at);
                    state.go_on();
                    near.write_all(&all[before..place])?;
                    _ = near.shutdown(Shutdown::Both);
                    return Ok(());
                }
            }
            Fault::Deaf => until = before,
            Fault::Expire if read == 0 => {
                state.expired += 1;
                state.go_on();
                return near.write_all(&expiry());
            }
            _ => {}
        }
        drop(state);
        near.write_all(&all[before..until])?;
    }
}

/// Whether the node has closed its connection; it sends nothing after its request.
fn is_closed(near: &TcpStream) -> io::Result<bool> {
    near.set_nonblocking(true)?;
    let peeked = near.peek(&mut [0]);
    near.set_nonblocking(false)?;
    Ok(peeked.is_ok_and(|read| read == 0))
}

/// The number of bytes before this place; `None` while that is not known.
fn place(answer: &[u8], at: At) -> Option<usize> {
    let (chunk, more) = match at {
        At::Head(bytes) => return Some(bytes),
        At::Chunk(chunk, more) => (chunk, more),
    };
    let end = |from: usize, mark: &[u8]| {
        let rest = answer.get(from..)?;
        rest.windows(mark.len()).position(|part| part == mark).map(|found| from + found + mark.len())
    };
    let mut begin = end(0, b"\r\n\r\n")?;
    for _ in 0..chunk {
        let data = end(begin, b"\r\n")?;
        let size = std::str::from_utf8(&answer[begin..data - 2]).ok()?;
        begin = data + usize::from_str_radix(size, 16).ok()? + 2;
    }
    (begin <= answer.len()).then_some(begin + more)
}
