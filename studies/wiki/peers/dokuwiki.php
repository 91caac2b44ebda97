<?php
// Anyone may write; without accounts DokuWiki has least to do.
$conf['title'] = 'Wiki';
$conf['savedir'] = '${folder}/data';
$conf['useacl'] = 0;
$conf['userewrite'] = 1;
