//! The termination messages of containers (upstream `pkg/kubelet/kuberuntime/kuberuntime_container.go`): after an end
//! was seen, the container's file is read and then, if its policy says so, its log. Only the status waits for them.

use std::collections::BTreeMap;

use crate::base::clock::Now;
use crate::base::limits;
use crate::base::order;
use crate::machine::Machine;
use crate::machine::calls::Job;
use crate::machine::containers::Look;
use crate::machine::output::Output;
use crate::plan::Way;
use crate::plan::{Owned, RunState};
use crate::runtime::{Call, DockerError, RefusalKind};
use crate::termination::{self, LogFile};

/// Progress of one container's message.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::machine) enum Message {
    /// Its file is being read.
    File,
    /// Its file was empty, and the log has to be read.
    Log,
    /// Its log is being read.
    AskedLog,
    /// Its message, which may be empty.
    Known(String),
}

impl Machine {
    /// Asks for missing messages.
    pub(in crate::machine) fn ask_messages(&mut self, now: &Now) {
        let mut ended: Vec<(String, Option<LogFile>)> = Vec::new();
        for owned in &self.containers.current().all {
            let Some(record) = self.containers.record(&owned.id) else { continue };
            // The way it ended has to be known.
            let known = record.look != Look::Needed && !self.calls.is_busy(&owned.id);
            let has_ended = owned.message != Way::default() && matches!(owned.state, RunState::Exited(_));
            if has_ended && known && record.run.message.is_none() {
                ended.push((owned.id.clone(), file_of(owned).filter(|_| owned.message.file)));
            }
        }
        for (id, file) in ended {
            match file {
                Some(file) => {
                    self.set_message(&id, Message::File);
                    self.out.push(Output::ReadMessage { id, file });
                }
                None => self.message_read(&id, Ok(String::new())),
            }
        }
        // Docker, which has the log, is not asked during a failure; `act` has set the wake-up.
        if self.in_trouble(now) {
            return;
        }
        for id in self.containers.ids(|_, record| record.run.message == Some(Message::Log)) {
            if self.calls.is_full() {
                return;
            }
            self.set_message(&id, Message::AskedLog);
            let lines = limits::TERMINATION_LOG_LINES;
            self.call(Job::Log { id: id.clone() }, Call::LogTail { id, lines });
        }
    }

    fn set_message(&mut self, id: &str, message: Message) {
        if let Some(record) = self.containers.record_mut(id) {
            record.run.message = Some(message);
        }
    }

    /// Takes the answer to an [`Output::ReadMessage`]: the content of the file, or the text to show in its place.
    pub(in crate::machine) fn message_read(&mut self, id: &str, read: Result<String, String>) {
        let Some(container) = self.containers.current().get(id) else { return };
        let RunState::Exited(exit) = &container.state else { return };
        let message = match read {
            Ok(text) if text.is_empty() && container.message.asks_log(exit) => Message::Log,
            Ok(text) | Err(text) => Message::Known(text),
        };
        self.set_message(id, message);
    }

    /// Takes the last lines of a log.
    pub(in crate::machine) fn log_read(&mut self, id: &str, answer: Result<Vec<u8>, DockerError>) {
        let text = match answer {
            Ok(body) => termination::log_text(&body),
            Err(error) if error.refusal() == Some(&RefusalKind::NoSuchContainer) => String::new(),
            Err(error) if error.refusal() == Some(&RefusalKind::LogNotKept) => {
                "Error on reading termination message from logs: none is kept (--container-log-driver=none)"
                    .to_owned()
            }
            Err(error) => format!("Error on reading termination message from logs: {error}"),
        };
        if let Some(message) = self.containers.record_mut(id).and_then(|record| record.run.message.as_mut()) {
            *message = Message::Known(text);
        }
    }

    /// Whether a termination message is being read.
    pub(in crate::machine) fn awaits_message(&self) -> bool {
        let awaits = |message: &Message| !matches!(message, Message::Known(_));
        self.containers.records().any(|(_, record)| record.run.message.as_ref().is_some_and(awaits))
    }

    /// The known messages, by container id.
    pub(in crate::machine) fn termination_messages(&self) -> BTreeMap<String, String> {
        let known = self.containers.records().filter_map(|(owned, record)| match &record.run.message {
            Some(Message::Known(text)) if !text.is_empty() => Some((owned.id.clone(), text.clone())),
            _ => None,
        });
        order::map(known)
    }

    /// Releases the file of a container that is gone.
    pub(in crate::machine) fn forget_file(&mut self, gone: &Owned) {
        let Some(file) = file_of(gone).filter(|_| gone.message.file) else { return };
        // Two containers share a file only after somebody tampered with attempts.
        if !self.containers.all().any(|c| c.id != gone.id && file_of(c).as_ref() == Some(&file)) {
            self.out.push(Output::ForgetMessage(file));
        }
    }
}

fn file_of(container: &Owned) -> Option<LogFile> {
    let name = container.container_name()?.to_owned();
    Some(LogFile { uid: container.uid.clone(), container: name, attempt: container.attempt })
}
