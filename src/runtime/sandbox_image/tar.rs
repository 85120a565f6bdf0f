//! Files -> a `ustar` archive. Pure, and reproducible: owner 0, time 0, and no data of the machine.

/// A file in an archive.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Path; cut at 100 bytes, which no path here comes near.
    pub path: &'a str,
    /// Permission bits.
    pub mode: u32,
    /// Content, below 8 GiB.
    pub content: &'a [u8],
}

/// Size of a header; contents are padded to a multiple of it.
const BLOCK: usize = 512;
/// Bytes of a header's path field.
const PATH: usize = 100;

/// Packs the files, in this order.
#[must_use]
pub fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for entry in entries {
        out.extend_from_slice(&header(entry));
        out.extend_from_slice(entry.content);
        out.resize(out.len().next_multiple_of(BLOCK), 0);
    }
    // The end: two blocks of zeros.
    out.resize(out.len() + 2 * BLOCK, 0);
    out
}

fn header(entry: &Entry<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(BLOCK);
    out.extend(entry.path.bytes().take(PATH));
    out.resize(PATH, 0);
    out.extend(format!("{:07o}\0", entry.mode).bytes());
    out.extend_from_slice(b"0000000\x000000000\0"); // owner and group
    out.extend(format!("{:011o}\0", entry.content.len()).bytes());
    out.extend_from_slice(b"00000000000\0"); // time
    let checksum_at = out.len();
    out.extend_from_slice(b"        "); // the checksum counts itself as spaces
    out.push(b'0'); // a plain file
    out.resize(257, 0);
    out.extend_from_slice(b"ustar\x0000");
    out.resize(BLOCK, 0);
    let sum: u32 = out.iter().map(|&byte| u32::from(byte)).sum();
    for (place, byte) in out.iter_mut().skip(checksum_at).zip(format!("{sum:06o}\0 ").bytes()) {
        *place = byte;
    }
    out
}
