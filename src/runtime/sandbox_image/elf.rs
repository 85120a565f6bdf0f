//! Machine code -> the smallest static executable Linux runs. Pure; only `core` and `Vec`, so that
//! `packaging/check-sandbox-arch` can compile this file alone.
//!
//! One segment holds headers and code, readable and executable; a second header says that the stack is
//! not executable, which 32-bit kernels otherwise assume. No sections, no symbols, no relocations: the
//! code must be position-independent and start with its entry point.

/// A machine that has a sandbox program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "each target has the program of one of them")]
pub enum Machine {
    /// `x86_64`.
    X86_64,
    /// `aarch64`.
    Aarch64,
    /// 32-bit `arm`, EABI version 5 (armv7).
    Arm,
    /// `riscv64`.
    Riscv64,
}

/// Address at which the file is mapped: a multiple of every page size in use (64 KiB), above `mmap_min_addr`.
const BASE: u64 = 0x40_0000;
/// Alignment of the segment: the largest page size in use.
const PAGE: u64 = 0x1_0000;
/// Size of the headers, up to the next multiple of 16 where code may start.
const CODE_OFFSET_64: usize = 176;
const CODE_OFFSET_32: usize = 128;

impl Machine {
    /// `e_machine` and `e_flags`.
    fn words(self) -> (u16, u32) {
        match self {
            Machine::X86_64 => (62, 0),
            Machine::Aarch64 => (183, 0),
            Machine::Arm => (40, 0x0500_0000),
            Machine::Riscv64 => (243, 0),
        }
    }
    fn is_32_bit(self) -> bool {
        self == Machine::Arm
    }
}

/// Wraps code into an executable.
#[must_use]
pub fn executable(machine: Machine, code: &[u8]) -> Vec<u8> {
    let small = machine.is_32_bit();
    let offset = if small { CODE_OFFSET_32 } else { CODE_OFFSET_64 };
    let length = offset.saturating_add(code.len());
    let mut out = Out { bytes: Vec::with_capacity(length), small };
    let (number, flags) = machine.words();
    let (header, entry) = if small { (52, 32) } else { (64, 56) };

    out.bytes.extend_from_slice(b"\x7fELF");
    // Class, little-endian, version 1, System V ABI, padding.
    out.bytes.extend_from_slice(&[if small { 1 } else { 2 }, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    out.half(2); // ET_EXEC
    out.half(number);
    out.word(1); // EV_CURRENT
    out.address(BASE + offset as u64);
    out.address(u64::from(header)); // e_phoff
    out.address(0); // e_shoff
    out.word(flags);
    out.half(header);
    out.half(entry);
    out.half(2); // e_phnum
    out.half(0);
    out.half(0);
    out.half(0);

    let length = length as u64;
    out.segment(&Segment { kind: 1, flags: 5, address: BASE, length, align: PAGE }); // PT_LOAD, R+X
    out.segment(&Segment { kind: 0x6474_e551, flags: 6, address: 0, length: 0, align: 16 }); // PT_GNU_STACK, R+W
    out.bytes.resize(offset, 0);
    out.bytes.extend_from_slice(code);
    out.bytes
}

/// A program header; its file offset is 0.
struct Segment {
    kind: u32,
    flags: u32,
    address: u64,
    length: u64,
    align: u64,
}

/// Little-endian fields, addresses as wide as the machine's.
struct Out {
    bytes: Vec<u8>,
    small: bool,
}

impl Out {
    fn half(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }
    fn word(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }
    fn address(&mut self, value: u64) {
        // All addresses and sizes here are far below 4 GiB.
        let width = if self.small { 4 } else { 8 };
        self.bytes.extend(value.to_le_bytes().into_iter().take(width));
    }
    fn segment(&mut self, segment: &Segment) {
        self.word(segment.kind);
        if !self.small {
            self.word(segment.flags);
        }
        self.address(0);
        self.address(segment.address);
        self.address(segment.address);
        self.address(segment.length);
        self.address(segment.length);
        if self.small {
            self.word(segment.flags);
        }
        self.address(segment.align);
    }
}
