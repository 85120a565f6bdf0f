//! Starts threads. The standard library compiles the whole start of a thread for each closure; here it is compiled once,
//! for closures on the heap.
//!
//! Never here: what a thread does.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread with this name, of which the kernel shows 15 bytes, and a stack of so many bytes.
///
/// # Errors
/// The system cannot make a thread.
pub fn spawn<T: Send + 'static>(
    name: &str,
    stack: usize,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    boxed(name, stack, Box::new(body))
}

fn boxed<T: Send + 'static>(
    name: &str,
    stack: usize,
    body: Box<dyn FnOnce() -> T + Send>,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).stack_size(stack).spawn(body)
}

#[cfg(test)]
mod tests {
    use crate::base::limits;

    #[test]
    fn a_thread_has_its_name_and_gives_its_result() {
        let name = || std::thread::current().name().map(str::to_owned);
        let thread = super::spawn("pk-name", limits::WORKER_STACK, name).unwrap();
        assert_eq!(thread.join().unwrap().as_deref(), Some("pk-name"));
    }
}
