use super::*;
use crate::mapping::tests::pod;

/// `spec.securityContext` and the container's own.
fn of(whole: &str, own: &str) -> DesiredPod {
    pod(&format!(
        r#"{{"metadata":{{"name":"web","namespace":"shop","uid":"u1"}},"spec":{{"securityContext":{whole},
            "containers":[{{"name":"main","image":"i","securityContext":{own}}}]}}}}"#
    ))
}

#[test]
fn users() {
    let check = |whole: &str, own: &str, image: Option<&str>, expected: User| {
        let pod = of(whole, own);
        let got = user(&pod, &pod.spec.containers[0], image);
        assert_eq!(got, expected, "{whole} {own} {image:?}");
    };
    let is = |text: &str| User::Is(Some(text.to_owned()));
    let refused = |text: &str| User::Refused(text.to_owned());
    let root =
        refused("container's runAsUser breaks non-root policy (pod: \"web_shop(u1)\", container: main)");
    check("{}", "{}", None, User::Is(None));
    check(r#"{"runAsUser":1000}"#, "{}", None, is("1000"));
    check(r#"{"runAsUser":1000}"#, r#"{"runAsUser":0}"#, None, is("0"));
    check(r#"{"runAsUser":1000,"runAsGroup":3000}"#, "{}", None, is("1000:3000"));
    check(r#"{"runAsUser":1000,"runAsGroup":3000}"#, r#"{"runAsGroup":0}"#, None, is("1000:0"));
    // The pod's user with the container's runAsNonRoot, and the other way round.
    check(r#"{"runAsUser":0}"#, r#"{"runAsNonRoot":true}"#, None, root.clone());
    check(r#"{"runAsNonRoot":true}"#, r#"{"runAsUser":0}"#, None, root);
    check(r#"{"runAsNonRoot":true}"#, r#"{"runAsUser":5}"#, None, is("5"));
    check(r#"{"runAsNonRoot":true}"#, r#"{"runAsUser":0,"runAsNonRoot":false}"#, None, is("0"));
    // The image's user decides.
    check(r#"{"runAsNonRoot":true}"#, "{}", None, User::AsksImage);
    check(r#"{"runAsNonRoot":true}"#, "{}", Some("1000"), User::Is(None));
    check(r#"{"runAsNonRoot":true}"#, "{}", Some("1000:root"), User::Is(None));
    let image_root = refused(
        "container has runAsNonRoot and image will run as root (pod: \"web_shop(u1)\", container: main)",
    );
    for image in ["", "0", "0:0", ":5", "00"] {
        check(r#"{"runAsNonRoot":true}"#, "{}", Some(image), image_root.clone());
    }
    let named = refused(
        "container has runAsNonRoot and image has non-numeric user (nobody), cannot verify user is non-root \
         (pod: \"web_shop(u1)\", container: main)",
    );
    check(r#"{"runAsNonRoot":true}"#, "{}", Some("nobody:nogroup"), named);
    // A group alone is combined with the image's user.
    check(r#"{"runAsGroup":7}"#, "{}", None, User::AsksImage);
    check(r#"{"runAsGroup":7}"#, "{}", Some(""), is("0:7"));
    check(r#"{"runAsGroup":7}"#, "{}", Some("nobody:nogroup"), is("nobody:7"));
    check(r#"{"runAsGroup":7,"runAsNonRoot":true}"#, "{}", Some("9"), is("9:7"));
}

#[test]
fn app_armor_is_needed() {
    let check = |annotations: &str, whole: &str, own: &str, expected: bool| {
        let mut pod = of(whole, own);
        pod.metadata.annotations = serde_json::from_str(annotations).unwrap();
        assert_eq!(needs_app_armor(&pod), expected, "{annotations} {whole} {own}");
    };
    check("{}", "{}", "{}", false);
    check("{}", r#"{"appArmorProfile":{"type":"Unconfined"}}"#, "{}", false);
    check("{}", r#"{"appArmorProfile":{"type":"RuntimeDefault"}}"#, "{}", true);
    let unconfined = r#"{"appArmorProfile":{"type":"Unconfined"}}"#;
    check("{}", r#"{"appArmorProfile":{"type":"RuntimeDefault"}}"#, unconfined, false);
    let key = format!("{APPARMOR}main");
    check(&format!(r#"{{"{key}":"localhost/mine"}}"#), "{}", "{}", true);
    check(&format!(r#"{{"{key}":"unconfined"}}"#), "{}", "{}", false);
    check(&format!(r#"{{"{APPARMOR}other":"localhost/mine"}}"#), "{}", "{}", false);
}
