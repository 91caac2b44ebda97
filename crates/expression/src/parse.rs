//! Parser of expressions: recursive descent; each error has its column and the expected syntax.
//!
//! ```text
//! condition  = both { "or" both }            both = single { "and" single }      single = claim | "(" condition ")"
//! claim      = sum relation sum              relation = "<" | ">" | "<=" | ">=" | "==" | "≈" | "!="
//! sum        = product { ("+" | "-") product }
//! product    = operand { ("*" | "/") operand }
//! operand    = "(" sum ")" | ["-"] number [unit] | measure [levels]
//! measure    = quantity [ "(" name ")" ]     levels = "[" factor "=" level { "," factor "=" level } "]"
//! ```

use crate::cursor::{Cursor, ExpressionError, Stretch};
use crate::quantity::{is_level_character, is_name_character};
use crate::terms::{ArithmeticOperation, Claim, Condition, Expression, Measure, Quantity, Relation, Unit};
use crate::units;
use crate::vocabulary::Vocabulary;

/// Limit of an expression, in bytes.
const EXPRESSION_BYTES_MAX: usize = 4_096;
/// Limit of the terms that named measures add to an expression: as many as it could have without them.
const NAMED_TERMS_MAX: usize = EXPRESSION_BYTES_MAX;
/// Limit of nested parentheses.
const PARENTHESES_DEPTH_MAX: usize = 32;

type Parsed<T> = Result<T, ExpressionError>;

impl Expression {
    /// Parses an expression. An empty vocabulary disables the check of names.
    ///
    /// # Errors
    ///
    /// The first error, with its column.
    pub fn parse(text: &str, vocabulary: &Vocabulary) -> Parsed<Self> {
        let mut parser = Parser::new(text, vocabulary)?;
        let (expression, _) = parser.sum()?;
        parser.expect_end(|parser| match parser.relation() {
            Ok(Some((relation, at))) => {
                Some(at.fault(format!("{relation} belongs to a claim; a measure has no comparison")))
            }
            _ => None,
        })?;
        Ok(expression)
    }
}

impl Claim {
    /// Parses a claim. An empty vocabulary disables the check of names.
    ///
    /// # Errors
    ///
    /// The first error, with its column.
    pub fn parse(text: &str, vocabulary: &Vocabulary) -> Parsed<Self> {
        let mut parser = Parser::new(text, vocabulary)?;
        let claim = parser.claim()?;
        parser.expect_end(|parser| {
            let start = parser.cursor.at();
            let word = ["and", "or"].into_iter().find(|word| parser.cursor.take_word(word))?;
            let at = Stretch { start, end: parser.cursor.at() };
            Some(at.fault(format!(
                "a hypothesis is one comparison; write what follows `{word}` as a separate [[hypothesis]]"
            )))
        })?;
        Ok(claim)
    }
}

impl Condition {
    /// Parses a condition on one trial. An empty vocabulary disables the check of names.
    ///
    /// # Errors
    ///
    /// The first error, with its column.
    pub fn parse(text: &str, vocabulary: &Vocabulary) -> Parsed<Self> {
        let mut parser = Parser::new(text, vocabulary)?;
        parser.may_have_levels = false;
        let condition = parser.condition()?;
        parser.expect_end(|_| None)?;
        Ok(condition)
    }
}

