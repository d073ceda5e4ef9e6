//! shell: verbs from standard input, with paths relative to a directory of a store.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::Parser;

use super::location::{Access, Location, Place, resolve, url};
use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::fs_verbs::FsVerb;
use crate::input::{Lines, read_failed, standard_input};
use crate::output::Output;

/// A line of the shell.
#[derive(Parser, Debug)]
#[command(no_binary_name = true, disable_version_flag = true, name = "")]
struct Line {
    #[command(subcommand)]
    verb: FsVerb,
}

/// Reads lines until the end or `exit`. A line that fails is reported, and the next one is read; a line above the limit
/// ends the shell. Exit code: that of the last failure if standard input is no terminal.
pub(super) fn shell(args: &Args, path: &OsStr, output: &mut Output) -> Result<Exit, Failure> {
    let Location::Stored { store, path, .. } = Location::parse(path)? else {
        return Err(Failure::usage("the shell is for a store: waxseal://STORE/path"));
    };
    let mut directory = resolve(b"", &path);
    let input = standard_input()?;
    let (is_terminal, mut exit) = (input.is_terminal(), Exit::Ok);
    let mut lines = Lines::default();
    loop {
        if is_terminal {
            eprint!("{}:/{}> ", store.display(), crate::text::escape(&directory));
            let _ = io::stderr().flush();
        }
        let line = lines.next(&mut input.lock()).map_err(|error| read_failed("standard input", error))?;
        let Some((_, line)) = line else { return Ok(exit) };
        let outcome = words(line).and_then(|words| match words.first().map(|word| word.as_bytes()) {
            None => Ok(Some(Exit::Ok)),
            Some(b"exit" | b"quit") => Ok(None),
            Some(b"pwd") => output.line(format!("/{}", output.readable(&directory))).map(|()| Some(Exit::Ok)),
            Some(b"cd") => {
                let to = resolve(&directory, words.get(1).map_or(b"/", |word| word.as_bytes()));
                let Place { tree, path } = Location::parse(&url(&store, &to))?.open(args, Access::Read)?;
                if !tree.stat(&path)?.is_directory() {
                    return Err(Failure::usage(format!("{} is not a directory", tree.show(&path))));
                }
                directory = to;
                Ok(Some(Exit::Ok))
            }
            Some(_) => {
                let mut line = match Line::try_parse_from(words) {
                    Ok(line) => line,
                    Err(error) if error.use_stderr() => {
                        let text = error.to_string();
                        let first = text.lines().next().unwrap_or_default();
                        return Err(
                            Failure::usage(first.trim_start_matches("error: ")).explain("`help` lists the verbs")
                        );
                    }
                    Err(help) => return output.line(help.to_string()).map(|()| Some(Exit::Ok)),
                };
                line.verb.map_stored(|path| {
                    if !path.as_bytes().starts_with(b"file:") && !path.as_bytes().windows(3).any(|part| part == b"://")
                    {
                        *path = url(&store, &resolve(&directory, path.as_bytes()));
                    }
                });
                super::run(args, &line.verb, output).map(Some)
            }
        });
        output.flush()?;
        match outcome {
            Ok(None) => return Ok(exit),
            Ok(Some(Exit::Ok)) => {}
            Ok(Some(other)) => exit = other,
            Err(failure) if failure.is_broken_pipe() => return Err(failure),
            Err(failure) => {
                eprintln!("waxseal: {failure}");
                exit = failure.exit();
            }
        }
    }
}

/// Divides a line into words: by white space, except in quotes and behind `\`. `#` begins a comment.
fn words(line: &[u8]) -> Result<Vec<OsString>, Failure> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<Vec<u8>>, None);
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', None | Some(b'"')) => word.get_or_insert_default().extend(bytes.next()),
            (_, Some(end)) if byte == end => quote = None,
            (_, Some(_)) => word.get_or_insert_default().push(byte),
            (b'\'' | b'"', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (b'#', None) if word.is_none() => break,
            (byte, None) if byte.is_ascii_whitespace() => words.extend(word.take()),
            (byte, None) => word.get_or_insert_default().push(byte),
        }
    }
    if quote.is_some() {
        return Err(Failure::usage("a quote is not closed"));
    }
    words.extend(word);
    Ok(words.into_iter().map(OsString::from_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_divided_as_shells_do() {
        let divided = |line: &str| words(line.as_bytes()).unwrap();
        assert_eq!(divided("put  a\tb\n"), ["put", "a", "b"]);
        assert_eq!(divided(r#"cat 'a b' "c \" d"e \#f '' # g"#), ["cat", "a b", "c \" de", "#f", ""]);
        assert!(divided(" \n").is_empty());
        assert!(words(b"cat 'a").is_err());
    }
}
