//! The verbs of `waxseal table`, as the command line has them.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::expiry::ExpiryArgs;
use crate::format::TableFormat;

/// NAME is KEYSPACE.TABLE, for instance `library.books`. Values are text of the column's type: numbers, true, false,
/// 2026-01-31, 2026-01-31T12:00:00Z, hexadecimal digits for bytes, JSON for lists. `--json` prints rows as JSON lines.
#[derive(Subcommand, Debug)]
pub(crate) enum TableVerb {
    /// Create a table, and the store if it does not exist.
    ///
    /// COLUMN:TYPE has one of the types bytes, text, bool, i32, i64, u64, f32, f64, decimal(PRECISION,SCALE), date,
    /// timestamp, uuid, json, empty, list<TYPE>. For instance: `waxseal -d d table create library.books --partition-key
    /// author:text --clustering-key year:i32:desc --column title:text --column 'price:decimal(9,2)' --index
    /// by_title=title`
    Create(CreateTable),
    /// Drop a table with all its rows.
    Drop { name: String },
    /// Change the schema of a table, while others read it. Rows are not rewritten.
    Alter {
        name: String,
        #[command(subcommand)]
        change: TableChange,
    },
    /// Add a row. Exit code 6 if the table has a row of the key.
    Insert {
        name: String,
        /// Without any, rows are read from standard input as JSON, one a line.
        #[arg(value_name = "COLUMN=VALUE")]
        columns: Vec<String>,
        /// Write the whole row over a row of the same key.
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        expiry: ExpiryArgs,
    },
    /// Change columns of a row. Exit code 2 if the table has no row of the key.
    Update {
        name: String,
        /// The values of all columns of the key.
        #[arg(required = true, allow_negative_numbers = true)]
        key: Vec<String>,
        /// Set a column. May be repeated.
        #[arg(long, value_name = "COLUMN=VALUE")]
        set: Vec<String>,
        /// Make a column null. May be repeated.
        #[arg(long, value_name = "COLUMN")]
        remove: Vec<String>,
        /// Only if the row matches, or else exit code 6: `year >= 1800`, `genre is null`. May be repeated: all must hold.
        #[arg(long = "where", value_name = "CONDITION")]
        conditions: Vec<String>,
    },
    /// Print the row of a key, a line for each column: name, tab, value.
    Get {
        name: String,
        /// The values of all columns of the key.
        #[arg(required = true, allow_negative_numbers = true)]
        key: Vec<String>,
    },
    /// Print rows in the order of their keys, or of an index.
    Select(SelectRows),
    /// Delete the row of a key, or a range of rows; no error if there are none.
    Delete {
        name: String,
        /// The values of all columns of the key.
        #[arg(allow_negative_numbers = true, required_unless_present_any = ["prefix", "from", "to"],
            conflicts_with_all = ["prefix", "from", "to"])]
        key: Vec<String>,
        #[command(flatten)]
        range: RowRange,
    },
    /// Delete all rows of a table.
    Truncate { name: String },
    /// Read rows from a file into a table.
    ///
    /// csv and tsv begin with the names of the columns. An empty field is null, and an empty text is `""`. jsonl has
    /// an object a line. parquet and arrow have columns of the same names and types that lose nothing. Rows are committed in batches. The first bad row ends the import: it is named by its line, and the
    /// rows before it are imported.
    Import {
        name: String,
        /// `-` is standard input.
        file: PathBuf,
        /// Default: by the extension of FILE.
        #[arg(long)]
        format: Option<TableFormat>,
        /// Write rows over rows of the same keys. Default: such a row is bad.
        #[arg(long)]
        replace: bool,
        /// Report and count bad rows, and import the others.
        #[arg(long)]
        skip_bad: bool,
        #[command(flatten)]
        expiry: ExpiryArgs,
    },
    /// Write the rows of a table to a new file, as `import` reads them. Expiry times are not written. Damaged
    /// rows are reported and left out, and the exit code is 3.
    Export {
        name: String,
        /// Default: standard output.
        file: Option<PathBuf>,
        /// Default: by the extension of FILE, else jsonl.
        #[arg(long)]
        format: Option<TableFormat>,
        /// Only these columns.
        #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
        columns: Vec<String>,
    },
    /// Print the columns, groups and indexes of a table, and the commands that create it again.
    Describe { name: String },
    /// Print the names of all tables, a line each.
    List,
    /// Erase what is left of a purged column in the log and in old files, and print a certificate that no file of the store
    /// has a value of it. Exit code 6 if something holds one, which the message names.
    Certificate {
        name: String,
        column: String,
        /// First remove its values from the events of the store's log, so that the certificate covers these.
        #[arg(long)]
        purge_events: bool,
    },
    /// Create, change, rename, drop and list keyspaces. A keyspace also exists while it has a table.
    #[command(subcommand)]
    Keyspace(KeyspaceVerb),
    /// Compare the rows with the entries of the indexes, of one table or of all. Exit code 3 if they differ.
    Verify { name: Option<String> },
    /// Build the indexes again from the rows, of one table or of all.
    Repair { name: Option<String> },
}

