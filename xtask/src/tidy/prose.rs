//! Comments and pages have nouns: few sentences consist of function words alone, and none begins with "Who" or "What".
//!
//! A sentence of nine words or more is *opaque* if at least 70 % of its words are articles, pronouns, prepositions,
//! auxiliaries and the like. In LevelDB, Pebble and redb the share of opaque sentences is between 0.3 and 1 %.

use std::path::Path;

/// Shortest sentence that counts, in words.
const LEAST_WORDS: usize = 9;

/// Words that carry no meaning of their own.
const FUNCTION_WORDS: &str = "a an the of to in on at by for with from into onto over under as is are was were be \
    been being am it its itself he she him her his hers they them their theirs themselves we us our you your i me my \
    this that these those there here then than what which who whom whoever whatever whichever whose where when while \
    how why one ones other others another any all each every either neither both none nobody nothing anybody anyone \
    anything somebody someone something everybody everyone everything not no nor or and but if so such same else only \
    own has have had having do does did doing will would can could may might must shall should out up off behind \
    beside before after above below back more most less least few many much again yet still already ever never too \
    also just now let because since until unless although though about between through during without within against";

/// Words that no sentence begins with.
const BEGINNINGS: &[&str] = &["Who", "Whoever", "What", "Whose"];

/// How far a part of the tree may go: opaque sentences in ten thousand, and sentences that begin with "Who" or "What".
struct Part {
    /// Beginning of the paths of its files; `*.md` for all pages.
    name: &'static str,
    opaque: usize,
    starts: usize,
}

/// The goal is 100 (1 %) and 0 everywhere. A larger number is the present state of a part, and may only fall.
const PARTS: &[Part] = &[
    Part { name: "crates/bench/", opaque: 100, starts: 1 },
    Part { name: "crates/cli/", opaque: 100, starts: 0 },
    Part { name: "crates/ffi/include/", opaque: 100, starts: 1 },
    Part { name: "crates/ffi/src/", opaque: 100, starts: 2 },
    Part { name: "crates/files/", opaque: 100, starts: 0 },
    Part { name: "crates/http/", opaque: 100, starts: 0 },
    Part { name: "crates/lab/", opaque: 100, starts: 0 },
    Part { name: "crates/leveldb/", opaque: 100, starts: 0 },
    Part { name: "crates/lsm/", opaque: 100, starts: 0 },
    Part { name: "crates/meta/", opaque: 100, starts: 3 },
    Part { name: "crates/mount/", opaque: 100, starts: 0 },
    Part { name: "crates/papers/", opaque: 100, starts: 0 },
    Part { name: "crates/placement/", opaque: 100, starts: 0 },
    Part { name: "crates/registry/", opaque: 100, starts: 2 },
    Part { name: "crates/table/", opaque: 100, starts: 0 },
    Part { name: "crates/testing/", opaque: 100, starts: 0 },
    Part { name: "crates/waxseal/", opaque: 100, starts: 1 },
    Part { name: "python/", opaque: 100, starts: 2 },
    Part { name: "*.md", opaque: 100, starts: 6 },
];

/// The counts of a part's sentences.
#[derive(Default)]
struct Count {
    sentences: usize,
    opaque: Vec<String>,
    starts: Vec<String>,
}

