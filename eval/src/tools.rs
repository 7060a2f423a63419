//! Executables that an evaluation runs; they are beside `eager-eval`, in the same build folder.

use anyhow::{Result, bail};
use std::path::PathBuf;

/// Folder of the built executables.
#[derive(Debug, Clone)]
pub struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// Finds the executables beside this one. An error names the first missing one and the command that builds it.
    pub fn find() -> Result<Tools> {
        let own = std::env::current_exe()?;
        let Some(folder) = own.parent() else { bail!("{} has no folder", own.display()) };
        let tools = Tools { folder: folder.to_path_buf() };
        for name in ["eagercc", "eagerd", "eager", "eager-vgpud", "libeager.so", "libcudart.so"] {
            let path = tools.path(name);
            if !path.exists() {
                bail!("{} is not built: run `make build`", path.display());
            }
        }
        Ok(tools)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}
