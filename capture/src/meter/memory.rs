//! Large tables: memory that is promised at once and paid for page by page, in huge pages where it gets large.

use aligned_vec::{AVec, ConstAlign};

/// What stays in small pages at the start of a table, so that a quiet agent needs little.
const SMALL: usize = 2 << 20;

/// A vector that begins where a line of the processor's cache does, 64 octets on every processor at hand.
pub type Lines<T> = AVec<T, ConstAlign<64>>;

/// An empty vector that never has to move for `capacity` elements.
pub fn reserve<T>(capacity: usize) -> Vec<T> {
    let vector = Vec::with_capacity(capacity);
    advise_huge(vector.as_ptr(), vector.capacity());
    vector
}

/// As [`reserve`]: of what is 64 octets long each is in one line, and one wait for memory brings it.
pub fn reserve_lines<T>(capacity: usize) -> Lines<T> {
    let vector = Lines::with_capacity(64, capacity);
    advise_huge(vector.as_ptr(), vector.capacity());
    vector
}

/// Asks for huge pages for all of a vector's memory but its beginning, by its place and capacity: a table that is filled or
/// searched at random otherwise spends its time on page faults and address translation. A hint: what cannot be had is done
/// without.
pub fn advise_huge<T>(begins: *const T, capacity: usize) {
    let octets = capacity * size_of::<T>();
    if octets <= 2 * SMALL {
        return;
    }
    let from = (begins as usize + SMALL).next_multiple_of(SMALL);
    let to = (begins as usize + octets) & !(SMALL - 1);
    if from < to {
        // SAFETY: the range lies within one allocation, and the advice changes none of its contents.
        unsafe { libc::madvise(from as *mut libc::c_void, to - from, libc::MADV_HUGEPAGE) };
    }
}

/// Tables up to this size keep the memory that they have once taken.
const LARGE: usize = 32 << 20;

/// Gives back the memory of a large vector's first `passed` elements but for `given` octets, which were given back
/// already; says how many are now. What those elements say is lost: they must not be read before they were written.
pub fn give_back<T: Copy>(vector: &mut Vec<T>, passed: usize, given: usize) -> usize {
    let octets = passed.min(vector.len()) * size_of::<T>();
    if vector.len() * size_of::<T>() <= LARGE || octets < given + SMALL {
        return given;
    }
    let start = vector.as_mut_ptr() as usize;
    // Whole huge pages: a part of one would have to be taken apart first.
    let (from, to) = ((start + given).next_multiple_of(SMALL), (start + octets) & !(SMALL - 1));
    if from < to {
        // SAFETY: the range lies within the vector's own allocation, which is private memory: its pages read as zeros
        // from now on, and any octets are a `T` as far as its owner reads them again.
        unsafe { libc::madvise(from as *mut libc::c_void, to - from, libc::MADV_DONTNEED) };
    }
    to.saturating_sub(start).max(given)
}
