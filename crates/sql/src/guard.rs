//! Catches panics of DataFusion, and bounds the depth of queries by the size of a stack.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::error::{Error, Result};

/// Words and operators of a query. No expression and no plan is deeper.
const MOST_TOKENS: usize = 8192;

/// The stack of a step. DataFusion takes up to 16 KiB a level in a build without optimization, much less in a release.
/// Only the pages that are used take memory.
const STACK_BYTES: usize = 256 << 20;

/// Refuses a query that could be too deep for the stack. Constants do not count: lists of them are not deep.
pub(crate) fn check_length(text: &str) -> Result<()> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize();
    let tokens = tokens.map_err(|error| Error::Query(error.to_string()))?;
    let is_flat = |token: &&Token| {
        matches!(token, Token::Whitespace(_) | Token::Comma | Token::Number(..) | Token::SingleQuotedString(_))
    };
    match tokens.iter().filter(|token| !is_flat(token)).count() {
        count if count > MOST_TOKENS => Err(Error::Query(format!(
            "the query has {count} words and operators, and at most {MOST_TOKENS} are possible"
        ))),
        _ => Ok(()),
    }
}

/// Runs a step of a query. A panic of DataFusion, on an unusual query or value, is an error of this query alone.
pub(crate) fn guarded<T>(step: impl FnOnce() -> Result<T>) -> Result<T> {
    let panicked = |panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref().copied());
        Err(Error::Query(format!("DataFusion panicked: {}", text.unwrap_or("without a message"))))
    };
    catch_unwind(AssertUnwindSafe(|| stacker::grow(STACK_BYTES, step))).unwrap_or_else(panicked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_the_query() {
        let steps: [fn() -> Result<()>; 2] = [|| panic!("overflow"), || panic!("{}", "overflow".to_owned())];
        for step in steps {
            match guarded(step) {
                Err(Error::Query(message)) => assert_eq!(message, "DataFusion panicked: overflow"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(guarded(|| Ok(1)).unwrap(), 1);
    }

    #[test]
    fn constants_do_not_count() {
        let listed = format!("SELECT 1 WHERE 1 IN (1{})", ", 1, 'a'".repeat(MOST_TOKENS));
        assert!(check_length(&listed).is_ok());
        let deep = format!("SELECT 1{}", "+ 1".repeat(MOST_TOKENS));
        assert!(matches!(check_length(&deep), Err(Error::Query(_))));
    }
}
