//! The options of a registration as JSON; for people they have words of their own.

use serde_json::{Map, Value};
use waxseal::registry::RegisterOptions;

/// Returns the options as members of an object.
pub(crate) fn json(options: &RegisterOptions) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("scope".to_owned(), options.scope.word().into());
    object.insert("mode".to_owned(), options.mode.word().into());
    object.insert("values".to_owned(), options.values.word().into());
    object.insert("history".to_owned(), options.history.into());
    object.insert("retention_s".to_owned(), options.retention.map(|retention| retention.as_secs()).into());
    object
}
