//! Mistakes in experiment files: each is reported with its line, its column and the likely remedy.

use proptest::prelude::*;

use crate::world::{self, messages};

const GOOD: &str = r#"title = "x"
[subject.wiki]
kind = "site"
lab = true
driver = "events"
[subject.edge]
command = ["edge", "--to", "${wiki.url}", "--port", "${port}"]
files = { "edge.conf" = { from = "page.conf" } }
ready = { get = "/health", within = "10s" }
stop = { signal = "QUIT" }
limits = { memory = "64MiB" }
reset.cache = { purge = "/" }
[path]
source = { to = "wiki" }
cached = { to = "edge" }
[workload.crowd]
connections = "$crowd"
request = { get = "/wiki/{page}", page = { uniform = 1000 } }
http = "$protocol.http"
[workload.user]
requests = 100
timeout = "5s"
request = "GET /wiki/{uniform:1:1000}"
[factor]
path = ["source", "cached"]
crowd = [0, 250]
protocol = { "1.0" = { http = "1.0" }, "1.1" = { http = "1.1" } }
size = [13]
[design]
blocks = 6
duration = "10s"
reset = ["edge.cache"]
[[hypothesis]]
says = "the cache helps"
expect = "mean(user) [path=cached, crowd=250] < 0.25 * mean(user) [path=source, crowd=250]"
[[published]]
measure = "mean(user)"
values = [{ at = { crowd = 250 }, value = "3836 ms" }]
[profile.quick]
design.blocks = 3
"#;

#[test]
fn the_experiment_without_slips_is_good() {
    if let Err(faults) = world::read(GOOD, Some("quick")) {
        panic!("{faults}");
    }
}

/// Text of the file and its replacement (`\n` is a line break); below, the first line of each message.
const SLIPS: &str = r#"
title = "x" → titel = "x"
    line 1, column 1: there is no key `titel` here; did you mean `title`?
title = "x" → title = 5
    line 1, column 9: expected a string, found the number 5
[subject.wiki] → [subjects.wiki]
    line 2, column 2: there is no key `subjects` here; did you mean `subject`?
