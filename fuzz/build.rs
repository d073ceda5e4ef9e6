//! Makes the calls of the target `abi` from the C header: one arm for every function, with arguments drawn by their
//! types.
//!
//! In: crates/ffi/include/waxseal.h. Out: `abi_calls.rs`, with the declarations, a number of functions, and
//!     `call(chooser, number)`.

use std::fmt::Write as _;
use std::path::Path;

#[allow(dead_code, reason = "the page of a function is for those who test the header")]
#[path = "../crates/ffi/tests/run/prototypes.rs"]
mod prototypes;

use prototypes::{Prototype, opaque_types, prototypes};

fn main() {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/ffi/include/waxseal.h");
    println!("cargo:rerun-if-changed={}", header.display());
    println!("cargo:rerun-if-changed=../crates/ffi/tests/run/prototypes.rs");
    let text = std::fs::read_to_string(&header).expect("the header");
    let (functions, opaque) = (prototypes(&text), opaque_types(&text));
    let out = std::env::var("OUT_DIR").expect("cargo says where");
    std::fs::write(Path::new(&out).join("abi_calls.rs"), made(&functions, &opaque)).expect("a file");
}

fn made(functions: &[Prototype], opaque: &[String]) -> String {
    let (mut declared, mut arms) = (String::new(), String::new());
    for (number, function) in functions.iter().enumerate() {
        let Call { types, before, arguments, after } = call(function, opaque);
        let Prototype { answer, name, .. } = function;
        let given = handle_kind(answer, opaque).filter(|_| !answer.starts_with("const "));
        let answer = rust_type(answer);
        let _ = writeln!(declared, "    fn {name}({}) -> {answer};", types.join(", "));
        let _ = writeln!(
            arms,
            "        {number} => {{\n{before}            let answer = unsafe {{ {name}({}) }};",
            arguments.join(", ")
        );
        let _ = writeln!(arms, "            chooser.answered({name:?}, answer);");
        if let Some(kind) = given {
            let _ = writeln!(arms, "            chooser.keep({kind:?}, answer);");
        }
        let _ = writeln!(arms, "{after}        }}");
    }
    // The function that ends a handle of each kind.
    let ends = opaque.iter().map(|kind| {
        let end = kind.trim_end_matches("_t").to_owned() + "_destroy";
        let end = if functions.iter().any(|function| function.name == end) {
            format!("unsafe {{ {end}(handle) }}")
        } else {
            "unsafe { waxseal_close(handle, 0) }".to_owned()
        };
        format!("        {kind:?} => {end},\n")
    });
    let ends: String = ends.collect();
    format!(
        "unsafe extern \"C\" {{\n{declared}}}\n\n\
         const FUNCTIONS: usize = {};\n\n\
         fn call(chooser: &mut Chooser<'_>, number: usize) {{\n    match number {{\n{arms}        _ => {{}}\n    }}\n}}\n\n\
         fn end(kind: &str, handle: usize) -> i32 {{\n    match kind {{\n{ends}        _ => 0,\n    }}\n}}\n",
        functions.len()
    )
}

#[derive(Default)]
struct Call {
    types: Vec<String>,
    before: String,
    arguments: Vec<String>,
    after: String,
}

fn call(function: &Prototype, opaque: &[String]) -> Call {
    let mut call = Call::default();
    let mut at = 0;
    while at < function.parameters.len() {
        let (kind, name) = (function.parameters[at].as_str(), function.names[at].as_str());
        let is_array = function.parameters.get(at + 1).is_some_and(|next| next == "size_t") && kind.ends_with('*');
        let kept = kind.strip_suffix(" **").filter(|kind| opaque.iter().any(|known| known == kind));
        call.types.push(format!("a{at}: {}", rust_type(kind)));
        call.arguments.push(format!("a{at}"));
        let drawn = match kind {
            "waxseal_error_t **" => "chooser.error_place()".to_owned(),
            _ if kept.is_some() => {
                let _ = writeln!(call.after, "            chooser.keep({:?}, p{at});", kept.unwrap_or_default());
                call.before += &format!("            let mut p{at} = 0usize;\n");
                format!("chooser.place_of(&mut p{at})")
            }
            "struct ArrowArrayStream *" => {
                call.before += &format!("            let mut p{at} = Stream::default();\n");
                let _ = writeln!(call.after, "            p{at}.read();");
                format!("(&mut p{at} as *mut Stream).addr()")
            }
            "const uint8_t *" | "uint8_t *" | "const waxseal_slice_t *" if is_array => {
                let draw = match kind {
                    "const uint8_t *" => format!("chooser.bytes({name:?})"),
                    "uint8_t *" => "chooser.buffer()".to_owned(),
                    _ => "chooser.slices()".to_owned(),
                };
                call.before += &format!("            let (a{at}, a{}) = {draw};\n", at + 1);
                call.types.push(format!("a{}: usize", at + 1));
                call.arguments.push(format!("a{}", at + 1));
                at += 2;
                continue;
            }
            "const waxseal_range_t *" => "chooser.range()".to_owned(),
            "bool" => "chooser.byte() & 1 == 1".to_owned(),
            "waxseal_seal_t" => "Seal([chooser.byte(); 8])".to_owned(),
            "size_t" | "uint64_t" | "uint32_t" | "uint16_t" | "uint8_t" | "int32_t" => {
                format!("chooser.number({name:?}) as {}", rust_type(kind))
            }
            handle if handle_kind(handle, opaque).is_some() => {
                format!("chooser.handle({:?})", handle_kind(handle, opaque).unwrap_or_default())
            }
            // What is written to; a structure that is read, a function, a context: none.
            place if place.ends_with('*') && !place.starts_with("const ") && place != "void *" => {
                "chooser.scratch()".to_owned()
            }
            _ => "0".to_owned(),
        };
        let _ = writeln!(call.before, "            let a{at} = {drawn};");
        at += 1;
    }
    call
}

/// The kind of a handle.
fn handle_kind<'a>(parameter: &'a str, opaque: &[String]) -> Option<&'a str> {
    let kind = parameter.strip_prefix("const ").unwrap_or(parameter).strip_suffix(" *")?;
    opaque.iter().any(|known| known == kind).then_some(kind)
}

/// Pointers are numbers here.
fn rust_type(kind: &str) -> &'static str {
    match kind {
        "int32_t" => "i32",
        "uint8_t" => "u8",
        "uint16_t" => "u16",
        "uint32_t" => "u32",
        "uint64_t" => "u64",
        "bool" => "bool",
        "waxseal_seal_t" => "Seal",
        "waxseal_slice_t" => "Slice",
        "void" => "()",
        _ => "usize",
    }
}
