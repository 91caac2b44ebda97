//! Secrets in recordings: recognised by the names of headers, query parameters and body fields, and replaced by
//! variables.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use percent_encoding::percent_decode_str;
use regex::Regex;

/// A name that contains one of these words, apart from case and separators, has a secret value.
const SECRET_WORDS: [&str; 16] = [
    "accesskey",
    "apikey",
    "auth",
    "credential",
    "csrf",
    "jwt",
    "passcode",
    "passphrase",
    "passw",
    "privatekey",
    "secret",
    "sessid",
    "sessionid",
    "signature",
    "token",
    "xsrf",
];
/// Names that are secret as a whole; within other words they are common.
const SECRET_NAMES: [&str; 12] =
    ["code", "cvc", "cvv", "key", "otp", "pass", "pin", "pwd", "samlresponse", "session", "sid", "sig"];
/// Placeholders with another meaning.
const RESERVED: [&str; 6] = ["page_version", "random", "seq", "session", "uniform", "zipf"];

/// `%` in a percent-encoded text, after its own percent sign.
const ESCAPED_PERCENT: &str = "25";
/// The codes of `&` and `#`, which end a value in a query.
const PAIR_ENDS: [&str; 2] = ["26", "23"];
/// Those of `/`, `;`, `?` and `#`, which end a parameter of a path.
const PATH_PARAMETER_ENDS: [&str; 4] = ["2F", "3B", "3F", "23"];

/// Characters of the name of a secret in JSON, with those of the maps around it.
const JSON_NAME_MAX: usize = 100;

/// The beginning of a form: a name without the quotes, braces and tags of JSON and XML.
static FORM: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#"^[^=&\s"{}<]+="#).ok());
/// A text, a number, or a sign that begins or ends something, in JSON. A text may lack its end: otherwise each token
/// after its beginning would be searched for up to the end of the body.
static TOKEN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#""(?s:[^"\\]|\\.)*(?:"|\\?\z)|-?\d[\d.eE+-]*|[\[\]{}:,]"#).ok());
/// A name and a password before the host of a URL.
static USER_INFO: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#"([A-Za-z]://)[^/?#\s@"\\]*@"#).ok());
/// The beginning of a pair in a URL that is a value of another one: its separators and the signs of its name are
/// percent-encoded once, or more often.
static NESTED_PAIR: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)%(?:25)*(3F|26|23|3B)((?:[^%&=?]|%25){1,100}?)%((?:25)*)3D").ok());
/// A name and a password before the host of such a URL.
static NESTED_USER_INFO: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)(%(?:25)*3A(?:%(?:25)*2F){2})(?:[^%/?#&\s@]|%(?:25)*3A|%25[0-9A-F]{2}){0,100}%(?:25)*40").ok()
});
/// The name of a part, in its Content-Disposition (RFC 7578, 4.2).
static PART_NAME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?i)^content-disposition:.*?[;\s]name="?([^";]+)"#).ok());

/// How the fields of a body are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyForm {
    Parts,
    Pairs,
    Json,
    Empty,
    Unknown,
}

/// The variables that have replaced secrets.
#[derive(Debug, Default)]
pub(super) struct Secrets(BTreeSet<String>);

impl Secrets {
    pub(super) fn names(&self) -> &BTreeSet<String> {
        &self.0
    }

    pub(super) fn remove_from_header(&mut self, name: &str, value: &str) -> String {
        // The value may be a URL, as in Referer.
        if is_secret(name) { self.variable(name) } else { self.remove_from_target(value) }
    }

    pub(super) fn remove_from_target(&mut self, target: &str) -> String {
        match target.split_once('?') {
            Some((path, query)) => format!("{}?{}", self.remove_from_path(path), self.remove_from_pairs(query)),
            None => self.remove_from_path(target),
        }
    }

    /// Parameters of a path, as in `/a;jsessionid=1/b`.
    fn remove_from_path(&mut self, path: &str) -> String {
        let path = without_user_info(path);
        let (first, parameters) = path.split_at(path.find(';').unwrap_or(path.len()));
        parameters.split(';').skip(1).fold(first.to_owned(), |path, part| {
            let (pair, rest) = part.split_at(part.find('/').unwrap_or(part.len()));
            path + ";" + &self.remove_from_pair(pair) + rest
        })
    }

