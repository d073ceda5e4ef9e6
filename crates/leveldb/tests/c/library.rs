//! What the library is from outside: its symbols, its own name, its header, its other form, its page for pkg-config.

use std::collections::BTreeSet;
use std::process::Command;

use super::compiler::{Compiler, Language, folder, libraries, must_succeed, package, said, skipped, start};

fn symbols() -> BTreeSet<String> {
    let list = std::fs::read_to_string(package().join("symbols.txt")).unwrap();
    list.lines().map(str::to_owned).collect()
}

/// A tool of the compiler's; none is said.
fn tool(name: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(name).args(arguments).arg(libraries().join("libwaxseal_leveldb.so")).output() {
        Ok(output) if output.status.success() => Some(String::from_utf8(output.stdout).unwrap()),
        _ => {
            skipped("the library's symbols and name", name);
            None
        }
    }
}

#[test]
fn the_library_has_the_symbols_of_the_list_and_no_others() {
    assert_eq!(symbols().len(), 68);
    let Some(listed) = tool("nm", &["-D", "--defined-only", "-P"]) else { return };
    let found: BTreeSet<String> = listed.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect();
    assert_eq!(found, symbols());
}

#[test]
fn the_header_declares_them() {
    let header = std::fs::read_to_string(package().join("include/leveldb/c.h")).unwrap();
    let words = header.split(|letter: char| !(letter.is_alphanumeric() || "_(".contains(letter)));
    let called = words.filter_map(|word| word.split_once('(')).map(|(name, _)| name.to_owned());
    let declared: BTreeSet<String> = called.filter(|name| name.starts_with("leveldb_")).collect();
    assert_eq!(declared, symbols());
}

#[test]
fn the_library_knows_its_name() {
    let Some(dynamic) = tool("objdump", &["-p"]) else { return };
    assert!(
        dynamic.lines().any(|line| line.contains("SONAME") && line.ends_with(" libwaxseal_leveldb.so.0")),
        "{dynamic}"
    );
}

#[test]
fn the_header_stands_alone_in_every_standard() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("alone.c");
    std::fs::write(&source, "#include <leveldb/c.h>\n#include <leveldb/c.h>\nint main(void) { return 0; }\n").unwrap();
    for (language, standards) in
        [(Language::C99, &["-std=c99", "-std=c11", "-std=c17"][..]), (Language::Cpp17, &["-std=c++11", "-std=c++17"])]
    {
        let Some(compiler) = Compiler::plain(language) else { continue };
        for standard in standards {
            must_succeed(
                compiler
                    .command()
                    .arg(standard)
                    .args(["-Wstrict-prototypes"].iter().filter(|_| language == Language::C99))
                    .arg("-fsyntax-only")
                    .arg(&source),
            );
        }
    }
}

#[test]
fn a_program_links_with_the_static_library() {
    let Some(compiler) = Compiler::plain(Language::C99) else { return };
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("batch");
    let mut link = compiler.command();
    link.arg(folder().join("batch.c")).args(["-o"]).arg(&program).args(["-xnone"]);
    must_succeed(link.arg(libraries().join("libwaxseal_leveldb.a")).args(["-lpthread", "-ldl", "-lm", "-lgcc_s"]));
    let output = start(&program, dir.path(), false).env_remove("LD_LIBRARY_PATH").output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

/// The page says where things are once they are installed below a prefix.
#[test]
fn a_program_is_built_by_the_page_for_pkg_config() {
    let Some(compiler) = Compiler::plain(Language::C99) else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = std::fs::read_to_string(package().join("waxseal-leveldb.pc.in")).unwrap();
    let page = page.replace("@prefix@", dir.path().to_str().unwrap()).replace("@version@", env!("CARGO_PKG_VERSION"));
    let page = page.replace("@rpath@", " -Wl,-rpath,${libdir}");
    assert!(!page.contains('@'));
    let [lib, include] = ["lib", "include/waxseal"].map(|folder| dir.path().join(folder));
    std::fs::create_dir_all(include.join("leveldb")).unwrap();
    std::fs::create_dir(&lib).unwrap();
    std::fs::write(lib.join("waxseal-leveldb.pc"), page).unwrap();
    std::fs::copy(package().join("include/leveldb/c.h"), include.join("leveldb/c.h")).unwrap();
    std::fs::copy(libraries().join("libwaxseal_leveldb.so"), lib.join("libwaxseal_leveldb.so.0")).unwrap();
    std::os::unix::fs::symlink("libwaxseal_leveldb.so.0", lib.join("libwaxseal_leveldb.so")).unwrap();
    let asked = Command::new("pkg-config")
        .args(["--cflags", "--libs", "waxseal-leveldb"])
        .env("PKG_CONFIG_PATH", &lib)
        .output();
    let Ok(flags) = asked else {
        skipped("the page for pkg-config", "pkg-config");
        return;
    };
    assert!(flags.status.success(), "{}", said(&flags));
    let flags = String::from_utf8(flags.stdout).unwrap();
    let program = dir.path().join("batch");
    let mut link = compiler.command();
    must_succeed(link.arg(folder().join("batch.c")).arg("-o").arg(&program).args(flags.split_whitespace()));
    let output = start(&program, dir.path(), false).env("LD_LIBRARY_PATH", &lib).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}
