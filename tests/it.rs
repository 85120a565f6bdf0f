//! The integration tests, one binary: the simulation of the whole loop, and everything that a real Docker
//! Engine must agree to.

#![allow(dead_code)]

#[cfg(test)]
#[path = "it/cli.rs"]
mod cli;
#[cfg(test)]
#[path = "it/docker_client.rs"]
mod docker_client;
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
#[allow(dead_code)]
#[path = "it/harness.rs"]
mod harness;
#[cfg(test)]
#[path = "it/podman.rs"]
mod podman;
#[cfg(test)]
#[path = "it/pods.rs"]
mod pods;
#[cfg(test)]
#[path = "it/private_engine.rs"]
mod private_engine;
#[cfg(test)]
#[path = "it/proxy.rs"]
mod proxy;
#[cfg(test)]
#[path = "it/sandbox_image.rs"]
mod sandbox_image;
#[cfg(test)]
#[path = "it/sim/mod.rs"]
mod sim;
