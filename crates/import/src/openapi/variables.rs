//! Path parameters and keys as variables of the scenario, so that a value is changed in one place.

use breme_base::grouped;
use indexmap::{IndexMap, IndexSet};

use super::parameter::Value;
use super::url::literal;
use crate::secrets::is_reserved;

/// Half of what a load accepts; the rest is for secrets, and for the user.
const VARIABLE_COUNT_MAX: usize = 50;
/// Parameters in steps that a note names.
const NAMED_MAX: usize = 20;

#[derive(Debug, Default)]
pub(super) struct Variables {
    /// The values are encoded.
    values: IndexMap<String, String>,
    /// The names of those whose value is not documented.
    invented: Vec<String>,
    /// The names of parameters that are no variables, and whose value is not documented.
    invented_in_steps: IndexSet<String>,
}

impl Variables {
    /// The path with placeholders of variables, encoded. A parameter that is not documented has a value too.
    pub(super) fn path<'v>(&mut self, path: &str, value: impl Fn(&str) -> Option<&'v Value>) -> String {
        let (mut text, mut rest) = (String::new(), path);
        while let Some((before, after)) = rest.split_once('{')
            && let Some((name, behind)) = after.split_once('}')
        {
            let placeholder = match value(name) {
                Some(value) => self.placeholder(name, value),
                None => self.placeholder(name, &Value::unknown()),
            };
            text += &literal(before);
            text += &placeholder;
            rest = behind;
        }
        text + &literal(rest)
    }

    fn placeholder(&mut self, name: &str, value: &Value) -> String {
        let encoded = value.in_path(name);
        let count = self.values.len();
        let placeholder = self.define(&cleaned(name), encoded);
        if self.values.len() > count && value.is_invented {
            self.invented.extend(self.values.last().map(|(name, _)| name.clone()));
        } else if !placeholder.starts_with('{') {
            self.note_in_step(name, value);
        }
        placeholder
    }

    /// Names a parameter in a note whose value is written into a step, unless the value is documented.
    pub(super) fn note_in_step(&mut self, name: &str, value: &Value) {
        if value.is_invented {
            self.invented_in_steps.insert(name.to_owned());
        }
    }

    /// The placeholder of a variable whose value only the user knows, in braces.
    pub(super) fn secret(&mut self, name: &str) -> String {
        self.define(name, String::new())
    }

    /// The placeholder of a variable with this value. Another value of the same name has a number; what exceeds the
    /// limit has none, and is written itself.
    fn define(&mut self, name: &str, value: String) -> String {
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        for name in std::iter::once(name.to_owned()).chain(numbered) {
            match self.values.get(&name) {
                Some(other) if *other != value => {}
                None if self.values.len() == VARIABLE_COUNT_MAX => break,
                _ => {
                    let placeholder = format!("{{{name}}}");
                    self.values.entry(name).or_insert(value);
                    return placeholder;
                }
            }
        }
        value
    }

    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        let names = self.invented.join(", ");
        let of_variables = (!names.is_empty()).then(|| {
            format!(
                "these variables have no documented value; set existing ones under [variables] in the scenario, or \
                 with --var NAME=VALUE: {names}"
            )
        });
        let in_steps = (!self.invented_in_steps.is_empty()).then(|| {
            let names = self.invented_in_steps.iter().take(NAMED_MAX).map(|name| name.escape_debug().to_string());
            let names = names.collect::<Vec<_>>().join(", ");
            let further = self.invented_in_steps.len().saturating_sub(NAMED_MAX) as u64;
            let further = if further > 0 { format!(" and {} more", grouped(further)) } else { String::new() };
            format!(
                "these parameters have no documented value; write existing ones into the steps of the scenario: \
                 {names}{further}"
            )
        });
        of_variables.into_iter().chain(in_steps)
    }

    pub(super) fn into_list(self) -> Vec<(String, String)> {
        self.values.into_iter().collect()
    }
}

/// The name of a variable.
fn cleaned(name: &str) -> String {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let name: String = name.chars().map(|letter| if is_part(letter) { letter } else { '_' }).collect();
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if is_name && !is_reserved(&name) { name } else { format!("v_{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_become_placeholders() {
        let mut variables = Variables::default();
        let value = |_: &str| None;
        assert_eq!(variables.path("/ä/{a b}/{seq}:{1}", value), "/%C3%A4/{a_b}/{v_seq}:{v_1}");
        assert_eq!(variables.path("/{a b}.json/{", value), "/{a_b}.json/%7B");
        assert_eq!(variables.path("/a}/{}", value), "/a%7D/{v_}");
        let names: Vec<String> = variables.into_list().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a_b", "v_seq", "v_1", "v_"]);
    }

    #[test]
    fn other_values_of_a_name_have_a_number() {
        let mut variables = Variables::default();
        let mut define = |value: &str| variables.define("id", value.to_owned());
        assert_eq!([define("1"), define("2"), define("1"), define("2")], ["{id}", "{id_2}", "{id}", "{id_2}"]);
    }

    #[test]
    fn variables_beyond_the_limit_are_written_themselves() {
        let mut variables = Variables::default();
        let paths: Vec<String> = (0..60).map(|name| variables.path(&format!("/{{n{name}}}"), |_| None)).collect();
        assert_eq!((paths[49].as_str(), paths[50].as_str()), ("/{n49}", "/x"));
        let notes: Vec<String> = variables.notes().collect();
        assert_eq!(notes[0].matches(", n").count(), 49);
        assert!(notes[1].ends_with(": n50, n51, n52, n53, n54, n55, n56, n57, n58, n59"), "{notes:?}");
        for number in 60..80 {
            variables.path(&format!("/{{n{number}}}"), |_| None);
        }
        let last = variables.notes().last().unwrap();
        assert!(last.ends_with(", n69 and 10 more"), "{last}");
    }
}
