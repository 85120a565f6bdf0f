//! Docker's behaviour, and podkeeper's reaction to it: calls, events, images, engines that come late, die, or are
//! Podman.

mod docker_client;
mod events;
mod fake_like_real;
mod images;
mod offline;
mod podman;
mod restarts;
mod sandbox_image;
