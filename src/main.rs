//! The binary: passes its arguments to the library and exits with its result. No logic here.

#[global_allocator]
static HEAP: podkeeper::Heap = podkeeper::Heap;

fn main() -> std::process::ExitCode {
    podkeeper::main(std::env::args_os().skip(1))
}
