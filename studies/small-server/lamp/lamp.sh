#!/bin/sh
# MariaDB and Apache with PHP, all of their state in this folder. Neither serves as root: started by root, both run as
# www-data, which may still reach the folder.
set -e
if [ "$(id -u)" = 0 ]; then
    chown -R www-data:www-data .
    exec setpriv --reuid=www-data --regid=www-data --clear-groups \
        --inh-caps=+dac_override,+dac_read_search --ambient-caps=+dac_override,+dac_read_search sh "$0" "$@"
fi
export DATABASE_PORT="$2"
database="--no-defaults --datadir=$PWD/db --innodb-log-file-size=8M --innodb-buffer-pool-size=16M"
mariadb-install-db $database --auth-root-authentication-method=normal --skip-test-db > install.log 2>&1 ||
    { cat install.log >&2; exit 1; }
ln -sf /usr/lib/apache2/modules/libphp*.so libphp.so
php fill.php > fill.sql
mariadbd $database --bind-address=127.0.0.1 --port="$DATABASE_PORT" --socket="" --pid-file="$PWD/mariadbd.pid" \
    --init-file="$PWD/fill.sql" > mariadbd.log 2>&1 &
until php -r 'mysqli_report(MYSQLI_REPORT_OFF); exit(@mysqli_connect("127.0.0.1", "web", "web", "web", (int) $argv[1]) ? 0 : 1);' "$DATABASE_PORT"; do
    kill -0 $! 2>/dev/null || { cat mariadbd.log >&2; exit 1; }
done
exec apache2 -d "$PWD" -f apache.conf -D FOREGROUND
