//! The part of a source's policy that the daemon publishes in its status, so that `podkeeper debug` judges an
//! added container as the daemon would. The values have the syntax of the flags; settings that an added
//! container cannot violate are left out.

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::{AllowedImage, LevelVersion, Policies, Refusal, SourcePolicy};
use crate::pod::Source;

/// The published part of a policy; see the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyView {
    /// `--pod-security`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_security: Option<String>,
    /// `--allowed-images`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_images: Option<Vec<String>>,
    /// `--require-image-digest`.
    #[serde(default)]
    pub require_image_digest: bool,
    /// `--allow-privileged`.
    #[serde(default)]
    pub allow_privileged: bool,
    /// The highest priority that counts; `None` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_priority: Option<i32>,
    /// Whether another source has a less strict level.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub behind: bool,
}

impl PolicyView {
    /// The published part of the policy of this source.
    #[must_use]
    pub fn of(policies: &Policies, source: Source) -> PolicyView {
        let policy = policies.of(source);
        let images = policy.allowed_images.as_ref();
        PolicyView {
            pod_security: policy.pod_security.as_ref().map(LevelVersion::to_string),
            allowed_images: images.map(|all| all.iter().map(AllowedImage::to_string).collect()),
            require_image_digest: policy.require_image_digest,
            allow_privileged: policy.allow_privileged,
            max_priority: Some(policies.max_priority(source)).filter(|most| *most < i32::MAX),
            behind: policies.is_behind(source),
        }
    }

    /// See [`SourcePolicy::is_held`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        let pod_security = self.pod_security.as_ref().and_then(|level| LevelVersion::parse(level).ok());
        SourcePolicy { pod_security, ..SourcePolicy::default() }.is_held()
    }

    /// All reasons against a pod of the source. Its host paths were checked when it was admitted.
    ///
    /// # Errors
    /// A value that this program does not know: the daemon has another version.
    pub fn refusals(&self, metadata: &ObjectMeta, spec: &PodSpec) -> Result<Vec<Refusal>, String> {
        let mut policy =
            SourcePolicy { require_image_digest: self.require_image_digest, ..SourcePolicy::default() };
        if let Some(level) = &self.pod_security {
            policy.pod_security = Some(LevelVersion::parse(level)?);
        }
        if let Some(images) = &self.allowed_images {
            policy.allowed_images =
                Some(images.iter().map(|text| AllowedImage::parse(text)).collect::<Result<_, _>>()?);
        }
        let mut refusals = policy.refusals(metadata, spec);
        let mut added = spec.ephemeral_containers.iter().flatten().enumerate();
        let privileged = |(_, c): &(usize, &k8s_openapi::api::core::v1::EphemeralContainer)| {
            c.security_context.as_ref().and_then(|s| s.privileged) == Some(true)
        };
        if let Some((at, container)) = added.find(privileged).filter(|_| !self.allow_privileged) {
            let message =
                format!("ephemeral container {:?} is privileged (--allow-privileged)", container.name);
            let field = format!("spec.ephemeralContainers[{at}].securityContext.privileged");
            refusals.push(Refusal { reason: "Forbidden".to_owned(), message, field });
        }
        Ok(refusals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_judges_as_the_policy_does() {
        let images = ["busybox", "ghcr.io/team/", "quay.io", "alpine:3", "a/b@sha256:"];
        let digest = "0".repeat(64);
        let images = images.map(|text| text.replace("sha256:", &format!("sha256:{digest}")));
        let policy = SourcePolicy {
            pod_security: Some(LevelVersion::parse("restricted:v1.30").unwrap()),
            allowed_images: Some(images.iter().map(|text| AllowedImage::parse(text).unwrap()).collect()),
            require_image_digest: true,
            ..SourcePolicy::default()
        };
        let told = PolicyView::of(&Policies::all(policy.clone()), Source::Http);
        assert_eq!(told.max_priority, Some(1_000_000_000));
        let told: PolicyView = serde_json::from_str(&serde_json::to_string(&told).unwrap()).unwrap();
        let again =
            told.allowed_images.as_ref().unwrap().iter().map(|text| AllowedImage::parse(text).unwrap());
        assert_eq!(again.collect::<Vec<_>>(), policy.allowed_images.clone().unwrap());
        let spec: PodSpec = serde_json::from_value(serde_json::json!({
            "containers": [{"name": "a", "image": "busybox"}],
            "ephemeralContainers": [
                {"name": "d", "image": "evil", "securityContext": {"privileged": true}},
            ],
        }))
        .unwrap();
        let metadata = ObjectMeta::default();
        let mut expected = policy.refusals(&metadata, &spec);
        assert_eq!(expected.len(), 3, "{expected:?}");
        let message = "ephemeral container \"d\" is privileged (--allow-privileged)".to_owned();
        let field = "spec.ephemeralContainers[0].securityContext.privileged".to_owned();
        expected.push(Refusal { reason: "Forbidden".into(), message, field });
        assert_eq!(told.refusals(&metadata, &spec), Ok(expected));
        let policy = SourcePolicy { pod_security: None, allow_privileged: true, ..policy };
        let of_http = PolicyView::of(&Policies::all(policy), Source::Http);
        assert_eq!(of_http.max_priority, None);
        assert_eq!(of_http.pod_security, None);
        assert_eq!(of_http.refusals(&metadata, &spec).unwrap().len(), 2, "images alone");
    }
}
