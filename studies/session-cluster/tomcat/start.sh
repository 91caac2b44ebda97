#!/bin/sh
# start.sh NODES OPTIONS: starts a cluster of Tomcats, prints "cluster ready", and ends when all have ended.
# OPTIONS are the channelSendOptions of its messages: 6 (acknowledged, synchronous) or 8 (asynchronous). A single node
# has no cluster. FOLDER is where everything is; PORTS and RECEIVERS are the ports of the nodes.
set -eu
nodes=$1 options=$2
home=/usr/share/tomcat10
cd "$FOLDER"

word() { shift "$1"; echo "$1"; }       # word NUMBER WORD…

# The cluster as node $1 names it. A member's identity is 16 bytes.
members() {
    member='className="org.apache.catalina.tribes.membership.StaticMember"'
    for other in $(seq "$nodes"); do
        identity="uniqueId=\"{0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,$other}\""
        if [ "$other" = "$1" ]; then
            echo "<LocalMember $member $identity/>"
        else
            echo "<Member $member $identity host=\"127.0.0.1\" port=\"$(word "$other" $RECEIVERS)\" securePort=\"-1\"/>"
        fi
    done
}

# Replaces the line of a comment by a file: insert COMMENT FILE < TEMPLATE.
insert() { sed -e "/<!--$1-->/{r $2" -e d -e "}"; }

configure() {
    mkdir -p "n$1/conf" "n$1/logs" "n$1/temp" "n$1/work" "n$1/webapps"
    ln -sfn "$FOLDER/app" "n$1/webapps/ROOT"
    : > "n$1/cluster.xml"
    if [ "$nodes" != 1 ]; then
        members "$1" > "n$1/members.xml"
        insert MEMBERS "n$1/members.xml" < cluster.xml > "n$1/cluster.xml"
    fi
    insert CLUSTER "n$1/cluster.xml" < server.xml | sed -e "s/@NODE@/$1/" -e "s/@OPTIONS@/$options/" \
        -e "s/@PORT@/$(word "$1" $PORTS)/" -e "s/@RECEIVER@/$(word "$1" $RECEIVERS)/" > "n$1/conf/server.xml"
}

start() {
    java -Xms64m -Xmx512m -XX:+UseSerialGC -Djava.awt.headless=true -Djava.io.tmpdir="$FOLDER/n$1/temp" \
        -Dcatalina.home="$home" -Dcatalina.base="$FOLDER/n$1" -cp "$home/bin/bootstrap.jar:$home/bin/tomcat-juli.jar" \
        org.apache.catalina.startup.Bootstrap start > "n$1/log" 2>&1 &
    pids="$pids $!"
}

pids=
trap 'kill $pids 2>/dev/null; wait; exit 0' TERM INT
for node in $(seq "$nodes"); do
    configure "$node"
    start "$node"
    # One after another: a node asks those before it for their sessions.
    until grep -q "Server startup in" "n$node/log"; do
        kill -0 $pids 2>/dev/null || { cat n*/log >&2; exit 1; }
        sleep 0.1
    done
done
echo "cluster ready"
wait