[subject.wiki] → [subject.wiki
    line 2, column 14: this is not valid TOML: unclosed table, expected `]`
[subject.wiki] → [subject."my wiki"]
    line 2, column 10: "my wiki" is not a valid subject name; use letters, digits, '_' and '-', beginning with a letter | line 7, column 29: ${wiki.url} is not known; did you mean ${my wiki.url}? | line 14, column 17: there is no subject `wiki`; there are `my wiki`, `edge`
kind = "site" → kind = "sit"
    line 3, column 8: there is no kind of subject `sit`; did you mean `site`?
kind = "site" →
    line 2, column 10: subject `wiki` has no `kind`; there are site, proxy, link, command, external
lab = true → lba = true
    line 4, column 1: `site` has no flag `lba`; did you mean `lab`?
lab = true → lab = "yes"
    line 4, column 7: `lab` is a switch: expected true or false, found the string "yes"
lab = true → listen = "127.0.0.1:80"
    line 4, column 1: `listen` is set by breme; remove it
driver = "events" → driver = "event"
    line 5, column 10: `driver` cannot be "event"; did you mean `events`?
driver = "events" → driver = ["events", {}]
    line 5, column 21: expected a value for `driver`, found a table
driver = "events" → driver = "$drivr"
    line 5, column 11: there is no factor `drivr`; there are `path`, `crowd`, `protocol`, `size`
driver = "events" → command = ["x"]
    line 5, column 1: `command` is not allowed in this subject: it is one of breme's own servers; remove the key
command = ["edge", "--to", "${wiki.url}", "--port", "${port}"] → command = "edge --port ${port}"
    line 7, column 11: a command is a list; write ["edge", "--port", "${port}"]
command = ["edge", "--to", "${wiki.url}", "--port", "${port}"] → command = []
    line 7, column 11: this command is empty; write ["PROGRAM", "ARGUMENT"]
${wiki.url} → ${wkii.url}
    line 7, column 29: ${wkii.url} is not known; did you mean ${wiki.url}?
${wiki.url} → ${wiki.ulr}
    line 7, column 29: ${wiki.ulr} is not known; did you mean ${wiki.url}?
${wiki.url} → ${edge.url} ${db.url}
    line 7, column 41: ${db.url} is not known; did you mean ${edge.url}?
${port}" → ${prot}"
    line 7, column 54: ${prot} is not known; did you mean ${port}?
${port}" → ${port.admin}"
    line 6, column 10: ${port.admin} is used in subject `edge`, but there is no port `admin`; write ports = ["port", "admin"]
from = "page.conf" → from = "pge.conf"
    line 8, column 34: the file "pge.conf" cannot be read: there is no such file
from = "page.conf" → form = "page.conf"
    line 8, column 25: expected a string or { from = "FILE" }
"edge.conf" = → "../edge.conf" =
    line 8, column 11: "../edge.conf" is not a file name inside the trial's folder; write for example "conf/nginx.conf"
get = "/health" → get = "health"
    line 9, column 17: "health" is not a path; a path begins with '/'
get = "/health" → get = "/health", status = 2000
    line 9, column 37: 2000 is not a status code; write one from 100 to 599
get = "/health" → get = "/health", line = "x"
    line 9, column 9: `port`, `get` and `line` exclude each other; keep one of them
within = "10s" → within = "soon"
    line 9, column 37: "soon" is not a duration; write 500ms, 10s, 3m, 1h, or a number of seconds
within = "10s" → wihtin = "10s"
    line 9, column 28: there is no key `wihtin` here; did you mean `within`?
stop = { signal = "QUIT" } → url = "http://a:99999"
    line 10, column 7: "http://a:99999" is not a URL: the port must be a number from 1 to 65535, not "99999"; write http://HOST:PORT or https://HOST:PORT
stop = { signal = "QUIT" } → metrics = "http://[x]/metrics"
    line 10, column 11: "http://[x]/metrics" is neither a path nor a URL: brackets must contain an IPv6 address, not "x"; write for example "/metrics"
signal = "QUIT" → signal = "QIUT"
    line 10, column 19: there is no signal "QIUT"; did you mean `QUIT`?
memory = "64MiB" → memory = "64 furlongs"
    line 11, column 21: "64 furlongs" is not a size; write 64MiB, 10kB, or a number of bytes
memory = "64MiB" → memmory = "64MiB"
    line 11, column 12: there is no key `memmory` here; did you mean `memory`?
memory = "64MiB" → cpu = 0
    line 11, column 18: a limit of processors must be above 0; 0.5 is half a processor
purge = "/" → pruge = "/"
    line 12, column 17: there is no key `pruge` here; did you mean `purge`?
purge = "/" → purge = "http://a:0/"
    line 12, column 15: "http://a:0/" is neither a path nor a URL: the port must be a number from 1 to 65535, not "0"; write for example "PURGE /"
purge = "/" → purge = "/", post = "/x"
    line 12, column 15: a reset is one request or one command: { post = "/reset" }, { purge = "/" }, { request = "BAN /" } or { command = ["PROGRAM"] }
source = { to = "wiki" } → source = { to = "wkii" }
    line 14, column 17: there is no subject `wkii`; did you mean `wiki`?
source = { to = "wiki" } → source = { too = "wiki" }
    line 14, column 12: there is no key `too` here; did you mean `to`?
source = { to = "wiki" } → source = "wiki"
    line 14, column 10: a path is a table; write source = { to = "wiki" }
connections = "$crowd" → connections = "$crwod"
    line 17, column 16: there is no factor `crwod`; did you mean `crowd`?
connections = "$crowd" → connections = "crowd"
    line 17, column 15: "crowd" is not a count; write a whole number, or 10k, 1.5M, 2G
connections = "$crowd" → connections = -1
    line 17, column 15: expected a whole number, or a string such as "10k", found the number -1
connections = "$crowd" → connections = 99999999999
    line 17, column 15: `connections` is a number from 0 to 1,000,000, not 99999999999
connections = "$crowd" → connections = "$crowd"\npipeline = 0
    line 18, column 12: `pipeline` is a number from 1 to 4,096, not 0
connections = "$crowd" → connections = "$crowd"\nthreads = "1M"
    line 18, column 11: `threads` is a number from 1 to 1,024, not 1000000
connections = "$crowd" → conections = "$crowd"
    line 17, column 1: there is no key `conections` here; did you mean `connections`?
connections = "$crowd" → connections = "$crowd"\nrate = 0
    line 18, column 8: expected a number per second, or a string such as "20k", found the number 0
connections = "$crowd" → connections = "$crowd"\nrate = "10 20"
    line 18, column 8: "10 20" is not a rate; write a number per second (100, 0.5, 20k), or per another time (600/1m), or a share of the rate of another workload (50 % of NAME)
connections = "$crowd" → connections = "$crowd"\narrivals = "poisson"
    line 18, column 1: `arrivals` belongs to an open loop; add a `rate`
connections = "$crowd" → connections = "$crowd"\nrate = 5\narrivals = "poison"
    line 19, column 12: `arrivals` cannot be "poison"; did you mean `poisson`?
connections = "$crowd" → connections = "$crowd"\nover = "10s"
    line 18, column 8: `over` is the time over which `requests` are spread; add requests = 1000
connections = "$crowd" → connections = "$crowd"\nstages = "10s"
    line 18, column 10: "10s" is not a stage; write TIME:RATE for a linear change to RATE, as in 10s:500, or TIME@RATE for a constant rate, as in 1m@500
connections = "$crowd" → connections = "$crowd"\nstages = ["10s:5", "1x@5"]
    line 18, column 20: "1x" is not a duration; write 500ms, 10s, 3m, 1h, or a number of seconds
connections = "$crowd" → connections = "$crowd"\nstages = "10s:500 1m:100"
    line 18, column 10: "500 1m:100" is not a rate; write a number per second (100, 0.5, 20k), or per another time (600/1m)
connections = "$crowd" → connections = "$crowd"\nthink = "2s..1s"
    line 18, column 9: "2s..1s" is reversed; write the shorter time first
connections = "$crowd" → connections = "$crowd"\nto = "cachd"
    line 18, column 6: there is no path or subject `cachd`; did you mean `cached`?
connections = "$crowd" → connections = "$crowd"\ncpus = "3-1"
    line 18, column 8: "3-1" is not a list of processors; write auto, all, or numbers and ranges such as "0,2-3"
connections = "$crowd" → connections = "$crowd"\nscenario = "none.toml"
    line 18, column 12: the file "none.toml" cannot be read: there is no such file | line 19, column 1: `request` and `scenario` exclude each other: a scenario sets it in each step
connections = "$crowd" → connections = "$crowd"\nheaders = { X = "${port}" }
    line 16, column 11: workload `crowd` has no port of its own; write ${wiki.port}
get = "/wiki/{page}" → get = "/wiki/{pgae}"
    line 18, column 26: {pgae} is not a placeholder; did you mean {page}?
get = "/wiki/{page}" → get = "/wiki/"
    line 18, column 29: `page` is not used; write {page} in the path
get = "/wiki/{page}" → gte = "/wiki/{page}"
    line 18, column 11: this request has no method and path; write for example get = "/page"
page = { uniform = 1000 } → page = { unifrom = 1000 }
    line 18, column 44: there is no placeholder `unifrom`; did you mean `uniform`?
page = { uniform = 1000 } → page = { uniform = "many" }
    line 18, column 54: expected a whole number, found the string "many"
page = { uniform = 1000 } → page = { uniform = [9, 1] }
    line 18, column 54: this range is reversed; write the smaller number first
http = "$protocol.http" → http = "$protocol.htpp"
    line 19, column 9: level `1.0` of factor `protocol` has no setting `htpp`; did you mean `http`?
http = "$protocol.http" → http = "$crowd.http"
    line 19, column 9: the levels of factor `crowd` have no settings such as `http`; write $crowd
http = "$protocol.http" → http = "2"
    line 19, column 8: `http` cannot be "2"; there are `1.0`, `1.1`
requests = 100 → requests = "lots"
    line 21, column 12: "lots" is not a count; write a whole number, or 10k, 1.5M, 2G
requests = 100 → requests = 0
    line 21, column 12: `requests` must be at least 1; to disable the workload, set connections = 0
requests = 100 → reqeusts = 100
    line 21, column 1: there is no key `reqeusts` here; did you mean `requests`?
request = "GET /wiki/{uniform:1:1000}" → request = "wiki"
    line 23, column 11: "wiki" is not a request; write a method and a path that begins with '/', as in "GET /page"
request = "GET /wiki/{uniform:1:1000}" → request = "/a b"
    line 23, column 14: ' ' is not allowed in a path; percent-encode it
request = "GET /wiki/{uniform:1:1000}" → request = "/wiki/{unifrom:1:1000}"
    line 23, column 18: {unifrom:1:1000} is not a placeholder; did you mean {uniform}?
request = "GET /wiki/{uniform:1:1000}" →
    line 20, column 11: workload `user` has no request; add request = "/"
path = ["source", "cached"] → path = ["source", "chached"]
    line 25, column 19: there is no path or subject `chached`; did you mean `cached`? | line 35, column 28: factor `path` has no level `cached`; did you mean `chached`?
crowd = [0, 250] → crowd = [0, 250, 250]
    line 26, column 18: factor `crowd` has the level `250` twice
crowd = [0, 250] → crowd = [0, "many", 250]
    line 26, column 13: "many" is not a count; write a whole number, or 10k, 1.5M, 2G
crowd = [0, 250] → crowd = 250
    line 26, column 9: a factor has a list of levels, such as [250], not the number 250
crowd = [0, 250] → crowd = { from = 250, to = 1 }
    line 26, column 9: this range is empty; `from` must be less than `to`
size = [13] → size = []
    line 28, column 8: factor `size` has no levels
size = [13] → wiki = [13]
    line 28, column 1: there is a subject `wiki` already; give the factor another name
http = "1.1" } → htpp = "1.1" }
    line 19, column 9: level `1.1` of factor `protocol` has no setting `http`; did you mean `htpp`?
