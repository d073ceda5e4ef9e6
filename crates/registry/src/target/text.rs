//! Targets as text, formatted and parsed. docs/format.md, section 9.3.
//!
//! ```text
//! School                 School.Teacher              School.Teacher.John           as in the paper: short
//! ks.cf.pk1,pk2.ck1.ck2.col                          ks.cf#col                     a column of the schema
//! ks.cf.(pk1,pk2).(ck1.ck2)#col                      the same, long: parsed without knowing the table's columns
//! users                  users.key                   a raw column family and a key of it
//! cluster:  node:ID  sst:UID  engine:PART            other targets, by a prefix
//! cf:users.key           ks:School.Teacher           explicit kind of the first name, whatever the schema
//! ```
//!
//! **Keyspace or family?** The schema decides by the first name. If it is a keyspace, tables, keys and columns follow.
//! Otherwise it is a raw family, and everything after the first dot is one key. Keyspaces and families share one name
//! space, so no name is both. Without a schema the first name is a keyspace, and families are written with `cf:`.
//!
//! A `\` escapes `.` `,` `:` `\` (in names and tables also `(` `)` `#`), and `\xHH` is a byte that is not UTF-8 or a
//! control character. In the key of a raw family, and after a prefix, only `\` is special, so `files.src/main.rs` needs
//! no escape. `Display` writes the short form, `{:#}` the long form, and `Target::text` the shortest form that a schema
//! parses back to the same target.

use std::fmt;
use std::fmt::Write;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::error::{Error, Result};

use super::{SYSTEM_KEYSPACE, TableName, Target};

/// The number of key columns of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableColumns {
    /// Partitioning columns, at least one.
    pub partition: usize,
    /// Clustering columns.
    pub clustering: usize,
}

/// The facts about keyspaces and tables that the parser needs.
pub trait Schema {
    /// Returns true if this is the name of a keyspace. Any other name is a raw family, existing or not.
    fn is_keyspace(&self, name: &str) -> bool;
    /// Returns the key columns of a table; `None` if it is not known.
    fn shape(&self, table: &TableName) -> Option<TableColumns>;
}

/// The schema of a store of raw families: its only keyspace is that of the store's metadata.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTables;

impl Schema for NoTables {
    fn is_keyspace(&self, name: &str) -> bool {
        name == SYSTEM_KEYSPACE
    }
    fn shape(&self, _: &TableName) -> Option<TableColumns> {
        None
    }
}

/// The absence of a schema: a name without a prefix is a keyspace.
struct Unknown;

impl Schema for Unknown {
    fn is_keyspace(&self, _: &str) -> bool {
        true
    }
    fn shape(&self, _: &TableName) -> Option<TableColumns> {
        None
    }
}

/// Escaped in names and keys of tables.
const IN_TABLES: &str = "\\.,:()#";
/// Escaped in the keys of raw families.
const IN_KEYS: &str = "\\.,:";
/// Escaped after a prefix.
const BEHIND_PREFIX: &str = "\\";

impl Target {
    /// Parses a target in short or long form. Errors: `Invalid`, with the mistake and its position.
    pub fn parse(text: &str, schema: &dyn Schema) -> Result<Target> {
        let mut scanner = Scanner { text, at: 0 };
        let target = scanner.target(schema)?;
        target.check()?;
        Ok(target)
    }

    /// Parses a target in its long form, which needs no schema. Errors: `Invalid`.
    pub fn parse_long(text: &str) -> Result<Target> {
        Target::parse(text, &Unknown)
    }

