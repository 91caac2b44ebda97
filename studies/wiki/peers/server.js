// A page is one row; nothing is rendered, and there is no history. Each change is on the disk when it is acknowledged.
'use strict';
const express = require('express');
const { DatabaseSync } = require('node:sqlite');

const [file, port] = process.argv.slice(2);
const database = new DatabaseSync(file);
database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
  CREATE TABLE IF NOT EXISTS page (name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID`);
const read = database.prepare('SELECT text FROM page WHERE name = ?');
const write = database.prepare('INSERT INTO page VALUES (?, ?) ON CONFLICT DO UPDATE SET text = excluded.text');
for (let page = 1; page <= 100; page++) write.run(String(page), 'word '.repeat(1000));

const server = express();
server.disable('x-powered-by');
server.disable('etag');
server.use(express.urlencoded({ extended: false, limit: '1mb' }));
server.get('/wiki/:name', (request, response) => {
  const page = read.get(request.params.name);
  if (page) response.type('html').send(page.text);
  else response.status(404).send('no such page');
});
server.post('/wiki/:name', (request, response) => {
  write.run(request.params.name, request.body.text);
  response.json({ name: request.params.name });
});
server.listen(Number(port), '127.0.0.1');
