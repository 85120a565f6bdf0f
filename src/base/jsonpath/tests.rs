use serde_json::json;

use super::columns::Columns;
use super::*;

fn pods() -> Value {
    json!({"kind": "List", "items": [
        {"metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "web", "x": "y"}},
         "spec": {"containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "i:2"}]},
         "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "False"}],
                    "restarts": 3, "ok": true, "load": 0.5}},
        {"metadata": {"name": "b"}, "spec": {"containers": []}, "status": {"restarts": 0}},
    ]})
}

/// Output and error messages of kubectl 1.36 for the same objects.
#[test]
fn templates_print_what_kubectls_print() {
    for (template, expected) in [
        ("{.items[*].metadata.name}", "a b"),
        ("{$.items[*].metadata.name}", "a b"),
        ("{.items..name}", "a c d b"),
        ("{..image}", "i:1 i:2"),
        ("x{.kind}y", "xListy"),
        ("{.items[0].spec.containers[*]['name','image']}", "c i:1 d i:2"),
        ("{.items[-1].metadata.name}", "b"),
        ("{.items[0:1].metadata.name}", "a"),
        ("{.items[::2].metadata.name}", "a"),
        ("{.items[0,1].metadata.name}", "a b"),
        ("{.items[0].metadata.labels.app\\.kubernetes\\.io/name}", "web"),
        ("{.items[0].metadata.labels['app\\.kubernetes\\.io/name']}", "web"),
        ("{.items[0].metadata.labels}", "{\"app.kubernetes.io/name\":\"web\",\"x\":\"y\"}"),
        ("{.items[0].status.restarts}{\" \"}{.items[0].status.ok}{' '}{.items[0].status.load}", "3 true 0.5"),
        (
            "{range .items[*]}{.metadata.name}{\"\\t\"}{range .spec.containers[*]}{@.name},{end}{\"\\n\"}{end}",
            "a\tc,d,\nb\t\n",
        ),
        ("{.items[?(@.status.restarts>2)].metadata.name}", "a"),
        ("{.items[?(@.metadata.name!=\"a\")].metadata.name}", "b"),
        ("{.items[?(@.metadata.labels)].metadata.name}", "a"),
        ("{.items[0].status.conditions[?(@.type=='Ready')].status}", "True"),
        ("{.items[*].nothing.at.all}", ""),
        ("{.items[1].spec.containers[*].name}", ""),
        ("{.items[0].metadata.*}", "{\"app.kubernetes.io/name\":\"web\",\"x\":\"y\"} a"),
        ("plain", "plain"),
        ("{\"quoted {braces}\"}{1}{true}", "quoted {braces}1true"),
    ] {
        let printed = Template::parse(template).and_then(|template| template.render(&pods()));
        assert_eq!(printed.as_deref(), Ok(expected), "{template}");
    }
    assert_eq!(Template::parse("{.}").unwrap().render(&json!({"a": [1]})).unwrap(), "{\"a\":[1]}");
}

#[test]
fn what_is_wrong_is_told() {
    for (template, words) in [
        ("{.a", "unclosed action"),
        ("{range .items[*]}{.a}", "{end} is missing"),
        ("{.a}{end}", "nothing to end"),
        ("{.items[}", "invalid array index"),
        ("{.items[x]}", "invalid array index"),
        ("{\"a}", "unterminated quoted string"),
        ("{.a[?(@.b==)]}", "neither a path nor a value"),
        ("{hello}", "unrecognized identifier hello"),
        ("{)}", "unrecognized character"),
    ] {
        let why = Template::parse(template).unwrap_err();
        assert!(why.contains(words), "{template}: {why}");
    }
    for (template, words) in [
        ("{.items[5]}", "array index out of bounds: index 5, length 2"),
        ("{.items[-3]}", "array index out of bounds"),
        ("{.items[0:9]}", "array index out of bounds: index 8, length 2"),
        ("{.items[::0]}", "step must be > 0"),
        ("{.kind[0]}", "List is not array or slice"),
        ("{.items[?(@.metadata.name>1)]}", "incompatible types"),
    ] {
        let why = Template::parse(template).unwrap().render(&pods()).unwrap_err();
        assert!(why.contains(words), "{template}: {why}");
    }
}

#[test]
fn no_template_takes_long() {
    let mut deep = json!(1);
    for _ in 0..60 {
        deep = json!({"a": deep, "b": [1, 2, 3]});
    }
    let many = Template::parse(&format!("{{{}}}", "..*".repeat(40))).unwrap();
    assert!(many.render(&deep).unwrap_err().contains("steps"));
    assert!(Template::parse(&"{range .a[*]}".repeat(100)).is_err());
    assert!(Template::parse(&format!("{{{}}}", ".a".repeat(10_000))).is_err());
    assert!(Template::parse(&format!("{{.a{}", "[?(@.a".repeat(1000))).is_err());
}

#[test]
fn columns_are_those_of_kubectl() {
    let columns = Columns::parse(
        "NAME:.metadata.name,IMAGES:.spec.containers[*].image,LABELS:{.metadata.labels},R:status.restarts",
    );
    let columns = columns.unwrap();
    assert_eq!(columns.headings(), ["NAME", "IMAGES", "LABELS", "R"]);
    let cells = |at: usize| columns.cells(&pods()["items"][at]).unwrap();
    assert_eq!(cells(0), ["a", "i:1,i:2", "map[app.kubernetes.io/name:web x:y]", "3"]);
    assert_eq!(cells(1), ["b", "<none>", "<none>", "0"]);
    for (spec, words) in [
        ("", "no custom columns given"),
        ("NAME", "expected <header>:<json-path-expr>"),
        ("A:{.a", "unexpected path string"),
        ("A:.a b", "unexpected \" b\" in a path"),
    ] {
        let why = Columns::parse(spec).unwrap_err();
        assert!(why.contains(words), "{spec}: {why}");
    }
}
