//! Reads an image archive on disk as bytes for Docker. Docker unpacks gzip, bzip2 and xz itself; zstd,
//! which only newer Docker versions unpack, is unpacked here.

use std::fs::Metadata;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::base::limits;
use crate::base::regular;

/// Name suffixes of archives in the preload directory.
const SUFFIXES: [&str; 4] = [".tar", ".tar.gz", ".tgz", ".tar.zst"];

/// Whether this is the name of an archive.
#[must_use]
pub fn is_archive_name(name: &str) -> bool {
    !name.starts_with('.') && SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

type Stream = Box<dyn Read + Send>;

/// An open archive.
pub struct Archive {
    bytes: Bytes,
    /// The first error of reading, as text for the operator.
    trouble: Option<String>,
}

enum Bytes {
    AsIs(Stream),
    Zstd(Box<Zstd>),
}

impl Archive {
    /// Opens a file and checks its first bytes.
    ///
    /// # Errors
    /// It is not a file, is empty, or is not an archive; as text for the operator.
    pub fn open(path: &Path) -> Result<(Archive, Metadata), String> {
        let file = regular::open(path).map_err(|e| e.to_string())?;
        let meta = file.metadata().map_err(|e| e.to_string())?;
        Ok((Archive::of(Box::new(file))?, meta))
    }

    /// Makes an archive of a stream; its first bytes are read and checked.
    ///
    /// # Errors
    /// Errors of [`Archive::open`].
    pub fn of(mut input: Stream) -> Result<Archive, String> {
        let mut head = Vec::with_capacity(BLOCK);
        let block = u64::try_from(BLOCK).unwrap_or(u64::MAX);
        io::Read::by_ref(&mut input).take(block).read_to_end(&mut head).map_err(|e| e.to_string())?;
        let kind = kind(&head)?;
        let whole: Stream = Box::new(Cursor::new(head).chain(input));
        let bytes = match kind {
            Kind::ForDocker => Bytes::AsIs(whole),
            Kind::Zstd => Bytes::Zstd(Box::new(Zstd::new(whole))),
        };
        Ok(Archive { bytes, trouble: None })
    }

    /// Why reading ended early; then the file is at fault, not Docker.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

impl Read for Archive {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = match &mut self.bytes {
            Bytes::AsIs(file) => file.read(buffer),
            Bytes::Zstd(zstd) => zstd.read(buffer),
        };
        if let Err(error) = &result
            && error.kind() != io::ErrorKind::Interrupted
        {
            self.trouble = Some(error.to_string());
        }
        result
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    ForDocker,
    Zstd,
}

/// Size of a tar header.
const BLOCK: usize = 512;
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

fn kind(head: &[u8]) -> Result<Kind, String> {
    const DOCKERS: [&[u8]; 3] = [b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0"];
    if head.is_empty() {
        return Err("it is empty".to_owned());
    }
    if head.starts_with(&ZSTD) || is_skippable(head) {
        return Ok(Kind::Zstd);
    }
    if DOCKERS.iter().any(|magic| head.starts_with(magic)) || is_tar_header(head) {
        return Ok(Kind::ForDocker);
    }
    Err("it is no image archive (tar, alone or packed by gzip or zstd)".to_owned())
}

/// Whether this is a frame that zstd programs may add for their own purposes.
fn is_skippable(head: &[u8]) -> bool {
    matches!(head, [first, 0x2a, 0x4d, 0x18, ..] if first & 0xf0 == 0x50)
}

/// Whether the header's checksum is correct.
fn is_tar_header(head: &[u8]) -> bool {
    const SUM: std::ops::Range<usize> = 148..156;
    let (Some(block), Some(field)) = (head.get(..BLOCK), head.get(SUM)) else { return false };
    let text: String = field.iter().map(|b| char::from(*b)).collect();
    let written = u32::from_str_radix(text.trim_matches(['\0', ' ']), 8);
    let sum = |(at, byte): (usize, &u8)| u32::from(if SUM.contains(&at) { b' ' } else { *byte });
    written.is_ok_and(|written| written == block.iter().enumerate().map(sum).sum::<u32>())
}

/// Unpacks zstd, frame after frame.
struct Zstd {
    packed: BufReader<Noted>,
    frame: FrameDecoder,
    inside: bool,
}

impl Zstd {
    fn new(file: Stream) -> Zstd {
        let mut frame = FrameDecoder::new();
        frame.set_max_window_size(limits::ZSTD_WINDOW);
        let packed = BufReader::with_capacity(limits::LOAD_CHUNK, Noted { stream: file, failed: None });
        Zstd { packed, frame, inside: false }
    }

    /// The decoder has failed: for an error of the disk or the pipe, or for what it has read.
    fn damaged(&mut self) -> io::Error {
        let failed = self.packed.get_mut().failed.take();
        failed.unwrap_or_else(|| io::Error::other("its zstd data are damaged or cut off"))
    }

    /// Goes to the next frame; returns false at the end of the file.
    fn next_frame(&mut self) -> io::Result<bool> {
        loop {
            if io::BufRead::fill_buf(&mut self.packed)?.is_empty() {
                return Ok(false);
            }
            match self.frame.reset(&mut self.packed) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut self.packed.by_ref().take(u64::from(length)), &mut io::sink())?;
                }
                Err(FrameDecoderError::WindowSizeTooBig { requested, .. }) => {
                    let (mib, most) = (requested >> 20, limits::ZSTD_WINDOW >> 20);
                    return Err(io::Error::other(format!(
                        "unpacking it needs {mib} MiB of memory, at most {most} MiB are allowed: pack it with a smaller window (zstd without --ultra and --long)"
                    )));
                }
                Err(_) => return Err(self.damaged()),
            }
        }
    }
}

