#!/bin/sh
# Writes what the servers serve into the current folder: www/bytes/13, www/1k.html, www/10k.html, www/many/1.html to
# 10000.html (1 kB each), and a self-signed certificate (ECDSA P-256).
set -eu
mkdir -p www/bytes www/many
letters() { head -c "$1" /dev/zero | tr '\0' a; }
letters 13 > www/bytes/13
letters 1000 > www/1k.html
letters 10000 > www/10k.html
page=$(letters 1000)
number=1
while [ "$number" -le 10000 ]; do
    printf %s "$page" > "www/many/$number.html"
    number=$((number + 1))
done
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout key.pem -out cert.pem
chmod -R a+rX .