blocks = 6 → blocks = 0
    line 30, column 10: a run needs at least 1 block; a verdict needs at least 5
blocks = 6 → blocks = { least = 9, most = 8 }
    line 30, column 10: `least` is 9 and `most` is 8; `least` must not be larger
blocks = 6 → blocks = { lest = 9 }
    line 30, column 12: there is no key `lest` here; did you mean `least`?
blocks = 6 → blocks = "six"
    line 30, column 10: "six" is not a count; write a whole number, or 10k, 1.5M, 2G
blocks = 6 → blcoks = 6
    line 30, column 1: there is no key `blcoks` here; did you mean `blocks`?
blocks = 6 → blocks = "$crowd"
    line 30, column 10: `blocks` applies to the whole run; it cannot depend on a factor
blocks = 6 → aa = { crowd = 100 }
    line 30, column 16: factor `crowd` has no level `100`; there are `0`, `250`
blocks = 6 → confidence = "200 %"
    line 30, column 14: "200 %" is not a share; write for example "2 %" or 0.02
blocks = 6 → order = "randm"
    line 30, column 9: "randm" is not known here; did you mean `random`?
blocks = 6 → warm_up = "800h"
    line 30, column 11: a warm-up lasts at most 30 days
blocks = 6 → warm_up = "atuo"
    line 30, column 11: "atuo" is not a warm-up; did you mean `auto`?