struct Parser<'a> {
    cursor: Cursor,
    vocabulary: &'a Vocabulary,
    may_have_levels: bool,
    depth: usize,
    /// Terms of the named measures so far.
    named_terms: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &str, vocabulary: &'a Vocabulary) -> Parsed<Self> {
        let whole = Stretch { start: 0, end: 0 };
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(whole.fault(format!(
                "the expression has {} bytes; at most {EXPRESSION_BYTES_MAX} are allowed",
                text.len()
            )));
        }
        if text.trim().is_empty() {
            return Err(whole.fault("the expression is empty; write for example p99(user) < 50 ms"));
        }
        Ok(Self { cursor: Cursor::new(text), vocabulary, may_have_levels: true, depth: 0, named_terms: 0 })
    }

    fn expect_end(&mut self, explain: impl FnOnce(&mut Self) -> Option<ExpressionError>) -> Parsed<()> {
        if self.cursor.peek().is_none() {
            return Ok(());
        }
        let (found, at) = self.cursor.describe();
        let expected = "an operator (+ - * /) or the end";
        Err(explain(self).unwrap_or_else(|| at.fault(format!("expected {expected}, found {found}"))))
    }

    fn condition(&mut self) -> Parsed<Condition> {
        let mut condition = self.both()?;
        while self.cursor.take_word("or") || self.cursor.take("||") {
            condition = Condition::Or(Box::new(condition), Box::new(self.both()?));
        }
        Ok(condition)
    }

    fn both(&mut self) -> Parsed<Condition> {
        let mut condition = self.single()?;
        while self.cursor.take_word("and") || self.cursor.take("&&") {
            condition = Condition::And(Box::new(condition), Box::new(self.single()?));
        }
        Ok(condition)
    }

    /// A parenthesis may begin a condition or a sum. A sum contains no condition, so trying it first is cheap.
    fn single(&mut self) -> Parsed<Condition> {
        let is_open = self.cursor.peek() == Some('(');
        let start = self.cursor.at();
        let as_claim = match self.claim() {
            Err(error) if is_open => error,
            claim => return claim.map(Condition::Is),
        };
        self.cursor.go_back(start);
        let as_condition = self.in_parentheses(Self::condition);
        // Of two errors, the one farther to the right is more specific.
        as_condition.map_err(|error| if error.column >= as_claim.column { error } else { as_claim })
    }

    fn in_parentheses<T>(&mut self, inside: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.cursor.peek();
        let open = Stretch { start: self.cursor.at(), end: self.cursor.at() + 1 };
        self.cursor.take("(");
        if self.depth == PARENTHESES_DEPTH_MAX {
            return Err(open.fault(format!("parentheses are nested more than {PARENTHESES_DEPTH_MAX} deep")));
        }
        self.depth += 1;
        let result = inside(self);
        self.depth -= 1;
        let result = result?;
        if self.cursor.take(")") {
            return Ok(result);
        }
        let (found, at) = self.cursor.describe();
        Err(if self.cursor.peek().is_none() {
            open.fault("this parenthesis is not closed")
        } else {
            at.fault(format!("expected an operator or ')', found {found}"))
        })
    }

    fn claim(&mut self) -> Parsed<Claim> {
        let (left, left_at) = self.sum()?;
        let Some((relation, at)) = self.relation()? else {
            let (found, at) = self.cursor.describe();
            return Err(at.fault(format!("expected a comparison (<, >, ≈, == or !=), found {found}")));
        };
        let (right, right_at) = self.sum()?;
        check_alike((&left, left_at), (&right, right_at), &format!("compared ({relation})"))?;
        check_share((&left, left_at), (&right, right_at), relation)?;
        if let Ok(Some((_, at))) = self.relation() {
            let remedy = if self.may_have_levels { "write two hypotheses" } else { "join two with `and`" };
            return Err(at.fault(format!("only two sides can be compared at a time; {remedy}")));
        }
        if !self.vocabulary.is_empty() && left.is_constant() && right.is_constant() {
            let whole = Stretch { start: left_at.start, end: right_at.end.max(at.end) };
            return Err(whole.fault("the expression has no measure; write for example p99(user) < 50 ms"));
        }
        Ok(Claim { left, relation, right })
    }

    fn relation(&mut self) -> Parsed<Option<(Relation, Stretch)>> {
        // "At most" and "less than" are synonyms: no interval of measured numbers can distinguish them.
        const WRITTEN: [(&str, Relation); 11] = [
            ("<=", Relation::Less),
            ("≤", Relation::Less),
            ("<", Relation::Less),
            (">=", Relation::Greater),
            ("≥", Relation::Greater),
            (">", Relation::Greater),
            ("==", Relation::Equal),
            ("≈", Relation::Equal),
            ("!=", Relation::Different),
            ("≠", Relation::Different),
            ("=", Relation::Equal),
        ];
        self.cursor.peek();
        let start = self.cursor.at();
        let Some((written, relation)) = WRITTEN.into_iter().find(|(written, _)| self.cursor.take(written)) else {
            return Ok(None);
        };
        let at = Stretch { start, end: self.cursor.at() };
        if written == "=" {
            return Err(at.fault("write == or ≈ for \"practically equal\""));
        }
        Ok(Some((relation, at)))
    }

    fn sum(&mut self) -> Parsed<(Expression, Stretch)> {
        let (mut sum, mut at) = self.product()?;
        while let Some(operation) =
            self.operation([('+', ArithmeticOperation::Add), ('-', ArithmeticOperation::Subtract)])
        {
            let (right, right_at) = self.product()?;
            check_alike(
                (&sum, at),
                (&right, right_at),
                if operation == ArithmeticOperation::Add { "added" } else { "subtracted" },
            )?;
            sum = binary(operation, sum, right);
            at.end = right_at.end;
        }
        Ok((sum, at))
    }

    fn product(&mut self) -> Parsed<(Expression, Stretch)> {
        let (mut product, mut at) = self.operand()?;
        while let Some(operation) =
            self.operation([('*', ArithmeticOperation::Multiply), ('/', ArithmeticOperation::Divide)])
        {
            let (right, right_at) = self.operand()?;
            if operation == ArithmeticOperation::Divide && matches!(right, Expression::Number(0.0, _)) {
                return Err(right_at.fault("this divides by 0"));
            }
            product = binary(operation, product, right);
            at.end = right_at.end;
        }
        Ok((product, at))
    }

    fn operation(&mut self, among: [(char, ArithmeticOperation); 2]) -> Option<ArithmeticOperation> {
        let next = self.cursor.peek()?;
        let (sign, operation) = among.into_iter().find(|(sign, _)| *sign == next)?;
        self.cursor.take(&sign.to_string());
        Some(operation)
    }

    fn operand(&mut self) -> Parsed<(Expression, Stretch)> {
        let next = self.cursor.peek();
        let start = self.cursor.at();
        let expression = match next {
            Some('(') => self.in_parentheses(|parser| parser.sum().map(|(sum, _)| sum))?,
            Some('-' | '.' | '0'..='9') => self.number()?,
            Some(first) if first.is_alphabetic() => self.measured()?,
            _ => {
                let (found, at) = self.cursor.describe();
                return Err(at.fault(format!("expected a measure such as p99(user), or a number, found {found}")));
            }
        };
        Ok((expression, Stretch { start, end: self.cursor.at() }))
    }

    fn number(&mut self) -> Parsed<Expression> {
        let start = self.cursor.at();
        let sign = if self.cursor.take("-") { "-" } else { "" };
        self.cursor.peek();
        let mut digits =
            self.cursor.take_while(|character| character.is_ascii_digit() || character == '.' || character == '_');
        digits += &self.exponent();
        let number = format!("{sign}{}", digits.replace('_', ""));
        let at = Stretch { start, end: self.cursor.at() };
        if number.parse::<f64>().is_err() {
            return Err(at.fault(format!("{number:?} is not a number")));
        }
        let number_end = self.cursor.at();
        self.cursor.peek();
        let unit_start = self.cursor.at();
        let name = if self.cursor.take("%") {
            "%".to_owned()
        } else {
            self.cursor.take_while(|character| character.is_alphabetic() || character == 'µ')
        };
        if ["and", "or"].contains(&name.as_str()) {
            self.cursor.go_back(number_end);
            return self.with_unit(&number, "", at, at);
        }
        let unit_at = Stretch { start: unit_start, end: self.cursor.at() };
        self.with_unit(&number, &name, at, unit_at)
    }

    fn exponent(&mut self) -> String {
        let start = self.cursor.at();
        let mut exponent = self.cursor.take_while(|character| character == 'e' || character == 'E');
        exponent += &self.cursor.take_while(|character| character == '-' || character == '+');
        let digits = self.cursor.take_while(|character| character.is_ascii_digit());
        let is_exponent = !digits.is_empty() && (1..=2).contains(&exponent.len()) && exponent.starts_with(['e', 'E']);
        if !is_exponent {
            self.cursor.go_back(start);
            return String::new();
        }
        exponent + &digits
    }

    fn with_unit(&mut self, number: &str, name: &str, at: Stretch, unit_at: Stretch) -> Parsed<Expression> {
        let before = self.cursor.at();
        let is_rate = self.cursor.take("/") && self.cursor.take_word("s");
        if !is_rate {
            self.cursor.go_back(before);
        }
        if let Some((value, unit)) = units::read(number, name, is_rate) {
            return Ok(Expression::Number(value, unit));
        }
        if units::read("0", name, is_rate).is_some() {
            return Err(at.fault(format!("{number} is too large for a number")));
        }
        let known = "known are ns, us, ms, s, m, h, B, kB, MB, GB, KiB, MiB, GiB, % and /s";
        let remedy = match breme_base::nearest(name, units::names()) {
            Some(near) => format!("did you mean `{near}`? ({known})"),
            None => known.to_owned(),
        };
        Err(unit_at.fault(format!("there is no unit `{name}{}`; {remedy}", if is_rate { "/s" } else { "" })))
    }

    fn measured(&mut self) -> Parsed<Expression> {
        let start = self.cursor.at();
        let parts = self.dotted()?;
        let at = Stretch { start, end: self.cursor.at() };
        let named = self.vocabulary.measures.iter().find(|(name, _)| [name.clone()] == parts[..]);
        let of = self.name_in_parentheses()?;
        let mut expression = match (named, of) {
            (Some((name, expression)), None) => {
                self.named_terms += expression.terms();
                if self.named_terms > NAMED_TERMS_MAX {
                    return Err(at.fault(format!(
                        "with `{name}` the named measures add more than {NAMED_TERMS_MAX} terms to the expression"
                    )));
                }
                expression.clone()
            }
            (Some((name, _)), Some((_, of_at))) => {
                return Err(of_at.fault(format!(
                    "`{name}` is a measure of this experiment and includes its workload; remove the parentheses"
                )));
            }
            (None, of) => Expression::Measured { measure: self.measure(&parts, of, at)?, at: Vec::new() },
        };
        self.cursor.peek();
        let levels_start = self.cursor.at();
        if let Some(levels) = self.levels()? {
            if !self.may_have_levels {
                let at = Stretch { start: levels_start, end: self.cursor.at() };
                return Err(at.fault("a condition applies to a single trial; remove the levels"));
            }
            expression.set_levels(&levels);
        }
        Ok(expression)
    }

    /// Bare or quoted words, separated by dots.
    fn dotted(&mut self) -> Parsed<Vec<String>> {
        let mut parts = Vec::new();
        let is_part = |character: char| character.is_alphanumeric() || character == '_';
        loop {
            // A step's name may contain dashes; elsewhere a dash is a minus.
            let may_have_dash = parts.first().is_some_and(|first| first == "step" || first == "counter");
            let is_part = |character| is_part(character) || (may_have_dash && character == '-');
            let at = self.cursor.at();
            match self.cursor.take_name(is_part)? {
                Some((part, _)) => parts.push(part),
                None => return Err(Stretch { start: at, end: at + 1 }.fault("a name is missing after the dot")),
            }
            if self.cursor.next_as_it_is() != Some('.') {
                return Ok(parts);
            }
            self.cursor.take(".");
        }
    }

    fn measure(&self, parts: &[String], of: Option<(String, Stretch)>, at: Stretch) -> Parsed<Measure> {
        let quantity = Quantity::read(parts).map_err(|problem| {
            let near =
                breme_base::nearest(&parts.join("."), self.vocabulary.measures.iter().map(|(name, _)| name.as_str()));
            match near {
                Some(near) if of.is_none() => {
                    at.fault(format!("there is no measure `{}`; did you mean `{near}`?", parts.join(".")))
                }
                _ => at.fault(self.vocabulary.without_others(problem)),
            }
        })?;
        if self.vocabulary.is_empty() {
            return Ok(Measure { quantity, of: of.map(|(name, _)| name).unwrap_or_default() });
        }
        self.vocabulary.measure(quantity, of, at)
    }

    fn name_in_parentheses(&mut self) -> Parsed<Option<(String, Stretch)>> {
        if !self.cursor.take("(") {
            return Ok(None);
        }
        let open = self.cursor.at();
        let Some(name) = self.cursor.take_name(is_name_character)? else {
            let (found, at) = self.cursor.describe();
            return Err(at.fault(format!("expected the name of a workload or subject, found {found}")));
        };
        if self.cursor.take(")") {
            return Ok(Some(name));
        }
        let (found, at) = self.cursor.describe();
        let at = if self.cursor.peek().is_none() { Stretch { start: open - 1, end: open } } else { at };
        Err(at.fault(format!("expected ')' after the name, found {found}")))
    }

    fn levels(&mut self) -> Parsed<Option<Vec<(String, String)>>> {
        if !self.cursor.take("[") {
            return Ok(None);
        }
        let mut levels: Vec<(String, String)> = Vec::new();
        loop {
            let (factor, factor_at) = self.level_part("the name of a factor", is_name_character)?;
            if !(self.cursor.take("==") || self.cursor.take("=")) {
                let (found, at) = self.cursor.describe();
                return Err(at.fault(format!("expected '=' and a level, as in [{factor}=…], found {found}")));
            }
            let (level, level_at) = self.level_part("a level", is_level_character)?;
            if levels.iter().any(|(known, _)| *known == factor) {
                return Err(factor_at.fault(format!("factor `{factor}` appears twice")));
            }
            levels.push(if self.vocabulary.is_empty() {
                (factor, level)
            } else {
                self.vocabulary.level((&factor, factor_at), (&level, level_at))?
            });
            if self.cursor.take("]") {
                return Ok(Some(levels));
            }
            if !self.cursor.take(",") {
                let (found, at) = self.cursor.describe();
                return Err(at.fault(format!("expected ',' or ']', found {found}")));
            }
        }
    }

    fn level_part(&mut self, what: &str, is_part: fn(char) -> bool) -> Parsed<(String, Stretch)> {
        if let Some(name) = self.cursor.take_name(is_part)? {
            return Ok(name);
        }
        let (found, at) = self.cursor.describe();
        Err(at.fault(format!("expected {what}, found {found}")))
    }
}

