use super::*;

const LIMITS: Limits = Limits { scenarios: 3, steps: 8 };
const PETS: &str = r##"openapi: 3.0.3
info: {title: Pets, version: "1"}
servers:
  - url: https://pets.example.com/v1
security: [{token: []}]
paths:
  /pets:
    get:
      parameters:
        - {name: limit, in: query, required: true, schema: {type: integer, minimum: 10}}
        - {name: tags, in: query, schema: {type: array}}
        - {name: X-Request-Id, in: header, required: true, schema: {type: string, format: uuid}}
      responses:
        "200": {content: {application/json: {}}}
        default: {}
    post:
      requestBody: {$ref: "#/components/requestBodies/pet"}
      responses: {"201": {}}
  /pets/{petId}:
    parameters: [{$ref: "#/components/parameters/petId"}]
    delete: {responses: {"204": {}}}
    get: {responses: {"200": {}, "302": {}}, security: []}
components:
  parameters:
    petId: {name: petId, in: path, required: true, schema: {type: integer, example: 7}}
  requestBodies:
    pet: {content: {application/json: {schema: {$ref: "#/components/schemas/pet"}}}}
  schemas:
    pet:
      required: [name, password]
      properties: {name: {example: Rex}, password: {}, next: {$ref: "#/components/schemas/pet"}}
  securitySchemes:
    token: {type: http, scheme: bearer}
"##;

const SCENARIO: &str = r##"#:schema scenario.schema.json
base = "https://pets.example.com"

[variables]
petId = "7"
# Secrets are left out; set them with --var NAME=VALUE.
password = ""

[[scenario]]
name = "openapi"
# Steps in comments change what the server stores; remove "# " from those that a load may send.

[[scenario.step]]
request = "GET /v1/pets?limit=10"
headers = { "Accept" = "application/json", "X-Request-Id" = "00000000-0000-4000-8000-000000000000" }
check = { status = 200 }

# [[scenario.step]]
# request = "POST /v1/pets"
# headers = { "Content-Type" = "application/json" }
# body = '{"name":"Rex","password":"{password}"}'
# check = { status = 201 }

# [[scenario.step]]
# request = "DELETE /v1/pets/{petId}"
# check = { status = 204 }

[[scenario.step]]
request = "GET /v1/pets/{petId}"
check = { status = "200,302" }
"##;

#[test]
fn a_description_becomes_a_scenario() {
    let recording = read(PETS, LIMITS).unwrap();
    assert_eq!(recording.scenario(), SCENARIO);
    let expected = [
        "2 operations change what the server stores, and are comments in the scenario: POST /v1/pets, DELETE \
         /v1/pets/{petId}",
        "3 operations need credentials by \"token\": add --bearer TOKEN to breme load",
        "these parameters have no documented value; write existing ones into the steps of the scenario: limit, \
         X-Request-Id",
    ];
    assert_eq!(recording.notes().collect::<Vec<_>>(), expected);
}

#[test]
fn json_and_yaml_give_the_same_scenario() {
    let json = node::Node::parse(PETS).unwrap().to_string();
    assert!(json.starts_with('{'));
    assert_eq!(read(&json, LIMITS).unwrap().scenario(), SCENARIO);
}

/// The scenario and the notes of a description with these members, in YAML.
fn imported(members: &str) -> (String, Vec<String>) {
    let recording = read(&format!("openapi: 3.1.0\n{members}"), LIMITS).unwrap();
    (recording.scenario(), recording.notes().collect())
}

#[test]
fn keys_in_the_query_are_variables() {
    let (scenario, notes) = imported(
        "security: [{k: []}]\n\
         components: {securitySchemes: {k: {type: apiKey, in: query, name: App-Id}}}\n\
         paths: {'/{app_id}?v=1': {get: {parameters: [{name: token, in: query, required: true, example: SECRET}]}}}\n",
    );
    assert!(scenario.contains("GET /{app_id}?v=1&token={token}&App-Id={app_id_2}"), "{scenario}");
    assert!(scenario.contains("[variables]\napp_id = \"x\"\ntoken = \"\"\napp_id_2 = \"\"\n"), "{scenario}");
    assert!(!scenario.contains("SECRET"));
    let notes = notes.join("\n");
    assert!(notes.contains("the description names no server") && notes.contains("--var token=KEY"), "{notes}");
    assert!(notes.contains("--var app_id_2=KEY"), "{notes}");
    assert!(notes.ends_with("--var NAME=VALUE: app_id"), "{notes}");
}

