// Runs the public suite of cases for HTTP caches by its own programs, and prints a line for each case: kind, outcome,
// name, what came instead. With names of cases as further arguments, only these and those that they depend on.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [suite, base, ...chosen] = process.argv.slice(2);
const load = file => import(pathToFileURL(file));
const { runTests, getResults } = await load(`${suite}/client/runner.mjs`);
const { default: all } = await load(`${suite}/tests/index.mjs`);
const fetch = createRequire(`${suite}/package.json`)('node-fetch');

const cases = new Map(all.flatMap(group => group.tests).map(one => [one.id, one]));

// A name that is no case's is left out.
function withDependencies(ids) {
    return new Set(ids.flatMap(id => [id, ...withDependencies(cases.get(id)?.depends_on ?? [])]));
}

const running = chosen.length === 0 ? new Set(cases.keys()) : withDependencies(chosen);
const tests = all.map(group => ({ ...group, tests: group.tests.filter(one => running.has(one.id)) }));

// A timer may end up to a millisecond early, and then an Age in whole seconds is one less than a case wants that waits
// for just so long.
const LATER_MS = 50;
const { setTimeout } = globalThis;
globalThis.setTimeout = (call, ms, ...values) => setTimeout(call, ms + LATER_MS, ...values);

// Most of the time is waiting for answers to grow old: together, all wait once.
const ALL_AT_ONCE = 10000;
await runTests(tests, fetch, false, base, ALL_AT_ONCE);
const results = getResults();

// As the suite's own page judges: a case whose ground another one has shown to be missing is not passed, whatever it
// says itself.
function outcome(id) {
    const needs = cases.get(id).depends_on ?? [];
    if (needs.some(other => outcome(other) !== 'pass')) return 'dependency';
    if (results[id] === true) return 'pass';
    return results[id][0] === 'Setup' ? 'setup' : 'fail';
}

for (const [id, { kind }] of cases) {
    // Some are for browsers only.
    if (results[id] === undefined) continue;
    const detail = results[id] === true ? '' : results[id].join(': ').replace(/\s+/g, ' ');
    console.log([kind ?? 'required', outcome(id), id, detail].join('\t'));
}
