use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::*;

const ALL: [Machine; 4] = [Machine::X86_64, Machine::Aarch64, Machine::Arm, Machine::Riscv64];

fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    bytes[at..at + width].iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

#[test]
fn executables() {
    let code = [1_u8, 2, 3, 4, 5];
    for (machine, class, e_machine) in [(ALL[0], 2, 62), (ALL[1], 2, 183), (ALL[2], 1, 40), (ALL[3], 2, 243)]
    {
        let elf = elf::executable(machine, &code);
        let small = class == 1;
        let width = if small { 4 } else { 8 };
        assert_eq!(&elf[..7], &[0x7f, b'E', b'L', b'F', class, 1, 1]);
        assert_eq!(number(&elf, 18, 2), e_machine);
        let entry = number(&elf, 24, width);
        let table = usize::try_from(number(&elf, 24 + width, width)).unwrap();
        assert_eq!(table, if small { 52 } else { 64 });
        // The first program header: PT_LOAD of the whole file, from offset 0.
        assert_eq!(number(&elf, table, 4), 1);
        let (offset, address, size, flags) =
            if small { (4, 8, 16, table + 24) } else { (8, 16, 32, table + 4) };
        assert_eq!(number(&elf, table + offset, width), 0);
        assert_eq!(number(&elf, table + size, width), elf.len() as u64);
        assert_eq!(number(&elf, flags, 4), 5, "readable, executable, not writable");
        let at = usize::try_from(entry - number(&elf, table + address, width)).unwrap();
        assert_eq!(&elf[at..], &code, "the entry point is the code's first byte");
        assert_eq!(at % 16, 0);
    }
}

#[test]
fn archives_are_read_by_tar() {
    let files = [
        Entry { path: "a", mode: 0o755, content: b"hello" },
        Entry { path: "empty", mode: 0o644, content: b"" },
        Entry { path: "block", mode: 0o600, content: &[b'x'; 512] },
    ];
    let archive = tar::archive(&files);
    assert_eq!(archive.len() % 512, 0);
    let mut child = Command::new("tar")
        .args(["tv", "--full-time", "--utc", "--numeric-owner", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&archive).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let expected = "-rwxr-xr-x 0/0               5 1970-01-01 00:00:00 a\n\
                    -rw-r--r-- 0/0               0 1970-01-01 00:00:00 empty\n\
                    -rw------- 0/0             512 1970-01-01 00:00:00 block\n";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn digest() {
    // FIPS 180-2, example B.1.
    assert_eq!(hex::sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

#[test]
fn names_follow_content() {
    assert_eq!(image_name(), image_name());
    assert_eq!(image_tar(), image_tar());
    let tag = image_name().strip_prefix("podkeeper.dev/sandbox:").unwrap().to_string();
    assert!(tag.len() == 12 && tag.bytes().all(|b| b.is_ascii_hexdigit()), "{tag}");
    let mut names: Vec<String> = ALL.iter().map(|&machine| Image::build(machine, &[1, 2]).name()).collect();
    names.push(Image::build(Machine::X86_64, &[1, 3]).name());
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 5, "another machine or another program is another image");
}

#[test]
fn the_archive_says_what_it_holds() {
    for (machine, architecture) in ALL.iter().zip(["amd64", "arm64", "arm", "riscv64"]) {
        let image = Image::build(*machine, &[1, 2, 3]);
        let config: serde_json::Value = serde_json::from_str(&image.config).unwrap();
        assert_eq!(config["architecture"], architecture);
        assert_eq!(config["os"], "linux");
        assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/pause"]));
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", hex::sha256(&image.layer)));
        assert!(image.tar().len() < 8192, "small enough to be sent on every doubt");
    }
}

/// The program, running outside of any container. Killed when dropped.
struct Running {
    child: Child,
    directory: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Running {
    fn start(what: &str) -> Running {
        let directory = crate::base::testing::temporary()
            .join(format!("podkeeper-sandbox-{}-{what}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("pause");
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o755).open(&path).unwrap();
        file.write_all(&elf::executable(program::MACHINE, code())).unwrap();
        drop(file);
        let child = loop {
            match Command::new(&path).spawn() {
                // Another test forked while the file was open for writing, and has not yet executed.
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                other => break other.unwrap(),
            }
        };
        let running = Running { child, directory };
        running.wait_for("syscall", running.waiting());
        running
    }

    /// Start of `/proc/PID/syscall` while the program waits for a signal.
    fn waiting(&self) -> &'static str {
        match program::MACHINE {
            Machine::X86_64 => "128 ",
            Machine::Arm => "177 ",
            Machine::Aarch64 | Machine::Riscv64 => "137 ",
        }
    }

    /// Waits until a file of the process in `/proc` contains the text.
    fn wait_for(&self, file: &str, text: &str) {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let content = std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap();
            if content.contains(text) {
                return;
            }
            assert!(Instant::now() < deadline, "{content}");
            std::thread::yield_now();
        }
    }

    fn send(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

#[test]
fn only_term_and_int_end_the_program() {
    for (signal, code) in [(Signal::TERM, Some(0)), (Signal::INT, Some(0)), (Signal::KILL, None)] {
        let mut running = Running::start(&signal.as_raw().to_string());
        // A signal it does not handle, and being stopped in its wait, have no effect.
        running.send(Signal::HUP);
        running.send(Signal::STOP);
        running.wait_for("status", "State:\tT");
        running.send(Signal::CONT);
        running.wait_for("syscall", running.waiting());
        running.wait_for("status", "ShdPnd:\t0000000000000000");
        running.send(signal);
        assert_eq!(running.child.wait().unwrap().code(), code, "{signal:?}");
    }
}
