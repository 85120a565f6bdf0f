//! The lives of pods: start, order, hooks, probes, edits, crashes, restarts of the daemon, and their end.

mod admission;
mod after;
mod deaths;
mod drain;
mod ends;
mod hooks;
mod images;
mod manifests;
mod order;
mod preemption;
mod probes;
mod restart;
mod spec;
mod stop;
mod termination;
mod writers;
