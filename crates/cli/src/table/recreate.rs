//! The commands that create a table again, as `describe` prints them.

use std::path::Path;

use waxseal_table::{Column, ColumnRole, IndexInfo, Partitioning, Schema, SortOrder};

use crate::text::shell_word;

/// Returns shell commands that create an empty table with the same columns, groups and indexes. Columns that were dropped
/// are left out. `None` for a repeated group whose names no argument of `create` can have.
pub(super) fn commands(table: &str, schema: &Schema) -> Option<Vec<String>> {
    let mut create: Vec<String> = ["waxseal", "table", "create", table].map(str::to_owned).into();
    let mut later = Vec::new();
    for column in schema.columns() {
        match column.role() {
            ColumnRole::Partition => create.push(format!("--partition-key={}", typed(column))),
            ColumnRole::Clustering(order) => {
                create.push(format!("--clustering-key={}{}", typed(column), suffix(order)));
            }
            ColumnRole::Value if is_listed(schema, column) => create.push(format!("--column={}", typed(column))),
            ColumnRole::Value => {
                later.push(command(&["alter", table, "add", "--group", schema.group_of(column), "--", &typed(column)]));
            }
        }
    }
    for group in schema.groups() {
        let columns: Vec<&Column> = schema.columns().filter(|column| schema.group_of(column) == group.name()).collect();
        let listed: Vec<&str> =
            columns.iter().filter(|column| is_listed(schema, column)).map(|column| column.name()).collect();
        match group.is_repeated() {
            true if group.name().contains('=') || listed.len() < columns.len() => return None,
            true => create.push(format!("--repeated-group={}={}", group.name(), listed.join(","))),
            false if group.name() == "default" || listed.is_empty() => {}
            false => create.push(format!("--group={}={}", group.name(), listed.join(","))),
        }
    }
    for index in schema.indexes() {
        let columns = columns_of(schema, index);
        let is_listed = !index.name().contains('=') && !columns.iter().any(|column| column.contains(','));
        if is_listed && !index.has_missing() {
            let option = if index.is_unique() { "unique-index" } else { "index" };
            create.push(format!("--{option}={}={}", index.name(), columns.join(",")));
            continue;
        }
        let mut words = vec!["alter", table, "create-index"];
        words.extend(index.is_unique().then_some("--unique"));
        words.extend(index.has_missing().then_some("--with-missing"));
        words.extend(["--", index.name()]);
        words.extend(columns.iter().map(String::as_str));
        later.push(command(&words));
    }
    create.extend((schema.partitioning() == Partitioning::Hashed).then(|| "--hashed".to_owned()));
    create.extend(schema.has_dynamic_columns().then(|| "--dynamic-columns".to_owned()));
    Some([vec![shell_line(create.iter().map(String::as_str))], later].concat())
}

fn typed(column: &Column) -> String {
    format!("{}:{}", column.name(), column.column_type())
}

fn suffix(order: SortOrder) -> &'static str {
    if order == SortOrder::Descending { ":desc" } else { "" }
}

/// Returns true for a column whose group `create` can name, in a list of columns.
fn is_listed(schema: &Schema, column: &Column) -> bool {
    let group = schema.group_of(column);
    group == "default" || !(group.contains('=') || column.name().contains(','))
}

/// Returns the columns of an index, each with its order where the name alone would be read otherwise.
fn columns_of(schema: &Schema, index: &IndexInfo) -> Vec<String> {
    let column = |(column, order): (&Column, SortOrder)| match order {
        SortOrder::Ascending if column.name().ends_with(":asc") || column.name().ends_with(":desc") => {
            format!("{}:asc", column.name())
        }
        order => format!("{}{}", column.name(), suffix(order)),
    };
    schema.columns_of_index(index).map(column).collect()
}

fn command(words: &[&str]) -> String {
    shell_line(["waxseal", "table"].iter().chain(words).copied())
}

fn shell_line<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| shell_word(Path::new(word))).collect::<Vec<_>>().join(" ")
}
