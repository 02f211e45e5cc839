#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rxlane_decoders::decode("engine", bytes));
