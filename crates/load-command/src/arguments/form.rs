//! `--form`: the body of a form with files (RFC 7578).

use std::path::Path;

use breme_http::media_type::OCTET_STREAM;
use breme_load_plan::{Variables, is_template};

use super::input::read_file;

/// A field of a form: `NAME=VALUE`, `NAME=@FILE` or `NAME=<FILE`, as in curl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormField {
    name: String,
    value: FormValue,
    content_type: Option<String>,
    file_name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FormValue {
    Text(String),
    /// The file is uploaded as such.
    File(String),
    /// The file is the value.
    TextOfFile(String),
}

impl FormField {
    pub fn parse(text: &str) -> Result<Self, String> {
        let fault = || format!("{text:?} is not a field; write NAME=VALUE, NAME=@FILE or NAME=<FILE");
        let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(fault)?;
        let (kind, value): (fn(String) -> FormValue, _) = match (value.strip_prefix('@'), value.strip_prefix('<')) {
            (Some(path), _) => (FormValue::File, path),
            (_, Some(path)) => (FormValue::TextOfFile, path),
            _ => (FormValue::Text, value),
        };
        let (mut value, mut rest) = split_value(value);
        let (mut content_type, mut file_name) = (None, None);
        while let Some(part) = rest.strip_prefix(';') {
            let word = part.trim_start();
            if let Some(text) = word.strip_prefix("type=") {
                let (text, after) = split_value(text);
                (content_type, rest) = (Some(text), after);
            } else if let Some(text) = word.strip_prefix("filename=") {
                let (text, after) = split_value(text);
                (file_name, rest) = (Some(text), after);
            } else {
                let (text, after) = part.split_at(part.find(';').unwrap_or(part.len()));
                // A parameter of the type, or a semicolon in the value.
                *content_type.as_mut().unwrap_or(&mut value) += &format!(";{text}");
                rest = after;
            }
        }
        let value = kind(value);
        if content_type.as_ref().is_some_and(|value| value.chars().any(char::is_control)) {
            return Err(fault());
        }
        Ok(Self { name: name.to_owned(), value, content_type, file_name })
    }

    /// Its content, and the name under which a file is uploaded.
    fn read(&self) -> Result<(Vec<u8>, Option<String>), String> {
        let (path, is_upload) = match &self.value {
            FormValue::Text(text) => return Ok((text.clone().into_bytes(), self.file_name.clone())),
            FormValue::File(path) => (path, true),
            FormValue::TextOfFile(path) => (path, false),
        };
        let content =
            read_file(Path::new(path)).map_err(|problem| format!("--form {}: {path} {problem}", self.name))?;
        let own_name = || Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
        let file_name = self.file_name.clone().or_else(|| is_upload.then(own_name).flatten());
        Ok((content, file_name))
    }
}

/// A value up to the next semicolon, and the rest. Quotes around the whole value are removed; within them `\"` and `\\`
/// are characters, as in curl.
fn split_value(text: &str) -> (String, &str) {
    quoted_value(text).unwrap_or_else(|| {
        let (value, rest) = text.split_at(text.find(';').unwrap_or(text.len()));
        (value.to_owned(), rest)
    })
}

fn quoted_value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.strip_prefix('"')?.chars();
    loop {
        match characters.next()? {
            '"' => break,
            '\\' if characters.as_str().starts_with(['"', '\\']) => value.extend(characters.next()),
            character => value.push(character),
        }
    }
    let rest = characters.as_str().trim_start();
    (rest.is_empty() || rest.starts_with(';')).then_some((value, rest))
}

/// A piece of a body.
struct Piece {
    bytes: Vec<u8>,
    /// Without placeholders: the content or the name of an uploaded file.
    is_literal: bool,
}

