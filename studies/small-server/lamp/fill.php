<?php
// Statements that fill the database.
require 'articles.php';
echo "CREATE DATABASE web;\nCREATE TABLE web.article (id INT PRIMARY KEY, title VARCHAR(100), text TEXT);\n";
foreach (articles() as ['id' => $id, 'title' => $title, 'text' => $text]) {
    echo "INSERT INTO web.article VALUES ($id, '$title', '$text');\n";
}
echo "CREATE USER web@'127.0.0.1' IDENTIFIED BY 'web';\nGRANT SELECT ON web.* TO web@'127.0.0.1';\n";
