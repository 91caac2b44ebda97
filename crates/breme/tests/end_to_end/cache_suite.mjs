// Runs the public suite of cases for HTTP caches by its own programs, and prints a line for each case: kind, outcome, name, what came instead.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [suite, base] = process.argv.slice(2);
const load = file => import(pathToFileURL(file));
const { runTests, getResults } = await load(`${suite}/client/runner.mjs`);
const { default: tests } = await load(`${suite}/tests/index.mjs`);
const fetch = createRequire(`${suite}/package.json`)('node-fetch');

// A timer may end up to a millisecond early, and then an Age in whole seconds is one less than a case wants that waits for just so long.
const LATER_MS = 50;
const { setTimeout } = globalThis;
globalThis.setTimeout = (call, ms, ...values) => setTimeout(call, ms + LATER_MS, ...values);

// Most of the time is waiting for answers to grow old: together, all wait once.
const ALL_AT_ONCE = 10000;
await runTests(tests, fetch, false, base, ALL_AT_ONCE);
const results = getResults();
const cases = new Map(tests.flatMap(group => group.tests).map(one => [one.id, one]));

// As the suite's own page judges: a case whose ground another one has shown to be missing is not passed, whatever it says itself.
function outcome(id) {
    const needs = cases.get(id).depends_on ?? [];
    if (needs.some(other => outcome(other) !== 'pass')) return 'dependency';
    if (results[id] === true) return 'pass';
    return results[id][0] === 'Setup' ? 'setup' : 'fail';
}

for (const [id, { kind }] of cases) {
    if (results[id] === undefined) continue;
    const detail = results[id] === true ? '' : results[id].join(': ').replace(/\s+/g, ' ');
    console.log([kind ?? 'required', outcome(id), id, detail].join('\t'));
}
