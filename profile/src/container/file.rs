//! Profiles at paths.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{read, write};
use crate::error::Error;
use crate::model::Profile;

/// Reads the profile at `path`; see [`read`].
///
/// # Errors
/// As [`read`].
pub fn read_file(path: impl AsRef<Path>) -> Result<Profile, Error> {
    read(BufReader::new(File::open(path)?))
}

/// Writes a profile to `path`: all of it or nothing. It is written beside its place and then renamed, so that a reader
/// never sees half a profile and a failure leaves what was there before. A path that is a device or a pipe is written
/// straight to, and a symbolic link stays one.
///
/// # Errors
/// As [`write`]. No temporary file is left behind.
pub fn write_file(path: impl AsRef<Path>, profile: &Profile) -> Result<(), Error> {
    replace(path.as_ref(), |file| write(profile, file))
}

/// Lets `work` write what is to stand at `path`; see [`write_file`].
///
/// # Errors
/// Those of `work`, and of the system.
pub fn replace<E: From<io::Error>>(path: &Path, work: impl FnOnce(&mut Replacement) -> Result<(), E>) -> Result<(), E> {
    let mut file = Replacement::new(path)?;
    work(&mut file)?;
    Ok(file.finish()?)
}

/// What is to stand at a path, as it is written; see [`write_file`]. Dropped before it is finished, it leaves what was
/// there.
#[derive(Debug)]
pub struct Replacement {
    file: BufWriter<File>,
    /// The name it has for now and the one it gets; none where the path is written straight to.
    names: Option<(Temporary, PathBuf)>,
}

impl Replacement {
    /// Nothing so far.
    ///
    /// # Errors
    /// Those of the system: nothing can be written there.
    pub fn new(path: &Path) -> io::Result<Self> {
        let target = match fs::metadata(path) {
            Ok(there) if !there.is_file() => {
                let file = OpenOptions::new().write(true).open(path)?;
                return Ok(Self { file: BufWriter::new(file), names: None });
            }
            Ok(_) => fs::canonicalize(path)?,
            Err(_) => path.to_owned(),
        };
        let temporary = Temporary(temporary_beside(&target));
        let file = BufWriter::new(File::create(&temporary.0)?);
        Ok(Self { file, names: Some((temporary, target)) })
    }

    /// Puts it in its place.
    ///
    /// # Errors
    /// Those of the system; what was there stays.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        self.names.map_or(Ok(()), |(temporary, target)| temporary.rename(&target))
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A name in the same directory that no other writer uses: other processes have another id, and other threads another
/// count.
fn temporary_beside(target: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut name = target.file_name().map_or_else(OsString::new, OsString::from);
    name.push(format!(".{}.{count}.tmp", process::id()));
    target.with_file_name(name)
}

/// A file that is removed unless it was renamed.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Temporary {
    fn rename(self, target: &Path) -> io::Result<()> {
        fs::rename(&self.0, target)?;
        // There is nothing left to remove under the old name.
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Fails only if it was never created or is already gone.
        let _ = fs::remove_file(&self.0);
    }
}
