<?php
// The page, from the database.
require 'articles.php';
header('Content-Type: text/html; charset=utf-8');
$database = new mysqli('127.0.0.1', 'web', 'web', 'web', (int) getenv('DATABASE_PORT'));
$page = page($database->query('SELECT id, title, text FROM article ORDER BY id')->fetch_all(MYSQLI_ASSOC));
header('Content-Length: ' . strlen($page));
echo $page;