    /// Returns the shortest text that this schema parses back to this target.
    pub fn text(&self, schema: &dyn Schema) -> String {
        let comes_back = |text: &String| Target::parse(text, schema).is_ok_and(|target| target == *self);
        let (short, long) = (self.to_string(), format!("{self:#}"));
        match (comes_back(&short), comes_back(&long)) {
            (true, _) => short,
            (false, true) => long,
            (false, false) => format!("ks:{long}"), // its keyspace does not exist any more
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let long = f.alternate();
        match self {
            Target::Cluster => f.write_str("cluster:"),
            Target::Keyspace(name) => write_escaped(f, name.as_bytes(), IN_TABLES),
            Target::Table(table) => write_table(f, table),
            Target::Partition { table, partition } => write_rows(f, table, partition, &[]),
            Target::Row { table, partition, clustering } => write_rows(f, table, partition, clustering),
            Target::Column { table, partition, clustering, column } => {
                write_rows(f, table, partition, clustering)?;
                f.write_char(if long || partition.is_empty() { '#' } else { '.' })?;
                write_escaped(f, column.as_bytes(), IN_TABLES)
            }
            Target::Family(name) => write_family(f, name),
            Target::Key { family, key } => {
                write_family(f, family)?;
                f.write_char('.')?;
                write_escaped(f, key, IN_KEYS)
            }
            Target::Node(id) => {
                f.write_str("node:")?;
                write_escaped(f, id.as_bytes(), BEHIND_PREFIX)
            }
            Target::TableFile(uid) => write!(f, "sst:{uid:?}"),
            Target::Engine(part) => {
                f.write_str("engine:")?;
                write_escaped(f, part.as_bytes(), BEHIND_PREFIX)
            }
        }
    }
}

fn write_family(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    f.write_str(if f.alternate() { "cf:" } else { "" })?;
    write_escaped(f, name.as_bytes(), IN_TABLES)
}

fn write_table(f: &mut fmt::Formatter<'_>, table: &TableName) -> fmt::Result {
    write_escaped(f, table.keyspace.as_bytes(), IN_TABLES)?;
    f.write_char('.')?;
    write_escaped(f, table.table.as_bytes(), IN_TABLES)
}

/// Writes table, partitioning keys and clustering keys; omits empty lists.
fn write_rows(
    f: &mut fmt::Formatter<'_>,
    table: &TableName,
    partition: &[Vec<u8>],
    clustering: &[Vec<u8>],
) -> fmt::Result {
    write_table(f, table)?;
    for (keys, between) in [(partition, ','), (clustering, '.')] {
        if keys.is_empty() {
            continue;
        }
        f.write_str(if f.alternate() { ".(" } else { "." })?;
        for (at, key) in keys.iter().enumerate() {
            if at > 0 {
                f.write_char(between)?;
            }
            write_escaped(f, key, IN_TABLES)?;
        }
        f.write_str(if f.alternate() { ")" } else { "" })?;
    }
    Ok(())
}

fn write_escaped(f: &mut fmt::Formatter<'_>, bytes: &[u8], special: &str) -> fmt::Result {
    let hex = |f: &mut fmt::Formatter<'_>, bytes: &[u8]| bytes.iter().try_for_each(|byte| write!(f, "\\x{byte:02X}"));
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() {
                hex(f, c.encode_utf8(&mut [0; 4]).as_bytes())?;
            } else {
                f.write_str(if special.contains(c) { "\\" } else { "" })?;
                f.write_char(c)?;
            }
        }
        hex(f, chunk.invalid())?;
    }
    Ok(())
}

