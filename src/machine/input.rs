//! All inputs of a machine. The list is closed: a new kind of input is a new variant, and the compiler names the one
//! place to handle it.

use std::sync::Arc;

use super::mailbox::{Hint, Pulled, Wish};
use super::{Machine, NodeFacts, Token, Trigger};
use crate::base::clock::Now;
use crate::cgroup;
use crate::cni;
use crate::cni::networks::Ready;
use crate::plan::Owned;
use crate::pod::object::Objects;
use crate::probe::prober::News;
use crate::runtime::{DockerError, Reply};
use crate::volumes;

/// What the daemon's list had of an identity.
#[derive(Debug, Clone, PartialEq)]
pub enum FirstList {
    /// All containers that there are: the machine makes no list itself.
    Whole(Vec<Owned>),
    /// Something may have happened since: the machine makes a list. From here it knows which of them earlier daemons have
    /// signalled.
    Past(Vec<Owned>),
}

/// One input of a machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The wish for its pod.
    Wish(Wish),
    /// Number of wishes that were put into its mailbox; the wishes that count come as inputs of their own.
    Wishes(u64),
    /// Facts about the node have changed.
    Node(NodeFacts),
    /// All local objects that the wanted pod refers to.
    Objects(Arc<Objects>),
    /// The containers of this identity in the daemon's list, before any hint.
    Found(FirstList),
    /// Something may have changed in Docker.
    Hint(Hint),
    /// Progress of the pull of an image.
    Pulling {
        /// The image as requested.
        image: String,
        /// The progress in words.
        words: String,
    },
    /// A pull ended.
    Pulled(Pulled),
    /// The result of a probe or a hook.
    News(News),
    /// A report about an order for a cgroup.
    Cgroup(cgroup::Report),
    /// A report about an order for volumes.
    Volumes(volumes::Report),
    /// Docker's answer to a call.
    Reply(Token, Result<Reply, DockerError>),
    /// A call was not sent, and will not be sent.
    Withdrawn(Token),
    /// A create was not sent, for this reason: a part of a volume that it needs is missing.
    Unprepared(Token, String),
    /// A report about an order for a sandbox's network.
    Network(cni::Report),
    /// Whether plugins can attach pods.
    NetworkReady(Ready),
    /// The node's addresses.
    Addresses(Vec<String>),
    /// The content of a container's termination file, or an error in its place.
    Message {
        /// Container id.
        id: String,
        /// The content, or the text to show in its place.
        read: Result<String, String>,
    },
}

impl Machine {
    /// Takes one input. Call [`Machine::step`] after it.
    pub fn handle(&mut self, input: Input, now: &Now) {
        match input {
            Input::Wish(Wish::Stop(mut order)) => {
                if let Some(pod) = order.pod.take() {
                    self.volumes.may_have(&pod.uid);
                    self.adopt(pod);
                }
                self.trigger(Trigger::Stop(order));
            }
            Input::Wish(Wish::Run(pod)) => self.trigger(Trigger::Run(pod)),
            Input::Wishes(count) => self.wishes = count,
            Input::Node(node) => self.node = node,
            Input::Objects(objects) => self.take_objects(objects),
            Input::Found(found) => self.begin_with(found, now),
            Input::Hint(Hint::All) => self.look_at_all(),
            Input::Hint(Hint::Made(id)) => self.hint_made(&id),
            Input::Hint(Hint::Started(id)) => self.hint_started(&id),
            Input::Hint(Hint::Changed(id) | Hint::Renamed(id)) => self.hint_changed(&id),
            Input::Hint(Hint::OutOfMemory(id)) => self.hint_out_of_memory(&id),
            Input::Hint(Hint::Removed(id)) => self.hint_removed(&id),
            Input::Hint(Hint::Images(images)) => self.images_came(&images),
            Input::Hint(Hint::Dead(allowed)) => self.containers.dead_allowed = Some(allowed),
            Input::Hint(Hint::Retry) => self.try_images_again(),
            Input::Pulling { image, words } => self.pull_progress(&image, &words),
            Input::Pulled(pulled) => self.pulled(pulled, now),
            Input::News(news) => self.take_news(news, now),
            Input::Cgroup(report) => self.cgroup_told(report, now),
            Input::Volumes(report) => self.volumes_told(report, now),
            Input::Reply(token, answer) => self.reply(token, answer, now),
            Input::Withdrawn(token) => _ = self.calls.end(token),
            Input::Unprepared(token, why) => self.unprepared(token, &why, now),
            Input::Network(report) => self.network_told(report, now),
            Input::NetworkReady(ready) => self.network_ready(ready),
            Input::Addresses(ips) => self.addresses(ips),
            Input::Message { id, read } => self.message_read(&id, read),
        }
    }
}
