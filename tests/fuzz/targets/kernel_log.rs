//! Records of the kernel's log: programs choose their names, and any program may write there. Only the kernel's own
//! record is a kill, and it names a container by its whole id or not at all.
#![no_main]

use libfuzzer_sys::fuzz_target;
use podkeeper::testing::daemon::kmsg::parse;

fuzz_target!(|bytes: &[u8]| {
    let record = String::from_utf8_lossy(bytes);
    let Some(kill) = parse(&record) else { return };
    let line = record.lines().next().expect("there is a line");
    let priority =
        line.split([',', ';']).next().and_then(|number| number.parse::<u32>().ok()).expect("a priority");
    assert!(priority < 8, "a program wrote it: {line:?}");
    assert!(line.contains(";oom-kill:constraint="), "{line:?}");
    if let Some(id) = &kill.container {
        assert!(id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{id:?}");
    }
    assert!(line.contains(&kill.process), "{kill:?}");
    let mut numbers =
        line.split(",pid=").skip(1).filter_map(|rest| rest.split(',').next()?.parse::<u32>().ok());
    assert!(numbers.any(|pid| pid == kill.pid), "{kill:?}");
});
