//! The tables of `declare.rs` and `error.rs` of crates/ffi/src, expanded as far as a header needs it.
//!
//! In: the text of a source file. Out: the same text with every table replaced by the functions or the struct that its
//! macro declares, without bodies. cbindgen reads no macros.

/// Width of the lines that documentation is wrapped to, and what begins each line.
const WIDTH: usize = 120;
const DOC: &str = "///";

/// Expands the tables of a source file.
pub(crate) fn expanded(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        match shape(line) {
            None => out.extend([line, "\n"]),
            Some(shape) => {
                let table: Vec<&str> = lines.by_ref().take_while(|line| *line != "}").collect();
                out.push_str(&expand(shape, &table).map_err(|fault| format!("{line} {fault}"))?);
            }
        }
    }
    Ok(out)
}

/// The declarations of a macro.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Functions that return a status, with the sentence on threads that they get.
    Functions {
        is_unsafe: bool,
        threads: &'static str,
    },
    /// Functions with a body and a place for an error. They state their threads themselves.
    Calls,
    /// Functions that create an object.
    Create,
    Struct,
}

const ANY_THREAD: &str = "Thread-safe.";
const ONE_THREAD: &str = "One thread at a time.";

fn shape(line: &str) -> Option<Shape> {
    match line {
        "setters! {" => Some(Shape::Functions { is_unsafe: false, threads: ONE_THREAD }),
        "getters! {" | "destroy! {" => Some(Shape::Functions { is_unsafe: false, threads: ANY_THREAD }),
        "finders! {" => Some(Shape::Functions { is_unsafe: true, threads: ANY_THREAD }),
        "calls! {" => Some(Shape::Calls),
        "create! {" => Some(Shape::Create),
        "mirror! {" => Some(Shape::Struct),
        _ => None,
    }
}

fn expand(shape: Shape, table: &[&str]) -> Result<String, String> {
    // Getters that borrow their object exclusively are for one thread at a time.
    let shape = match shape {
        Shape::Functions { is_unsafe, .. } if table.first().is_some_and(|line| line.trim() == "with_mut;") => {
            Shape::Functions { is_unsafe, threads: ONE_THREAD }
        }
        other => other,
    };
    if shape == Shape::Struct {
        return structure(table);
    }
    let rows = rows(table, if shape == Shape::Calls { '}' } else { ';' })?;
    Ok(rows.iter().map(|row| function(shape, row)).collect::<Result<Vec<_>, _>>()?.concat())
}

/// A row of a table of functions.
struct Row {
    doc: Vec<String>,
    /// The code up to the sign at its end, on one line.
    code: String,
}

/// The rows of a table, each of which ends with a sign outside of brackets, or with the bracket that it is.
fn rows(table: &[&str], sign: char) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let mut row = Row { doc: Vec::new(), code: String::new() };
    for line in table.iter().map(|line| line.trim()) {
        if let Some(doc) = line.strip_prefix(DOC) {
            row.doc.push(doc.trim().to_owned());
            continue;
        }
        row.code.extend([line, " "]);
        if let Some(end) = at_top(&row.code, sign) {
            row.code.truncate(end);
            let ended = std::mem::replace(&mut row, Row { doc: Vec::new(), code: String::new() });
            // The first row may name what the macro uses.
            if ended.code.trim_start().starts_with("fn ") {
                rows.push(ended);
            }
        }
    }
    if row.code.trim().is_empty() { Ok(rows) } else { Err(format!("has a row without its end: {}", row.code)) }
}

/// The first place of a sign outside of brackets; of a closing bracket, the end of what it closes.
fn at_top(code: &str, sign: char) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if c == sign && depth == 0 {
            return Some(at);
        }
    }
    None
}

