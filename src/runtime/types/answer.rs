//! The content of an answer, for callers that expect one kind of reply: another kind is a bad answer.

use super::{ContainerDetail, ContainerSummary, DockerError, ExecDetail, ImageDetail, ImageSummary, Reply};

impl Reply {
    /// Content of the answer to [`super::Call::List`].
    ///
    /// # Errors
    /// [`DockerError::BadAnswer`] for another kind, as with all of these.
    pub fn containers(self) -> Result<Vec<ContainerSummary>, DockerError> {
        match self {
            Reply::Containers(list) => Ok(list),
            _ => Err(another("container list")),
        }
    }

    /// Content of the answer to [`super::Call::Inspect`].
    ///
    /// # Errors
    /// As above.
    pub fn container(self) -> Result<Box<ContainerDetail>, DockerError> {
        match self {
            Reply::Container(detail) => Ok(detail),
            _ => Err(another("inspect")),
        }
    }

    /// Content of the answer to [`super::Call::Process`]; `None` when the container does not run.
    ///
    /// # Errors
    /// As above.
    pub fn process(self) -> Result<Option<u32>, DockerError> {
        match self {
            Reply::Process(pid) => Ok(pid),
            _ => Err(another("inspect")),
        }
    }

    /// Content of the answer to [`super::Call::Create`]: id and Docker's warnings.
    ///
    /// # Errors
    /// As above.
    pub fn created(self) -> Result<(String, Vec<String>), DockerError> {
        match self {
            Reply::Created { id, warnings } => Ok((id, warnings)),
            _ => Err(another("create")),
        }
    }

    /// Success of a call without a result; an unchanged state counts as success.
    ///
    /// # Errors
    /// As above.
    pub fn done(self) -> Result<(), DockerError> {
        match self {
            Reply::Done | Reply::Already => Ok(()),
            _ => Err(another("an order")),
        }
    }

    /// Content of the answer to [`super::Call::ExecCreate`]: the exec's id.
    ///
    /// # Errors
    /// As above.
    pub fn exec_created(self) -> Result<String, DockerError> {
        match self {
            Reply::ExecCreated { id } => Ok(id),
            _ => Err(another("exec create")),
        }
    }

    /// Content of the answer to [`super::Call::ExecInspect`].
    ///
    /// # Errors
    /// As above.
    pub fn exec(self) -> Result<ExecDetail, DockerError> {
        match self {
            Reply::Exec(detail) => Ok(detail),
            _ => Err(another("exec inspect")),
        }
    }

    /// Content of the answer to [`super::Call::ImageInspect`].
    ///
    /// # Errors
    /// As above.
    pub fn image(self) -> Result<ImageDetail, DockerError> {
        match self {
            Reply::Image(detail) => Ok(detail),
            _ => Err(another("image inspect")),
        }
    }

    /// Content of the answer to [`super::Call::ImageList`].
    ///
    /// # Errors
    /// As above.
    pub fn images(self) -> Result<Vec<ImageSummary>, DockerError> {
        match self {
            Reply::Images(list) => Ok(list),
            _ => Err(another("image list")),
        }
    }

    /// Content of the answer to [`super::Call::LogTail`].
    ///
    /// # Errors
    /// As above.
    pub fn output(self) -> Result<Vec<u8>, DockerError> {
        match self {
            Reply::Output(bytes) => Ok(bytes),
            _ => Err(another("logs")),
        }
    }
}

fn another(call: &str) -> DockerError {
    DockerError::BadAnswer(format!("{call}: an answer of another kind"))
}
