//! The cases: a field, a value, and the rest of the pod (fields with their values). `c.` stands for
//! `spec.containers[*].`, and such a case holds for a sidecar too. A value that begins with `!` must be
//! refused: for a field with only one good value, that is its effect.

/// Field, value, base.
pub(super) struct Case(pub &'static str, pub &'static str, pub &'static str);

const fn case(field: &'static str, value: &'static str) -> Case {
    Case(field, value, "")
}

/// Objects that pods here may refer to.
pub(super) const OBJECTS: &str = "\
{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: '1', b: '2'}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: d}, data: {a: '3'}}
---
{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {a: '4', b: '5'}}
---
{apiVersion: v1, kind: Secret, metadata: {name: t}, stringData: {a: '6'}}
---
{apiVersion: v1, kind: Secret, metadata: {name: p}, type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: '{\"auths\": {\"docker.io\": {\"username\": \"u\", \"password\": \"p\"}}}'}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}
";

/// Cases of containers that do not apply to sidecars.
pub(super) const NOT_OF_SIDECARS: &[&str] = &[
    "c.restartPolicy",
    "c.restartPolicyRules[*].action",
    "c.restartPolicyRules[*].exitCodes.operator",
    "c.restartPolicyRules[*].exitCodes.values",
];

/// A `tcpSocket` hook always fails, whatever its host and port, as upstream.
pub(super) const WITHOUT_MEANING: &[&str] = &[
    "spec.containers[*].lifecycle.postStart.tcpSocket.host",
    "spec.containers[*].lifecycle.postStart.tcpSocket.port",
    "spec.containers[*].lifecycle.preStop.tcpSocket.host",
    "spec.containers[*].lifecycle.preStop.tcpSocket.port",
];

pub(super) const PROBES: &[&str] = &["livenessProbe", "readinessProbe", "startupProbe"];
pub(super) const HOOKS: &[&str] = &["postStart", "preStop"];

/// Cases of each probe, whose path replaces `$`.
#[rustfmt::skip]
pub(super) const PROBE: &[Case] = &[
    Case("c.$.exec.command", "[b]", "{c.$.exec.command: [a]}"),
    Case("c.$.grpc.port", "1", "{c.$.grpc: {port: 2}}"),
    Case("c.$.grpc.service", "a", "{c.$.grpc: {port: 2}}"),
    Case("c.$.grpc.mode", "TLS", "{c.$.grpc: {port: 2}}"),
    Case("c.$.httpGet.host", "a", "{c.$.httpGet: {port: 2}}"),
    Case("c.$.httpGet.port", "3", "{c.$.httpGet: {port: 2}}"),
    Case("c.$.httpGet.path", "/a", "{c.$.httpGet: {port: 2}}"),
    Case("c.$.httpGet.scheme", "HTTPS", "{c.$.httpGet: {port: 2}}"),
    Case("c.$.httpGet.protocol", "HTTP2", "{c.$.httpGet: {port: 2}}"),
    Case("c.$.httpGet.httpHeaders[*].name", "b", "{c.$.httpGet: {port: 2, httpHeaders: [{name: a, value: x}]}}"),
    Case("c.$.httpGet.httpHeaders[*].value", "other", "{c.$.httpGet: {port: 2, httpHeaders: [{name: a, value: x}]}}"),
    Case("c.$.tcpSocket.host", "a", "{c.$.tcpSocket: {port: 2}}"),
    Case("c.$.tcpSocket.port", "3", "{c.$.tcpSocket: {port: 2}}"),
    Case("c.$.initialDelaySeconds", "7", "{c.$.exec.command: [a]}"),
    Case("c.$.periodSeconds", "7", "{c.$.exec.command: [a]}"),
    Case("c.$.timeoutSeconds", "7", "{c.$.exec.command: [a]}"),
    Case("c.$.failureThreshold", "7", "{c.$.exec.command: [a]}"),
];