fn binary(operation: ArithmeticOperation, left: Expression, right: Expression) -> Expression {
    Expression::Binary { operation, left: Box::new(left), right: Box::new(right) }
}

/// Both sides must have the same unit. A number without a unit may be a rate or a size, but never a time.
fn check_alike(left: (&Expression, Stretch), right: (&Expression, Stretch), how: &str) -> Parsed<()> {
    let (left_is, right_is) = (units::dimension(left.0), units::dimension(right.0));
    let (known, plain) = match (left_is, right_is) {
        (Some(left_is), Some(right_is)) if left_is == right_is => return Ok(()),
        (Some(left_is), Some(right_is)) => {
            let (left_is, right_is) = (left_is.describe(), right_is.describe());
            return Err(right.1.fault(format!("{right_is} cannot be {how} with {left_is}")));
        }
        (None, None) => return Ok(()),
        (Some(known), None) => (known, right),
        (None, Some(known)) => (known, left),
    };
    if known.describe() != "a time" || matches!(plain.0, Expression::Number(0.0, Unit::Plain)) {
        return Ok(());
    }
    let proposal = match (plain.0, known.unit_name()) {
        (Expression::Number(value, _), Some(unit)) => format!("; write {value} {unit} or {value} s"),
        _ => String::new(),
    };
    Err(plain.1.fault(format!("this number has no unit, but the other side is {}{proposal}", known.describe())))
}

