//! Directories of which nobody else can change what is in them.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use crate::private_file::effective_user;

/// All rights for the owner, none for others.
const OWNER_ONLY: u32 = 0o700;
/// Rights to make, rename and remove files, for the group and for others.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Makes a directory of mode 0700 where there is none, and those above it that are missing; one that is there must be as
/// [`check_private_directory`] asks.
///
/// # Errors
/// As of [`check_private_directory`], or it cannot be made.
pub fn make_private_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(OWNER_ONLY).create(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let above = path.parent().ok_or(e)?;
            make_private_directory(above)?;
            DirBuilder::new().mode(OWNER_ONLY).create(path)
        }
        // Whoever may write in the directory above may have made it, as in /tmp.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => check_private_directory(path).map(drop),
        done => done,
    }
}

/// Whether a directory is there. It must be this user's own, no symbolic link, and writable by nobody else.
///
/// # Errors
/// It is not so (`PermissionDenied`), or cannot be looked at.
pub fn check_private_directory(path: &Path) -> io::Result<bool> {
    let there = match fs::symlink_metadata(path) {
        Ok(there) => there,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    };
    let own = effective_user();
    let refused = if !there.is_dir() {
        "it is no directory".to_owned()
    } else if there.uid() != own {
        format!("it belongs to user {}, not to user {own}", there.uid())
    } else if there.mode() & WRITABLE_BY_OTHERS != 0 {
        format!(
            "others may write in it (mode {:04o}); `chmod go-w {}` ends that",
            there.mode() & 0o7777,
            path.display()
        )
    } else {
        return Ok(true);
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{} is not used: {refused}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn a_directory_is_made_for_its_owner_with_those_above_it() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("a/b");
        assert!(!check_private_directory(&path).unwrap());
        make_private_directory(&path).unwrap();
        for made in [path.clone(), top.path().join("a")] {
            assert_eq!(fs::symlink_metadata(&made).unwrap().mode() & 0o7777, 0o700, "{}", made.display());
        }
        // Others may read in one that was made by hand.
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        make_private_directory(&path).unwrap();
        assert!(check_private_directory(&path).unwrap());
    }

    #[test]
    fn what_others_can_change_is_not_used() {
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
            ("group", "others may write in it (mode 0770)"),
            ("all", "others may write in it (mode 1777)"),
            ("link", "it is no directory"),
            ("file", "it is no directory"),
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
