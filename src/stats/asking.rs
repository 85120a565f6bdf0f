//! Asks Docker where the files of containers are: for many of them at once, so that a slow Docker delays a look at many of
//! them by a few answers and not by one for each container. While answers come it goes on, for a bounded time.
//!
//! Never here: a look at a file.

use std::time::{Duration, Instant};

use crate::base::table::Table;
use crate::base::{limits, wait};
use crate::runtime::client::{Pending, wait_any};
use crate::runtime::docker::Docker;
use crate::runtime::{Call, ContainerFiles, DockerError, Reply};

/// Docker's answers.
#[derive(Debug, Default)]
pub struct Asked {
    /// By container id; `None` if there is no such container, or if Docker does not tell. A container without an answer
    /// is missing.
    pub found: Table<String, Option<ContainerFiles>>,
    /// Docker answers nothing at all.
    pub is_silent: bool,
}

/// The subject of a question to Docker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Where the files are.
    Places,
    /// The same, and how large the writable layer is, which Docker has to count.
    Sizes,
}

/// How a question is asked.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Number of calls at a time.
    at_once: usize,
    /// The longest wait for the next answer.
    answer: Duration,
    /// The longest wait for all.
    longest: Duration,
}

/// Asks about these containers. `step` is called with each answer.
pub fn files(docker: &Docker, ids: &[String], question: Question, step: &dyn Fn()) -> Asked {
    let (at_once, answer, longest) = match question {
        Question::Places => (limits::FILES_AT_ONCE, limits::SHORT_CALL, limits::FILES_LONGEST),
        Question::Sizes => (limits::SIZES_AT_ONCE, limits::SIZES_ROUND, limits::SIZES_ROUND),
    };
    files_within(Bounds { at_once, answer, longest }, docker, ids, question, step)
}

fn files_within(
    bounds: Bounds,
    docker: &Docker,
    ids: &[String],
    question: Question,
    step: &dyn Fn(),
) -> Asked {
    let mut asked = Asked::default();
    if ids.is_empty() {
        return asked;
    }
    let longest = wait::later(bounds.longest);
    let mut until = wait::later(bounds.answer);
    let mut left = ids.iter();
    // A single container may make Docker hang: the call that Docker can always answer tells whether it does.
    let mut flying: Vec<(Option<&String>, Pending)> = vec![(None, docker.begin(&Call::Info))];
    let mut answers_info = false;
    loop {
        let free = bounds.at_once.saturating_add(1).saturating_sub(flying.len());
        let size = question == Question::Sizes;
        flying.extend(
            left.by_ref()
                .take(free)
                .map(|id| (Some(id), docker.begin(&Call::Files { id: id.clone(), size }))),
        );
        let mut at = 0;
        let mut has_room = false;
        while let Some((_, call)) = flying.get_mut(at) {
            let Some(answer) = call.advance() else {
                at = at.saturating_add(1);
                continue;
            };
            has_room = true;
            step();
            let (id, _) = flying.swap_remove(at);
            if id.is_some() && matches!(answer, Ok(_) | Err(DockerError::Refused(_))) {
                until = wait::later(bounds.answer).min(longest);
            }
            match (id, answer) {
                (None, answer) => answers_info = answer.is_ok(),
                (Some(id), Ok(Reply::Files(files))) => _ = asked.found.insert(id.clone(), Some(*files)),
                // It asks no more.
                (Some(_), Err(DockerError::Unreachable(_))) => {
                    asked.is_silent = asked.found.is_empty();
                    return asked;
                }
                (Some(id), Ok(_) | Err(DockerError::Refused(_))) => _ = asked.found.insert(id.clone(), None),
                (Some(_), Err(_)) => {}
            }
        }
        let is_over = !flying.iter().any(|(id, _)| id.is_some()) && left.len() == 0;
        if is_over || Instant::now() >= until {
            asked.is_silent = asked.found.is_empty() && !answers_info && !is_answered(&mut flying, until);
            return asked;
        }
        if !has_room {
            wait_any(flying.iter().map(|(_, call)| call), None, Some(until));
        }
    }
}

/// Whether Docker has answered the call that it can always answer, until then.
fn is_answered(flying: &mut Vec<(Option<&String>, Pending)>, until: Instant) -> bool {
    flying.retain(|(id, _)| id.is_none());
    while let Some((_, info)) = flying.first_mut() {
        if let Some(answer) = info.advance() {
            return answer.is_ok();
        }
        if Instant::now() >= until {
            return false;
        }
        wait_any(flying.iter().map(|(_, call)| call), None, Some(until));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::testing::scratch;
    use crate::runtime::testing::slow_docker;

    /// Regression: a slow Docker was asked for one container after the other, and an eviction waited for all answers.
    #[test]
    fn a_slow_docker_is_asked_about_all_containers_at_once() {
        let root = scratch("keeper-asking");
        let delay = Duration::from_millis(500);
        let docker = slow_docker(&root, delay, Duration::from_secs(20), &root);
        let ids: Vec<String> = (0..30).map(|n| format!("{n:064}")).collect();
        let steps = std::cell::Cell::new(0);
        let began = Instant::now();
        let asked = files(&docker, &ids, Question::Places, &|| steps.set(steps.get() + 1));
        assert!(began.elapsed() < delay * 15, "{:?}", began.elapsed());
        assert!(asked.found.values().all(Option::is_some) && !asked.is_silent, "{asked:?}");
        assert!(asked.found.len() == 30 && steps.get() >= 30);
        std::fs::remove_dir_all(root).unwrap();
    }

    /// Each container was asked about in time, and all of them together not: the others counted as empty, and an innocent
    /// pod was evicted.
    #[test]
    fn a_slow_docker_is_asked_about_all_containers_while_it_answers() {
        let root = scratch("keeper-asking-many");
        let docker = slow_docker(&root, Duration::from_millis(300), Duration::from_secs(20), &root);
        let ids: Vec<String> = (0..24).map(|n| format!("{n:064}")).collect();
        let known = |longest| {
            let bounds = Bounds { at_once: 4, answer: Duration::from_secs(1), longest };
            let asked = files_within(bounds, &docker, &ids, Question::Places, &|| ());
            asked.found.values().filter(|files| files.is_some()).count()
        };
        assert_eq!(known(Duration::from_secs(60)), 24, "six rounds of 300 ms");
        assert!((1..24).contains(&known(Duration::from_millis(800))), "not for ever");
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_docker_that_tells_nothing_of_containers_is_not_silent_for_that() {
        let root = scratch("keeper-asking-silent");
        let docker = slow_docker(&root, Duration::from_secs(30), Duration::from_millis(300), &root);
        let ids = ["a".to_owned(), "b".to_owned()];
        let asked = files(&docker, &ids, Question::Places, &|| ());
        assert!(asked.found.is_empty() && !asked.is_silent, "{asked:?}");
        let gone = Docker::Engine(crate::runtime::client::Client::new(&root.join("none.sock")));
        assert!(files(&gone, &ids, Question::Places, &|| ()).is_silent);
        std::fs::remove_dir_all(root).unwrap();
    }
}