/// Parts with too many opaque sentences, each with its first ones.
pub(super) fn faults(root: &Path) -> Vec<String> {
    let mut counts: Vec<Count> = PARTS.iter().map(|_| Count::default()).collect();
    for file in super::files(root) {
        let path = file.to_string_lossy().replace('\\', "/");
        let is_page = path.ends_with(".md");
        let is_part = |part: &Part| if is_page { part.name == "*.md" } else { path.starts_with(part.name) };
        let Some(at) = PARTS.iter().position(is_part) else { continue };
        let is_read = is_page || [".rs", ".py", ".h", ".c"].iter().any(|ending| path.ends_with(ending));
        if !is_read || file.iter().any(|folder| folder == "tests") {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(root.join(&file)) else { continue };
        for (line, paragraph) in paragraphs(&text, is_page) {
            sentences(&paragraph).for_each(|sentence| counts[at].add(sentence, &format!("{path}:{line}")));
        }
    }
    PARTS.iter().zip(&counts).flat_map(|(part, count)| count.faults(part)).collect()
}

impl Count {
    fn add(&mut self, sentence: &str, place: &str) {
        let words: Vec<String> = words(sentence).collect();
        if words.len() < LEAST_WORDS {
            return;
        }
        self.sentences += 1;
        if BEGINNINGS.iter().any(|word| sentence.strip_prefix(word).is_some_and(|rest| !rest.starts_with(is_letter))) {
            self.starts.push(format!("{place}: {sentence}"));
        }
        let hollow = words.iter().filter(|word| FUNCTION_WORDS.split_whitespace().any(|other| other == *word)).count();
        if hollow * 10 >= words.len() * 7 {
            self.opaque.push(format!("{place}: {sentence}"));
        }
    }

    fn faults(&self, part: &Part) -> Vec<String> {
        let mut faults = Vec::new();
        if self.opaque.len() * 10_000 > self.sentences * part.opaque {
            let (bad, all) = (self.opaque.len(), self.sentences);
            faults.push(format!(
                "{}: {bad} of {all} sentences are opaque, more than {} in 10,000",
                part.name, part.opaque
            ));
            faults.extend(self.opaque.iter().take(10).cloned());
        }
        if self.starts.len() > part.starts {
            faults.push(format!("{}: {} sentences begin with Who or What", part.name, self.starts.len()));
            faults.extend(self.starts.iter().take(10).cloned());
        }
        faults
    }
}

/// Paragraphs of comments, or of a page, each with the line on which it begins. Code blocks and tables are left out.
fn paragraphs(text: &str, is_page: bool) -> Vec<(usize, String)> {
    let (mut found, mut paragraph, mut begin, mut in_code) = (Vec::new(), Vec::new(), 0, false);
    for (number, line) in (1..).zip(text.lines().chain([""])) {
        let line = line.trim();
        let prose = if is_page {
            in_code ^= line.starts_with("```");
            Some(line).filter(|line| !in_code && !line.starts_with("```") && !line.starts_with('|'))
        } else {
            comment(line).filter(|prose| !prose.starts_with("```") && !prose.starts_with(['[', '!']))
        };
        match prose.filter(|prose| !prose.is_empty()) {
            Some(prose) => {
                if paragraph.is_empty() {
                    begin = number;
                }
                paragraph.push(prose);
            }
            None if !paragraph.is_empty() => found.push((begin, std::mem::take(&mut paragraph).join(" "))),
            None => {}
        }
    }
    found
}

/// The text of a comment that fills its line.
fn comment(line: &str) -> Option<&str> {
    let text = match line.strip_prefix("//") {
        Some(rest) => rest.strip_prefix(['/', '!']).unwrap_or(rest),
        None => line.strip_prefix(['#', '*'])?,
    };
    Some(text.strip_prefix(' ').unwrap_or(text))
}

/// The pieces of a paragraph that end with a full stop, colon, semicolon, exclamation or question mark.
fn sentences(paragraph: &str) -> impl Iterator<Item = &str> {
    let mut rest = paragraph;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let is_end = |(at, c): &(usize, char)| {
            matches!(c, '.' | ';' | ':' | '?' | '!') && rest[at + 1..].starts_with(char::is_whitespace)
        };
        let end = rest.char_indices().find(is_end).map_or(rest.len(), |(at, _)| at + 1);
        let (sentence, behind) = rest.split_at(end);
        rest = behind.trim_start();
        Some(sentence)
    })
}

fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '\''
}

fn words(sentence: &str) -> impl Iterator<Item = String> {
    sentence.split(|c| !is_letter(c)).filter(|word| !word.is_empty()).map(str::to_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str, is_page: bool) -> Count {
        let mut count = Count::default();
        for (_, paragraph) in paragraphs(text, is_page) {
            sentences(&paragraph).for_each(|sentence| count.add(sentence, "here"));
        }
        count
    }

    #[test]
    fn a_sentence_without_nouns_is_opaque() {
        let hollow = "/// It was, and was not what it must be then.\nfn f() {}\n";
        assert_eq!(count(hollow, false).opaque.len(), 1);
        let plain = "/// The block was cached, but its checksum did not match the index.\nfn f() {}\n";
        assert_eq!((count(plain, false).opaque.len(), count(plain, false).sentences), (0, 1));
    }

    #[test]
    fn a_sentence_that_begins_with_who_is_found() {
        let text = "// Whoever finds the ring full waits until a drain has made room.\n";
        assert_eq!(count(text, false).starts.len(), 1);
    }

    #[test]
    fn code_tables_and_short_sentences_do_not_count() {
        let page = "```\nit is what it is and what it was and will be\n```\n| it is what it is and what it was and will be |\nNot this.\n";
        assert_eq!(count(page, true).sentences, 0);
        assert_eq!(count("let it = \"is what it is and what it was and will be\";\n", false).sentences, 0);
    }

    #[test]
    fn sentences_end_with_their_marks() {
        let found: Vec<_> = sentences("One ends: two. Three e.g.this; four").collect();
        assert_eq!(found, ["One ends:", "two.", "Three e.g.this;", "four"]);
    }

    #[test]
    fn a_part_above_its_limit_is_named() {
        let part = Part { name: "x", opaque: 100, starts: 0 };
        let count = count("// It was, and was not what it must be then.\n", false);
        assert_eq!(count.faults(&part).len(), 2);
        assert!(Count::default().faults(&part).is_empty());
    }
}
