//! What is asked of the kernel about this process and machine, in safe words.
