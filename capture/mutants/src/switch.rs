//! Rewrites a file with a switch at each mutated place: `(if on(7) { a - b } else { a + b })`.
//!
//! A mark around each piece identifies its mutant, so that a compiler error can be traced to the mutant that does not
//! compile.

use crate::list::{Genre, Mutant, Place};
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use syn::visit::{self, Visit};

/// A piece of a switched expression.
enum Piece {
    Text(String),
    /// Octets of the source, with the switches in them.
    Source(Range<usize>),
}

/// An expression that mutants change.
#[derive(Default)]
struct Choice {
    variants: Vec<(u32, Vec<Piece>)>,
}

/// The parts of expressions that mutants change, by the octet at which cargo-mutants' span begins.
#[derive(Default)]
struct Nodes {
    binary: BTreeMap<usize, (Range<usize>, Range<usize>, Range<usize>)>,
    unary: BTreeMap<usize, (Range<usize>, Range<usize>)>,
    /// The ends of arms' patterns, by the beginnings of the arms.
    arms: BTreeMap<usize, usize>,
    /// The expressions of structs, by the beginnings of their fields.
    fields: BTreeMap<usize, Range<usize>>,
}

fn range(node: &impl syn::spanned::Spanned) -> Range<usize> {
    node.span().byte_range()
}

impl<'ast> Visit<'ast> for Nodes {
    fn visit_expr_binary(&mut self, node: &'ast syn::ExprBinary) {
        let parts = (range(node), range(&node.left), range(&node.right));
        self.binary.insert(range(&node.op).start, parts);
        visit::visit_expr_binary(self, node);
    }

    fn visit_expr_unary(&mut self, node: &'ast syn::ExprUnary) {
        self.unary.insert(range(&node.op).start, (range(node), range(&node.expr)));
        visit::visit_expr_unary(self, node);
    }

    fn visit_arm(&mut self, node: &'ast syn::Arm) {
        self.arms.insert(range(node).start, range(&node.pat).end);
        visit::visit_arm(self, node);
    }

    fn visit_expr_struct(&mut self, node: &'ast syn::ExprStruct) {
        for field in &node.fields {
            self.fields.insert(range(field).start, range(node));
        }
        visit::visit_expr_struct(self, node);
    }
}

/// A source, and the switches in it.
struct Switched<'a> {
    source: &'a str,
    /// Where each line begins.
    lines: Vec<usize>,
    /// Text to insert, by octet.
    inserts: BTreeMap<usize, String>,
    /// Expressions by their beginning; of those with the same beginning, the longest first.
    choices: BTreeMap<(usize, std::cmp::Reverse<usize>), Choice>,
}

/// `source` with a switch for each of the mutants.
pub fn switched(source: &str, mutants: &[&Mutant]) -> Result<String> {
    let file = syn::parse_file(source)?;
    let mut nodes = Nodes::default();
    nodes.visit_file(&file);
    let lines = std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let mut switched = Switched { source, lines, inserts: BTreeMap::new(), choices: BTreeMap::new() };
    for mutant in mutants {
        switched.add(mutant, &nodes).with_context(|| mutant.says())?;
    }
    Ok(switched.written(&(0..source.len()), None))
}

fn on(number: u32) -> String {
    format!("crate::mutant_switches::on({number})")
}

fn opens(number: u32) -> String {
    format!("/*<{number}*/")
}

fn closes(number: u32) -> String {
    format!("/*{number}>*/")
}