    pub(super) fn remove_from_body(&mut self, body: &str, content_type: &str) -> String {
        match form_of(body, content_type) {
            BodyForm::Parts => self.remove_from_parts(&without_user_info(body)),
            BodyForm::Pairs => self.remove_from_pairs(body),
            BodyForm::Json => self.remove_from_json(&without_user_info(body)),
            BodyForm::Empty | BodyForm::Unknown => without_user_info(body).into_owned(),
        }
    }

    fn remove_from_pairs(&mut self, text: &str) -> String {
        // A URL in one pair and an address in another are no URL with a user.
        text.split('&').map(|pair| self.remove_from_pair(&without_user_info(pair))).collect::<Vec<_>>().join("&")
    }

    /// `name=value`. The value may be a URL with a query, whose first pair belongs to this one.
    fn remove_from_pair(&mut self, pair: &str) -> String {
        let mut position = 0;
        for part in pair.split('?') {
            let (name, value) = part.split_once('=').unwrap_or_default();
            let value_at = position + name.len() + 1;
            if is_secret(name) && !(value.is_empty() && value_at == pair.len()) {
                return pair[..value_at].to_owned() + &self.variable(name);
            }
            position += part.len() + 1;
        }
        self.remove_from_nested(pair)
    }

    /// A pair whose value may be a percent-encoded URL.
    fn remove_from_nested(&mut self, pair: &str) -> String {
        let (Some(pattern), Some(user_info)) = (NESTED_PAIR.as_ref(), NESTED_USER_INFO.as_ref()) else {
            return pair.to_owned();
        };
        let pair = user_info.replace_all(pair, "$1");
        let (mut out, mut end) = (String::with_capacity(pair.len()), 0);
        while let Some(found) = pattern.captures_at(&pair, end) {
            let (depth, value_at) = (found[3].len() / ESCAPED_PERCENT.len(), found.get_match().end());
            let name = found[2].replace(&format!("%{}", ESCAPED_PERCENT.repeat(depth + 1)), "%");
            out += &pair[end..value_at];
            end = value_at;
            if is_secret(&name) {
                let ends = if found[1].eq_ignore_ascii_case("3B") { &PATH_PARAMETER_ENDS[..] } else { &PAIR_ENDS };
                end += nested_length(&pair[value_at..], depth, ends);
            }
            if end > value_at {
                out += &self.variable(&name);
            }
        }
        out + &pair[end..]
    }

    /// Texts and numbers with a secret name, or within lists and maps with one; also in JSON that is a text in JSON.
    fn remove_from_json(&mut self, text: &str) -> String {
        let Some(pattern) = TOKEN.as_ref() else { return text.to_owned() };
        let (mut out, mut end, mut path) = (String::with_capacity(text.len()), 0, JsonPath::default());
        for token in pattern.find_iter(text) {
            out += &text[end..token.start()];
            end = token.end();
            let is_name = token.as_str().starts_with('"') && text[end..].trim_start().starts_with(':');
            match token.as_str() {
                name if is_name => path.enter(name.trim_matches('"')),
                sign @ ("[" | "]" | "{" | "}" | ":" | ",") => path.follow(sign),
                value => {
                    out += &self.json_value(value, path.secret.as_deref());
                    continue;
                }
            }
            out += token.as_str();
        }
        out + &text[end..]
    }

    fn json_value(&mut self, value: &str, secret: Option<&str>) -> String {
        let quote = if value.starts_with('"') { "\"" } else { "" };
        match secret {
            Some(_) if value == "\"\"" => value.to_owned(),
            Some(name) => format!("{quote}{}{quote}", self.variable(name)),
            None => self.json_text(value).unwrap_or_else(|| value.to_owned()),
        }
    }

