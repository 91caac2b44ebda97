#!/bin/sh
# nats.sh SYNC: three NATS servers with JetStream, as one cluster; prints "cluster ready". A server that ends is started
# again. SYNC: 2m, or always (each change is on disk before it is confirmed). FOLDER is where everything is, PORTS and
# ROUTES are the ports for clients and between the servers, SERVER is the program.
set -eu
sync=$1
cd "$FOLDER"

word() { shift "$1"; echo "$1"; }       # word NUMBER WORD…

configure() {
    routes=
    for port in $ROUTES; do routes="$routes nats://127.0.0.1:$port,"; done
    cat > "s$1.conf" <<END
server_name: s$1
listen: 127.0.0.1:$(word "$1" $PORTS)
max_payload: 1MB
jetstream { store_dir: "$FOLDER/s$1", sync_interval: $sync, max_mem: 64MB, max_file: 4GB }
cluster { name: study, listen: 127.0.0.1:$(word "$1" $ROUTES), routes: [$routes] }
END
}

supervise() {
    trap 'kill $server; exit 0' TERM
    while :; do
        "$SERVER" --config "s$1.conf" >> "s$1.log" 2>&1 &
        server=$!
        wait $server || true
        sleep 1
    done
}

pids=
trap 'kill $pids 2>/dev/null; wait; exit 0' TERM INT
for number in 1 2 3; do
    configure $number
    supervise $number &
    pids="$pids $!"
done
until cat s*.log 2>/dev/null | grep -q "JetStream cluster new metadata leader"; do
    kill -0 $pids 2>/dev/null || { cat s*.log >&2; exit 1; }
    sleep 0.1
done
echo "cluster ready"
wait