/// A plain number compared with a share is one from 0 to 1. `errors > 1` can never be true, and means `errors > 1 %`.
fn check_share(left: (&Expression, Stretch), right: (&Expression, Stretch), relation: Relation) -> Parsed<()> {
    let (share, value, at) = match (left, right) {
        ((share, _), (Expression::Number(value, Unit::Plain), at))
        | ((Expression::Number(value, Unit::Plain), at), (share, _)) => (share, *value, at),
        _ => return Ok(()),
    };
    if share.unit() != Unit::Share {
        return Ok(());
    }
    // The difference of two shares may be negative.
    let is_single = matches!(share, Expression::Measured { .. });
    let may_have_sign = value >= 0.0 || !is_single;
    let is_ordered = matches!(relation, Relation::Less | Relation::Greater);
    if may_have_sign && (value.abs() < 1.0 || value.abs() == 1.0 && !is_ordered) {
        return Ok(());
    }
    let percent = units::write(value / 100.0, Unit::Share);
    let proposal = match value.abs() {
        size if size > 100.0 || !may_have_sign => "a share is from 0 % to 100 %".to_owned(),
        1.0 => format!("write {percent} or {}", units::write(value, Unit::Share)),
        _ => format!("write {percent} or {}", value / 100.0),
    };
    Err(at.fault(format!("this number has no unit, but the other side is a share; {proposal}")))
}

impl Expression {
    /// The number of its numbers, measures and operations.
    fn terms(&self) -> usize {
        match self {
            Self::Number(..) | Self::Measured { .. } => 1,
            Self::Binary { left, right, .. } => 1 + left.terms() + right.terms(),
        }
    }

    /// Adds levels to all its measures; a measure keeps levels that it already names.
    fn set_levels(&mut self, levels: &[(String, String)]) {
        match self {
            Self::Number(..) => {}
            Self::Measured { at, .. } => {
                let is_new = |level: &&(String, String)| !at.iter().any(|(factor, _)| *factor == level.0);
                let new: Vec<(String, String)> = levels.iter().filter(is_new).cloned().collect();
                at.extend(new);
            }
            Self::Binary { left, right, .. } => {
                left.set_levels(levels);
                right.set_levels(levels);
            }
        }
    }
}
