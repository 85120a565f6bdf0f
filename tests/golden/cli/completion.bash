# Completion of podkeeper for bash; printed by: podkeeper completion bash
_podkeeper_pods() {
    # Of the daemon and the namespace that the line names so far.
    local i value given=()
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --run-dir | --config | --namespace | -n)
            value=$((i + 1))
            [ "${COMP_WORDS[value]}" != = ] || value=$((i + 2))
            [ "$value" -ge "$COMP_CWORD" ] || given+=("${COMP_WORDS[i]}" "${COMP_WORDS[value]}")
            ;;
        esac
    done
    podkeeper get pods "${given[@]}" --output name 2>/dev/null | sed 's,^pod/,,'
}

_podkeeper() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}
    local flags='' words='' kinds='' i
    COMPREPLY=()
    # Behind -- stands the command of a container.
    for ((i = 1; i < COMP_CWORD; i++)); do
        [ "${COMP_WORDS[i]}" != -- ] || return
    done
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W 'run check forget drain resume get describe top stats logs restart attach exec cp port-forward debug explain pull load images prune config completion kubeconfig page join hollow version help --help --version' -- "$current"))
        return
    fi
    case $verb:$before in
    run:--container-log-driver)
        COMPREPLY=($(compgen -W 'json-file local journald none' -- "$current"))
        return
        ;;
    run:--authorization-mode)
        COMPREPLY=($(compgen -W 'Groups Webhook AlwaysAllow' -- "$current"))
        return
        ;;
    run:--pod-manifest-path | run:--manifest-verify-key | run:--last-good-key-file | run:--manifest-url-ca-file | run:--manifest-url-cert-file | run:--manifest-url-key-file | run:--kubeconfig | run:--resolv-conf | run:--bootstrap-kubeconfig | run:--image-preload-dir | run:--cni-conf-dir | run:--cni-cache-dir | run:--tls-cert-file | run:--tls-private-key-file | run:--cert-dir | run:--client-ca-file | run:--config | run:--config-dir | run:--root-dir | run:--run-dir | run:--pod-logs-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    run:--file-check-frequency | run:--manifest-min-version | run:--manifest-url | run:--manifest-url-header | run:--http-check-frequency | run:--manifest-url-max-size | run:--sync-frequency | run:--hostname-override | run:--node-labels | run:--node-ip | run:--cluster-dns | run:--cluster-domain | run:--kube-reserved | run:--system-reserved | run:--max-pods | run:--pod-max-pids | run:--max-container-restart-period | run:--cgroup-root | run:--device | run:--runtime-class | run:--register-with-taints | run:--node-status-update-frequency | run:--node-status-report-frequency | run:--node-lease-duration-seconds | run:--node-status-max-images | run:--eviction-hard | run:--eviction-soft | run:--eviction-soft-grace-period | run:--eviction-minimum-reclaim | run:--eviction-pressure-transition-period | run:--eviction-max-pod-grace-period | run:--low-diskspace-threshold-mb | run:--image-gc-high-threshold | run:--image-gc-low-threshold | run:--minimum-image-ttl-duration | run:--image-maximum-gc-age | run:--pinned-images | run:--shutdown-grace-period | run:--shutdown-grace-period-critical-pods | run:--enforce-node-allocatable | run:--kube-reserved-cgroup | run:--system-reserved-cgroup | run:--kubelet-cgroups | run:--runtime-cgroups | run:--system-cgroups | run:--docker-endpoint | run:--pod-infra-container-image | run:--docker-network | run:--docker-network-cidr | run:--image-pull-progress-deadline | run:--max-parallel-image-pulls | run:--registry-qps | run:--registry-burst | run:--minimum-container-ttl-duration | run:--maximum-dead-containers-per-container | run:--maximum-dead-containers | run:--container-log-max-size | run:--container-log-max-files | run:--network-plugin | run:--cni-bin-dir | run:--host-network-sources | run:--allowed-unsafe-sysctls | run:--allowed-devices | run:--pod-security | run:--allowed-host-paths | run:--allowed-images | run:--source-policy | run:--api-address | run:--port | run:--address | run:--read-only-port | run:--cadvisor-port | run:--healthz-port | run:--healthz-bind-address | run:--authentication-token-webhook-cache-ttl | run:--authorization-webhook-cache-authorized-ttl | run:--authorization-webhook-cache-unauthorized-ttl | run:--authorization-admin-groups | run:--authorization-view-groups | run:-v) return ;;
    check:--output | check:-o)
        COMPREPLY=($(compgen -W 'json' -- "$current"))
        return
        ;;
    check:--manifest-verify-key | check:--verify-key | check:--config | check:--config-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    check:--manifest-min-version | check:--source | check:--hostname-override | check:--node-labels | check:--kube-reserved | check:--system-reserved | check:--max-pods | check:--device | check:--runtime-class | check:--host-network-sources | check:--allowed-unsafe-sysctls | check:--allowed-devices | check:--pod-security | check:--allowed-host-paths | check:--allowed-images | check:--source-policy) return ;;
    forget:--source)
        COMPREPLY=($(compgen -W 'file http' -- "$current"))
        return
        ;;
    forget:--config | forget:--config-dir | forget:--root-dir | forget:--run-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    drain:--config | drain:--config-dir | drain:--root-dir | drain:--run-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    drain:--grace | drain:--timeout) return ;;
    resume:--config | resume:--config-dir | resume:--root-dir | resume:--run-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    get:--output | get:-o)
        COMPREPLY=($(compgen -W 'wide json yaml name' -- "$current"))
        return
        ;;
    get:--config | get:--config-dir | get:--run-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    get:--namespace | get:-n | get:--selector | get:-l | get:--field-selector | get:--for) return ;;
    describe:--config | describe:--config-dir | describe:--run-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    describe:--namespace | describe:-n | describe:--selector | describe:-l) return ;;
    top:--sort-by)
        COMPREPLY=($(compgen -W 'cpu memory' -- "$current"))
        return
        ;;
    top:--config | top:--config-dir | top:--run-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    top:--namespace | top:-n | top:--selector | top:-l) return ;;
    stats:--output | stats:-o)
        COMPREPLY=($(compgen -W 'json yaml' -- "$current"))
        return
        ;;
    stats:--config | stats:--config-dir | stats:--run-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    logs:--config | logs:--config-dir | logs:--run-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    logs:--namespace | logs:-n | logs:--selector | logs:-l | logs:--container | logs:-c | logs:--tail | logs:--since | logs:--since-time | logs:--limit-bytes | logs:--max-log-requests) return ;;
    restart:--config | restart:--config-dir | restart:--run-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    restart:--namespace | restart:-n) return ;;
    attach:--config | attach:--config-dir | attach:--run-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    attach:--namespace | attach:-n | attach:--container | attach:-c) return ;;
    exec:--config | exec:--config-dir | exec:--run-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    exec:--namespace | exec:-n | exec:--container | exec:-c) return ;;
    cp:--config | cp:--config-dir | cp:--run-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    cp:--namespace | cp:-n | cp:--container | cp:-c) return ;;
    port-forward:--config | port-forward:--config-dir | port-forward:--run-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    port-forward:--namespace | port-forward:-n | port-forward:--listen) return ;;
    debug:--profile)
        COMPREPLY=($(compgen -W 'legacy general baseline restricted netadmin sysadmin' -- "$current"))
        return
        ;;
    debug:--config | debug:--config-dir | debug:--run-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    debug:--namespace | debug:-n | debug:--container | debug:-c | debug:--image | debug:--target) return ;;
    pull:--config | pull:--config-dir | pull:--root-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    pull:--docker-endpoint | pull:--image-pull-progress-deadline) return ;;
    load:--config | load:--config-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    load:--docker-endpoint | load:--image-pull-progress-deadline) return ;;
    images:--output | images:-o)
        COMPREPLY=($(compgen -W 'wide json yaml name' -- "$current"))
        return
        ;;
    images:--config | images:--config-dir | images:--run-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    prune:--config | prune:--config-dir | prune:--run-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    config:--container-log-driver)
        COMPREPLY=($(compgen -W 'json-file local journald none' -- "$current"))
        return
        ;;
    config:--authorization-mode)
        COMPREPLY=($(compgen -W 'Groups Webhook AlwaysAllow' -- "$current"))
        return
        ;;
    config:--pod-manifest-path | config:--manifest-verify-key | config:--last-good-key-file | config:--manifest-url-ca-file | config:--manifest-url-cert-file | config:--manifest-url-key-file | config:--kubeconfig | config:--resolv-conf | config:--bootstrap-kubeconfig | config:--image-preload-dir | config:--cni-conf-dir | config:--cni-cache-dir | config:--tls-cert-file | config:--tls-private-key-file | config:--cert-dir | config:--client-ca-file | config:--config | config:--config-dir | config:--root-dir | config:--run-dir | config:--pod-logs-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    config:--file-check-frequency | config:--manifest-min-version | config:--manifest-url | config:--manifest-url-header | config:--http-check-frequency | config:--manifest-url-max-size | config:--sync-frequency | config:--hostname-override | config:--node-labels | config:--node-ip | config:--cluster-dns | config:--cluster-domain | config:--kube-reserved | config:--system-reserved | config:--max-pods | config:--pod-max-pids | config:--max-container-restart-period | config:--cgroup-root | config:--device | config:--runtime-class | config:--register-with-taints | config:--node-status-update-frequency | config:--node-status-report-frequency | config:--node-lease-duration-seconds | config:--node-status-max-images | config:--eviction-hard | config:--eviction-soft | config:--eviction-soft-grace-period | config:--eviction-minimum-reclaim | config:--eviction-pressure-transition-period | config:--eviction-max-pod-grace-period | config:--low-diskspace-threshold-mb | config:--image-gc-high-threshold | config:--image-gc-low-threshold | config:--minimum-image-ttl-duration | config:--image-maximum-gc-age | config:--pinned-images | config:--shutdown-grace-period | config:--shutdown-grace-period-critical-pods | config:--enforce-node-allocatable | config:--kube-reserved-cgroup | config:--system-reserved-cgroup | config:--kubelet-cgroups | config:--runtime-cgroups | config:--system-cgroups | config:--docker-endpoint | config:--pod-infra-container-image | config:--docker-network | config:--docker-network-cidr | config:--image-pull-progress-deadline | config:--max-parallel-image-pulls | config:--registry-qps | config:--registry-burst | config:--minimum-container-ttl-duration | config:--maximum-dead-containers-per-container | config:--maximum-dead-containers | config:--container-log-max-size | config:--container-log-max-files | config:--network-plugin | config:--cni-bin-dir | config:--host-network-sources | config:--allowed-unsafe-sysctls | config:--allowed-devices | config:--pod-security | config:--allowed-host-paths | config:--allowed-images | config:--source-policy | config:--api-address | config:--port | config:--address | config:--read-only-port | config:--cadvisor-port | config:--healthz-port | config:--healthz-bind-address | config:--authentication-token-webhook-cache-ttl | config:--authorization-webhook-cache-authorized-ttl | config:--authorization-webhook-cache-unauthorized-ttl | config:--authorization-admin-groups | config:--authorization-view-groups | config:-v) return ;;
    kubeconfig:--group)
        COMPREPLY=($(compgen -W 'view admin' -- "$current"))
        return
        ;;
    kubeconfig:--config | kubeconfig:--config-dir | kubeconfig:--root-dir | kubeconfig:--run-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    kubeconfig:--api-address | kubeconfig:--user | kubeconfig:--server) return ;;
    page:--config | page:--config-dir | page:--root-dir | page:--run-dir)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    page:--api-address | page:--server) return ;;
    join:--bootstrap-kubeconfig)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    join:--token | join:--ca-cert-hash) return ;;
    hollow:--kubeconfig)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
    hollow:--node-labels | hollow:--max-pods | hollow:--register-with-taints | hollow:--node-status-update-frequency | hollow:--node-lease-duration-seconds | hollow:-v | hollow:--count | hollow:--name-prefix | hollow:--node-capacity | hollow:--kube-api-qps) return ;;
    esac
    case $verb in
    run) flags='--pod-manifest-path --file-check-frequency --manifest-verify-key --manifest-min-version --last-good-key-file --manifest-url --manifest-url-header --http-check-frequency --manifest-url-ca-file --manifest-url-cert-file --manifest-url-key-file --manifest-url-allow-insecure --manifest-url-max-size --kubeconfig --api-last-good --sync-frequency --runonce --hostname-override --node-labels --node-ip --cluster-dns --cluster-domain --resolv-conf --kube-reserved --system-reserved --max-pods --pod-max-pids --max-container-restart-period --cgroups-per-qos --cgroup-root --device --runtime-class --bootstrap-kubeconfig --rotate-certificates --rotate-server-certificates --register-node --register-with-taints --node-status-update-frequency --node-status-report-frequency --node-lease-duration-seconds --node-status-max-images --eviction-hard --eviction-soft --eviction-soft-grace-period --eviction-minimum-reclaim --eviction-pressure-transition-period --eviction-max-pod-grace-period --low-diskspace-threshold-mb --image-gc-high-threshold --image-gc-low-threshold --minimum-image-ttl-duration --image-maximum-gc-age --pinned-images --shutdown-grace-period --shutdown-grace-period-critical-pods --protect-kernel-defaults --enforce-node-allocatable --kube-reserved-cgroup --system-reserved-cgroup --kubelet-cgroups --runtime-cgroups --system-cgroups --docker-endpoint --pod-infra-container-image --docker-network --docker-network-cidr --image-pull-progress-deadline --serialize-image-pulls --max-parallel-image-pulls --registry-qps --registry-burst --image-preload-dir --minimum-container-ttl-duration --maximum-dead-containers-per-container --maximum-dead-containers --container-log-driver --container-log-max-size --container-log-max-files --network-plugin --cni-conf-dir --cni-bin-dir --cni-cache-dir --host-network-sources --allow-privileged --allowed-unsafe-sysctls --allowed-devices --pod-security --allowed-host-paths --allowed-images --require-image-digest --source-policy --api-address --port --address --read-only-port --cadvisor-port --healthz-port --healthz-bind-address --tls-cert-file --tls-private-key-file --cert-dir --client-ca-file --anonymous-auth --authorization-mode --authentication-token-webhook --authentication-token-webhook-cache-ttl --authorization-webhook-cache-authorized-ttl --authorization-webhook-cache-unauthorized-ttl --authorization-admin-groups --authorization-view-groups --enable-debugging-handlers --enable-system-log-handler --config --config-dir --root-dir --run-dir --pod-logs-dir -v' words='' ;;
    check) flags='--manifest-verify-key --manifest-min-version --verify-key --strict --source --hostname-override --node-labels --kube-reserved --system-reserved --max-pods --device --runtime-class --host-network-sources --allow-privileged --allowed-unsafe-sysctls --allowed-devices --pod-security --allowed-host-paths --allowed-images --require-image-digest --source-policy --config --config-dir --output -o' words=@files ;;
    forget) flags='--source --config --config-dir --root-dir --run-dir' words='' ;;
    drain) flags='--config --config-dir --root-dir --run-dir --grace --timeout --until-reboot --shutdown' words='' ;;
    resume) flags='--config --config-dir --root-dir --run-dir --shutdown' words='' ;;
    get) flags='--config --config-dir --run-dir --namespace -n --all-namespaces -A --selector -l --field-selector --output -o --watch -w --for --no-headers' words='' kinds='configmaps events images node pods secrets sources' ;;
    describe) flags='--config --config-dir --run-dir --namespace -n --all-namespaces -A --selector -l' words='' kinds='node pod' ;;
    top) flags='--config --config-dir --run-dir --namespace -n --all-namespaces -A --selector -l --no-headers --containers --sort-by' words='' kinds='node pods' ;;
    stats) flags='--config --config-dir --run-dir --output -o' words='' ;;
    logs) flags='--config --config-dir --run-dir --namespace -n --all-namespaces -A --selector -l --container -c --all-containers --follow -f --previous -p --timestamps -t --prefix --tail --since --since-time --limit-bytes --max-log-requests' words=@pods ;;
    restart) flags='--config --config-dir --run-dir --namespace -n' words=@pods ;;
    attach) flags='--config --config-dir --run-dir --namespace -n --container -c --stdin -i --tty -t' words=@pods ;;
    exec) flags='--config --config-dir --run-dir --namespace -n --container -c --stdin -i --tty -t' words=@pods ;;
    cp) flags='--config --config-dir --run-dir --namespace -n --container -c --no-preserve' words=@files ;;
    port-forward) flags='--config --config-dir --run-dir --namespace -n --listen' words=@pods ;;
    debug) flags='--config --config-dir --run-dir --namespace -n --container -c --stdin -i --tty -t --image --target --profile' words=@pods ;;
    explain) flags='--recursive' words='' ;;
    pull) flags='--docker-endpoint --image-pull-progress-deadline --config --config-dir --root-dir' words='' ;;
    load) flags='--docker-endpoint --image-pull-progress-deadline --config --config-dir' words=@files ;;
    images) flags='--config --config-dir --run-dir --output -o --no-headers' words='' ;;
    prune) flags='--config --config-dir --run-dir --dry-run --prune-build-cache' words='' ;;
    config) flags='--pod-manifest-path --file-check-frequency --manifest-verify-key --manifest-min-version --last-good-key-file --manifest-url --manifest-url-header --http-check-frequency --manifest-url-ca-file --manifest-url-cert-file --manifest-url-key-file --manifest-url-allow-insecure --manifest-url-max-size --kubeconfig --api-last-good --sync-frequency --runonce --hostname-override --node-labels --node-ip --cluster-dns --cluster-domain --resolv-conf --kube-reserved --system-reserved --max-pods --pod-max-pids --max-container-restart-period --cgroups-per-qos --cgroup-root --device --runtime-class --bootstrap-kubeconfig --rotate-certificates --rotate-server-certificates --register-node --register-with-taints --node-status-update-frequency --node-status-report-frequency --node-lease-duration-seconds --node-status-max-images --eviction-hard --eviction-soft --eviction-soft-grace-period --eviction-minimum-reclaim --eviction-pressure-transition-period --eviction-max-pod-grace-period --low-diskspace-threshold-mb --image-gc-high-threshold --image-gc-low-threshold --minimum-image-ttl-duration --image-maximum-gc-age --pinned-images --shutdown-grace-period --shutdown-grace-period-critical-pods --protect-kernel-defaults --enforce-node-allocatable --kube-reserved-cgroup --system-reserved-cgroup --kubelet-cgroups --runtime-cgroups --system-cgroups --docker-endpoint --pod-infra-container-image --docker-network --docker-network-cidr --image-pull-progress-deadline --serialize-image-pulls --max-parallel-image-pulls --registry-qps --registry-burst --image-preload-dir --minimum-container-ttl-duration --maximum-dead-containers-per-container --maximum-dead-containers --container-log-driver --container-log-max-size --container-log-max-files --network-plugin --cni-conf-dir --cni-bin-dir --cni-cache-dir --host-network-sources --allow-privileged --allowed-unsafe-sysctls --allowed-devices --pod-security --allowed-host-paths --allowed-images --require-image-digest --source-policy --api-address --port --address --read-only-port --cadvisor-port --healthz-port --healthz-bind-address --tls-cert-file --tls-private-key-file --cert-dir --client-ca-file --anonymous-auth --authorization-mode --authentication-token-webhook --authentication-token-webhook-cache-ttl --authorization-webhook-cache-authorized-ttl --authorization-webhook-cache-unauthorized-ttl --authorization-admin-groups --authorization-view-groups --enable-debugging-handlers --enable-system-log-handler --config --config-dir --root-dir --run-dir --pod-logs-dir -v' words='' ;;
    completion) flags='' words='bash zsh fish' ;;
    kubeconfig) flags='--api-address --config --config-dir --root-dir --run-dir --user --group --server' words='' ;;
    page) flags='--api-address --config --config-dir --root-dir --run-dir --server' words='' ;;
    join) flags='--bootstrap-kubeconfig --token --ca-cert-hash --unsafe-skip-ca-verification' words='' ;;
    hollow) flags='--kubeconfig --node-labels --max-pods --register-with-taints --node-status-update-frequency --node-lease-duration-seconds -v --count --name-prefix --node-capacity --kube-api-qps' words='' ;;
    version) flags='' words='' ;;
    help) flags='' words='run check forget drain resume get describe top stats logs restart attach exec cp port-forward debug explain pull load images prune config completion kubeconfig page join hollow version help' ;;
    *) return ;;
    esac
    if [ "${current#-}" != "$current" ]; then
        COMPREPLY=($(compgen -W "$flags --help" -- "$current"))
        return
    fi
    if [ -n "$kinds" ]; then
        # The kind comes first, and names only behind that of pods.
        words=$kinds
        for ((i = 2; i < COMP_CWORD; i++)); do
            case ${COMP_WORDS[i]} in
            pod | pods) words='@pods'; break ;;
            configmaps | events | images | node | secrets | sources) words=''; break ;;
            esac
        done
    fi
    case $words in
    @files) COMPREPLY=($(compgen -f -- "$current")) ;;
    @pods) COMPREPLY=($(compgen -W "$(_podkeeper_pods)" -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
    esac
}

complete -o filenames -F _podkeeper podkeeper
