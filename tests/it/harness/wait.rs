//! Waiting for conditions, never for a fixed time.

use super::*;

/// Time limit for a condition: far more than it needs, for machines that are busy.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Pause between two checks of a condition.
pub(super) const LOOK: Duration = Duration::from_millis(20);
/// The same pause for a condition that has not come true for a while: many checks start programs, and other tests
/// need the machine.
const LATER_LOOK: Duration = Duration::from_millis(100);

/// Pauses before the next check of a wait that began at this time.
fn pause(begun: Instant) {
    thread::sleep((begun.elapsed() / 50).clamp(LOOK, LATER_LOOK));
}

impl Node {
    /// Waits until a pod's container runs (exactly once), and returns it.
    pub fn wait_running(&self, pod: &str, container: &str) -> Container {
        self.wait_for(&format!("{pod}/{container} runs"), || {
            let mut running = self.running(pod, container);
            if running.len() == 1 { running.pop() } else { None }
        })
    }

    /// Waits until nothing of a pod runs.
    pub fn wait_gone(&self, pod: &str) {
        self.wait_until(&format!("nothing of {pod} runs"), || !self.of(pod).iter().any(Container::runs));
    }

    /// Waits for a phase in the status file.
    pub fn wait_phase(&self, pod: &str, phase: &str) {
        self.wait_until(&format!("{pod} is {phase}"), || self.phase(pod) == phase);
    }

    /// Waits until the condition holds; if it does not within [`PATIENCE`], shows the node and fails.
    pub fn wait_until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        self.wait_for(what, || condition().then_some(()));
    }

    /// Like [`Node::wait_until`], for a value.
    pub fn wait_for<T>(&self, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(value) = condition() {
                return value;
            }
            if begun.elapsed() > PATIENCE {
                panic!("not in {} s: {what}\n{}", PATIENCE.as_secs(), self.picture());
            }
            pause(begun);
        }
    }

    /// Whether the condition comes true within [`PATIENCE`].
    pub fn comes_true(&self, mut condition: impl FnMut() -> bool) -> bool {
        let begun = Instant::now();
        while !condition() {
            if begun.elapsed() > PATIENCE {
                return false;
            }
            pause(begun);
        }
        true
    }
}
