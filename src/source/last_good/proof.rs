//! Whether a key that the operator named is the one that sealed what is stored. Where no file at all can be unsealed it is
//! the key that is wrong, and not all the files: a file of its own, sealed and empty, tells one damaged file from that.
//!
//! A key of ours that was lost is made anew and cannot come back: nothing is asked of it here. What must not happen here:
//! an answer where the files cannot be read.

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

/// Looks whether the key is the one that sealed what this directory holds, these names among it.
///
/// # Errors
/// It is another one, or that cannot be known now; for the operator.
pub(in crate::source) fn check(
    (dir, source): (&Path, Source),
    file: &KeyFile,
    key: &Key,
    names: &[String],
) -> Result<(), String> {
    let KeyFile::Given(path) = file else { return Ok(()) };
    // The proof decides nothing against the key: alone it is nothing that could be lost.
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

/// Leaves the proof beside what is sealed next, unless it is there.
///
/// # Errors
/// It cannot be read or written now.
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
