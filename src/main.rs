//! The binary: hands its arguments to the library and exits with what that answers. No logic here.

/// One heap for all threads. glibc's keeps freed pieces for each thread, which costs a node with twenty pods
/// over 2 MiB that nobody uses; each pod has a thread, and none of them allocates in a hurry.
#[global_allocator]
static HEAP: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> std::process::ExitCode {
    podkeeper::main(std::env::args_os().skip(1))
}