/// Cases of each hook.
#[rustfmt::skip]
pub(super) const HOOK: &[Case] = &[
    Case("c.lifecycle.$.exec.command", "[b]", "{c.lifecycle.$.exec.command: [a]}"),
    Case("c.lifecycle.$.httpGet.host", "a", "{c.lifecycle.$.httpGet: {port: 2}}"),
    Case("c.lifecycle.$.httpGet.port", "3", "{c.lifecycle.$.httpGet: {port: 2}}"),
    Case("c.lifecycle.$.httpGet.path", "/a", "{c.lifecycle.$.httpGet: {port: 2}}"),
    Case("c.lifecycle.$.httpGet.scheme", "HTTPS", "{c.lifecycle.$.httpGet: {port: 2}}"),
    Case("c.lifecycle.$.httpGet.protocol", "HTTP2", "{c.lifecycle.$.httpGet: {port: 2}}"),
    Case("c.lifecycle.$.httpGet.httpHeaders[*].name", "b", "{c.lifecycle.$.httpGet: {port: 2, httpHeaders: [{name: a, value: x}]}}"),
    Case("c.lifecycle.$.httpGet.httpHeaders[*].value", "other", "{c.lifecycle.$.httpGet: {port: 2, httpHeaders: [{name: a, value: x}]}}"),
    Case("c.lifecycle.$.tcpSocket", "{port: 2}", "{c.lifecycle.$.exec.command: [a]}"),
    Case("c.lifecycle.$.sleep.seconds", "3", "{c.lifecycle.$.sleep: {seconds: 2}}"),
];

const V: &str = "{spec.volumes: [{name: v, emptyDir: {}}], c.volumeMounts: [{name: v, mountPath: /v}]}";
const CONFIG: &str = "{spec.volumes: [{name: v, configMap: {name: c, items: [{key: a, path: f}]}}], c.volumeMounts: [{name: v, mountPath: /v}]}";
const SECRET: &str = "{spec.volumes: [{name: v, secret: {secretName: s, items: [{key: a, path: f}]}}], c.volumeMounts: [{name: v, mountPath: /v}]}";
const FIELDS: &str = "{spec.volumes: [{name: v, downwardAPI: {items: [{path: f, fieldRef: {fieldPath: metadata.name}}]}}], c.volumeMounts: [{name: v, mountPath: /v}]}";
const SIZES: &str = "{c.resources.limits: {cpu: 1, memory: 64Mi}, spec.volumes: [{name: v, downwardAPI: {items: [{path: f, resourceFieldRef: {containerName: app, resource: limits.cpu}}]}}], spec.containers: [{name: app, image: busybox, resources: {limits: {cpu: 1, memory: 64Mi}}}, {name: b, image: busybox, resources: {limits: {cpu: 2}}}], c.volumeMounts: [{name: v, mountPath: /v}]}";
const P_CONFIG: &str = "{spec.volumes: [{name: v, projected: {sources: [{configMap: {name: c, items: [{key: a, path: f}]}}]}}], c.volumeMounts: [{name: v, mountPath: /v}]}";
const P_SECRET: &str = "{spec.volumes: [{name: v, projected: {sources: [{secret: {name: s, items: [{key: a, path: f}]}}]}}], c.volumeMounts: [{name: v, mountPath: /v}]}";
const P_FIELDS: &str = "{spec.volumes: [{name: v, projected: {sources: [{downwardAPI: {items: [{path: f, fieldRef: {fieldPath: metadata.name}}]}}]}}], c.volumeMounts: [{name: v, mountPath: /v}]}";
const P_SIZES: &str = "{spec.volumes: [{name: v, projected: {sources: [{downwardAPI: {items: [{path: f, resourceFieldRef: {containerName: app, resource: limits.cpu}}]}}]}}], spec.containers: [{name: app, image: busybox, resources: {limits: {cpu: 1, memory: 64Mi}}}, {name: b, image: busybox, resources: {limits: {cpu: 2}}}], c.volumeMounts: [{name: v, mountPath: /v}]}";
const CLAIM: &str = "{spec.volumes: [{name: v, persistentVolumeClaim: {claimName: c}}], c.volumeMounts: [{name: v, mountPath: /v}]}";
const NFS: &str =
    "{spec.volumes: [{name: v, nfs: {server: a, path: /b}}], c.volumeMounts: [{name: v, mountPath: /v}]}";
