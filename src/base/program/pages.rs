//! The pages of the program itself. The kernel maps code in large pieces, and what ran once, at the start or in a burst,
//! stays mapped for as long as the process lives: several MiB of code that an idle daemon does not run, which the kernel
//! takes back late where memory is short. Here they are unmapped; what is used again is mapped again, from the page cache,
//! without a read of the disk as long as the cache holds it.
//!
//! Never here: pages that were ever written to, for these are lost by this.

use std::{fs, ptr};

use rustix::mm::{Advice, madvise};

/// The program's mappings that hold its code and its constants: addresses of the first byte and behind the last one.
///
/// Of `proc_pid_maps(5)` the lines of the program's file that nothing can write to: executable ones, and the one that
/// begins where the file begins. Others hold pointers that the loader has put in before it took the right to write away.
fn unwritten(maps: &str, program: &str) -> Vec<(usize, usize)> {
    let of_line = |line: &str| {
        // `55d0a2a4d000-55d0a2f61000 r-xp 000b2000 fe:00 1234     /usr/bin/podkeeper`
        let mut words = line.split_ascii_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let (may, offset, _device, _inode) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let path = line.split_once('/').map(|(_, rest)| rest)?;
        let offset = u64::from_str_radix(offset, 16).ok()?;
        let is_unwritten = may == "r-xp" || (may == "r--p" && offset == 0);
        let is_ours = Some(path) == program.strip_prefix('/');
        let address = |text| usize::from_str_radix(text, 16).ok();
        (is_unwritten && is_ours).then_some((address(from)?, address(to)?))
    };
    maps.lines().filter_map(of_line).collect()
}

/// Unmaps the program's own code and constants from this process, until they are used again. Returns the number of bytes
/// of the mappings; 0 where there is no `/proc`, or where the program's file has been replaced.
pub fn give_back() -> usize {
    let program = fs::read_link("/proc/self/exe").unwrap_or_default();
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut given = 0_usize;
    for (from, to) in unwritten(&maps, &program.to_string_lossy()) {
        let len = to.saturating_sub(from);
        if unmap(from, len).is_ok() {
            given = given.saturating_add(len);
        }
    }
    given
}

#[allow(unsafe_code)]
fn unmap(from: usize, len: usize) -> rustix::io::Result<()> {
    // SAFETY: the pages are those of a file that nothing has written to in this process, and nothing can, so a page that
    // is used again, by this very thread at once, is the same. The mapping stays; the kernel checks its addresses. No
    // crate offers this without `unsafe`, for with other memory it loses what is there.
    unsafe { madvise(ptr::without_provenance_mut(from), len, Advice::LinuxDontNeed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0a2000000-55d0a20b2000 r--p 00000000 fe:00 1234   /usr/bin/podkeeper
55d0a20b2000-55d0a25c6000 r-xp 000b2000 fe:00 1234   /usr/bin/podkeeper
55d0a25c6000-55d0a25f1000 r--p 005c6000 fe:00 1234   /usr/bin/podkeeper
55d0a25f1000-55d0a25f3000 rw-p 005f0000 fe:00 1234   /usr/bin/podkeeper
55d0a3000000-55d0a3021000 rw-p 00000000 00:00 0      [heap]
7f0000000000-7f0000026000 r--p 00000000 fe:00 99     /usr/lib/libc.so.6
7f0000026000-7f000017b000 r-xp 00026000 fe:00 99     /usr/lib/libc.so.6
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0      [vdso]
short line
55d0a4000000-55d0a4001000 rwxp 00000000 fe:00 1234   /usr/bin/podkeeper
";

    #[test]
    fn only_the_programs_own_pages_that_were_never_written_are_chosen() {
        let ours = unwritten(MAPS, "/usr/bin/podkeeper");
        assert_eq!(ours, [(0x55d0_a200_0000, 0x55d0_a20b_2000), (0x55d0_a20b_2000, 0x55d0_a25c_6000)]);
        assert_eq!(unwritten(MAPS, "/usr/bin/podkeeper (deleted)"), []);
        assert_eq!(unwritten(MAPS, ""), []);
        assert_eq!(unwritten("", "/usr/bin/podkeeper"), []);
    }

    /// The kernel's count for this process and its program's file, in KiB.
    fn resident() -> u64 {
        let program = fs::read_link("/proc/self/exe").unwrap();
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_code = false;
        let mut sum = 0;
        for line in smaps.lines() {
            if line.contains(" r-xp ") || line.contains("-p ") || line.contains(" rw-p ") {
                is_code = line.contains(" r-xp ") && line.ends_with(&*program.to_string_lossy());
            } else if let Some(rest) = line.strip_prefix("Rss:").filter(|_| is_code) {
                sum += rest.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
            }
        }
        sum
    }

    #[test]
    fn code_that_is_given_back_is_not_resident_and_runs_as_before() {
        let sorted = || {
            let mut words: Vec<String> =
                (0..2000).map(|n: u32| format!("{:x}", n.wrapping_mul(2_654_435_761))).collect();
            words.sort();
            words
        };
        let before = (sorted(), resident());
        assert!(give_back() > 0);
        let after = resident();
        assert!(after < before.1, "{after} KiB of code are resident, {} before", before.1);
        assert_eq!(sorted(), before.0);
    }
}
