<?php
/** Writes the pages 1 to `$count` as files NAME.txt: lower-case words of up to 10 letters, `$bytes` in all. */
function write_pages(int $count, int $bytes, string $folder): void
{
    mt_srand(1);
    for ($page = 1; $page <= $count; $page++) {
        $text = '';
        while (strlen($text) < $bytes) {
            for ($letters = mt_rand(1, 10); $letters > 0; $letters--) {
                $text .= chr(mt_rand(ord('a'), ord('z')));
            }
            $text .= ' ';
        }
        file_put_contents("$folder/$page.txt", rtrim(substr($text, 0, $bytes)));
    }
}
