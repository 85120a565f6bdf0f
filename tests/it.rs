//! The integration tests, one binary: the simulation of the whole loop, and everything that a real Docker
//! Engine must agree to.

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
#[path = "it/packaging.rs"]
mod packaging;
#[cfg(test)]
#[path = "it/sandbox_image.rs"]
mod sandbox_image;
#[cfg(test)]
#[path = "it/sim/mod.rs"]
mod sim;
