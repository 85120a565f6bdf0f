//! Sources of manifests: directories and servers, the validity of their contents, and remembered content.

mod http;
mod http_node;
mod inotify;
mod last_good;
mod policy;
