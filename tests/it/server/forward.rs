//! Port-forward on a real Docker, by clients that speak kubectl's protocols.

use std::net::TcpListener;
use std::{io, thread};

use super::client::{Spdy, WebSocket};
use super::streams::{V4, node_with};
use crate::harness::Node;
use crate::harness::pods::{Pod, much};

/// A pod that echoes on port 7000, and speaks HTTP on port 7001 of its own loopback only.
fn echo() -> Pod {
    Pod::new("web").script("trap 'exit 0' TERM; httpd -p 127.0.0.1:7001; nc -ll -p 7000 -e cat & wait")
}

/// Waits until both ports listen: 7000 and 7001, in the kernel's notation.
fn wait_listening(node: &Node) {
    node.inside(
        "web",
        "app",
        "until cat /proc/net/tcp* | grep -q :1B58; do :; done; until grep :1B59 /proc/net/tcp; do :; done",
    );
}

fn forward(node: &Node) -> String {
    format!("/portForward/default/{}", node.full("web"))
}

/// A pair of streams to a port: one for errors, on which the client sends nothing, and one for
/// data.
fn pair(spdy: &mut Spdy, port: u16, id: usize) -> [u32; 2] {
    let (port, id) = (port.to_string(), id.to_string());
    let pair = ["error", "data"]
        .map(|kind| spdy.stream(&[("streamtype", kind), ("port", &port), ("requestid", &id)]));
    spdy.send(pair[0], &[], true);
    pair
}

#[test]
fn ports_of_a_pod_are_reached_over_spdy() {
    let (node, port) = node_with(&echo());
    wait_listening(&node);
    let mut spdy = Spdy::open(port, &forward(&node), "portforward.k8s.io");
    let [error, data] = pair(&mut spdy, 7000, 0);
    let sent = much(1 << 20);
    spdy.send(data, &sent, true);
    assert!(spdy.whole(data).bytes == sent, "what comes back is what was sent");
    assert_eq!(spdy.whole(error).text(), "", "no word is success");
    let [_error, data] = pair(&mut spdy, 7001, 1);
    spdy.send(data, b"GET /none HTTP/1.0\r\n\r\n", false);
    assert!(spdy.whole(data).text().starts_with("HTTP/1.1 404 "), "the pod's own loopback is reached");
    let [error, data] = pair(&mut spdy, 7777, 2);
    let told = spdy.whole(error).text();
    let expected = format!("error forwarding port 7777 to pod {}_default, uid ", node.full("web"));
    assert!(told.starts_with(&expected) && told.contains("connection refused"), "{told}");
    assert!(spdy.whole(data).bytes.is_empty());
}

/// A server that returns to each client everything that it sends, to its end.
fn echoes() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            thread::spawn(move || io::copy(&mut client.try_clone().unwrap(), &mut client).unwrap());
        }
    });
    port
}

#[test]
fn one_client_has_a_thousand_connections_at_once() {
    // The pod has the node's network, where the test itself listens.
    let (node, port) = node_with(&Pod::new("web").set("/spec/hostNetwork", true));
    let served = echoes();
    let mut spdy = Spdy::open(port, &forward(&node), "portforward.k8s.io");
    let pairs: Vec<[u32; 2]> = (0..1000).map(|id| pair(&mut spdy, served, id)).collect();
    let sent = |at: usize| much(2000 + at);
    for (at, [_, data]) in pairs.iter().enumerate() {
        spdy.send(*data, &sent(at), false);
    }
    // All of them are open: none has ended.
    spdy.until("everything comes back", |spdy| {
        let is_back = |(at, [_, data]): (usize, &[u32; 2])| {
            spdy.heard.get(data).is_some_and(|heard| heard.bytes.len() == 2000 + at)
        };
        pairs.iter().enumerate().all(is_back)
    });
    for [_, data] in &pairs {
        spdy.send(*data, &[], true);
    }
    for (at, [error, data]) in pairs.into_iter().enumerate() {
        assert!(spdy.whole(data).bytes == sent(at), "what comes back over connection {at} is what was sent");
        assert_eq!(spdy.whole(error).text(), "", "no word is success");
    }
}

/// With the node's network a client reached every port of the node's loopback for as long as it liked.
#[test]
fn a_pod_that_is_gone_forwards_no_port_of_the_node() {
    let (node, port) = node_with(&Pod::new("web").set("/spec/hostNetwork", true));
    let served = echoes();
    let mut spdy = Spdy::open(port, &forward(&node), "portforward.k8s.io");
    let [_, data] = pair(&mut spdy, served, 0);
    spdy.send(data, b"here", true);
    assert_eq!(spdy.whole(data).text(), "here");
    node.remove("web.json");
    // The server knows the same as the status file.
    node.wait_until("it is known that the pod is gone", || node.pod("web").is_none());
    let [error, _] = pair(&mut spdy, served, 1);
    let told = spdy.whole(error).text();
    assert!(told.contains("the pod is over"), "{told}");
}

#[test]
fn ports_of_a_pod_are_reached_over_websocket() {
    let (node, port) = node_with(&echo());
    wait_listening(&node);
    let target = format!("{}?port=7000,7777", forward(&node));
    let mut socket = WebSocket::open(port, &target, V4);
    let sent = much(200_000);
    sent.chunks(10_000).for_each(|piece| socket.send(0, piece));
    socket.until("all came back", |socket| {
        socket.heard.get(&0).is_some_and(|heard| heard.bytes.len() == sent.len() + 2)
    });
    assert_eq!(socket.heard[&0].bytes[..2], 7000_u16.to_le_bytes());
    assert!(socket.heard[&0].bytes[2..] == sent);
    socket
        .until("the other port is refused", |socket| socket.heard[&3].text().contains("connection refused"));
}
