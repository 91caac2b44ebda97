#!/bin/sh
# nginx, and behind it PHP with opcode cache and just-in-time compiler. Scripts are compiled once.
set -e
fpm=$(find /usr/sbin -name 'php-fpm*' | sort | tail -n 1)
[ -n "$fpm" ] || { echo "there is no php-fpm in /usr/sbin; cargo xtask packages installs it" >&2; exit 1; }
"$fpm" --allow-to-run-as-root --fpm-config fpm.conf \
    -d opcache.validate_timestamps=0 -d opcache.memory_consumption=256 -d opcache.interned_strings_buffer=32 \
    -d opcache.max_accelerated_files=20000 -d opcache.jit=tracing -d opcache.jit_buffer_size=64M \
    -d realpath_cache_size=8M -d realpath_cache_ttl=3600 -d apc.shm_size=64M "$@"
exec nginx -p . -e stderr -c nginx.conf
