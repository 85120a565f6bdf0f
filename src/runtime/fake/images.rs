//! Images of the in-memory engine: names and sizes. Pure.

use std::time::Duration;

use super::state::{State, refused};
use crate::base::clock::Now;
use crate::base::hex::short_ids;
use crate::base::limits;
use crate::base::table::Set;
use crate::runtime::{
    Call, DiskUsage, DockerError, DockerState, ImageDetail, ImageSummary, RefusalKind as Kind, Reply,
};

#[derive(Debug, Clone)]
pub struct Image {
    pub(super) id: String,
    pub(super) tags: Vec<String>,
    pub(super) digests: Vec<String>,
    /// It has an entrypoint or a command.
    pub(super) command: bool,
    pub(super) stop_signal: Option<String>,
    /// `Config.User`.
    pub(super) user: String,
    pub(super) size: u64,
    /// Bytes of `Config`.
    pub(super) configuration: usize,
}

/// Bytes of an image, unless a test says otherwise.
const SIZE: u64 = 1 << 20;

/// The result of a pull of an image. Without a script it succeeds at once, unless the repository's name
/// begins with `no-such`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pull {
    /// Succeeds after this.
    Takes(Duration),
    /// Fails with this message.
    Fails(String),
}

/// How long a pull takes. Zero: the image is present; otherwise call [`State::add_image`] after it.
pub type PullTakes = Duration;

impl State {
    /// An image by reference, id, or prefix of an id.
    pub(super) fn image(&self, reference: &str) -> Option<&Image> {
        let full = full_reference(reference);
        let named = |i: &&Image| i.tags.contains(&full) || i.digests.contains(&full);
        let hex = reference.strip_prefix("sha256:").unwrap_or(reference);
        let id = |i: &&Image| hex.len() >= 4 && i.id.get(7..).is_some_and(|id| id.starts_with(hex));
        self.images.iter().find(named).or_else(|| self.images.iter().find(id))
    }

    /// Adds an image (`command`: it has an entrypoint) and returns its id. An existing image stays as it
    /// is.
    pub fn add_image(&mut self, reference: &str, command: bool) -> String {
        if let Some(there) = self.image(reference) {
            return there.id.clone();
        }
        let id = format!("sha256:{}", self.new_id());
        let full = full_reference(reference);
        let (tags, digests) = if full.contains('@') { (vec![], vec![full]) } else { (vec![full], vec![]) };
        let user = String::new();
        let size = SIZE;
        let image =
            Image { id: id.clone(), tags, digests, command, stop_signal: None, user, size, configuration: 0 };
        self.images.push(image);
        id
    }

    /// Scripts the pulls of one reference.
    pub fn script_pull(&mut self, reference: &str, pull: Pull) {
        self.pulls.insert(full_reference(reference), pull);
    }

    /// Begins a pull: if it takes no time the image is present on return; otherwise the caller waits and
    /// then calls [`State::add_image`].
    ///
    /// # Errors
    /// As scripted; the faults; the engine is down.
    pub fn pull(&mut self, reference: &str, now: Now) -> Result<PullTakes, DockerError> {
        self.advance(now);
        self.reachable()?;
        let full = full_reference(reference);
        if let Some(fault) = self.faults.draw(None, now.mono) {
            return Err(self.stream_fails(fault, "pull"));
        }
        let last = full.rsplit('/').next().unwrap_or_default();
        match self.pulls.get(&full) {
            Some(Pull::Fails(why)) => Err(refused(Kind::Server, 500, why)),
            Some(Pull::Takes(time)) if !time.is_zero() => Ok(*time),
            None if last.starts_with("no-such") => {
                let repository = full.split([':', '@']).next().unwrap_or_default();
                let why = format!(
                    "pull access denied for {repository}, repository does not exist or may require 'docker \
                     login': denied: requested access to the resource is denied"
                );
                Err(refused(Kind::NotFound, 404, why))
            }
            _ => {
                self.pulled(reference);
                Ok(Duration::ZERO)
            }
        }
    }

    /// A pull has ended: the image is there.
    pub(super) fn pulled(&mut self, reference: &str) {
        self.add_image(reference, true);
        let full = full_reference(reference);
        // Without a digest it ends in a tag.
        let repository = full.split_once('@').or_else(|| full.rsplit_once(':')).map_or("", |(name, _)| name);
        self.publish_image("pull", &full, repository);
    }

