//! The functions that the header declares, as far as tests need to know them.

/// A function of the header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Prototype {
    /// What it answers: `int32_t`, `waxseal_slice_t`, ..
    pub(crate) answer: String,
    pub(crate) name: String,
    /// Types of its parameters, without their names.
    pub(crate) parameters: Vec<String>,
    /// Their names.
    pub(crate) names: Vec<String>,
    /// The comment above it.
    pub(crate) page: String,
}

/// Every function that a header declares.
pub(crate) fn prototypes(header: &str) -> Vec<Prototype> {
    let (mut found, mut page, mut rest) = (Vec::new(), String::new(), header);
    while let Some(line) = rest.lines().next() {
        let trimmed = line.trim_start();
        let end = if trimmed.starts_with("/*") {
            page.clear();
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if is_declaration(line) {
            rest.find(';').map_or(rest.len(), |end| end + 1)
        } else {
            line.len()
        };
        let (text, behind) = rest.split_at(end);
        if trimmed.starts_with("/*") {
            page = text.to_owned();
        } else if is_declaration(line) {
            found.extend(prototype(text, &page));
            page.clear();
        }
        rest = behind.strip_prefix('\n').unwrap_or(behind);
    }
    found
}

/// The types that only the library knows: `typedef struct x x;`.
pub(crate) fn opaque_types(header: &str) -> Vec<String> {
    let known = |line: &str| {
        let (first, second) = line.strip_prefix("typedef struct ")?.strip_suffix(';')?.split_once(' ')?;
        (first == second).then(|| first.to_owned())
    };
    header.lines().filter_map(known).collect()
}

/// True for a line that begins a function: it stands at the margin and opens a list of parameters right behind a name
/// of ours.
fn is_declaration(line: &str) -> bool {
    let Some((before, _)) = line.split_once('(') else { return false };
    let name = before.rsplit([' ', '*']).next().unwrap_or_default();
    line.starts_with(|c: char| c.is_alphabetic()) && !line.starts_with("typedef") && name.starts_with("waxseal_")
}

fn prototype(text: &str, page: &str) -> Option<Prototype> {
    let (head, parameters) = text.strip_suffix(");")?.split_once('(')?;
    let at = head.rfind([' ', '*'])? + 1;
    let parameters =
        parameters.split(',').map(str::trim).filter(|parameter| *parameter != "void" && !parameter.is_empty());
    let (parameters, names) = parameters
        .map(|parameter| {
            let (kind, name) = parameter.split_at(parameter.rfind([' ', '*']).map_or(parameter.len(), |at| at + 1));
            (kind.trim().to_owned(), name.to_owned())
        })
        .unzip();
    Some(Prototype {
        answer: head[..at].trim().to_owned(),
        name: head[at..].to_owned(),
        parameters,
        names,
        page: page.to_owned(),
    })
}