fn function(shape: Shape, row: &Row) -> Result<String, String> {
    let end = if shape == Shape::Calls { " {" } else { " =>" };
    let signature = row.code.split(end).next().unwrap_or(&row.code).trim();
    let (name, rest) = signature
        .strip_prefix("fn ")
        .and_then(|rest| rest.split_once('('))
        .ok_or_else(|| format!("has a row that is no function: {signature}"))?;
    let (parameters, result) = rest.rsplit_once(')').ok_or_else(|| format!("has no end of parameters: {signature}"))?;
    let parameters = parameters.replace(';', ",");
    let parameters = parameters.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut parameters = parameters.trim_end_matches(',').split(", ").map(lent_argument).collect::<Vec<_>>().join(", ");
    let result = result.trim().strip_prefix("-> ").unwrap_or("i32");
    let (is_unsafe, threads) = match shape {
        Shape::Functions { is_unsafe, threads } => (is_unsafe, threads.to_owned()),
        Shape::Calls => {
            parameters.push_str(", error: *mut *mut waxseal_error_t");
            (true, String::new())
        }
        Shape::Create | Shape::Struct => {
            let place = parameters.split(':').next().unwrap_or("").to_owned();
            parameters.push_str(", error: *mut *mut waxseal_error_t");
            let end = name.replace("_create", "_destroy");
            let owner = format!("On success the caller owns `*{place}` and frees it with `{end}`.");
            (true, format!("{ANY_THREAD} {owner} Errors: `WAXSEAL_INVALID` if `{place}` is null."))
        }
    };
    let mut doc = row.doc.clone();
    let is_sentence =
        |line: &String| [ANY_THREAD, ONE_THREAD].iter().any(|words| line.starts_with(&words[..words.len() - 1]));
    if !threads.is_empty() && !doc.iter().any(is_sentence) {
        doc.extend([String::new(), threads]);
    }
    let kind = if is_unsafe { "unsafe extern" } else { "extern" };
    let head = "#[unsafe(no_mangle)]\n";
    Ok(format!("{}{head}pub {kind} \"C\" fn {name}({parameters}) -> {result} {{}}\n\n", wrapped(&doc, WIDTH)))
}

/// C's form of an argument: bytes, buffers and arrays are a pointer and a length.
fn lent_argument(argument: &str) -> String {
    match argument.split_once(' ') {
        Some(("bytes", name)) => format!("{name}: *const u8, {name}_len: usize"),
        Some(("buffer", name)) => format!("{name}: *mut u8, capacity: usize"),
        Some(("optional", name)) => format!("{name}: *const waxseal_slice_t"),
        Some(("slices", name)) => format!("{name}: *const waxseal_slice_t, count: usize"),
        Some(("array", items)) => format!("{items}, count: usize"),
        Some(("out" | "bounds" | "lend", pointer)) => pointer.to_owned(),
        _ => argument.to_owned(),
    }
}

/// A struct without the conversions of its fields.
fn structure(table: &[&str]) -> Result<String, String> {
    let mut out = String::new();
    let mut field = String::new();
    let mut doc = Vec::new();
    let mut width = WIDTH;
    for line in table.iter().map(|line| line.trim()) {
        if let Some(text) = line.strip_prefix(DOC) {
            doc.push(text.trim().to_owned());
            continue;
        }
        if !doc.is_empty() {
            out.push_str(&wrapped(&doc, width));
            doc.clear();
        }
        if let Some(name) = line.strip_prefix("pub struct ") {
            let name = name.split(' ').next().unwrap_or("");
            out.push_str(&format!("#[repr(C)]\npub struct {name} {{\n"));
            width = WIDTH - 4; // fields are indented
        } else if line.starts_with("pub ") || !field.is_empty() {
            field.extend([line, " "]);
            if let Some(end) = at_top(&field, ',') {
                let declared = field[..end].split(" =").next().unwrap_or("");
                out.extend([declared, ",\n"]);
                field.clear();
            }
        } else {
            out.extend([line, "\n"]);
        }
    }
    if field.is_empty() { Ok(out) } else { Err(format!("has a field without its end: {field}")) }
}

