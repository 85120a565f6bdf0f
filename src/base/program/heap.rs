//! The heap of the program: one for all threads, and one that gives back what it does not need any more.
//!
//! glibc's heap keeps freed memory for each thread, which wastes over 2 MiB on a node with twenty pods; each pod has a
//! thread, and none of them needs fast allocation. dlmalloc gives back the end of its memory alone. After a burst of pods
//! the few objects that stay lie all over it, and keep as much as all pods together had needed.
//!
//! Never here: an object that is in use is moved, read or written.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlmalloc::{Allocator, Dlmalloc};
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mremap, munmap};

/// The unit of dlmalloc's own implementation for Linux. A kernel with larger pages rounds up.
const PAGE: usize = 4096;
/// The largest free part that is given back at once; larger ones are cut.
const LARGEST: usize = 1 << 20;
/// Smaller parts rarely have a whole page.
const SMALLEST: usize = 2 * PAGE;

/// All threads' heap, for `#[global_allocator]`.
static ALL: Memory = Memory::new();

/// The heap of this process. See the module.
#[derive(Debug, Clone, Copy)]
pub struct Heap;

// SAFETY: `Memory` keeps the contract: dlmalloc returns null or memory of this size and alignment that nobody else has, and
// gets back what it gave. No crate has such a heap that also gives memory back.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe { ALL.lock().malloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { ALL.lock().free(at, layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe { ALL.lock().calloc(layout.size(), layout.align()) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe { ALL.lock().realloc(at, layout.size(), layout.align(), size) }
    }
}

/// Gives the unused pages of this process's heap back to the kernel. Returns their number of bytes, also of those that were
/// given back before. Other threads that need memory wait meanwhile.
pub fn give_back() -> usize {
    ALL.give_back()
}

struct Memory(Mutex<Dlmalloc<Pages>>);

/// A free part of the heap that is held while others are looked for. It begins with this.
struct Held {
    next: *mut Held,
    size: usize,
}

impl Memory {
    const fn new() -> Memory {
        Memory(Mutex::new(Dlmalloc::new_with_allocator(Pages { grows: true })))
    }

    fn lock(&self) -> MutexGuard<'_, Dlmalloc<Pages>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes every free part that has whole pages, the largest first, unmaps these, and frees all parts again.
    #[allow(unsafe_code)]
    fn give_back(&self) -> usize {
        // Before the lock: the first call of it may need memory.
        let page = rustix::param::page_size();
        let mut heap = self.lock();
        // SAFETY: it moves nothing that is in use.
        unsafe { heap.trim(0) };
        heap.allocator_mut().grows = false;
        let (mut given, mut held, mut size) = (0_usize, ptr::null_mut::<Held>(), LARGEST);
        while size >= SMALLEST {
            // SAFETY: a heap that does not grow returns null when it has no such part, so that this ends.
            let part = unsafe { heap.malloc(size, align_of::<Held>()) };
            if part.is_null() {
                size = if size > 16 * PAGE { size / 2 } else { size.saturating_sub(PAGE) };
                continue;
            }
            #[expect(clippy::cast_ptr_alignment, reason = "it was asked for with this alignment")]
            let this = part.cast::<Held>();
            // SAFETY: the part is as large as `SMALLEST` at least, aligned for `Held`, and nobody else has it.
            unsafe { this.write(Held { next: held, size }) };
            held = this;
            given = given.saturating_add(unmap(part, size, page));
        }
        while !held.is_null() {
            // SAFETY: it is one of the parts above. Their first bytes were not unmapped, and each is freed once.
            held = unsafe {
                let Held { next, size } = held.read();
                heap.free(held.cast(), size, align_of::<Held>());
                next
            };
        }
        heap.allocator_mut().grows = true;
        given
    }
}

/// Unmaps the whole pages (of `page` bytes) of a part behind its `Held`. Returns their number of bytes.
#[allow(unsafe_code)]
fn unmap(part: *mut u8, size: usize, page: usize) -> usize {
    let used = part.addr().saturating_add(size_of::<Held>());
    let end = part.addr().saturating_add(size);
    let from = used.next_multiple_of(page);
    let len = (end & !page.saturating_sub(1)).saturating_sub(from);
    // SAFETY: the pages are inside of a part that the heap has given, and that nobody uses; they read as zeros from now on.
    let is_done =
        len > 0 && unsafe { madvise(part.with_addr(from).cast(), len, Advice::LinuxDontNeed) }.is_ok();
    if is_done { len } else { 0 }
}

