//! Patterns of names.

/// Returns true if a name matches a pattern of `*`, `?`, `[..]`, `[!..]` and `\`. Costs at most the product of their
/// lengths. A set that does not end stands for its bracket.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    let mut star = None; // behind the last `*`, and the place that it reaches to
    while place < name.len() {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, place));
            continue;
        }
        if let Some(length) = one(&pattern[at..], name[place]) {
            (at, place) = (at + length, place + 1);
            continue;
        }
        let Some((behind, reached)) = star else { return false };
        (at, place) = (behind, reached + 1);
        star = Some((behind, place));
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Returns the length of the first part of the pattern if it matches the byte.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [b'[', rest @ ..] => match set(rest, byte) {
            Some((is_in, length)) => is_in.then_some(1 + length),
            None => (byte == b'[').then_some(1),
        },
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

/// Returns whether a byte is in a set, and the set's length without its first bracket; `None` if it does not end.
fn set(pattern: &[u8], byte: u8) -> Option<(bool, usize)> {
    let is_inverted = matches!(pattern, [b'!' | b'^', ..]);
    let start = usize::from(is_inverted);
    // A bracket at the beginning is a member.
    let end = start + 1 + pattern.get(start + 1..)?.iter().position(|byte| *byte == b']')?;
    let (mut members, mut is_in) = (&pattern[start..end], false);
    while let [first, rest @ ..] = members {
        match rest {
            [b'-', last, behind @ ..] => {
                is_in |= (*first..=*last).contains(&byte);
                members = behind;
            }
            _ => {
                is_in |= *first == byte;
                members = rest;
            }
        }
    }
    Some((is_in != is_inverted, end + 1))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_like_those_of_a_shell() {
        let yes: &[(&str, &str)] = &[
            ("*", ""),
            ("*", "a"),
            ("*.rs", "lib.rs"),
            ("a?c", "abc"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("*a*b*", "xxaxxbxx"),
            ("[]]", "]"),
            ("[a", "[a"),
            (r"\*", "*"),
            ("[a-]", "-"),
            ("**", "x"),
            ("", ""),
        ];
        let no: &[(&str, &str)] = &[
            ("", "a"),
            ("?", ""),
            ("*.rs", "lib.rs.bak"),
            ("a?c", "ac"),
            ("[a-c]x", "dx"),
            ("[!a-c]x", "ax"),
            ("*a*b*", "ba"),
            (r"\*", "a"),
            ("[a", "a"),
            ("a", "ab"),
            ("ab", "a"),
        ];
        for (pattern, name) in yes {
            assert!(matches(pattern.as_bytes(), name.as_bytes()), "{pattern} and {name}");
        }
        for (pattern, name) in no {
            assert!(!matches(pattern.as_bytes(), name.as_bytes()), "{pattern} and {name}");
        }
        let (pattern, name) = (b"*a".repeat(50), b"a".repeat(20_000));
        assert!(matches(&pattern, &name) && !matches(&[&pattern[..], b"b"].concat(), &name));
    }
}
