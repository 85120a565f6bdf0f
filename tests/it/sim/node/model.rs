//! The node's resources: one or two disks and memory, and their use.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use podkeeper::testing::base::clock::Mono;
use podkeeper::testing::daemon::keeper::mind::Seen;
use podkeeper::testing::eviction::manager::Observation;
use podkeeper::testing::eviction::rank::{Candidate, Counted};
use podkeeper::testing::eviction::signal::{Resource, Signal};
use podkeeper::testing::garbage::schedule::Disk;
use podkeeper::testing::pod::priority;
use podkeeper::testing::runtime::fake::Rng;
use podkeeper::testing::runtime::{DockerError, DockerState, Refusal, RefusalKind, labels};
use podkeeper::testing::status::snapshot::{PodView, Snapshot, UNMANAGED};

use super::super::world::{ROOT, World};

pub const MIB: u64 = 1 << 20;
/// Size of each disk.
const DISK: u64 = 1000 * MIB;
const INODES: u64 = 20_000;
const MEMORY: u64 = 1000 * MIB;
/// Room that a container needs before it has written anything.
const LAYER: Room = Room { bytes: MIB / 4, inodes: 10 };

/// Room on a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    pub bytes: u64,
    pub inodes: u64,
}

impl Room {
    /// Room for an image of this size.
    pub fn of_image(bytes: u64) -> Room {
        Room { bytes, inodes: bytes / (256 * 1024) }
    }

    pub fn and(self, other: Room) -> Room {
        Room { bytes: self.bytes + other.bytes, inodes: self.inodes + other.inodes }
    }

    fn within(self, most: Room) -> Room {
        Room { bytes: self.bytes.min(most.bytes), inodes: self.inodes.min(most.inodes) }
    }

    fn without(self, other: Room) -> Room {
        Room {
            bytes: self.bytes.saturating_sub(other.bytes),
            inodes: self.inodes.saturating_sub(other.inodes),
        }
    }
}

/// Use by containers of one pod per second.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    /// Writable layer and logs.
    pub layer: Room,
    /// Volumes.
    pub volume: Room,
    /// Bytes.
    pub memory: u64,
}

/// The disks and the memory.
pub struct Model {
    pub rng: Rng,
    /// Whether Docker's root directory is on a disk of its own.
    pub dedicated: bool,
    /// By the pod's name.
    pub rates: BTreeMap<String, Rates>,
    /// Nothing grows after this time.
    pub until: Mono,
    /// Room used by other data than the pods'.
    pub others: Room,
    /// UIDs of pods whose files cannot be read, because they hang.
    pub dead: BTreeSet<String>,
    /// By container id.
    layers: BTreeMap<String, Room>,
    /// By pod UID.
    volumes: BTreeMap<String, Room>,
    /// By id of a running container.
    memory: BTreeMap<String, u64>,
    grown: Mono,
}

impl Model {
    pub fn new(seed: u64, until: Mono) -> Model {
        Model {
            rng: Rng::new(seed ^ 0xd15c),
            dedicated: seed % 3 == 1,
            rates: BTreeMap::new(),
            until,
            others: Room::default(),
            dead: BTreeSet::new(),
            layers: BTreeMap::new(),
            volumes: BTreeMap::new(),
            memory: BTreeMap::new(),
            grown: Mono::default(),
        }
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.rng.number() % n.max(1)
    }
}

/// Size of the image of a name.
pub fn image_size(name: &str) -> u64 {
    let sum = name.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    (10 + sum % 50) * MIB
}

impl World {
    pub fn model(&mut self) -> &mut Model {
        &mut self.node.as_mut().unwrap().model
    }

    /// Room used by images and containers.
    pub fn of_docker(&self) -> Room {
        let model = &self.node.as_ref().unwrap().model;
        let images = self.engine.image_list().into_iter().map(|image| Room::of_image(image.size));
        images.chain(model.layers.values().copied()).fold(Room::default(), Room::and)
    }

    /// Room used by volumes and other data.
    fn of_node(&self) -> Room {
        let model = &self.node.as_ref().unwrap().model;
        model.volumes.values().copied().fold(model.others, Room::and)
    }

