//! The progress of a pull, from Docker's messages about its layers. Pure.

use crate::base::limits;
use crate::base::table::Table;

/// One message of Docker about a pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Id of the layer; empty in messages about the whole image.
    pub id: &'a str,
    /// `Downloading`, `Pull complete` and so on.
    pub status: &'a str,
    /// Bytes so far in this status.
    pub current: u64,
    /// Total bytes; 0 when Docker does not know.
    pub total: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Layer {
    done: u64,
    /// Bytes; 0 while unknown.
    total: u64,
    /// It was downloaded completely.
    here: bool,
    /// It was unpacked.
    ready: bool,
}

/// The state of all layers after the messages so far.
#[derive(Debug, Default)]
pub struct Progress {
    layers: Table<String, Layer>,
}

/// The progress of a pull at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moment {
    /// Bytes downloaded.
    pub done: u64,
    /// Bytes of the layers whose size is known.
    pub total: u64,
    /// Whether every size is known.
    pub exact: bool,
    /// Layers that are unpacked or were present before.
    pub ready: usize,
    /// Number of all layers.
    pub layers: usize,
}

impl Progress {
    /// Applies one message.
    pub fn take(&mut self, message: &Message<'_>) {
        if message.id.is_empty() || message.status.starts_with("Pulling from") {
            return;
        }
        if !self.layers.contains_key(message.id) && self.layers.len() >= limits::PULL_LAYERS {
            return;
        }
        let layer = self.layers.get_or_default(message.id.to_owned());
        match message.status {
            "Downloading" => {
                layer.done = message.current;
                layer.total = message.total;
            }
            "Verifying Checksum" | "Download complete" | "Extracting" => {
                if message.status == "Extracting" && layer.total == 0 {
                    layer.total = message.total;
                }
                layer.here = true;
            }
            "Pull complete" | "Already exists" => {
                layer.here = true;
                layer.ready = true;
            }
            _ => {}
        }
        if layer.here {
            layer.done = layer.total;
        }
    }

    /// The sums over all layers.
    #[must_use]
    pub fn moment(&self) -> Moment {
        let mut moment = Moment { exact: true, layers: self.layers.len(), ..Moment::default() };
        for layer in self.layers.values() {
            moment.done = moment.done.saturating_add(layer.done);
            moment.total = moment.total.saturating_add(layer.total.max(layer.done));
            moment.exact &= layer.here || layer.total > 0;
            moment.ready = moment.ready.saturating_add(usize::from(layer.ready));
        }
        moment
    }
}

impl Moment {
    /// `12.3 MiB of 45.0 MiB, 2 of 5 layers ready`; empty before the first layer is known.
    #[must_use]
    pub fn words(&self) -> String {
        if self.layers == 0 {
            return String::new();
        }
        let least = if self.exact { "" } else { "at least " };
        let (done, total) = (bytes(self.done), bytes(self.total));
        format!("{done} of {least}{total}, {} of {} layers ready", self.ready, self.layers)
    }

    /// Thousandths done; `None` before any size is known.
    #[must_use]
    pub fn permille(&self) -> Option<u64> {
        if self.layers > 0 && self.ready == self.layers {
            return Some(1000);
        }
        self.done.saturating_mul(1000).checked_div(self.total)
    }
}

/// `512 B`, `1.5 KiB`, `12.3 MiB`.
#[must_use]
pub fn bytes(count: u64) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1_u64 << 10)];
    match units.into_iter().find(|(_, size)| count >= *size) {
        None => format!("{count} B"),
        Some((unit, size)) => {
            let tenths = (u128::from(count) * 10 / u128::from(size)).min(u128::from(u64::MAX));
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(messages: &[(&str, &str, u64, u64)]) -> String {
        let mut progress = Progress::default();
        for &(id, status, current, total) in messages {
            progress.take(&Message { id, status, current, total });
        }
        progress.moment().words()
    }

    #[test]
    fn layers_add_up() {
        assert_eq!(told(&[("", "Pulling from library/x", 0, 0), ("latest", "Pulling from x", 0, 0)]), "");
        let begun = [
            ("a", "Already exists", 0, 0),
            ("b", "Pulling fs layer", 0, 0),
            ("c", "Pulling fs layer", 0, 0),
            ("b", "Downloading", 1 << 20, 4 << 20),
        ];
        assert_eq!(told(&begun), "1.0 MiB of at least 4.0 MiB, 1 of 3 layers ready");
        let further = [("c", "Downloading", 512, 1 << 20), ("b", "Download complete", 0, 0)];
        let all = [&begun[..], &further].concat();
        assert_eq!(told(&all), "4.0 MiB of 5.0 MiB, 1 of 3 layers ready");
        let unpacked = [
            ("b", "Extracting", 1 << 20, 4 << 20),
            ("b", "Pull complete", 0, 0),
            ("c", "Download complete", 0, 0),
            ("c", "Pull complete", 0, 0),
        ];
        assert_eq!(told(&[&all[..], &unpacked].concat()), "5.0 MiB of 5.0 MiB, 3 of 3 layers ready");
    }

    #[test]
    fn the_number_of_layers_has_a_bound() {
        let mut progress = Progress::default();
        for n in 0..limits::PULL_LAYERS + 10 {
            progress.take(&Message { id: &n.to_string(), status: "Waiting", current: 0, total: 0 });
        }
        assert_eq!(progress.moment().layers, limits::PULL_LAYERS);
    }

    #[test]
    fn thousandths() {
        let moment = |done, total, ready, layers| Moment { done, total, exact: true, ready, layers };
        assert_eq!(moment(0, 0, 0, 0).permille(), None);
        assert_eq!(moment(1, 4, 0, 2).permille(), Some(250));
        assert_eq!(moment(0, 0, 2, 2).permille(), Some(1000));
        assert_eq!(moment(u64::MAX, u64::MAX, 0, 1).permille().map(|p| p <= 1000), Some(true));
    }

    #[test]
    fn sizes_in_words() {
        let check = |count, words: &str| assert_eq!(bytes(count), words);
        check(0, "0 B");
        check(1023, "1023 B");
        check(1536, "1.5 KiB");
        check(13_000_000, "12.3 MiB");
        check(u64::MAX, "17179869183.9 GiB");
    }
}
