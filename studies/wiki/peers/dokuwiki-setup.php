<?php
// The folders of a new DokuWiki, and its pages.
$folders = 'attic cache index locks log media media_attic media_meta meta pages tmp';
foreach (explode(' ', $folders) as $folder) {
    mkdir("data/$folder", 0755, true);
}
mkdir('sessions');
require 'pages.php';
write_pages(100, 5000, 'data/pages');
