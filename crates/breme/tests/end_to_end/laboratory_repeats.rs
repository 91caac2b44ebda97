//! Trials that are run again at the end of their block: what is still to be done follows from the journal.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::laboratory_harness::{Laboratory, text_of};

/// In its first life it gets ten times slower, from its first answer to its last; afterwards it does not change.
const RESTLESS: &str = r#"
import http.server, os, socketserver, sys, time
lives = os.path.join(sys.argv[2], "lives-" + sys.argv[3])
is_first, asked = not os.path.exists(lives), 0
open(lives, "a").close()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        global asked
        asked += 1
        time.sleep(0.002 + asked * 0.00005 if is_first else 0.005)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.wfile.flush()
    def log_message(self, *_):
        pass
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64
Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

const EXPERIMENT: &str = r#"
title = "One that does not come to rest at once"
measures = ["mean(user)"]
[subject.server]
command = ["python3", "${experiment}/restless.py", "${port}", "${experiment}", "${which}"]
restart = "trial"
[workload.user]
connections = 8
requests = 400
request = "/"
[factor]
which = ["a", "b"]
[design]
blocks = 1
duration = "500ms"
pause = "0s"
aa = false
"#;

fn key(trial: &Value) -> (u64, u64, u64) {
    let of = |name: &str| trial[name].as_u64().unwrap();
    (of("block"), of("combination"), of("replicate"))
}

fn is_restless(trial: &Value) -> bool {
    trial["workloads"]["user"]["steady"]["state"] == "never-steady"
}

/// Whatever neighbours on the machine make of it: every attempt but the last was in vain, and none is missing or there twice.
fn each_counts_once(trials: &[Value]) {
    let mut attempts: BTreeMap<(u64, u64, u64), Vec<&Value>> = BTreeMap::new();
    trials.iter().for_each(|trial| attempts.entry(key(trial)).or_default().push(trial));
    assert_eq!(attempts.len(), 2);
    for (key, attempts) in attempts {
        let repeats: Vec<u64> = attempts.iter().map(|trial| trial["repeat"].as_u64().unwrap()).collect();
        assert_eq!(repeats, (0..attempts.len() as u64).collect::<Vec<_>>(), "{key:?}");
        assert!(repeats.len() > 1, "{key:?}: its first life is restless");
        assert!(attempts.split_last().unwrap().1.iter().all(|trial| is_restless(trial)), "{key:?}");
    }
    let numbers: Vec<u64> = trials.iter().map(|trial| trial["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=trials.len() as u64).collect::<Vec<_>>());
    // First each once, then those again that were in vain.
    assert!(trials[..2].iter().all(|trial| trial["repeat"] == 0 && is_restless(trial)));
    assert!(trials[2..].iter().all(|trial| trial["repeat"] != 0));
}

#[test]
fn a_trial_that_does_not_come_to_rest_is_run_again_and_counts_once() {
    let laboratory = Laboratory::new(EXPERIMENT);
    fs::write(laboratory.folder().join("restless.py"), RESTLESS).unwrap();
    let checked = text_of(&laboratory.breme(&["run", "--check", "experiment.toml"]).stdout);
    assert!(checked.contains("had to be run again"), "{checked}");
    // Killed while it repeats, it goes on with what is left.
    let mut run = laboratory.start(&["run", "experiment.toml", "--name", "one"]);
    laboratory.wait_trials("one", 2);
    run.kill().unwrap();
    run.wait().unwrap();
    laboratory.wait_deserted();
    let output = laboratory.breme(&["run", "--resume", "one"]);
    let trials = laboratory.trials("one");
    each_counts_once(&trials);
    let told = text_of(&output.stdout);
    assert!(told.contains("run again"), "{told}\n{}", text_of(&output.stderr));
    assert!(told.contains("of 2 trials count"), "the attempts before are none of their own: {told}");
    let page = fs::read_to_string(laboratory.folder().join("runs/one/report.html")).unwrap();
    assert!(page.contains("run again at the end of the block"));
    // What is done is done.
    laboratory.breme(&["run", "--resume", "one"]);
    assert_eq!(laboratory.trials("one").len(), trials.len());
}
