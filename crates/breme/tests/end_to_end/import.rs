//! `breme import`: a load sends what was recorded.

use std::fs;

use crate::harness::{breme, load};
use crate::recorder::Recorder;

/// The targets that a load of one session sends after the import of `text`, and the text of the scenario.
fn repeated(format: &str, text: &str, variables: &[&str]) -> (Vec<String>, String) {
    let recorder = Recorder::start();
    let text = text.replace("ORIGIN", &recorder.address.to_string());
    replay(&recorder, format, text.as_bytes(), variables)
}

fn replay(recorder: &Recorder, format: &str, text: &[u8], variables: &[&str]) -> (Vec<String>, String) {
    let folder = tempfile::tempdir().unwrap();
    let (recording, scenario) = (folder.path().join("recording"), folder.path().join("scenario.toml"));
    fs::write(&recording, text).unwrap();
    let output = breme().args(["import", format]).arg(&recording).arg("-o").arg(&scenario).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let url = format!("http://{}", recorder.address);
    let scenario_path = scenario.to_str().unwrap();
    let output = load(&[&["--scenario", scenario_path, "-n", "1", "-c", "1", &url][..], variables].concat());
    assert!(output.status.code().is_some_and(|code| code == 0 || code == 3), "{output:?}");
    let record = recorder.take();
    assert_eq!(record.faults, [""; 0]);
    (record.targets, fs::read_to_string(scenario).unwrap())
}

#[test]
fn an_archive_is_repeated_without_its_secrets() {
    let archive = r#"{"log": {"entries": [
        {"startedDateTime": "2026-11-23T09:00:00.000Z", "time": 1,
         "request": {"method": "GET", "url": "http://ORIGIN/a?x={1}&token=abc",
                     "headers": [{"name": "Authorization", "value": "Bearer abc"}, {"name": "Cookie", "value": "abc"}]},
         "response": {"status": 200}},
        {"startedDateTime": "2026-11-23T09:00:00.020Z", "time": 1,
         "request": {"method": "POST", "url": "http://ORIGIN/b", "headers": [],
                     "postData": {"text": "{\"password\": \"abc\", \"list\": [{\"n\": 1}]}"}},
         "response": {"status": 200}}]}}"#;
    let (targets, scenario) = repeated("har", archive, &["--var", "token=t2", "--var", "password=p2"]);
    assert_eq!(targets, ["/a?x={1}&token=t2", "/b"]);
    assert!(!scenario.contains("abc"), "{scenario}");
    assert!(scenario.contains("think = \"19ms,constant\""), "{scenario}");
}

#[test]
fn commands_and_logs_are_repeated() {
    let commands = "curl 'http://ORIGIN/a' -H 'X-A: {seq}'\ncurl http://ORIGIN/b \\\n  -d 'x=1'\n";
    assert_eq!(repeated("curl", commands, &[]).0, ["/a", "/b"]);
    let log = "::1 - - [10/Oct/2026:13:55:36 +0200] \"GET /a HTTP/1.1\" 200 5 \"-\" \"X\"\n\
               ::1 - - [10/Oct/2026:13:55:36 +0200] \"GET /b?{ HTTP/1.1\" 200 5 \"-\" \"X\"\n";
    assert_eq!(repeated("access-log", log, &[]).0, ["/a", "/b?{"]);
}

#[test]
fn what_a_load_does_not_accept_is_left_out() {
    let visit = |client: usize| {
        format!("{client} - - [10/Oct/2026:13:55:36 +0200] \"GET /{client} HTTP/1.1\" 200 5 \"-\" \"X\"\n")
    };
    let mut log: Vec<u8> = (0..120).flat_map(|client| visit(client).into_bytes()).collect();
    log.extend_from_slice(b"::1 - - [10/Oct/2026:13:55:36 +0200] \"GET /caf\xe9 HTTP/1.1\" 200 5 \"-\" \"X\"\n");
    let (targets, scenario) = replay(&Recorder::start(), "access-log", &log, &[]);
    assert_eq!((targets.len(), scenario.matches("[[scenario]]").count()), (1, 100));
    let (targets, _) = repeated("curl", &"curl http://ORIGIN/a\n".repeat(510), &[]);
    assert_eq!(targets.len(), 500);
}

