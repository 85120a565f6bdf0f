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
            'check:Check manifests; nothing is run'
            'forget:Forget the last good version of what a source said'
            'drain:Stop all pods in order, and keep them stopped until resume'
            'resume:Start the pods of a drained node again'
            'get:List the pods of this node, its objects and images, or what happened'
            'describe:Show the node or one pod in full, with what is wrong with it'
            'top:Show how much CPU and memory the node or its pods use'
            'stats:Print all figures of the node, its pods, podkeeper and Docker'
            'logs:Print the output of a container'
            'restart:Stop the containers of a pod, and start it anew'
            'attach:Join the streams of a container that runs'
            'exec:Run a command in a container'
            'cp:Copy files and directories from a container that runs, or to it'
            'port-forward:Make ports of a pod reachable on this machine, until Ctrl-C'
            'debug:Add a container to a running pod, to look into it'
            'explain:Tell what a field of a pod means, and what podkeeper does with it'
            'pull:Have Docker pull images, with the credentials of this node'
            'load:Load image archives into Docker'
            'images:List Docker'\''s images, since when each is unused, and why it is kept'
            'prune:Remove dead containers and images that nothing needs'
            'config:Print what would be in force with these flags of run, and where each value comes from'
            'completion:Print what a shell completes command lines by'
            'kubeconfig:Make a user'\''s credentials for the API of this node, and print them for kubectl'
            'page:Print a link that shows this node in a browser, once'
            'join:Find a cluster to be a node of, and write what the daemon asks for its credentials with'
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
                '*--file-check-frequency=[Time between two looks at the manifests, longer at rest; changes are seen at once anyway]:DURATION:' \
                '*--manifest-verify-key=[Take only manifests signed with a minisign key of this file; may be repeated]:FILE:_files' \
                '*--manifest-min-version=[Refuse signed manifests of a lower version\: N or timestamp\:N of the trusted comment]:N:' \
                '*--last-good-key-file=[32 random bytes that seal what is remembered; made below the root directory when not given]:FILE:_files' \
                '*--manifest-url=[URL of manifests; https, or http to loopback]:URL:' \
                '*--manifest-url-header=[Headers of the requests to the URL; may be repeated]:NAME\:VALUE,...:' \
                '*--http-check-frequency=[Time between two requests to the URL, a tenth more or less]:DURATION:' \
                '*--manifest-url-ca-file=[Certificate authorities of the URL'\''s server, PEM; the system'\''s when not given]:FILE:_files' \
                '*--manifest-url-cert-file=[Client certificate for the URL'\''s server, PEM]:FILE:_files' \
                '*--manifest-url-key-file=[Key of the client certificate, PEM]:FILE:_files' \
                '*--manifest-url-allow-insecure[Allow http to other machines\: whoever can change the answer is root on this node]' \
                '*--manifest-url-max-size=[Largest answer of the URL]:BYTES:' \
                '*--kubeconfig=[The API server whose pods with this node'\''s name are run, and who this node is to it]:FILE:_files' \
                '*--api-last-good[Remember the pods of the API server, sealed, for a start without it]' \
                '*--sync-frequency=[Time between two comparisons of all pods with Docker, longer at rest]:DURATION:' \
                '*--runonce[Run the pods of files and URL, report, and end; they go on running]' \
                '*--hostname-override=[Name of this node; the host'\''s own name when not given]:NAME:' \
                '*--node-labels=[Labels of this node, for the nodeSelector of pods; may be repeated]:K=V,...:' \
                '*--node-ip=[Addresses of this node, IPv4 and IPv6; those of the default routes when not given]:IP\[,IP\]:' \
                '*--cluster-dns=[Name servers of pods with dnsPolicy ClusterFirst; the node'\''s own when not given; may be repeated]:IP,...:' \
                '*--cluster-domain=[Domain of the cluster, for search lists and full host names]:DOMAIN:' \
                '*--resolv-conf=[Resolver settings that pods start from; empty for a resolver at 127.0.0.1]:FILE:_files' \
                '*--kube-reserved=[CPU, memory and ephemeral-storage kept for podkeeper and Docker\: pods get the rest]:RESOURCE=N,...:' \
                '*--system-reserved=[The same for everything else on the node]:RESOURCE=N,...:' \
                '*--max-pods=[Most pods on this node]:N:' \
                '*--pod-max-pids=[Most processes of a pod; -1 for no limit]:N:' \
                '*--cgroups-per-qos[Give each pod a cgroup, below one for its class of service]' \
                '*--cgroup-root=[Cgroup in which those of the pods are made, below kubepods; the topmost when not given]:PATH:' \
                '*--device=[Devices below /dev that are one unit of resource podkeeper.dev/NAME; may be repeated]:NAME=PATH,...:' \
                '*--runtime-class=[Runtime of Docker for pods whose runtime class has this handler; may be repeated]:NAME=RUNTIME:' \
                '*--bootstrap-kubeconfig=[Credentials that ask for the node'\''s own, while the file of --kubeconfig has none that hold]:FILE:_files' \
                '*--rotate-certificates[Renew the client certificate that the API server has signed before it ends]' \
                '*--rotate-server-certificates[Have the API server sign the certificate of the kubelet'\''s server, and renew it in time]' \
                '*--register-node[Make the node object at the API server when there is none]' \
                '*--register-with-taints=[Taints of a node object that is made; one that is there keeps its own]:KEY=VALUE\:EFFECT,...:' \
                '*--node-status-update-frequency=[How often a changed status of the node is sent]:DURATION:' \
                '*--node-status-report-frequency=[How often an unchanged status of the node is sent]:DURATION:' \
                '*--node-lease-duration-seconds=[How long the node'\''s lease holds; it is renewed four times in that time]:SECONDS:' \
                '*--node-status-max-images=[Most images in the node'\''s status; -1 for all]:N:' \
                '*--eviction-hard=[Below these pods are evicted at once; empty for none; the kubelet'\''s when not given; may be repeated]:SIGNAL<AMOUNT,...:' \
                '*--eviction-soft=[Below these for their grace period pods are evicted, and may take their time; may be repeated]:SIGNAL<AMOUNT,...:' \
                '*--eviction-soft-grace-period=[How long a soft threshold must be met; for each of them; may be repeated]:SIGNAL=DURATION,...:' \
                '*--eviction-minimum-reclaim=[How much more than its threshold must be there before a shortage is over; may be repeated]:SIGNAL=AMOUNT,...:' \
                '*--eviction-pressure-transition-period=[How long the node counts as short of something after it was seen so]:DURATION:' \
                '*--eviction-max-pod-grace-period=[Most time a pod gets to end at a soft threshold; negative for its own]:SECONDS:' \
                '*--low-diskspace-threshold-mb=[Below so many MiB of disk new pods are refused as OutOfDisk; 0 for never]:MIB:' \
                '*--image-gc-high-threshold=[Unused images are removed when their file system is this full; 100 for never]:PERCENT:' \
                '*--image-gc-low-threshold=[They are removed until it is this full]:PERCENT:' \
                '*--minimum-image-ttl-duration=[No image is removed that came later than so long ago]:DURATION:' \
                '*--image-maximum-gc-age=[Images are removed that were unused for longer, though there is room; 0 for never]:DURATION:' \
                '*--pinned-images=[Images that are never removed; * stands for any characters; may be repeated]:IMAGE,...:' \
                '*--shutdown-grace-period=[Time for all pods to end when the machine goes down; 0 for each pod'\''s own]:DURATION:' \
                '*--shutdown-grace-period-critical-pods=[The part of it that critical pods have, at its end]:DURATION:' \
                '*--protect-kernel-defaults[Do not begin where a setting of the kernel is not as expected, instead of setting it]' \
                '*--enforce-node-allocatable=[What is held to its share\: pods (the default), kube-reserved, system-reserved, none]:WHAT,...:' \
                '*--kube-reserved-cgroup=[The cgroup that kube-reserved limits\: that of podkeeper and Docker]:CGROUP:' \
                '*--system-reserved-cgroup=[The cgroup that system-reserved limits\: that of everything else]:CGROUP:' \
                '*--kubelet-cgroups=[The cgroup that podkeeper moves itself into; it stays where it is when not given]:CGROUP:' \
                '*--runtime-cgroups=[The cgroup that podkeeper moves Docker into; it stays where it is when not given]:CGROUP:' \
                '*--system-cgroups=[The cgroup that everything in the topmost one is moved into; needs --cgroup-root]:CGROUP:' \
                '*--docker-endpoint=[Docker'\''s socket; fake\:// is a Docker in memory, for load tests]:URL:' \
                '*--pod-infra-container-image=[Image of the pods'\'' sandbox; one built into podkeeper when not given]:IMAGE:' \
                '*--docker-network=[Docker network of the pods, made when missing\: there they find each other by name]:NAME:' \
                '*--docker-network-cidr=[Subnets that network is made with, IPv4 and IPv6; Docker'\''s choice when not given; may be repeated]:CIDR,...:' \
                '*--image-pull-progress-deadline=[A pull without progress for so long is given up]:DURATION:' \
                '*--serialize-image-pulls[Pull one image after the other; on unless --max-parallel-image-pulls is 2 or more]' \
                '*--max-parallel-image-pulls=[Most pulls at once when they are not serialized; at most 16]:N:' \
                '*--registry-qps=[Pulls that may begin in a second; one more fails and is backed off; 0 for no limit]:N:' \
                '*--registry-burst=[Pulls that may begin at once, if --registry-qps is not 0]:N:' \
                '*--image-preload-dir=[Image archives (.tar, .tar.gz, .tgz, .tar.zst) that Docker is given; empty for none]:DIR:_files' \
                '*--minimum-container-ttl-duration=[Dead containers that are younger are kept, beyond the number that is]:DURATION:' \
                '*--maximum-dead-containers-per-container=[Dead instances that are kept of each container, at least 1; negative for all]:N:' \
                '*--maximum-dead-containers=[Dead containers that are kept of all pods, beside one of each container; negative for all]:N:' \
                '*--container-log-driver=[Where Docker puts the output of containers\: json-file, local, journald or none]:NAME:(json-file local journald none)' \
                '*--container-log-max-size=[Size at which Docker rotates the log of a container; negative for never]:SIZE:' \
                '*--container-log-max-files=[Most log files of a container; at least 2]:N:' \
                '*--network-plugin=[cni\: pods are attached by the network plugins of this node; empty for Docker'\''s networks]:NAME:' \
                '*--cni-conf-dir=[Network configurations\: the first valid one, by name, is used]:DIR:_files' \
                '*--cni-bin-dir=[Where the programs of network plugins are]:DIR,...:' \
                '*--cni-cache-dir=[What plugins gave to pods\: needed to take it back, so it must outlive a boot]:DIR:_files' \
                '*--host-network-sources=[Sources whose pods may use the host'\''s network\: file, http, api, or * for all]:LIST:' \
                '*--allow-privileged[Let containers ask for privileged mode]' \
                '*--allowed-unsafe-sysctls=[Namespaced sysctls beyond the safe ones, or patterns such as kernel.shm*]:LIST:' \
                '*--allowed-devices=[Devices and their directories that pods may name; all with --allow-privileged]:PATH,...:' \
                '*--pod-security=[Pod Security Standards\: privileged, baseline or restricted; privileged when not given]:\[SOURCE=\]LEVEL\[\:VERSION\],...:' \
                '*--allowed-host-paths=[Paths that hostPath volumes may be at or below, with \:ro read-only; all when not given; may be repeated]:LIST:' \
                '*--allowed-images=[Images, or beginnings of images that end with a slash; all when not given; may be repeated]:LIST:' \
                '*--require-image-digest[Every image must be named by its digest]' \
                '*--source-policy=[Other than for all\: what pods of file, http or api may do and see; may be repeated]:SOURCE=NAME=VALUE\[;...\]:' \
                '*--api-address=[Where kubectl finds the API of this node; nowhere when not given]:IP\:PORT:' \
                '*--port=[HTTPS port of the kubelet'\''s server, 10250 for the kubelet; 0 for none]:PORT:' \
                '*--address=[Where the kubelet'\''s server and the read-only one listen]:IP:' \
                '*--read-only-port=[HTTP port that shows pods and figures to whoever asks; 0 for none]:PORT:' \
                '*--cadvisor-port=[HTTP port that shows figures as cAdvisor does, 4194 for old kubelets; 0 for none]:PORT:' \
                '*--healthz-port=[HTTP port of the health checks, 10248 for the kubelet; 0 for none]:PORT:' \
                '*--healthz-bind-address=[Where the health checks listen]:IP:' \
                '*--tls-cert-file=[Certificate of the kubelet'\''s server, PEM; one is made when not given]:FILE:_files' \
                '*--tls-private-key-file=[Its private key, PEM]:FILE:_files' \
                '*--cert-dir=[Where a certificate that is made is kept; pki below the root directory when not given]:DIR:_files' \
                '*--client-ca-file=[Authorities whose client certificates are known, PEM]:FILE:_files' \
                '*--anonymous-auth[Take who shows no certificate for system\:anonymous, instead of turning them away]' \
                '*--authorization-mode=[Groups\: as flags say; Webhook\: as the API server says; AlwaysAllow\: whoever is known]:MODE:(Groups Webhook AlwaysAllow)' \
                '*--authentication-token-webhook[Ask the API server whose a bearer token is]' \
                '*--authentication-token-webhook-cache-ttl=[How long its answer holds]:DURATION:' \
                '*--authorization-webhook-cache-authorized-ttl=[How long it holds that the API server has allowed something, in mode Webhook]:DURATION:' \
                '*--authorization-webhook-cache-unauthorized-ttl=[How long it holds that it has not]:DURATION:' \
                '*--authorization-admin-groups=[Groups whose users may do everything]:LIST:' \
                '*--authorization-view-groups=[Groups whose users may look at pods, figures and logs of containers]:LIST:' \
                '*--enable-debugging-handlers[Serve logs of containers, exec, attach, run and port-forward]' \
                '*--enable-system-log-handler[Serve the files below /var/log]' \
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--root-dir=[What outlives a boot, and the lock; also marks our containers]:DIR:_files' \
                '*--run-dir=[Where the daemon keeps its status file, on tmpfs]:DIR:_files' \
                '*--pod-logs-dir=[Links to the logs of containers, by pod; those by container are in containers beside it]:DIR:_files' \
                '*-v[Log more\: 2 decisions, 4 everything]:N:' \
                '*:argument:'
            ;;
        check)
            _arguments \
                '*--manifest-verify-key=[Take only manifests signed with a minisign key of this file; may be repeated]:FILE:_files' \
                '*--manifest-min-version=[Refuse signed manifests of a lower version\: N or timestamp\:N of the trusted comment]:N:' \
                '*--verify-key=[The same as --manifest-verify-key; may be repeated]:FILE:_files' \
                '*--strict[Warnings are errors]' \
                '*--source=[Source of the manifests\: file or http; with a path, that of those there; may be repeated]:SOURCE\[=PATH\]:' \
                '*--hostname-override=[Name of this node; the host'\''s own name when not given]:NAME:' \
                '*--node-labels=[Labels of this node, for the nodeSelector of pods; may be repeated]:K=V,...:' \
                '*--kube-reserved=[CPU, memory and ephemeral-storage kept for podkeeper and Docker\: pods get the rest]:RESOURCE=N,...:' \
                '*--system-reserved=[The same for everything else on the node]:RESOURCE=N,...:' \
                '*--max-pods=[Most pods on this node]:N:' \
                '*--device=[Devices below /dev that are one unit of resource podkeeper.dev/NAME; may be repeated]:NAME=PATH,...:' \
                '*--runtime-class=[Runtime of Docker for pods whose runtime class has this handler; may be repeated]:NAME=RUNTIME:' \
                '*--host-network-sources=[Sources whose pods may use the host'\''s network\: file, http, api, or * for all]:LIST:' \
                '*--allow-privileged[Let containers ask for privileged mode]' \
                '*--allowed-unsafe-sysctls=[Namespaced sysctls beyond the safe ones, or patterns such as kernel.shm*]:LIST:' \
                '*--allowed-devices=[Devices and their directories that pods may name; all with --allow-privileged]:PATH,...:' \
                '*--pod-security=[Pod Security Standards\: privileged, baseline or restricted; privileged when not given]:\[SOURCE=\]LEVEL\[\:VERSION\],...:' \
                '*--allowed-host-paths=[Paths that hostPath volumes may be at or below, with \:ro read-only; all when not given; may be repeated]:LIST:' \
                '*--allowed-images=[Images, or beginnings of images that end with a slash; all when not given; may be repeated]:LIST:' \
                '*--require-image-digest[Every image must be named by its digest]' \
                '*--source-policy=[Other than for all\: what pods of file, http or api may do and see; may be repeated]:SOURCE=NAME=VALUE\[;...\]:' \
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--output=[json; else a line for each problem]:FORMAT:(json)' \
                '*-o[json; else a line for each problem]:FORMAT:(json)' \
                '*:argument:_files'
            ;;
        forget)
            _arguments \
                '*--source=[The source that is meant\: file or http]:SOURCE:(file http)' \
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--root-dir=[What outlives a boot, and the lock; also marks our containers]:DIR:_files' \
                '*:argument:'
            ;;
        drain)
            _arguments \
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--root-dir=[What outlives a boot, and the lock; also marks our containers]:DIR:_files' \
                '*--run-dir=[Where the daemon keeps its status file, on tmpfs]:DIR:_files' \
                '*--grace=[Longest grace of any pod; each pod'\''s own when not given]:SECONDS:' \
                '*--timeout=[How long to wait until all are stopped]:DURATION:' \
                '*--until-reboot[The next boot of the machine resumes the node]' \
                '*:argument:'
            ;;
        resume)
            _arguments \
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--root-dir=[What outlives a boot, and the lock; also marks our containers]:DIR:_files' \
                '*--run-dir=[Where the daemon keeps its status file, on tmpfs]:DIR:_files' \
                '*:argument:'
            ;;
        get)
            _arguments \
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--run-dir=[Where the daemon keeps its status file, on tmpfs]:DIR:_files' \
                '*--namespace=[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*-n[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*--all-namespaces[Pods of all namespaces]' \
                '*-A[Pods of all namespaces]' \
                '*--selector=[Only pods with these labels\: app=web,tier!=db,!canary,zone in (a,b)]:LABELS:' \
                '*-l[Only pods with these labels\: app=web,tier!=db,!canary,zone in (a,b)]:LABELS:' \
                '*--field-selector=[Only pods with these fields\: status.phase!=Running,metadata.name=web-node1]:FIELDS:' \
                '*--output=[wide, json, yaml, name, jsonpath=TEMPLATE, custom-columns=NAME\:PATH; else a table]:FORMAT:(wide json yaml name)' \
                '*-o[wide, json, yaml, name, jsonpath=TEMPLATE, custom-columns=NAME\:PATH; else a table]:FORMAT:(wide json yaml name)' \
                '*--watch[After listing, wait and print each row that changes]' \
                '*-w[After listing, wait and print each row that changes]' \
                '*--for=[Of the events, those of this pod]:pod/NAME:' \
                '*--no-headers[Leave the table'\''s heading out]' \
                '*:argument:_podkeeper_kinds configmaps events images node pods secrets sources'
            ;;
        describe)
            _arguments \
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--run-dir=[Where the daemon keeps its status file, on tmpfs]:DIR:_files' \
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
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--run-dir=[Where the daemon keeps its status file, on tmpfs]:DIR:_files' \
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
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--run-dir=[Where the daemon keeps its status file, on tmpfs]:DIR:_files' \
                '*--output=[json or yaml; json when not given]:FORMAT:(json yaml)' \
                '*-o[json or yaml; json when not given]:FORMAT:(json yaml)' \
                '*:argument:'
            ;;
        logs)
            _arguments \
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--run-dir=[Where the daemon keeps its status file, on tmpfs]:DIR:_files' \
                '*--namespace=[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*-n[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*--all-namespaces[Pods of all namespaces]' \
                '*-A[Pods of all namespaces]' \
                '*--selector=[Only pods with these labels\: app=web,tier!=db,!canary,zone in (a,b)]:LABELS:' \
                '*-l[Only pods with these labels\: app=web,tier!=db,!canary,zone in (a,b)]:LABELS:' \
                '*--container=[Container; the pod'\''s default or first one when not given]:NAME:' \
                '*-c[Container; the pod'\''s default or first one when not given]:NAME:' \
                '*--all-containers[Of all containers of the pod, one after the other; with -f together]' \
                '*--follow[Go on printing what comes]' \
                '*-f[Go on printing what comes]' \
                '*--previous[Of the container that ran before this one]' \
                '*-p[Of the container that ran before this one]' \
                '*--timestamps[Put the time before each line]' \
                '*-t[Put the time before each line]' \
                '*--prefix[Put the pod and the container before each line]' \
                '*--tail=[Only the last N lines; -1 for all, which holds when not given, and 10 with -l]:N:' \
                '*--since=[Only lines that are newer than this]:DURATION:' \
                '*--since-time=[Only lines that are newer than this time (RFC 3339)]:TIME:' \
                '*--limit-bytes=[At most so many bytes of each container; all when not given]:BYTES:' \
                '*--max-log-requests=[How many containers may be followed at once]:N:' \
                '*:argument:_podkeeper_pods'
            ;;
        restart)
            _arguments \
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--run-dir=[Where the daemon keeps its status file, on tmpfs]:DIR:_files' \
                '*--namespace=[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*-n[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*:argument:_podkeeper_pods'
            ;;
        attach)
            _arguments \
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--run-dir=[Where the daemon keeps its status file, on tmpfs]:DIR:_files' \
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
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--run-dir=[Where the daemon keeps its status file, on tmpfs]:DIR:_files' \
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
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--run-dir=[Where the daemon keeps its status file, on tmpfs]:DIR:_files' \
                '*--namespace=[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*-n[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*--container=[Container; the pod'\''s default or first one when not given]:NAME:' \
                '*-c[Container; the pod'\''s default or first one when not given]:NAME:' \
                '*--no-preserve[Do not keep the permissions of files that are copied into a container]' \
                '*:argument:_files'
            ;;
        port-forward)
            _arguments \
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--run-dir=[Where the daemon keeps its status file, on tmpfs]:DIR:_files' \
                '*--namespace=[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*-n[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*--listen=[Addresses of this machine at which the ports are reachable]:ADDRESSES:' \
                '*:argument:_podkeeper_pods'
            ;;
        debug)
            _arguments \
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--run-dir=[Where the daemon keeps its status file, on tmpfs]:DIR:_files' \
                '*--namespace=[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*-n[Namespace of the pod; a node has no current one]:NAMESPACE:' \
                '*--container=[Container; the pod'\''s default or first one when not given]:NAME:' \
                '*-c[Container; the pod'\''s default or first one when not given]:NAME:' \
                '*--stdin[Pass standard input to the command]' \
                '*-i[Pass standard input to the command]' \
                '*--tty[Give the command a terminal]' \
                '*-t[Give the command a terminal]' \
                '*--image=[Image of the container that is added]:IMAGE:' \
                '*--target=[Container of the pod whose processes the added one sees]:CONTAINER:' \
                '*--profile=[What it may do\: legacy, general, baseline, restricted, netadmin or sysadmin]:PROFILE:(legacy general baseline restricted netadmin sysadmin)' \
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
                '*--image-pull-progress-deadline=[A pull without progress for so long is given up]:DURATION:' \
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--root-dir=[What outlives a boot, and the lock; also marks our containers]:DIR:_files' \
                '*:argument:'
            ;;
        load)
            _arguments \
                '*--docker-endpoint=[Docker'\''s socket; fake\:// is a Docker in memory, for load tests]:URL:' \
                '*--image-pull-progress-deadline=[A pull without progress for so long is given up]:DURATION:' \
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*:argument:_files'
            ;;
        images)
            _arguments \
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--run-dir=[Where the daemon keeps its status file, on tmpfs]:DIR:_files' \
                '*--output=[wide, json, yaml, name, jsonpath=TEMPLATE, custom-columns=NAME\:PATH; else a table]:FORMAT:(wide json yaml name)' \
                '*-o[wide, json, yaml, name, jsonpath=TEMPLATE, custom-columns=NAME\:PATH; else a table]:FORMAT:(wide json yaml name)' \
                '*--no-headers[Leave the table'\''s heading out]' \
                '*:argument:'
            ;;
        prune)
            _arguments \
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--run-dir=[Where the daemon keeps its status file, on tmpfs]:DIR:_files' \
                '*--dry-run[Remove nothing, and tell what would be removed]' \
                '*--prune-build-cache[Remove Docker'\''s build cache, too]' \
                '*:argument:'
            ;;
        config)
            _arguments \
                '*--pod-manifest-path=[Directory of manifests (.yaml, .yml, .json), or one file]:PATH:_files' \
                '*--file-check-frequency=[Time between two looks at the manifests, longer at rest; changes are seen at once anyway]:DURATION:' \
                '*--manifest-verify-key=[Take only manifests signed with a minisign key of this file; may be repeated]:FILE:_files' \
                '*--manifest-min-version=[Refuse signed manifests of a lower version\: N or timestamp\:N of the trusted comment]:N:' \
                '*--last-good-key-file=[32 random bytes that seal what is remembered; made below the root directory when not given]:FILE:_files' \
                '*--manifest-url=[URL of manifests; https, or http to loopback]:URL:' \
                '*--manifest-url-header=[Headers of the requests to the URL; may be repeated]:NAME\:VALUE,...:' \
                '*--http-check-frequency=[Time between two requests to the URL, a tenth more or less]:DURATION:' \
                '*--manifest-url-ca-file=[Certificate authorities of the URL'\''s server, PEM; the system'\''s when not given]:FILE:_files' \
                '*--manifest-url-cert-file=[Client certificate for the URL'\''s server, PEM]:FILE:_files' \
                '*--manifest-url-key-file=[Key of the client certificate, PEM]:FILE:_files' \
                '*--manifest-url-allow-insecure[Allow http to other machines\: whoever can change the answer is root on this node]' \
                '*--manifest-url-max-size=[Largest answer of the URL]:BYTES:' \
                '*--kubeconfig=[The API server whose pods with this node'\''s name are run, and who this node is to it]:FILE:_files' \
                '*--api-last-good[Remember the pods of the API server, sealed, for a start without it]' \
                '*--sync-frequency=[Time between two comparisons of all pods with Docker, longer at rest]:DURATION:' \
                '*--runonce[Run the pods of files and URL, report, and end; they go on running]' \
                '*--hostname-override=[Name of this node; the host'\''s own name when not given]:NAME:' \
                '*--node-labels=[Labels of this node, for the nodeSelector of pods; may be repeated]:K=V,...:' \
                '*--node-ip=[Addresses of this node, IPv4 and IPv6; those of the default routes when not given]:IP\[,IP\]:' \
                '*--cluster-dns=[Name servers of pods with dnsPolicy ClusterFirst; the node'\''s own when not given; may be repeated]:IP,...:' \
                '*--cluster-domain=[Domain of the cluster, for search lists and full host names]:DOMAIN:' \
                '*--resolv-conf=[Resolver settings that pods start from; empty for a resolver at 127.0.0.1]:FILE:_files' \
                '*--kube-reserved=[CPU, memory and ephemeral-storage kept for podkeeper and Docker\: pods get the rest]:RESOURCE=N,...:' \
                '*--system-reserved=[The same for everything else on the node]:RESOURCE=N,...:' \
                '*--max-pods=[Most pods on this node]:N:' \
                '*--pod-max-pids=[Most processes of a pod; -1 for no limit]:N:' \
                '*--cgroups-per-qos[Give each pod a cgroup, below one for its class of service]' \
                '*--cgroup-root=[Cgroup in which those of the pods are made, below kubepods; the topmost when not given]:PATH:' \
                '*--device=[Devices below /dev that are one unit of resource podkeeper.dev/NAME; may be repeated]:NAME=PATH,...:' \
                '*--runtime-class=[Runtime of Docker for pods whose runtime class has this handler; may be repeated]:NAME=RUNTIME:' \
                '*--bootstrap-kubeconfig=[Credentials that ask for the node'\''s own, while the file of --kubeconfig has none that hold]:FILE:_files' \
                '*--rotate-certificates[Renew the client certificate that the API server has signed before it ends]' \
                '*--rotate-server-certificates[Have the API server sign the certificate of the kubelet'\''s server, and renew it in time]' \
                '*--register-node[Make the node object at the API server when there is none]' \
                '*--register-with-taints=[Taints of a node object that is made; one that is there keeps its own]:KEY=VALUE\:EFFECT,...:' \
                '*--node-status-update-frequency=[How often a changed status of the node is sent]:DURATION:' \
                '*--node-status-report-frequency=[How often an unchanged status of the node is sent]:DURATION:' \
                '*--node-lease-duration-seconds=[How long the node'\''s lease holds; it is renewed four times in that time]:SECONDS:' \
                '*--node-status-max-images=[Most images in the node'\''s status; -1 for all]:N:' \
                '*--eviction-hard=[Below these pods are evicted at once; empty for none; the kubelet'\''s when not given; may be repeated]:SIGNAL<AMOUNT,...:' \
                '*--eviction-soft=[Below these for their grace period pods are evicted, and may take their time; may be repeated]:SIGNAL<AMOUNT,...:' \
                '*--eviction-soft-grace-period=[How long a soft threshold must be met; for each of them; may be repeated]:SIGNAL=DURATION,...:' \
                '*--eviction-minimum-reclaim=[How much more than its threshold must be there before a shortage is over; may be repeated]:SIGNAL=AMOUNT,...:' \
                '*--eviction-pressure-transition-period=[How long the node counts as short of something after it was seen so]:DURATION:' \
                '*--eviction-max-pod-grace-period=[Most time a pod gets to end at a soft threshold; negative for its own]:SECONDS:' \
                '*--low-diskspace-threshold-mb=[Below so many MiB of disk new pods are refused as OutOfDisk; 0 for never]:MIB:' \
                '*--image-gc-high-threshold=[Unused images are removed when their file system is this full; 100 for never]:PERCENT:' \
                '*--image-gc-low-threshold=[They are removed until it is this full]:PERCENT:' \
                '*--minimum-image-ttl-duration=[No image is removed that came later than so long ago]:DURATION:' \
                '*--image-maximum-gc-age=[Images are removed that were unused for longer, though there is room; 0 for never]:DURATION:' \
                '*--pinned-images=[Images that are never removed; * stands for any characters; may be repeated]:IMAGE,...:' \
                '*--shutdown-grace-period=[Time for all pods to end when the machine goes down; 0 for each pod'\''s own]:DURATION:' \
                '*--shutdown-grace-period-critical-pods=[The part of it that critical pods have, at its end]:DURATION:' \
                '*--protect-kernel-defaults[Do not begin where a setting of the kernel is not as expected, instead of setting it]' \
                '*--enforce-node-allocatable=[What is held to its share\: pods (the default), kube-reserved, system-reserved, none]:WHAT,...:' \
                '*--kube-reserved-cgroup=[The cgroup that kube-reserved limits\: that of podkeeper and Docker]:CGROUP:' \
                '*--system-reserved-cgroup=[The cgroup that system-reserved limits\: that of everything else]:CGROUP:' \
                '*--kubelet-cgroups=[The cgroup that podkeeper moves itself into; it stays where it is when not given]:CGROUP:' \
                '*--runtime-cgroups=[The cgroup that podkeeper moves Docker into; it stays where it is when not given]:CGROUP:' \
                '*--system-cgroups=[The cgroup that everything in the topmost one is moved into; needs --cgroup-root]:CGROUP:' \
                '*--docker-endpoint=[Docker'\''s socket; fake\:// is a Docker in memory, for load tests]:URL:' \
                '*--pod-infra-container-image=[Image of the pods'\'' sandbox; one built into podkeeper when not given]:IMAGE:' \
                '*--docker-network=[Docker network of the pods, made when missing\: there they find each other by name]:NAME:' \
                '*--docker-network-cidr=[Subnets that network is made with, IPv4 and IPv6; Docker'\''s choice when not given; may be repeated]:CIDR,...:' \
                '*--image-pull-progress-deadline=[A pull without progress for so long is given up]:DURATION:' \
                '*--serialize-image-pulls[Pull one image after the other; on unless --max-parallel-image-pulls is 2 or more]' \
                '*--max-parallel-image-pulls=[Most pulls at once when they are not serialized; at most 16]:N:' \
                '*--registry-qps=[Pulls that may begin in a second; one more fails and is backed off; 0 for no limit]:N:' \
                '*--registry-burst=[Pulls that may begin at once, if --registry-qps is not 0]:N:' \
                '*--image-preload-dir=[Image archives (.tar, .tar.gz, .tgz, .tar.zst) that Docker is given; empty for none]:DIR:_files' \
                '*--minimum-container-ttl-duration=[Dead containers that are younger are kept, beyond the number that is]:DURATION:' \
                '*--maximum-dead-containers-per-container=[Dead instances that are kept of each container, at least 1; negative for all]:N:' \
                '*--maximum-dead-containers=[Dead containers that are kept of all pods, beside one of each container; negative for all]:N:' \
                '*--container-log-driver=[Where Docker puts the output of containers\: json-file, local, journald or none]:NAME:(json-file local journald none)' \
                '*--container-log-max-size=[Size at which Docker rotates the log of a container; negative for never]:SIZE:' \
                '*--container-log-max-files=[Most log files of a container; at least 2]:N:' \
                '*--network-plugin=[cni\: pods are attached by the network plugins of this node; empty for Docker'\''s networks]:NAME:' \
                '*--cni-conf-dir=[Network configurations\: the first valid one, by name, is used]:DIR:_files' \
                '*--cni-bin-dir=[Where the programs of network plugins are]:DIR,...:' \
                '*--cni-cache-dir=[What plugins gave to pods\: needed to take it back, so it must outlive a boot]:DIR:_files' \
                '*--host-network-sources=[Sources whose pods may use the host'\''s network\: file, http, api, or * for all]:LIST:' \
                '*--allow-privileged[Let containers ask for privileged mode]' \
                '*--allowed-unsafe-sysctls=[Namespaced sysctls beyond the safe ones, or patterns such as kernel.shm*]:LIST:' \
                '*--allowed-devices=[Devices and their directories that pods may name; all with --allow-privileged]:PATH,...:' \
                '*--pod-security=[Pod Security Standards\: privileged, baseline or restricted; privileged when not given]:\[SOURCE=\]LEVEL\[\:VERSION\],...:' \
                '*--allowed-host-paths=[Paths that hostPath volumes may be at or below, with \:ro read-only; all when not given; may be repeated]:LIST:' \
                '*--allowed-images=[Images, or beginnings of images that end with a slash; all when not given; may be repeated]:LIST:' \
                '*--require-image-digest[Every image must be named by its digest]' \
                '*--source-policy=[Other than for all\: what pods of file, http or api may do and see; may be repeated]:SOURCE=NAME=VALUE\[;...\]:' \
                '*--api-address=[Where kubectl finds the API of this node; nowhere when not given]:IP\:PORT:' \
                '*--port=[HTTPS port of the kubelet'\''s server, 10250 for the kubelet; 0 for none]:PORT:' \
                '*--address=[Where the kubelet'\''s server and the read-only one listen]:IP:' \
                '*--read-only-port=[HTTP port that shows pods and figures to whoever asks; 0 for none]:PORT:' \
                '*--cadvisor-port=[HTTP port that shows figures as cAdvisor does, 4194 for old kubelets; 0 for none]:PORT:' \
                '*--healthz-port=[HTTP port of the health checks, 10248 for the kubelet; 0 for none]:PORT:' \
                '*--healthz-bind-address=[Where the health checks listen]:IP:' \
                '*--tls-cert-file=[Certificate of the kubelet'\''s server, PEM; one is made when not given]:FILE:_files' \
                '*--tls-private-key-file=[Its private key, PEM]:FILE:_files' \
                '*--cert-dir=[Where a certificate that is made is kept; pki below the root directory when not given]:DIR:_files' \
                '*--client-ca-file=[Authorities whose client certificates are known, PEM]:FILE:_files' \
                '*--anonymous-auth[Take who shows no certificate for system\:anonymous, instead of turning them away]' \
                '*--authorization-mode=[Groups\: as flags say; Webhook\: as the API server says; AlwaysAllow\: whoever is known]:MODE:(Groups Webhook AlwaysAllow)' \
                '*--authentication-token-webhook[Ask the API server whose a bearer token is]' \
                '*--authentication-token-webhook-cache-ttl=[How long its answer holds]:DURATION:' \
                '*--authorization-webhook-cache-authorized-ttl=[How long it holds that the API server has allowed something, in mode Webhook]:DURATION:' \
                '*--authorization-webhook-cache-unauthorized-ttl=[How long it holds that it has not]:DURATION:' \
                '*--authorization-admin-groups=[Groups whose users may do everything]:LIST:' \
                '*--authorization-view-groups=[Groups whose users may look at pods, figures and logs of containers]:LIST:' \
                '*--enable-debugging-handlers[Serve logs of containers, exec, attach, run and port-forward]' \
                '*--enable-system-log-handler[Serve the files below /var/log]' \
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--root-dir=[What outlives a boot, and the lock; also marks our containers]:DIR:_files' \
                '*--run-dir=[Where the daemon keeps its status file, on tmpfs]:DIR:_files' \
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
                '*--api-address=[Where kubectl finds the API of this node; nowhere when not given]:IP\:PORT:' \
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--root-dir=[What outlives a boot, and the lock; also marks our containers]:DIR:_files' \
                '*--run-dir=[Where the daemon keeps its status file, on tmpfs]:DIR:_files' \
                '*--user=[Whom the API calls the user]:NAME:' \
                '*--group=[What the user may do\: view (everything but Secrets is seen) or admin (everything)]:GROUP:(view admin)' \
                '*--server=[How clients reach the API, where that is not where it listens]:URL:' \
                '*:argument:'
            ;;
        page)
            _arguments \
                '*--api-address=[Where kubectl finds the API of this node; nowhere when not given]:IP\:PORT:' \
                '*--config=[Settings of run that no flag gives, as YAML or JSON]:FILE:_files' \
                '*--config-dir=[Further such files, *.conf by name; each changes what earlier ones say]:DIR:_files' \
                '*--root-dir=[What outlives a boot, and the lock; also marks our containers]:DIR:_files' \
                '*--run-dir=[Where the daemon keeps its status file, on tmpfs]:DIR:_files' \
                '*--server=[How clients reach the API, where that is not where it listens]:URL:' \
                '*:argument:'
            ;;
        join)
            _arguments \
                '*--bootstrap-kubeconfig=[Credentials that ask for the node'\''s own, while the file of --kubeconfig has none that hold]:FILE:_files' \
                '*--token=[Bootstrap token of the cluster]:TOKEN:' \
                '*--ca-cert-hash=[Digest of the key of one of the cluster'\''s authorities; may be repeated]:sha256\:HEX:' \
                '*--unsafe-skip-ca-verification[Believe whatever is signed with the token\: other nodes know it too]' \
                '*:argument:'
            ;;
        version)
            _arguments \
                '*:argument:'
            ;;
        help)
            _arguments \
                '*:argument:(run check forget drain resume get describe top stats logs restart attach exec cp port-forward debug explain pull load images prune config completion kubeconfig page join version help)'
            ;;
        esac
        ;;
    esac
}

_podkeeper "$@"
