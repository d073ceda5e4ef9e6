//! The C blocks of docs/recipes.md, compiled and run as one program. Each block has a store of its own, with families
//! and a row of the names that the page uses, and must leave no handle alive.

use std::fmt::Write as _;
use std::process::Command;

use crate::Tally;
use crate::toolchain::{Toolchain, succeeded};

const PAGE: &str = "docs/recipes.md";

/// What a block finds, before and behind it.
const BEGIN: &str = r#"
    waxseal_db_t *db = NULL;
    waxseal_error_t *error = NULL;
    waxseal_family_t *jobs = NULL, *done = NULL, *counters = NULL, *users = NULL, *emails = NULL, *by_city = NULL, *accounts = NULL;
    waxseal_options_t *options = NULL;
    if (waxseal_options_create(&options, &error) || waxseal_open(STR(NAME), options, &db, &error)) return 1;
    waxseal_options_destroy(options);
    waxseal_family_open(db, STR("jobs"), &jobs, &error);
    waxseal_family_open(db, STR("done"), &done, &error);
    waxseal_family_open(db, STR("counters"), &counters, &error);
    waxseal_family_open(db, STR("users"), &users, &error);
    waxseal_family_open(db, STR("emails"), &emails, &error);
    waxseal_family_open(db, STR("users_by_city"), &by_city, &error);
    waxseal_family_open(db, STR("accounts"), &accounts, &error);
    waxseal_put(jobs, STR("1"), STR("wash"), &error);
    waxseal_put(users, STR("blaise"), STR("paris"), &error);
    waxseal_put(by_city, STR("paris/blaise"), STR(""), &error);
    {
"#;
const END: &str = r#"
    }
    if (error) return fprintf(stderr, "%s\n", waxseal_error_message(error));
    waxseal_family_t *families[] = {jobs, done, counters, users, emails, by_city, accounts};
    for (size_t at = 0; at < sizeof families / sizeof *families; at++) waxseal_family_destroy(families[at]);
    if (waxseal_close(db, &error) != WAXSEAL_OK || waxseal_live_handles() != 0) return 1;
"#;

pub(crate) fn run(toolchain: &Toolchain, tally: &mut Tally) {
    let outcome = std::fs::read_to_string(toolchain.root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"));
    let outcome = outcome.and_then(|page| {
        let source = toolchain.write("recipes.c", &program(&page)?)?;
        let flags = [toolchain.sanitizers, &["-Wno-unused-but-set-variable", "-UNDEBUG"]].concat();
        let program = toolchain.program(&[source], "recipes", &flags)?;
        let folder = toolchain.scratch.path().join("recipes.d");
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        succeeded(Command::new(program).current_dir(&folder))
    });
    tally.count("the recipes run", outcome);
}

/// Returns a program of a page's C blocks.
fn program(page: &str) -> Result<String, String> {
    let mut text = String::from(
        "#include <assert.h>\n#include <stdio.h>\n#include <string.h>\n#include \"waxseal.h\"\n\
         #define STR(s) (const uint8_t *)(s), (sizeof(s) - 1)\n",
    );
    let blocks: Vec<&str> =
        page.split("```c\n").skip(1).filter_map(|rest| rest.split_once("```")).map(|(block, _)| block).collect();
    for (number, block) in blocks.iter().enumerate() {
        let _ = write!(text, "#define NAME \"store{number}\"\nstatic int block{number}(void) {{{BEGIN}{block}{END}");
        text.push_str("    return 0;\n}\n#undef NAME\n");
    }
    let calls: Vec<String> = (0..blocks.len()).map(|number| format!("block{number}()")).collect();
    let _ = writeln!(text, "int main(void) {{ return {}; }}", calls.join(" || "));
    if blocks.is_empty() { Err(format!("{PAGE} has no C block")) } else { Ok(text) }
}
