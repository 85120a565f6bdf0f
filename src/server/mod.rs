//! The node's HTTP servers, as the kubelet has them.
//!
//! Nothing listens unless a flag or the configuration says so. Here, no decision about a pod is made, and no client, be
//! it slow, silent or hostile, can cost more than a bounded number of threads, descriptors and bytes.

#[cfg_attr(not(test), allow(dead_code, reason = "the endpoints that carry streams are being built on it"))]
pub mod stream;
