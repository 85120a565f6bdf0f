//! The last words of containers (upstream `pkg/kubelet/kuberuntime/kuberuntime_container.go`): asked for once
//! an end has been looked at, first of the container's file and then, where its policy says so, of its log.
//! Nothing waits for them but the status.

use std::collections::BTreeMap;

use super::Machine;
use super::job::Job;
use super::output::Output;
use crate::base::limits;
use crate::base::order;
use crate::plan::Way;
use crate::plan::{Owned, RunState};
use crate::runtime::{Call, DockerError, RefusalKind, Reply};
use crate::termination::{self, LogFile};

/// What is known of one container's message.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Message {
    /// Its file is being read.
    File,
    /// Its file had nothing, and the log has to be asked.
    Log,
    /// The log is being asked.
    AskedLog,
    /// These are its last words, perhaps none.
    Known(String),
}

impl Machine {
    /// Asks for what is missing.
    pub(super) fn tend_messages(&mut self) {
        let ended: Vec<(String, Option<LogFile>)> = self
            .seen
            .all
            .iter()
            .filter(|c| c.message != Way::default() && matches!(c.state, RunState::Exited(_)))
            // How it ended has to be known.
            .filter(|c| !self.blind.contains(&c.id) && !self.busy(&c.id))
            .filter(|c| !self.messages.contains_key(&c.id))
            .map(|c| (c.id.clone(), file_of(c).filter(|_| c.message.file)))
            .collect();
        for (id, file) in ended {
            match file {
                Some(file) => {
                    self.messages.insert(id.clone(), Message::File);
                    self.out.push(Output::ReadMessage { id, file });
                }
                None => self.message_read(&id, Ok(String::new())),
            }
        }
        let wanted = self.messages.iter().filter(|(_, message)| **message == Message::Log);
        let wanted: Vec<String> = wanted.map(|(id, _)| id.clone()).collect();
        for id in wanted {
            if self.is_full() {
                return;
            }
            self.messages.insert(id.clone(), Message::AskedLog);
            let lines = limits::TERMINATION_LOG_LINES;
            self.call(Job::Log { id: id.clone() }, Call::LogTail { id, lines });
        }
    }

    /// Takes what an [`Output::ReadMessage`] brought: what the file says, or what is to be said in its place.
    /// Follow with [`Machine::step`].
    pub fn message_read(&mut self, id: &str, read: Result<String, String>) {
        let Some(container) = self.seen.get(id) else { return };
        let RunState::Exited(exit) = &container.state else { return };
        let message = match read {
            Ok(text) if text.is_empty() && container.message.asks_log(exit) => Message::Log,
            Ok(text) | Err(text) => Message::Known(text),
        };
        self.messages.insert(id.to_owned(), message);
    }

    /// Takes a log's last lines.
    pub(super) fn log_read(&mut self, id: &str, answer: Result<Reply, DockerError>) {
        let text = match answer {
            Ok(Reply::Output(body)) => termination::log_text(&body),
            Ok(_) => String::new(),
            Err(error) if error.refusal() == Some(&RefusalKind::NoSuchContainer) => String::new(),
            Err(error) => format!("Error on reading termination message from logs: {error}"),
        };
        if self.messages.contains_key(id) {
            self.messages.insert(id.to_owned(), Message::Known(text));
        }
    }

    /// Last words are on their way.
    pub(super) fn listens(&self) -> bool {
        self.messages.values().any(|message| !matches!(message, Message::Known(_)))
    }

    /// What is known, by container id.
    pub(super) fn last_words(&self) -> BTreeMap<String, String> {
        let known = self.messages.iter().filter_map(|(id, message)| match message {
            Message::Known(text) if !text.is_empty() => Some((id.clone(), text.clone())),
            _ => None,
        });
        order::map(known)
    }

    /// A container is gone, and its file is of no more use.
    pub(super) fn forget_file(&mut self, gone: &Owned) {
        let Some(file) = file_of(gone).filter(|_| gone.message.file) else { return };
        // Only after somebody meddled with attempts.
        if !self.all_seen().any(|c| c.id != gone.id && file_of(c).as_ref() == Some(&file)) {
            self.out.push(Output::ForgetMessage(file));
        }
    }
}

fn file_of(container: &Owned) -> Option<LogFile> {
    let name = container.container_name()?.to_owned();
    Some(LogFile { uid: container.uid.clone(), container: name, attempt: container.attempt })
}
