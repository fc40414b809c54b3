//! Directories whose content only their owner can change.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use crate::private_file::effective_user;

/// All permissions for the owner, none for group and others.
const OWNER_ONLY: u32 = 0o700;
/// Write permission, which allows creating, renaming and removing files, for group and others.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Creates a directory of mode 0700 and its missing parents, unless it exists; an existing directory must pass
/// [`check_private_directory`].
///
/// # Errors
/// As of [`check_private_directory`], or the directory cannot be created.
pub fn make_private_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(OWNER_ONLY).create(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let above = path.parent().ok_or(e)?;
            make_private_directory(above)?;
            DirBuilder::new().mode(OWNER_ONLY).create(path)
        }
        // Another user with write access to the parent directory (as in /tmp) may have created it.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => check_private_directory(path).map(drop),
        done => done,
    }
}

/// Checks whether a directory exists. It must belong to this user, be no symbolic link, and be writable by no other
/// user.
///
/// # Errors
/// The directory does not meet these conditions (`PermissionDenied`), or cannot be inspected.
pub fn check_private_directory(path: &Path) -> io::Result<bool> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    };
    let own = effective_user();
    let refused = if !metadata.is_dir() {
        "it is not a directory".to_owned()
    } else if metadata.uid() != own {
        format!("it belongs to user {}, not to user {own}", metadata.uid())
    } else if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
        format!(
            "other users may write to it (mode {:04o}); run `chmod go-w {}`",
            metadata.mode() & 0o7777,
            path.display()
        )
    } else {
        return Ok(true);
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("refusing to use {}: {refused}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn a_directory_and_its_missing_parents_are_created_for_their_owner() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("a/b");
        assert!(!check_private_directory(&path).unwrap());
        make_private_directory(&path).unwrap();
        for made in [path.clone(), top.path().join("a")] {
            assert_eq!(fs::symlink_metadata(&made).unwrap().mode() & 0o7777, 0o700, "{}", made.display());
        }
        // Read permission for other users is accepted in a directory that was created by hand.
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        make_private_directory(&path).unwrap();
        assert!(check_private_directory(&path).unwrap());
    }

    #[test]
    fn a_directory_that_other_users_can_change_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        for (name, mode) in [("group", 0o770), ("all", 0o1777), ("foreign", 0o700)] {
            fs::create_dir(at(name)).unwrap();
            fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir(at("own")).unwrap();
        symlink(at("own"), at("link")).unwrap();
        fs::write(at("file"), "").unwrap();
        let mut refused = vec![
            ("group", "other users may write to it (mode 0770)"),
            ("all", "other users may write to it (mode 1777)"),
            ("link", "it is not a directory"),
            ("file", "it is not a directory"),
        ];
        if effective_user() == 0 {
            chown(at("foreign"), Some(31_337), None).unwrap();
            refused.push(("foreign", "it belongs to user 31337, not to user 0"));
        }
        for (name, why) in refused {
            for e in [make_private_directory(&at(name)), check_private_directory(&at(name)).map(drop)] {
                let e = e.unwrap_err();
                assert_eq!(e.kind(), io::ErrorKind::PermissionDenied, "{name}");
                assert!(e.to_string().contains(why), "{e}");
            }
        }
    }
}
