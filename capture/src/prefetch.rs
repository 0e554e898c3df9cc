//! Hints to the processor about memory that will be needed soon.

/// Prefetches a value that will be needed soon.
#[inline]
pub fn prefetch<T>(of: &T) {
    let at = std::ptr::from_ref(of).cast::<u8>();
    prefetch_octets(at);
    if size_of::<T>() > 16 {
        prefetch_octets(at.wrapping_add(size_of::<T>() - 1));
    }
}

/// Prefetches the memory around an address.
#[inline]
pub fn prefetch_octets(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching is a hint and touches nothing, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