duration = "10s" → duration = 0
    line 31, column 12: nothing can be measured in 0 s; write for example "10s"
duration = "10s" → duration = "ten seconds"
    line 31, column 12: "ten seconds" is not a duration; write 500ms, 10s, 3m, 1h, or a number of seconds
duration = "10s" → duration = "1 0s"
    line 31, column 12: "1 0s" is not a duration; write 500ms, 10s, 3m, 1h, or a number of seconds
duration = "10s" → duration = "10 years"
    line 31, column 12: "10 years" is not a duration; write 500ms, 10s, 3m, 1h, or a number of seconds
reset = ["edge.cache"] → reset = ["edge.cahce"]
    line 32, column 10: subject `edge` has no reset `cahce`; did you mean `cache`?
reset = ["edge.cache"] → reset = "cache"
    line 32, column 9: "cache" is not a reset; write SUBJECT.ACTION, as in "edge.cache" or "edge.restart"
reset = ["edge.cache"] → reset = ["egde.cache"]
    line 32, column 10: there is no subject `egde`; did you mean `edge`?
mean(user) [path=cached, crowd=250] < → mean(usr) [path=cached, crowd=250] <
    line 35, column 16: there is no workload `usr`; did you mean `user`?
[path=cached, crowd=250] < → [path=chached, crowd=250] <
    line 35, column 28: factor `path` has no level `chached`; did you mean `cached`?
[path=cached, crowd=250] < → [path=cached, crowd=100] <
    line 35, column 42: factor `crowd` has no level `100`; there are `0`, `250`
0.25 * mean(user) → 0.25 * rate(user)
    line 35, column 49: a number per second cannot be compared (<) with a time
