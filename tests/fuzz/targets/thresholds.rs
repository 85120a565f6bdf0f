//! Flags of eviction: any text is parsed or refused with a reason, and no threshold is more than the capacity unless it
//! is given in units.
#![no_main]

use libfuzzer_sys::fuzz_target;
use podkeeper::testing::base::table::Table;
use podkeeper::testing::eviction::threshold::{
    Amount, Amounts, Options, grace_periods, reclaims, thresholds,
};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut parts = text.split('\n');
    let mut next = || parts.next().unwrap_or_default();
    let (mut hard, mut soft, mut reclaim) = (Amounts::new(), Amounts::new(), Amounts::new());
    let mut grace = Table::new();
    let results = [
        thresholds(next(), &mut hard),
        thresholds(next(), &mut soft),
        reclaims(next(), &mut reclaim),
        grace_periods(next(), &mut grace),
    ];
    for why in results.iter().filter_map(|result| result.as_ref().err()) {
        assert!(!why.is_empty());
    }
    for amount in hard.values().chain(soft.values()) {
        match amount {
            Amount::Part(part) => assert!(*part <= 100_000 && amount.of(u64::MAX) <= u64::MAX),
            Amount::Units(units) => assert!(*units > 0 && *units <= i64::MAX.unsigned_abs()),
        }
        assert!(matches!(amount, Amount::Units(_)) || amount.of(1000) <= 1000);
    }
    let options = Options { hard: Some(hard), soft, reclaim, soft_grace: grace, ..Options::default() };
    match options.settings() {
        Ok(settings) => {
            assert!(options.without_grace().is_none());
            assert!(settings.thresholds.len() >= options.soft.len());
        }
        Err(why) => assert!(options.without_grace().is_some() && why.contains("grace period"), "{why}"),
    }
});
