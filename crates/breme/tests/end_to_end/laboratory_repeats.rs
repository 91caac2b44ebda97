//! Trials that are run again at the end of their block: what is still to be done follows from the journal.

use std::fs;

use serde_json::Value;

use crate::laboratory_harness::{Laboratory, text_of};

/// In its first life it gets sixty times slower, from its first answer to its last; afterwards it does not change.
const RESTLESS: &str = r#"
import http.server, os, socketserver, sys, time
lives = os.path.join(sys.argv[2], "lives")
is_first, asked = not os.path.exists(lives), 0
open(lives, "a").close()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        global asked
        asked += 1
        time.sleep(0.002 + asked * 0.0004 if is_first else 0.005)
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
command = ["python3", "${experiment}/restless.py", "${port}", "${experiment}"]
restart = "trial"
[workload.user]
connections = 8
requests = 300
request = "/"
[design]
blocks = 1
duration = "2s"
pause = "0s"
aa = false
"#;

fn is_restless(trial: &Value) -> bool {
    trial["workloads"]["user"]["steady"]["state"] == "never-steady"
}

/// Whatever neighbours on the machine make of it: every attempt but the last was in vain, and none is missing or there
/// twice.
fn counts_once(trials: &[Value]) {
    let of = |name: &str| -> Vec<u64> { trials.iter().map(|trial| trial[name].as_u64().unwrap()).collect() };
    assert_eq!(of("repeat"), (0..trials.len() as u64).collect::<Vec<_>>());
    assert_eq!(of("number"), (1..=trials.len() as u64).collect::<Vec<_>>());
    assert!((2..=3).contains(&trials.len()), "its first life is restless, and two repeats are the most");
    assert!(trials[..trials.len() - 1].iter().all(is_restless));
}

#[test]
fn a_trial_that_does_not_come_to_rest_is_run_again_and_counts_once() {
    let laboratory = Laboratory::new(EXPERIMENT);
    fs::write(laboratory.folder().join("restless.py"), RESTLESS).unwrap();
    let checked = text_of(&laboratory.breme(&["run", "--check", "experiment.toml"]).stdout);
    assert!(checked.contains("had to be run again"), "{checked}");
    // Killed while it repeats, it goes on with what is left.
    let mut run = laboratory.start(&["run", "experiment.toml", "--name", "one"]);
    laboratory.wait_trials("one", 1);
    run.kill().unwrap();
    run.wait().unwrap();
    laboratory.wait_deserted();
    let output = laboratory.breme(&["run", "--resume", "one"]);
    let trials = laboratory.trials("one");
    assert!(is_restless(&trials[0]), "{}", trials[0]["workloads"]["user"]["steady"]);
    counts_once(&trials);
    let told = text_of(&output.stdout);
    assert!(told.contains("run again"), "{told}\n{}", text_of(&output.stderr));
    assert!(told.contains("of 1 trial count"), "the attempts before are none of their own: {told}");
    let page = fs::read_to_string(laboratory.folder().join("runs/one/report.html")).unwrap();
    assert!(page.contains("run again at the end of the block"));
    // What is done is done.
    laboratory.breme(&["run", "--resume", "one"]);
    assert_eq!(laboratory.trials("one").len(), trials.len());
}