expect = "mean → expct = "mean
    line 35, column 1: there is no key `expct` here; did you mean `expect`?
measure = "mean(user)" → measure = "maen(user)"
    line 37, column 12: there is no measure `maen`; did you mean `mean`?
at = { crowd = 250 } → at = { crowd = 251 }
    line 38, column 28: factor `crowd` has no level `251`; did you mean `250`?
value = "3836 ms" → value = 3836
    line 38, column 43: 3836 has no unit; write "3836 ms", or unit = "ms" for all values
value = "3836 ms" → value = "3836 /s"
    line 38, column 43: "3836 /s" is in another unit than the measure
design.blocks = 3 → design.blokcs = 3
    line 40, column 8: there is no key `blokcs` here; did you mean `blocks`?
design.blocks = 3 → factor.crowd = ["x"]
    line 40, column 17: "x" is not a count; write a whole number, or 10k, 1.5M, 2G
"#;

#[test]
fn every_slip_is_reported_with_its_place_and_its_remedy() {
    world::check_slips(GOOD, SLIPS);
    world::check_slips(COMMAND, SLIPS_OF_COMMANDS);
    world::check_slips(SMALL, SLIPS_OF_THE_WHOLE);
}

#[test]
fn everything_is_reported_at_once_with_the_line_and_a_mark() {
    let text = GOOD
        .replace("blocks = 6", "blocks = 0")
        .replace("lab = true", "lba = true")
        .replace("mean(user) [path=cached", "mean(usr) [path=cached");
    let expected = "line 4, column 1: `site` has no flag `lba`; did you mean `lab`?\n  4 | lba = true\n    | ^^^\n\n\
        line 30, column 10: a run needs at least 1 block; a verdict needs at least 5\n  30 | blocks = 0\n     |          ^\n\n\
        line 35, column 16: there is no workload `usr`; did you mean `user`?\n  35 | expect = \"mean(usr) [path=cached, crowd=250] < 0.25 * mean(user) [path=source, crowd=250]\"\n     |                ^^^";
    assert_eq!(world::read(&text, None).unwrap_err().to_string(), expected);
}

/// A workload with a foreign generator.
const COMMAND: &str = r#"subject.s = { url = "http://h" }
[workload.ab]
command = ["ab", "-n"]
[workload.ab.measures]
rate = { pattern = 'second: ([0-9]+)' }
"#;

const SLIPS_OF_COMMANDS: &str = r#"
"-n" → "${urk}"
    line 3, column 19: ${urk} is not known; did you mean ${url}?
"-n" → "${s.port}${port}"
    line 3, column 28: ${port} is not known; did you mean ${s.port}?
rate = { pattern = 'second: ([0-9]+)' } →
    line 2, column 11: workload `ab` measures nothing; write what its output says: [workload.ab.measures] rate = { pattern = 'Requests per second:\s+([\d.]+)' }
rate = { pattern = 'second: ([0-9]+)' } → rte = { pattern = '(x)' }
    line 5, column 1: there is no measure `rte`; did you mean `rate`?
rate = { pattern = 'second: ([0-9]+)' } → memory = { pattern = '(x)' }
    line 5, column 1: `memory` is not read from an output; a command has mean, min, max, stdev, p99 (also of service and connect), rate, offered, bytes, errors, pass, count, failed, refused
rate = { pattern = 'second: ([0-9]+)' } → rate = '([0-9]+)'
    line 5, column 8: a measure is a table; write { pattern = '([0-9]+)' }
'second: ([0-9]+)' → '('
    line 5, column 20: this is not a valid pattern: unclosed group
'second: ([0-9]+)' → 'x'
    line 5, column 20: a pattern has one group, the number, and perhaps a second one, its unit; write for example 'Requests per second:\s+([\d.]+)'
rate = { pattern = 'second: ([0-9]+)' } → mean = { pattern = '(x)' }
    line 5, column 20: `mean` needs a unit; add unit = "ms", or a second group for a printed unit
rate = { pattern = 'second: ([0-9]+)' } → mean = { pattern = '(x)', unit = "kB" }
    line 5, column 34: "kB" is not a unit of `mean`; write for example "ms"
"-n"] → "-n"]\nrequest = "/"
    line 4, column 1: `request` is not for a command; write it as one of the command's arguments
