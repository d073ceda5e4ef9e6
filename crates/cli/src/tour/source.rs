//! Selection of the files that the tour stores.

use std::path::{Path, PathBuf};

use crate::args;
use crate::failure::Failure;

/// Maximum number of bytes stored if no path is given.
const DEFAULT_LIMIT: u64 = 512_000_000;

/// The trees to store, in order, and the limit in bytes.
pub(super) struct Sources {
    pub(super) trees: Vec<SourceTree>,
    pub(super) limit: u64,
}

/// One tree.
pub(super) struct SourceTree {
    pub(super) root: PathBuf,
    /// Its directory in the store; empty for the root.
    pub(super) place: &'static str,
    /// A directory below the root that is stored later, or not at all.
    pub(super) left_out: Option<PathBuf>,
}

pub(super) fn sources(options: &args::TourArgs) -> Result<Sources, Failure> {
    match &options.path {
        Some(path) if !path.is_dir() => Err(Failure::usage(format!("{} is not a directory", path.display()))),
        Some(path) => {
            let tree = SourceTree { root: path.clone(), place: "", left_out: None };
            Ok(Sources { trees: vec![tree], limit: options.limit.unwrap_or(u64::MAX) })
        }
        None => {
            let here = std::env::current_dir().map_err(|error| Failure::io("the current directory", error))?;
            let trees = default_trees(workspace(&here), package_cache());
            if trees.is_empty() {
                return Err(Failure::usage("no cargo workspace and no package cache here; say a PATH"));
            }
            Ok(Sources { trees, limit: options.limit.unwrap_or(DEFAULT_LIMIT) })
        }
    }
}

/// Returns the workspace, the package cache, and last the build output, which is the largest and least typical tree.
fn default_trees(workspace: Option<PathBuf>, package_cache: Option<PathBuf>) -> Vec<SourceTree> {
    let target = workspace.as_ref().map(|root| root.join("target"));
    let tree = |root, place| SourceTree { root, place, left_out: None };
    let mut trees = Vec::new();
    trees.extend(workspace.map(|root| SourceTree { left_out: target.clone(), ..tree(root, "workspace") }));
    trees.extend(package_cache.map(|root| tree(root, "registry")));
    trees.extend(target.filter(|target| target.is_dir()).map(|root| tree(root, "target")));
    trees
}

/// Returns the nearest ancestor directory whose Cargo.toml defines a workspace, else that of the nearest package.
fn workspace(here: &Path) -> Option<PathBuf> {
    let manifest = |dir: &Path| std::fs::read_to_string(dir.join("Cargo.toml")).ok();
    let packages: Vec<(&Path, String)> = here.ancestors().filter_map(|dir| Some((dir, manifest(dir)?))).collect();
    let found = packages.iter().find(|(_, text)| text.contains("[workspace]")).or(packages.first());
    found.map(|(dir, _)| dir.to_path_buf())
}

fn package_cache() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    Some(home.join("registry")).filter(|registry| registry.is_dir())
}