    /// Free room on the disk of images, or on that of volumes.
    pub fn free(&self, of_images: bool) -> Room {
        let all = Room { bytes: DISK, inodes: INODES };
        match (self.node.as_ref().unwrap().model.dedicated, of_images) {
            (false, _) => all.without(self.of_docker().and(self.of_node())),
            (true, true) => all.without(self.of_docker()),
            (true, false) => all.without(self.of_node()),
        }
    }

    /// Use of the disks, for a story.
    pub fn who_has(&self) -> String {
        let model = &self.node.as_ref().unwrap().model;
        let images: Vec<_> =
            self.engine.image_list().into_iter().map(|image| (image.tags, image.size / MIB)).collect();
        format!(
            "others {:?}, volumes {:?}, layers {:?}, images in MiB {images:?}",
            model.others, model.volumes, model.layers
        )
    }

    /// Lets disks and memory grow until the present time.
    pub fn grow(&mut self) {
        let now = self.now;
        let mut running: Vec<(String, String, String)> = Vec::new();
        let mut there = BTreeSet::new();
        for c in self.engine.containers() {
            there.insert(c.id.clone());
            let label = |key: &str| c.body.labels.get(key).cloned().unwrap_or_default();
            let is_app =
                label(labels::ROOT_DIR) == ROOT && label(labels::CONTAINER_NAME) != labels::SANDBOX_NAME;
            if c.state == DockerState::Running && is_app {
                running.push((c.id.clone(), label(labels::POD_NAME), label(labels::POD_UID)));
            }
        }
        let disk = self.disk.pods.clone();
        let model = self.model();
        let millis = model.until.min(now).since(model.grown).as_millis() as u64;
        model.grown = now;
        model.layers.retain(|id, _| there.contains(id));
        model.volumes.retain(|uid, _| disk.contains(uid));
        model.memory.retain(|id, _| running.iter().any(|(known, ..)| known == id));
        for id in there {
            model.layers.entry(id).or_insert(LAYER);
        }
        for (id, pod, uid) in running {
            let rates = self.model().rates.get(&pod).copied().unwrap_or_default();
            let of = |each: u64| each * millis / 1000;
            let more = |rate: Room| Room { bytes: of(rate.bytes), inodes: of(rate.inodes) };
            let layer = more(rates.layer).within(self.free(true));
            let room = self.model().layers.entry(id.clone()).or_default();
            *room = room.and(layer);
            if disk.contains(&uid) {
                let volume = more(rates.volume).within(self.free(false));
                let room = self.model().volumes.entry(uid).or_default();
                *room = room.and(volume);
            }
            *self.model().memory.entry(id).or_insert(5 * MIB) += of(rates.memory);
        }
        self.out_of_memory();
    }

    /// Containers give memory back: with one that has just less than the threshold leaves, a pod that comes back would
    /// make the node short again, and be evicted again, for ever.
    pub(super) fn give_memory_back(&mut self) {
        self.model().memory.values_mut().for_each(|used| *used = (*used).min(5 * MIB));
    }

    /// The kernel kills the container with the largest memory.
    fn out_of_memory(&mut self) {
        loop {
            let model = self.model();
            if model.memory.values().sum::<u64>() < MEMORY - 10 * MIB {
                return;
            }
            let Some((id, _)) = model.memory.iter().max_by_key(|(_, used)| **used) else { return };
            let id = id.clone();
            model.memory.remove(&id);
            let now = self.now();
            self.note(|| format!("the kernel kills {}", id.get(..8).unwrap_or_default()));
            self.engine.oom(&id, now);
        }
    }

    /// The figures.
    pub fn seen(&mut self) -> Seen {
        self.grow();
        let mut seen = Seen::default();
        let of_images = self.free(true);
        for (room, bytes, inodes) in [
            (self.free(false), Signal::NodeFs, Signal::NodeFsInodes),
            (of_images, Signal::ImageFs, Signal::ImageFsInodes),
        ] {
            seen.found.insert(bytes, Observation { available: room.bytes, capacity: DISK });
            seen.found.insert(inodes, Observation { available: room.inodes, capacity: INODES });
        }
        seen.images = Some(Disk { capacity: DISK, available: of_images.bytes });
        let model = self.model();
        seen.dedicated = model.dedicated;
        let used = model.memory.values().sum::<u64>();
        let available = MEMORY.saturating_sub(used);
        seen.found.insert(Signal::Memory, Observation { available, capacity: MEMORY });
        seen
    }