/// A verb of `waxseal table keyspace`.
#[derive(Subcommand, Debug)]
pub(crate) enum KeyspaceVerb {
    /// Create a keyspace, and the store if it does not exist.
    Create {
        name: String,
        /// An entry of the replication map, which the store keeps and logs without interpreting it. May be repeated.
        #[arg(long, value_name = "NAME=VALUE")]
        replication: Vec<String>,
    },
    /// Replace the replication map of a keyspace.
    Alter {
        name: String,
        /// An entry of the new replication map. May be repeated.
        #[arg(long, value_name = "NAME=VALUE")]
        replication: Vec<String>,
    },
    /// Rename a keyspace with all its tables.
    Rename { name: String, new: String },
    /// Drop a keyspace with all its tables and their rows.
    Drop { name: String },
    /// Print the keyspaces, a line each, with their replication maps.
    List,
}

/// The schema of a new table.
#[derive(Args, Debug)]
pub(crate) struct CreateTable {
    pub(crate) name: String,
    /// A column of the partition key. Repeat it for several, in their order.
    #[arg(long, value_name = "COLUMN:TYPE", required = true)]
    pub(crate) partition_key: Vec<String>,
    /// A column of the key behind the partition key. Repeat it for several.
    #[arg(long, value_name = "COLUMN:TYPE[:desc]")]
    pub(crate) clustering_key: Vec<String>,
    /// A column. May be repeated.
    #[arg(long, value_name = "COLUMN:TYPE")]
    pub(crate) column: Vec<String>,
    /// Keep these columns in a record of their own. May be repeated.
    #[arg(long, value_name = "GROUP=COLUMNS")]
    pub(crate) group: Vec<String>,
    /// Rows have any number of named entries with these columns. May be repeated.
    #[arg(long, value_name = "GROUP=COLUMNS")]
    pub(crate) repeated_group: Vec<String>,
    /// Rows may have other columns, too, with values of any type.
    #[arg(long)]
    pub(crate) dynamic_columns: bool,
    /// Order partitions by a hash of their keys.
    #[arg(long)]
    pub(crate) hashed: bool,
    /// An index, for instance `by_author=author,year:desc`. May be repeated.
    #[arg(long, value_name = "INDEX=COLUMNS")]
    pub(crate) index: Vec<String>,
    /// An index that permits one row for each combination of values.
    #[arg(long, value_name = "INDEX=COLUMNS")]
    pub(crate) unique_index: Vec<String>,
}

/// A change of a schema.
#[derive(Subcommand, Debug)]
pub(crate) enum TableChange {
    /// Add a column, or restore one that was dropped.
    Add {
        #[arg(value_name = "COLUMN:TYPE")]
        column: String,
        /// The group of the column.
        #[arg(long)]
        group: Option<String>,
    },
    /// Hide a column. A second drop, or the end of the time, is final.
    Drop {
        column: String,
        /// The time in which `undelete` restores it: 90s, 15m, 12h, 30d.
        #[arg(long = "for", value_name = "TIME", default_value = "7d")]
        time: String,
    },
    /// Restore a column that was dropped, with its values.
    Undelete { column: String },
    /// Rename a column.
    Rename { column: String, new: String },
    /// Give a column a wider type.
    Widen {
        #[arg(value_name = "COLUMN:TYPE")]
        column: String,
    },
    /// Remove the values of columns whose drop is final from all files. Exit code 6 if some are held by a snapshot.
    Purge,
    /// Add an index and build it from the rows.
    CreateIndex {
        index: String,
        /// For instance `author year:desc`.
        #[arg(required = true, value_name = "COLUMN[:desc]")]
        columns: Vec<String>,
        /// Permit one row for each combination of values.
        #[arg(long)]
        unique: bool,
        /// Include rows that lack a column.
        #[arg(long)]
        with_missing: bool,
    },
    /// Drop an index.
    DropIndex { index: String },
    /// Give the table another name.
    RenameTable { new: String },
}

/// A range of rows.
#[derive(Args, Debug)]
pub(crate) struct RowRange {
    /// Only rows whose key begins with this value. Repeat it for the next columns of the key.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) prefix: Vec<String>,
    /// The least value of the next column of the key. Repeat it to compare several columns.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) from: Vec<String>,
    /// The end of the range, exclusive.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) to: Vec<String>,
}

/// A selection of rows.
#[derive(Args, Debug)]
pub(crate) struct SelectRows {
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) range: RowRange,
    /// Read an index: prefix and range are of its columns.
    #[arg(long, value_name = "INDEX")]
    pub(crate) index: Option<String>,
    /// Only rows that match: `year >= 1800`, `title = Emma`, `genre is null`. May be repeated: all must hold.
    #[arg(long = "where", value_name = "CONDITION")]
    pub(crate) conditions: Vec<String>,
    /// Only these columns.
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    pub(crate) columns: Vec<String>,
    /// At most this many rows.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// From the last row to the first.
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Read every row of hashed partitions.
    #[arg(long)]
    pub(crate) full_scan: bool,
    /// Print the number of rows only.
    #[arg(long)]
    pub(crate) count: bool,
}