/// A body and its Content-Type. Texts may contain placeholders; uploaded files are sent as they are.
pub fn encode(fields: &[FormField], variables: &Variables) -> Result<(Vec<u8>, String), String> {
    let contents = fields.iter().map(FormField::read).collect::<Result<Vec<_>, _>>()?;
    let is_free = |boundary: &String| {
        contents.iter().all(|(content, _)| !content.windows(boundary.len()).any(|part| part == boundary.as_bytes()))
    };
    let boundary = (0_u64..).map(|number| format!("breme-form-{number:016}")).find(is_free).unwrap_or_default();
    let mut pieces = Vec::new();
    for (field, (content, file_name)) in fields.iter().zip(contents) {
        push_field(&mut pieces, &boundary, field, content, file_name);
    }
    push_text(&mut pieces, format!("--{boundary}--\r\n"));
    Ok((join(pieces, variables), format!("multipart/form-data; boundary={boundary}")))
}

fn push_field(pieces: &mut Vec<Piece>, boundary: &str, field: &FormField, content: Vec<u8>, file_name: Option<String>) {
    let name = quoted(&field.name);
    push_text(pieces, format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\""));
    let default = file_name.as_ref().map(|_| OCTET_STREAM);
    if let Some(name) = file_name {
        push_text(pieces, String::from("; filename=\""));
        pieces.push(Piece { bytes: quoted(&name).into_bytes(), is_literal: field.file_name.is_none() });
        push_text(pieces, String::from("\""));
    }
    if let Some(content_type) = field.content_type.as_deref().or(default) {
        push_text(pieces, format!("\r\nContent-Type: {content_type}"));
    }
    push_text(pieces, String::from("\r\n\r\n"));
    pieces.push(Piece { bytes: content, is_literal: matches!(field.value, FormValue::File(_)) });
    push_text(pieces, String::from("\r\n"));
}

fn push_text(pieces: &mut Vec<Piece>, text: String) {
    pieces.push(Piece { bytes: text.into_bytes(), is_literal: false });
}

/// One placeholder anywhere makes the whole body a template: then the braces of literal pieces are doubled. If the only
/// placeholders are in literal pieces, the texts have none, and their braces are literal too.
fn join(pieces: Vec<Piece>, variables: &Variables) -> Vec<u8> {
    let texts: Vec<u8> =
        pieces.iter().filter(|piece| !piece.is_literal).flat_map(|piece| &piece.bytes).copied().collect();
    let body: Vec<u8> = pieces.iter().flat_map(|piece| &piece.bytes).copied().collect();
    if is_template(&texts, variables) {
        let escaped = |piece: Piece| if piece.is_literal { with_doubled_braces(&piece.bytes) } else { piece.bytes };
        pieces.into_iter().flat_map(escaped).collect()
    } else if is_template(&body, variables) {
        with_doubled_braces(&body)
    } else {
        body
    }
}

fn with_doubled_braces(bytes: &[u8]) -> Vec<u8> {
    let repeated = bytes.iter().flat_map(|&byte| std::iter::repeat_n(byte, 1 + usize::from(b"{}".contains(&byte))));
    repeated.collect()
}