    /// A text that is JSON, without its secrets; none if it is another one, or has none.
    fn json_text(&mut self, value: &str) -> Option<String> {
        let inner: String = serde_json::from_str(value).ok().filter(|text: &String| text.starts_with(['{', '[']))?;
        let removed = self.remove_from_json(&inner);
        (removed != inner).then(|| serde_json::to_string(&removed).ok())?
    }

    /// `multipart/form-data`: parts between equal lines, the first of which begins the body.
    fn remove_from_parts(&mut self, body: &str) -> String {
        let delimiter = body.lines().next().unwrap_or_default();
        body.split(delimiter).map(|part| self.remove_from_part(part)).collect::<Vec<_>>().join(delimiter)
    }

    /// A part is a head, an empty line, and its content up to the last line break.
    fn remove_from_part(&mut self, part: &str) -> String {
        let line_break = if part.starts_with("\r\n") { "\r\n" } else { "\n" };
        let Some((head, content)) = part.split_once(&line_break.repeat(2)) else { return part.to_owned() };
        let (content, end) = content.strip_suffix(line_break).map_or((content, ""), |content| (content, line_break));
        let name = head.lines().find_map(|line| PART_NAME.as_ref()?.captures(line)).map(|found| found[1].to_owned());
        let content = match name.filter(|name| is_secret(name)) {
            Some(name) => self.variable(&name),
            None if form_of(content, "") == BodyForm::Json => self.remove_from_json(content),
            None => content.to_owned(),
        };
        format!("{head}{line_break}{line_break}{content}{end}")
    }

    /// `{x_api_key}`; the name is that of a variable from now on.
    fn variable(&mut self, name: &str) -> String {
        let name = variable_name(name);
        let placeholder = format!("{{{name}}}");
        self.0.insert(name);
        placeholder
    }
}

/// Where a token of JSON is.
#[derive(Debug, Default)]
struct JsonPath {
    /// The name of the secret at this place.
    secret: Option<String>,
    /// The secret names of the lists and maps around, where there are any.
    around: Vec<Option<String>>,
}

impl JsonPath {
    fn enter(&mut self, name: &str) {
        let around = self.around.last().and_then(Option::as_ref);
        let secret =
            if is_secret(name) { Some(name.to_owned()) } else { around.map(|around| format!("{around}_{name}")) };
        self.secret = secret.map(|name| name.chars().take(JSON_NAME_MAX).collect());
    }

    fn follow(&mut self, sign: &str) {
        match sign {
            "[" | "{" => self.around.push(self.secret.clone()),
            "]" | "}" => {
                self.around.pop();
                self.leave();
            }
            "," => self.leave(),
            _ => {}
        }
    }

    fn leave(&mut self) {
        self.secret = self.around.last().cloned().flatten();
    }
}

fn without_user_info(text: &str) -> Cow<'_, str> {
    USER_INFO.as_ref().map_or(Cow::Borrowed(text), |pattern| pattern.replace_all(text, "$1"))
}

/// The length of a value in a URL whose percent signs are encoded `depth` times.
fn nested_length(text: &str, depth: usize, ends: &[&str]) -> usize {
    let is_end = |at: usize| {
        let mut code = &text[at + 1..];
        for _ in 0..depth {
            code = code.strip_prefix(ESCAPED_PERCENT).unwrap_or(code);
        }
        ends.iter().any(|end| code.get(..end.len()).is_some_and(|code| code.eq_ignore_ascii_case(end)))
    };
    text.match_indices('%').find(|(at, _)| is_end(*at)).map_or(text.len(), |(at, _)| at)
}

/// Whether the placeholder of this name has another meaning.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// `x_api_key` of `X-Api-Key`.
pub(super) fn variable_name(name: &str) -> String {
    let name: String = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' })
        .collect();
    let name = name.trim_matches('_').to_owned();
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic());
    if is_name && !is_reserved(&name) { name } else { format!("v_{name}") }
}

/// Whether secrets in a body would be found.
pub(super) fn is_searchable(body: &str, content_type: &str) -> bool {
    form_of(body, content_type) != BodyForm::Unknown
}

