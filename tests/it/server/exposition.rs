//! Prometheus's text format, read strictly: `prometheus/docs/instrumenting/exposition_formats.md`, and everything
//! that its own parsers refuse or `promtool check metrics` cannot read. Where that program is on the machine, it
//! checks the page as well.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Samples by family: its name, and the labels (as written) and value of each sample. Fails for an invalid page.
pub fn samples(page: &str) -> BTreeMap<String, Vec<(String, f64)>> {
    let found = read(page).unwrap_or_else(|why| panic!("{why}"));
    ask_promtool(page);
    found
}

/// The same, with the first error.
fn read(page: &str) -> Result<BTreeMap<String, Vec<(String, f64)>>, String> {
    let mut found: BTreeMap<String, Vec<(String, f64)>> = BTreeMap::new();
    let (mut helped, mut typed) = (BTreeSet::new(), BTreeSet::new());
    let mut seen = BTreeSet::new();
    let mut family = String::new();
    if !page.is_empty() && !page.ends_with('\n') {
        return Err("the last line has no end".to_owned());
    }
    for line in page.lines() {
        let no = |why: &str| Err(format!("{why}: {line:?}"));
        if line.chars().any(|c| c == '\r' || c == '\u{feff}') || line.is_empty() {
            return no("a line that is none");
        }
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            if !is_name(name) || help.is_empty() || !helped.insert(name.to_owned()) {
                return no("help of nothing, or twice");
            }
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = rest.split_once(' ') else { return no("a type of nothing") };
            if !["counter", "gauge", "untyped"].contains(&kind) {
                return no("no kind that is told here");
            }
            if !helped.contains(name) || !typed.insert(name.to_owned()) {
                return no("a type before its help, or twice");
            }
            family = name.to_owned();
            continue;
        }
        if line.starts_with('#') {
            return no("a comment");
        }
        let (name, labels, value) = sample(line)?;
        if name != family {
            return no("a sample outside its family");
        }
        let mut sorted = labels.clone();
        sorted.sort();
        if !seen.insert((name.clone(), sorted.clone())) {
            return no("the same sample twice");
        }
        sorted.dedup_by(|a, b| a.0 == b.0);
        if sorted.len() != labels.len() {
            return no("a label twice");
        }
        if !value.is_finite() {
            return no("no number");
        }
        let text: Vec<String> = labels.iter().map(|(label, value)| format!("{label}={value:?}")).collect();
        found.entry(name).or_default().push((text.join(","), value));
    }
    Ok(found)
}

fn is_name(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    name.starts_with(is_first) && name.chars().all(|c| is_first(c) || c.is_ascii_digit())
}

type Sample = (String, Vec<(String, String)>, f64);

/// `name{label="value",…} value [milliseconds]`.
fn sample(line: &str) -> Result<Sample, String> {
    let no = |why: &str| format!("{why}: {line:?}");
    let end = line.find(['{', ' ']).ok_or_else(|| no("no value"))?;
    let (name, mut rest) = line.split_at(end);
    if !is_name(name) {
        return Err(no("no name"));
    }
    let mut labels = Vec::new();
    if let Some(more) = rest.strip_prefix('{') {
        rest = more;
        loop {
            let (label, more) = rest.split_once("=\"").ok_or_else(|| no("no label"))?;
            if !is_name(label) || label.contains(':') || label.starts_with("__") {
                return Err(no("no name of a label"));
            }
            let (value, more) = quoted(more).ok_or_else(|| no("no value of a label"))?;
            labels.push((label.to_owned(), value));
            match more.strip_prefix(',') {
                Some(more) => rest = more,
                None => {
                    rest = more.strip_prefix('}').ok_or_else(|| no("no end of the labels"))?;
                    break;
                }
            }
        }
    }
    let mut words = rest.strip_prefix(' ').ok_or_else(|| no("no space before the value"))?.split(' ');
    let value = words.next().and_then(|word| word.parse().ok()).ok_or_else(|| no("no value"))?;
    if words.next().is_some_and(|word| word.parse::<i64>().is_err()) || words.next().is_some() {
        return Err(no("no time"));
    }
    Ok((name.to_owned(), labels, value))
}

/// A value up to its closing quote, and the text behind that.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('"' | '\\') => c,
                _ => return None,
            }),
            c => value.push(c),
        }
    }
    None
}

/// Exit code 3 means names that promtool would choose differently: they are the kubelet's and cAdvisor's.
fn ask_promtool(page: &str) {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = promtool.spawn() else { return };
    let mut input = child.stdin.take().unwrap();
    let text = page.to_owned();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "promtool: {output:?}");
}

#[test]
fn what_is_wrong_with_a_page_is_found() {
    let head = "# HELP a What.\n# TYPE a gauge\n";
    let good = |text: &str| assert_eq!(read(&format!("{head}{text}")).err(), None, "{text}");
    let bad = |text: &str, why: &str| {
        let found = read(text).err().unwrap_or_else(|| panic!("good: {text}"));
        assert!(found.starts_with(why), "{text}: {found}");
    };
    good("a 1\na{x=\"1\"} 2\na{x=\"q\\\"\\\\ \\n\",y=\"}\"} -1.5e3 1700000000000\n");
    bad("a 1\n", "a sample outside its family");
    bad("# TYPE a gauge\na 1\n", "a type before its help");
    bad(&format!("{head}{head}"), "help of nothing, or twice");
    bad(&format!("{head}a 1\na 1\n"), "the same sample twice");
    bad(&format!("{head}a{{x=\"1\",y=\"2\"}} 1\na{{y=\"2\",x=\"1\"}} 1\n"), "the same sample twice");
    bad(&format!("{head}a{{x=\"1\",x=\"2\"}} 1\n"), "a label twice");
    bad(&format!("{head}a NaN\n"), "no number");
    bad(&format!("{head}a{{x=\"1}} 1\n"), "no value of a label");
    bad(&format!("{head}a{{x=\"\\t\"}} 1\n"), "no value of a label");
    bad(&format!("{head}a{{}} 1\n"), "no label");
    bad(&format!("{head}a 1 2.5\n"), "no time");
    bad(&format!("{head}a 1"), "the last line has no end");
    bad(&format!("{head}# HELP b B.\n# TYPE b gauge\na 1\n"), "a sample outside its family");
}
