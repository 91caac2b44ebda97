// A minimal wiki: Express over SQLite, with the same durability as `breme wiki` (WAL, synchronous=FULL).
//   node server.mjs PORT DATABASE
import express from 'express';
import { DatabaseSync } from 'node:sqlite';

const [port, file] = process.argv.slice(2);
const database = new DatabaseSync(file);
database.exec(`
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  CREATE TABLE IF NOT EXISTS page (name TEXT PRIMARY KEY, html TEXT NOT NULL) WITHOUT ROWID;
`);
const read = database.prepare('SELECT html FROM page WHERE name = ?');
const write = database.prepare('INSERT INTO page VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET html = excluded.html');

const app = express();
app.disable('x-powered-by');
app.get('/wiki/:name', (request, response) => {
  const page = read.get(request.params.name);
  if (page) response.type('html').send(page.html);
  else response.sendStatus(404);
});
app.post('/wiki/:name', express.text({ type: '*/*', limit: '1mb' }), (request, response) => {
  write.run(request.params.name, request.body);
  response.sendStatus(204);
});
app.listen(Number(port), '127.0.0.1', () => console.log('listening'));