#[test]
fn operations_with_faults_are_left_out() {
    let (scenario, notes) = imported(
        "paths:\n  /a: {get: {parameters: [{$ref: 'b.yaml#/p'}]}, post: {requestBody: {content: {text/xml: {}}}}}\n  \
         b: {get: {}}\n  /c: {$ref: '#/nothing'}\n  x-d: {get: {}}\n  /e: {get: {servers: [{url: http://other}]}}\n  \
         /f: {get: {parameters: [{name: N, in: header, required: true, example: \"a\\r\\nB: c\"}]}}\n",
    );
    assert_eq!(scenario.matches("request =").count(), 2, "{scenario}");
    let notes = notes.join("\n");
    for expected in [
        "GET /a is left out: #/paths/~1a/get: \"b.yaml#/p\" refers to another file",
        "GET b is left out: #/paths/b/get: the path does not begin with",
        "/c is left out: #/paths/~1c: \"#/nothing\" refers to nothing",
        "GET /f is left out: #/paths/~1f/get: HTTP allows no such name or value of the header \"N\"",
        "1 operation has a server of its own, but goes to that of",
        "1 body is neither JSON nor a form",
    ] {
        assert!(notes.contains(expected), "{expected} in {notes}");
    }
}

#[test]
fn further_operations_and_faults_are_counted() {
    let paths: String = (0..20).map(|number| format!("  /{number}: {{get: {{}}}}\n")).collect();
    let (scenario, notes) = imported(&format!("paths:\n{paths}"));
    assert_eq!(scenario.matches("[[scenario.step]]").count(), 8);
    assert_eq!(notes[0], "of 20 requests the last 12 are left out: a scenario file has at most 8 steps");
    let (_, notes) = imported(&format!("paths:\n  /a: {{get: {{}}}}\n{}", paths.replace("{get: {}}", "{$ref: '#'}")));
    assert_eq!(notes[5], "15 further operations are left out for such reasons", "{notes:?}");
}

#[test]
fn without_a_safe_operation_all_are_comments() {
    let (scenario, notes) = imported("paths: {/rpc: {post: {}}}");
    assert!(scenario.ends_with("# [[scenario.step]]\n# request = \"POST /rpc\"\n"), "{scenario}");
    assert!(notes[1].contains("every operation changes") && notes[1].ends_with("POST /rpc"), "{notes:?}");
}

#[test]
fn other_documents_are_refused() {
    for (text, expected) in [
        ("swagger: '2.0'", "convert it to OpenAPI 3"),
        ("openapi: 3.1.0\npaths: {}", "#/paths has no operation"),
        ("openapi: 3.1.0\npaths: {/a: {$ref: 'a.yaml'}}", "refers to another file"),
        ("{\"openapi\": \"3.1.0\",", "line 1 column"),
    ] {
        let problem = read(text, LIMITS).unwrap_err();
        assert!(problem.contains(expected), "{text}: {problem}");
    }
}

/// 500 operations share a parameter with a value of a megabyte, and a schema that contains itself a hundred times.
#[test]
fn hostile_documents_give_small_scenarios() {
    let properties: String = (0..100).map(|name| format!("p{name}: {{$ref: '#/s'}}, ")).collect();
    let large = "y".repeat(1 << 20);
    let paths: String = (0..500).map(|number| format!("  /{number}: {{$ref: '#/item'}}\n")).collect();
    let text = format!(
        "openapi: 3.1.0
s: {{properties: {{{properties}}}}}
item:
  parameters:
    - {{name: q, in: query, required: true, example: {large}}}
    - {{name: s, in: query, required: true, schema: {{$ref: '#/s'}}}}
  get: {{}}
  post: {{requestBody: {{content: {{application/json: {{schema: {{$ref: '#/s'}}}}}}}}}}
paths:
{paths}"
    );
    let recording = read(&text, Limits { scenarios: 1, steps: 500 }).unwrap();
    let scenario = recording.scenario();
    assert_eq!(scenario.matches("[[scenario.step]]").count(), 500);
    assert!(scenario.len() < 64 << 20, "{}", scenario.len());
}