fn form_of(body: &str, content_type: &str) -> BodyForm {
    let is_of_type = |name: &str| content_type.to_ascii_lowercase().starts_with(name);
    let is_form = || FORM.as_ref().is_some_and(|pattern| pattern.is_match(body));
    if body.trim().is_empty() {
        BodyForm::Empty
    } else if body.starts_with("--") && (is_of_type("multipart/") || body.contains("name=\"")) {
        BodyForm::Parts
    } else if is_form() {
        BodyForm::Pairs
    } else if body.trim_start().starts_with(['{', '[']) {
        BodyForm::Json
    } else if is_of_type("application/x-www-form-urlencoded") {
        BodyForm::Pairs
    } else {
        BodyForm::Unknown
    }
}

pub(super) fn is_secret(name: &str) -> bool {
    let name = percent_decode_str(name).decode_utf8_lossy();
    let is_whole = |name: &str| SECRET_NAMES.contains(&plain(name).as_str());
    // In forms, the field of an object is `login[pass]`.
    let field = name.trim_end_matches(']').rsplit(['[', '.']).next().unwrap_or_default();
    // Authorization is secret, an author is not.
    let words = plain(&name).replace("authoriz", "auth").replace("authoris", "auth").replace("author", "");
    is_whole(field)
        || is_whole(name.trim_start_matches("X-").trim_start_matches("x-"))
        || SECRET_WORDS.iter().any(|word| words.contains(word))
}