/// A stream, and its last error: the decoder's own errors would bring eleven KiB of texts that nobody reads.
struct Noted {
    stream: Stream,
    failed: Option<io::Error>,
}

impl Read for Noted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = self.stream.read(buffer);
        if let Err(error) = &result {
            self.failed = Some(io::Error::new(error.kind(), error.to_string()));
        }
        result
    }
}

impl Read for Zstd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.inside {
                while self.frame.can_collect() == 0 && !self.frame.is_finished() {
                    let blocks = BlockDecodingStrategy::UptoBlocks(1);
                    if self.frame.decode_blocks(&mut self.packed, blocks).is_err() {
                        return Err(self.damaged());
                    }
                }
                let n = self.frame.read(buffer)?;
                if n > 0 || buffer.is_empty() {
                    return Ok(n);
                }
            }
            self.inside = self.next_frame()?;
            if !self.inside {
                return Ok(0);
            }
        }
    }
}

/// The meaning of Docker's refusal of an archive.
#[must_use]
pub fn refusal_words(why: &str) -> String {
    let meaning = if why.contains("unexpected EOF") {
        "it is cut off or damaged"
    } else if why.contains("invalid diffID") {
        "a layer is not the one that the image names"
    } else if why.contains("repositories: no such file") {
        "no image is in it"
    } else {
        return format!("Docker does not take it: {why}");
    };
    format!("{meaning} (Docker says: {why})")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn names() {
        let check = |name: &str, expected| assert_eq!(is_archive_name(name), expected, "{name}");
        check("a.tar", true);
        check("a.tar.gz", true);
        check("a.tgz", true);
        check("a.tar.zst", true);
        check(".a.tar", false);
        check("a.tar.part", false);
        check("a.zst", false);
        check("README", false);
    }

    fn read(path: &Path) -> Result<Vec<u8>, String> {
        let (mut archive, _) = Archive::open(path)?;
        let mut bytes = Vec::new();
        let result = archive.read_to_end(&mut bytes);
        assert_eq!(result.is_err(), archive.trouble().is_some());
        result.map(|_| bytes).map_err(|e| e.to_string())
    }

    /// A disk that fails after these bytes.
    struct Fails(Cursor<Vec<u8>>);

    impl Read for Fails {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(io::Error::from_raw_os_error(5)),
                n => Ok(n),
            }
        }
    }

    /// A tar of zeros and of incompressible bytes.
    fn tar() -> Vec<u8> {
        let noise: Vec<u8> = (0..400_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let zeros = vec![0_u8; 3_000_000];
        let entry = |path, content| crate::runtime::sandbox_image::tar::Entry { path, mode: 0o644, content };
        crate::runtime::sandbox_image::tar::archive(&[entry("noise", &noise), entry("zeros", &zeros)])
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let dir = crate::base::testing::scratch("archive");
        let path = dir.join("a.tar");
        let plain = tar();
        fs::write(&path, &plain).unwrap();
        assert!(read(&path) == Ok(plain.clone()));
        let zstd = |flags: &[&str], to: &Path| {
            Command::new("zstd").args(["-q", "-f"]).args(flags).arg(&path).arg("-o").arg(to).status()
        };
        let packed = dir.join("a.tar.zst");
        let there = zstd(&["-1"], &packed).is_ok_and(|status| status.success());
        assert!(there, "this test needs the program zstd (tests/run installs it)");
        for flags in [&["-1"][..], &["-19"], &["--long=24", "--no-check"]] {
            assert!(zstd(flags, &packed).unwrap().success());
            assert!(read(&packed) == Ok(plain.clone()), "{flags:?}");
        }
        // Two frames, the second after a skippable one.
        let one = fs::read(&packed).unwrap();
        let both = [&one[..], b"\x50\x2a\x4d\x18\x03\0\0\0xyz", &one].concat();
        fs::write(&packed, both).unwrap();
        assert!(read(&packed) == Ok([&plain[..], &plain].concat()));
        // The same through a pipe.
        let mut bytes = Vec::new();
        Archive::of(Box::new(fs::File::open(&packed).unwrap())).unwrap().read_to_end(&mut bytes).unwrap();
        assert!(bytes == [&plain[..], &plain].concat());
        for cut in [5, 100, one.len() / 2, one.len() - 1] {
            fs::write(&packed, &one[..cut]).unwrap();
            let why = read(&packed).unwrap_err();
            assert_eq!(why, "its zstd data are damaged or cut off", "{cut}");
        }
        // A failing disk does not mean a damaged archive, wherever it fails.
        for good in [5, 100, one.len() / 2, one.len() - 1] {
            let fails = Fails(Cursor::new(one.get(..good).unwrap().to_vec()));
            let mut bytes = Vec::new();
            let read = Archive::of(Box::new(fails)).map(|mut archive| {
                archive.read_to_end(&mut bytes).unwrap_err();
                archive.trouble().unwrap().to_owned()
            });
            let (Ok(why) | Err(why)) = read;
            assert_eq!(why, "Input/output error (os error 5)", "{good}");
        }
        let big = dir.join("b.tar.zst");
        fs::write(&big, b"\x28\xb5\x2f\xfd\x00\x88\0\0\0\0").unwrap();
        assert!(read(&big).unwrap_err().starts_with("unpacking it needs 128 MiB"), "{:?}", read(&big));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_is_no_archive() {
        let dir = crate::base::testing::scratch("no-archive");
        let check = |bytes: &[u8], expected: &str| {
            let path = dir.join("x.tar");
            fs::write(&path, bytes).unwrap();
            assert_eq!(Archive::open(&path).err().as_deref(), Some(expected));
        };
        let none = "it is no image archive (tar, alone or packed by gzip or zstd)";
        check(b"", "it is empty");
        check(b"hello", none);
        check(&[0; 2000], none);
        check(&tar()[..511], none);
        assert_eq!(Archive::open(&dir).err().as_deref(), Some("it is a directory"));
        assert_eq!(Archive::open(Path::new("/dev/null")).err().as_deref(), Some("it is not a regular file"));
        assert!(Archive::open(&dir.join("gone")).is_err());
        fs::remove_dir_all(dir).unwrap();
    }
}