/// As in browsers (HTML, "multipart/form-data").
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use breme_base::Random;
    use breme_load_plan::{Content, Inputs, Plan, Settings};

    use super::*;

    fn form(fields: &[&str]) -> (String, String) {
        let fields: Vec<FormField> = fields.iter().map(|field| FormField::parse(field).unwrap()).collect();
        let (body, content_type) = encode(&fields, &Variables::default()).unwrap();
        (String::from_utf8(body).unwrap(), content_type)
    }

    #[test]
    fn fields_and_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a \"b\".txt");
        std::fs::write(&path, "content").unwrap();
        let path = path.display();
        let (body, content_type) = form(&[
            "name=x; y",
            &format!("f=@{path};type=text/plain"),
            &format!("g=@{path};filename=h"),
            &format!("t=<{path}"),
        ]);
        let boundary = "--breme-form-0000000000000000\r\n";
        let expected = [
            "",
            "Content-Disposition: form-data; name=\"name\"\r\n\r\nx; y\r\n",
            "Content-Disposition: form-data; name=\"f\"; filename=\"a %22b%22.txt\"\r\nContent-Type: text/plain\r\n\r\ncontent\r\n",
            "Content-Disposition: form-data; name=\"g\"; filename=\"h\"\r\nContent-Type: application/octet-stream\r\n\r\ncontent\r\n",
            "Content-Disposition: form-data; name=\"t\"\r\n\r\ncontent\r\n--breme-form-0000000000000000--\r\n",
        ];
        assert_eq!(body, expected.join(boundary));
        assert_eq!(content_type, "multipart/form-data; boundary=breme-form-0000000000000000");
    }

    #[test]
    fn quotes_enclose_a_value_as_in_curl() {
        let parsed = |text: &str| {
            let FormField { value, content_type, file_name, .. } = FormField::parse(text).unwrap();
            (value, content_type.unwrap_or_default(), file_name.unwrap_or_default())
        };
        let text = |value: &str| FormValue::Text(value.to_owned());
        let check = |field: &str, value: FormValue, content_type: &str, file_name: &str| {
            assert_eq!(parsed(field), (value, content_type.to_owned(), file_name.to_owned()), "{field}");
        };
        check(r#"a="x;y""#, text("x;y"), "", "");
        check(r#"a="\"x\\\n";type="t/u""#, text(r#""x\\n"#), "t/u", "");
        check(r#"a="x", "y""#, text(r#""x", "y""#), "", "");
        check(r#"a="x"#, text(r#""x"#), "", "");
        check(r#"f=@"a;b" ;filename="we ird.txt""#, FormValue::File("a;b".to_owned()), "", "we ird.txt");
        check("a=x; y;type=text/plain; charset=utf-8;filename=z", text("x; y"), "text/plain; charset=utf-8", "z");
    }

    #[test]
    fn the_boundary_is_in_no_field() {
        let (body, content_type) = form(&["a=breme-form-0000000000000000"]);
        assert!(content_type.ends_with("boundary=breme-form-0000000000000001"), "{content_type}");
        assert!(body.starts_with("--breme-form-0000000000000001\r\n"));
    }

    /// The content of the first request of a load with this form and `--var x=1`.
    fn sent(fields: &[&str]) -> String {
        let fields: Vec<FormField> = fields.iter().map(|field| FormField::parse(field).unwrap()).collect();
        let variables = Variables::new([("x", "1")]).unwrap();
        let (body, _) = encode(&fields, &variables).unwrap();
        let plan = Plan::new(Settings { content: Some(body), variables, ..Settings::new("http://a/") }).unwrap();
        let mut rendered = Vec::new();
        match plan.request(0).content() {
            Content::Fixed(bytes) => rendered.extend_from_slice(bytes),
            Content::Template(template) => {
                let random = &mut Random::new(1);
                template.render(&mut Inputs { sequence: 7, session: 1, random, values: &[] }, &mut rendered);
            }
        }
        String::from_utf8(rendered).unwrap()
    }

    #[test]
    fn uploaded_files_are_sent_as_they_are() {
        const CONTENT: &str = "{{ name }} {seq} {x} {\"a\":{\"b\":1}} }{";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("{page}.hbs");
        std::fs::write(&path, CONTENT).unwrap();
        let upload = format!("file=@{}", path.display());
        for (text, value) in [("{seq}", "7"), ("{x}", "1"), ("{{{seq}}}", "{7}"), (r#"{"a":{}}"#, r#"{"a":{}}"#)] {
            let body = sent(&[&format!("id={text}"), &upload]);
            let expected = [&format!("name=\"id\"\r\n\r\n{value}\r\n"), "filename=\"{page}.hbs\"", CONTENT];
            assert!(expected.iter().all(|part| body.contains(part)), "{text}: {body}");
        }
    }

    #[test]
    fn faults_name_the_field() {
        for text in ["x", "=x", "f=@x;type=a\r\nb"] {
            assert!(FormField::parse(text).unwrap_err().contains("NAME=VALUE"), "{text}");
        }
        let fields = [FormField::parse("f=@/nonexistent").unwrap()];
        assert!(
            encode(&fields, &Variables::default()).unwrap_err().starts_with("--form f: /nonexistent cannot be read")
        );
    }
}
