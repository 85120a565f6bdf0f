//! Everything that a machine can be told. Closed: a new kind of news is a new variant, and the compiler names the one
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

/// One thing that a machine is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// What its pod is to become.
    Wish(Wish),
    /// So many wishes were put into its mailbox until now; those that count come beside this.
    Wishes(u64),
    /// What is known of the node has changed.
    Node(NodeFacts),
    /// Local objects, all that the wanted pod refers to.
    Objects(Arc<Objects>),
    /// What the daemon's list held under this identity, told before any hint: the machine does not list for itself.
    Found(Vec<Owned>),
    /// Something may have changed in Docker.
    Hint(Hint),
    /// How far the pull of an image is.
    Pulling {
        /// As requested.
        image: String,
        /// In words.
        words: String,
    },
    /// A pull ended.
    Pulled(Pulled),
    /// What a probe or a hook brought.
    News(News),
    /// What became of an order about a cgroup.
    Cgroup(cgroup::Report),
    /// What became of an order about volumes.
    Volumes(volumes::Report),
    /// Docker answered a call.
    Reply(Token, Result<Reply, DockerError>),
    /// A call was not sent, and will not be.
    Withdrawn(Token),
    /// A create was not sent, and why: a part of a volume that it needs cannot be had.
    Unprepared(Token, String),
    /// What became of an order about a sandbox's network.
    Network(cni::Report),
    /// Whether plugins can attach pods.
    NetworkReady(Ready),
    /// The node's addresses.
    Addresses(Vec<String>),
    /// What the termination file of a container says, or what is to be said in its place.
    Message {
        /// Container id.
        id: String,
        /// What it says.
        read: Result<String, String>,
    },
}

impl Machine {
    /// Takes one input. Follow with [`Machine::step`].
    pub fn handle(&mut self, input: Input, now: &Now) {
        match input {
            Input::Wish(Wish::Stop(mut order)) => {
                if let Some(pod) = order.pod.take() {
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
            Input::Hint(Hint::Changed(id)) => self.hint_changed(&id),
            Input::Hint(Hint::OutOfMemory(id)) => self.hint_out_of_memory(&id),
            Input::Hint(Hint::Removed(id)) => self.hint_removed(&id),
            Input::Hint(Hint::Images(images)) => self.images_came(&images),
            Input::Hint(Hint::Dead(allowed)) => self.containers.dead_allowed = Some(allowed),
            Input::Hint(Hint::Retry) => self.try_images_again(),
            Input::Pulling { image, words } => self.pull_progress(&image, &words),
            Input::Pulled(pulled) => self.pulled(pulled, now),
            Input::News(news) => self.take_news(news),
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