/// Documentation with each paragraph filled to a width: the rows of a table are indented, what they declare is not.
fn wrapped(doc: &[String], width: usize) -> String {
    let mut out = String::new();
    for (at, paragraph) in doc.split(|line| line.is_empty()).enumerate() {
        if at > 0 {
            out.extend([DOC, "\n"]);
        }
        let mut line = DOC.to_owned();
        for word in paragraph.iter().flat_map(|line| line.split(' ')) {
            if line.len() + 1 + word.len() > width {
                out.extend([line.as_str(), "\n"]);
                line.truncate(DOC.len());
            }
            line.extend([" ", word]);
        }
        out.extend([line.as_str(), "\n"]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_become_functions() {
        let text = "\
use a;

setters! {
    field;

    /// Sets it.
    fn set_it(it: *mut it_t, to: u8) =>
        it = { let a = to; a };

    /// Sets both.
    ///
    /// One thread at a time. Errors: none.
    fn set_both(it: *mut it_t) => both = 1;
}
";
        let expected = "\
use a;

/// Sets it.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern \"C\" fn set_it(it: *mut it_t, to: u8) -> i32 {}

/// Sets both.
///
/// One thread at a time. Errors: none.
#[unsafe(no_mangle)]
pub extern \"C\" fn set_both(it: *mut it_t) -> i32 {}

";
        assert_eq!(expanded(text).unwrap(), expected);
    }

    #[test]
    fn a_getter_is_for_any_thread_unless_it_borrows_exclusively() {
        let text = "\
getters! {
    with;

    /// Its length.
    fn len(it: *const it_t) -> usize => |it| it.len(), or 0;
}
";
        let expected = "\
/// Its length.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern \"C\" fn len(it: *const it_t) -> usize {}

";
        assert_eq!(expanded(text).unwrap(), expected);
        assert!(expanded(&text.replace("with;", "with_mut;")).unwrap().contains("One thread at a time."));
    }

    #[test]
    fn outputs_follow_arguments() {
        let text = "\
finders! {
    /// It.
    fn get(
        it: *const it_t,
        at: usize;
        out: *mut u8,
    ) => |it| it.get(at);
}
";
        let expected = "pub unsafe extern \"C\" fn get(it: *const it_t, at: usize, out: *mut u8) -> i32 {}";
        let made = expanded(text).unwrap();
        assert!(made.contains(expected), "{made}");
    }

    #[test]
    fn an_object_is_created_and_its_end_is_named() {
        let text = "create! {\n    /// Creates it.\n    fn it_create(it: *mut *mut it_t) => \"it\";\n}\n";
        let made = expanded(text).unwrap().replace("\n/// ", " ");
        assert!(made.contains("owns `*it` and frees it with `it_destroy`. Errors: `WAXSEAL_INVALID` if `it` is null."));
        assert!(made.contains("fn it_create(it: *mut *mut it_t, error: *mut *mut waxseal_error_t) -> i32 {}"));
    }

    #[test]
    fn a_mirror_becomes_a_struct() {
        let text = "\
mirror! {
    /// It.
    pub struct it_t of |it: &It| {
        /// One.
        pub one: u64,
        /// Two.
        pub two: [u8; 2] =
            f(it, 2),
    }
}
";
        let expected = "\
/// It.
#[repr(C)]
pub struct it_t {
/// One.
pub one: u64,
/// Two.
pub two: [u8; 2],
}
";
        assert_eq!(expanded(text).unwrap(), expected);
    }

    #[test]
    fn a_call_takes_bytes_and_places_and_an_error() {
        let text = "\
calls! {
    /// Puts it.
    ///
    /// Thread-safe.
    fn put(it: *mut it_t, bytes key, out at: *mut u64) {
        let x = f(key, at)?;
        if x { Ok(()) } else { g() }
    }

    /// Ends it.
    fn end(it: *mut it_t) { g(it) }

    /// Reads them.
    fn get(slices keys, array kinds: *const u32, optional old, buffer into) { g(keys, kinds, old, into) }
}
";
        let expected = "\
/// Puts it.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern \"C\" fn put(it: *mut it_t, key: *const u8, key_len: usize, at: *mut u64, \
error: *mut *mut waxseal_error_t) -> i32 {}

/// Ends it.
#[unsafe(no_mangle)]
pub unsafe extern \"C\" fn end(it: *mut it_t, error: *mut *mut waxseal_error_t) -> i32 {}

/// Reads them.
#[unsafe(no_mangle)]
pub unsafe extern \"C\" fn get(keys: *const waxseal_slice_t, count: usize, kinds: *const u32, count: usize, \
old: *const waxseal_slice_t, into: *mut u8, capacity: usize, error: *mut *mut waxseal_error_t) -> i32 {}

";
        assert_eq!(expanded(text).unwrap(), expected);
    }

    #[test]
    fn a_row_without_end_is_a_fault() {
        assert!(expanded("destroy! {\n    fn end(it: *mut it_t)\n}\n").is_err());
    }
}
