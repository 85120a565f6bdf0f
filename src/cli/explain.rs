//! x
use super::exit::Exit;
use super::parse::Options;

/// x
pub fn run(_options: &Options, _field: &str) -> Exit {
    Exit::Ok
}