    /// The pods that may be evicted, and their use of the resource that is short.
    pub fn candidates(&self, snapshot: &Snapshot, signal: Signal) -> Vec<(Candidate, Vec<String>)> {
        let model = &self.node.as_ref().unwrap().model;
        let counted = Counted::of(signal, model.dedicated);
        let resource = signal.resource();
        let amount = |room: &Room| if resource == Resource::Inodes { room.inodes } else { room.bytes };
        let one = |view: &PodView| {
            let (pod, status) = (&view.pod, &view.status);
            let phase = status.phase.as_deref();
            let is_wanted = status.reason.as_deref() != Some(UNMANAGED);
            let has_ended = matches!(phase, Some("Failed" | "Succeeded"));
            if !view.is_kept || !is_wanted || has_ended {
                return None;
            }
            let statuses =
                || status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
            let docker_id = |text: &str| text.strip_prefix("docker://").map(str::to_owned);
            let ids = statuses().filter_map(|c| docker_id(c.container_id.as_deref()?));
            let ids: Vec<String> = ids.collect();
            let running: Vec<String> =
                ids.iter().filter(|id| model.memory.contains_key(*id)).cloned().collect();
            let used = match resource {
                Resource::Memory if running.is_empty() => return None,
                Resource::Memory => Some(running.iter().filter_map(|id| model.memory.get(id)).sum()),
                _ => {
                    let of = |ids: &[String]| {
                        ids.iter().filter_map(|id| model.layers.get(id)).map(amount).sum::<u64>()
                    };
                    // Dead containers that are kept beside their successors count, too.
                    let dead = statuses().filter_map(|c| {
                        let last = c.last_state.as_ref()?.terminated.as_ref()?.container_id.as_deref()?;
                        (c.container_id.as_deref() != Some(last)).then_some(last)
                    });
                    let dead: Vec<String> = dead.filter_map(docker_id).collect();
                    let layers = if counted.of_docker { of(&ids) + of(&dead) } else { 0 };
                    let volumes = model.volumes.get(&pod.uid).filter(|_| counted.volumes);
                    Some(layers + volumes.map_or(0, amount))
                }
            };
            let candidate = Candidate {
                key: pod.key.clone(),
                uid: pod.uid.clone(),
                source: pod.source,
                priority: priority::of(pod),
                used,
                is_cut: false,
                images: 0,
                goes_first: snapshot.standings.get(&pod.source).is_some_and(|of| of.evict_first),
                request: 0,
                asked: 0,
                own_request: None,
                containers: Vec::new(),
            };
            Some((candidate, running))
        };
        snapshot.pods.iter().filter_map(one).collect()
    }

    /// An image was pulled, if there is room for it.
    pub fn pulled(&mut self, image: &str, was_there: bool) -> Result<(), String> {
        if self.node.is_none() || was_there {
            return Ok(());
        }
        self.grow();
        let size = image_size(image);
        self.engine.set_image_size(image, 0);
        if self.free(true).bytes < size {
            self.engine.remove_image(image);
            return Err("write /layer.tar: no space left on device".to_owned());
        }
        self.engine.set_image_size(image, size);
        Ok(())
    }

    /// Docker's error when its disk is full.
    pub fn no_space(&self) -> Option<DockerError> {
        let free = self.node.as_ref().map(|_| self.free(true))?;
        if free.bytes >= LAYER.bytes && free.inodes >= LAYER.inodes {
            return None;
        }
        let message = "mkdir /var/lib/docker/overlay2/x: no space left on device".to_owned();
        Some(DockerError::Refused(Refusal { kind: RefusalKind::Server, status: 500, message }))
    }

    /// Lets time pass.
    pub fn let_time_pass(&mut self, time: Duration) {
        let until = self.now.after(time);
        self.run_until(until);
        self.grow();
    }
}
