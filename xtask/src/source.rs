//! Rust source, read as far as the rules of the house need it: words and paths, without comments, strings and tests.
//!
//! In: a file's text. Out: its tokens with their lines, from which `paths` makes every path that is named, `use` trees
//! spread out. It is no parser: macros are read like any code, which finds more imports, never fewer.

/// One word or sign of a source file, and the line it stands on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// A path as it is named in the source: `crate::sst::block` is three words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NamedPath {
    pub(crate) words: Vec<String>,
    pub(crate) line: usize,
    /// Inline modules around it, outermost first.
    pub(crate) inside: Vec<String>,
}

/// A source file without what only tests see.
pub(crate) struct Source {
    tokens: Vec<Token>,
    /// Lines of the file that are not part of a test.
    pub(crate) lines: usize,
    /// Modules in files of their own that only tests see: `#[cfg(test)] mod name;`.
    pub(crate) test_modules: Vec<String>,
}

impl Source {
    pub(crate) fn read(text: &str) -> Source {
        let total = text.lines().count();
        let (tokens, tests) = without_tests(&tokens(text));
        let span =
            |item: &Vec<Token>| item.last().zip(item.first()).map_or(0, |(last, first)| last.line - first.line + 1);
        let tested: usize = tests.iter().map(span).sum();
        let test_modules = tests.iter().filter_map(|item| module_name(item)).collect();
        Source { tokens, lines: total.saturating_sub(tested), test_modules }
    }

    /// The line on which a word stands as code, if it does.
    pub(crate) fn line_of(&self, word: &str) -> Option<usize> {
        self.tokens.iter().find(|token| token.text == word).map(|token| token.line)
    }

