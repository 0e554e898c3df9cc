//! Memory of large tables: reserved in one piece, committed page by page, in huge pages once it is large.

use aligned_vec::{AVec, ConstAlign};

/// Octets at the start of a table that stay in small pages, so that an idle agent needs little.
const SMALL: usize = 2 << 20;

/// A vector aligned to a cache line: 64 octets on all supported processors.
pub type Lines<T> = AVec<T, ConstAlign<64>>;

/// An empty vector that holds `capacity` elements without reallocating.
pub fn reserve<T>(capacity: usize) -> Vec<T> {
    let vector = Vec::with_capacity(capacity);
    advise_huge(vector.as_ptr(), vector.capacity());
    vector
}

/// As [`reserve`], aligned so that an element of 64 octets occupies one cache line.
pub fn reserve_lines<T>(capacity: usize) -> Lines<T> {
    let vector = Lines::with_capacity(64, capacity);
    advise_huge(vector.as_ptr(), vector.capacity());
    vector
}

/// Puts an element where one is free, else at the end; returns its number.
pub fn place<T>(elements: &mut Vec<T>, free: &mut Vec<u32>, element: T) -> u32 {
    match free.pop() {
        Some(number) => {
            elements[number as usize] = element;
            number
        }
        None => {
            elements.push(element);
            (elements.len() - 1) as u32
        }
    }
}

/// Requests huge pages for a vector's memory except its beginning: a randomly accessed table otherwise spends its time
/// on page faults and address translation. Only a hint: errors are ignored.
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

/// Tables up to this size never return memory.
const LARGE: usize = 32 << 20;

/// Returns the memory of a large vector's first `passed` elements to the system, except `given` octets that were
/// returned before; returns the new number of octets. Those elements become invalid: write them before reading them.
pub fn give_back<T: Copy>(vector: &mut Vec<T>, passed: usize, given: usize) -> usize {
    let octets = passed.min(vector.len()) * size_of::<T>();
    if vector.len() * size_of::<T>() <= LARGE || octets < given + SMALL {
        return given;
    }
    let start = vector.as_mut_ptr() as usize;
    // Whole huge pages only: the kernel would have to split one to free a part of it.
    let (from, to) = ((start + given).next_multiple_of(SMALL), (start + octets) & !(SMALL - 1));
    if from < to {
        // SAFETY: the range lies within the vector's own allocation, which is private memory: its pages read as zeros
        // from now on, and any octets are a `T` as far as its owner reads them again.
        unsafe { libc::madvise(from as *mut libc::c_void, to - from, libc::MADV_DONTNEED) };
    }
    to.saturating_sub(start).max(given)
}
