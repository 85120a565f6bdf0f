//! The integration tests, one binary: the simulation of the whole loop, and everything that a real Docker
//! Engine must agree to.

#[cfg(test)]
#[path = "it/after.rs"]
mod after;
#[cfg(test)]
#[path = "it/away.rs"]
mod away;
#[cfg(test)]
#[path = "it/cli.rs"]
mod cli;
#[cfg(test)]
#[path = "it/cli_live.rs"]
mod cli_live;
#[cfg(test)]
#[path = "it/docker_client.rs"]
mod docker_client;
#[cfg(test)]
#[path = "it/drain.rs"]
mod drain;
#[cfg(test)]
#[path = "it/ends.rs"]
mod ends;
#[cfg(test)]
#[path = "it/events.rs"]
mod events;
#[cfg(test)]
#[path = "it/examples.rs"]
mod examples;
#[cfg(test)]
#[path = "it/fake_like_real.rs"]
mod fake_like_real;
#[cfg(test)]
#[path = "it/faults.rs"]
mod faults;
#[cfg(test)]
#[path = "it/faults_churn.rs"]
mod faults_churn;
#[cfg(test)]
#[path = "it/faults_events.rs"]
mod faults_events;
#[cfg(test)]
#[path = "it/faults_replies.rs"]
mod faults_replies;
#[cfg(test)]
#[path = "it/faults_start.rs"]
mod faults_start;
#[cfg(test)]
#[path = "it/harness.rs"]
mod harness;
#[cfg(test)]
#[path = "it/history.rs"]
mod history;
#[cfg(test)]
#[path = "it/hooks.rs"]
mod hooks;
#[cfg(test)]
#[path = "it/hostile.rs"]
mod hostile;
#[cfg(test)]
#[path = "it/http_source.rs"]
mod http_source;
#[cfg(test)]
#[path = "it/http_source_node.rs"]
mod http_source_node;
#[cfg(test)]
#[path = "it/identity.rs"]
mod identity;
#[cfg(test)]
#[path = "it/images.rs"]
mod images;
#[cfg(test)]
#[path = "it/inotify.rs"]
mod inotify;
#[cfg(test)]
#[path = "it/last_good.rs"]
mod last_good;
#[cfg(test)]
#[path = "it/lifecycle.rs"]
mod lifecycle;
#[cfg(test)]
#[path = "it/lifecycle_admission.rs"]
mod lifecycle_admission;
#[cfg(test)]
#[path = "it/lifecycle_deaths.rs"]
mod lifecycle_deaths;
#[cfg(test)]
#[path = "it/lifecycle_images.rs"]
mod lifecycle_images;
#[cfg(test)]
#[path = "it/lifecycle_order.rs"]
mod lifecycle_order;
#[cfg(test)]
#[path = "it/lifecycle_restart.rs"]
mod lifecycle_restart;
#[cfg(test)]
#[path = "it/lifecycle_spec.rs"]
mod lifecycle_spec;
#[cfg(test)]
#[path = "it/lifecycle_stop.rs"]
mod lifecycle_stop;
#[cfg(test)]
#[path = "it/lifecycle_writers.rs"]
mod lifecycle_writers;
#[cfg(test)]
#[path = "it/limits.rs"]
mod limits;
#[cfg(test)]
#[path = "it/log_paths.rs"]
mod log_paths;
#[cfg(test)]
#[path = "it/network.rs"]
mod network;
#[cfg(test)]
#[path = "it/node/mod.rs"]
mod node;
#[cfg(test)]
#[path = "it/objects.rs"]
mod objects;
#[cfg(test)]
#[path = "it/offline.rs"]
mod offline;
#[cfg(test)]
#[path = "it/packaging.rs"]
mod packaging;
#[cfg(test)]
#[path = "it/podman.rs"]
mod podman;
#[cfg(test)]
#[path = "it/pods.rs"]
mod pods;
#[cfg(test)]
#[path = "it/policy.rs"]
mod policy;
#[cfg(test)]
#[path = "it/private_engine.rs"]
mod private_engine;
#[cfg(test)]
#[path = "it/probes.rs"]
mod probes;
#[cfg(test)]
#[path = "it/proxy.rs"]
mod proxy;
#[cfg(test)]
#[path = "it/registry.rs"]
mod registry;
#[cfg(test)]
#[path = "it/sandbox_image.rs"]
mod sandbox_image;
#[cfg(test)]
#[path = "../src/source/testing/signer.rs"]
mod signer;
#[cfg(test)]
#[path = "it/sim/mod.rs"]
mod sim;
#[cfg(test)]
#[path = "it/systemd.rs"]
mod systemd;
#[cfg(test)]
#[path = "it/systemd_unit.rs"]
mod systemd_unit;
#[cfg(test)]
#[path = "it/termination.rs"]
mod termination;
#[cfg(test)]
#[path = "it/volumes.rs"]
mod volumes;
