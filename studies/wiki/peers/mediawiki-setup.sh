#!/bin/sh
# A new MediaWiki on SQLite, and its pages.
set -e
mediawiki=/usr/share/mediawiki
mkdir -p data texts cache pages-as-html installed
env -u MW_CONFIG_FILE php $mediawiki/maintenance/install.php --quiet \
    --dbtype sqlite --dbpath "$PWD/data" --dbname wiki --scriptpath "" \
    --server "http://127.0.0.1:$1" --confpath "$PWD/installed" --pass "only-for-measurements" Wiki Admin
php -r '(new PDO("sqlite:data/wiki.sqlite"))->exec("PRAGMA journal_mode = WAL");'
php -r 'require "pages.php"; write_pages(100, 5000, "texts");'
php $mediawiki/maintenance/importTextFiles.php --quiet --conf "$PWD/LocalSettings.php" texts/*.txt
