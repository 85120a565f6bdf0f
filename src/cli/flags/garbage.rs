//! Flags: removal of images that nothing needs.

use std::time;

use super::Repeats::Adds;
use super::Takes::{Duration, List, Number};
use super::{Flag, InFile, RUN, Section, put, value};
use crate::base::duration;
use crate::garbage::images::Policy;
use crate::garbage::pins::Pin;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    /// Percent.
    pub image_high: i64,
    /// Percent.
    pub image_low: i64,
    pub image_min_age: time::Duration,
    /// Zero for never.
    pub image_max_age: time::Duration,
    pub pinned_images: Vec<Pin>,
}

impl Values {
    /// The policy of image collection.
    #[must_use]
    pub fn images(&self) -> Policy {
        let percent = |value: i64| u8::try_from(value).unwrap_or(100);
        Policy {
            high: percent(self.image_high),
            low: percent(self.image_low),
            min_age: self.image_min_age,
            max_age: self.image_max_age,
            pinned: self.pinned_images.clone(),
        }
    }
}

fn percent(value: i64) -> Option<String> {
    (!(0..=100).contains(&value)).then(|| format!("{value} must be between 0 and 100, inclusive"))
}

pub static SECTION: Section = Section {
    title: "Garbage",
    flags: &[
        Flag {
            name: "image-gc-high-threshold",
            field: "imageGCHighThresholdPercent",
            takes: Number("PERCENT", |o, percent| put(&mut o.garbage.image_high, Ok(percent))),
            default: "85",
            rule: |o| percent(o.garbage.image_high),
            ..RUN
        },
        Flag {
            name: "image-gc-low-threshold",
            field: "imageGCLowThresholdPercent",
            takes: Number("PERCENT", |o, percent| put(&mut o.garbage.image_low, Ok(percent))),
            default: "80",
            rule: |o| {
                let (low, high) = (o.garbage.image_low, o.garbage.image_high);
                let not_below = (low >= high).then(|| {
                    format!(
                        "{low} must be less than imageGCHighThresholdPercent (--image-gc-high-threshold) {high}"
                    )
                });
                percent(low).or(not_below)
            },
            ..RUN
        },
        Flag {
            name: "minimum-image-ttl-duration",
            field: "imageMinimumGCAge",
            takes: Duration(|o, age| o.garbage.image_min_age = age),
            default: "2m",
            ..RUN
        },
        Flag {
            name: "image-maximum-gc-age",
            field: "imageMaximumGCAge",
            takes: Duration(|o, age| o.garbage.image_max_age = age),
            default: "0s",
            rule: |o| {
                let (min, max) = (o.garbage.image_min_age, o.garbage.image_max_age);
                let bad = !max.is_zero() && max <= min;
                let text = duration::text;
                bad.then(|| format!("{} must be greater than imageMinimumGCAge {}", text(max), text(min)))
            },
            ..RUN
        },
        Flag {
            name: "pinned-images",
            takes: List("IMAGE,...", |o, text| {
                for word in value::words(text) {
                    o.garbage.pinned_images.push(Pin::parse(word)?);
                }
                Ok(())
            }),
            in_file: InFile::Once,
            repeats: Adds,
            ..RUN
        },
    ],
};

#[cfg(test)]
mod tests {
    use super::super::testing::{repeats_and_refuses, sets};
    use super::*;
    use crate::cli::flags::Options;

    #[test]
    fn each_flag_sets_its_value() {
        sets(
            &SECTION,
            &[
                ("image-gc-high-threshold", "90", |o| o.garbage.image_high == 90),
                ("image-gc-low-threshold", "70", |o| o.garbage.image_low == 70),
                ("minimum-image-ttl-duration", "3m", |o| o.garbage.image_min_age.as_secs() == 180),
                ("image-maximum-gc-age", "24h", |o| o.garbage.image_max_age.as_secs() == 86_400),
                ("pinned-images", "busybox,r.io/*", |o| {
                    let wanted: Result<Vec<Pin>, String> =
                        ["busybox", "r.io/*"].into_iter().map(Pin::parse).collect();
                    Ok(&o.garbage.pinned_images) == wanted.as_ref()
                }),
            ],
        );
    }

    #[test]
    fn each_flag_refuses_what_is_no_value_and_takes_a_second_as_its_entry_says() {
        repeats_and_refuses(
            &SECTION,
            &[
                ("image-gc-high-threshold", ["90", "91"], &["90%"]),
                ("image-gc-low-threshold", ["70", "71"], &["70%"]),
                ("pinned-images", ["busybox", "r.io/*"], &[]),
            ],
        );
    }

    #[test]
    fn the_defaults_are_the_kubelet_s() {
        assert_eq!(Options::defaults().unwrap().garbage.images(), Policy::default());
    }

    /// `TestValidateImageGCPolicy`, with the messages of the kubelet's validation.
    #[test]
    fn thresholds_are_percentages_and_the_low_one_is_below() {
        let check = |high: i64, low: i64, expected: &[&str]| {
            let mut o = Options::defaults().unwrap();
            (o.garbage.image_high, o.garbage.image_low) = (high, low);
            let told: Vec<String> = SECTION.flags.iter().filter_map(|flag| (flag.rule)(&o)).collect();
            assert_eq!(told, expected);
        };
        let range = "must be between 0 and 100, inclusive";
        let below = "must be less than imageGCHighThresholdPercent (--image-gc-high-threshold)";
        check(2, 1, &[]);
        check(100, 0, &[]);
        check(-1, 0, &[&format!("-1 {range}"), &format!("0 {below} -1")]);
        check(101, 80, &[&format!("101 {range}")]);
        check(85, -1, &[&format!("-1 {range}")]);
        check(85, 101, &[&format!("101 {range}")]);
        check(1, 2, &[&format!("2 {below} 1")]);
        check(2, 2, &[&format!("2 {below} 2")]);
    }

    #[test]
    fn the_maximum_age_is_above_the_minimum() {
        let mut o = Options::defaults().unwrap();
        o.garbage.image_max_age = time::Duration::from_secs(120);
        let told: Vec<String> = SECTION.flags.iter().filter_map(|flag| (flag.rule)(&o)).collect();
        assert_eq!(told, ["2m0s must be greater than imageMinimumGCAge 2m0s"]);
        o.garbage.image_max_age = time::Duration::from_secs(121);
        assert!(SECTION.flags.iter().all(|flag| (flag.rule)(&o).is_none()));
    }
}
