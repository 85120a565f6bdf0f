//! Execs and logs of the in-memory engine; both follow the script of the container or command. Pure.

use std::time::Duration;

use super::answers::no_container;
use super::behaviour::{Behaviour, Run};
use super::calls::Answer;
use super::state::{Container, State, Timer, refused};
use crate::base::clock::Now;
use crate::runtime::{Call, DockerError, DockerState, ExecBody, ExecDetail, RefusalKind as Kind, Reply};

impl State {
    pub(super) fn running(&self, key: &str) -> Result<&Container, DockerError> {
        let c = self.get(key).ok_or_else(|| no_container("", key))?;
        match c.state {
            DockerState::Running => Ok(c),
            _ => Err(refused(Kind::NotRunning, 409, format!("Container {} is not running", c.id))),
        }
    }

    pub(super) fn exec_create(&mut self, key: &str, body: &ExecBody, now: Now) -> Answer {
        // Docker checks first that the container exists, then the command, then the state.
        if self.get(key).is_some() && body.cmd.is_empty() {
            return Err(refused(Kind::BadRequest, 400, "No exec command specified"));
        }
        let container = self.running(key)?.id.clone();
        let id = self.insert_exec(&container, body.cmd.clone());
        let action = format!("exec_create: {}", shown(&body.cmd));
        self.publish_of(&container, &action, &[("execID", id.clone())], now);
        Ok(Reply::ExecCreated { id })
    }

    /// Starts an exec and returns its output. [`Call::ExecInspect`] returns its exit code when it has
    /// ended.
    ///
    /// # Errors
    /// No such exec; the engine is down.
    pub fn exec_start(&mut self, id: &str, now: Now) -> Result<String, DockerError> {
        self.advance(now);
        self.reachable()?;
        let exec = self.execs.iter_mut().find(|e| e.id == id).ok_or_else(|| no_exec(id))?;
        if exec.started {
            return Ok(format!("Error: Exec command {id} has already run\r\n"));
        }
        exec.started = true;
        let behaviour = Behaviour::command(&exec.cmd);
        let (container, command) = (exec.container.clone(), shown(&exec.cmd));
        let program = exec.cmd.first().cloned().unwrap_or_default();
        let (output, after, code) = match behaviour.run {
            Run::Exit { after, code } => (behaviour.output, after, code),
            Run::Missing => {
                let why = "executable file not found in $PATH: unknown";
                (format!("OCI runtime exec failed: exec failed: {program:?}: {why}\r\n"), Duration::ZERO, 126)
            }
            // A server makes no sense as an exec: it ends with success.
            Run::Forever | Run::Oom { .. } => (behaviour.output, Duration::ZERO, 0),
        };
        let action = format!("exec_start: {command}");
        self.publish_of(&container, &action, &[("execID", id.to_string())], now);
        if after.is_zero() {
            self.exec_ends(id, code, now);
        } else {
            self.schedule(now.mono.after(after), Timer::ExecEnds { id: id.into(), code });
        }
        Ok(output)
    }

    /// Ends an exec's command.
    pub(super) fn exec_ends(&mut self, id: &str, code: i64, now: Now) {
        let Some(exec) = self.execs.iter_mut().find(|e| e.id == id) else { return };
        exec.code = Some(code);
        let container = exec.container.clone();
        let more = [("execID", id.to_string()), ("exitCode", code.to_string())];
        self.publish_of(&container, "exec_die", &more, now);
    }

    /// A container's whole log: its script's output, once for each start.
    ///
    /// # Errors
    /// No such container; the engine is down.
    pub fn logs(&self, key: &str) -> Result<String, DockerError> {
        self.reachable()?;
        let c = self.get(key).ok_or_else(|| no_container("", key))?;
        if c.body.host_config.log_config.as_ref().is_some_and(|logs| logs.driver == "none") {
            let message = "configured logging driver does not support reading".to_owned();
            return Err(refused(Kind::LogNotKept, 501, message));
        }
        Ok(c.behaviour.output.repeat(usize::try_from(c.starts.min(100)).unwrap_or(0)))
    }

    /// The last lines, framed as Docker does without a terminal.
    pub(super) fn log_tail(&self, key: &str, lines: u32) -> Answer {
        let all = self.logs(key)?;
        let all: Vec<&str> = all.split_inclusive('\n').collect();
        let skip = all.len().saturating_sub(usize::try_from(lines).unwrap_or(usize::MAX));
        let mut framed = Vec::new();
        for line in all.into_iter().skip(skip) {
            framed.extend([1, 0, 0, 0]);
            framed.extend(u32::try_from(line.len()).unwrap_or(u32::MAX).to_be_bytes());
            framed.extend(line.as_bytes());
        }
        Ok(Reply::Output(framed))
    }

    /// Inspect and resize of an exec.
    pub(super) fn exec_call(&self, call: &Call) -> Answer {
        match call {
            Call::ExecInspect { id } => {
                let exec = self.execs.iter().find(|e| e.id == *id).ok_or_else(|| no_exec(id))?;
                let running = exec.started && exec.code.is_none();
                Ok(Reply::Exec(ExecDetail { running, not_started: !exec.started, exit_code: exec.code }))
            }
            Call::ExecResize { id, .. } => match self.execs.iter().find(|e| e.id == *id) {
                Some(exec) if exec.started => Ok(Reply::Done),
                Some(_) => Err(refused(Kind::Server, 500, "timeout waiting for exec session ready")),
                None => Err(no_exec(id)),
            },
            _ => Ok(Reply::Done),
        }
    }
}

fn no_exec(id: &str) -> DockerError {
    refused(Kind::NotFound, 404, format!("No such exec instance: {id}"))
}

/// A command as Docker's events show it: with a blank after the program even without arguments.
fn shown(cmd: &[String]) -> String {
    let (program, args) = cmd.split_first().map_or(("", &[][..]), |(p, args)| (p.as_str(), args));
    format!("{program} {}", args.join(" "))
}
