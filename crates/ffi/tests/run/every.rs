//! Every function of the header with arguments that cannot be.
//!
//! A program is made that calls each function many times: with nothing, with pointers that are no handles, with handles
//! that were ended, with handles of another kind, and with numbers from the ends of their ranges. None may crash; and
//! one that answers a status may not answer success where its object cannot be there.

use std::fmt::Write as _;
use std::process::Command;

use crate::Tally;
use crate::header::header_text;
use crate::prototypes::{Prototype, opaque_types, prototypes};
use crate::toolchain::{Toolchain, succeeded};

/// Functions whose success needs no object: they make one, or there is nothing to do, or 0 says that there is none.
const NEED_NOTHING: &[&str] =
    &["_create", "_open_memory", "_destroy", "waxseal_close", "_error_code", "_error_errno", "_error_verdict"];

/// What stands for the object of a call.
const OBJECTS: &[&str] = &["NULL", "one", "all", "ended", "other"];

pub(crate) fn run(toolchain: &Toolchain, tally: &mut Tally) {
    let outcome = header_text(toolchain).and_then(|header| {
        let source = toolchain.write("every.c", &program(&prototypes(&header), &opaque_types(&header)))?;
        // One function with thousands of calls: the optimizer takes twenty times as long as the rest of the compiler.
        let flags = [toolchain.sanitizers, &["-O0", "-Wno-error"]].concat();
        let program = toolchain.program(&[source], "every", &flags)?;
        let mut command = Command::new(program);
        succeeded(command.current_dir(toolchain.scratch.path()).env("ASAN_OPTIONS", "detect_leaks=0"))
    });
    tally.count("every function refuses what cannot be", outcome);
}

fn program(functions: &[Prototype], opaque: &[String]) -> String {
    let mut text = String::from(
        "#include \"waxseal.h\"\n#include <stdio.h>\n\nint main(void) {\n\
         int failed = 0;\n\
         waxseal_options_t *made = NULL;\n\
         if (waxseal_options_create(&made, NULL) != WAXSEAL_OK || waxseal_options_destroy(made) != WAXSEAL_OK) return 1;\n\
         waxseal_write_options_t *alive = NULL;\n\
         if (waxseal_write_options_create(&alive, NULL) != WAXSEAL_OK) return 1;\n\
         void *one = (void *)1, *all = (void *)~(uintptr_t)0, *ended = made, *other = alive;\n",
    );
    for function in functions {
        for object in OBJECTS {
            if *object == "other" && function.name.starts_with("waxseal_write_options") {
                continue; // there it is no other kind
            }
            for number in ["0", "1", "-1"] {
                call(&mut text, function, opaque, object, number);
            }
        }
    }
    text.push_str("if (waxseal_write_options_destroy(alive) != WAXSEAL_OK) failed++;\nreturn failed != 0;\n}\n");
    text
}

/// Adds one call: `object` for every handle, `number` for every number, no bytes and no place for anything.
fn call(text: &mut String, function: &Prototype, opaque: &[String], object: &str, number: &str) {
    let Prototype { answer, name, parameters, .. } = function;
    let mut arguments: Vec<String> = Vec::new();
    for parameter in parameters {
        arguments.push(match parameter.as_str() {
            "bool" => format!("({number}) != 0"),
            handle if is_handle(handle, opaque) => object.to_owned(),
            pointer if pointer.ends_with('*') => "NULL".to_owned(),
            structure if structure.starts_with("waxseal_") => format!("({structure}){{0}}"),
            kind => format!("({kind})({number})"),
        });
    }
    let call = format!("{name}({})", arguments.join(", "));
    let needs_object = parameters.first().is_some_and(|first| is_handle(first, opaque));
    let may_succeed = NEED_NOTHING.iter().any(|end| name.ends_with(end));
    let _ = match answer.as_str() {
        "int32_t" if needs_object && !may_succeed => writeln!(
            text,
            "if ({call} >= 0) {{ failed++; puts(\"{name} succeeds with {object} for its object and {number} for numbers\"); }}"
        ),
        _ => writeln!(text, "(void){call};"),
    };
}

/// True for a pointer to a type that only the library knows.
fn is_handle(parameter: &str, opaque: &[String]) -> bool {
    let kind = parameter.strip_prefix("const ").unwrap_or(parameter).strip_suffix(" *");
    kind.is_some_and(|kind| opaque.iter().any(|name| name == kind))
}