impl Switched<'_> {
    fn octet(&self, place: Place) -> usize {
        let line = self.lines[place.line - 1];
        let rest = &self.source[line..];
        line + rest.char_indices().nth(place.column - 1).map_or(rest.len(), |(at, _)| at)
    }

    fn add(&mut self, mutant: &Mutant, nodes: &Nodes) -> Result<()> {
        let (from, to) = (self.octet(mutant.span.start), self.octet(mutant.span.end));
        let (number, replacement) = (mutant.number, &mutant.replacement);
        let text = |text: &str| Piece::Text(text.to_owned());
        let (at, pieces) = match mutant.genre {
            Genre::FnValue => {
                let value =
                    format!("{}if {} {{ return {replacement}; }}{} ", opens(number), on(number), closes(number));
                self.inserts.entry(from).or_default().push_str(&value);
                return Ok(());
            }
            Genre::MatchArm => {
                let end = *nodes.arms.get(&from).context("no arm of a match there")?;
                let guard = format!(" {}if !{}{}", opens(number), on(number), closes(number));
                self.inserts.entry(end).or_default().push_str(&guard);
                return Ok(());
            }
            Genre::MatchArmGuard => (from..to, vec![text(replacement)]),
            Genre::BinaryOperator => {
                let (at, left, right) = nodes.binary.get(&from).context("no operator there")?.clone();
                let operator = format!(") {replacement} (");
                (at, vec![text("("), Piece::Source(left), text(&operator), Piece::Source(right), text(")")])
            }
            Genre::UnaryOperator => {
                let (at, operand) = nodes.unary.get(&from).context("no operator there")?.clone();
                (at, vec![Piece::Source(operand)])
            }
            Genre::StructField => {
                let at = nodes.fields.get(&from).context("no field of a struct there")?.clone();
                let pieces = vec![Piece::Source(at.start..from), Piece::Source(to..at.end)];
                (at, pieces)
            }
        };
        let choice = self.choices.entry((at.start, std::cmp::Reverse(at.end))).or_default();
        choice.variants.push((number, pieces));
        Ok(())
    }

    /// The source between two octets; `except` is the expression that is being written.
    fn written(&self, within: &Range<usize>, except: Option<&Range<usize>>) -> String {
        let mut text = String::new();
        let mut at = within.start;
        while at < within.end {
            // An insertion at the beginning of an expression precedes the expression.
            if at > within.start || within.start == 0 {
                text.extend(self.inserts.get(&at).map(String::as_str));
            }
            let choice = self
                .choices
                .range((at, std::cmp::Reverse(usize::MAX))..(at + 1, std::cmp::Reverse(usize::MAX)))
                .map(|((from, to), choice)| (*from..to.0, choice))
                .find(|(place, _)| place.end <= within.end && Some(place) != except && !outside(place, except));
            if let Some((place, choice)) = choice {
                text.push_str(&self.choice(&place, choice));
                at = place.end;
                continue;
            }
            let next = self.source[at..].chars().next().map_or(1, char::len_utf8);
            text.push_str(&self.source[at..at + next]);
            at += next;
        }
        text
    }

    fn choice(&self, place: &Range<usize>, choice: &Choice) -> String {
        let mut text = "(".to_owned();
        for (number, pieces) in &choice.variants {
            text += &format!("{}if {} {{ ", opens(*number), on(*number));
            for piece in pieces {
                match piece {
                    Piece::Text(piece) => text.push_str(piece),
                    Piece::Source(range) => text.push_str(&self.written(range, Some(place))),
                }
            }
            text += &format!(" }}{} else ", closes(*number));
        }
        let all: Vec<u32> = choice.variants.iter().map(|(number, _)| *number).collect();
        all.iter().for_each(|number| text.push_str(&opens(*number)));
        text += &format!("{{ {} }}", self.written(place, Some(place)));
        all.iter().rev().for_each(|number| text.push_str(&closes(*number)));
        text + ")"
    }
}

/// Whether an expression holds the one that is being written.
fn outside(place: &Range<usize>, except: Option<&Range<usize>>) -> bool {
    except.is_some_and(|except| place.start <= except.start && place.end >= except.end)
}

/// The mutants whose pieces contain an octet of a switched source, only the innermost ones; in the unmutated part of an
/// expression, all mutants of the expression.
pub fn blamed(switched: &str, octet: usize) -> Vec<u32> {
    // Those open, and whether the mark before is adjacent.
    let mut open: Vec<(u32, bool)> = Vec::new();
    let mut last_end = 0;
    for (mark, _) in switched.match_indices("/*").take_while(|(mark, _)| *mark <= octet) {
        let Some(length) = switched[mark..].find("*/") else { break };
        let inside = &switched[mark + 2..mark + length];
        if let Some(number) = inside.strip_prefix('<').and_then(|number| number.parse().ok()) {
            open.push((number, mark == last_end));
            last_end = mark + length + 2;
        } else if inside.strip_suffix('>').is_some_and(|number| number.parse::<u32>().is_ok()) {
            open.pop();
        }
    }
    let mut innermost = Vec::new();
    while let Some((number, adjacent)) = open.pop() {
        innermost.push(number);
        if !adjacent {
            break;
        }
    }
    innermost
}

/// For an error in a function's signature, or in the value of a `match`: the next mutant after this octet of a switched
/// source that returns another value or skips an arm.
pub fn blamed_after(switched: &str, octet: usize) -> Option<u32> {
    let skips = |&(number, rest): &(u32, &str)| rest.starts_with(&format!("if !{}", on(number)));
    begun(switched.get(octet..)?).find(|mark| returns(mark) || skips(mark)).map(|(number, _)| number)
}

