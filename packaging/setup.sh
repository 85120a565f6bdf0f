# Functions for packaging/quickstart and tests/run; read with `.`, not run. They bring a fresh
# Debian-like machine to where podkeeper can be built and run. Nothing here touches what is there already.

SOCKET=/var/run/docker.sock
IMAGE=busybox:static

say() { printf '==> %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Every script that reads this one has its help in the comment that it begins with, and is at the top folder by now.
case ${1:-} in
-h | --help)
    (cd "$OLDPWD" && sed -n '2,/^[^#]/{/^#/!d;s/^# \{0,1\}//;p;}' "$0")
    exit 0
    ;;
esac

need_root() {
    [ "$(id -u)" = 0 ] || die "run this as root (sudo sh $0): it installs packages and speaks to Docker"
}

# install PACKAGE...: with apt, updating its lists once.
install() {
    have apt-get || die "please install: $* (there is no apt-get here to do it)"
    if [ -z "${APT_UPDATED:-}" ]; then
        say "updating the package lists"
        apt-get update -qq || say "the package lists could not be updated; going on with the old ones"
        APT_UPDATED=1
    fi
    say "installing $*"
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null
}

# docker_api METHOD PATH [CURL ARGUMENT...]: one request to the engine.
docker_api() {
    method=$1 path=$2
    shift 2
    curl -fsS --max-time 60 --unix-socket "$SOCKET" -X "$method" "$@" "http://docker$path"
}

engine_answers() {
    [ -S "$SOCKET" ] && docker_api GET /_ping >/dev/null 2>&1
}

# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for() {
    tries=$(($1 * 5))
    shift
    while ! "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.2
    done
}

# ensure_engine PIDFILE: a Docker Engine that answers. When dockerd has to be started without an init
# system, its process id goes to PIDFILE.
ensure_engine() {
    have curl || install curl
    engine_answers && return 0
    have dockerd || install docker.io iptables ca-certificates
    engine_answers && return 0
    say "starting Docker"
    if [ -d /run/systemd/system ]; then
        systemctl start docker || true
    elif [ -x /etc/init.d/docker ] && have service; then
        service docker start >/dev/null 2>&1 || true
    fi
    wait_for 10 engine_answers && return 0
    setsid dockerd >/var/log/podkeeper-dockerd.log 2>&1 </dev/null &
    echo $! >"$1"
    wait_for 60 engine_answers || {
        tail -n 20 /var/log/podkeeper-dockerd.log >&2
        die "dockerd does not answer; its log is /var/log/podkeeper-dockerd.log"
    }
}

# ensure_image: $IMAGE, made of the distribution's static busybox: no registry is needed.
ensure_image() {
    docker_api GET "/images/$IMAGE/json" >/dev/null 2>&1 && return 0
    busybox=$(command -v busybox || true)
    if [ -z "$busybox" ] || ! "$busybox" --list >/dev/null 2>&1 || is_dynamic "$busybox"; then
        install busybox-static
        busybox=$(command -v busybox)
    fi
    say "making the image $IMAGE"
    tree=$(mktemp -d)
    mkdir -p "$tree/bin" "$tree/tmp" "$tree/etc"
    cp "$busybox" "$tree/bin/busybox"
    for name in $("$busybox" --list); do
        [ "$name" = busybox ] || ln -s busybox "$tree/bin/$name"
    done
    echo 'root:x:0:0:root:/:/bin/sh' >"$tree/etc/passwd"
    if have docker; then
        tar -C "$tree" -c . | docker import - "$IMAGE" >/dev/null
    else
        tar -C "$tree" -c . | docker_api POST "/images/create?fromSrc=-&repo=${IMAGE%:*}&tag=${IMAGE#*:}" \
            -H 'Content-Type: application/x-tar' -T - >/dev/null
    fi
    rm -rf "$tree"
}

# A program with an interpreter cannot run in an image that holds nothing else.
is_dynamic() {
    LC_ALL=C grep -qa '/lib[^ ]*/ld-[a-z0-9-]*\.so' "$1"
}

# ensure_podman: for the tests of podkeeper on Podman. Its service is not started: they have their own.
ensure_podman() {
    have podman && [ -x /usr/lib/podman/netavark ] || install podman netavark
}

# ensure_registry: for the tests of pulls. It is not started: they have their own. zstd packs archives.
ensure_registry() {
    have docker-registry || install docker-registry
    have zstd || install zstd
}

# ensure_systemd: for the tests of its cgroup driver. It is not started here: they have their own.
ensure_systemd() {
    [ -x /lib/systemd/systemd ] || install systemd
}

# ensure_cargo: Rust and a linker.
ensure_cargo() {
    PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    export PATH
    have cc || install gcc libc6-dev
    if ! have cargo; then
        install rustup || die "Rust 1.89 or newer is needed: see https://rustup.rs"
        rustup -q toolchain install stable --profile minimal -c clippy -c rustfmt
        rustup -q default stable
    fi
}

# ensure_fuzz: cargo-fuzz and the C++ compiler that libFuzzer needs.
ensure_fuzz() {
    have c++ || install g++
    cargo fuzz --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-fuzz
}