"-n"] → "-n"]\nbackground = true
    line 4, column 14: a command ends by itself, so it cannot run in the background
"-n" → "${rate}"
    line 2, column 11: workload `ab` uses ${rate}, but has no rate; add rate = 1000
"-n"] → "-n"]\nrate = "half of a"
    line 4, column 8: "half of a" is not a rate; write a number per second (100, 0.5, 20k), or per another time (600/1m), or a share of the rate of another workload (50 % of NAME)
"-n"] → "-n"]\nrate = "50 % of b"
    line 2, column 11: workload `ab`: there is no workload `b`; the file has none
"-n"] → "-n"]\nstart_after = "ab"
    line 2, column 11: workload `ab`: it waits for its own end
"-n"] → "-n"]\nserver_count = "x"
    line 4, column 16: the server's count is compared with that of the command; add measures.count
([0-9]+)' } → ([0-9]+)' }\n[[hypothesis]]\nexpect = "generator.cpu(ab) < 5 ms"
    line 7, column 11: `generator.cpu` is not read from the output of `ab`; add count = { pattern = '…' } to [workload.ab.measures]
([0-9]+)' } → ([0-9]+)' }\n[[hypothesis]]\nexpect = "p99(ab) < 5 ms"
    line 7, column 11: `p99` is not read from the output of `ab`; add p99 = { pattern = '…' } to [workload.ab.measures]
subject.s = → prepare = [["x", "${port}"]]\nsubject.s =
    line 1, column 19: ${port} is not known; there are ${experiment}, ${breme}, ${shared}; for the text itself write $${port}
"#;

const SMALL: &str = r#"subject.s = { url = "http://h" }
[workload.u]
request = "/"
"#;

const SLIPS_OF_THE_WHOLE: &str = r#"
subject.s = { url = "http://h" } →
    line 2, column 11: there is no subject to load; add [subject.NAME]
subject.s = { url = "http://h" } → subject.s = { url = "http://h" }\nsubject.t = { url = "http://h" }
    line 3, column 11: workload `u` has several possible targets; write to = "s" or to = "t"
subject.s = { url = "http://h" }\n[workload.u] → subject.a = { command = ["x", "${b.url}"] }\nsubject.b = { command = ["x"], needs = ["a"] }\n[workload.u]\nto = "a"
    line 1, column 9: subjects depend on each other in a cycle: a → b → a
subject.s = { url = "http://h" }\n[workload.u] → subject.a = { command = ["x", "${b.port}"], needs = ["b"] }\nsubject.b = { command = ["x", "${a.url}"] }\n[workload.u]\nto = "a"
    line 1, column 9: subjects depend on each other in a cycle: a → b → a
request = "/" → request = "/"\nconnections = 0
    line 2, column 11: nothing is measured: no workload has a connection
request = "/" → request = "/"\nbackground = true
    line 2, column 11: every workload is in the background, and none ends the trial; set background = false for one
request = "/" → request = "/"\nserver_count = "x"
    line 4, column 1: `server_count` belongs to a command; add command = ["PROGRAM", "ARGUMENT"]
request = "/" → request = "/"\nconnections = "$n"\n[factor]\nn = { from = 1, to = 5 }
    line 6, column 1: factor `n` has a range, but there is no search; add [search] with factor = "n", or list its levels
request = "/" → request = "/"\n[search]\nfactor = "n"\nuntil = "p99(u) > 1 s [n=1]"
    line 5, column 10: there is no factor `n`; the file has none | line 6, column 23: expected an operator (+ - * /) or the end, found "["
request = "/" → request = "/"\nconnections = "$n"\n[factor]\nn = { from = 1, to = 5 }\n[search]\nfactor = "n"\nuntil = "p99(u) > 1 s"\nprecision = 0
    line 10, column 13: a search with a precision of 0 never ends; write for example "5 %"
request = "/" → request = "/"\nheaders = { x = "$n" }\n[factor]\nn = { from = -1, to = 5 }\n[search]\nfactor = "n"\nuntil = "p99(u) > 1 s"
    line 8, column 10: a search needs levels from 0 on; factor `n` begins at -1
request = "/" → request = "/"\n[[model]]\nkind = "growht"
    line 5, column 8: "growht" is not known here; did you mean `growth`?