#[test]
fn targets_and_empty_headers_are_sent_as_by_the_client() {
    let archive = r#"{"log": {"entries": [{"startedDateTime": "2026-11-23T09:00:00.000Z", "response": {"status": 200},
        "request": {"method": "GET", "url": "http://ORIGIN/ä b"}}]}}"#;
    assert_eq!(repeated("har", archive, &[]).0, ["/%C3%A4%20b"]);
    let commands = r#"curl -sX DELETE 'http://ORIGIN/a' -H 'X-Empty;' --data-raw $'{"t":"wow\u0021", "pin":12}'"#;
    let (targets, scenario) = repeated("curl", commands, &["--var", "pin=34"]);
    assert_eq!(targets, ["/a"]);
    assert!(scenario.contains("DELETE /a") && scenario.contains(r#"{"t":"wow!", "pin":{pin}}"#), "{scenario}");
}

const PETS: &str = r#"
openapi: 3.1.0
servers: [{url: "http://ORIGIN/v1"}]
paths:
  /pets:
    get:
      parameters:
        - {name: tags, in: query, required: true, schema: {type: array, items: {enum: [a b]}}}
        - {name: limit, in: query, schema: {type: integer}}
        - {name: X-Trace, in: header, required: true, schema: {type: string}}
      responses: {"200": {content: {application/json: {}}}}
    post: {responses: {"201": {}}}
  /pets/{petId}:
    parameters: [{name: petId, in: path, required: true, example: ä/7}]
    get: {responses: {"2XX": {}}}
    head: {responses: {default: {}}}
    delete: {responses: {"204": {}}}
"#;

#[test]
fn the_safe_operations_of_a_description_are_sent() {
    let (targets, scenario) = repeated("openapi", PETS, &[]);
    assert_eq!(targets, ["/v1/pets?tags=a%20b", "/v1/pets/%C3%A4%2F7", "/v1/pets/%C3%A4%2F7"]);
    let (targets, _) = repeated("openapi", PETS, &["--var", "petId=a b"]);
    assert_eq!(targets[1], "/v1/pets/a%20b");
    assert!(scenario.contains("# request = \"DELETE /v1/pets/{petId}\""), "{scenario}");
}

#[test]
fn steps_in_comments_can_be_sent() {
    let (_, scenario) = repeated("openapi", PETS, &[]);
    let scenario = scenario.replace("# [[", "[[").replace("# request", "request").replace("# check", "check");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.toml");
    fs::write(&path, scenario).unwrap();
    let recorder = Recorder::start();
    let url = format!("http://{}", recorder.address);
    load(&["--scenario", path.to_str().unwrap(), "-n", "1", "-c", "1", &url]);
    let pet = "/v1/pets/%C3%A4%2F7";
    assert_eq!(recorder.take().targets, ["/v1/pets?tags=a%20b", "/v1/pets", pet, pet, pet]);
}

#[test]
fn the_description_of_the_wiki_is_imported() {
    let text = include_str!("../../../wiki/assets/openapi.json");
    let (targets, scenario) = repeated("openapi", text, &["--var", "name=Home"]);
    assert_eq!(targets[0], "/");
    assert!(scenario.contains("name = \"x\"") && scenario.contains("# request = \"PUT /wiki/{name}\""), "{scenario}");
}

#[test]
fn a_wrong_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.har");
    fs::write(&path, "{}").unwrap();
    let output = breme().args(["import", "har"]).arg(&path).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("x.har") && message.contains("not an HTTP Archive"), "{message}");
}
