//! `images`: lists all images of Docker, with the time since when each is unused and the reason why it is kept.

use crate::base::json::json;
use serde_json::Value;

use super::garbage::Known;
use crate::base::clock::Timestamp;
use crate::base::hex::short_ids;
use crate::base::human;
use crate::cli::flags::{Options, Output};
use crate::cli::show::json;
use crate::cli::show::table::List;
use crate::cli::show::yaml;
use crate::cli::{Outcome, print};
use crate::garbage::collector::{containers, images, name};
use crate::garbage::images::{Judged, Kept};
use crate::runtime::progress::bytes;

/// Lists the images.
pub fn run(options: &Options) -> Outcome {
    let known = Known::read(options)?;
    let all = images(&known.docker).map_err(|error| error.to_string())?;
    let containers = containers(&known.docker).map_err(|error| error.to_string())?;
    let judged = known.judge(all, &containers);
    Ok(print(&match &options.command.template {
        Some(template) => template.print(&object(&judged), options.command.no_headers)?,
        None => render(options, &judged, known.now),
    }))
}

const NONE: &str = "<none>";

/// The text for standard output.
fn render(options: &Options, judged: &[Judged], now: Timestamp) -> String {
    match options.command.output {
        Output::Table | Output::Wide => {
            let wide = options.command.output == Output::Wide;
            let rows: Vec<Vec<String>> = judged.iter().flat_map(|it| rows(it, wide, now)).collect();
            let headings = (!options.command.no_headers).then(|| headings(wide));
            List::default().render(headings, rows)
        }
        Output::Name => judged.iter().map(|it| format!("image/{}\n", name(&it.image))).collect(),
        Output::Json => format!("{}\n", json::emit(&object(judged))),
        Output::Yaml => yaml::emit(&object(judged)),
    }
}

fn headings(wide: bool) -> Vec<String> {
    let narrow = ["IMAGE", "TAG", "IMAGE ID", "SIZE", "CREATED", "UNUSED SINCE", "KEPT BECAUSE"];
    let more: &[&str] = if wide { &["DIGEST"] } else { &[] };
    narrow.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

/// A row for each name of an image, as in Docker's own list.
fn rows(judged: &Judged, wide: bool, now: Timestamp) -> Vec<Vec<String>> {
    let image = &judged.image;
    let ago = |then: i64| format!("{} ago", human::duration(now.as_second().saturating_sub(then)));
    let digest_of = |repository: &str| {
        let named = image.digests.iter().filter_map(|digest| digest.split_once('@'));
        named.filter(|(of, _)| *of == repository || repository == NONE).map(|(_, digest)| digest).next()
    };
    let row = |repository: &str, tag: &str| {
        let mut cells = vec![
            repository.to_owned(),
            tag.to_owned(),
            short_ids(image.id.strip_prefix("sha256:").unwrap_or(&image.id)),
            bytes(image.size),
            ago(image.created),
            unused_since(judged).map_or_else(|| unknown(judged), ago),
            judged.kept.as_ref().map_or_else(|| NONE.to_owned(), Kept::to_string),
        ];
        if wide {
            cells.push(digest_of(repository).unwrap_or(NONE).to_owned());
        }
        cells
    };
    if image.tags.is_empty() {
        let repository =
            image.digests.first().and_then(|digest| digest.split_once('@')).map(|(name, _)| name);
        return vec![row(repository.unwrap_or(NONE), NONE)];
    }
    let split = |name: &String| match name.rsplit_once(':') {
        Some((repository, tag)) => row(repository, tag),
        None => row(name, NONE),
    };
    image.tags.iter().map(split).collect()
}

/// Seconds of wall time; `None` while the image is used, and when the time is not known.
fn unused_since(judged: &Judged) -> Option<i64> {
    let used = matches!(judged.kept, Some(Kept::Used(_)));
    judged.record.filter(|record| !used && !record.in_use).map(|record| record.unused_wall)
}

fn unknown(judged: &Judged) -> String {
    if matches!(judged.kept, Some(Kept::Used(_))) { NONE } else { "<unknown>" }.to_owned()
}

fn object(judged: &[Judged]) -> Value {
    let time = |seconds: i64| Timestamp::from_second(seconds).ok().map(|time| time.to_string());
    let item = |it: &Judged| {
        json!({
            "id": it.image.id,
            "tags": it.image.tags,
            "digests": it.image.digests,
            "sizeBytes": it.image.size,
            "created": time(it.image.created),
            "unusedSince": unused_since(it).and_then(time),
            "keptBecause": it.kept.as_ref().map(Kept::to_string),
        })
    };
    let items: Vec<Value> = judged.iter().map(item).collect();
    json!({ "apiVersion": "podkeeper.dev/v1", "kind": "ImageList", "items": items })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cli::parse::{Command, parse};
    use crate::garbage::records::Record;
    use crate::runtime::ImageSummary;

    const NOW: i64 = 1_795_000_000;

    fn judged(n: u8, tags: &[&str], digests: &[&str], kept: Option<Kept>, record: bool) -> Judged {
        let record = record.then(|| Record {
            first: 1,
            used: 2,
            in_use: matches!(kept, Some(Kept::Used(_))),
            seen_up: Duration::ZERO,
            unused_up: Duration::ZERO,
            unused_wall: NOW - 3 * 3600 * i64::from(n),
        });
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        let image = ImageSummary {
            id: format!("sha256:{}", format!("{n:02x}").repeat(32)),
            parent: String::new(),
            tags: texts(tags),
            digests: texts(digests),
            size: 1_500_000 * u64::from(n),
            created: NOW - 86_400 * i64::from(n),
        };
        Judged { image, kept, record }
    }

    fn check(line: &str, golden: &str) {
        let options = match parse(line.split_whitespace().map(Into::into), &|_| Err("no file".to_owned())) {
            Ok(Command::Images(options)) => options,
            other => panic!("{line}: {other:?}"),
        };
        let digest = format!("r.io:5000/team/app@sha256:{}", "cd".repeat(32));
        let all = [
            judged(1, &["busybox:1.36", "r.io:5000/team/app:7"], &[&digest], None, true),
            judged(2, &[], &[&digest], None, true),
            judged(3, &[], &[], None, false),
            judged(4, &["web:1"], &[], Some(Kept::Used("pod default/web-n1".into())), true),
            judged(5, &["db:1"], &[], Some(Kept::Wanted("default/db-n1".into())), true),
            judged(6, &["podkeeper.dev/sandbox:0123456789ab"], &[], Some(Kept::Sandbox), false),
        ];
        let text = render(&options, &all, Timestamp::from_second(NOW).unwrap());
        crate::base::testing::golden(&format!("cli/{golden}.txt"), &text);
    }

    #[test]
    fn images_in_every_state() {
        check("images", "images");
        check("images -o wide", "images-wide");
        check("images -o name", "images-name");
        check("images -o json", "images-json");
        check("images -o yaml", "images-yaml");
        check("images --no-headers", "images-no-headers");
    }
}