/// Without case and separators.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_become_variables() {
        let mut secrets = Secrets::default();
        assert_eq!(secrets.remove_from_header("Authorization", "Bearer x"), "{authorization}");
        assert_eq!(secrets.remove_from_header("X-Api-Key", "x"), "{x_api_key}");
        assert_eq!(secrets.remove_from_header("Accept", "*/*"), "*/*");
        assert_eq!(secrets.remove_from_target("/a?q=1&access_token=s&r=2"), "/a?q=1&access_token={access_token}&r=2");
        assert_eq!(secrets.remove_from_body("user=a&password=b", ""), "user=a&password={password}");
        assert_eq!(
            secrets.remove_from_body(r#"{"user": "a", "newPassword" : "b\"c"}"#, ""),
            r#"{"user": "a", "newPassword" : "{newpassword}"}"#
        );
        let names: Vec<&str> = secrets.names().iter().map(String::as_str).collect();
        assert_eq!(names, ["access_token", "authorization", "newpassword", "password", "x_api_key"]);
    }

    fn of_body(body: &str, content_type: &str) -> String {
        Secrets::default().remove_from_body(body, content_type)
    }

    #[test]
    fn urls_in_headers_are_searched() {
        let mut secrets = Secrets::default();
        let referer = secrets.remove_from_header("Referer", "http://h/login?token=SECRET&q=1&code=2");
        assert_eq!(referer, "http://h/login?token={token}&q=1&code={code}");
    }

    #[test]
    fn user_info_of_urls_is_left_out() {
        let mut secrets = Secrets::default();
        assert_eq!(secrets.remove_from_header("Referer", "http://u:p@h/x@y?q=1"), "http://h/x@y?q=1");
        assert_eq!(secrets.remove_from_header("X", "https://h/@u, ftp://u@h"), "https://h/@u, ftp://h");
        assert_eq!(secrets.remove_from_target("/a?next=http://u:p@h/b@c"), "/a?next=http://h/b@c");
        assert_eq!(secrets.remove_from_body(r#"{"url":"http://u:p@h/"}"#, ""), r#"{"url":"http://h/"}"#);
    }

    #[test]
    fn percent_encoded_urls_in_values_are_searched() {
        for (target, expected) in [
            ("/a?next=https%3A%2F%2Fa%2F%3Ftoken%3Dabc", "/a?next=https%3A%2F%2Fa%2F%3Ftoken%3D{token}"),
            (
                "/a?to=%2Fb%3fq%3d1%26Code%3dx%2fy%2526z%26r%3D2%23at%3D1&q=1",
                "/a?to=%2Fb%3fq%3d1%26Code%3d{code}%26r%3D2%23at%3D1&q=1",
            ),
            ("/a?to=%2Fb%3Bjsessionid%3DA%2Fc%3Fq%3D1", "/a?to=%2Fb%3Bjsessionid%3D{jsessionid}%2Fc%3Fq%3D1"),
            ("/a?to=%2Fb%23access_token%3DA%26expires%3D1", "/a?to=%2Fb%23access_token%3D{access_token}%26expires%3D1"),
            (
                "/a?to=%2Fb%3Fto%3D%252Fc%253Fsid%253DA%2526q%253D1%26pin%3D2",
                "/a?to=%2Fb%3Fto%3D%252Fc%253Fsid%253D{sid}%2526q%253D1%26pin%3D{pin}",
            ),
            ("/a?to=%2Fb%3Flogin%255Bpass%255D%3DA", "/a?to=%2Fb%3Flogin%255Bpass%255D%3D{login_5bpass_5d}"),
            ("/a?to=http%3A%2F%2Fu%3Ap%40h%2Fb%40c", "/a?to=http%3A%2F%2Fh%2Fb%40c"),
        ] {
            assert_eq!(Secrets::default().remove_from_target(target), expected);
            let (_, form) = target.split_once('?').unwrap();
            assert_eq!(of_body(form, ""), expected.split_once('?').unwrap().1);
        }
        for other in
            ["/a?to=%2Fb%3Ftoken%3D%26q%3D1", "/a?q=a%26b%3D1", "/a?mail=me%40x.org&to=http%3A%2F%2Fh", "/a?x=%"]
        {
            assert_eq!(Secrets::default().remove_from_target(other), other);
        }
    }

    #[test]
    fn addresses_beside_urls_remain() {
        let pairs = "next=http://example.com&mail=me@x.org&url=http://u:p@h&at=a@b";
        let expected = "next=http://example.com&mail=me@x.org&url=http://h&at=a@b";
        assert_eq!(of_body(pairs, ""), expected);
        assert_eq!(Secrets::default().remove_from_target(&format!("/a?{pairs}")), format!("/a?{expected}"));
        let referer = format!("http://u:p&q@h/?{pairs}");
        assert_eq!(Secrets::default().remove_from_header("Referer", &referer), format!("http://h/?{expected}"));
    }

    #[test]
    fn parameters_of_paths_are_searched() {
        let mut secrets = Secrets::default();
        let target = secrets.remove_from_target("/a;v=1;jsessionid=A/b;PHPSESSID=?q=1");
        assert_eq!(target, "/a;v=1;jsessionid={jsessionid}/b;PHPSESSID=?q=1");
        let referer = secrets.remove_from_header("Referer", "http://h/a;JSESSIONID=SECRET");
        assert_eq!(referer, "http://h/a;JSESSIONID={jsessionid}");
    }

    #[test]
    fn lists_and_maps_with_a_secret_name_are_secrets() {
        for (body, expected) in [
            (r#"{"password":["S", "S"], "n": ["a"]}"#, r#"{"password":["{password}", "{password}"], "n": ["a"]}"#),
            (
                r#"{"credentials": {"user": "S", "pin": 1, "x": [[2, null, ""]]}, "y": "z"}"#,
                r#"{"credentials": {"user": "{credentials_user}", "pin": {pin}, "x": [[{credentials_x}, null, ""]]}, "y": "z"}"#,
            ),
            (r#"[{"token": "S"}, {"a": "b", "c": {}}, "d"]"#, r#"[{"token": "{token}"}, {"a": "b", "c": {}}, "d"]"#),
            (r#"{"data": "{\"otp\": \"S\"}"}"#, r#"{"data": "{\"otp\": \"{otp}\"}"}"#),
            (r#"{"data": "{\"a\": \u0031}"}"#, r#"{"data": "{\"a\": \u0031}"}"#),
            (r#"{"session": "S"}"#, r#"{"session": "{v_session}"}"#),
            (r#"{"token": }}] "S, {"token": "S""#, r#"{"token": }}] "S, {"token": "S""#),
            (r#"{"a": "b", "token": "S\"S\"#, r#"{"a": "b", "token": "{token}""#),
        ] {
            assert_eq!(of_body(body, "application/json"), expected);
        }
    }

    /// With work that grows faster than the text, each would take hours.
    #[test]
    fn long_malformed_texts_are_searched_in_linear_time() {
        const COUNT: usize = 200_000;
        let tokens = |text: &str| TOKEN.as_ref().unwrap().find_iter(text).count();
        let open = |count: usize| format!(r#"{{"a{}"#, r#"\":"#.repeat(count));
        assert_eq!((tokens(&open(1)), tokens(&open(100))), (2, 2), "a text without an end is one token");
        for body in [
            open(COUNT),
            format!(r#"{{"{}": {}"#, "n".repeat(COUNT), "1 ".repeat(COUNT)),
            format!(r#"{{"token": {}"#, "[".repeat(COUNT)),
        ] {
            assert_eq!(of_body(&body, "application/json"), body);
        }
        for part in ["%3Fa%3D", "%253F", "%253A%252F%252F", "%3B%25", "%3Fpin%3D%26"] {
            let target = format!("/a?b={}", part.repeat(COUNT));
            assert_eq!(Secrets::default().remove_from_target(&target), target, "{part}");
        }
        let path = "/a".to_owned() + &";".repeat(COUNT);
        assert_eq!(Secrets::default().remove_from_target(&path), path);
    }

    #[test]
    fn urls_in_values_are_searched() {
        let mut secrets = Secrets::default();
        assert_eq!(secrets.remove_from_target("/a?next=/b?token=S&q=?"), "/a?next=/b?token={token}&q=?");
        assert_eq!(secrets.remove_from_target("/a?token=b?c&d"), "/a?token={token}&d");
        assert_eq!(secrets.remove_from_target("/a?token=&token=?S&sid"), "/a?token=&token={token}&sid");
    }

    #[test]
    fn form_values_may_have_spaces() {
        assert_eq!(of_body("password=a b\nc&q=d e", ""), "password={password}&q=d e");
        let form = "application/x-www-form-urlencoded; charset=utf-8";
        assert_eq!(of_body("user name=x&pin=1 2", form), "user name=x&pin={pin}");
        assert_eq!(of_body("[a]=1&sid=2", form), "[a]=1&sid={sid}");
    }

    #[test]
    fn numbers_in_json_are_secrets_too() {
        let body = r#"{"pin":1234, "code": -1.5e+3, "n": 1, "sid": null, "list": ["a=b"]}"#;
        let expected = r#"{"pin":{pin}, "code": {code}, "n": 1, "sid": null, "list": ["a=b"]}"#;
        assert_eq!(of_body(body, "application/x-www-form-urlencoded"), expected);
    }

    #[test]
    fn parts_are_searched_by_name() {
        const PARTS: &str = "--x\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\na b\r\n\
            --x\r\ncontent-disposition: form-data; filename=\"token\"; name=\"file\"\r\n\r\nkept\r\n\r\n\r\n\
            --x\r\nContent-Disposition: form-data; name=\"json\"\r\n\r\n{\"pin\": \"SECRET\"}\r\n\
            --x\r\nContent-Type: text/plain\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\n\
            SECRET\r\n\r\nb\r\n\
            --x--\r\n";
        let expected =
            PARTS.replace("\r\n\r\nSECRET\r\n\r\nb\r\n", "\r\n\r\n{password}\r\n").replace("SECRET", "{pin}");
        assert_eq!(of_body(PARTS, "multipart/form-data; boundary=x"), expected);
        assert_eq!(of_body(&PARTS.replace('\r', ""), ""), expected.replace('\r', ""));
    }

    #[test]
    fn common_words_are_no_secrets() {
        for name in ["pass", "Passphrase", "private_key", "otp", "PHPSESSID", "X-Session", "login[pass]", "a%5Bpwd%5D"]
        {
            assert!(is_secret(name), "{name}");
        }
        for name in ["passage", "compass", "passport", "sessions", "process", "X-Requested-With", "keys[a]"] {
            assert!(!is_secret(name), "{name}");
        }
        for name in ["q", "page", "monkey", "zipcode", "sort", "design", "author", "Author-Id"] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
