//! gRPC health checks, of a real server and of what is none.

use std::process::{Child, Command, Stdio};

use super::*;

fn grpc(port: u16, service: &str) -> Action {
    Action::Grpc { port, service: service.into() }
}

#[test]
fn grpc_without_a_server_for_it() {
    let port = closed();
    let text = format!(
        "error: failed to connect service at \"127.0.0.1:{port}\": dial tcp 127.0.0.1:{port}: connect: \
         connection refused"
    );
    assert_eq!(ask(&grpc(port, "")), failed(&text));
    let mut kept = Vec::new();
    let silent = server(move |stream| kept.push(stream));
    let Outcome::Failed(text) = ask_shortly(&grpc(silent, "")) else { panic!() };
    assert!(
        text.starts_with(&format!("timeout: failed to connect service \"127.0.0.1:{silent}\"")),
        "{text}"
    );
    let plain = says("HTTP/1.1 400 Bad Request\r\n\r\n");
    let Outcome::Failed(text) = ask(&grpc(plain, "")) else { panic!() };
    assert!(text.starts_with("error: "), "{text}");
}

/// A server of the real library (python3-grpcio); `None` where it is not installed.
fn real_server() -> Option<(Child, u16)> {
    const SCRIPT: &str = r#"
import grpc, sys, time
from concurrent import futures
def check(request, context):
    context.send_initial_metadata((("x-served-by", "a rather long value, so that huffman coding pays"),))
    if request == b"\x0a\x04sick": return b"\x08\x02"
    if request == b"\x0a\x04slow": time.sleep(3)
    if request == b"\x0a\x04nope": context.abort(grpc.StatusCode.NOT_FOUND, "unknown service: 100% new")
    return b"\x08\x01"
server = grpc.server(futures.ThreadPoolExecutor(4))
if sys.argv[1] == "health":
    raw = grpc.unary_unary_rpc_method_handler(check)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": raw}),))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
"#;
    start_real(SCRIPT, "health")
}

fn start_real(script: &str, how: &str) -> Option<(Child, u16)> {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", script, how]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take()?), &mut line).ok()?;
    match line.trim().parse() {
        Ok(port) => Some((child, port)),
        Err(_) => {
            _ = child.wait();
            None
        }
    }
}

#[test]
fn grpc_with_a_real_server() {
    let Some((mut child, port)) = real_server() else {
        eprintln!("python3-grpcio is not installed: nothing is tried");
        return;
    };
    assert_eq!(ask(&grpc(port, "")), Outcome::Passed);
    assert_eq!(ask(&grpc(port, "sick")), failed("service unhealthy (responded with \"NOT_SERVING\")"));
    assert_eq!(
        ask(&grpc(port, "nope")),
        failed("error: health rpc probe failed: rpc error: code = NotFound desc = unknown service: 100% new")
    );
    let slow = ask_with(&grpc(port, "slow"), Duration::from_secs(1), None);
    assert_eq!(slow, failed("timeout: health rpc did not complete within 1s"));
    for _ in 0..20 {
        assert_eq!(ask(&grpc(port, "")), Outcome::Passed);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