/// The memory of the heap.
struct Pages {
    /// Whether there may be more of it.
    grows: bool,
}

// SAFETY: these are the calls of dlmalloc's own implementation for Linux, which it does not offer to others.
#[allow(unsafe_code)]
unsafe impl Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        if !self.grows {
            return (ptr::null_mut(), 0, 0);
        }
        let may = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place.
        let at = unsafe { mmap_anonymous(ptr::null_mut(), size, may, MapFlags::PRIVATE) };
        at.map_or((ptr::null_mut(), 0, 0), |at| (at.cast(), size, 0))
    }

    fn remap(&self, at: *mut u8, before: usize, after: usize, can_move: bool) -> *mut u8 {
        let flags = if can_move { MremapFlags::MAYMOVE } else { MremapFlags::empty() };
        // SAFETY: dlmalloc names a mapping of its own, and uses the place that is returned.
        unsafe { mremap(at.cast(), before, after, flags) }.map_or(ptr::null_mut(), <*mut _>::cast)
    }

    fn free_part(&self, at: *mut u8, before: usize, after: usize) -> bool {
        // SAFETY: dlmalloc names a mapping of its own, and uses its end no more.
        unsafe {
            mremap(at.cast(), before, after, MremapFlags::empty()).is_ok()
                || munmap(at.wrapping_add(after).cast(), before.saturating_sub(after)).is_ok()
        }
    }

    fn free(&self, at: *mut u8, size: usize) -> bool {
        // SAFETY: dlmalloc names a mapping of its own, and uses it no more.
        unsafe { munmap(at.cast(), size) }.is_ok()
    }

    fn can_release_part(&self, _: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects in a heap of their own, each filled with a number.
    struct Objects {
        heap: Memory,
        all: Vec<(*mut u8, usize, u8)>,
    }

    #[allow(unsafe_code)]
    impl Objects {
        fn new() -> Objects {
            Objects { heap: Memory::new(), all: Vec::new() }
        }

        fn make(&mut self, size: usize, fill: u8) {
            // SAFETY: the memory is as large as is written.
            unsafe {
                let at = self.heap.lock().malloc(size, 8);
                assert!(!at.is_null());
                at.write_bytes(fill, size);
                self.all.push((at, size, fill));
            }
        }

        fn end(&mut self, number: usize) {
            let (at, size, fill) = self.all.swap_remove(number);
            // SAFETY: it is an object of this heap, which ends once.
            unsafe {
                assert!(std::slice::from_raw_parts(at, size).iter().all(|byte| *byte == fill));
                self.heap.lock().free(at, size, 8);
            }
        }
    }

    /// A thousand pods left 60 MiB when they had gone, of which 4 MiB were in use.
    #[test]
    fn what_few_objects_keep_apart_is_given_back() {
        let mut objects = Objects::new();
        (0..100_000_usize).for_each(|n| objects.make(64 + n % 500, n.to_le_bytes()[0]));
        let kept: Vec<_> = objects.all.iter().copied().step_by(1000).collect();
        for (at, size, fill) in std::mem::take(&mut objects.all) {
            if !kept.iter().any(|kept| kept.0 == at) {
                objects.all.push((at, size, fill));
                objects.end(0);
            }
        }
        objects.all = kept;
        let whole = 100_000 * 314;
        let given = objects.heap.give_back();
        assert!(given > whole / 10 * 9, "{given} of {whole} bytes");
        // It does not grow for that, and what is made then is made of it.
        assert!(objects.heap.give_back() <= given);
        (0..1000).for_each(|n: usize| objects.make(30_000, n.to_le_bytes()[0]));
        assert!(objects.heap.give_back() < whole / 10);
        while !objects.all.is_empty() {
            objects.end(0);
        }
    }

    proptest::proptest! {
        #[test]
        fn objects_stay_as_they_are(steps in proptest::collection::vec((0_u8..8, 1_usize..200_000), 1..200)) {
            let mut objects = Objects::new();
            for (step, number) in steps {
                match (step, objects.all.len()) {
                    (0, _) => _ = objects.heap.give_back(),
                    (1..4, len) if len > 0 => objects.end(number % len),
                    (_, _) => objects.make(number, number.to_le_bytes()[0]),
                }
            }
            while !objects.all.is_empty() {
                objects.end(0);
            }
        }
    }
}
