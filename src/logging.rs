//! Log lines on standard error: level, thread name, message.
