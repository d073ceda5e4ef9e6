//! Counters of the server and of its store, as Prometheus reads them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use waxseal::Db;
use waxseal::env::lock;

/// The type of the text.
pub(crate) const TEXT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Requests since the server was started, and its connections.
#[derive(Default, Debug)]
pub(crate) struct Counters {
    /// By method and status.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    pub(crate) connections: AtomicU64,
}

impl Counters {
    pub(crate) fn count(&self, method: &'static str, status: u16) {
        *lock(&self.requests).entry((method, status)).or_default() += 1;
    }
}

/// Returns all counters.
pub(crate) fn text(counters: &Counters, db: &Db) -> String {
    let mut text = Text::default();
    text.begin("waxseal_http_requests_total", "counter", "Requests that were answered.");
    for ((method, status), count) in &*lock(&counters.requests) {
        text.line(&[("method", method), ("status", &status.to_string())], count);
    }
    text.begin("waxseal_http_connections", "gauge", "Connections that are open.");
    text.line(&[], counters.connections.load(Ordering::Relaxed));
    let metrics = db.metrics();
    for (name, kind, help, value) in [
        ("waxseal_snapshots", "gauge", "Live snapshots.", metrics.snapshots as u64),
        ("waxseal_flushes_total", "counter", "Flushes.", metrics.flushes),
        ("waxseal_flushed_bytes_total", "counter", "Bytes that flushes have written.", metrics.flushed_bytes),
        ("waxseal_compactions_total", "counter", "Merging compactions.", metrics.compactions),
        ("waxseal_compaction_read_bytes_total", "counter", "Bytes that compactions have read.", metrics.compacted_read),
        (
            "waxseal_compaction_written_bytes_total",
            "counter",
            "Bytes that compactions have written.",
            metrics.compacted_written,
        ),
        ("waxseal_stalls_total", "counter", "Write stalls.", metrics.stalls),
        ("waxseal_open_files", "gauge", "Open table and blob files.", metrics.open_files as u64),
        ("waxseal_log_bytes_total", "counter", "Bytes of frames in the log.", metrics.wal.frame_bytes),
        ("waxseal_log_syncs_total", "counter", "Syncs of the log.", metrics.wal.syncs),
        ("waxseal_cache_bytes", "gauge", "Bytes in the block cache.", metrics.cache.used_bytes),
        ("waxseal_cache_loads_total", "counter", "Blocks that reads have loaded.", metrics.cache.loads),
        ("waxseal_cache_evictions_total", "counter", "Blocks that were evicted.", metrics.cache.evictions),
    ] {
        text.begin(name, kind, help);
        text.line(&[], value);
    }
    text.begin("waxseal_memtable_bytes", "gauge", "Bytes in the active memtable of a family.");
    for family in &metrics.families {
        text.line(&[("family", &family.name)], family.memtable_bytes);
    }
    text.begin("waxseal_level_bytes", "gauge", "Bytes of the tables of a level.");
    for family in &metrics.families {
        for level in family.levels.iter().filter(|level| level.tables > 0) {
            text.line(&[("family", &family.name), ("level", &level.level.to_string())], level.bytes);
        }
    }
    text.text
}

#[derive(Default)]
struct Text {
    text: String,
    name: &'static str,
}

impl Text {
    fn begin(&mut self, name: &'static str, kind: &str, help: &str) {
        self.name = name;
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn line(&mut self, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let quoted = |(name, value): &(&str, &str)| {
            format!("{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
        };
        let labels = labels.iter().map(quoted).collect::<Vec<_>>().join(",");
        let braced = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        let _ = writeln!(self.text, "{}{braced} {value}", self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_quoted() {
        let mut text = Text::default();
        text.begin("name", "gauge", "Help.");
        text.line(&[("family", "a\"\\\n"), ("level", "0")], 7);
        text.line(&[], 8);
        let expected = "# HELP name Help.\n# TYPE name gauge\nname{family=\"a\\\"\\\\\\n\",level=\"0\"} 7\nname 8\n";
        assert_eq!(text.text, expected);
    }
}
