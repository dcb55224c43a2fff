# Reads the server's process number whenever it changes, until its owner says "done" or vanishes; in the latter case the
# server is stopped in order and what was temporary removed. Runs as the server's user: it can harm nobody else's process.
# $1: pg_ctl, $2: data folder, the rest: what to remove.
trap '' HUP INT QUIT TERM
pg_ctl=$1 data=$2 pid=
shift 2
while read -r word; do
    [ "$word" = "done" ] && exit 0
    pid=$word
done

# The owner may have gone while the server was starting: its pid file then takes a moment to appear.
for _ in 1 2 3 4 5; do
    if [ -z "$pid" ] || ! kill -0 "$pid"; then break; fi
    if [ "$(head -n 1 "$data/postmaster.pid")" = "$pid" ]; then
        "$pg_ctl" stop -s -D "$data" -m fast -t 30 || "$pg_ctl" stop -s -D "$data" -m immediate -t 30
        break
    fi
    sleep 1
done
[ $# -eq 0 ] && exit 0
# An initdb that outlives the owner may still be writing.
for _ in 1 2 3 4 5; do
    rm -rf "$@" && break
    sleep 1
done
