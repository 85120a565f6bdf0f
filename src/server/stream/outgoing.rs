//! Bytes that wait for the client.
//!
//! It has no bound of its own: the writer checks its length first.

use crate::base::limits;

/// Bytes to send; some of the first may be sent already.
#[derive(Debug, Default)]
pub struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.sent > 0 && self.sent >= self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The bytes that are not sent yet.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// Notes that the first `count` bytes of [`Outgoing::rest`] were sent.
    pub fn sent(&mut self, count: usize) {
        self.sent = self.sent.saturating_add(count).min(self.bytes.len());
        if self.sent == self.bytes.len() {
            // Memory of a burst is released.
            if self.bytes.capacity() > limits::STREAM_KEPT {
                self.bytes = Vec::new();
            }
            self.bytes.clear();
            self.sent = 0;
        }
    }

    /// Number of waiting bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rest().len()
    }

    /// Whether no bytes wait.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_the_order_in_which_they_came() {
        let mut outgoing = Outgoing::default();
        let (mut given, mut taken) = (Vec::new(), Vec::new());
        for n in 0..200_u8 {
            let piece = vec![n; usize::from(n)];
            outgoing.push(&piece);
            given.extend(piece);
            let count = outgoing.len() / 3;
            taken.extend_from_slice(&outgoing.rest()[..count]);
            outgoing.sent(count);
        }
        taken.extend_from_slice(outgoing.rest());
        outgoing.sent(outgoing.len());
        assert_eq!(taken, given);
        assert!(outgoing.is_empty());
    }
}
