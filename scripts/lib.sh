# shellcheck shell=bash
# What the scripts share. Source it: . "$(dirname "$0")/lib.sh"
#
# It sets REPO and goes there; it changes nothing else by itself. Functions named need_… install what is missing,
# and only that, and say so.

set -euo pipefail

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$REPO"

# The server that Debian 12 packages; any from 15 on will do if it is there already.
PG_PACKAGE=postgresql-15

heading() { printf '\n== %s\n' "$*"; }
note() { printf '%s\n' "$*" >&2; }
fail() {
    note "error: $*"
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# Runs a command as root: directly, or through sudo.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif have sudo; then
        sudo "$@"
    else
        fail "this needs root, and there is no sudo: $*"
    fi
}

apt_is_updated=
apt_install() {
    have apt-get || fail "this is no Debian: install yourself what corresponds to: $*"
    if [ -z "$apt_is_updated" ]; then
        note "apt-get update"
        as_root apt-get update -qq
        apt_is_updated=yes
    fi
    note "apt-get install $*"
    as_root env DEBIAN_FRONTEND=noninteractive UCF_FORCE_CONFFOLD=1 \
        apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null
}

holds_server() { [ -x "$1/initdb" ] && [ -x "$1/pg_ctl" ] && [ -x "$1/postgres" ]; }

# Prints the folder of the server binaries, looking where the crate headwater-embedded looks.
pg_bin() {
    local dir dirs=() path
    if [ -n "${HEADWATER_PG_BIN:-}" ]; then
        holds_server "$HEADWATER_PG_BIN" || fail "HEADWATER_PG_BIN=$HEADWATER_PG_BIN holds no initdb, pg_ctl and postgres"
        echo "$HEADWATER_PG_BIN"
        return
    fi
    if have pg_config; then dirs+=("$(pg_config --bindir)"); fi
    IFS=: read -r -a path <<<"$PATH"
    dirs+=("${path[@]}")
    while read -r dir; do dirs+=("$dir"); done < <(printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV)
    for dir in "${dirs[@]}"; do
        if holds_server "$dir"; then
            echo "$dir"
            return
        fi
    done
    return 1
}

# PgBouncer, for the tests that go through it. Debian keeps it off the PATH of users.
need_pgbouncer() {
    PATH="$PATH:/usr/sbin"
    have pgbouncer || apt_install pgbouncer
}

# wal2json, for the tests that follow the WAL by it: for the server that Debian packages.
need_wal2json() {
    local bin
    bin=$(pg_bin) || return 0
    case $bin in
    /usr/lib/postgresql/*/bin)
        [ -e "$bin/../lib/wal2json.so" ] || apt_install "postgresql-$(basename "$(dirname "$bin")")-wal2json"
        ;;
    esac
}

# openssl, for tests that make a certificate.
need_openssl() { have openssl || apt_install openssl; }

# libfaketime, for the torture that steps the server's clock.
need_faketime() {
    local library
    for library in /usr/lib/*/faketime/libfaketime.so.1; do
        if [ -e "$library" ]; then return; fi
    done
    apt_install libfaketime
}

# Lets Debian's packages of PostgreSQL not set up and start a server, unless they are told otherwise already.
without_cluster() {
    local conf=/etc/postgresql-common/createcluster.conf
    if [ ! -e "$conf" ]; then
        as_root mkdir -p "${conf%/*}"
        echo 'create_main_cluster = false' | as_root tee "$conf" >/dev/null
    fi
}

# PostgreSQL's server binaries, without the server that Debian's package would set up and start.
need_postgres() {
    local bin
    if ! bin=$(pg_bin); then
        if [ -n "${HEADWATER_PG_BIN:-}" ]; then exit 1; fi
        note "no PostgreSQL server binaries found"
        without_cluster
        apt_install "$PG_PACKAGE"
        bin=$(pg_bin) || fail "$PG_PACKAGE is installed, but its binaries were not found"
    fi
    note "$("$bin/postgres" --version), in $bin"
}

