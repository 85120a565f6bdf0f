//! `/logs/…`: files below `/var/log`, like Go's `http.FileServer`: a directory is a page of links.
//!
//! Never here: a link that leads outside, a pipe, a device.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, openat2};

use super::not_found;
use crate::base::limits;
use crate::base::order;
use crate::server::connection::Sink;
use crate::server::http::answer::{Answer, TEXT};
use crate::server::service::Reply;

const ROOT: &str = "/var/log";

/// Answers a request for a file or a directory; `rest` is the path behind `/logs/`.
pub fn answer(rest: &str) -> Reply {
    at(Path::new(ROOT), rest).unwrap_or_else(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => not_found().into(),
        io::ErrorKind::PermissionDenied => Answer::text(403, "403 Forbidden").into(),
        _ => Answer::text(500, &format!("the file cannot be read: {error}")).into(),
    })
}

fn at(root: &Path, rest: &str) -> io::Result<Reply> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(CWD, root, flags | OFlags::DIRECTORY, Mode::empty())?;
    let path = if rest.is_empty() { "." } else { rest.trim_end_matches('/') };
    // Links are followed only within the directory.
    let below = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = openat2(&root, path, flags, Mode::empty(), below).map_err(|error| match error {
        rustix::io::Errno::XDEV => io::ErrorKind::PermissionDenied.into(),
        error => io::Error::from(error),
    })?;
    let meta = File::from(file.try_clone()?).metadata()?;
    if meta.is_dir() {
        return Ok(directory(Dir::read_from(&file)?, rest).into());
    }
    if !meta.is_file() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut file = File::from(file);
    let pour = move |sink: &mut Sink<'_>| {
        let mut buffer = [0u8; limits::HTTP_READ];
        // A log that grows meanwhile is sent up to its length at the request.
        let mut left = meta.len();
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let read = file.read(buffer.get_mut(..most).unwrap_or_default())?;
            if read == 0 {
                break;
            }
            sink.write(buffer.get(..read).unwrap_or_default())?;
            left = left.saturating_sub(read as u64);
        }
        Ok(())
    };
    Ok(Reply::Stream(Answer::new(200, TEXT, ""), Box::new(pour)))
}

/// A page of links, like Go's.
fn directory(mut entries: Dir, rest: &str) -> Answer {
    if !rest.is_empty() && !rest.ends_with('/') {
        return match rest.rsplit('/').next() {
            Some(name) => Answer::new(301, "", "").with("Location", format!("{}/", encoded(name))),
            None => not_found(),
        };
    }
    let mut names = Vec::new();
    while let Some(entry) = entries.next().filter(|_| names.len() < limits::SERVER_NAMES) {
        let Ok(entry) = entry else { break };
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            let slash = if entry.file_type() == FileType::Directory { "/" } else { "" };
            names.push(format!("{name}{slash}"));
        }
    }
    order::sort(&mut names);
    let mut page =
        "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n".to_owned();
    for name in names {
        page.push_str(&format!("<a href=\"{}\">{}</a>\n", encoded(&name), escaped(&name)));
    }
    page.push_str("</pre>\n");
    Answer::new(200, "text/html; charset=utf-8", page)
}

/// A name percent-encoded for a link.
fn encoded(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                text.push(char::from(byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// A name escaped for HTML.
fn escaped(name: &str) -> String {
    name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&#34;")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::base::testing::scratch;

    fn get(root: &Path, rest: &str) -> Result<(u16, String), io::ErrorKind> {
        match at(root, rest).map_err(|error| error.kind())? {
            Reply::Whole(answer) => Ok((answer.status, String::from_utf8(answer.body).unwrap())),
            Reply::Stream(answer, _) => Ok((answer.status, "a file".to_owned())),
            Reply::Upgrade(..) => panic!("no protocol"),
        }
    }

    #[test]
    fn files_are_served_and_nothing_leads_out() {
        let dir = scratch("system-logs");
        let root = dir.join("log");
        fs::create_dir_all(root.join("pods")).unwrap();
        fs::write(root.join("a b<c>&.log"), "x").unwrap();
        fs::write(dir.join("secret"), "x").unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink("/etc/passwd", root.join("far")).unwrap();
        symlink("a b<c>&.log", root.join("near")).unwrap();
        rustix::fs::mknodat(CWD, root.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let (status, page) = get(&root, "").unwrap();
        assert_eq!(status, 200);
        assert!(page.contains("<a href=\"a%20b%3Cc%3E%26.log\">a b&lt;c&gt;&amp;.log</a>\n"), "{page}");
        assert!(page.contains("<a href=\"pods/\">pods/</a>\n"), "{page}");
        assert_eq!(get(&root, "a b<c>&.log"), Ok((200, "a file".to_owned())));
        assert_eq!(get(&root, "near"), Ok((200, "a file".to_owned())));
        assert_eq!(get(&root, "pods").unwrap().0, 301);
        assert_eq!(get(&root, "pods/").unwrap().0, 200);
        for rest in ["out", "far", "../secret", "pods/../../secret", "pipe"] {
            assert_eq!(get(&root, rest), Err(io::ErrorKind::PermissionDenied), "{rest}");
        }
        assert_eq!(get(&root, "nothing"), Err(io::ErrorKind::NotFound));
        fs::remove_dir_all(&dir).unwrap();
    }
}