const PORT: &str = "{c.ports: [{containerPort: 80, hostPort: 8081}]}";
const LIMITS: &str = "{c.resources: {limits: {cpu: 1, memory: 64Mi}, requests: {cpu: 1, memory: 64Mi}}}";
const REF: &str = "{c.env: [{name: A, valueFrom: {configMapKeyRef: {name: c, key: a}}}]}";
const SECRET_REF: &str = "{c.env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: a}}}]}";
const FIELD: &str = "{c.env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}";
const SIZE: &str = "{spec.containers: [{name: app, image: busybox, resources: {limits: {cpu: 1, memory: 64Mi}}}, {name: b, image: busybox, resources: {limits: {cpu: 2}}}], c.env: [{name: A, valueFrom: {resourceFieldRef: {containerName: app, resource: limits.cpu}}}]}";
const RULES: &str = "{c.restartPolicy: Never, spec.restartPolicy: Never, c.restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]}";
const NODES: &str = "{spec.affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [flash]}]}]}}}}";
const NODE_NAMES: &str = "{spec.affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [node]}]}]}}}}";
const DNS: &str =
    "{spec.dnsPolicy: None, spec.dnsConfig: {nameservers: [192.0.2.1], options: [{name: a, value: x}]}}";

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    case("apiVersion", "!v2"),
    case("kind", "!Nothing"),
    case("status", "{phase: Failed}"),
    case("metadata.annotations", "{podkeeper.dev/after: zzz}"),
    case("metadata.annotations.kubernetes.io/egress-bandwidth", "{kubernetes.io/egress-bandwidth: 10M}"),
    case("metadata.annotations.kubernetes.io/ingress-bandwidth", "{kubernetes.io/ingress-bandwidth: 10M}"),
    case("metadata.annotations.podkeeper.dev/after", "{podkeeper.dev/after: zzz}"),
    Case("metadata.annotations.podkeeper.dev/after-timeout", "{podkeeper.dev/after-timeout: 7m}", "{metadata.annotations: {podkeeper.dev/after: zzz}}"),
    case("metadata.annotations.podkeeper.dev/device", "{podkeeper.dev/device: /dev/null}"),
    Case("metadata.creationTimestamp", "2021-01-01T00:00:00Z", "{c.ports: [{containerPort: 80, hostPort: 8080}]}"),
    case("metadata.deletionGracePeriodSeconds", "5"),
    case("metadata.deletionTimestamp", "2020-01-01T00:00:00Z"),
    case("metadata.finalizers", "[a.b/c]"),
    case("metadata.generateName", "x-"),
    case("metadata.generation", "7"),
    case("metadata.labels", "{a: b}"),
    case("metadata.managedFields", "[{manager: kubectl, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {}}]"),
    case("metadata.name", "other"),
    case("metadata.namespace", "other"),
    case("metadata.ownerReferences", "[{apiVersion: v1, kind: Node, name: node1, uid: u}]"),
    case("metadata.resourceVersion", "'7'"),
    case("metadata.selfLink", "/a"),
    case("metadata.uid", "u-2"),
    case("spec.activeDeadlineSeconds", "3"),
    case("spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution", "[{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]"),
    Case("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[*].matchExpressions[*].key", "none", NODES),
    Case("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[*].matchExpressions[*].operator", "NotIn", NODES),
    Case("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[*].matchExpressions[*].values", "[none]", NODES),
    Case("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[*].matchFields[*].key", "!metadata.uid", NODE_NAMES),
    Case("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[*].matchFields[*].operator", "NotIn", NODE_NAMES),
    Case("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[*].matchFields[*].values", "[another]", NODE_NAMES),
    case("spec.affinity.podAffinity", "{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, labelSelector: {matchLabels: {a: b}}}]}"),
    case("spec.affinity.podAntiAffinity", "{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, labelSelector: {matchLabels: {a: b}}}]}"),
    case("spec.automountServiceAccountToken", "true"),
    Case("spec.dnsConfig.nameservers", "[192.0.2.7]", DNS),
    Case("spec.dnsConfig.options[*].name", "b", DNS),
    Case("spec.dnsConfig.options[*].value", "other", DNS),
    Case("spec.dnsConfig.searches", "[a.b]", DNS),
    Case("spec.dnsPolicy", "Default", "{spec.dnsConfig: {nameservers: [192.0.2.1]}, spec.dnsPolicy: None}"),
    case("spec.enableServiceLinks", "true"),
    case("spec.ephemeralContainers", "[{name: e, image: busybox}]"),
    case("spec.evictionResponders", "[{name: a.b/c}]"),
    Case("spec.hostAliases[*].hostnames", "[b]", "{spec.hostAliases: [{ip: 192.0.2.1, hostnames: [a]}]}"),
    Case("spec.hostAliases[*].ip", "192.0.2.2", "{spec.hostAliases: [{ip: 192.0.2.1, hostnames: [a]}]}"),
    case("spec.hostIPC", "true"),
    case("spec.hostNetwork", "true"),
    case("spec.hostPID", "true"),
    case("spec.hostUsers", "false"),
    case("spec.hostname", "h"),
    case("spec.hostnameOverride", "h"),
    case("spec.imagePullSecrets[*].name", "p"),
    case("spec.initContainers", "[{name: i, image: busybox}]"),
    case("spec.nodeName", "another"),
    case("spec.nodeSelector", "{disk: none}"),
    case("spec.os.name", "!windows"),
    case("spec.overhead", "{cpu: 1}"),
    case("spec.preemptionPolicy", "Never"),
    case("spec.priority", "200"),
    case("spec.priorityClassName", "system-node-critical"),
    case("spec.readinessGates[*].conditionType", "a.b/c"),
    case("spec.resourceClaims", "[{name: a, resourceClaimName: b}]"),
    case("spec.resources.limits", "{cpu: 1}"),
    case("spec.resources.requests", "{cpu: 1}"),
    case("spec.resources.claims", "[{name: a}]"),
    case("spec.restartPolicy", "Never"),
    case("spec.runtimeClassName", "a"),
    case("spec.schedulerName", "a"),
    case("spec.schedulingGates", "[{name: a.b/c}]"),
    case("spec.schedulingGroup", "{podGroupName: a}"),
    case("spec.securityContext.appArmorProfile.type", "Unconfined"),
    Case("spec.securityContext.appArmorProfile.localhostProfile", "b", "{spec.securityContext.appArmorProfile: {type: Localhost, localhostProfile: a}}"),
    Case("spec.securityContext.fsGroup", "3000", V),
    Case("spec.securityContext.fsGroupChangePolicy", "OnRootMismatch", "{spec.securityContext.fsGroup: 2000, spec.volumes: [{name: v, persistentVolumeClaim: {claimName: c}}], c.volumeMounts: [{name: v, mountPath: /v}]}"),
    Case("spec.securityContext.runAsGroup", "7", "{spec.securityContext.runAsUser: 6}"),
    case("spec.securityContext.runAsNonRoot", "true"),
    case("spec.securityContext.runAsUser", "7"),
    Case("spec.securityContext.seLinuxOptions.level", "b", "{spec.securityContext.seLinuxOptions: {level: a}}"),
    case("spec.securityContext.seLinuxOptions.role", "b"),
    case("spec.securityContext.seLinuxOptions.type", "b"),
    case("spec.securityContext.seLinuxOptions.user", "b"),
    case("spec.securityContext.seccompProfile.type", "Unconfined"),
    Case("spec.securityContext.seccompProfile.localhostProfile", "b", "{spec.securityContext.seccompProfile: {type: Localhost, localhostProfile: a}}"),
    case("spec.securityContext.supplementalGroups", "[7]"),
    Case("spec.securityContext.sysctls[*].name", "net.ipv4.ip_local_port_range", "{spec.securityContext.sysctls: [{name: net.ipv4.tcp_syncookies, value: '1'}]}"),
    Case("spec.securityContext.sysctls[*].value", "'0'", "{spec.securityContext.sysctls: [{name: net.ipv4.tcp_syncookies, value: '1'}]}"),
    case("spec.securityContext.seLinuxChangePolicy", "Recursive"),
    case("spec.securityContext.supplementalGroupsPolicy", "Strict"),
    case("spec.securityContext.windowsOptions", "{runAsUserName: a}"),
    case("spec.serviceAccount", "a"),
    case("spec.serviceAccountName", "a"),
    Case("spec.setHostnameAsFQDN", "true", "{spec.subdomain: a}"),
    case("spec.shareProcessNamespace", "true"),
    case("spec.subdomain", "a"),
    case("spec.terminationGracePeriodSeconds", "3"),
    case("spec.tolerations", "[{key: a, operator: Exists}]"),
    case("spec.topologySpreadConstraints", "[{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]"),
    Case("spec.volumes[*].awsElasticBlockStore", "{volumeID: a}", V),
    Case("spec.volumes[*].azureDisk", "{diskName: a, diskURI: b}", V),
    Case("spec.volumes[*].azureFile", "{secretName: a, shareName: b}", V),
    Case("spec.volumes[*].cephfs", "{monitors: [a]}", V),
    Case("spec.volumes[*].cinder", "{volumeID: a}", V),
    Case("spec.volumes[*].configMap.defaultMode", "256", CONFIG),
    Case("spec.volumes[*].configMap.defaultUser", "7", CONFIG),
    Case("spec.volumes[*].configMap.items[*].key", "b", CONFIG),
    Case("spec.volumes[*].configMap.items[*].mode", "256", CONFIG),
    Case("spec.volumes[*].configMap.items[*].path", "g", CONFIG),
    Case("spec.volumes[*].configMap.items[*].user", "7", CONFIG),
    Case("spec.volumes[*].configMap.name", "d", CONFIG),
    Case("spec.volumes[*].configMap.optional", "true", "{spec.volumes: [{name: v, configMap: {name: none}}], c.volumeMounts: [{name: v, mountPath: /v}]}"),
    Case("spec.volumes[*].csi", "{driver: a.b}", V),
    Case("spec.volumes[*].downwardAPI.defaultMode", "256", FIELDS),
    Case("spec.volumes[*].downwardAPI.defaultUser", "7", FIELDS),
    Case("spec.volumes[*].downwardAPI.items[*].fieldRef.apiVersion", "!v2", FIELDS),
    Case("spec.volumes[*].downwardAPI.items[*].fieldRef.fieldPath", "metadata.uid", FIELDS),
    Case("spec.volumes[*].downwardAPI.items[*].mode", "256", FIELDS),
    Case("spec.volumes[*].downwardAPI.items[*].path", "g", FIELDS),
    Case("spec.volumes[*].downwardAPI.items[*].resourceFieldRef.containerName", "b", SIZES),
    Case("spec.volumes[*].downwardAPI.items[*].resourceFieldRef.divisor", "1m", SIZES),
    Case("spec.volumes[*].downwardAPI.items[*].resourceFieldRef.resource", "limits.memory", SIZES),
    Case("spec.volumes[*].downwardAPI.items[*].user", "7", FIELDS),
    Case("spec.volumes[*].emptyDir.medium", "Memory", V),
    Case("spec.volumes[*].emptyDir.mode", "448", V),
    Case("spec.volumes[*].emptyDir.sizeLimit", "1Mi", "{spec.volumes: [{name: v, emptyDir: {medium: Memory}}], c.volumeMounts: [{name: v, mountPath: /v}]}"),
    Case("spec.volumes[*].ephemeral", "{volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}}", V),
    Case("spec.volumes[*].fc", "{wwids: [a]}", V),
    Case("spec.volumes[*].flexVolume", "{driver: a/b}", V),
    Case("spec.volumes[*].flocker", "{datasetName: a}", V),
    Case("spec.volumes[*].gcePersistentDisk", "{pdName: a}", V),
    Case("spec.volumes[*].gitRepo", "{repository: a}", V),
    Case("spec.volumes[*].glusterfs", "{endpoints: a, path: b}", V),
    Case("spec.volumes[*].hostPath.path", "/usr", "{spec.volumes: [{name: v, hostPath: {path: /bin}}], c.volumeMounts: [{name: v, mountPath: /v}]}"),
    Case("spec.volumes[*].hostPath.type", "File", "{spec.volumes: [{name: v, hostPath: {path: /usr}}], c.volumeMounts: [{name: v, mountPath: /v}]}"),
    Case("spec.volumes[*].image", "{reference: a}", V),
    Case("spec.volumes[*].iscsi", "{targetPortal: a, iqn: 'iqn.2001-04.com.example:a', lun: 0}", V),
    Case("spec.volumes[*].name", "!w", V),
    Case("spec.volumes[*].nfs.path", "/c", NFS),
    Case("spec.volumes[*].nfs.readOnly", "true", NFS),
    Case("spec.volumes[*].nfs.server", "c", NFS),
    Case("spec.volumes[*].persistentVolumeClaim.claimName", "d", CLAIM),
    Case("spec.volumes[*].persistentVolumeClaim.readOnly", "true", CLAIM),
    Case("spec.volumes[*].photonPersistentDisk", "{pdID: a}", V),
    Case("spec.volumes[*].portworxVolume", "{volumeID: a}", V),
    Case("spec.volumes[*].projected.defaultMode", "256", P_CONFIG),
    Case("spec.volumes[*].projected.defaultUser", "7", P_CONFIG),
    Case("spec.volumes[*].projected.sources[*].clusterTrustBundle", "{name: a, path: b}", P_CONFIG),
    Case("spec.volumes[*].projected.sources[*].configMap.items[*].key", "b", P_CONFIG),
    Case("spec.volumes[*].projected.sources[*].configMap.items[*].mode", "256", P_CONFIG),
    Case("spec.volumes[*].projected.sources[*].configMap.items[*].path", "g", P_CONFIG),
    Case("spec.volumes[*].projected.sources[*].configMap.items[*].user", "7", P_CONFIG),
    Case("spec.volumes[*].projected.sources[*].configMap.name", "d", P_CONFIG),
    Case("spec.volumes[*].projected.sources[*].configMap.optional", "true", "{spec.volumes: [{name: v, projected: {sources: [{configMap: {name: none}}]}}], c.volumeMounts: [{name: v, mountPath: /v}]}"),
    Case("spec.volumes[*].projected.sources[*].downwardAPI.items[*].fieldRef.apiVersion", "!v2", P_FIELDS),
    Case("spec.volumes[*].projected.sources[*].downwardAPI.items[*].fieldRef.fieldPath", "metadata.uid", P_FIELDS),
    Case("spec.volumes[*].projected.sources[*].downwardAPI.items[*].mode", "256", P_FIELDS),
    Case("spec.volumes[*].projected.sources[*].downwardAPI.items[*].path", "g", P_FIELDS),
    Case("spec.volumes[*].projected.sources[*].downwardAPI.items[*].resourceFieldRef.containerName", "b", P_SIZES),
    Case("spec.volumes[*].projected.sources[*].downwardAPI.items[*].resourceFieldRef.divisor", "1m", P_SIZES),
    Case("spec.volumes[*].projected.sources[*].downwardAPI.items[*].resourceFieldRef.resource", "limits.memory", P_SIZES),
    Case("spec.volumes[*].projected.sources[*].downwardAPI.items[*].user", "7", P_FIELDS),
    Case("spec.volumes[*].projected.sources[*].podCertificate", "{signerName: a/b, keyType: ED25519, credentialBundlePath: c}", P_CONFIG),
    Case("spec.volumes[*].projected.sources[*].secret.items[*].key", "b", P_SECRET),
    Case("spec.volumes[*].projected.sources[*].secret.items[*].mode", "256", P_SECRET),
    Case("spec.volumes[*].projected.sources[*].secret.items[*].path", "g", P_SECRET),
    Case("spec.volumes[*].projected.sources[*].secret.items[*].user", "7", P_SECRET),
    Case("spec.volumes[*].projected.sources[*].secret.name", "t", P_SECRET),
    Case("spec.volumes[*].projected.sources[*].secret.optional", "true", "{spec.volumes: [{name: v, projected: {sources: [{secret: {name: none}}]}}], c.volumeMounts: [{name: v, mountPath: /v}]}"),
    Case("spec.volumes[*].projected.sources[*].serviceAccountToken", "{path: a}", P_CONFIG),
    Case("spec.volumes[*].quobyte", "{registry: a, volume: b}", V),
    Case("spec.volumes[*].rbd", "{monitors: [a], image: b}", V),
    Case("spec.volumes[*].scaleIO", "{gateway: a, system: b, volumeName: c, secretRef: {name: d}}", V),
    Case("spec.volumes[*].secret.defaultMode", "256", SECRET),
    Case("spec.volumes[*].secret.defaultUser", "7", SECRET),
    Case("spec.volumes[*].secret.items[*].key", "b", SECRET),
    Case("spec.volumes[*].secret.items[*].mode", "256", SECRET),
    Case("spec.volumes[*].secret.items[*].path", "g", SECRET),
    Case("spec.volumes[*].secret.items[*].user", "7", SECRET),
    Case("spec.volumes[*].secret.optional", "true", "{spec.volumes: [{name: v, secret: {secretName: none}}], c.volumeMounts: [{name: v, mountPath: /v}]}"),
    Case("spec.volumes[*].secret.secretName", "t", SECRET),
    Case("spec.volumes[*].storageos", "{volumeName: a}", V),
    Case("spec.volumes[*].vsphereVolume", "{volumePath: a}", V),
    case("c.args", "[a]"),
    case("c.command", "[a]"),
    Case("c.env[*].name", "B", "{c.env: [{name: A, value: x}]}"),
    Case("c.env[*].value", "other", "{c.env: [{name: A, value: x}]}"),
    Case("c.env[*].valueFrom.configMapKeyRef.key", "b", REF),
    Case("c.env[*].valueFrom.configMapKeyRef.name", "d", REF),
    Case("c.env[*].valueFrom.configMapKeyRef.optional", "true", "{c.env: [{name: A, valueFrom: {configMapKeyRef: {name: c, key: none}}}]}"),
    Case("c.env[*].valueFrom.fieldRef.apiVersion", "!v2", FIELD),
    Case("c.env[*].valueFrom.fieldRef.fieldPath", "metadata.uid", FIELD),
    Case("c.env[*].valueFrom.fileKeyRef", "{volumeName: v, path: a, key: b}", "{c.env: [{name: A, value: x}], spec.volumes: [{name: v, emptyDir: {}}]}"),
    Case("c.env[*].valueFrom.resourceFieldRef.containerName", "b", SIZE),
    Case("c.env[*].valueFrom.resourceFieldRef.divisor", "1m", SIZE),
    Case("c.env[*].valueFrom.resourceFieldRef.resource", "limits.memory", SIZE),
    Case("c.env[*].valueFrom.secretKeyRef.key", "b", SECRET_REF),
    Case("c.env[*].valueFrom.secretKeyRef.name", "t", SECRET_REF),
    Case("c.env[*].valueFrom.secretKeyRef.optional", "true", "{c.env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: none}}}]}"),
    Case("c.envFrom[*].configMapRef.name", "d", "{c.envFrom: [{configMapRef: {name: c}}]}"),
    Case("c.envFrom[*].configMapRef.optional", "true", "{c.envFrom: [{configMapRef: {name: none}}]}"),
    Case("c.envFrom[*].prefix", "P_", "{c.envFrom: [{configMapRef: {name: c}}]}"),
    Case("c.envFrom[*].secretRef.name", "t", "{c.envFrom: [{secretRef: {name: s}}]}"),
    Case("c.envFrom[*].secretRef.optional", "true", "{c.envFrom: [{secretRef: {name: none}}]}"),
    case("c.image", "other"),
    case("c.imagePullPolicy", "Never"),
    Case("c.lifecycle.stopSignal", "SIGUSR1", "{spec.os.name: linux}"),
    Case("c.livenessProbe.terminationGracePeriodSeconds", "7", "{c.livenessProbe.exec.command: [a]}"),
    Case("c.startupProbe.terminationGracePeriodSeconds", "7", "{c.startupProbe.exec.command: [a]}"),
    Case("c.readinessProbe.terminationGracePeriodSeconds", "!7", "{c.readinessProbe.exec.command: [a]}"),
    Case("c.livenessProbe.successThreshold", "!2", "{c.livenessProbe.exec.command: [a]}"),
    Case("c.startupProbe.successThreshold", "!2", "{c.startupProbe.exec.command: [a]}"),
    Case("c.readinessProbe.successThreshold", "2", "{c.readinessProbe.exec.command: [a]}"),
    case("c.name", "other"),
    Case("c.ports[*].containerPort", "81", PORT),
    Case("c.ports[*].hostIP", "192.0.2.1", PORT),
    Case("c.ports[*].hostPort", "8080", PORT),
    Case("c.ports[*].name", "p", "{c.ports: [{containerPort: 80, name: q}], c.livenessProbe.exec.command: [a]}"),
    Case("c.ports[*].protocol", "UDP", PORT),
    Case("c.resizePolicy[*].resourceName", "cpu", "{c.resources: {limits: {memory: 64Mi}, requests: {memory: 64Mi}}, c.resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]}"),
    Case("c.resizePolicy[*].restartPolicy", "RestartContainer", "{c.resources: {limits: {memory: 64Mi}, requests: {memory: 64Mi}}, c.resizePolicy: [{resourceName: memory, restartPolicy: NotRequired}]}"),
    case("c.resources.claims", "[{name: a}]"),
    Case("c.resources.limits.cpu", "{cpu: 2}", LIMITS),
    Case("c.resources.limits.memory", "{memory: 128Mi}", LIMITS),
    Case("c.resources.limits.ephemeral-storage", "{ephemeral-storage: 1Mi}", LIMITS),
    Case("c.resources.limits.hugepages-*", "{hugepages-2Mi: 2Mi}", LIMITS),
    Case("c.resources.limits.nvidia.com/gpu", "{nvidia.com/gpu: 1}", LIMITS),
    Case("c.resources.limits.podkeeper.dev/*", "{podkeeper.dev/serial: 1}", LIMITS),
    Case("c.resources.limits.*", "{example.com/thing: 1}", LIMITS),
    Case("c.resources.requests.cpu", "{cpu: 500m}", LIMITS),
    Case("c.resources.requests.memory", "{memory: 32Mi}", LIMITS),
    Case("c.resources.requests.ephemeral-storage", "{ephemeral-storage: 1Mi}", LIMITS),
    Case("c.resources.requests.hugepages-*", "!{hugepages-2Mi: 4Mi}", "{c.resources: {limits: {cpu: 1, memory: 64Mi, hugepages-2Mi: 2Mi}}}"),
    Case("c.resources.requests.nvidia.com/gpu", "!{nvidia.com/gpu: 2}", "{c.resources: {limits: {nvidia.com/gpu: 1}}}"),
    Case("c.resources.requests.podkeeper.dev/*", "!{podkeeper.dev/serial: 2}", "{c.resources: {limits: {podkeeper.dev/serial: 1}}}"),
    Case("c.resources.requests.*", "{example.com/thing: 1}", LIMITS),
    Case("c.restartPolicy", "Never", ""),
    Case("c.restartPolicyRules[*].action", "!Nothing", RULES),
    Case("c.restartPolicyRules[*].exitCodes.operator", "NotIn", RULES),
    Case("c.restartPolicyRules[*].exitCodes.values", "[43]", RULES),
    case("c.securityContext.allowPrivilegeEscalation", "false"),
    case("c.securityContext.appArmorProfile.type", "Unconfined"),
    Case("c.securityContext.appArmorProfile.localhostProfile", "b", "{c.securityContext.appArmorProfile: {type: Localhost, localhostProfile: a}}"),
    case("c.securityContext.capabilities.add", "[NET_ADMIN]"),
    case("c.securityContext.capabilities.drop", "[ALL]"),
    case("c.securityContext.privileged", "true"),
    case("c.securityContext.procMount", "Unmasked"),
    case("c.securityContext.readOnlyRootFilesystem", "true"),
    Case("c.securityContext.runAsGroup", "7", "{c.securityContext.runAsUser: 6}"),
    case("c.securityContext.runAsNonRoot", "true"),
    case("c.securityContext.runAsUser", "7"),
    case("c.securityContext.seLinuxOptions.level", "b"),
    case("c.securityContext.seLinuxOptions.role", "b"),
    case("c.securityContext.seLinuxOptions.type", "b"),
    case("c.securityContext.seLinuxOptions.user", "b"),
    case("c.securityContext.seccompProfile.type", "Unconfined"),
    Case("c.securityContext.seccompProfile.localhostProfile", "b", "{c.securityContext.seccompProfile: {type: Localhost, localhostProfile: a}}"),
    case("c.securityContext.windowsOptions", "{runAsUserName: a}"),
    case("c.stdin", "true"),
    Case("c.stdinOnce", "true", "{c.stdin: true}"),
    case("c.terminationMessagePath", "/a/b"),
    case("c.terminationMessagePolicy", "FallbackToLogsOnError"),
    case("c.tty", "true"),
    Case("c.volumeDevices", "[{name: v, devicePath: /d}]", "{spec.volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]}"),
    Case("c.volumeMounts[*].bindMountOptions", "[a]", V),
    Case("c.volumeMounts[*].mountPath", "/w", V),
    Case("c.volumeMounts[*].mountPropagation", "HostToContainer", V),
    Case("c.volumeMounts[*].name", "w", "{spec.volumes: [{name: v, emptyDir: {}}, {name: w, emptyDir: {}}], c.volumeMounts: [{name: v, mountPath: /v}]}"),
    Case("c.volumeMounts[*].readOnly", "true", V),
    Case("c.volumeMounts[*].recursiveReadOnly", "IfPossible", "{spec.volumes: [{name: v, emptyDir: {}}], c.volumeMounts: [{name: v, mountPath: /v, readOnly: true}]}"),
    Case("c.volumeMounts[*].subPath", "a", V),
    Case("c.volumeMounts[*].subPathExpr", "a", V),
    case("c.workingDir", "/w"),
];