    /// Loads an image archive: every name in its `manifest.json` becomes present and is returned.
    ///
    /// # Errors
    /// It is not an image archive; the faults; the engine is down.
    pub fn load(&mut self, tar: &[u8], now: Now) -> Result<Vec<String>, DockerError> {
        self.advance(now);
        self.reachable()?;
        if let Some(fault) = self.faults.draw(None, now.mono) {
            return Err(self.stream_fails(fault, "load"));
        }
        let names = manifest(tar).and_then(|m| {
            let tags = m.as_array()?.iter().filter_map(|image| image.get("RepoTags")?.as_array()).flatten();
            Some(tags.filter_map(|t| t.as_str().map(str::to_string)).collect::<Vec<_>>())
        });
        let Some(names) = names else {
            let why = "Error processing tar file(exit status 1): unexpected EOF";
            return Err(refused(Kind::Server, 200, why));
        };
        for name in &names {
            let id = self.add_image(name, true);
            self.publish_image("load", &id, &id);
        }
        Ok(names)
    }

    pub(super) fn no_image(&self, before: &str, reference: &str) -> DockerError {
        refused(Kind::NoSuchImage, 404, format!("{before}No such image: {}", full_reference(reference)))
    }

    pub(super) fn image_inspect(&self, image: &str) -> Result<Reply, DockerError> {
        match self.image(image) {
            Some(found) if found.configuration as u64 > limits::IMAGE_INSPECT => {
                Err(DockerError::TooLarge(format!("GET /images/{image}/json")))
            }
            Some(found) => Ok(Reply::Image(detail(found))),
            None => Err(self.no_image(&format!("no such image: {image}: "), image)),
        }
    }

    /// The calls about images.
    pub(super) fn image_call(&mut self, call: &Call) -> Result<Reply, DockerError> {
        match call {
            Call::ImageInspect { image } => self.image_inspect(image),
            Call::ImageRemove { image } => self.image_remove(image),
            Call::ImageTag { image, name } => match self.image(image).is_some() {
                true => {
                    self.tag_image(image, name);
                    Ok(Reply::Done)
                }
                false => Err(self.no_image(&format!("No such image: {image}"), image)),
            },
            Call::ImageList { .. } => Ok(Reply::Images(self.image_list())),
            Call::DiskUsage => Ok(Reply::DiskUsage(DiskUsage { build_cache: self.build_cache })),
            _ => Ok(Reply::Reclaimed(std::mem::take(&mut self.build_cache))),
        }
    }

    /// Like `moby/moby` `daemon/images/image_delete.go`: a name is removed, and with the last one the image,
    /// unless a container of it exists.
    fn image_remove(&mut self, reference: &str) -> Result<Reply, DockerError> {
        let conflict = |why: String| Err(refused(Kind::Conflict, 409, format!("conflict: unable to {why}")));
        let full = full_reference(reference);
        let Some(image) = self.image(reference).cloned() else {
            let full = if reference.starts_with("sha256:") { reference } else { &full };
            return Err(refused(Kind::NoSuchImage, 404, format!("No such image: {full}")));
        };
        let id = short_ids(image.id.strip_prefix("sha256:").unwrap_or(&image.id));
        let user = |state: fn(DockerState) -> bool| {
            let user = self.containers.iter().find(|c| c.image_id == image.id && state(c.state));
            user.map(|c| short_ids(&c.id))
        };
        let is_name = image.tags.contains(&full) || image.digests.contains(&full);
        let single = image.is_single();
        let last = match is_name {
            true if single => match user(|_| true) {
                Some(user) => {
                    return conflict(format!(
                        "remove repository reference {reference:?} (must force) - container {user} is using its \
                         referenced image {id}"
                    ));
                }
                None => true,
            },
            true => false,
            false => {
                if let Some(user) = user(|state| state == DockerState::Running) {
                    let why = "(cannot be forced) - image is being used by running container";
                    return conflict(format!("delete {id} {why} {user}"));
                }
                if !single {
                    let why = "(must be forced) - image is referenced in multiple repositories";
                    let why = format!("conflict: unable to delete {id} {why}");
                    return Err(refused(Kind::SeveralNames, 409, why));
                }
                if let Some(user) = user(|_| true) {
                    let why = "(must be forced) - image is being used by stopped container";
                    return conflict(format!("delete {id} {why} {user}"));
                }
                true
            }
        };
        for there in self.images.iter_mut().filter(|there| there.id == image.id) {
            there.tags.retain(|tag| *tag != full);
            there.digests.retain(|digest| *digest != full);
        }
        if is_name {
            self.publish_image("untag", &image.id, &image.id);
        }
        if last {
            self.images.retain(|there| there.id != image.id);
            self.publish_image("delete", &image.id, &image.id);
        }
        Ok(Reply::Done)
    }

    /// Gives an image another name, as `docker tag` does.
    pub fn tag_image(&mut self, reference: &str, name: &str) {
        let full = full_reference(name);
        let id = self.image(reference).map(|image| image.id.clone());
        for image in &mut self.images {
            image.tags.retain(|tag| *tag != full);
            if Some(&image.id) == id.as_ref() {
                image.tags.push(full.clone());
            }
        }
        if let Some(id) = id {
            self.publish_image("tag", &id, &full);
        }
    }

