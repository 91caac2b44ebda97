<?php
// Whole pages and all other caches are kept as MediaWiki's manual recommends for one server; anyone may write, as often
// as they like; nothing is done later at the cost of other requests.
require __DIR__ . '/installed/LocalSettings.php';
$wgArticlePath = '/wiki/$1';
$wgMainCacheType = CACHE_ACCEL;
$wgParserCacheType = CACHE_ACCEL;
$wgMessageCacheType = CACHE_ACCEL;
$wgSessionCacheType = CACHE_ACCEL;
$wgUseLocalMessageCache = true;
$wgUseFileCache = true;
$wgFileCacheDirectory = '${folder}/pages-as-html';
$wgCacheDirectory = '${folder}/cache';
$wgJobRunRate = 0;
$wgRateLimits = [];
$wgPingback = false;
