//! The main loop's body as a pure function: event in, effects out.
