//! Words of titles and names.

/// Longest word in the index, in characters. Longer ones are cut.
const MAX_CHARS: usize = 64;

/// Returns the distinct words of a text in lower case, sorted.
///
/// ASCII letters and digits are parts of words, and so are all characters above U+00BF but the general punctuation
/// (U+2000 to U+206F) and the punctuation of Chinese and Japanese (U+3000 to U+303F). This rule depends on no version
/// of Unicode's tables.
pub(crate) fn words(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let mut words: Vec<String> = lower
        .split(|char| !is_part(char))
        .filter(|word| !word.is_empty())
        .map(|word| word.chars().take(MAX_CHARS).collect())
        .collect();
    words.sort_unstable();
    words.dedup();
    words
}

fn is_part(char: char) -> bool {
    char.is_ascii_alphanumeric()
        || char > '\u{bf}' && !('\u{2000}'..='\u{206f}').contains(&char) && !('\u{3000}'..='\u{303f}').contains(&char)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_lowered_and_cut() {
        assert_eq!(words("The Art of Art, d'Émile\u{2014}1905"), ["1905", "art", "d", "of", "the", "émile"]);
        assert_eq!(words(" .\u{3002}- "), [""; 0]);
        assert_eq!(words(&"é".repeat(100)), ["é".repeat(MAX_CHARS)]);
    }
}