    /// Makes an image as large as this, bytes.
    pub fn set_image_size(&mut self, reference: &str, size: u64) {
        let id = self.image(reference).map(|image| image.id.clone());
        for image in self.images.iter_mut().filter(|image| Some(&image.id) == id.as_ref()) {
            image.size = size;
        }
    }

    /// Sets the bytes of an image's configuration.
    pub fn set_image_configuration(&mut self, reference: &str, bytes: usize) {
        let id = self.image(reference).map(|image| image.id.clone());
        for image in self.images.iter_mut().filter(|image| Some(&image.id) == id.as_ref()) {
            image.configuration = bytes;
        }
    }

    /// Bytes of the build cache.
    pub fn set_build_cache(&mut self, bytes: u64) {
        self.build_cache = bytes;
    }

    /// All images.
    #[must_use]
    pub fn image_list(&self) -> Vec<ImageSummary> {
        self.images.iter().rev().map(summary).collect()
    }

    /// Ids of all images.
    #[must_use]
    pub fn image_ids(&self) -> Vec<String> {
        self.images.iter().map(|image| image.id.clone()).collect()
    }

    /// Removes an image like another client; its containers stay.
    pub fn remove_image(&mut self, reference: &str) {
        let id = self.image(reference).map(|image| image.id.clone());
        self.images.retain(|image| Some(&image.id) != id.as_ref());
    }

    /// Gives this name to another image, which runs as `user`; returns its id. The previous image loses the
    /// name.
    pub fn replace_image(&mut self, reference: &str, user: &str) -> String {
        let full = full_reference(reference);
        for image in &mut self.images {
            image.tags.retain(|tag| *tag != full);
        }
        let id = self.add_image(reference, true);
        for image in self.images.iter_mut().filter(|image| image.id == id) {
            image.user = user.to_owned();
        }
        id
    }
}

impl Image {
    /// Whether the image has a single name: one tag and the digests of its repository count as one.
    fn is_single(&self) -> bool {
        let repository = |name: &str| match name.split_once('@') {
            Some((repository, _)) => repository.to_owned(),
            None => name.rsplit_once(':').map_or(name, |(repository, _)| repository).to_owned(),
        };
        let digests: Set<String> = self.digests.iter().map(|digest| repository(digest)).collect();
        match (self.tags.as_slice(), digests.len()) {
            (tags, 0) => tags.len() <= 1,
            ([], n) => n == 1,
            ([tag], 1) => digests.contains(&repository(tag)),
            _ => false,
        }
    }
}

fn summary(image: &Image) -> ImageSummary {
    ImageSummary {
        id: image.id.clone(),
        parent: String::new(),
        tags: image.tags.clone(),
        digests: image.digests.clone(),
        size: image.size,
        created: 0,
    }
}

fn detail(image: &Image) -> ImageDetail {
    ImageDetail {
        id: image.id.clone(),
        tags: image.tags.clone(),
        digests: image.digests.clone(),
        size: i64::try_from(image.size).unwrap_or(i64::MAX),
        user: image.user.clone(),
        stop_signal: image.stop_signal.clone(),
        configuration: image.configuration,
        entries: 0,
        volumes: Vec::new(),
    }
}

/// The reference with `:latest` if it has neither tag nor digest, without the prefix of Docker's own
/// registry; before a digest the tag is dropped.
fn full_reference(reference: &str) -> String {
    let short = reference.strip_prefix("docker.io/").unwrap_or(reference);
    let short = short.strip_prefix("library/").unwrap_or(short);
    let has_tag = |name: &str| name.rsplit('/').next().is_some_and(|last| last.contains(':'));
    match short.split_once('@') {
        Some((name, digest)) => {
            let bare = if has_tag(name) { name.rsplit_once(':').map_or(name, |(n, _)| n) } else { name };
            format!("{bare}@{digest}")
        }
        None if has_tag(short) => short.into(),
        None => format!("{short}:latest"),
    }
}

/// The `manifest.json` in a tar.
fn manifest(tar: &[u8]) -> Option<serde_json::Value> {
    let mut rest = tar;
    loop {
        let (head, body) = rest.split_at_checked(512)?;
        let field = |from: usize, to: usize| -> Option<&str> {
            std::str::from_utf8(head.get(from..to)?.split(|b| *b == 0).next()?).ok()
        };
        let name = field(0, 100).filter(|name| !name.is_empty())?;
        let size = usize::from_str_radix(field(124, 136)?.trim(), 8).ok()?;
        if name == "manifest.json" {
            return serde_json::from_slice(body.get(..size)?).ok();
        }
        rest = body.get(size.checked_next_multiple_of(512)?..)?;
    }
}