    /// Every path of two words or more.
    pub(crate) fn paths(&self) -> Vec<NamedPath> {
        let (mut found, mut inside, mut at) = (Vec::new(), Vec::new(), 0);
        let mut depth = 0;
        while at < self.tokens.len() {
            match self.text(at) {
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    inside.retain(|(_, opened)| *opened <= depth);
                }
                "mod" if is_word(self.text(at + 1)) && self.text(at + 2) == "{" => {
                    inside.push((self.text(at + 1).to_owned(), depth + 1));
                    at += 2;
                    continue;
                }
                text if is_word(text) && !(at > 0 && matches!(self.text(at - 1), "::" | ".")) => {
                    let names = inside.iter().map(|(name, _)| name.clone()).collect();
                    at = self.spread(at, &mut Vec::new(), &names, &mut found);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        found
    }

    /// Reads a path or a `use` tree at `at` below `before`; gives the place behind it.
    fn spread(&self, at: usize, before: &mut Vec<String>, inside: &Vec<String>, found: &mut Vec<NamedPath>) -> usize {
        let depth = before.len();
        let mut next = at;
        let end = loop {
            match self.text(next) {
                "{" => {
                    next += 1;
                    while !matches!(self.text(next), "}" | "") {
                        next = match self.text(next) {
                            "," => next + 1,
                            "as" => next + 2, // the new name is no path
                            _ => self.spread(next, before, inside, found),
                        };
                    }
                    before.truncate(depth);
                    return next + 1;
                }
                word if is_word(word) || word == "*" => before.push(word.to_owned()),
                _ => break next + 1, // not a path: step over it
            }
            next += 1;
            if self.text(next) != "::" {
                break next;
            }
            next += 1;
            if !(is_word(self.text(next)) || matches!(self.text(next), "{" | "*")) {
                break next; // a turbofish
            }
        };
        if before.len() >= 2 {
            let line = self.tokens[at].line;
            found.push(NamedPath { words: before.clone(), line, inside: inside.clone() });
        }
        before.truncate(depth);
        end
    }

    fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| &token.text)
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Parts the items under `#[cfg(test)]` from the rest.
fn without_tests(tokens: &[Token]) -> (Vec<Token>, Vec<Vec<Token>>) {
    let (mut kept, mut tests, mut at) = (Vec::new(), Vec::new(), 0);
    while at < tokens.len() {
        if !is_test_attribute(&tokens[at..]) {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let end = item_end(tokens, at);
        tests.push(tokens[at..end].to_vec());
        at = end;
    }
    (kept, tests)
}

/// The name in an item that ends with `mod name;`.
fn module_name(item: &[Token]) -> Option<String> {
    match item {
        [.., module, name, end] if module.text == "mod" && end.text == ";" => Some(name.text.clone()),
        _ => None,
    }
}

fn is_test_attribute(tokens: &[Token]) -> bool {
    let words: Vec<&str> = tokens.iter().take(7).map(|token| token.text.as_str()).collect();
    words == ["#", "[", "cfg", "(", "test", ")", "]"]
}

/// The place behind the item at `at`: behind its block, or its semicolon.
fn item_end(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(at) {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth -= 1;
                if depth == 0 && token.text == "}" {
                    return i + 1;
                }
            }
            ";" if depth == 0 => return i + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Words and signs; `::` is one sign. Comments, strings, characters and lifetimes are left out.
fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    while at < chars.len() {
        let start = at;
        let rest = &chars[at..];
        if let Some(length) = blank(rest) {
            at += length;
        } else if rest[0].is_alphanumeric() || rest[0] == '_' {
            at += rest.iter().take_while(|c| c.is_alphanumeric() || **c == '_').count();
            found.push(Token { text: chars[start..at].iter().collect(), line });
        } else {
            at += if rest.starts_with(&[':', ':']) { 2 } else { 1 };
            found.push(Token { text: chars[start..at].iter().collect(), line });
        }
        line += chars[start..at].iter().filter(|c| **c == '\n').count();
    }
    found
}

/// Length of what carries no word at the beginning of `rest`: space, comment, string, character or lifetime.
fn blank(rest: &[char]) -> Option<usize> {
    match rest {
        [c, ..] if c.is_whitespace() => Some(1),
        ['/', '/', ..] => Some(rest.iter().take_while(|c| **c != '\n').count()),
        ['/', '*', ..] => Some(block_comment(rest)),
        ['"', ..] => Some(string(rest)),
        ['b' | 'c', '"', ..] => Some(1 + string(&rest[1..])),
        ['r', '"' | '#', ..] => raw_string(&rest[1..]).map(|length| 1 + length),
        ['b' | 'c', 'r', '"' | '#', ..] => raw_string(&rest[2..]).map(|length| 2 + length),
        ['b', '\'', ..] => Some(1 + character(&rest[1..])),
        ['\'', ..] => Some(character(rest)),
        _ => None,
    }
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// A string; a backslash hides what follows it.
fn string(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// A raw string behind its `r`: never hidden by a backslash. None for a raw identifier.
fn raw_string(rest: &[char]) -> Option<usize> {
    let hashes = rest.iter().take_while(|c| **c == '#').count();
    if rest.get(hashes) != Some(&'"') {
        return None;
    }
    let body = &rest[hashes + 1..];
    let end = (0..body.len())
        .find(|at| body[*at] == '"' && body[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes);
    Some(hashes + 1 + end.map_or(body.len(), |at| at + 1 + hashes))
}

/// A character, or a lifetime: a lifetime has no quote behind its first letter.
fn character(rest: &[char]) -> usize {
    match rest {
        ['\'', '\\', _, tail @ ..] => 3 + tail.iter().take_while(|c| **c != '\'').count() + 1,
        ['\'', _, '\'', ..] => 3,
        _ => 1 + rest[1..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        Source::read(text).paths().iter().map(|path| path.words.join("::")).collect()
    }

    #[test]
    fn paths_and_trees_are_spread_out() {
        let text = "use crate::{a, b::{c, d as e}, f::*};\nfn x() -> super::Y { std::fs::read::<u8>(g) }";
        let expected = ["crate::a", "crate::b::c", "crate::b::d", "crate::f::*", "super::Y", "std::fs::read"];
        assert_eq!(paths(text), expected);
    }

    #[test]
    fn what_is_no_code_is_left_out() {
        let text = r##"
            // crate::a::b
            /* crate::c /* crate::d */ crate::e */
            let s = "crate::f \" crate::g"; let t = r#"crate::h " crate::i"#; let u = b"crate::j";
            let v = '"'; let w = '\''; let x: &'static str = crate::k::l; let y = b'"'; crate::m()
        "##;
        assert_eq!(paths(text), ["crate::k::l", "crate::m"]);
    }

    #[test]
    fn tests_are_left_out_and_not_counted() {
        let text = "use crate::a;\n#[cfg(test)]\nmod tests {\n    use crate::b;\n    fn f() { x() }\n}\n\
                    #[cfg(test)]\nuse crate::c;\nuse crate::d;\n";
        assert_eq!(paths(text), ["crate::a", "crate::d"]);
        assert_eq!(Source::read(text).lines, 2);
        let declared = Source::read("mod a;\n#[cfg(test)]\npub(crate) mod b;\n#[cfg(test)]\nmod c { mod d; }");
        assert_eq!(declared.test_modules, ["b"]);
    }

    #[test]
    fn inline_modules_are_known() {
        let found = Source::read("mod m { fn f() { super::x::y() } }\nfn g() { self::z::w() }").paths();
        assert_eq!(found[0].inside, ["m"]);
        assert!(found[1].inside.is_empty());
        assert_eq!((found[0].line, found[1].line), (1, 2));
    }

    #[test]
    fn words_are_found_as_code_only() {
        let source = Source::read("// unsafe\n#![deny(unsafe_code)]\nlet a = \"unsafe\";");
        assert_eq!(source.line_of("unsafe"), None);
        assert_eq!(Source::read("fn f() {\n unsafe { g() } }").line_of("unsafe"), Some(2));
    }
}
