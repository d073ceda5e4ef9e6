//! Compilers and what they can do; the library, built by cargo.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Warnings that would be errors in a program of our users'.
pub(crate) const STRICT: &[&str] = &["-Wall", "-Wextra", "-Werror", "-pedantic"];

/// What the address sanitizer and its kin are asked to find.
const SANITIZERS: &[&str] =
    &["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g"];

/// What is needed to build and run C programs.
pub(crate) struct Toolchain {
    /// The workspace.
    pub(crate) root: PathBuf,
    /// Where libwaxseal.so and libwaxseal.a are.
    pub(crate) built: PathBuf,
    /// A folder for what the tests make, gone when they end.
    pub(crate) scratch: tempfile::TempDir,
    pub(crate) cc: String,
    pub(crate) cxx: Option<String>,
    /// Flags that turn the sanitizers on; none where the compiler has none.
    pub(crate) sanitizers: &'static [&'static str],
}

impl Toolchain {
    /// None without a C compiler.
    pub(crate) fn find() -> Result<Option<Toolchain>, String> {
        let Some(cc) = compiler("CC", &["cc", "gcc", "clang"]) else { return Ok(None) };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))?;
        let scratch = tempfile::tempdir().map_err(|error| format!("making a folder: {error}"))?;
        let cxx = compiler("CXX", &["c++", "g++", "clang++"]);
        let built = build(&root)?;
        let mut toolchain = Toolchain { root, built, scratch, cc, cxx, sanitizers: &[] };
        if toolchain.has_sanitizers() {
            toolchain.sanitizers = SANITIZERS;
        } else {
            println!("the compiler here has no sanitizers: the programs run without");
        }
        Ok(Some(toolchain))
    }

    pub(crate) fn header_folder(&self) -> PathBuf {
        self.root.join("crates/ffi/include")
    }

    /// A file of the tests' own, with this text.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.scratch.path().join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// Compiles and links a program against the library that was built.
    pub(crate) fn program(&self, sources: &[PathBuf], name: &str, flags: &[&str]) -> Result<PathBuf, String> {
        let program = self.scratch.path().join(name);
        let mut cc = Command::new(&self.cc);
        cc.args(["-std=c11", "-D_DEFAULT_SOURCE", "-O1"]).args(STRICT).args(flags).arg("-I").arg(self.header_folder());
        cc.args(sources).arg("-o").arg(&program).arg(self.built.join("libwaxseal.so"));
        cc.arg(rpath(&self.scratch.path().join("lib"))).arg("-pthread");
        self.link_soname()?;
        succeeded(&mut cc)?;
        Ok(program)
    }

    /// The name under which programs look for the library.
    fn link_soname(&self) -> Result<(), String> {
        let folder = self.scratch.path().join("lib");
        let link = folder.join("libwaxseal.so.0");
        if link.exists() {
            return Ok(());
        }
        let library = self.built.join("libwaxseal.so");
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::os::unix::fs::symlink(&library, &link))
            .map_err(|error| format!("{}: {error}", link.display()))
    }

    fn has_sanitizers(&self) -> bool {
        let tried = self.write("probe.c", "int main(void) { return 0; }\n").and_then(|source| {
            let program = self.scratch.path().join("probe");
            succeeded(Command::new(&self.cc).args(SANITIZERS).arg(source).arg("-o").arg(&program))?;
            succeeded(&mut Command::new(program))
        });
        tried.is_ok()
    }
}

/// Where a program looks for its libraries.
pub(crate) fn rpath(folder: &Path) -> String {
    format!("-Wl,-rpath,{}", folder.display())
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Builds both libraries, with the profile in which this test was built, and gives the folder in which they are.
fn build(root: &Path) -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| format!("looking for myself: {error}"))?;
    let built = program.ancestors().nth(2).ok_or("this test stands nowhere")?.to_path_buf();
    let target = built.parent().ok_or("this test stands nowhere")?;
    let profile = if built.file_name() == Some(OsStr::new("release")) { "release" } else { "test" };
    let mut command = cargo();
    command.args(["build", "--quiet", "--locked", "-p", "waxseal-ffi", "--profile", profile]);
    // With the tool, so that the engine is not compiled again for this build.
    command.args(["-p", "waxseal-cli", "--features", "waxseal-cli/serve,waxseal-cli/mount", "--target-dir"]);
    succeeded(command.arg(target).current_dir(root))?;
    Ok(built)
}

/// The compiler that the variable names, or the first that answers.
fn compiler(variable: &str, names: &[&str]) -> Option<String> {
    let named = std::env::var(variable).ok().filter(|name| !name.is_empty());
    named.into_iter().chain(names.iter().map(|name| (*name).to_owned())).find(|name| {
        let mut command = Command::new(name);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

/// Runs a command to its end; what it printed, if it failed.
pub(crate) fn succeeded(command: &mut Command) -> Result<(), String> {
    output_of(command).map(drop)
}

/// Runs a command to its end and gives what it printed.
pub(crate) fn output_of(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| format!("{command:?} cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    Err(format!("{command:?}\nended with {}\n{}", output.status, String::from_utf8_lossy(&said)))
}
