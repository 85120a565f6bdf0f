//! Docker's settings for the output of containers: the log driver and its options. Pure.

use crate::base::order;
use crate::pod::PodKey;
use crate::runtime::{LogConfig, labels};

/// Docker's log drivers that podkeeper supports. Others send the output away from the node, or come from plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogDriver {
    /// A file of JSON lines, which log collectors read.
    #[default]
    JsonFile,
    /// Files in Docker's own format, which take less space; only Docker reads them.
    Local,
    /// The journal of systemd, which may be in memory.
    Journald,
    /// The output is dropped.
    None,
}

impl LogDriver {
    /// All drivers.
    pub const ALL: [LogDriver; 4] =
        [LogDriver::JsonFile, LogDriver::Local, LogDriver::Journald, LogDriver::None];

    /// Docker's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            LogDriver::JsonFile => "json-file",
            LogDriver::Local => "local",
            LogDriver::Journald => "journald",
            LogDriver::None => "none",
        }
    }

    /// The driver of this name.
    #[must_use]
    pub fn parse(word: &str) -> Option<LogDriver> {
        LogDriver::ALL.into_iter().find(|driver| driver.as_str() == word)
    }
}

/// Where a container's output is stored, and how much of it is kept. A container keeps the settings it was created
/// with: changing them restarts no container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSettings {
    /// The driver is always named, because the engine's default may be one whose logs cannot be read back.
    pub driver: LogDriver,
    /// Bytes of one file; `None`: no rotation.
    pub max_bytes: Option<u64>,
    /// Number of files including the current one; more than 1.
    pub max_files: u32,
}

impl LogSettings {
    /// Docker's driver and options for a container of a pod, or its sandbox. Bytes are given without a unit, since
    /// Docker's `m` is not Mi.
    #[must_use]
    pub fn config(self, pod: &PodKey, container: &str) -> LogConfig {
        let options: Vec<(&str, String)> = match (self.driver, self.max_bytes) {
            (LogDriver::JsonFile | LogDriver::Local, Some(bytes)) => {
                vec![("max-size", bytes.to_string()), ("max-file", self.max_files.to_string())]
            }
            // An entry in the journal has the tag as its SYSLOG_IDENTIFIER, and each label as a field.
            (LogDriver::Journald, _) => {
                let fields = [labels::POD_NAMESPACE, labels::POD_NAME, labels::CONTAINER_NAME];
                vec![("labels", fields.join(",")), ("tag", format!("{pod}/{container}"))]
            }
            (LogDriver::JsonFile | LogDriver::Local, None) | (LogDriver::None, _) => Vec::new(),
        };
        let options = options.into_iter().map(|(key, value)| (key.to_owned(), value));
        LogConfig { driver: self.driver.as_str().to_owned(), config: order::map(options) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_driver_gets_the_options_that_it_has() {
        let key = PodKey { namespace: "shop".into(), name: "web-n1".into() };
        let check = |driver: &str, max_bytes: Option<u64>, expected: serde_json::Value| {
            let driver = LogDriver::parse(driver).unwrap();
            let config = LogSettings { driver, max_bytes, max_files: 5 }.config(&key, "app");
            assert_eq!(serde_json::to_value(config).unwrap(), expected);
        };
        let sizes = serde_json::json!({"max-size": "1048576", "max-file": "5"});
        check("json-file", Some(1 << 20), serde_json::json!({"Type": "json-file", "Config": sizes}));
        check("json-file", None, serde_json::json!({"Type": "json-file", "Config": {}}));
        check("local", Some(1 << 20), serde_json::json!({"Type": "local", "Config": sizes}));
        let fields = "io.kubernetes.pod.namespace,io.kubernetes.pod.name,io.kubernetes.container.name";
        let of_journal = serde_json::json!({"labels": fields, "tag": "shop/web-n1/app"});
        check("journald", Some(1 << 20), serde_json::json!({"Type": "journald", "Config": of_journal}));
        check("none", Some(1 << 20), serde_json::json!({"Type": "none", "Config": {}}));
        assert_eq!(LogDriver::parse("syslog"), None);
    }
}
