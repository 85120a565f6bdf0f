//! Checks whether a key that the operator named sealed the stored files. When no file can be unsealed, the key is wrong
//! and not all the files: an empty sealed file, the proof, distinguishes that from a single damaged file.
//!
//! A lost key of podkeeper's own is made anew and cannot come back: it is not checked here. Never here: a verdict when
//! the files cannot be read.

use std::io;
use std::path::Path;

use super::key::KeyFile;
use super::load::read;
use super::sealed::{Key, Unusable};
use super::seen;
use crate::base::{durable, regular};
use crate::pod::Source;

/// The file's name in a directory of sealed files.
pub(super) const NAME: &str = "sealed-by";

/// Checks whether the key sealed the files of this directory, these names among them.
///
/// # Errors
/// Another key sealed them, or that cannot be known now; for the operator.
pub(in crate::source) fn check(
    (dir, source): (&Path, Source),
    file: &KeyFile,
    key: &Key,
    names: &[String],
) -> Result<(), String> {
    let KeyFile::Given(path) = file else { return Ok(()) };
    // A missing or damaged proof does not decide against the key: it holds no content itself.
    if read(&dir.join(NAME), u64::MAX).is_ok_and(|bytes| key.fits(source, NAME, &bytes).is_ok()) {
        return Ok(());
    }
    let (mut is_sealed, mut trouble) = (false, None);
    for name in names.iter().map(String::as_str).chain([seen::NAME]) {
        let file = dir.join(name);
        match read(&file, u64::MAX) {
            Ok(bytes) => match key.fits(source, name, &bytes) {
                Ok(()) => return Ok(()),
                Err(why) => is_sealed |= why == Unusable::Seal,
            },
            Err(e) if regular::is_trouble(&e) => {
                trouble = Some(format!("{} cannot be read: {e}", file.display()));
            }
            Err(_) => {}
        }
    }
    match trouble {
        _ if is_sealed => Err(format!(
            "the key file {} holds another key than the one that sealed what is in {}: all of that is left as it is for \
             a start with the right key, and nothing is stored until then",
            path.display(),
            dir.display()
        )),
        Some(why) => Err(why),
        None => Ok(()),
    }
}

/// Writes the proof beside the sealed files, unless it exists.
///
/// # Errors
/// The proof cannot be read or written now.
pub(in crate::source) fn leave(
    (dir, source): (&Path, Source),
    file: &KeyFile,
    key: &Key,
    nonce: [u8; 12],
) -> io::Result<()> {
    if matches!(file, KeyFile::Own(_)) {
        return Ok(());
    }
    let path = dir.join(NAME);
    match read(&path, u64::MAX) {
        Ok(bytes) if key.fits(source, NAME, &bytes).is_ok() => return Ok(()),
        Err(e) if regular::is_trouble(&e) => return Err(e),
        _ => {}
    }
    let proof = key.seal_proof(source, nonce).ok_or_else(|| io::Error::other("it cannot be sealed"))?;
    durable::write(&path, &proof)
}
