//! Where manifests come from: directories and servers, what they are believed to say, and what is remembered of them.

mod http;
mod http_node;
mod inotify;
mod last_good;
mod policy;
