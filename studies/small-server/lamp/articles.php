<?php
// The content of the page: 20 articles, the same in every run.
function articles(): array {
    $words = ['server', 'page', 'board', 'network', 'process', 'request', 'client', 'line', 'file', 'memory', 'limit', 'firm'];
    $articles = [];
    for ($id = 1; $id <= 20; $id++) {
        $text = '';
        for ($word = 0; $word < 73; $word++) {
            $text .= ($word ? ' ' : '') . $words[($id * 7 + $word * $word) % count($words)];
        }
        $articles[] = ['id' => $id, 'title' => "Article $id", 'text' => $text];
    }
    return $articles;
}

function page(array $articles): string {
    $html = "<!doctype html>\n<title>News</title>\n<h1>News</h1>\n";
    foreach ($articles as $article) {
        $html .= "<article id=\"a{$article['id']}\">\n<h2>" . htmlspecialchars($article['title']) . "</h2>\n<p>"
            . htmlspecialchars($article['text']) . "</p>\n</article>\n";
    }
    return str_pad($html, 10700, ' ');
}