/// A parser that reads from front to back.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl Scanner<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn at_end(&self) -> bool {
        self.rest().is_empty()
    }

    /// Consumes a character if it is next.
    fn take(&mut self, c: char) -> bool {
        let taken = self.rest().starts_with(c);
        self.at += if taken { c.len_utf8() } else { 0 };
        taken
    }

    fn fault(&self, what: &str) -> Error {
        Error::invalid(format!("the target {:?} is malformed at byte {}: {what}", self.text, self.at))
    }

    fn expect_end(&self) -> Result<()> {
        if self.at_end() { Ok(()) } else { Err(self.fault("nothing is expected here")) }
    }

    fn target(&mut self, schema: &dyn Schema) -> Result<Target> {
        let first = self.name(".:#")?;
        if !self.take(':') {
            return if schema.is_keyspace(&first) { self.in_keyspace(first, schema) } else { self.in_family(first) };
        }
        match first.as_str() {
            "ks" => {
                let keyspace = self.name(".#")?;
                self.in_keyspace(keyspace, schema)
            }
            "cf" => {
                let family = self.name(".")?;
                self.in_family(family)
            }
            "cluster" => self.expect_end().map(|()| Target::Cluster),
            "node" => self.text_rest().map(Target::Node),
            "engine" => self.text_rest().map(Target::Engine),
            "sst" => self.uid().map(Target::TableFile),
            _ => {
                Err(self
                    .fault("the prefixes are cluster, node, sst, engine, cf and ks; elsewhere a colon is written \\:"))
            }
        }
    }

    fn in_family(&mut self, family: String) -> Result<Target> {
        if self.at_end() {
            return Ok(Target::Family(family));
        }
        if !self.take('.') {
            return Err(self.fault("a dot stands between a family and its key"));
        }
        Ok(Target::Key { family, key: self.bytes_rest()? })
    }

    fn in_keyspace(&mut self, keyspace: String, schema: &dyn Schema) -> Result<Target> {
        if self.at_end() {
            return Ok(Target::Keyspace(keyspace));
        }
        if !self.take('.') {
            return Err(self.fault("a dot stands between a keyspace and its table"));
        }
        let table = TableName { keyspace, table: self.name(".#")? };
        if self.at_end() {
            return Ok(Target::Table(table));
        }
        let (mut partition, mut clustering) = (Vec::new(), Vec::new());
        if self.take('.') {
            if self.take('(') {
                partition = self.list(',')?;
                if self.take('.') {
                    if !self.take('(') {
                        return Err(self.fault("clustering keys stand in parentheses behind partitioning keys that do"));
                    }
                    clustering = self.list('.')?;
                }
            } else {
                let Some(shape) = schema.shape(&table) else {
                    let hint = "the columns of this table are not known: write ks.cf.(pk1,pk2).(ck1.ck2)#col";
                    return Err(self.fault(hint));
                };
                return self.short(table, shape);
            }
        }
        self.column_or_row(table, partition, clustering)
    }

    /// Parses the part after `ks.cf.`, by the number of key columns.
    fn short(&mut self, table: TableName, shape: TableColumns) -> Result<Target> {
        let mut partition = vec![self.component(",.#")?];
        while self.take(',') {
            partition.push(self.component(",.#")?);
        }
        if partition.len() != shape.partition {
            let hint = format!("{} partitioning keys, separated by commas, are expected", shape.partition);
            return Err(self.fault(&hint));
        }
        let mut clustering = Vec::new();
        while self.take('.') {
            if clustering.len() == shape.clustering {
                let column = self.name("")?;
                return Ok(Target::Column { table, partition, clustering, column });
            }
            clustering.push(self.component(".#")?);
        }
        self.column_or_row(table, partition, clustering)
    }

    fn column_or_row(&mut self, table: TableName, partition: Vec<Vec<u8>>, clustering: Vec<Vec<u8>>) -> Result<Target> {
        if self.take('#') {
            let column = self.name("")?;
            return Ok(Target::Column { table, partition, clustering, column });
        }
        self.expect_end()?;
        Ok(Target::row(table, partition, clustering))
    }

    /// Parses keys up to the closing parenthesis of the list, and consumes it.
    fn list(&mut self, between: char) -> Result<Vec<Vec<u8>>> {
        let stops = [between, ')'].iter().collect::<String>();
        let mut keys = vec![self.component(&stops)?];
        while self.take(between) {
            keys.push(self.component(&stops)?);
        }
        if self.take(')') { Ok(keys) } else { Err(self.fault("a list of keys that does not end")) }
    }

    fn name(&mut self, stops: &str) -> Result<String> {
        let bytes = self.component(stops)?;
        self.name_of(bytes)
    }

    fn text_rest(&mut self) -> Result<String> {
        let bytes = self.bytes_rest()?;
        self.name_of(bytes)
    }

    fn name_of(&self, bytes: Vec<u8>) -> Result<String> {
        match String::from_utf8(bytes) {
            Ok(name) if name.is_empty() => Err(self.fault("a name is expected here")),
            Ok(name) => Ok(name),
            Err(_) => Err(self.fault("a name that is no UTF-8 text ends here")),
        }
    }

    /// Parses a component up to one of `stops` or the end, and does not consume the stop. Other special characters must
    /// be escaped.
    fn component(&mut self, stops: &str) -> Result<Vec<u8>> {
        self.unescape(stops, IN_TABLES)
    }

    /// Parses the rest of the text, in which only `\` is special.
    fn bytes_rest(&mut self) -> Result<Vec<u8>> {
        self.unescape("", BEHIND_PREFIX)
    }

    fn unescape(&mut self, stops: &str, special: &str) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        while let Some(c) = self.rest().chars().next() {
            if c == '\\' {
                self.escaped(&mut out)?;
            } else if stops.contains(c) {
                break;
            } else if special.contains(c) {
                return Err(self.fault(&format!("write \\{c} if it is part of a name or key")));
            } else {
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                self.at += c.len_utf8();
            }
        }
        Ok(out)
    }

    /// Consumes a `\` and the escaped character or byte.
    fn escaped(&mut self, out: &mut Vec<u8>) -> Result<()> {
        match self.rest().as_bytes() {
            [b'\\', b'x', high, low, ..] => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (Some(high), Some(low)) = (digit(*high), digit(*low)) else {
                    return Err(self.fault("two hex digits follow \\x"));
                };
                out.push((high * 16 + low) as u8);
                self.at += 4;
            }
            [b'\\', b'x', ..] => return Err(self.fault("two hex digits follow \\x")),
            [b'\\', c, ..] if IN_TABLES.as_bytes().contains(c) => {
                out.push(*c);
                self.at += 2;
            }
            _ => return Err(self.fault("a \\ stands before one of . , : ( ) # \\ or before xHH")),
        }
        Ok(())
    }

    fn uid(&mut self) -> Result<Uid> {
        let mut uid = [0; 16];
        let digits = self.rest().as_bytes();
        let pairs = digits.chunks_exact(2);
        if digits.len() != 32 {
            return Err(self.fault("a table file has 32 hex digits"));
        }
        for (byte, pair) in uid.iter_mut().zip(pairs) {
            let [Some(high), Some(low)] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16)) else {
                return Err(self.fault("a table file has 32 hex digits"));
            };
            *byte = (high * 16 + low) as u8;
        }
        self.at = self.text.len();
        Ok(Uid(uid))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{john, target};
    use super::*;
    use proptest::prelude::*;
    use waxseal_lsm::error::ErrorKind;

    /// A school: teachers have one partitioning key, grades have two partitioning and two clustering keys.
    struct School;

    impl Schema for School {
        fn is_keyspace(&self, name: &str) -> bool {
            name == "School" || NoTables.is_keyspace(name)
        }
        fn shape(&self, table: &TableName) -> Option<TableColumns> {
            match table.table.as_str() {
                "Teacher" => Some(TableColumns { partition: 1, clustering: 0 }),
                "Grade" => Some(TableColumns { partition: 2, clustering: 2 }),
                _ => None,
            }
        }
    }

    /// Every one-character name is a keyspace. A table has as many partitioning keys as its name has characters.
    struct Lengths;

    impl Schema for Lengths {
        fn is_keyspace(&self, name: &str) -> bool {
            name.chars().count() == 1
        }
        fn shape(&self, table: &TableName) -> Option<TableColumns> {
            let length = table.table.chars().count();
            (length < 3).then_some(TableColumns { partition: length, clustering: length - 1 })
        }
    }

    fn keys(keys: &[&str]) -> Vec<Vec<u8>> {
        keys.iter().map(|key| key.as_bytes().to_vec()).collect()
    }

    fn column(table: &str, partition: &[&str], clustering: &[&str], column: &str) -> Target {
        Target::Column {
            table: TableName::new("School", table),
            partition: keys(partition),
            clustering: keys(clustering),
            column: column.to_owned(),
        }
    }

    #[test]
    fn the_paper_s_names_are_read_and_written() {
        let grade = || TableName::new("School", "Grade");
        let cases = [
            ("School", "School", Target::Keyspace("School".to_owned())),
            ("School.Teacher", "School.Teacher", Target::Table(TableName::new("School", "Teacher"))),
            ("School.Teacher.John", "School.Teacher.(John)", john()),
            ("School.Teacher.John.mobile", "School.Teacher.(John)#mobile", column("Teacher", &["John"], &[], "mobile")),
            ("School.Teacher#mobile", "School.Teacher#mobile", column("Teacher", &[], &[], "mobile")),
            (
                "School.Grade.a,b.1.2",
                "School.Grade.(a,b).(1.2)",
                Target::row(grade(), keys(&["a", "b"]), keys(&["1", "2"])),
            ),
            ("School.Grade.a,b.1", "School.Grade.(a,b).(1)", Target::row(grade(), keys(&["a", "b"]), keys(&["1"]))),
            ("School.Grade.a,.1.2.c", "School.Grade.(a,).(1.2)#c", column("Grade", &["a", ""], &["1", "2"], "c")),
            ("system_metadata.log", "system_metadata.log", Target::Table(TableName::new("system_metadata", "log"))),
            ("users", "cf:users", Target::family("users")),
            ("users.key", "cf:users.key", Target::key("users", *b"key")),
            ("users.", "cf:users.", Target::key("users", *b"")),
            ("users.a\\.b\\\\\\xFF", "cf:users.a\\.b\\\\\\xFF", Target::key("users", *b"a.b\\\xFF")),
            ("cluster:", "cluster:", Target::Cluster),
            ("node:10.0.0.1", "node:10.0.0.1", Target::Node("10.0.0.1".to_owned())),
            ("engine:compaction", "engine:compaction", Target::Engine("compaction".to_owned())),
            (
                "sst:000102030405060708090a0b0c0d0eff",
                "sst:000102030405060708090a0b0c0d0eff",
                Target::TableFile(Uid([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255])),
            ),
        ];
        for (short, long, target) in cases {
            assert_eq!(target.to_string(), short);
            assert_eq!(format!("{target:#}"), long);
            assert_eq!(target.text(&School), short);
            for text in [short, long] {
                assert_eq!(Target::parse(text, &School).unwrap(), target, "{text}");
            }
            assert_eq!(Target::parse_long(long).unwrap(), target, "{long}");
        }
    }

    #[test]
    fn what_stands_in_a_raw_key_needs_no_escape() {
        for (text, key) in [("files.src/main.rs", "src/main.rs"), ("files.a:b,(c)#d", "a:b,(c)#d")] {
            let target = Target::key("files", key.as_bytes());
            assert_eq!(Target::parse(text, &School).unwrap(), target);
            assert_eq!(Target::parse(&format!("cf:{text}"), &School).unwrap(), target);
        }
    }

    #[test]
    fn the_long_form_is_used_where_the_short_one_would_be_another_name() {
        let all_of_partition = column("Grade", &["a", "b"], &[], "c");
        assert_eq!(all_of_partition.text(&School), "School.Grade.(a,b)#c");
        let unknown = Target::row(TableName::new("School", "Pupil"), keys(&["a"]), Vec::new());
        assert_eq!(unknown.text(&School), "School.Pupil.(a)");
        let forgotten = Target::Table(TableName::new("Attic", "Chest"));
        assert_eq!(forgotten.text(&School), "ks:Attic.Chest");
        assert_eq!(Target::family("School").text(&School), "cf:School");
    }

    #[test]
    fn malformed_targets_are_invalid() {
        for text in [
            "",
            ".",
            "School.",
            "School..John",
            "School#c",
            "School.Teacher.a,b",
            "School.Grade.a",
            "School.Grade.a,b.1.2.c.d",
            "School.Grade.(a,b",
            "School.Grade.(a).1",
            "School.Grade.(a)x",
            "School.Grade.a,b#",
            "School.Pupil.John",
            "School.Tea(cher",
            "School.Tea\\cher",
            "users\\",
            "users.\\x4",
            "users.\\xG0",
            "us,ers.key",
            "\\xFF.key",
            "table:x",
            "cluster:x",
            "node:",
            "sst:00",
            "sst:000102030405060708090a0b0c0d0efg",
            "cf:",
            "ks:",
            "é:x",
        ] {
            let error = Target::parse(text, &School).unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::Invalid, "{text}");
        }
        assert!(Target::parse_long("School.Teacher.John").is_err());
    }

    proptest! {
        #[test]
        fn every_target_comes_back_from_its_text(target in target()) {
            prop_assert_eq!(&Target::parse_long(&format!("{target:#}")).unwrap(), &target);
            for schema in [&School as &dyn Schema, &Lengths, &NoTables] {
                prop_assert_eq!(&Target::parse(&target.text(schema), schema).unwrap(), &target);
            }
        }

        #[test]
        fn any_text_is_a_target_or_invalid(text in "(School|node|cf|[a.,:#()\\\\x0é]){0,8}") {
            for schema in [&School as &dyn Schema, &Lengths, &NoTables, &Unknown] {
                match Target::parse(&text, schema) {
                    Ok(target) => prop_assert_eq!(Target::parse(&target.text(schema), schema).unwrap(), target),
                    Err(error) => prop_assert_eq!(error.kind(), &ErrorKind::Invalid),
                }
            }
        }
    }
}