# pg_cron, for the tests of schedules that it triggers: for a server of Debian's, which is here or comes with it.
need_pg_cron() {
    local lib
    for lib in /usr/lib/postgresql/*/lib/pg_cron.so; do
        if [ -e "$lib" ]; then return; fi
    done
    without_cluster
    apt_install "$PG_PACKAGE-cron"
}

# pg_partman, for the tests of partitions that are its own. Only Debian's server has it as a package: elsewhere these tests see that it is missing.
need_partman() {
    local bin version
    bin=$(pg_bin) || return 0
    case "$bin" in
        /usr/lib/postgresql/*/bin) version=$(basename "$(dirname "$bin")") ;;
        *) return 0 ;;
    esac
    [ -e "/usr/share/postgresql/$version/extension/pg_partman.control" ] || apt_install "postgresql-$version-partman"
}

# message-db's own SQL, for the test that imports from it. The tests look for it where this puts it.
need_message_db() {
    local version=1.3.1 sum=d7938e108d950e29da1974e3acad05bcf680045d0961f6a12039fb002140840d folder
    folder=${XDG_CACHE_HOME:-$HOME/.cache}/headwater/message-db-$version
    if [ -d "$folder" ]; then return; fi
    have npm || apt_install npm
    note "fetching message-db $version"
    rm -rf "$folder.new"
    mkdir -p "$folder.new"
    npm pack --silent --pack-destination "$folder.new" "@eventide/message-db@$version" >/dev/null
    echo "$sum  $folder.new/eventide-message-db-$version.tgz" | sha256sum --check --quiet
    tar xzf "$folder.new/eventide-message-db-$version.tgz" -C "$folder.new"
    mv "$folder.new" "$folder"
}

# Python with a driver for PostgreSQL, for the example in Python. Debian's driver is for Debian's Python.
need_psycopg() {
    python_with_driver >/dev/null || apt_install python3-psycopg2
    PYTHON=$(python_with_driver) || fail "python3-psycopg2 is installed, but no python3 finds it"
    export PYTHON
}

python_with_driver() {
    local python
    for python in python3 /usr/bin/python3; do
        if have "$python" && "$python" -c 'import psycopg2' 2>/dev/null; then
            echo "$python"
            return
        fi
    done
    return 1
}

# A JDK and PostgreSQL's JDBC driver, for the example in Java.
need_java() {
    have javac || apt_install default-jdk-headless
    POSTGRESQL_JAR=/usr/share/java/postgresql.jar
    [ -e "$POSTGRESQL_JAR" ] || apt_install libpostgresql-jdbc-java
    [ -e "$POSTGRESQL_JAR" ] || fail "libpostgresql-jdbc-java is installed, but $POSTGRESQL_JAR was not found"
    export POSTGRESQL_JAR
}

# cargo, its fmt and clippy, and a C compiler to link with.
need_rust() {
    have cargo || fail "cargo was not found: install Rust (the version is in Cargo.toml, rust-version)"
    have cc || apt_install build-essential
    local component
    for component in fmt:rustfmt clippy:clippy; do
        if ! cargo "${component%:*}" --version >/dev/null 2>&1; then
            have rustup || fail "cargo ${component%:*} is missing: install it (rustup component add ${component#*:})"
            note "rustup component add ${component#*:}"
            rustup component add "${component#*:}"
        fi
    done
}

need_nextest() {
    if ! cargo nextest --version >/dev/null 2>&1; then
        note "cargo install cargo-nextest"
        cargo install cargo-nextest --locked
    fi
}

# Where cargo puts what it builds.
target_dir() {
    cargo metadata --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

# Builds headwater-test-server, for with_server: alone, since it needs few crates. Built with --workspace, all crates would be compiled with
# other features than the tests have, whose dependencies count too, and then again for the tests.
build_test_server() {
    cargo build --quiet --locked -p headwater-embedded --bin headwater-test-server
    TEST_SERVER=$(target_dir)/debug/headwater-test-server
}

# Most tests wait more than they compute: two for each processor.
export NEXTEST_TEST_THREADS=${NEXTEST_TEST_THREADS:-$((2 * $(nproc)))}

# Runs a command beside a disposable server, which it finds in HEADWATER_TEST_URL. Such servers keep nothing: they are in memory, where there is room.
with_server() {
    local room
    room=$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1) || room=0
    if [ "${room:-0}" -gt 8000000 ]; then
        TMPDIR=${TMPDIR:-/dev/shm} "$TEST_SERVER" -- "$@"
    else
        "$TEST_SERVER" -- "$@"
    fi
}
