//! The privileges of a file: set-user-ID, set-group-ID, and capabilities. They end when another content or owner comes.
//!
//! The kernel leaves that to the file system (`FUSE_HANDLE_KILLPRIV_V2`). Otherwise it asks for the capabilities before
//! each write.

use waxseal_files::{ErrorKind, Inodes, Result, SetAttributes};

use crate::attributes::SET_GROUP_ID;

/// The extended attribute with the capabilities of a program.
const CAPABILITIES: &str = "security.capability";

const SET_USER_ID: u32 = 0o4000;
const GROUP_EXECUTE: u32 = 0o010;

/// Removes the capabilities of a file, and with `with_bits` set-user-ID and set-group-ID. A directory keeps its bits.
pub(crate) fn drop_privileges(inodes: &Inodes, inode: u64, with_bits: bool) -> Result<()> {
    let metadata = inodes.stat(inode)?;
    if metadata.is_directory() {
        return Ok(());
    }
    let mode = without_privileges(metadata.mode);
    if with_bits && mode != metadata.mode {
        inodes.set_attributes(inode, &SetAttributes::new().mode(mode))?;
    }
    match inodes.xattr(inode, CAPABILITIES).and_then(|_| inodes.remove_xattr(inode, CAPABILITIES)) {
        Err(error) if error.kind() == ErrorKind::NoAttribute => Ok(()),
        removed => removed,
    }
}

/// Returns a mode without its privileges. Without execute permission of the group, set-group-ID is no privilege.
fn without_privileges(mode: u32) -> u32 {
    let group = if mode & GROUP_EXECUTE != 0 { SET_GROUP_ID } else { 0 };
    mode & !(SET_USER_ID | group)
}
