//! Log lines on standard error: level, thread name, message; one line per record, for any content of the
//! message. Texts from a manifest or from Docker must not be able to forge a line or to drive a terminal.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};

use log::{Level, LevelFilter, Record};

use crate::base::clock::{Clock, System, Timestamp};

/// Environment variable that overrides `-v`: `debug`, `podkeeper::source=trace,info` …
pub const VARIABLE: &str = "PODKEEPER_LOG";

/// The format of a line, by its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// The journal: `<4>` instead of a level, no time (the journal has its own).
    Journal,
    /// A terminal, a file, another supervisor: time and level.
    Plain,
}

/// Starts logging at the kubelet's `-v` levels: 0 and 1 info, 2 and 3 debug, 4 and more trace.
/// Called once; a second call changes nothing.
pub fn init(verbosity: u8) {
    let style = if journal_reads_us() { Style::Journal } else { Style::Plain };
    let clock = System::start();
    let mut builder = env_logger::Builder::new();
    match std::env::var(VARIABLE) {
        Ok(filters) if !filters.is_empty() => builder.parse_filters(&filters),
        // The log crate's maximum level decides, because it can be changed.
        _ => builder.filter_level(LevelFilter::Trace),
    };
    // Below `warn` this library may log the content of connections.
    builder.filter_module("rustls", LevelFilter::Warn);
    builder.format(move |out, record| {
        let thread = std::thread::current();
        let line = line(style, clock.now().wall, thread.name().unwrap_or("pk"), record);
        out.write_all(line.as_bytes())
    });
    // An error means that logging was started before; that logger stays.
    if builder.try_init().is_ok() {
        set(verbosity);
    }
}

/// Logs at another level from now on, unless the environment variable sets the level.
pub fn set(verbosity: u8) {
    if std::env::var_os(VARIABLE).is_none_or(|filters| filters.is_empty()) {
        log::set_max_level(level(verbosity));
    }
}

fn level(verbosity: u8) -> LevelFilter {
    match verbosity {
        0 | 1 => LevelFilter::Info,
        2 | 3 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    }
}

/// systemd sets `JOURNAL_STREAM` to device and inode of the stream it connected; standard error may have been
/// redirected since (systemd.exec(5)), so the numbers are compared.
fn journal_reads_us() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    match rustix::fs::fstat(io::stderr()) {
        Ok(stat) => stream == format!("{}:{}", stat.st_dev, stat.st_ino),
        Err(_) => false,
    }
}

fn line(style: Style, wall: Timestamp, thread: &str, record: &Record<'_>) -> String {
    let mut line = String::new();
    let _ = match style {
        Style::Journal => write!(line, "<{}>{thread}: ", priority(record.level())),
        Style::Plain => write!(line, "{wall:.3} {:<5} {thread}: ", record.level()),
    };
    let _ = write!(Escaped(&mut line), "{}", record.args());
    line.push('\n');
    line
}

/// The level as a syslog priority.
fn priority(level: Level) -> u8 {
    match level {
        Level::Error => 3,
        Level::Warn => 4,
        Level::Info => 6,
        Level::Debug | Level::Trace => 7,
    }
}

/// Writes text with everything that could break a line or move a cursor escaped as in Rust.
struct Escaped<'a>(&'a mut String);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        push_escaped(self.0, text);
        Ok(())
    }
}

/// Appends `text` without control characters, line separators and direction overrides.
fn push_escaped(out: &mut String, text: &str) {
    for c in text.chars() {
        let harmful = c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if harmful {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
}

/// `text` as one harmless line, for messages outside the log (a terminal, a table).
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_escaped(&mut out, text);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(style: Style, level: Level, message: &str, expected: &str) {
        let time: Timestamp = "2026-01-02T03:04:05.678901Z".parse().unwrap();
        let got = line(
            style,
            time,
            "pk-file",
            &Record::builder().level(level).args(format_args!("{message}")).build(),
        );
        assert_eq!(got, expected);
    }

    #[test]
    fn a_record_is_one_line() {
        check(
            Style::Plain,
            Level::Warn,
            "pod a/b: x",
            "2026-01-02T03:04:05.678Z WARN  pk-file: pod a/b: x\n",
        );
        check(Style::Journal, Level::Error, "x", "<3>pk-file: x\n");
        check(Style::Journal, Level::Info, "grüß", "<6>pk-file: grüß\n");
        check(
            Style::Journal,
            Level::Debug,
            "a\n<0>forged\r\u{1b}[2J\0\u{2028}\u{202e}",
            "<7>pk-file: a\\n<0>forged\\r\\u{1b}[2J\\u{0}\\u{2028}\\u{202e}\n",
        );
    }

    #[test]
    fn verbosity_as_in_the_kubelet() {
        let levels: Vec<_> = (0..=5).map(level).collect();
        let (i, d, t) = (LevelFilter::Info, LevelFilter::Debug, LevelFilter::Trace);
        assert_eq!(levels, [i, i, d, d, t, t]);
    }

    proptest::proptest! {
        #[test]
        fn nothing_can_forge_a_line(message in "(?s).{0,40}") {
            let line = one_line(&message);
            let forged = line.contains(['\n', '\r', '\u{1b}', '\u{85}', '\u{2028}']);
            proptest::prop_assert!(!forged);
        }
    }
}
