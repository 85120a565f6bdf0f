//! The binary: passes its arguments to the library and exits with its result. No logic here.

/// One heap for all threads. glibc's heap keeps freed memory for each thread, which wastes over 2 MiB on a
/// node with twenty pods; each pod has a thread, and none of them needs fast allocation.
#[global_allocator]
static HEAP: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> std::process::ExitCode {
    podkeeper::main(std::env::args_os().skip(1))
}
