//! The binary: hands its arguments to the library and exits with what that answers. No logic here.

fn main() -> std::process::ExitCode {
    podkeeper::cli::main(std::env::args_os().skip(1))
}
