#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| weir_probe_fuzz::targets::hello::check(input));
