//! The options of a registration, as text and as JSON.

use serde_json::{Map, Value};
use waxseal::registry::{Mode, RegisterOptions, Scope, Values};

/// Formats the options as words: `subtree deferred values=new`.
pub(crate) fn line(options: &RegisterOptions) -> String {
    let mut words = vec![scope(options).to_owned(), mode(options).to_owned()];
    if options.values != Values::None {
        words.push(format!("values={}", values(options)));
    }
    if options.history {
        words.push("history".to_owned());
    }
    if let Some(retention) = options.retention {
        words.push(format!("retention={}s", retention.as_secs()));
    }
    words.join(" ")
}

/// Returns the options as members of an object.
pub(crate) fn json(options: &RegisterOptions) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("scope".to_owned(), scope(options).into());
    object.insert("mode".to_owned(), mode(options).into());
    object.insert("values".to_owned(), values(options).into());
    object.insert("history".to_owned(), options.history.into());
    object.insert("retention_s".to_owned(), options.retention.map(|retention| retention.as_secs()).into());
    object
}

fn scope(options: &RegisterOptions) -> &'static str {
    match options.scope {
        Scope::Exact => "exact",
        Scope::Subtree => "subtree",
    }
}

fn mode(options: &RegisterOptions) -> &'static str {
    match options.mode {
        Mode::Sync => "sync",
        Mode::Async => "async",
        Mode::Deferred => "deferred",
    }
}

fn values(options: &RegisterOptions) -> &'static str {
    match options.values {
        Values::None => "none",
        Values::New => "new",
        Values::OldNew => "old-new",
        Values::Hash => "hash",
    }
}