/// For an error in an expression right after a mutant that returns another value: this mutant. Where a function returns
/// `impl Trait`, the compiler takes the type of the first value, and finds the error in the next one.
pub fn blamed_before(switched: &str, octet: usize) -> Option<u32> {
    let before = switched.get(..octet)?;
    let (number, _) = begun(before).filter(returns).last()?;
    before.trim_end().ends_with(&format!("/*{number}>*/")).then_some(number)
}

/// The mutants whose first mark is in a switched source, each with the text after that mark.
fn begun(switched: &str) -> impl Iterator<Item = (u32, &str)> {
    switched.split("/*<").skip(1).filter_map(|mark| {
        let (number, rest) = mark.split_once("*/")?;
        Some((number.parse().ok()?, rest))
    })
}

/// Whether a mutant returns another value from its function.
fn returns(&(number, rest): &(u32, &str)) -> bool {
    rest.starts_with(&format!("if {} {{ return ", on(number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::tests::mutant;

    fn all(source: &str, mutants: &[Mutant]) -> String {
        switched(source, &mutants.iter().collect::<Vec<_>>()).unwrap()
    }

    /// The text without comments and the path `crate::mutant_switches::`.
    fn plain(text: &str) -> String {
        let mut plain = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("/*") {
            plain += before;
            rest = after.split_once("*/").unwrap().1;
        }
        (plain + rest).replace("crate::mutant_switches::", "")
    }

    #[test]
    fn each_kind_of_mutant_becomes_a_switch() {
        let source = "fn f(a: u8) -> u8 {\n    match a {\n        0 => 1,\n        x if x > 9 => 2,\n        _ => a - 1,\n    }\n}\n";
        let mutants = [
            mutant(1, Genre::FnValue, (2, 5), (6, 6), "7"),
            mutant(2, Genre::MatchArm, (3, 9), (3, 16), ""),
            mutant(3, Genre::MatchArmGuard, (4, 14), (4, 19), "true"),
            mutant(4, Genre::BinaryOperator, (4, 16), (4, 17), ">="),
            mutant(5, Genre::BinaryOperator, (5, 16), (5, 17), "+"),
        ];
        assert_eq!(
            plain(&all(source, &mutants)),
            "fn f(a: u8) -> u8 {\n    if on(1) { return 7; } match a {\n        0 if !on(2) => 1,\n        \
             x if (if on(3) { true } else if on(4) { (x) >= (9) } else { x > 9 }) => 2,\n        \
             _ => (if on(5) { (a) + (1) } else { a - 1 }),\n    }\n}\n"
        );
    }

    #[test]
    fn a_mutant_within_another_is_in_both_of_its_branches() {
        let switched = all(
            "fn f(a: bool, b: bool) -> bool { !a && b }\n",
            &[
                mutant(1, Genre::BinaryOperator, (1, 37), (1, 39), "||"),
                mutant(2, Genre::UnaryOperator, (1, 34), (1, 35), ""),
            ],
        );
        let inner = "(if on(2) { a } else { !a })";
        assert_eq!(
            plain(&switched),
            format!("fn f(a: bool, b: bool) -> bool {{ (if on(1) {{ ({inner}) || (b) }} else {{ {inner} && b }}) }}\n")
        );
        let at = |needle: &str| switched.find(needle).unwrap();
        assert_eq!(blamed(&switched, at("|| (")), [1]);
        assert_eq!(blamed(&switched, at("&& b")), [1]);
        assert_eq!(blamed(&switched, at("{ !a }") + 2), [2]);
        assert_eq!(blamed(&switched, 3), Vec::<u32>::new());
    }

    #[test]
    fn a_value_of_another_type_than_the_mutant_before_it_blames_the_mutant() {
        let source = "fn f(v: &[u8]) -> impl Iterator<Item = u8> {\n    v.iter().copied()\n}\n";
        let switched = all(source, &[mutant(1, Genre::FnValue, (2, 5), (2, 22), "::std::iter::once(7)")]);
        let value = switched.rfind("v.iter()").unwrap();
        assert_eq!(blamed(&switched, value), Vec::<u32>::new());
        assert_eq!(blamed_before(&switched, value), Some(1));
        assert_eq!(blamed_before(&switched, 10), None);
    }
}
