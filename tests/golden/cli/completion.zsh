#compdef podkeeper
# Completion of podkeeper for zsh; printed by: podkeeper completion zsh
_podkeeper_pods() {
    local -a pods
    pods=(${(f)"$(podkeeper get pods --output name 2>/dev/null)"})
    compadd -- ${pods#pod/}
}

_podkeeper_kinds() {
    if (( CURRENT == 2 )); then
        compadd -- "$@"
    elif [[ $words[2] == pod || $words[2] == pods ]]; then
        _podkeeper_pods
    fi
}

_podkeeper() {
    local context state line
    typeset -A opt_args
    _arguments -C '1:command:->command' '*::argument:->argument'
    case $state in
    command)
        local -a commands
        commands=(
            'run:Keep the pods of a manifest directory or a URL running on Docker'
            'check:Check manifests without running them'
            'forget:Forget the stored last good version of a source'
            'drain:Stop all pods in order, and keep them stopped until resume'
            'resume:Start the pods of a drained node again'
            'get:List the pods of this node, its objects, images and events'
            'describe:Show the node or pods in full, with their problems'
            'top:Show how much CPU and memory the node or its pods use'
            'stats:Print all figures of the node, its pods, podkeeper and Docker'
            'logs:Print the output of a container'
            'restart:Stop the containers of a pod, and start it anew'
            'attach:Join the streams of a running container'
            'exec:Run a command in a container'
            'cp:Copy files and directories from a running container, or to it'
            'port-forward:Make ports of a pod reachable on this machine, until Ctrl-C'
            'debug:Add a container to a running pod, to look into it'
            'explain:Print the meaning of a field of a pod, and podkeeper'\''s support of it'
            'pull:Let Docker pull images, with the credentials of this node'
            'load:Load image archives into Docker'
            'images:List Docker'\''s images, when each was last used, and why it is kept'
            'prune:Remove dead containers and images that nothing needs'
            'config:Print the values in force with these flags of run, and the origin of each'
            'completion:Print a script by which a shell completes command lines'
            'kubeconfig:Make a user'\''s credentials for the API of this node, and print them for kubectl'
            'page:Print a link that shows this node in a browser, once'
            'join:Find a cluster to join, and write the files that the daemon requests its credentials with'
            'hollow:Load a cluster'\''s control plane with nodes that have no machine'
            'version:Print the version'
            'help:Print help for a command'
        )
        _describe command commands
        ;;
    argument)
        case $words[1] in
        run)
            _arguments \
                '*--pod-manifest-path=[Directory of manifests (.yaml, .yml, .json), or one file]:PATH:_files' \
                '*--file-check-frequency=[Time between two readings of the manifests, longer at rest; changes are noticed at once]:DURATION:' \
                '*--manifest-verify-key=[Accept only manifests signed with a minisign key of this file; may be repeated]:FILE:_files' \
                '*--manifest-min-version=[Refuse signed manifests of a lower version\: N or timestamp\:N of the trusted comment]:N:' \
                '*--last-good-key-file=[32 random bytes that seal stored content; made below the root directory when not given]:FILE:_files' \
                '*--manifest-url=[URL of manifests; https, or http to loopback]:URL:' \
                '*--manifest-url-header=[Headers of the requests to the URL; may be repeated]:NAME\:VALUE,...:' \
                '*--http-check-frequency=[Time between two requests to the URL, a tenth more or less]:DURATION:' \
                '*--manifest-url-ca-file=[Certificate authorities of the URL'\''s server, PEM; the system'\''s when not given]:FILE:_files' \
                '*--manifest-url-cert-file=[Client certificate for the URL'\''s server, PEM]:FILE:_files' \
                '*--manifest-url-key-file=[Key of the client certificate, PEM]:FILE:_files' \
                '*--manifest-url-allow-insecure[Allow http to other machines\: an attacker who can change the answer is root on this node]' \
                '*--manifest-url-max-size=[Largest answer of the URL]:BYTES:' \
                '*--kubeconfig=[Kubeconfig of the API server whose pods are run, with credentials of its node or nodes]:FILE:_files' \
                '*--api-last-good[Store the pods of the API server, sealed, for a start without it]' \
                '*--sync-frequency=[Time between two comparisons of all pods with Docker, longer at rest]:DURATION:' \
                '*--runonce[Run the pods of files and URL, report, and end; the pods keep running]' \
                '*--hostname-override=[Name of this node; the host'\''s own name when not given]:NAME:' \
                '*--node-labels=[Labels of this node, for nodeSelector and node affinity of pods; may be repeated]:K=V,...:' \
                '*--node-ip=[Addresses of this node, IPv4 and IPv6; those of the default routes when not given]:IP\[,IP\]:' \
                '*--cluster-dns=[Name servers of pods with dnsPolicy ClusterFirst; the node'\''s own when not given; may be repeated]:IP,...:' \
                '*--cluster-domain=[Domain of the cluster, for search lists and full host names]:DOMAIN:' \
                '*--resolv-conf=[Resolver settings that pods start from; empty for a resolver at 127.0.0.1]:FILE:_files' \
                '*--kube-reserved=[CPU, memory and ephemeral-storage kept for podkeeper and Docker\: pods get the rest]:RESOURCE=N,...:' \
                '*--system-reserved=[The same for everything else on the node]:RESOURCE=N,...:' \
                '*--max-pods=[Maximum number of pods on this node]:N:' \
                '*--pod-max-pids=[Maximum number of processes of a pod; -1 for no limit]:N:' \
                '*--max-container-restart-period=[Longest wait before a container that crashes again and again is started, 1s to 5m]:DURATION:' \
                '*--cgroups-per-qos[Give each pod a cgroup, below one for its class of service]' \
                '*--cgroup-root=[Cgroup for kubepods, the cgroup of all pods; the topmost when not given]:PATH:' \
                '*--device=[Devices below /dev that are one unit of resource podkeeper.dev/NAME; may be repeated]:NAME=PATH,...:' \
                '*--runtime-class=[Runtime of Docker for pods whose runtime class has this handler; may be repeated]:NAME=RUNTIME:' \
                '*--bootstrap-kubeconfig=[Credentials for requesting the node'\''s own, while the --kubeconfig file has no valid ones]:FILE:_files' \
                '*--rotate-certificates[Renew the client certificate that the API server has signed before it expires]' \
                '*--rotate-server-certificates[Let the API server sign the certificate of the kubelet'\''s server, and renew it in time]' \
                '*--register-node[Make the node object at the API server when there is none]' \
                '*--register-with-taints=[Taints of a new node object; an existing one keeps its own]:KEY=VALUE\:EFFECT,...:' \
                '*--node-status-update-frequency=[How often a changed status of the node is sent]:DURATION:' \
                '*--node-status-report-frequency=[How often an unchanged status of the node is sent]:DURATION:' \
                '*--node-lease-duration-seconds=[Duration of the node'\''s lease; it is renewed four times in that time]:SECONDS:' \
                '*--node-status-max-images=[Most images in the node'\''s status; -1 for all]:N:' \
                '*--eviction-hard=[Thresholds for immediate eviction; empty for none; the kubelet'\''s when not given; may be repeated]:SIGNAL<AMOUNT,...:' \
                '*--eviction-soft=[Thresholds for eviction after a grace period, with time to end; may be repeated]:SIGNAL<AMOUNT,...:' \
                '*--eviction-soft-grace-period=[How long a soft threshold must be met; for each of them; may be repeated]:SIGNAL=DURATION,...:' \
                '*--eviction-minimum-reclaim=[Amount above its threshold that must be free before a shortage is over; may be repeated]:SIGNAL=AMOUNT,...:' \
                '*--eviction-pressure-transition-period=[How long the node counts as short of a resource after the last shortage]:DURATION:' \
                '*--eviction-max-pod-grace-period=[Longest grace period of a pod that is evicted at a soft threshold; negative for its own]:SECONDS:' \
                '*--low-diskspace-threshold-mb=[With less free disk than this, new pods are refused as OutOfDisk; 0 for never]:MIB:' \
                '*--image-gc-high-threshold=[Unused images are removed when their file system is this full; 100 for never]:PERCENT:' \
                '*--image-gc-low-threshold=[Unused images are removed until the file system is down to this]:PERCENT:' \
                '*--minimum-image-ttl-duration=[Images that are younger are not removed]:DURATION:' \
                '*--image-maximum-gc-age=[Images that were unused for longer are removed even if there is room; 0 for never]:DURATION:' \
                '*--pinned-images=[Images that are never removed; * stands for any characters; may be repeated]:IMAGE,...:' \
                '*--shutdown-grace-period=[Time for all pods to end when the machine goes down; 0 for each pod'\''s own]:DURATION:' \
                '*--shutdown-grace-period-critical-pods=[The last part of that time, for critical pods]:DURATION:' \
                '*--protect-kernel-defaults[Do not start if a setting of the kernel is wrong, instead of correcting it]' \
                '*--enforce-node-allocatable=[Shares to enforce\: pods (the default), kube-reserved, system-reserved, none]:WHAT,...:' \
                '*--kube-reserved-cgroup=[The cgroup that kube-reserved limits\: that of podkeeper and Docker]:CGROUP:' \
                '*--system-reserved-cgroup=[The cgroup that system-reserved limits\: that of everything else]:CGROUP:' \
                '*--kubelet-cgroups=[Cgroup that podkeeper moves itself into; it does not move when not given]:CGROUP:' \
                '*--runtime-cgroups=[Cgroup that podkeeper moves Docker into; it does not move when not given]:CGROUP:' \
                '*--system-cgroups=[Cgroup for all processes of the topmost one; needs --cgroup-root]:CGROUP:' \
                '*--docker-endpoint=[Docker'\''s socket; fake\:// is a Docker in memory, for load tests]:URL:' \
                '*--pod-infra-container-image=[Image of the pods'\'' sandbox; one built into podkeeper when not given]:IMAGE:' \
                '*--docker-network=[Docker network of the pods, made when missing\: there they find each other by name]:NAME:' \
                '*--docker-network-cidr=[Subnets that network is made with, IPv4 and IPv6; Docker'\''s choice when not given; may be repeated]:CIDR,...:' \
                '*--image-pull-progress-deadline=[A pull without progress for this time is given up]:DURATION:' \
                '*--serialize-image-pulls[Pull one image after the other; on unless --max-parallel-image-pulls is 2 or more]' \
                '*--max-parallel-image-pulls=[Maximum number of parallel pulls when they are not serialized; at most 16]:N:' \
                '*--registry-qps=[Pulls that may start in a second; a further one fails and is tried later; 0 for no limit]:N:' \
                '*--registry-burst=[Pulls that may start at once, if --registry-qps is not 0]:N:' \
                '*--image-preload-dir=[Image archives (.tar, .tar.gz, .tgz, .tar.zst) to load; empty for none]:DIR:_files' \
                '*--minimum-container-ttl-duration=[Dead containers that are younger are kept in any number]:DURATION:' \
                '*--maximum-dead-containers-per-container=[Dead instances to keep of each container, at least 1; negative for all]:N:' \
                '*--maximum-dead-containers=[Dead containers to keep of all pods, beside one of each container; negative for all]:N:' \
                '*--container-log-driver=[Where Docker puts the output of containers\: json-file, local, journald or none]:NAME:(json-file local journald none)' \
                '*--container-log-max-size=[Size at which Docker rotates the log of a container; negative for never]:SIZE:' \
                '*--container-log-max-files=[Maximum number of log files of a container; at least 2]:N:' \
                '*--network-plugin=[cni\: pods are attached by the network plugins of this node; empty for Docker'\''s networks]:NAME:' \
                '*--cni-conf-dir=[Network configurations\: the first valid one, by name, is used]:DIR:_files' \
                '*--cni-bin-dir=[Directories of the programs of network plugins]:DIR,...:' \
                '*--cni-cache-dir=[Results of plugins, needed to detach pods; the directory must survive a boot]:DIR:_files' \
                '*--host-network-sources=[Sources whose pods may use the host'\''s network\: file, http, api, or * for all]:LIST:' \
                '*--allow-privileged[Allow privileged containers]' \
                '*--allowed-unsafe-sysctls=[Namespaced sysctls beyond the safe ones, or patterns such as kernel.shm*]:LIST:' \
                '*--allowed-devices=[Devices and their directories that pods may name; all with --allow-privileged]:PATH,...:' \
                '*--pod-security=[Pod Security Standards\: privileged, baseline or restricted; privileged when not given]:\[SOURCE=\]LEVEL\[\:VERSION\],...:' \
                '*--allowed-host-paths=[Allowed paths of hostPath volumes, at or below; with \:ro read-only; all when not given; may be repeated]:LIST:' \
                '*--allowed-images=[Allowed images, or prefixes of images that end with a slash; all when not given; may be repeated]:LIST:' \
                '*--require-image-digest[Every image must be named by its digest]' \
                '*--source-policy=[Rules for the pods of file, http or api, in place of those for all; may be repeated]:SOURCE=NAME=VALUE\[;...\]:' \
                '*--api-address=[Address of the API of this node, for kubectl; no API when not given]:IP\:PORT:' \
                '*--port=[HTTPS port of the kubelet'\''s server, 10250 for the kubelet; 0 for none]:PORT:' \
                '*--address=[Address of the kubelet'\''s server and the read-only one]:IP:' \
                '*--read-only-port=[HTTP port that shows pods and figures to every client; 0 for none]:PORT:' \
                '*--cadvisor-port=[HTTP port that shows figures like cAdvisor, 4194 for old kubelets; 0 for none]:PORT:' \
                '*--healthz-port=[HTTP port of the health checks, 10248 for the kubelet; 0 for none]:PORT:' \
                '*--healthz-bind-address=[Address of the health checks]:IP:' \
                '*--tls-cert-file=[Certificate of the kubelet'\''s server, PEM; one is made when not given]:FILE:_files' \
                '*--tls-private-key-file=[Its private key, PEM]:FILE:_files' \
                '*--cert-dir=[Directory of the certificate that is made; pki below the root directory when not given]:DIR:_files' \
                '*--client-ca-file=[Authorities of client certificates, PEM]:FILE:_files' \
                '*--anonymous-auth[Treat clients without a certificate as system\:anonymous, instead of refusing them]' \
                '*--authorization-mode=[Groups\: by flags; Webhook\: the API server decides; AlwaysAllow\: every known user may]:MODE:(Groups Webhook AlwaysAllow)' \
                '*--authentication-token-webhook[Ask the API server for the user of a bearer token]' \
                '*--authentication-token-webhook-cache-ttl=[How long its answer is valid]:DURATION:' \
                '*--authorization-webhook-cache-authorized-ttl=[How long a permission of the API server is valid, in mode Webhook]:DURATION:' \
                '*--authorization-webhook-cache-unauthorized-ttl=[How long a denial is valid]:DURATION:' \
                '*--authorization-admin-groups=[Groups whose users may do everything]:LIST:' \
                '*--authorization-view-groups=[Groups whose users may read pods, figures and logs of containers]:LIST:' \
                '*--enable-debugging-handlers[Serve logs of containers, exec, attach, run and port-forward]' \
                '*--enable-system-log-handler[Serve the files below /var/log]' \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--root-dir=[State that survives a boot, and the lock; also marks podkeeper'\''s containers]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*--pod-logs-dir=[Links to the logs of containers, by pod; those by container are in containers beside it]:DIR:_files' \
                '*-v[Log more\: 2 decisions, 4 everything]:N:' \
                '*:argument:'
            ;;
        check)
            _arguments \
                '*--manifest-verify-key=[Accept only manifests signed with a minisign key of this file; may be repeated]:FILE:_files' \
                '*--manifest-min-version=[Refuse signed manifests of a lower version\: N or timestamp\:N of the trusted comment]:N:' \
                '*--verify-key=[The same as --manifest-verify-key; may be repeated]:FILE:_files' \
                '*--strict[Treat warnings as errors]' \
                '*--source=[Source of the manifests\: file or http; with a path, the source of the manifests there; may be repeated]:SOURCE\[=PATH\]:' \
                '*--hostname-override=[Name of this node; the host'\''s own name when not given]:NAME:' \
                '*--node-labels=[Labels of this node, for nodeSelector and node affinity of pods; may be repeated]:K=V,...:' \
                '*--kube-reserved=[CPU, memory and ephemeral-storage kept for podkeeper and Docker\: pods get the rest]:RESOURCE=N,...:' \
                '*--system-reserved=[The same for everything else on the node]:RESOURCE=N,...:' \
                '*--max-pods=[Maximum number of pods on this node]:N:' \
                '*--device=[Devices below /dev that are one unit of resource podkeeper.dev/NAME; may be repeated]:NAME=PATH,...:' \
                '*--runtime-class=[Runtime of Docker for pods whose runtime class has this handler; may be repeated]:NAME=RUNTIME:' \
                '*--host-network-sources=[Sources whose pods may use the host'\''s network\: file, http, api, or * for all]:LIST:' \
                '*--allow-privileged[Allow privileged containers]' \
                '*--allowed-unsafe-sysctls=[Namespaced sysctls beyond the safe ones, or patterns such as kernel.shm*]:LIST:' \
                '*--allowed-devices=[Devices and their directories that pods may name; all with --allow-privileged]:PATH,...:' \
                '*--pod-security=[Pod Security Standards\: privileged, baseline or restricted; privileged when not given]:\[SOURCE=\]LEVEL\[\:VERSION\],...:' \
                '*--allowed-host-paths=[Allowed paths of hostPath volumes, at or below; with \:ro read-only; all when not given; may be repeated]:LIST:' \
                '*--allowed-images=[Allowed images, or prefixes of images that end with a slash; all when not given; may be repeated]:LIST:' \
                '*--require-image-digest[Every image must be named by its digest]' \
                '*--source-policy=[Rules for the pods of file, http or api, in place of those for all; may be repeated]:SOURCE=NAME=VALUE\[;...\]:' \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--output=[json; a line for each problem when not given]:FORMAT:(json)' \
                '*-o[json; a line for each problem when not given]:FORMAT:(json)' \
                '*:argument:_files'
            ;;
        forget)
            _arguments \
                '*--source=[The source to forget\: file or http]:SOURCE:(file http)' \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--root-dir=[State that survives a boot, and the lock; also marks podkeeper'\''s containers]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*:argument:'
            ;;
        drain)
            _arguments \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--root-dir=[State that survives a boot, and the lock; also marks podkeeper'\''s containers]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*--grace=[Longest grace of any pod; each pod'\''s own when not given]:SECONDS:' \
                '*--timeout=[How long to wait until all pods have stopped]:DURATION:' \
                '*--until-reboot[The next boot of the machine resumes the node]' \
                '*--shutdown[drain\: until the next boot, or until resume --shutdown, which undoes no other]' \
                '*:argument:'
            ;;
        resume)
            _arguments \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--root-dir=[State that survives a boot, and the lock; also marks podkeeper'\''s containers]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*--shutdown[drain\: until the next boot, or until resume --shutdown, which undoes no other]' \
                '*:argument:'
            ;;
        get)
            _arguments \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*--namespace=[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*-n[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*--all-namespaces[Pods of all namespaces]' \
                '*-A[Pods of all namespaces]' \
                '*--selector=[Only pods with these labels\: app=web,tier!=db,!canary,zone in (a,b)]:LABELS:' \
                '*-l[Only pods with these labels\: app=web,tier!=db,!canary,zone in (a,b)]:LABELS:' \
                '*--field-selector=[Only pods with these fields\: status.phase!=Running,metadata.name=web-node1]:FIELDS:' \
                '*--output=[wide, json, yaml, name, jsonpath=TEMPLATE, custom-columns=NAME\:PATH; otherwise a table]:FORMAT:(wide json yaml name)' \
                '*-o[wide, json, yaml, name, jsonpath=TEMPLATE, custom-columns=NAME\:PATH; otherwise a table]:FORMAT:(wide json yaml name)' \
                '*--watch[After listing, wait and print each row that changes]' \
                '*-w[After listing, wait and print each row that changes]' \
                '*--for=[Only the events of this pod]:pod/NAME:' \
                '*--no-headers[Leave the table'\''s heading out]' \
                '*:argument:_podkeeper_kinds configmaps events images node pods secrets sources'
            ;;
        describe)
            _arguments \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*--namespace=[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*-n[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*--all-namespaces[Pods of all namespaces]' \
                '*-A[Pods of all namespaces]' \
                '*--selector=[Only pods with these labels\: app=web,tier!=db,!canary,zone in (a,b)]:LABELS:' \
                '*-l[Only pods with these labels\: app=web,tier!=db,!canary,zone in (a,b)]:LABELS:' \
                '*:argument:_podkeeper_kinds node pod'
            ;;
        top)
            _arguments \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*--namespace=[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*-n[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*--all-namespaces[Pods of all namespaces]' \
                '*-A[Pods of all namespaces]' \
                '*--selector=[Only pods with these labels\: app=web,tier!=db,!canary,zone in (a,b)]:LABELS:' \
                '*-l[Only pods with these labels\: app=web,tier!=db,!canary,zone in (a,b)]:LABELS:' \
                '*--no-headers[Leave the table'\''s heading out]' \
                '*--containers[A line for each container]' \
                '*--sort-by=[The largest first, by this figure; by name when not given]:cpu|memory:(cpu memory)' \
                '*:argument:_podkeeper_kinds node pods'
            ;;
        stats)
            _arguments \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*--output=[json or yaml; json when not given]:FORMAT:(json yaml)' \
                '*-o[json or yaml; json when not given]:FORMAT:(json yaml)' \
                '*:argument:'
            ;;
        logs)
            _arguments \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*--namespace=[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*-n[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*--all-namespaces[Pods of all namespaces]' \
                '*-A[Pods of all namespaces]' \
                '*--selector=[Only pods with these labels\: app=web,tier!=db,!canary,zone in (a,b)]:LABELS:' \
                '*-l[Only pods with these labels\: app=web,tier!=db,!canary,zone in (a,b)]:LABELS:' \
                '*--container=[Container; the pod'\''s default or first one when not given]:NAME:' \
                '*-c[Container; the pod'\''s default or first one when not given]:NAME:' \
                '*--all-containers[All containers of the pod, one after the other; with -f together]' \
                '*--follow[Keep printing new output]' \
                '*-f[Keep printing new output]' \
                '*--previous[The log of the container that ran before this one]' \
                '*-p[The log of the container that ran before this one]' \
                '*--timestamps[Put the time before each line]' \
                '*-t[Put the time before each line]' \
                '*--prefix[Put the pod and the container before each line]' \
                '*--tail=[Only the last N lines; -1 for all; when not given all, and 10 with -l]:N:' \
                '*--since=[Only lines that are newer than this]:DURATION:' \
                '*--since-time=[Only lines that are newer than this time (RFC 3339)]:TIME:' \
                '*--limit-bytes=[At most this many bytes of each container; all when not given]:BYTES:' \
                '*--max-log-requests=[How many containers may be followed at once]:N:' \
                '*:argument:_podkeeper_pods'
            ;;
        restart)
            _arguments \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*--namespace=[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*-n[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*:argument:_podkeeper_pods'
            ;;
        attach)
            _arguments \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*--namespace=[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*-n[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*--container=[Container; the pod'\''s default or first one when not given]:NAME:' \
                '*-c[Container; the pod'\''s default or first one when not given]:NAME:' \
                '*--stdin[Pass standard input to the command]' \
                '*-i[Pass standard input to the command]' \
                '*--tty[Give the command a terminal]' \
                '*-t[Give the command a terminal]' \
                '*:argument:_podkeeper_pods'
            ;;
        exec)
            _arguments \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*--namespace=[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*-n[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*--container=[Container; the pod'\''s default or first one when not given]:NAME:' \
                '*-c[Container; the pod'\''s default or first one when not given]:NAME:' \
                '*--stdin[Pass standard input to the command]' \
                '*-i[Pass standard input to the command]' \
                '*--tty[Give the command a terminal]' \
                '*-t[Give the command a terminal]' \
                '*:argument:_podkeeper_pods'
            ;;
        cp)
            _arguments \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*--namespace=[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*-n[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*--container=[Container; the pod'\''s default or first one when not given]:NAME:' \
                '*-c[Container; the pod'\''s default or first one when not given]:NAME:' \
                '*--no-preserve[Do not keep the permissions of files that are copied into a container]' \
                '*:argument:_files'
            ;;
        port-forward)
            _arguments \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*--namespace=[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*-n[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*--listen=[Addresses of this machine at which the ports are reachable]:ADDRESSES:' \
                '*:argument:_podkeeper_pods'
            ;;
        debug)
            _arguments \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*--namespace=[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*-n[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*--container=[Container; the pod'\''s default or first one when not given]:NAME:' \
                '*-c[Container; the pod'\''s default or first one when not given]:NAME:' \
                '*--stdin[Pass standard input to the command]' \
                '*-i[Pass standard input to the command]' \
                '*--tty[Give the command a terminal]' \
                '*-t[Give the command a terminal]' \
                '*--image=[Image of the added container]:IMAGE:' \
                '*--target=[Container of the pod whose processes the added one sees]:CONTAINER:' \
                '*--profile=[Rights of the container\: legacy, general, baseline, restricted, netadmin or sysadmin]:PROFILE:(legacy general baseline restricted netadmin sysadmin)' \
                '*:argument:_podkeeper_pods'
            ;;
        explain)
            _arguments \
                '*--recursive[Show the fields below the fields as well]' \
                '*:argument:'
            ;;
        pull)
            _arguments \
                '*--docker-endpoint=[Docker'\''s socket; fake\:// is a Docker in memory, for load tests]:URL:' \
                '*--image-pull-progress-deadline=[A pull without progress for this time is given up]:DURATION:' \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--root-dir=[State that survives a boot, and the lock; also marks podkeeper'\''s containers]:DIR:_files' \
                '*:argument:'
            ;;
        load)
            _arguments \
                '*--docker-endpoint=[Docker'\''s socket; fake\:// is a Docker in memory, for load tests]:URL:' \
                '*--image-pull-progress-deadline=[A pull without progress for this time is given up]:DURATION:' \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*:argument:_files'
            ;;
        images)
            _arguments \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*--output=[wide, json, yaml, name, jsonpath=TEMPLATE, custom-columns=NAME\:PATH; otherwise a table]:FORMAT:(wide json yaml name)' \
                '*-o[wide, json, yaml, name, jsonpath=TEMPLATE, custom-columns=NAME\:PATH; otherwise a table]:FORMAT:(wide json yaml name)' \
                '*--no-headers[Leave the table'\''s heading out]' \
                '*:argument:'
            ;;
        prune)
            _arguments \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*--dry-run[Remove nothing, and print what would be removed]' \
                '*--prune-build-cache[Remove Docker'\''s build cache, too]' \
                '*:argument:'
            ;;
        config)
            _arguments \
                '*--pod-manifest-path=[Directory of manifests (.yaml, .yml, .json), or one file]:PATH:_files' \
                '*--file-check-frequency=[Time between two readings of the manifests, longer at rest; changes are noticed at once]:DURATION:' \
                '*--manifest-verify-key=[Accept only manifests signed with a minisign key of this file; may be repeated]:FILE:_files' \
                '*--manifest-min-version=[Refuse signed manifests of a lower version\: N or timestamp\:N of the trusted comment]:N:' \
                '*--last-good-key-file=[32 random bytes that seal stored content; made below the root directory when not given]:FILE:_files' \
                '*--manifest-url=[URL of manifests; https, or http to loopback]:URL:' \
                '*--manifest-url-header=[Headers of the requests to the URL; may be repeated]:NAME\:VALUE,...:' \
                '*--http-check-frequency=[Time between two requests to the URL, a tenth more or less]:DURATION:' \
                '*--manifest-url-ca-file=[Certificate authorities of the URL'\''s server, PEM; the system'\''s when not given]:FILE:_files' \
                '*--manifest-url-cert-file=[Client certificate for the URL'\''s server, PEM]:FILE:_files' \
                '*--manifest-url-key-file=[Key of the client certificate, PEM]:FILE:_files' \
                '*--manifest-url-allow-insecure[Allow http to other machines\: an attacker who can change the answer is root on this node]' \
                '*--manifest-url-max-size=[Largest answer of the URL]:BYTES:' \
                '*--kubeconfig=[Kubeconfig of the API server whose pods are run, with credentials of its node or nodes]:FILE:_files' \
                '*--api-last-good[Store the pods of the API server, sealed, for a start without it]' \
                '*--sync-frequency=[Time between two comparisons of all pods with Docker, longer at rest]:DURATION:' \
                '*--runonce[Run the pods of files and URL, report, and end; the pods keep running]' \
                '*--hostname-override=[Name of this node; the host'\''s own name when not given]:NAME:' \
                '*--node-labels=[Labels of this node, for nodeSelector and node affinity of pods; may be repeated]:K=V,...:' \
                '*--node-ip=[Addresses of this node, IPv4 and IPv6; those of the default routes when not given]:IP\[,IP\]:' \
                '*--cluster-dns=[Name servers of pods with dnsPolicy ClusterFirst; the node'\''s own when not given; may be repeated]:IP,...:' \
                '*--cluster-domain=[Domain of the cluster, for search lists and full host names]:DOMAIN:' \
                '*--resolv-conf=[Resolver settings that pods start from; empty for a resolver at 127.0.0.1]:FILE:_files' \
                '*--kube-reserved=[CPU, memory and ephemeral-storage kept for podkeeper and Docker\: pods get the rest]:RESOURCE=N,...:' \
                '*--system-reserved=[The same for everything else on the node]:RESOURCE=N,...:' \
                '*--max-pods=[Maximum number of pods on this node]:N:' \
                '*--pod-max-pids=[Maximum number of processes of a pod; -1 for no limit]:N:' \
                '*--max-container-restart-period=[Longest wait before a container that crashes again and again is started, 1s to 5m]:DURATION:' \
                '*--cgroups-per-qos[Give each pod a cgroup, below one for its class of service]' \
                '*--cgroup-root=[Cgroup for kubepods, the cgroup of all pods; the topmost when not given]:PATH:' \
                '*--device=[Devices below /dev that are one unit of resource podkeeper.dev/NAME; may be repeated]:NAME=PATH,...:' \
                '*--runtime-class=[Runtime of Docker for pods whose runtime class has this handler; may be repeated]:NAME=RUNTIME:' \
                '*--bootstrap-kubeconfig=[Credentials for requesting the node'\''s own, while the --kubeconfig file has no valid ones]:FILE:_files' \
                '*--rotate-certificates[Renew the client certificate that the API server has signed before it expires]' \
                '*--rotate-server-certificates[Let the API server sign the certificate of the kubelet'\''s server, and renew it in time]' \
                '*--register-node[Make the node object at the API server when there is none]' \
                '*--register-with-taints=[Taints of a new node object; an existing one keeps its own]:KEY=VALUE\:EFFECT,...:' \
                '*--node-status-update-frequency=[How often a changed status of the node is sent]:DURATION:' \
                '*--node-status-report-frequency=[How often an unchanged status of the node is sent]:DURATION:' \
                '*--node-lease-duration-seconds=[Duration of the node'\''s lease; it is renewed four times in that time]:SECONDS:' \
                '*--node-status-max-images=[Most images in the node'\''s status; -1 for all]:N:' \
                '*--eviction-hard=[Thresholds for immediate eviction; empty for none; the kubelet'\''s when not given; may be repeated]:SIGNAL<AMOUNT,...:' \
                '*--eviction-soft=[Thresholds for eviction after a grace period, with time to end; may be repeated]:SIGNAL<AMOUNT,...:' \
                '*--eviction-soft-grace-period=[How long a soft threshold must be met; for each of them; may be repeated]:SIGNAL=DURATION,...:' \
                '*--eviction-minimum-reclaim=[Amount above its threshold that must be free before a shortage is over; may be repeated]:SIGNAL=AMOUNT,...:' \
                '*--eviction-pressure-transition-period=[How long the node counts as short of a resource after the last shortage]:DURATION:' \
                '*--eviction-max-pod-grace-period=[Longest grace period of a pod that is evicted at a soft threshold; negative for its own]:SECONDS:' \
                '*--low-diskspace-threshold-mb=[With less free disk than this, new pods are refused as OutOfDisk; 0 for never]:MIB:' \
                '*--image-gc-high-threshold=[Unused images are removed when their file system is this full; 100 for never]:PERCENT:' \
                '*--image-gc-low-threshold=[Unused images are removed until the file system is down to this]:PERCENT:' \
                '*--minimum-image-ttl-duration=[Images that are younger are not removed]:DURATION:' \
                '*--image-maximum-gc-age=[Images that were unused for longer are removed even if there is room; 0 for never]:DURATION:' \
                '*--pinned-images=[Images that are never removed; * stands for any characters; may be repeated]:IMAGE,...:' \
                '*--shutdown-grace-period=[Time for all pods to end when the machine goes down; 0 for each pod'\''s own]:DURATION:' \
                '*--shutdown-grace-period-critical-pods=[The last part of that time, for critical pods]:DURATION:' \
                '*--protect-kernel-defaults[Do not start if a setting of the kernel is wrong, instead of correcting it]' \
                '*--enforce-node-allocatable=[Shares to enforce\: pods (the default), kube-reserved, system-reserved, none]:WHAT,...:' \
                '*--kube-reserved-cgroup=[The cgroup that kube-reserved limits\: that of podkeeper and Docker]:CGROUP:' \
                '*--system-reserved-cgroup=[The cgroup that system-reserved limits\: that of everything else]:CGROUP:' \
                '*--kubelet-cgroups=[Cgroup that podkeeper moves itself into; it does not move when not given]:CGROUP:' \
                '*--runtime-cgroups=[Cgroup that podkeeper moves Docker into; it does not move when not given]:CGROUP:' \
                '*--system-cgroups=[Cgroup for all processes of the topmost one; needs --cgroup-root]:CGROUP:' \
                '*--docker-endpoint=[Docker'\''s socket; fake\:// is a Docker in memory, for load tests]:URL:' \
                '*--pod-infra-container-image=[Image of the pods'\'' sandbox; one built into podkeeper when not given]:IMAGE:' \
                '*--docker-network=[Docker network of the pods, made when missing\: there they find each other by name]:NAME:' \
                '*--docker-network-cidr=[Subnets that network is made with, IPv4 and IPv6; Docker'\''s choice when not given; may be repeated]:CIDR,...:' \
                '*--image-pull-progress-deadline=[A pull without progress for this time is given up]:DURATION:' \
                '*--serialize-image-pulls[Pull one image after the other; on unless --max-parallel-image-pulls is 2 or more]' \
                '*--max-parallel-image-pulls=[Maximum number of parallel pulls when they are not serialized; at most 16]:N:' \
                '*--registry-qps=[Pulls that may start in a second; a further one fails and is tried later; 0 for no limit]:N:' \
                '*--registry-burst=[Pulls that may start at once, if --registry-qps is not 0]:N:' \
                '*--image-preload-dir=[Image archives (.tar, .tar.gz, .tgz, .tar.zst) to load; empty for none]:DIR:_files' \
                '*--minimum-container-ttl-duration=[Dead containers that are younger are kept in any number]:DURATION:' \
                '*--maximum-dead-containers-per-container=[Dead instances to keep of each container, at least 1; negative for all]:N:' \
                '*--maximum-dead-containers=[Dead containers to keep of all pods, beside one of each container; negative for all]:N:' \
                '*--container-log-driver=[Where Docker puts the output of containers\: json-file, local, journald or none]:NAME:(json-file local journald none)' \
                '*--container-log-max-size=[Size at which Docker rotates the log of a container; negative for never]:SIZE:' \
                '*--container-log-max-files=[Maximum number of log files of a container; at least 2]:N:' \
                '*--network-plugin=[cni\: pods are attached by the network plugins of this node; empty for Docker'\''s networks]:NAME:' \
                '*--cni-conf-dir=[Network configurations\: the first valid one, by name, is used]:DIR:_files' \
                '*--cni-bin-dir=[Directories of the programs of network plugins]:DIR,...:' \
                '*--cni-cache-dir=[Results of plugins, needed to detach pods; the directory must survive a boot]:DIR:_files' \
                '*--host-network-sources=[Sources whose pods may use the host'\''s network\: file, http, api, or * for all]:LIST:' \
                '*--allow-privileged[Allow privileged containers]' \
                '*--allowed-unsafe-sysctls=[Namespaced sysctls beyond the safe ones, or patterns such as kernel.shm*]:LIST:' \
                '*--allowed-devices=[Devices and their directories that pods may name; all with --allow-privileged]:PATH,...:' \
                '*--pod-security=[Pod Security Standards\: privileged, baseline or restricted; privileged when not given]:\[SOURCE=\]LEVEL\[\:VERSION\],...:' \
                '*--allowed-host-paths=[Allowed paths of hostPath volumes, at or below; with \:ro read-only; all when not given; may be repeated]:LIST:' \
                '*--allowed-images=[Allowed images, or prefixes of images that end with a slash; all when not given; may be repeated]:LIST:' \
                '*--require-image-digest[Every image must be named by its digest]' \
                '*--source-policy=[Rules for the pods of file, http or api, in place of those for all; may be repeated]:SOURCE=NAME=VALUE\[;...\]:' \
                '*--api-address=[Address of the API of this node, for kubectl; no API when not given]:IP\:PORT:' \
                '*--port=[HTTPS port of the kubelet'\''s server, 10250 for the kubelet; 0 for none]:PORT:' \
                '*--address=[Address of the kubelet'\''s server and the read-only one]:IP:' \
                '*--read-only-port=[HTTP port that shows pods and figures to every client; 0 for none]:PORT:' \
                '*--cadvisor-port=[HTTP port that shows figures like cAdvisor, 4194 for old kubelets; 0 for none]:PORT:' \
                '*--healthz-port=[HTTP port of the health checks, 10248 for the kubelet; 0 for none]:PORT:' \
                '*--healthz-bind-address=[Address of the health checks]:IP:' \
                '*--tls-cert-file=[Certificate of the kubelet'\''s server, PEM; one is made when not given]:FILE:_files' \
                '*--tls-private-key-file=[Its private key, PEM]:FILE:_files' \
                '*--cert-dir=[Directory of the certificate that is made; pki below the root directory when not given]:DIR:_files' \
                '*--client-ca-file=[Authorities of client certificates, PEM]:FILE:_files' \
                '*--anonymous-auth[Treat clients without a certificate as system\:anonymous, instead of refusing them]' \
                '*--authorization-mode=[Groups\: by flags; Webhook\: the API server decides; AlwaysAllow\: every known user may]:MODE:(Groups Webhook AlwaysAllow)' \
                '*--authentication-token-webhook[Ask the API server for the user of a bearer token]' \
                '*--authentication-token-webhook-cache-ttl=[How long its answer is valid]:DURATION:' \
                '*--authorization-webhook-cache-authorized-ttl=[How long a permission of the API server is valid, in mode Webhook]:DURATION:' \
                '*--authorization-webhook-cache-unauthorized-ttl=[How long a denial is valid]:DURATION:' \
                '*--authorization-admin-groups=[Groups whose users may do everything]:LIST:' \
                '*--authorization-view-groups=[Groups whose users may read pods, figures and logs of containers]:LIST:' \
                '*--enable-debugging-handlers[Serve logs of containers, exec, attach, run and port-forward]' \
                '*--enable-system-log-handler[Serve the files below /var/log]' \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--root-dir=[State that survives a boot, and the lock; also marks podkeeper'\''s containers]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*--pod-logs-dir=[Links to the logs of containers, by pod; those by container are in containers beside it]:DIR:_files' \
                '*-v[Log more\: 2 decisions, 4 everything]:N:' \
                '*:argument:'
            ;;
        completion)
            _arguments \
                '*:argument:(bash zsh fish)'
            ;;
        kubeconfig)
            _arguments \
                '*--api-address=[Address of the API of this node, for kubectl; no API when not given]:IP\:PORT:' \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--root-dir=[State that survives a boot, and the lock; also marks podkeeper'\''s containers]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*--user=[Name of the user at the API]:NAME:' \
                '*--group=[Rights of the user\: view (read everything but Secrets) or admin (everything)]:GROUP:(view admin)' \
                '*--server=[URL of the API for clients, if it differs from the address where it listens]:URL:' \
                '*:argument:'
            ;;
        page)
            _arguments \
                '*--api-address=[Address of the API of this node, for kubectl; no API when not given]:IP\:PORT:' \
                '*--config=[File of the settings of run, YAML or JSON; flags take precedence]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each overrides earlier ones]:DIR:_files' \
                '*--root-dir=[State that survives a boot, and the lock; also marks podkeeper'\''s containers]:DIR:_files' \
                '*--run-dir=[Directory of the daemon'\''s status file, on tmpfs]:DIR:_files' \
                '*--server=[URL of the API for clients, if it differs from the address where it listens]:URL:' \
                '*:argument:'
            ;;
        join)
            _arguments \
                '*--bootstrap-kubeconfig=[Credentials for requesting the node'\''s own, while the --kubeconfig file has no valid ones]:FILE:_files' \
                '*--token=[Bootstrap token of the cluster]:TOKEN:' \
                '*--ca-cert-hash=[Digest of the key of one of the cluster'\''s authorities; may be repeated]:sha256\:HEX:' \
                '*--unsafe-skip-ca-verification[Trust everything that is signed with the token, which other nodes know, too]' \
                '*:argument:'
            ;;
        hollow)
            _arguments \
                '*--kubeconfig=[Kubeconfig of the API server whose pods are run, with credentials of its node or nodes]:FILE:_files' \
                '*--node-labels=[Labels of this node, for nodeSelector and node affinity of pods; may be repeated]:K=V,...:' \
                '*--max-pods=[Maximum number of pods on this node]:N:' \
                '*--register-with-taints=[Taints of a new node object; an existing one keeps its own]:KEY=VALUE\:EFFECT,...:' \
                '*--node-status-update-frequency=[How often a changed status of the node is sent]:DURATION:' \
                '*--node-lease-duration-seconds=[Duration of the node'\''s lease; it is renewed four times in that time]:SECONDS:' \
                '*-v[Log more\: 2 decisions, 4 everything]:N:' \
                '*--count=[Number of nodes, at most 1000]:N:' \
                '*--name-prefix=[Beginning of the nodes'\'' names; their numbers follow, from 0]:TEXT:' \
                '*--node-capacity=[CPU, memory and ephemeral-storage of each node; may be repeated]:RESOURCE=N,...:' \
                '*--kube-api-qps=[Calls per second of all nodes to the API server, beside their heartbeats]:N:' \
                '*:argument:'
            ;;
        version)
            _arguments \
                '*:argument:'
            ;;
        help)
            _arguments \
                '*:argument:(run check forget drain resume get describe top stats logs restart attach exec cp port-forward debug explain pull load images prune config completion kubeconfig page join hollow version help)'
            ;;
        esac
        ;;
    esac
}

_podkeeper "$@"