request = "/" → request = "/"\nconnections = "$n"\n[factor]\nn = [1, 2]\n[[model]]\nof = "rate(u)"\nover = "m"\nleave_out = [3]
    line 7, column 1: this model is not complete; add kind = "growth" or kind = "mva" | line 9, column 8: there is no factor `m`; there is only `n`
request = "/" → request = "/"\n[measure]\nrate = "p99(u)"
    line 5, column 1: "rate" is already defined
request = "/" → request = "/"\nmeasures = ["p99", "p99(u)"]
    line 4, column 1: a list of `measures` belongs above the first [table]
request = "/" → request = "/"\nheaders = { "A B" = 1 }
    line 4, column 13: "A B" is not a valid header name; use letters, digits and '-'
request = "/" → request = "/"\nthink = "1s..9999999999999999h"\nstart_after = "9999999999999999s"
    line 2, column 11: workload `u` starts after more than 30 days | line 4, column 9: "9999999999999999h" is not a duration; write 500ms, 10s, 3m, 1h, or a number of seconds
subject.s = → design = 2\nsubject.s =
    line 1, column 10: expected a table, found the number 2
request = "/" → a = 1\na = 2
    line 4, column 1: this is not valid TOML: duplicate key
"#;

#[test]
fn mistakes_of_the_whole_file_are_reported() {
    assert_eq!(
        messages(""),
        ["there is no workload, so nothing can be measured; add [workload.NAME] with request = \"/\""]
    );
    let levels: Vec<u32> = (1..=50).collect();
    let factors = |rest: &str| messages(&format!("{SMALL}connections = \"$a\"\n[factor]\na = {rest}")).remove(0);
    assert_eq!(
        factors(&format!("{:?}\n[design]\nblocks = 10000\n", &levels[..11])),
        "line 8, column 1: 12 trials in each of 10000 blocks are 120000, more than 100000; use fewer blocks or levels"
    );
    assert_eq!(
        factors(&format!("{levels:?}\nb = {levels:?}\n")),
        "line 6, column 1: 50 × 50 combinations of levels are more than 2000; use fewer levels, or split the experiment"
    );
    let profile = |factor: &str| messages(&GOOD.replace("design.blocks = 3", factor)).join(" | ");
    assert_eq!(
        profile("factor.protocol = [\"1.1\", \"1.2\"]"),
        "line 40, column 27: the experiment has no level `1.2` of this factor; did you mean `1.1`?"
    );
    assert_eq!(
        profile("factor.protocol = [\"1.1\", \"1.1\"]"),
        "line 40, column 27: factor `protocol` has the level `1.1` twice"
    );
    let unknown = world::read(GOOD, Some("quik")).unwrap_err().to_string();
    assert_eq!(unknown, "there is no profile `quik`; did you mean `quick`?");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn no_file_ends_the_program(cut in 0..GOOD.len(), length in 0..40_usize, text in "\\PC{0,12}|\\$[a-z.]{0,9}|\\[|\\{|\"") {
        let end = (cut + length).min(GOOD.len());
        let file = format!("{}{}{}", &GOOD[..cut], text, &GOOD[end..]);
        match world::read(&file, None) {
            Err(faults) => prop_assert!(!faults.0.is_empty() && !faults.to_string().is_empty()),
            Ok(plan) => {
                let again = world::read(&plan.to_toml(), None);
                let again = again.map_err(|faults| TestCaseError::fail(format!("{file}
{}
{faults}", plan.to_toml())))?;
                prop_assert_eq!((again.trials(), again.estimate()), (plan.trials(), plan.estimate()));
            }
        }
    }
}

/// A misspelt key and a factor without levels do not hide other errors.
#[test]
fn a_mistake_hides_no_other() {
    let text = r#"qestion = "x"
[subject.server]
kind = "sight"
[subject.other]
kind = "site"
lab = "yes"
threads = "$size"
[workload.user]
to = "other"
connections = "many"
requst = "/x"
[workload.crowd]
to = "other"
connections = "$size"
[factor]
size = []
[design]
blocks = "six"
durration = "1s"
confidence = "2 %"
[[hypothesis]]
says = "a"
expct = "rate(user) > 10"
"#;
    let faults = world::read(text, None).unwrap_err();
    let places: Vec<usize> = faults.0.iter().map(|fault| fault.place.unwrap().line).collect();
    assert_eq!(places, [1, 3, 10, 11, 16, 18, 19, 20, 23], "{faults}");
}
